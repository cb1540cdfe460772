//! The `Run` kind: one execution on one Runtime Pod (API reference, section 3).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

#[cfg(feature = "crd")]
use super::RunStatus;
use super::{ArtifactRef, is_default};
use crate::duration::Duration;
use crate::label::LabelSelector;
use crate::quantity::Quantity;

/// What to run, where it may run, and for how long.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "crd",
    derive(kube::CustomResource, schemars::JsonSchema),
    kube(
        group = "kruntimes.io",
        version = "v1alpha1",
        kind = "Run",
        plural = "runs",
        singular = "run",
        shortname = "rn",
        namespaced,
        status = "RunStatus",
        derive = "PartialEq",
        doc = "One execution on one Runtime Pod: a task, a function or a session.",
        printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
        printcolumn(name = "Assigned Pod", type_ = "string", json_path = ".status.assignedPod"),
        printcolumn(name = "Runtime", type_ = "string", json_path = ".spec.runtime"),
        printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
    ),
    schemars(transform = crate::crd::run::spec)
)]
#[serde(rename_all = "camelCase")]
pub struct RunSpec {
    /// Name of the Runtime whose Pods may execute the Run. Immutable.
    pub runtime: String,
    /// Execution mode: exactly one member is set. Immutable.
    pub mode: Mode,
    /// Where code comes from. Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
    /// Environment of the workload; later duplicates win. Immutable.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<EnvVar>,
    /// Budget measured from `status.startTime`; absent means no limit. Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
    /// How failures are repeated; absent means one attempt. Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_policy: Option<RetryPolicy>,
    /// Logical capacity requests. Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    /// PersistentWorkspace of the same namespace. Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<WorkspaceRef>,
    /// Placement relative to other Runs. Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Affinity>,
    /// Artifacts staged before the start. Immutable.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifact_inputs: Vec<ArtifactInput>,
    /// Asks for immediate cancellation; never goes back to false.
    #[serde(default, skip_serializing_if = "is_default")]
    pub cancel_requested: bool,
    /// One-way termination request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub termination: Option<Termination>,
    /// Retention after completion, in seconds; absent keeps the Run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_seconds_after_finished: Option<i32>,
}

/// Execution mode of a Run. Exactly one member is set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "crd",
    derive(schemars::JsonSchema),
    schemars(transform = crate::crd::run::mode)
)]
#[serde(rename_all = "camelCase")]
pub struct Mode {
    /// One-shot process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskMode>,
    /// Callable registration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function: Option<FunctionMode>,
    /// Stateful sandbox that holds its Runtime Pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionMode>,
}

/// A one-shot process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "crd",
    derive(schemars::JsonSchema),
    schemars(transform = crate::crd::run::task)
)]
#[serde(rename_all = "camelCase")]
pub struct TaskMode {
    /// Script path relative to the work directory; ignored with an inline source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entrypoint: Option<String>,
    /// Arguments; never delivered to an inline source.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
}

/// A callable registration.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "crd",
    derive(schemars::JsonSchema),
    schemars(transform = crate::crd::run::function)
)]
#[serde(rename_all = "camelCase")]
pub struct FunctionMode {
    /// Runtime-defined entry, such as `module.function`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handler: Option<String>,
    /// Idle expiry of one registration, in seconds; absent means never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_timeout_seconds: Option<i32>,
}

/// A stateful sandbox.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "crd",
    derive(schemars::JsonSchema),
    schemars(transform = crate::crd::run::session)
)]
#[serde(rename_all = "camelCase")]
pub struct SessionMode {
    /// The session ends when no heartbeat arrives for this many seconds; absent means no lease.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_timeout_seconds: Option<i32>,
    /// Queued mutations, 1 to 32.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_size: Option<i32>,
    /// Limit per operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation_timeout: Option<Duration>,
}

/// Where code comes from. An empty source is the same as none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "crd",
    derive(schemars::JsonSchema),
    schemars(transform = crate::crd::run::source)
)]
#[serde(rename_all = "camelCase")]
pub struct Source {
    /// One script or file. Excludes `repoURL`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inline: Option<String>,
    /// Relative file path of the inline text; function mode only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inline_path: Option<String>,
    /// Git URL: `https://…`, `ssh://…` or `git@host:path`.
    #[serde(default, rename = "repoURL", skip_serializing_if = "Option::is_none")]
    pub repo_url: Option<String>,
    /// Commit or other ref to check out; needs `repoURL`.
    #[serde(default, rename = "commitSHA", skip_serializing_if = "Option::is_none")]
    pub commit_sha: Option<String>,
}

/// One environment variable. Only `name` and `value` take effect.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "crd",
    derive(schemars::JsonSchema),
    schemars(transform = crate::crd::run::env_var)
)]
#[serde(rename_all = "camelCase")]
pub struct EnvVar {
    /// Variable name.
    pub name: String,
    /// Literal value; absent means empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Accepted in the shape of the core API and never resolved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_from: Option<serde_json::Map<String, serde_json::Value>>,
}

/// How failures are repeated.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "crd",
    derive(schemars::JsonSchema),
    schemars(transform = crate::crd::run::retry_policy)
)]
#[serde(rename_all = "camelCase")]
pub struct RetryPolicy {
    /// Total attempts, the first included; 1 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<i32>,
    /// Base delay; 1 s when absent or not positive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backoff: Option<Duration>,
    /// Reasons that may be repeated; empty means every reason except `Cancelled`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub retryable_reasons: Vec<String>,
}

/// Logical capacity requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "crd",
    derive(schemars::JsonSchema),
    schemars(transform = crate::crd::run::resources)
)]
#[serde(rename_all = "camelCase")]
pub struct Resources {
    /// Whole numbers by resource name; `runs` is built in.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub requests: BTreeMap<String, Quantity>,
}

/// Reference to a PersistentWorkspace of the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "crd",
    derive(schemars::JsonSchema),
    schemars(transform = crate::crd::run::workspace_ref)
)]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceRef {
    /// Name of the PersistentWorkspace.
    pub name: String,
    /// Only `PersistentWorkspace`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Only `kruntimes.io/v1alpha1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_group: Option<String>,
}

/// One artifact to stage before the start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "crd",
    derive(schemars::JsonSchema),
    schemars(transform = crate::crd::run::artifact_input)
)]
#[serde(rename_all = "camelCase")]
pub struct ArtifactInput {
    /// What to fetch.
    #[serde(rename = "ref")]
    pub reference: ArtifactRef,
    /// Destination below the work directory.
    pub path: String,
}

/// One-way termination request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Termination {
    /// How to end.
    pub mode: TerminationMode,
}

/// How a termination request ends a Run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
pub enum TerminationMode {
    /// Stop the work now.
    Immediate,
    /// Finish accepted operations and export artifacts; sessions only.
    Drain,
}

/// Placement relative to other Runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(
    feature = "crd",
    derive(schemars::JsonSchema),
    schemars(transform = crate::crd::run::affinity)
)]
#[serde(rename_all = "camelCase")]
pub struct Affinity {
    /// Be where matching Runs are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_affinity: Option<RunAffinity>,
    /// Be where matching Runs are not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_anti_affinity: Option<RunAffinity>,
}

/// Required and preferred terms of one direction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(
    feature = "crd",
    derive(schemars::JsonSchema),
    schemars(transform = crate::crd::run::run_affinity)
)]
#[serde(rename_all = "camelCase")]
pub struct RunAffinity {
    /// Every term must hold while choosing a Pod.
    #[serde(
        default,
        rename = "requiredDuringSchedulingIgnoredDuringExecution",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub required: Vec<RunAffinityTerm>,
    /// Terms that only rank feasible Pods.
    #[serde(
        default,
        rename = "preferredDuringSchedulingIgnoredDuringExecution",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub preferred: Vec<WeightedRunAffinityTerm>,
}

/// Which Runs count, and what "together" means.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(
    feature = "crd",
    derive(schemars::JsonSchema),
    schemars(transform = crate::crd::run::term)
)]
#[serde(rename_all = "camelCase")]
pub struct RunAffinityTerm {
    /// Selects Runs by label; must not be empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<LabelSelector>,
    /// Only `kruntimes.io/runtime-pod`.
    pub topology_key: String,
}

/// A preferred term and its weight.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(
    feature = "crd",
    derive(schemars::JsonSchema),
    schemars(transform = crate::crd::run::weighted_term)
)]
#[serde(rename_all = "camelCase")]
pub struct WeightedRunAffinityTerm {
    /// 1 to 100.
    pub weight: i32,
    /// The term.
    pub run_affinity_term: RunAffinityTerm,
}
