//! The thing to place.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use jiff::Timestamp;
use kruntimes_core::api::Affinity;
use kruntimes_core::quantity::Quantity;
use kruntimes_core::resources::{Amounts, RUNS};
use serde::{Deserialize, Serialize};

use crate::identity::{GroupKey, Namespace, RunName, RunUid, RuntimeName, WorkspaceName};
use crate::shared;

/// Label keys and values.
pub type Labels = BTreeMap<String, String>;

/// What a caller's own type must say to be placed (S-145).
///
/// Identity and request are all that is required; everything else has a
/// default that switches the feature off (S-146).
pub trait Placeable {
    /// Namespace; nothing outside it has any influence.
    fn namespace(&self) -> &str;
    /// Name within the namespace.
    fn name(&self) -> &str;
    /// Identity that is never used again.
    fn uid(&self) -> &str;
    /// What it holds while it is active; see [`kruntimes_core::resources::request_of`].
    fn request(&self) -> Amounts;

    /// Pool it wants, for messages; choosing the places of the pool is up to the snapshot.
    fn runtime(&self) -> Option<&str> {
        None
    }

    /// Labels that selectors of others see.
    fn labels(&self) -> Labels {
        Labels::new()
    }

    /// Affinity towards other things to place.
    fn affinity(&self) -> Option<Affinity> {
        None
    }

    /// Workspace it must be placed with.
    fn workspace(&self) -> Option<&str> {
        None
    }

    /// Whether it tolerates no neighbour on its place.
    fn exclusive(&self) -> bool {
        false
    }

    /// Attempt, counting from one.
    fn attempt(&self) -> i32 {
        1
    }

    /// When it came into being.
    fn created(&self) -> Option<Timestamp> {
        None
    }

    /// Larger goes first.
    fn priority(&self) -> i32 {
        0
    }

    /// Things with the same key are placed all or none.
    fn group(&self) -> Option<&str> {
        None
    }
}

/// A Run as plugins see it: every field judged and converted once.
///
/// What other Runs may well have in common is its [`RunKind`], which reads and
/// changes as if it were part of the Run: `run.labels`, `run.priority = 3`.
/// Runs that were [shared](crate::Vocabulary::share) keep it in one piece.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Run {
    /// Name within the namespace.
    pub name: RunName,
    /// Identity that is never used again.
    pub uid: RunUid,
    /// Attempt, counting from one.
    pub attempt: i32,
    /// When it came into being.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created: Option<Timestamp>,
    /// Everything that does not tell it from others.
    #[serde(flatten, with = "shared")]
    pub kind: Arc<RunKind>,
}

/// What a Run may have in common with others.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunKind {
    /// Namespace.
    pub namespace: Namespace,
    /// Pool it wants.
    pub runtime: RuntimeName,
    /// Labels that selectors of others see.
    #[serde(with = "shared")]
    pub labels: Arc<Labels>,
    /// What it holds while it is active.
    #[serde(with = "shared")]
    pub request: Arc<Amounts>,
    /// Affinity towards other Runs.
    #[serde(
        default,
        with = "shared::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub affinity: Option<Arc<Affinity>>,
    /// Workspace it must be placed with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<WorkspaceName>,
    /// Whether it tolerates no neighbour on its place.
    pub exclusive: bool,
    /// Larger goes first.
    pub priority: i32,
    /// Runs with the same key are placed all or none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupKey>,
}

impl Deref for Run {
    type Target = RunKind;

    fn deref(&self) -> &RunKind {
        &self.kind
    }
}

impl DerefMut for Run {
    /// Makes the kind the Run's own before it is changed.
    fn deref_mut(&mut self) -> &mut RunKind {
        Arc::make_mut(&mut self.kind)
    }
}

impl RunKind {
    /// Makes the kind of Runs that ask for one `runs` and nothing else.
    pub fn new(namespace: impl Into<Namespace>) -> Self {
        Self {
            namespace: namespace.into(),
            runtime: RuntimeName::default(),
            labels: Arc::default(),
            request: Arc::new(Amounts::from([(RUNS.to_owned(), Quantity::from_whole(1))])),
            affinity: None,
            workspace: None,
            exclusive: false,
            priority: 0,
            group: None,
        }
    }

    /// Makes a Run of this kind, at its first attempt.
    pub fn run(self, name: impl Into<RunName>, uid: impl Into<RunUid>) -> Run {
        Run {
            name: name.into(),
            uid: uid.into(),
            attempt: 1,
            created: None,
            kind: Arc::new(self),
        }
    }
}

impl Run {
    /// Makes a Run that asks for one `runs` and nothing else.
    pub fn new(
        namespace: impl Into<Namespace>,
        name: impl Into<RunName>,
        uid: impl Into<RunUid>,
    ) -> Self {
        RunKind::new(namespace).run(name, uid)
    }

    /// Reads a caller's own type.
    pub fn of(item: &impl Placeable) -> Self {
        let kind = RunKind {
            namespace: item.namespace().into(),
            runtime: item.runtime().unwrap_or_default().into(),
            labels: Arc::new(item.labels()),
            request: Arc::new(item.request()),
            affinity: item.affinity().map(Arc::new),
            workspace: item.workspace().map(WorkspaceName::from),
            exclusive: item.exclusive(),
            priority: item.priority(),
            group: item.group().map(GroupKey::from),
        };
        Self {
            attempt: item.attempt(),
            created: item.created(),
            ..kind.run(item.name(), item.uid())
        }
    }
}
