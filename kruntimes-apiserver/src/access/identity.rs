//! The caller of a request, as Kubernetes describes users.

use std::collections::BTreeMap;

/// The group whose members may do everything.
pub(crate) const MASTERS: &str = "system:masters";
/// The group of everybody who has proved who they are.
pub(crate) const AUTHENTICATED: &str = "system:authenticated";

/// A user with groups; a request carries the one it is made for as an `Arc<Identity>` extension.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Identity {
    /// The user name; never empty for a request that was let in.
    pub user: String,
    /// What tells users of one name apart; often empty.
    pub uid: String,
    /// Groups in the order in which they were given.
    pub groups: Vec<String>,
    /// Whatever else is known about the user.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl Identity {
    /// Describes a user without groups.
    pub fn new(user: impl Into<String>) -> Self {
        Self {
            user: user.into(),
            ..Self::default()
        }
    }

    /// Makes the user a member of one more group; a second time changes nothing.
    pub fn group(mut self, group: impl Into<String>) -> Self {
        let group = group.into();
        if !self.groups.contains(&group) {
            self.groups.push(group);
        }
        self
    }

    /// Returns the user that may do everything, which in-process callers are.
    pub fn system_admin() -> Self {
        Self::new("system:admin")
            .group(MASTERS)
            .group(AUTHENTICATED)
    }

    /// Returns who calls without credentials.
    pub(crate) fn anonymous() -> Self {
        Self::new("system:anonymous").group("system:unauthenticated")
    }

    pub(crate) fn is_master(&self) -> bool {
        self.groups.iter().any(|group| group == MASTERS)
    }
}
