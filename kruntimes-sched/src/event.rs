//! What happens in the world, and whether it can help a Run that waits.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::identity::{Namespace, RuntimeName, WorkspaceName};
use crate::pod::Pod;
use crate::run::Run;

/// Kind of an [`Event`]; plugins declare the kinds they listen to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[non_exhaustive]
pub enum EventKind {
    /// A Runtime Pod came, went or changed its scheduling state (S-23).
    PodChanged,
    /// A Run gave up capacity (S-22).
    CapacityReleased,
    /// A PersistentWorkspace came, went or changed.
    WorkspaceChanged,
    /// A Run became active, and with that a target of affinity.
    RunActive,
}

impl EventKind {
    /// Every kind there is.
    pub const ALL: [Self; 4] = [
        Self::PodChanged,
        Self::CapacityReleased,
        Self::WorkspaceChanged,
        Self::RunActive,
    ];

    /// Says in a few words what has to happen.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::PodChanged => "a Runtime Pod of the pool appears or changes",
            Self::CapacityReleased => "a Run of the pool ends",
            Self::WorkspaceChanged => "the PersistentWorkspace changes",
            Self::RunActive => "a Run that the affinity selects becomes active",
        }
    }
}

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Something that may make a Run schedulable (S-21).
///
/// An update of the Run itself is no event: it always wakes the Run.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A Runtime Pod came, went or changed its scheduling state.
    PodChanged {
        /// Namespace of the Pod.
        namespace: &'a Namespace,
        /// Pool of the Pod; a Pod that changes its pool makes two events.
        runtime: &'a RuntimeName,
        /// The Pod as it was seen last.
        pod: &'a Pod,
    },
    /// A Run gave up capacity.
    CapacityReleased {
        /// The Run.
        run: &'a Run,
    },
    /// A PersistentWorkspace came, went or changed.
    WorkspaceChanged {
        /// Its namespace.
        namespace: &'a Namespace,
        /// Its name.
        workspace: &'a WorkspaceName,
    },
    /// A Run became active.
    RunActive {
        /// The Run.
        run: &'a Run,
    },
}

impl Event<'_> {
    /// Returns the kind.
    pub fn kind(&self) -> EventKind {
        match self {
            Self::PodChanged { .. } => EventKind::PodChanged,
            Self::CapacityReleased { .. } => EventKind::CapacityReleased,
            Self::WorkspaceChanged { .. } => EventKind::WorkspaceChanged,
            Self::RunActive { .. } => EventKind::RunActive,
        }
    }

    /// Tells whether the event took place in the Run's own pool, or to its own workspace.
    ///
    /// Adapters find such Runs by index (S-26); no plugin is asked about others.
    pub fn concerns(&self, waiting: &Run) -> bool {
        match self {
            Self::PodChanged {
                namespace, runtime, ..
            } => waiting.namespace == **namespace && waiting.runtime == **runtime,
            Self::CapacityReleased { run } | Self::RunActive { run } => {
                waiting.namespace == run.namespace
                    && waiting.runtime == run.runtime
                    && waiting.uid != run.uid
            }
            Self::WorkspaceChanged {
                namespace,
                workspace,
            } => waiting.namespace == **namespace && waiting.workspace.as_ref() == Some(*workspace),
        }
    }
}

/// What a plugin says about an event and a Run it rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hint {
    /// The event may help: the Run is worth another cycle.
    Wake,
    /// The event cannot help.
    Skip,
}
