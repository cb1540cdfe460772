//! Cancellation: ask every unfinished child once, then wait (section 10).

use kruntimes_core::api::{JobPhase, JobStatus, StepPhase, WorkflowRunPhase, WorkflowRunStatus};
use kruntimes_core::keys::ANNOTATION_REPLACED_BY;
use kruntimes_core::names;

use super::children::unfinished;
use super::derive::{complete, explain, fail};
use super::{Called, Child, ChildNames, Ownership, Reason, State, StepKey, call, message};

/// Ends the WorkflowRun once no child is left; `sure` when every recorded child was seen.
pub(super) fn derive(state: &State, status: &mut WorkflowRunStatus, sure: bool) {
    let left = runs(state).len() + calls(state).len();
    if left > 0 || !sure {
        status.message = Some(message::cancelling(left.max(1)));
        return;
    }
    for (name, job) in status.jobs.iter_mut().flatten() {
        if job.phase == JobPhase::Running {
            fail(job, Reason::Cancelled, message::job_cancelled(name));
            stop_calls(job);
        }
    }
    status.phase = WorkflowRunPhase::Cancelled;
    status.message = None;
    explain(status);
    let now = state.now.to_seconds();
    let text = match state.annotations.get(ANNOTATION_REPLACED_BY) {
        Some(by) => message::replaced(by),
        None => message::CANCELLED.to_owned(),
    };
    complete(status, message::REASON_CANCELLED, &text, now);
}

/// A call step between two steps of its Action does not stay open under a job that ended (W-91).
fn stop_calls(job: &mut JobStatus) {
    for step in &mut job.steps {
        if step.phase == StepPhase::Running {
            step.phase = StepPhase::Cancelled;
        }
    }
}

/// Returns the children still to be asked (W-88).
pub(super) fn targets(state: &State) -> ChildNames {
    if !state.spec.cancel_requested {
        return ChildNames::default();
    }
    let runs = runs(state).into_iter().filter(|child| !child.cancel_asked);
    let calls = calls(state).into_iter().filter(|child| !child.cancel_asked);
    ChildNames {
        runs: runs.map(|child| child.name.clone()).collect(),
        workflow_runs: calls.map(|child| child.name.clone()).collect(),
    }
}

fn runs(state: &State) -> Vec<&Child> {
    let is_step = |key: &StepKey| {
        let jobs = state.status.jobs.as_ref();
        let job = jobs.and_then(|jobs| jobs.get(&key.job));
        let mut steps = job.iter().flat_map(|job| &job.steps);
        let step = steps.find(|step| step.name == key.step);
        step.is_some_and(|step| match &key.action_step {
            Some(inner) => step.action_steps.iter().any(|step| step.name == *inner),
            None => true,
        })
    };
    unfinished(state, is_step)
}

/// Returns the child WorkflowRuns that are not terminal, sorted by name.
///
/// An object without controller counts only if a call job would have that name.
fn calls(state: &State) -> Vec<&Called> {
    let named = |child: &Called| {
        let mut jobs = state.status.jobs.iter().flatten();
        jobs.any(|(name, job)| {
            call::calls_workflow(state, name, job)
                && names::child_workflow_run(&state.name, name) == child.name
        })
    };
    let counts = |child: &&Called| match child.ownership {
        Ownership::Controlled => true,
        Ownership::Orphan => named(child),
        Ownership::Foreign => false,
    };
    let mut found: Vec<_> = state
        .calls
        .iter()
        .filter(|child| !child.status.phase.is_terminal())
        .filter(counts)
        .collect();
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}
