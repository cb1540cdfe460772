//! The reducer: what to do next, and what came of it.

use kruntimes_core::api::{JobPhase, JobStatus, StepPhase, WorkflowRunPhase, WorkflowRunStatus};

use super::children::Children;
use super::derive::{derive, explain, fail};
use super::{
    Action, ChildNames, Need, Outcome, Reason, Stage, State, Step, StepKey, cancel, initialize,
    message, rules, start, workspace,
};
use crate::concurrency::Admission;

/// Decides the next turn of a WorkflowRun. Pure and total (W-57).
pub fn calculate(state: &State) -> Step {
    if state.deleting {
        return Step {
            stage: stage(state, &state.status),
            desired: state.status.clone(),
            action: Action::None,
            needs: Vec::new(),
            adopt: ChildNames::default(),
            wake: None,
        };
    }
    let mut derived = derive(state);
    let mut desired = derived.status;
    let mut stage = stage(state, &desired);
    let asked = cancel::targets(state);
    let action = if asked.is_empty() {
        let (action, needs) = match (stage, rules::admission(state)) {
            (Stage::Terminal | Stage::Cancelling, _) => (Action::None, Vec::new()),
            (_, Admission::ReplacedBy(replaced_by)) => {
                (Action::CancelItself { replaced_by }, Vec::new())
            }
            (Stage::Empty, Admission::Behind(name)) => {
                desired.message = Some(message::behind(&name));
                (Action::None, Vec::new())
            }
            (Stage::Empty, Admission::Run) => initialize::initialize(state, &mut desired),
            (Stage::Pending | Stage::Running, _) => start(state, &derived.children, &mut desired),
        };
        derived.needs.extend(needs);
        derived.needs.sort();
        derived.needs.dedup();
        action
    } else {
        stage = Stage::Cancelling;
        Action::RequestChildCancellation(asked)
    };
    rules::set_deadlines(state, &action, &mut desired);
    Step {
        stage,
        wake: rules::wake(state, &desired),
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

fn start(
    state: &State,
    children: &Children<'_>,
    desired: &mut WorkflowRunStatus,
) -> (Action, Vec<Need>) {
    let Some(snapshot) = &state.snapshot else {
        return (Action::None, Vec::new());
    };
    if let Some(jobs) = &desired.jobs {
        let mut stranded = workspace::stranded(state, children, jobs);
        stranded.add(rules::stopped(state, snapshot, children, desired));
        if !stranded.is_empty() {
            return (Action::RequestChildCancellation(stranded), Vec::new());
        }
    }
    let (targets, needs) = start::targets(state, snapshot, children, desired);
    if targets.is_empty() {
        return (Action::None, needs);
    }
    (Action::StartRunnableSteps(targets), needs)
}

/// Folds what became of an action into the desired status (W-62, W-79).
pub fn merge(mut desired: WorkflowRunStatus, outcomes: &[Outcome]) -> WorkflowRunStatus {
    for outcome in outcomes {
        let jobs = desired.jobs.as_mut();
        if let Some(job) = jobs.and_then(|jobs| jobs.get_mut(outcome.job())) {
            fold(job, outcome);
            desired.phase = WorkflowRunPhase::Running;
        }
    }
    if !outcomes.is_empty() {
        explain(&mut desired);
    }
    desired
}

/// Folds an outcome into the job that it is about, which started or tried to.
pub(super) fn fold(job: &mut JobStatus, outcome: &Outcome) {
    match outcome {
        Outcome::Started { key, name } => started(job, key, name),
        Outcome::Foreign { key, run, owner } => {
            refused(job, key, message::foreign_run(run, owner));
        }
        Outcome::Invalid { key, name, cause } => {
            let text = message::refused(&key.job, &key.step, name, cause);
            refused(job, key, text);
        }
        Outcome::ForeignWorkspace {
            key,
            workspace,
            owner,
        } => refused(job, key, message::foreign_workspace(workspace, owner)),
        Outcome::Called { name, .. } => {
            job.phase = JobPhase::Running;
            job.workflow_run_name = Some(name.clone());
        }
        Outcome::ForeignCall { child, owner, .. } => {
            let text = message::foreign_call(child, owner);
            fail(job, Reason::CallRejected, text);
        }
        Outcome::InvalidCall {
            job: called,
            name,
            cause,
        } => {
            let text = message::call_refused(called, name, cause);
            fail(job, Reason::CallRejected, text);
        }
    }
}

fn started(job: &mut JobStatus, key: &StepKey, name: &str) {
    let Some(step) = job.steps.iter_mut().find(|step| step.name == key.step) else {
        return;
    };
    let run_name = match &key.action_step {
        None => &mut step.run_name,
        Some(inner) => {
            let mut steps = step.action_steps.iter_mut();
            let Some(inner) = steps.find(|step| step.name == *inner) else {
                return;
            };
            inner.phase = StepPhase::Running;
            &mut inner.run_name
        }
    };
    *run_name = Some(name.to_owned());
    step.phase = StepPhase::Running;
    job.phase = JobPhase::Running;
}

fn refused(job: &mut JobStatus, key: &StepKey, text: String) {
    let Some(index) = job.steps.iter().position(|step| step.name == key.step) else {
        return;
    };
    let inner = key.action_step.as_ref().and_then(|inner| {
        let mut steps = job.steps[index].action_steps.iter();
        steps.position(|step| step.name == *inner)
    });
    start::refuse(job, index, inner, Reason::StepFailed, text);
}
