//! What placement needs to know of a PersistentWorkspace.

use kruntimes_core::api::WorkspacePhase;
use serde::{Deserialize, Serialize};

use crate::identity::{PodName, PodUid, RuntimeName, WorkspaceName};

/// A PersistentWorkspace as plugins see it. It consumes no capacity (S-51).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Workspace {
    /// Name within the namespace of its Runs.
    pub name: WorkspaceName,
    /// Runtime it belongs to.
    pub runtime: RuntimeName,
    /// Where it is in its life.
    pub phase: WorkspacePhase,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Pod that holds the data, once bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound_pod: Option<PodName>,
    /// UID of that Pod; a namesake is another Pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound_pod_uid: Option<PodUid>,
}

impl Workspace {
    /// Makes a workspace that waits for a Pod.
    pub fn new(name: impl Into<WorkspaceName>, runtime: impl Into<RuntimeName>) -> Self {
        Self {
            name: name.into(),
            runtime: runtime.into(),
            phase: WorkspacePhase::Pending,
            deleting: false,
            bound_pod: None,
            bound_pod_uid: None,
        }
    }

    /// Binds the workspace to a Pod.
    pub fn bound(mut self, pod: impl Into<PodName>, uid: impl Into<PodUid>) -> Self {
        self.phase = WorkspacePhase::Bound;
        self.bound_pod = Some(pod.into());
        self.bound_pod_uid = Some(uid.into());
        self
    }

    /// Moves the workspace to a phase.
    pub fn phase(mut self, phase: WorkspacePhase) -> Self {
        self.phase = phase;
        self
    }
}
