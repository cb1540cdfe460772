//! What happened between two states, and why what has not happened waits.
//!
//! Everything here is data (W-192): a program shows it, logs it or makes
//! events of it. Paths are the stable ones of W-44.

use std::fmt;

use kruntimes_core::api::{
    JobPhase, JobStatus, StepPhase, StepStatus, WorkflowRunPhase, WorkflowRunStatus,
};
use kruntimes_core::message::quoted;

use crate::location;
use crate::plan::State;

/// One transition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// `jobs.<job>`, `jobs.<job>.steps.<step>` or below; empty for the whole execution.
    pub path: String,
    /// What happened.
    pub what: What,
}

/// What happened to a job, a step or the whole.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum What {
    /// The definition was frozen.
    Accepted,
    /// A step's Run, or a job's child, was created under this name.
    Started(String),
    /// A job began.
    Began,
    /// A step ended.
    StepEnded(StepPhase),
    /// A job succeeded or failed; the text says why it failed.
    JobEnded(JobPhase, String),
    /// A job will not run; the text names the job to blame.
    Skipped(String),
    /// The whole ended; the text says why it did not succeed.
    Ended(WorkflowRunPhase, String),
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = if self.path.is_empty() {
            "workflow"
        } else {
            &self.path
        };
        let colon = |text: &str| match text {
            "" => String::new(),
            text => format!(": {text}"),
        };
        match &self.what {
            What::Accepted => write!(f, "{path} accepted"),
            What::Started(run) => write!(f, "{path} started as {run}"),
            What::Began => write!(f, "{path} began"),
            What::StepEnded(phase) => write!(f, "{path} ended {phase}"),
            What::JobEnded(phase, why) => write!(f, "{path} ended {phase}{}", colon(why)),
            What::Skipped(why) => write!(f, "{path} skipped{}", colon(why)),
            What::Ended(phase, why) => write!(f, "{path} ended {phase}{}", colon(why)),
        }
    }
}

/// Returns what happened between two states of one execution: jobs sorted, steps in order.
pub fn changes(before: &WorkflowRunStatus, after: &WorkflowRunStatus) -> Vec<Event> {
    let mut events = Vec::new();
    let mut add = |path: String, what: What| events.push(Event { path, what });
    if before.jobs.is_none() && after.jobs.is_some() {
        add(String::new(), What::Accepted);
    }
    for (name, job) in after.jobs.iter().flatten() {
        let fresh = JobStatus::default();
        let was = before.jobs.as_ref().and_then(|jobs| jobs.get(name));
        let was = was.unwrap_or(&fresh);
        job_changes(name, was, job, &mut add);
    }
    if before.phase != after.phase && after.phase.is_terminal() {
        let why = after.message.clone().unwrap_or_default();
        add(String::new(), What::Ended(after.phase, why));
    }
    events
}

fn job_changes(name: &str, was: &JobStatus, job: &JobStatus, add: &mut impl FnMut(String, What)) {
    let path = format!("jobs.{name}");
    let idle = |phase| matches!(phase, JobPhase::Pending | JobPhase::Waiting);
    if idle(was.phase) && !idle(job.phase) && job.phase != JobPhase::Skipped {
        add(path.clone(), What::Began);
    }
    if let (None, Some(child)) = (&was.workflow_run_name, &job.workflow_run_name) {
        add(path.clone(), What::Started(child.clone()));
    }
    for (index, step) in job.steps.iter().enumerate() {
        let fresh = StepStatus::default();
        let was = was.steps.get(index).unwrap_or(&fresh);
        step_changes(name, was, step, add);
    }
    if was.phase == job.phase {
        return;
    }
    let why = job.message.clone().unwrap_or_default();
    match job.phase {
        JobPhase::Succeeded => add(path, What::JobEnded(job.phase, String::new())),
        JobPhase::Failed => add(path, What::JobEnded(job.phase, why)),
        JobPhase::Skipped => add(path, What::Skipped(why)),
        JobPhase::Pending | JobPhase::Waiting | JobPhase::Running => {}
    }
}

fn step_changes(
    job: &str,
    was: &StepStatus,
    step: &StepStatus,
    add: &mut impl FnMut(String, What),
) {
    let ended = |phase| match phase {
        StepPhase::Pending | StepPhase::Running => false,
        StepPhase::Succeeded
        | StepPhase::Skipped
        | StepPhase::Failed
        | StepPhase::Timeout
        | StepPhase::Cancelled => true,
    };
    let path = location::path(job, &step.name, None);
    if let (None, Some(run)) = (&was.run_name, &step.run_name) {
        add(path.clone(), What::Started(run.clone()));
    }
    for (index, inner) in step.action_steps.iter().enumerate() {
        let path = location::path(job, &step.name, Some(&inner.name));
        let was = was.action_steps.get(index);
        let (named, phase) = was.map_or((false, StepPhase::Pending), |was| {
            (was.run_name.is_some(), was.phase)
        });
        if let (false, Some(run)) = (named, &inner.run_name) {
            add(path.clone(), What::Started(run.clone()));
        }
        if phase != inner.phase && ended(inner.phase) {
            add(path, What::StepEnded(inner.phase));
        }
    }
    if was.phase != step.phase && ended(step.phase) {
        add(path, What::StepEnded(step.phase));
    }
}

/// Why one unfinished job is where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Name of the job.
    pub job: String,
    /// What it waits for.
    pub cause: Cause,
}

/// What a job waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// The definition is not accepted yet.
    Acceptance,
    /// These predecessors have not succeeded, with their phases.
    Jobs(Vec<(String, JobPhase)>),
    /// Nothing: the next turn starts it, or the step named.
    NextTurn(Option<String>),
    /// The step that runs, and the Run that executes it.
    Step(String, Option<String>),
    /// The child that a call created.
    Call(String),
    /// Cancellation: nothing is started any more.
    Cancellation,
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "job {} ", quoted(&self.job))?;
        match &self.cause {
            Cause::Acceptance => f.write_str("waits until the definition is accepted"),
            Cause::Jobs(jobs) => {
                let named = |(name, phase): &(String, JobPhase)| {
                    format!("job {}, which is {phase}", quoted(name))
                };
                let all: Vec<String> = jobs.iter().map(named).collect();
                write!(f, "waits for {}", all.join("; for "))
            }
            Cause::NextTurn(None) => f.write_str("starts in the next turn"),
            Cause::NextTurn(Some(step)) => {
                write!(f, "starts step {} in the next turn", quoted(step))
            }
            Cause::Step(step, Some(run)) => {
                write!(f, "runs step {} as {}", quoted(step), quoted(run))
            }
            Cause::Step(step, None) => write!(f, "runs step {}", quoted(step)),
            Cause::Call(child) => write!(f, "waits for workflowrun {}", quoted(child)),
            Cause::Cancellation => f.write_str("is not started: cancellation is requested"),
        }
    }
}

/// Says for every unfinished job why it is not further, sorted by job (W-192).
///
/// A terminal execution has none.
pub fn explain(state: &State) -> Vec<Waiting> {
    let status = &state.status;
    if status.phase.is_terminal() {
        return Vec::new();
    }
    let waiting = |job: &str, cause| Waiting {
        job: job.to_owned(),
        cause,
    };
    let Some(jobs) = &status.jobs else {
        let names = state.spec.jobs.keys();
        return names.map(|name| waiting(name, Cause::Acceptance)).collect();
    };
    let cause = |job: &JobStatus| match job.phase {
        JobPhase::Succeeded | JobPhase::Failed | JobPhase::Skipped => None,
        JobPhase::Running => Some(running(job, state.spec.cancel_requested)),
        JobPhase::Pending | JobPhase::Waiting if state.spec.cancel_requested => {
            Some(Cause::Cancellation)
        }
        JobPhase::Pending | JobPhase::Waiting => {
            let open = |name: &String| {
                let phase = jobs.get(name).map(|need| need.phase)?;
                (phase != JobPhase::Succeeded).then(|| (name.clone(), phase))
            };
            let open: Vec<_> = job.pre.iter().filter_map(open).collect();
            Some(if open.is_empty() {
                Cause::NextTurn(None)
            } else {
                Cause::Jobs(open)
            })
        }
    };
    let named = jobs.iter();
    named
        .filter_map(|(name, job)| Some(waiting(name, cause(job)?)))
        .collect()
}

fn running(job: &JobStatus, cancelled: bool) -> Cause {
    let unfinished = |step: &&StepStatus| step.phase != StepPhase::Succeeded;
    match (job.steps.iter().find(unfinished), &job.workflow_run_name) {
        (Some(step), _) if step.phase == StepPhase::Running => {
            Cause::Step(step.name.clone(), step.run_name.clone())
        }
        (None, Some(child)) => Cause::Call(child.clone()),
        _ if cancelled => Cause::Cancellation,
        (step, _) => Cause::NextTurn(step.map(|step| step.name.clone())),
    }
}

#[cfg(test)]
mod tests {
    use kruntimes_core::api::RunPhase;

    use super::*;
    use crate::plan::{Action, Child, Outcome, calculate, merge};
    use crate::testing::{a_job, jobs};

    fn turn(state: &mut State) {
        let step = calculate(state);
        let mut outcomes = Vec::new();
        match step.action {
            Action::Initialize(frozen) => state.snapshot = frozen.snapshot,
            Action::StartRunnableSteps(targets) => {
                for start in targets.steps {
                    state.children.push(Child {
                        name: start.name.clone(),
                        job: start.key.job.clone(),
                        step: start.key.step.clone(),
                        ..Child::default()
                    });
                    let (key, name) = (start.key, start.name);
                    outcomes.push(Outcome::Started { key, name });
                }
            }
            Action::None | Action::RequestChildCancellation(_) | Action::CancelItself { .. } => {}
        }
        state.status = merge(step.desired, &outcomes);
    }

    fn said(state: &State) -> Vec<String> {
        explain(state).iter().map(Waiting::to_string).collect()
    }

    fn chain_and_free() -> State {
        let mut state = State {
            name: "wfr".into(),
            uid: "u".into(),
            ..State::default()
        };
        state.spec.jobs = jobs([
            ("a", a_job().step("one", "1").step("two", "2")),
            ("b", a_job().needs(&["a"])),
            ("free", a_job()),
        ]);
        state
    }

    #[test]
    fn w_192_every_unfinished_job_is_explained_and_every_transition_told() {
        let mut state = chain_and_free();
        assert_eq!(
            said(&state)[0],
            "job \"a\" waits until the definition is accepted"
        );
        let mut seen = state.status.clone();
        let mut told = Vec::new();
        let mut look = |state: &State| {
            told.extend(changes(&seen, &state.status).iter().map(Event::to_string));
            seen.clone_from(&state.status);
        };
        turn(&mut state);
        look(&state);
        assert_eq!(
            said(&state),
            [
                "job \"a\" starts in the next turn",
                "job \"b\" waits for job \"a\", which is Pending",
                "job \"free\" starts in the next turn",
            ]
        );
        turn(&mut state);
        look(&state);
        let run = state.status.jobs.as_ref().unwrap()["a"].steps[0]
            .run_name
            .clone()
            .unwrap();
        assert_eq!(
            said(&state)[0],
            format!("job \"a\" runs step \"one\" as \"{run}\"")
        );
        state.children[0].phase = RunPhase::Failed;
        state.children[1].phase = RunPhase::Succeeded;
        turn(&mut state);
        look(&state);
        assert_eq!(said(&state), [""; 0]);
        let free = &state.children[1].name;
        assert_eq!(
            told,
            [
                "workflow accepted".to_owned(),
                "jobs.a began".to_owned(),
                format!("jobs.a.steps.one started as {run}"),
                "jobs.free began".to_owned(),
                format!("jobs.free.steps.s started as {free}"),
                "jobs.a.steps.one ended Failed".to_owned(),
                "jobs.a ended Failed: step \"one\" in job \"a\" failed".to_owned(),
                "jobs.b skipped: job \"b\" needs job \"a\", which is Failed".to_owned(),
                "jobs.free.steps.s ended Succeeded".to_owned(),
                "jobs.free ended Succeeded".to_owned(),
                "workflow ended Failed: step \"one\" in job \"a\" failed".to_owned(),
            ]
        );
    }

    #[test]
    fn w_192_cancellation_is_a_cause() {
        let mut state = State::default();
        state.spec.jobs = jobs([("a", a_job()), ("b", a_job().needs(&["a"]))]);
        turn(&mut state);
        turn(&mut state);
        state.spec.cancel_requested = true;
        assert_eq!(
            said(&state)[1],
            "job \"b\" is not started: cancellation is requested"
        );
    }
}
