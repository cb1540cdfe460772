//! The reducer: what to do next, and what came of it.

use kruntimes_core::api::{JobPhase, StepPhase, WorkflowRunPhase, WorkflowRunStatus};

use super::derive::{derive, explain};
use super::{
    Action, Outcome, Reason, Stage, State, Step, StepKey, cancel, initialize, message, start,
};

/// Decides the next turn of a WorkflowRun. Pure and total (W-57).
pub fn calculate(state: &State) -> Step {
    if state.deleting {
        return Step {
            stage: stage(state, &state.status),
            desired: state.status.clone(),
            action: Action::None,
            needs: Vec::new(),
            adopt: Vec::new(),
        };
    }
    let derived = derive(state);
    let mut desired = derived.status;
    let mut stage = stage(state, &desired);
    let asked = cancel::targets(state);
    let action = if asked.is_empty() {
        match stage {
            Stage::Terminal | Stage::Cancelling => Action::None,
            Stage::Empty => {
                let (status, action) = initialize::initialize(state);
                desired = status;
                action
            }
            Stage::Pending | Stage::Running => start(state, &mut desired),
        }
    } else {
        stage = Stage::Cancelling;
        Action::RequestChildCancellation(asked)
    };
    Step {
        stage,
        desired,
        action,
        needs: derived.needs,
        adopt: derived.adopt,
    }
}

/// Names the stage after derivation; the first that holds (W-58).
fn stage(state: &State, status: &WorkflowRunStatus) -> Stage {
    if status.phase.is_terminal() {
        return Stage::Terminal;
    }
    if state.spec.cancel_requested {
        return Stage::Cancelling;
    }
    match (&status.jobs, status.phase) {
        (None, _) => Stage::Empty,
        (Some(_), WorkflowRunPhase::Running) => Stage::Running,
        (Some(_), _) => Stage::Pending,
    }
}

fn start(state: &State, desired: &mut WorkflowRunStatus) -> Action {
    let Some(snapshot) = &state.snapshot else {
        return Action::None;
    };
    let targets = start::targets(state, snapshot, desired);
    if targets.is_empty() {
        return Action::None;
    }
    Action::StartRunnableSteps(targets)
}

/// Folds what became of an action into the desired status (W-62, W-79).
pub fn merge(mut desired: WorkflowRunStatus, outcomes: &[Outcome]) -> WorkflowRunStatus {
    for outcome in outcomes {
        match outcome {
            Outcome::Started { key, name } => started(&mut desired, key, name),
            Outcome::Foreign { key, run, owner } => {
                refused(&mut desired, key, message::foreign_run(run, owner));
            }
            Outcome::Invalid { key, name, cause } => {
                let text = message::refused(&key.job, &key.step, name, cause);
                refused(&mut desired, key, text);
            }
        }
    }
    if !outcomes.is_empty() {
        explain(&mut desired);
    }
    desired
}

fn started(desired: &mut WorkflowRunStatus, key: &StepKey, name: &str) {
    let job = desired
        .jobs
        .as_mut()
        .and_then(|jobs| jobs.get_mut(&key.job));
    let Some(job) = job else { return };
    let Some(step) = job.steps.iter_mut().find(|step| step.name == key.step) else {
        return;
    };
    step.phase = StepPhase::Running;
    step.run_name = Some(name.to_owned());
    job.phase = JobPhase::Running;
    desired.phase = WorkflowRunPhase::Running;
}

fn refused(desired: &mut WorkflowRunStatus, key: &StepKey, text: String) {
    let job = desired
        .jobs
        .as_mut()
        .and_then(|jobs| jobs.get_mut(&key.job));
    let Some(job) = job else { return };
    let Some(index) = job.steps.iter().position(|step| step.name == key.step) else {
        return;
    };
    start::refuse(job, index, Reason::StepFailed, text);
    desired.phase = WorkflowRunPhase::Running;
}
