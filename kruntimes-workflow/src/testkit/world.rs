//! One WorkflowRun, its children and its store, as a controller finds them.

use std::sync::Arc;

use kruntimes_core::api::{JobPhase, RunPhase, WorkflowRunPhase, WorkflowRunStatus};
use kruntimes_core::keys::{LABEL_WORKFLOW_ACTION_STEP, LABEL_WORKFLOW_JOB, LABEL_WORKFLOW_STEP};
use kruntimes_core::names;

use super::{Rule, Script};
use crate::definitions::Definitions;
use crate::plan::{
    Action, Called, Child, EnsureWorkspace, Need, Outcome, StartCall, StartStep, State, Step,
    StepKey, Workspace, calculate, merge,
};
use crate::snapshot::Snapshot;

/// How often one turn may ask for more facts.
const ASKED_MAX: usize = 1000;

/// What exists at one moment.
#[derive(Clone, Debug)]
pub(super) struct World {
    pub(super) state: State,
    /// What can be read when a turn asks for it.
    pub(super) definitions: Arc<Definitions>,
}

/// A broken rule and what was found.
pub(super) type Broken = (Rule, String);

/// One write; between any two of them a controller may die.
pub(super) enum Write {
    Freeze(Arc<Snapshot>),
    Workspace(EnsureWorkspace),
    Run(Box<StartStep>),
    Call(Box<StartCall>),
    AskRun(String),
    AskCall(String),
    AskItself,
}

/// Returns the writes of an action in their order; the status, which comes last, is not among them.
pub(super) fn writes(action: &Action) -> Vec<Write> {
    match action {
        Action::None => Vec::new(),
        Action::CancelItself { .. } => vec![Write::AskItself],
        Action::Initialize(initialize) => {
            let snapshot = initialize.snapshot.iter();
            snapshot.cloned().map(Write::Freeze).collect()
        }
        Action::StartRunnableSteps(targets) => {
            let mut writes = Vec::new();
            for start in &targets.steps {
                writes.extend(start.workspace.clone().map(Write::Workspace));
                writes.push(Write::Run(Box::new(start.clone())));
            }
            let calls = targets.calls.iter().cloned();
            writes.extend(calls.map(|call| Write::Call(Box::new(call))));
            writes
        }
        Action::RequestChildCancellation(names) => {
            let runs = names.runs.iter().cloned().map(Write::AskRun);
            let calls = names.workflow_runs.iter().cloned().map(Write::AskCall);
            runs.chain(calls).collect()
        }
    }
}

impl World {
    /// Decides a turn, with everything the turn asks for.
    pub(super) fn decide(&self) -> Result<Step, Broken> {
        let mut state = self.state.clone();
        let failed = |error: &dyn std::error::Error| (Rule::Calculates, error.to_string());
        state.check().map_err(|error| failed(&error))?;
        for _ in 0..ASKED_MAX {
            let step = calculate(&state);
            if step.needs.is_empty() {
                self.judge(&state, &step)?;
                return Ok(step);
            }
            for need in step.needs {
                self.supply(&mut state, need);
            }
        }
        Err((Rule::Calculates, "it asks again and again".to_owned()))
    }

    fn supply(&self, state: &mut State, need: Need) {
        let known = &mut state.definitions;
        match need {
            Need::ConfirmRun(name) => {
                state.absent.insert(name);
            }
            Need::ConfirmWorkflowRun(name) => {
                state.absent_calls.insert(name);
            }
            Need::ConfirmWorkspace(name) => {
                state.absent_workspaces.insert(name);
            }
            Need::Action(name) => {
                let found = self.definitions.actions.get(&name).cloned().flatten();
                known.actions.insert(name, found);
            }
            Need::Workflow(name) => {
                let found = self.definitions.workflows.get(&name).cloned().flatten();
                known.workflows.insert(name, found);
            }
        }
    }

    /// Judges a decision by the rules that hold for every one.
    fn judge(&self, state: &State, step: &Step) -> Result<(), Broken> {
        let mut other = state.clone();
        other.children.reverse();
        other.calls.reverse();
        other.workspaces.reverse();
        if calculate(&other) != *step {
            let found = "observations in another order are decided differently";
            return Err((Rule::OrderIndependent, found.to_owned()));
        }
        let was = state.status.phase;
        let starts = matches!(step.action, Action::StartRunnableSteps(_));
        if was.is_terminal() && (step.desired.phase != was || starts) {
            let found = format!("{was} became {} with {:?}", step.desired.phase, step.action);
            return Err((Rule::TerminalIsStable, found));
        }
        if step.desired.phase.is_terminal() {
            let jobs = step.desired.jobs.iter().flatten();
            let mut left = jobs.filter(|(_, job)| job.phase == JobPhase::Running);
            if let Some((name, _)) = left.next() {
                return Err((Rule::NoJobLeftRunning, format!("job {name} runs")));
            }
        }
        let Action::StartRunnableSteps(targets) = &step.action else {
            return Ok(());
        };
        let steps = targets.steps.iter().map(|start| start.key.job.as_str());
        let calls = targets.calls.iter().map(|call| call.job.as_str());
        steps.chain(calls).try_for_each(|job| self.needs_first(job))
    }

    /// Looks at the children themselves, not at what the status says of them.
    fn needs_first(&self, job: &str) -> Result<(), Broken> {
        let state = &self.state;
        if !state.policy.extensions.is_empty() {
            return self.needs_are_over(job);
        }
        for need in &state.spec.jobs[job].needs {
            let broken = || {
                (
                    Rule::NeedsFirst,
                    format!("{job} starts before {need} has ended"),
                )
            };
            let needed = &state.spec.jobs[need];
            if needed.uses.is_some() {
                let name = names::child_workflow_run(&state.name, need);
                let mut calls = state.calls.iter();
                let child = calls.find(|child| child.name == name);
                if child.is_none_or(|child| child.status.phase != WorkflowRunPhase::Succeeded) {
                    return Err(broken());
                }
            }
            for step in &needed.steps {
                let mut runs = state.children.iter();
                let of_step = |run: &&Child| run.job == *need && run.step == step.name;
                if !runs
                    .by_ref()
                    .filter(of_step)
                    .any(|run| run.phase == RunPhase::Succeeded)
                {
                    return Err(broken());
                }
            }
        }
        Ok(())
    }

    /// With conditions a job may start behind a failed one, but never beside a need that runs.
    fn needs_are_over(&self, job: &str) -> Result<(), Broken> {
        let state = &self.state;
        let jobs = state.snapshot.as_ref().map(|snapshot| &snapshot.spec.jobs);
        let needs = jobs.and_then(|jobs| jobs.get(job)).map(|job| &job.needs);
        for need in needs.into_iter().flatten() {
            let mut runs = state.children.iter();
            let status = state.status.jobs.as_ref().and_then(|jobs| jobs.get(need));
            let begun = status.is_some_and(|job| job.phase == JobPhase::Running);
            if begun && runs.any(|run| run.job == *need && !run.phase.is_terminal()) {
                let found = format!("{job} starts before {need} has ended");
                return Err((Rule::NeedsFirst, found));
            }
        }
        Ok(())
    }

    /// Carries out the first `count` writes of a turn, and stores the status if that is more than all.
    pub(super) fn carry_out(&mut self, step: Step, count: usize) -> Result<(), Broken> {
        let writes = writes(&step.action);
        let all = count > writes.len();
        let mut outcomes = Vec::new();
        for write in writes.into_iter().take(count) {
            match write {
                Write::Freeze(snapshot) => self.freeze(&snapshot)?,
                Write::Workspace(workspace) => self.share(&workspace),
                Write::Run(start) => outcomes.push(self.create(*start)?),
                Write::Call(call) => outcomes.push(self.call(*call)?),
                Write::AskRun(name) => {
                    let mut found = self.state.children.iter_mut();
                    let found = found.find(|child| child.name == name);
                    ask(&name, found.map(|child| &mut child.cancel_asked))?;
                }
                Write::AskItself => {
                    let asked = &mut self.state.spec.cancel_requested;
                    ask("itself", Some(asked))?;
                }
                Write::AskCall(name) => {
                    let mut found = self.state.calls.iter_mut();
                    let found = found.find(|child| child.name == name);
                    ask(&name, found.map(|child| &mut child.cancel_asked))?;
                }
            }
        }
        if all {
            self.state.status = merge(step.desired, &outcomes);
        }
        Ok(())
    }

    /// Stores a snapshot as a store does: as text that is read again.
    fn freeze(&mut self, snapshot: &Snapshot) -> Result<(), Broken> {
        if self.state.snapshot.is_some() {
            return Err((Rule::CreatedOnce, "a second snapshot".to_owned()));
        }
        let read = Snapshot::from_value("snapshot", &snapshot.to_value());
        let read = read.map_err(|error| (Rule::Calculates, error.to_string()))?;
        self.state.snapshot = Some(Arc::new(read));
        Ok(())
    }

    /// Creates a workspace; finding it is as good (W-157).
    fn share(&mut self, workspace: &EnsureWorkspace) {
        let name = &workspace.name;
        if !self
            .state
            .workspaces
            .iter()
            .any(|found| found.name == *name)
        {
            self.state.workspaces.push(Workspace {
                name: name.clone(),
                ..Workspace::default()
            });
        }
    }

    fn create(&mut self, start: StartStep) -> Result<Outcome, Broken> {
        if self
            .state
            .children
            .iter()
            .any(|child| child.name == start.name)
        {
            return Err((Rule::CreatedOnce, start.key.to_string()));
        }
        let label = |key: &str| start.labels.get(key).cloned();
        self.state.children.push(Child {
            uid: format!("uid of {}", start.name),
            workspace: start.spec.workspace.as_ref().map(|used| used.name.clone()),
            job: label(LABEL_WORKFLOW_JOB).unwrap_or_default(),
            step: label(LABEL_WORKFLOW_STEP).unwrap_or_default(),
            action_step: label(LABEL_WORKFLOW_ACTION_STEP),
            name: start.name.clone(),
            ..Child::default()
        });
        let (key, name) = (start.key, start.name);
        Ok(Outcome::Started { key, name })
    }

    fn call(&mut self, call: StartCall) -> Result<Outcome, Broken> {
        if self.state.calls.iter().any(|child| child.name == call.name) {
            return Err((Rule::CreatedOnce, format!("jobs.{}", call.job)));
        }
        self.state.calls.push(Called {
            name: call.name.clone(),
            uid: format!("uid of {}", call.name),
            annotations: call.annotations,
            ..Called::default()
        });
        let (job, name) = (call.job, call.name);
        Ok(Outcome::Called { job, name })
    }

    /// Ends one child Run as the script says, or as cancelled when it was asked to.
    pub(super) fn end(&mut self, child: usize, script: &Script) -> String {
        let child = &mut self.state.children[child];
        let key = StepKey {
            job: child.job.clone(),
            step: child.step.clone(),
            action_step: child.action_step.clone(),
        };
        if child.cancel_asked {
            child.phase = RunPhase::Cancelled;
        } else {
            let end = script.end_of(&key);
            child.phase = end.phase;
            child.outputs = end.outputs;
            child.message = end.message;
        }
        format!("{key} ended {}", child.phase.as_str())
    }

    /// Ends one child WorkflowRun; its jobs are not looked at, only what it publishes.
    pub(super) fn end_call(&mut self, child: usize, script: &Script) -> String {
        let state = &mut self.state;
        let calls = state.spec.jobs.iter().filter(|(_, job)| job.uses.is_some());
        let mut jobs = calls.map(|(job, _)| job);
        let child = &mut state.calls[child];
        let job = jobs.find(|job| names::child_workflow_run(&state.name, job) == child.name);
        let end = script.end_of_call(job.map_or("", String::as_str));
        let phase = match end.phase {
            _ if child.cancel_asked => WorkflowRunPhase::Cancelled,
            RunPhase::Succeeded => WorkflowRunPhase::Succeeded,
            RunPhase::Cancelled => WorkflowRunPhase::Cancelled,
            RunPhase::Pending
            | RunPhase::Scheduled
            | RunPhase::Running
            | RunPhase::Ready
            | RunPhase::Finalizing
            | RunPhase::Failed
            | RunPhase::Timeout => WorkflowRunPhase::Failed,
        };
        let succeeded = phase == WorkflowRunPhase::Succeeded;
        child.status = WorkflowRunStatus {
            phase,
            jobs: Some([].into()),
            outputs: if succeeded { end.outputs } else { [].into() },
            message: (!succeeded).then_some(end.message),
            ..WorkflowRunStatus::default()
        };
        format!("{} ended {phase}", child.name)
    }

    /// Returns the child Runs that have not ended.
    pub(super) fn open(&self) -> Vec<usize> {
        let children = self.state.children.iter().enumerate();
        let open = children.filter(|(_, child)| !child.phase.is_terminal());
        open.map(|(index, _)| index).collect()
    }

    /// Returns the child WorkflowRuns that have not ended.
    pub(super) fn open_calls(&self) -> Vec<usize> {
        let calls = self.state.calls.iter().enumerate();
        let open = calls.filter(|(_, child)| !child.status.phase.is_terminal());
        open.map(|(index, _)| index).collect()
    }

    /// Tells worlds apart.
    pub(super) fn fingerprint(&self) -> String {
        let state = &self.state;
        let runs = state.children.iter();
        let runs = runs.map(|run| format!("{} {:?} {}", run.name, run.phase, run.cancel_asked));
        let calls = state.calls.iter();
        let calls = calls.map(|call| {
            format!(
                "{} {:?} {}",
                call.name, call.status.phase, call.cancel_asked
            )
        });
        let spaces = state.workspaces.iter().map(|found| found.name.clone());
        let mut all: Vec<String> = runs.chain(calls).chain(spaces).collect();
        all.sort_unstable();
        let (frozen, cancelled) = (state.snapshot.is_some(), state.spec.cancel_requested);
        format!(
            "{} {:?} {frozen} {cancelled} {all:?}",
            state.now, state.status
        )
    }
}

fn ask(name: &str, asked: Option<&mut bool>) -> Result<(), Broken> {
    match asked {
        Some(asked) if !*asked => {
            *asked = true;
            Ok(())
        }
        Some(_) | None => Err((Rule::AskedOnce, name.to_owned())),
    }
}
