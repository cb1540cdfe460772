//! Cancellation: ask every unfinished child once, then wait (section 10).

use kruntimes_core::api::{JobPhase, WorkflowRunPhase, WorkflowRunStatus};

use super::children::unfinished;
use super::derive::{complete, explain, fail};
use super::{Child, Reason, State, StepKey, message};

/// Ends the WorkflowRun once no child is left; `sure` when every recorded child was seen.
pub(super) fn derive(state: &State, status: &mut WorkflowRunStatus, sure: bool) {
    let left = children(state).len();
    if left > 0 || !sure {
        status.message = Some(message::cancelling(left.max(1)));
        return;
    }
    for (name, job) in status.jobs.iter_mut().flatten() {
        if job.phase == JobPhase::Running {
            fail(job, Reason::Cancelled, message::job_cancelled(name));
        }
    }
    status.phase = WorkflowRunPhase::Cancelled;
    status.message = None;
    explain(status);
    let now = state.now.to_seconds();
    complete(status, message::REASON_CANCELLED, message::CANCELLED, now);
}

/// Returns the names of children still to be asked, sorted (W-88).
pub(super) fn targets(state: &State) -> Vec<String> {
    if !state.spec.cancel_requested {
        return Vec::new();
    }
    let unasked = children(state)
        .into_iter()
        .filter(|child| !child.cancel_asked);
    unasked.map(|child| child.name.clone()).collect()
}

fn children(state: &State) -> Vec<&Child> {
    let is_step = |key: &StepKey| {
        let jobs = state.status.jobs.as_ref();
        let steps = jobs
            .and_then(|jobs| jobs.get(&key.job))
            .map(|job| &job.steps);
        steps.is_some_and(|steps| steps.iter().any(|step| step.name == key.step))
    };
    unfinished(state, is_step)
}
