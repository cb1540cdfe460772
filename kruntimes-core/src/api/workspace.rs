//! The `PersistentWorkspace` kind: a directory that outlives Runs (API reference, section 5).

use serde::{Deserialize, Serialize};

use super::Condition;
use crate::time::Time;

/// A named directory that outlives single Runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "crd",
    derive(kube::CustomResource, schemars::JsonSchema),
    kube(
        group = "kruntimes.io",
        version = "v1alpha1",
        kind = "PersistentWorkspace",
        plural = "persistentworkspaces",
        singular = "persistentworkspace",
        shortname = "pw",
        namespaced,
        status = "PersistentWorkspaceStatus",
        derive = "PartialEq",
        doc = "A named directory that outlives single Runs.",
        printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
        printcolumn(name = "Runtime", type_ = "string", json_path = ".spec.runtime"),
        printcolumn(name = "Bound Pod", type_ = "string", json_path = ".status.boundPod"),
        printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
    ),
    schemars(transform = crate::crd::workspace::spec)
)]
#[serde(rename_all = "camelCase")]
pub struct PersistentWorkspaceSpec {
    /// Runtime whose volume holds the data.
    pub runtime: String,
    /// Where the data lives.
    #[serde(default)]
    pub mode: WorkspaceMode,
    /// Expiry after the last use, in seconds; absent means none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_seconds_after_unused: Option<i32>,
    /// What happens at expiry.
    #[serde(default)]
    pub cleanup_policy: CleanupPolicy,
}

/// Where the data of a workspace lives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
pub enum WorkspaceMode {
    /// On one Runtime Pod.
    #[default]
    RuntimePodLocal,
}

/// What happens to an unused workspace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
pub enum CleanupPolicy {
    /// Deleted when its TTL has passed.
    #[default]
    DeleteAfterTTL,
    /// Never deleted automatically.
    Retain,
}

/// Where a workspace is and whether it may be used.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "crd",
    derive(schemars::JsonSchema),
    schemars(transform = crate::crd::workspace::status)
)]
#[serde(rename_all = "camelCase")]
pub struct PersistentWorkspaceStatus {
    /// Where the workspace is in its life.
    #[serde(default)]
    pub phase: WorkspacePhase,
    /// Copy of `spec.runtime` once bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<String>,
    /// Directory in the Runtime Pod once bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Pod that holds the data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound_pod: Option<String>,
    /// UID of that Pod; never changes once set.
    #[serde(
        default,
        rename = "boundPodUID",
        skip_serializing_if = "Option::is_none"
    )]
    pub bound_pod_uid: Option<String>,
    /// When it last became unused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_used_time: Option<Time>,
    /// Conditions by type.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// Where a workspace is in its life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
pub enum WorkspacePhase {
    /// Waiting for a Pod.
    #[default]
    Pending,
    /// Usable.
    Bound,
    /// Its Pod is gone; final.
    Lost,
    /// Cleanup was requested; final.
    Released,
}
