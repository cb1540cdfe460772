//! What a turn decides, as data.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use kruntimes_core::api::{RunSpec, WorkflowRunSpec, WorkflowRunStatus};
use kruntimes_core::time::Time;

use super::EnsureWorkspace;
use crate::location;
use crate::snapshot::Snapshot;

/// Result of one calculation.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Where the WorkflowRun is, after derivation.
    pub stage: Stage,
    /// Status to store, once the action is carried out and merged.
    pub desired: WorkflowRunStatus,
    /// The one thing to do.
    pub action: Action,
    /// Facts to supply before the affected targets can be decided; calculate again with them.
    pub needs: Vec<Need>,
    /// Used children without controller, to be adopted (W-46).
    pub adopt: ChildNames,
    /// When to calculate again although nothing is observed: the next deadline (W-209).
    pub wake: Option<Time>,
}

/// Names of direct children by kind, sorted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChildNames {
    /// Names of Runs.
    pub runs: Vec<String>,
    /// Names of WorkflowRuns.
    pub workflow_runs: Vec<String>,
}

impl ChildNames {
    /// Tells whether there is no child of any kind.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty() && self.workflow_runs.is_empty()
    }

    /// Adds names that may be there already.
    pub(super) fn add(&mut self, more: Self) {
        self.runs.extend(more.runs);
        self.workflow_runs.extend(more.workflow_runs);
        for names in [&mut self.runs, &mut self.workflow_runs] {
            names.sort();
            names.dedup();
        }
    }
}

/// Where a WorkflowRun is (W-58).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Not initialized.
    Empty,
    /// Initialized, nothing started.
    Pending,
    /// Something started.
    Running,
    /// Cancellation requested, children still to ask or to wait for.
    Cancelling,
    /// The end.
    Terminal,
}

/// The one thing to do in a turn (W-58).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Action {
    /// Nothing.
    None,
    /// Freeze the definition.
    Initialize(Initialize),
    /// Create children, at most one per job.
    StartRunnableSteps(Targets),
    /// Ask these children to cancel.
    RequestChildCancellation(ChildNames),
    /// Ask this WorkflowRun itself to cancel: a younger one of its group replaces it (W-203).
    CancelItself {
        /// Name of the younger one.
        replaced_by: String,
    },
}

/// What may start in one turn (W-78).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Targets {
    /// Child Runs, sorted by job.
    pub steps: Vec<StartStep>,
    /// Child WorkflowRuns, sorted by job.
    pub calls: Vec<StartCall>,
}

impl Targets {
    /// Tells whether nothing may start.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty() && self.calls.is_empty()
    }
}

/// A snapshot to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Initialize {
    /// Derived name; also the idempotency key.
    pub name: String,
    /// Labels of the snapshot.
    pub labels: BTreeMap<String, String>,
    /// What to write; absent when it was written before a crash (W-55).
    pub snapshot: Option<Arc<Snapshot>>,
}

/// One step and its place.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct StepKey {
    /// Job name.
    pub job: String,
    /// Step name.
    pub step: String,
    /// Step of the called Action.
    pub action_step: Option<String>,
}

impl fmt::Display for StepKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&location::path(
            &self.job,
            &self.step,
            self.action_step.as_deref(),
        ))
    }
}

/// A child Run to create, completely described.
#[derive(Clone, Debug, PartialEq)]
pub struct StartStep {
    /// Which step it executes.
    pub key: StepKey,
    /// Derived name; also the idempotency key.
    pub name: String,
    /// Labels that let it be found again.
    pub labels: BTreeMap<String, String>,
    /// The Run's spec.
    pub spec: RunSpec,
    /// Workspace to create first; absent when the job has none or has it already (W-123).
    pub workspace: Option<EnsureWorkspace>,
}

/// A child WorkflowRun to create, completely described.
#[derive(Clone, Debug, PartialEq)]
pub struct StartCall {
    /// The call job.
    pub job: String,
    /// Derived name; also the idempotency key.
    pub name: String,
    /// Labels that let it be found again.
    pub labels: BTreeMap<String, String>,
    /// The frozen output contract (W-103).
    pub annotations: BTreeMap<String, String>,
    /// The rendered Workflow.
    pub spec: WorkflowRunSpec,
}

/// A fact a calculation could not do without. Read it past every cache (W-17).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Need {
    /// A Run that status names and no list shows: add it to `children`, or its
    /// name to `absent`.
    ConfirmRun(String),
    /// A child WorkflowRun that no list shows: add it to `calls`, or its name
    /// to `absent_calls`.
    ConfirmWorkflowRun(String),
    /// A workspace that Runs use and no list shows: add it to `workspaces`, or
    /// its name to `absent_workspaces`.
    ConfirmWorkspace(String),
    /// An Action: add it, or its absence, to `definitions`.
    Action(String),
    /// A Workflow: add it, or its absence, to `definitions`.
    Workflow(String),
}

/// What became of one target.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// The Run exists and is ours, new or found.
    Started {
        /// The step.
        key: StepKey,
        /// Name of the Run.
        name: String,
    },
    /// The name is taken by something that is not ours (W-49).
    Foreign {
        /// The step.
        key: StepKey,
        /// `<namespace>/<name>` of the Run.
        run: String,
        /// `<namespace>/<name>` of the WorkflowRun.
        owner: String,
    },
    /// The API refuses the Run as invalid; trying again would not help (W-40).
    Invalid {
        /// The step.
        key: StepKey,
        /// Name of the Run.
        name: String,
        /// What the API says.
        cause: String,
    },
    /// The name of the workspace is taken by something that is not ours (W-49).
    ForeignWorkspace {
        /// The step that was to start.
        key: StepKey,
        /// `<namespace>/<name>` of the workspace.
        workspace: String,
        /// `<namespace>/<name>` of the WorkflowRun.
        owner: String,
    },
    /// The child WorkflowRun exists and is ours, new or found.
    Called {
        /// The call job.
        job: String,
        /// Name of the child.
        name: String,
    },
    /// The name of the child WorkflowRun is taken by something that is not ours (W-49).
    ForeignCall {
        /// The call job.
        job: String,
        /// `<namespace>/<name>` of the child.
        child: String,
        /// `<namespace>/<name>` of the WorkflowRun.
        owner: String,
    },
    /// The API refuses the child WorkflowRun as invalid (W-40).
    InvalidCall {
        /// The call job.
        job: String,
        /// Name of the child.
        name: String,
        /// What the API says.
        cause: String,
    },
}

impl Outcome {
    /// Returns the job that it is about.
    pub fn job(&self) -> &str {
        match self {
            Self::Started { key, .. }
            | Self::Foreign { key, .. }
            | Self::Invalid { key, .. }
            | Self::ForeignWorkspace { key, .. } => &key.job,
            Self::Called { job, .. }
            | Self::ForeignCall { job, .. }
            | Self::InvalidCall { job, .. } => job,
        }
    }
}
