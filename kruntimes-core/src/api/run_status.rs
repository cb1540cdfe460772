//! The status of a Run: phase, assignment, endpoint and results (API reference, section 3.6).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{ArtifactRef, ArtifactStore, Condition};
use crate::time::Time;

/// What happened to a Run so far.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "crd",
    derive(schemars::JsonSchema),
    schemars(transform = crate::crd::run::status)
)]
#[serde(rename_all = "camelCase")]
pub struct RunStatus {
    /// Where the Run is in its life.
    #[serde(default)]
    pub phase: RunPhase,
    /// Name of the assigned Runtime Pod; set and cleared with the UID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assigned_pod: Option<String>,
    /// UID of the assigned Pod; fences reuse of the name.
    #[serde(
        default,
        rename = "assignedPodUID",
        skip_serializing_if = "Option::is_none"
    )]
    pub assigned_pod_uid: Option<String>,
    /// Where traffic of a function or session goes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<Endpoint>,
    /// Diagnostic summary of at most 1024 bytes; not logs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When the Run was claimed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// When the Run became terminal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<Time>,
    /// Values from the outputs file; only on `Succeeded`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub outputs: BTreeMap<String, String>,
    /// Stored artifacts; only on `Succeeded`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifact_refs: Vec<ArtifactRef>,
    /// Store settings frozen before the first upload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact_store: Option<ArtifactStore>,
    /// Counts from 1; absent until the first failure or the terminal write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<i32>,
    /// Conditions by type.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// Where a Run is in its life.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
pub enum RunPhase {
    /// Waiting for a place.
    #[default]
    Pending,
    /// Assigned, not yet claimed.
    Scheduled,
    /// Executing, registering, or waiting out a retry on the same Pod.
    Running,
    /// Function or session accepts traffic.
    Ready,
    /// Session drains and exports.
    Finalizing,
    /// Ended well.
    Succeeded,
    /// Ended badly.
    Failed,
    /// A deadline passed.
    Timeout,
    /// Cancelled on request.
    Cancelled,
}

impl RunPhase {
    /// Tells whether the phase is final.
    pub fn is_terminal(self) -> bool {
        match self {
            Self::Succeeded | Self::Failed | Self::Timeout | Self::Cancelled => true,
            Self::Pending | Self::Scheduled | Self::Running | Self::Ready | Self::Finalizing => {
                false
            }
        }
    }

    /// Tells whether a Run in this phase holds capacity once it has a Pod.
    pub fn is_active(self) -> bool {
        match self {
            Self::Scheduled | Self::Running | Self::Ready | Self::Finalizing => true,
            Self::Pending | Self::Succeeded | Self::Failed | Self::Timeout | Self::Cancelled => {
                false
            }
        }
    }

    /// Returns the word the API uses.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Scheduled => "Scheduled",
            Self::Running => "Running",
            Self::Ready => "Ready",
            Self::Finalizing => "Finalizing",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
            Self::Timeout => "Timeout",
            Self::Cancelled => "Cancelled",
        }
    }
}

impl std::fmt::Display for RunPhase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Where traffic of a function or session goes. Its presence is no readiness signal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "crd",
    derive(schemars::JsonSchema),
    schemars(transform = crate::crd::run::endpoint)
)]
#[serde(rename_all = "camelCase")]
pub struct Endpoint {
    /// Transport of the URL.
    pub protocol: EndpointProtocol,
    /// Opaque to clients; contains the Run UID.
    pub url: String,
    /// Trust bundle as base64 of PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_bundle: Option<String>,
}

/// Transport of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
pub enum EndpointProtocol {
    /// Plain HTTP.
    #[serde(rename = "HTTP")]
    Http,
    /// HTTP over TLS.
    #[serde(rename = "HTTPS")]
    Https,
}
