//! The `WorkflowRun` kind: one execution of inline jobs (API reference, section 7).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::extension::{Decision, Reused, Strategy};
use super::{ArtifactRef, Condition, Job, is_default};
use crate::time::Time;

/// One execution of inline jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "crd",
    derive(kube::CustomResource, schemars::JsonSchema),
    kube(
        group = "kruntimes.io",
        version = "v1alpha1",
        kind = "WorkflowRun",
        plural = "workflowruns",
        singular = "workflowrun",
        shortname = "wfr",
        namespaced,
        status = "WorkflowRunStatus",
        derive = "PartialEq",
        doc = "One execution of inline jobs.",
        printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
        printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
    ),
    schemars(transform = crate::crd::workflow_run::spec)
)]
#[serde(rename_all = "camelCase")]
pub struct WorkflowRunSpec {
    /// Jobs by name; parallel unless `needs` orders them. Immutable.
    pub jobs: BTreeMap<String, Job>,
    /// Stops creating children and cancels active ones; never goes back to false.
    #[serde(default, skip_serializing_if = "is_default")]
    pub cancel_requested: bool,
    /// Rules for the whole execution. Immutable. Extension; refused unless the controller allows its members.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy: Option<Box<Strategy>>,
    /// Starts nothing while true; what runs goes on. Extension `gates`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub suspend: bool,
    /// Decisions by name of the gate they open or close for good. Extension `gates`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub decisions: BTreeMap<String, Decision>,
    /// Results of an earlier execution by job, which count as this one's. Immutable. Extension `rerun`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub reuse: BTreeMap<String, Reused>,
}

/// Execution state of a WorkflowRun.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "crd",
    derive(schemars::JsonSchema),
    schemars(transform = crate::crd::workflow_run::status)
)]
#[serde(rename_all = "camelCase")]
pub struct WorkflowRunStatus {
    /// Where the WorkflowRun is in its life.
    #[serde(default)]
    pub phase: WorkflowRunPhase,
    /// State by job name; absent until accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jobs: Option<BTreeMap<String, JobStatus>>,
    /// Frozen definition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot_name: Option<String>,
    /// Latest problem.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Conditions by type.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Result of the frozen Workflow outputs; only when `Succeeded`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub outputs: BTreeMap<String, String>,
    /// When the WorkflowRun has to be over. Extension `timeouts`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Time>,
}

/// Where a WorkflowRun is in its life.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
pub enum WorkflowRunPhase {
    /// Accepted, nothing started, or not yet seen.
    #[default]
    Pending,
    /// At least one target started.
    Running,
    /// Every job settled and none failed.
    Succeeded,
    /// At least one job failed, or the object was not accepted.
    Failed,
    /// Cancelled and every direct child terminal.
    Cancelled,
}

impl WorkflowRunPhase {
    /// Tells whether the phase is final.
    pub fn is_terminal(self) -> bool {
        match self {
            Self::Succeeded | Self::Failed | Self::Cancelled => true,
            Self::Pending | Self::Running => false,
        }
    }

    /// Returns the word the API uses.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Running => "Running",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
            Self::Cancelled => "Cancelled",
        }
    }
}

impl std::fmt::Display for WorkflowRunPhase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// State of one job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "crd",
    derive(schemars::JsonSchema),
    schemars(transform = crate::crd::workflow_run::job_status)
)]
#[serde(rename_all = "camelCase")]
pub struct JobStatus {
    /// Where the job is in its life.
    #[serde(default)]
    pub phase: JobPhase,
    /// Resolved predecessors, ascending and unique.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pre: Vec<String>,
    /// Child of a call job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow_run_name: Option<String>,
    /// Values of the job's output expressions.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub outputs: BTreeMap<String, String>,
    /// Newest successful reference per artifact name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub artifacts: BTreeMap<String, ArtifactRef>,
    /// Why the job failed or was skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The same for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// State of the steps in definition order; empty on call jobs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<StepStatus>,
    /// What other jobs go by where it differs from the phase. Extension `continue-on-error`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conclusion: Option<JobPhase>,
    /// When the job has to be over. Extension `timeouts`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Time>,
}

impl JobStatus {
    /// Returns what other jobs and the whole execution go by.
    pub fn conclusion(&self) -> JobPhase {
        self.conclusion.unwrap_or(self.phase)
    }
}

/// Where a job is in its life.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
pub enum JobPhase {
    /// May start; has no predecessors.
    #[default]
    Pending,
    /// Waits for predecessors.
    Waiting,
    /// Started.
    Running,
    /// Every step succeeded.
    Succeeded,
    /// A step or the call ended otherwise.
    Failed,
    /// A predecessor failed or was skipped.
    Skipped,
}

impl JobPhase {
    /// Tells whether the phase is final.
    pub fn is_settled(self) -> bool {
        match self {
            Self::Succeeded | Self::Failed | Self::Skipped => true,
            Self::Pending | Self::Waiting | Self::Running => false,
        }
    }

    /// Returns the word the API uses.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Waiting => "Waiting",
            Self::Running => "Running",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
            Self::Skipped => "Skipped",
        }
    }
}

impl std::fmt::Display for JobPhase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// State of one step.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "crd",
    derive(schemars::JsonSchema),
    schemars(transform = crate::crd::workflow_run::step_status)
)]
#[serde(rename_all = "camelCase")]
pub struct StepStatus {
    /// Name of the step.
    pub name: String,
    /// Where the step is in its life.
    #[serde(default)]
    pub phase: StepPhase,
    /// Child Run; absent on Action-call steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_name: Option<String>,
    /// Outputs of the child Run or of the Action.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub outputs: BTreeMap<String, String>,
    /// State of the Action's steps; Action-call steps only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub action_steps: Vec<ActionStepStatus>,
    /// What later steps go by where it differs from the phase. Extension `continue-on-error`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conclusion: Option<StepPhase>,
    /// Why the step was skipped. Extension `conditions`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl StepStatus {
    /// Returns what later steps and the job go by.
    pub fn conclusion(&self) -> StepPhase {
        self.conclusion.unwrap_or(self.phase)
    }
}

/// State of one step of a called Action.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "crd",
    derive(schemars::JsonSchema),
    schemars(transform = crate::crd::workflow_run::action_step_status)
)]
#[serde(rename_all = "camelCase")]
pub struct ActionStepStatus {
    /// Name of the Action step.
    pub name: String,
    /// Where the step is in its life.
    #[serde(default)]
    pub phase: StepPhase,
    /// Child Run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_name: Option<String>,
    /// Outputs of the child Run.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub outputs: BTreeMap<String, String>,
}

/// Where a step is in its life.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
pub enum StepPhase {
    /// Not started.
    #[default]
    Pending,
    /// Its child Run was created.
    Running,
    /// Its child Run succeeded.
    Succeeded,
    /// Its child Run failed, or it could not be built.
    Failed,
    /// Its child Run timed out.
    Timeout,
    /// Its child Run was cancelled.
    Cancelled,
    /// Its condition did not hold; it has no child Run. Extension `conditions`.
    Skipped,
}

impl StepPhase {
    /// Tells whether the step ended without success.
    pub fn is_unsuccessful(self) -> bool {
        match self {
            Self::Failed | Self::Timeout | Self::Cancelled => true,
            Self::Pending | Self::Running | Self::Succeeded | Self::Skipped => false,
        }
    }

    /// Tells whether the step is over and lets later ones start.
    pub fn is_done(self) -> bool {
        match self {
            Self::Succeeded | Self::Skipped => true,
            Self::Pending | Self::Running | Self::Failed | Self::Timeout | Self::Cancelled => false,
        }
    }

    /// Returns the word the API uses.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Running => "Running",
            Self::Succeeded => "Succeeded",
            Self::Skipped => "Skipped",
            Self::Failed => "Failed",
            Self::Timeout => "Timeout",
            Self::Cancelled => "Cancelled",
        }
    }
}

impl std::fmt::Display for StepPhase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}
