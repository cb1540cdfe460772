//! What a turn decides, as data.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use kruntimes_core::api::{RunSpec, WorkflowRunStatus};

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
    /// Names of used Runs without controller, to be adopted (W-46).
    pub adopt: Vec<String>,
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
    /// Create child Runs, at most one per job.
    StartRunnableSteps(Vec<StartStep>),
    /// Ask these child Runs to cancel, sorted by name.
    RequestChildCancellation(Vec<String>),
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
}

/// A fact a calculation could not do without.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Need {
    /// A Run that status names and no list shows. Read it uncached: add it to
    /// `children`, or its name to `absent`.
    ConfirmRun(String),
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
}
