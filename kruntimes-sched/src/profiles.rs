//! Several profiles in one process, and which Run gets which.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::builder::ProfileError;
use crate::calculate::{calculate, guarded};
use crate::decision::{Action, Decision};
use crate::identity::ProfileName;
use crate::profile::Profile;
use crate::run::Run;
use crate::snapshot::Snapshot;
use crate::waiting;

/// Condition and reason of a Run whose profile does not exist.
const UNKNOWN_PROFILE: &str = "UnknownProfile";

/// Maps a Run to the name of its profile.
type Selector = dyn Fn(&Run) -> ProfileName + Send + Sync;

/// The profiles that one process serves, by name (S-150).
#[derive(Clone)]
pub struct Profiles {
    by_name: BTreeMap<ProfileName, Profile>,
    selector: Arc<Selector>,
}

impl Profiles {
    /// Serves several profiles; `selector` says by name which one a Run gets.
    ///
    /// # Errors
    ///
    /// Returns a name that is used twice, or a profile whose QueueSort differs
    /// from that of the others: all Runs wait in one queue.
    pub fn new(
        profiles: impl IntoIterator<Item = (ProfileName, Profile)>,
        selector: impl Fn(&Run) -> ProfileName + Send + Sync + 'static,
    ) -> Result<Self, ProfileError> {
        let mut by_name: BTreeMap<ProfileName, Profile> = BTreeMap::new();
        let sort = |profile: &Profile| profile.queue_sort.first().map(|entry| entry.name);
        for (name, profile) in profiles {
            if by_name.values().any(|other| sort(other) != sort(&profile)) {
                return Err(ProfileError::SecondQueueSort(name.to_string()));
            }
            if by_name.insert(name.clone(), profile).is_some() {
                return Err(ProfileError::DuplicateProfile(name.to_string()));
            }
        }
        Ok(Self {
            by_name,
            selector: Arc::new(selector),
        })
    }

    /// Returns the profile of a name.
    pub fn get(&self, name: &str) -> Option<&Profile> {
        self.by_name.get(name)
    }

    /// Decides with the profile of the Run; without such a profile the Run waits.
    pub fn calculate(&self, snapshot: &Snapshot, run: &Run) -> Decision {
        let action = match guarded("selector", || (self.selector)(run)) {
            Ok(name) => match self.by_name.get(&name) {
                Some(profile) => return calculate(snapshot, run, profile),
                None => Action::Wait {
                    message: waiting::for_pods(run),
                    condition: UNKNOWN_PROFILE,
                    reasons: vec![UNKNOWN_PROFILE],
                },
            },
            Err(error) => Action::Retry { error },
        };
        Decision {
            action,
            evaluated: 0,
            rejections: Vec::new(),
            nomination: None,
            explanation: None,
        }
    }
}

impl fmt::Debug for Profiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Profiles")
            .field("by_name", &self.by_name)
            .finish_non_exhaustive()
    }
}
