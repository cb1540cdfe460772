//! What a turn is decided from.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kruntimes_core::api::{
    ArtifactRef, Decision, RunPhase, WorkflowRunSpec, WorkflowRunStatus, WorkspacePhase,
};
use kruntimes_core::time::Time;

use crate::concurrency::Contender;
use crate::definitions::Definitions;
use crate::extend::Extensions;
use crate::snapshot::{Snapshot, SnapshotError};

/// Everything known about one WorkflowRun at one moment.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// The present, for transition times of conditions.
    pub now: Time,
    /// Namespace of the WorkflowRun and of all its children.
    pub namespace: String,
    /// Name of the WorkflowRun; prefix of derived names.
    pub name: String,
    /// UID of the WorkflowRun; fences reuse of the name.
    pub uid: String,
    /// Generation of the spec.
    pub generation: Option<i64>,
    /// Whether deletion has begun: such an object is left alone (W-64).
    pub deleting: bool,
    /// Annotations; the output contract is read from them once, at initialization.
    pub annotations: BTreeMap<String, String>,
    /// The stored spec.
    pub spec: WorkflowRunSpec,
    /// The stored status.
    pub status: WorkflowRunStatus,
    /// The snapshot with the derived name, if there is one.
    pub snapshot: Option<Arc<Snapshot>>,
    /// Runs that carry this WorkflowRun's UID label, in any order.
    pub children: Vec<Child>,
    /// WorkflowRuns that carry this WorkflowRun's UID label, in any order.
    pub calls: Vec<Called>,
    /// Workspaces that carry this WorkflowRun's UID label, in any order.
    pub workspaces: Vec<Workspace>,
    /// Names of Runs that an uncached read did not find (W-82).
    pub absent: BTreeSet<String>,
    /// Names of child WorkflowRuns that an uncached read did not find.
    pub absent_calls: BTreeSet<String>,
    /// Names of workspaces that an uncached read did not find.
    pub absent_workspaces: BTreeSet<String>,
    /// Definitions that were read for this turn.
    pub definitions: Definitions,
    /// Choices of the operator.
    pub policy: Policy,
    /// When the WorkflowRun was created; its age in its concurrency group (W-203).
    pub created: Time,
    /// The other live members of its concurrency group, in any order.
    pub rivals: Vec<Contender>,
    /// Decisions about gates, beside those of the spec (W-202).
    pub decisions: BTreeMap<String, Decision>,
}

/// Choices of the operator that are not in any object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Policy {
    /// When a job gets a workspace of its own.
    pub job_workspace: JobWorkspace,
    /// When the Workflows that jobs call are looked at for the first time.
    pub call_validation: CallValidation,
    /// What is accepted beyond the built-in API; nothing unless set (section 18.1).
    pub extensions: Extensions,
    /// Whether Runs of a job without workspace prefer the Pods of their brothers (W-126).
    ///
    /// It is a hint, and one for Runs that overlap: terms look at active Runs only.
    pub affinity_hint: bool,
}

/// When the Workflows that jobs call are looked at for the first time (W-18).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallValidation {
    /// When the call becomes ready; a problem fails that job.
    #[default]
    AtCall,
    /// At initialization too; a problem refuses the WorkflowRun.
    AtInitialize,
}

/// When a job gets a workspace of its own (W-122).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum JobWorkspace {
    /// Never: steps of one job share no files.
    Never,
    /// When the job becomes two Runs or more, Action steps counted.
    #[default]
    MultiStep,
    /// Always.
    Always,
}

/// One observed child Run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Child {
    /// Name of the Run.
    pub name: String,
    /// UID of the Run.
    pub uid: String,
    /// Job named by its label.
    pub job: String,
    /// Step named by its label.
    pub step: String,
    /// Action step named by its label.
    pub action_step: Option<String>,
    /// Who controls it.
    pub ownership: Ownership,
    /// Where it is in its life.
    pub phase: RunPhase,
    /// Its outputs.
    pub outputs: BTreeMap<String, String>,
    /// Its artifacts.
    pub artifacts: Vec<ArtifactRef>,
    /// The workspace it was given.
    pub workspace: Option<String>,
    /// Whether it was asked to cancel, by whatever means (W-88).
    pub cancel_asked: bool,
    /// Whether its deletion has begun.
    pub deleting: bool,
    /// Reason of its end.
    pub reason: String,
    /// What it says about itself.
    pub message: String,
}

/// One observed child WorkflowRun.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Called {
    /// Name of the child; what tells which job it belongs to.
    pub name: String,
    /// UID of the child.
    pub uid: String,
    /// Who controls it.
    pub ownership: Ownership,
    /// Its annotations, which hold the output contract until it publishes (W-105).
    pub annotations: BTreeMap<String, String>,
    /// Its status.
    pub status: WorkflowRunStatus,
    /// Whether it was asked to cancel.
    pub cancel_asked: bool,
}

/// One observed job workspace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Workspace {
    /// Name of the workspace.
    pub name: String,
    /// Where it is in its life.
    pub phase: WorkspacePhase,
    /// Whether its deletion has begun.
    pub deleting: bool,
}

/// Who controls an observed object (W-46).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ownership {
    /// This WorkflowRun.
    #[default]
    Controlled,
    /// Nobody; it is adopted when it is used.
    Orphan,
    /// Something else; it is ignored however it is labelled.
    Foreign,
}

impl State {
    /// Returns `<namespace>/<name>`.
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// Refuses a picture that contradicts itself; nothing is guessed (W-54).
    ///
    /// # Errors
    ///
    /// Jobs in status without a snapshot to read them from, unless the end is
    /// reached and nothing will be read any more.
    pub fn check(&self) -> Result<(), SnapshotError> {
        if self.deleting || self.status.phase.is_terminal() || self.snapshot.is_some() {
            return Ok(());
        }
        match (&self.status.snapshot_name, &self.status.jobs) {
            (Some(name), _) => Err(SnapshotError::Missing(format!("{}/{name}", self.namespace))),
            (None, Some(_)) => Err(SnapshotError::Unnamed(self.full_name())),
            (None, None) => Ok(()),
        }
    }
}
