//! Reasons and messages of a WorkflowRun status, word for word (W-189).

use kruntimes_core::api::{StepPhase, WorkflowRunPhase};
use kruntimes_core::limits::{
    OUTPUTS_MAX_BYTES, OUTPUTS_MAX_KEYS, STATUS_MESSAGE_MAX, WORKFLOW_OUTPUTS_MAX_BYTES,
};
use kruntimes_core::message::{bounded, quoted};

/// Message of the condition `Accepted`.
pub const ACCEPTED: &str = "WorkflowRun accepted and initialized";
/// Message of a Run that was cancelled before it started anything.
pub const CANCELLED: &str = "WorkflowRun was cancelled";
/// Message of the condition `Completed` after success.
pub const SUCCEEDED: &str = "no job failed";

/// Reason of the condition `Accepted`.
pub const REASON_ACCEPTED: &str = "Accepted";
/// Reason of `Accepted` and `Completed` for a refused definition.
pub const REASON_VALIDATION_FAILED: &str = "WorkflowValidationFailed";
/// Reason of `Completed` after success.
pub const REASON_SUCCEEDED: &str = "WorkflowRunSucceeded";
/// Reason of `Completed` when a job failed.
pub const REASON_JOB_FAILED: &str = "JobFailed";
/// Reason of `Completed` when the time for the whole was over (W-209).
pub const REASON_TIMED_OUT: &str = "WorkflowRunTimedOut";
/// Message of a WorkflowRun whose time was over.
pub const TIMED_OUT: &str = "WorkflowRun timed out";
/// What is said of something behind a gate that was denied.
pub const GATE_DENIED: &str = "its gate was denied";
/// Reason of `Completed` after cancellation.
pub const REASON_CANCELLED: &str = "WorkflowRunCancelled";
/// Condition type that says why outputs are absent (W-86).
pub const CONDITION_OUTPUTS_RESOLVED: &str = "OutputsResolved";

/// Why a job failed or was skipped (W-80).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Reason {
    /// A step's Run failed, or the step could not be started.
    StepFailed,
    /// A step's Run passed its deadline.
    StepTimeout,
    /// A step's Run was cancelled by itself.
    StepCancelled,
    /// An expression of a step could not be evaluated.
    InvalidExpression,
    /// Values do not fit the declared inputs of an Action or a Workflow.
    InputBindingFailed,
    /// The called Workflow does not exist.
    CallNotFound,
    /// Workflows call each other in a circle.
    CallCycle,
    /// A chain of calls is too long.
    CallDepthExceeded,
    /// The call is refused for another cause.
    CallRejected,
    /// The child WorkflowRun failed.
    ChildFailed,
    /// The child WorkflowRun was cancelled by itself.
    ChildCancelled,
    /// An imported artifact is not there.
    ArtifactMissing,
    /// The workspace of the job is gone.
    WorkspaceLost,
    /// An output could not be evaluated.
    OutputEvaluationFailed,
    /// Outputs exceed a budget.
    OutputsTooLarge,
    /// A recorded child is gone.
    ChildMissing,
    /// A predecessor failed or was skipped.
    DependencyFailed,
    /// The WorkflowRun was cancelled between two steps.
    Cancelled,
    /// The condition of the job does not hold (W-198).
    ConditionFalse,
    /// Another job failed, and the rest is not to go on (W-199).
    FailFast,
    /// The decision it waited for is no (W-202).
    GateDenied,
    /// The job took too long (W-209).
    JobTimeout,
    /// The WorkflowRun took too long (W-209).
    WorkflowTimeout,
}

impl Reason {
    /// Returns the word the API uses.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::StepFailed => "StepFailed",
            Self::StepTimeout => "StepTimeout",
            Self::StepCancelled => "StepCancelled",
            Self::InvalidExpression => "InvalidExpression",
            Self::InputBindingFailed => "InputBindingFailed",
            Self::CallNotFound => "CallNotFound",
            Self::CallCycle => "CallCycle",
            Self::CallDepthExceeded => "CallDepthExceeded",
            Self::CallRejected => "CallRejected",
            Self::ChildFailed => "ChildFailed",
            Self::ChildCancelled => "ChildCancelled",
            Self::ArtifactMissing => "ArtifactMissing",
            Self::WorkspaceLost => "WorkspaceLost",
            Self::OutputEvaluationFailed => "OutputEvaluationFailed",
            Self::OutputsTooLarge => "OutputsTooLarge",
            Self::ChildMissing => "ChildMissing",
            Self::DependencyFailed => "DependencyFailed",
            Self::Cancelled => "Cancelled",
            Self::ConditionFalse => "ConditionFalse",
            Self::FailFast => "FailFast",
            Self::GateDenied => "GateDenied",
            Self::JobTimeout => "JobTimeout",
            Self::WorkflowTimeout => "WorkflowTimeout",
        }
    }

    /// Returns the reason that an unsuccessful step gives its job.
    pub fn of_step(phase: StepPhase) -> Self {
        match phase {
            StepPhase::Timeout => Self::StepTimeout,
            StepPhase::Cancelled => Self::StepCancelled,
            StepPhase::Pending
            | StepPhase::Running
            | StepPhase::Succeeded
            | StepPhase::Skipped
            | StepPhase::Failed => Self::StepFailed,
        }
    }
}

/// Cuts a message to what a status may hold (W-71).
pub fn fit(text: &str) -> String {
    bounded(text, STATUS_MESSAGE_MAX)
}

/// A step's Run ended without success; `said` is the Run's own message.
pub fn step_ended(job: &str, step: &str, phase: StepPhase, said: &str) -> String {
    let (step, job) = (quoted(step), quoted(job));
    ended(&format!("step {step} in job {job}"), phase, said)
}

/// The Run of an Action step ended without success.
pub fn action_step_ended(
    job: &str,
    step: &str,
    inner: &str,
    phase: StepPhase,
    said: &str,
) -> String {
    let (inner, step, job) = (quoted(inner), quoted(step), quoted(job));
    ended(
        &format!("Action step {inner} of step {step} in job {job}"),
        phase,
        said,
    )
}

fn ended(whose: &str, phase: StepPhase, said: &str) -> String {
    let how = match phase {
        StepPhase::Timeout => "timed out",
        StepPhase::Cancelled => "was cancelled",
        StepPhase::Pending
        | StepPhase::Running
        | StepPhase::Succeeded
        | StepPhase::Skipped
        | StepPhase::Failed => "failed",
    };
    let colon = if said.is_empty() { "" } else { ": " };
    fit(&format!("{whose} {how}{colon}{said}"))
}

/// The inputs of an Action could not be bound; a cause for [`resolve_step`] (W-39).
pub fn action_inputs(action: &str, cause: &str) -> String {
    format!("resolve Action {} inputs: {cause}", quoted(action))
}

/// The outputs of an Action could not be evaluated (W-39).
pub fn resolve_action_outputs(job: &str, step: &str, cause: &str) -> String {
    let (step, job) = (quoted(step), quoted(job));
    fit(&format!(
        "resolve Action outputs for step {step} in job {job}: {cause}"
    ))
}

/// The snapshot does not hold the Action that status speaks of (W-115).
pub fn action_not_frozen(action: &str, job: &str, step: &str) -> String {
    let (action, step, job) = (quoted(action), quoted(step), quoted(job));
    fit(&format!(
        "Action {action} for step {step} in job {job} is missing from the execution snapshot"
    ))
}

/// The called Workflow does not exist (section 11).
pub fn call_not_found(workflow: &str, job: &str) -> String {
    let (workflow, job) = (quoted(workflow), quoted(job));
    fit(&format!(
        "reusable workflow {workflow} for job {job} does not exist"
    ))
}

/// The graph of the called Workflow is refused (section 11).
pub fn call_invalid(workflow: &str, job: &str, cause: &str) -> String {
    let (workflow, job) = (quoted(workflow), quoted(job));
    fit(&format!(
        "validate reusable workflow {workflow} for job {job}: {cause}"
    ))
}

/// The values for a called Workflow do not evaluate (section 11).
pub fn call_inputs(job: &str, cause: &str) -> String {
    fit(&format!("resolve inputs for job {}: {cause}", quoted(job)))
}

/// The API refused a child WorkflowRun (W-40).
pub fn call_refused(job: &str, child: &str, cause: &str) -> String {
    let (child, job) = (quoted(child), quoted(job));
    fit(&format!(
        "create child workflowrun {child} for job {job}: {cause}"
    ))
}

/// The name of a child WorkflowRun is taken (W-49); both names are `<namespace>/<name>`.
pub fn foreign_call(child: &str, workflow_run: &str) -> String {
    fit(&format!(
        "child workflowrun {child} is not owned by workflowrun {workflow_run}"
    ))
}

/// A recorded child WorkflowRun is gone (W-82).
pub fn call_missing(child: &str, job: &str) -> String {
    let (child, job) = (quoted(child), quoted(job));
    fit(&format!(
        "child workflowrun {child} for job {job} no longer exists"
    ))
}

/// A child WorkflowRun ended without success; `said` is its own message.
pub fn call_ended(job: &str, child: &str, phase: WorkflowRunPhase, said: &str) -> String {
    let how = match phase {
        WorkflowRunPhase::Cancelled => "was cancelled",
        WorkflowRunPhase::Pending
        | WorkflowRunPhase::Running
        | WorkflowRunPhase::Succeeded
        | WorkflowRunPhase::Failed => "failed",
    };
    let colon = if said.is_empty() { "" } else { ": " };
    let (child, job) = (quoted(child), quoted(job));
    fit(&format!(
        "child workflowrun {child} for job {job} {how}{colon}{said}"
    ))
}

/// A step could not be started (W-39).
pub fn resolve_step(job: &str, step: &str, cause: &str) -> String {
    fit(&format!(
        "resolve step {} in job {}: {cause}",
        quoted(step),
        quoted(job)
    ))
}

/// The API refused a step's Run (W-40).
pub fn refused(job: &str, step: &str, run: &str, cause: &str) -> String {
    let (run, step, job) = (quoted(run), quoted(step), quoted(job));
    fit(&format!(
        "create child run {run} for step {step} in job {job}: {cause}"
    ))
}

/// The outputs of a job could not be evaluated (W-39).
pub fn resolve_outputs(job: &str, cause: &str) -> String {
    fit(&format!("resolve outputs for job {}: {cause}", quoted(job)))
}

/// A child's name is taken (W-49); both names are `<namespace>/<name>`.
pub fn foreign_run(run: &str, workflow_run: &str) -> String {
    fit(&format!(
        "child run {run} is not owned by workflowrun {workflow_run}"
    ))
}

/// A recorded child is gone (W-82).
pub fn child_missing(run: &str, step: &str) -> String {
    let (run, step) = (quoted(run), quoted(step));
    fit(&format!("child run {run} for step {step} no longer exists"))
}

/// An import from a job that did not succeed; a cause for [`resolve_step`] (W-130).
pub fn artifact_early(from: &str, job: &str) -> String {
    let (from, job) = (quoted(from), quoted(job));
    format!("artifact input {from} requires succeeded job {job}")
}

/// An import of something that was not made; a cause for [`resolve_step`] (W-130).
pub fn artifact_missing(from: &str) -> String {
    format!("artifact input {} was not produced", quoted(from))
}

/// A job made too many artifacts (section 2).
pub fn too_many_artifacts(job: &str, count: usize, limit: usize) -> String {
    fit(&format!(
        "artifacts of job {} have {count} names, exceeds {limit}",
        quoted(job)
    ))
}

/// The workspace of a job is gone (W-125).
pub fn workspace_lost(job: &str) -> String {
    fit(&format!("workspace for job {} was lost", quoted(job)))
}

/// The name of a job's workspace is taken (W-49); both names are `<namespace>/<name>`.
pub fn foreign_workspace(workspace: &str, workflow_run: &str) -> String {
    fit(&format!(
        "job workspace {workspace} is not owned by workflowrun {workflow_run}"
    ))
}

/// A job was skipped (W-80).
pub fn dependency(job: &str, need: &str, phase: &str) -> String {
    let (job, need) = (quoted(job), quoted(need));
    fit(&format!("job {job} needs job {need}, which is {phase}"))
}

/// A job had no unfinished child when its WorkflowRun was cancelled (W-91).
pub fn job_cancelled(job: &str) -> String {
    fit(&format!(
        "job {} was cancelled before it finished",
        quoted(job)
    ))
}

/// The condition of a job does not hold (W-198).
pub fn condition_false(job: &str, condition: &str) -> String {
    fit(&format!(
        "condition of job {} is false: {condition}",
        quoted(job)
    ))
}

/// The condition of a job cannot be decided (W-198).
pub fn condition_invalid(job: &str, cause: &str) -> String {
    fit(&format!("decide job {}: {cause}", quoted(job)))
}

/// A job was stopped because another one failed (W-199).
pub fn failed_fast(job: &str) -> String {
    fit(&format!(
        "job {} was stopped because another job failed",
        quoted(job)
    ))
}

/// The gate of a job was denied (W-202).
pub fn gate_denied(job: &str) -> String {
    fit(&format!(
        "job {} was not started: {GATE_DENIED}",
        quoted(job)
    ))
}

/// A member of a concurrency group waits (W-203).
pub fn behind(workflow_run: &str) -> String {
    fit(&format!(
        "waits for workflowrun {} of its concurrency group",
        quoted(workflow_run)
    ))
}

/// A younger member of the concurrency group replaced the WorkflowRun (W-203).
pub fn replaced(by: &str) -> String {
    let by = quoted(by);
    fit(&format!(
        "{CANCELLED}: workflowrun {by} of its concurrency group replaces it"
    ))
}

/// A job took too long (W-209).
pub fn job_timed_out(job: &str) -> String {
    fit(&format!("job {} timed out", quoted(job)))
}

/// A job did not end before the time of the whole was over (W-209).
pub fn workflow_timed_out(job: &str) -> String {
    fit(&format!(
        "job {} did not end before the WorkflowRun timed out",
        quoted(job)
    ))
}

/// Cancellation waits for children.
pub fn cancelling(children: usize) -> String {
    let noun = if children == 1 { "child" } else { "children" };
    format!("cancelling, {children} {noun} left")
}

/// One outputs map is too large (W-84); `whose` names it.
pub fn map_too_large(whose: &str, bytes: usize) -> String {
    fit(&format!(
        "outputs of {whose} are {bytes} bytes, exceeds {OUTPUTS_MAX_BYTES}"
    ))
}

/// One outputs map has too many keys (W-84).
pub fn too_many_keys(whose: &str, count: usize) -> String {
    fit(&format!(
        "outputs of {whose} have {count} keys, exceeds {OUTPUTS_MAX_KEYS}"
    ))
}

/// All outputs of one WorkflowRun together are too large (W-84).
pub fn total_too_large(whose: &str, bytes: usize) -> String {
    fit(&format!(
        "outputs of {whose} take the WorkflowRun to {bytes} bytes, exceeds {WORKFLOW_OUTPUTS_MAX_BYTES}"
    ))
}

/// An annotation of the output contract has no legal name (W-104).
pub fn malformed_contract(key: &str) -> String {
    format!("invalid workflow output annotation {}", quoted(key))
}
