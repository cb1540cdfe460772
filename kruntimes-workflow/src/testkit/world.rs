//! One WorkflowRun, its children and its store, as a controller finds them.

use std::sync::Arc;

use kruntimes_core::api::{JobPhase, RunPhase};
use kruntimes_core::keys::{LABEL_WORKFLOW_ACTION_STEP, LABEL_WORKFLOW_JOB, LABEL_WORKFLOW_STEP};

use super::{Rule, Script};
use crate::plan::{
    Action, Child, Need, Outcome, StartStep, State, Step, StepKey, calculate, merge,
};
use crate::snapshot::Snapshot;

/// How often one turn may ask for more facts.
const ASKED_MAX: usize = 1000;

/// What exists at one moment.
#[derive(Clone, Debug)]
pub(super) struct World {
    pub(super) state: State,
}

/// A broken rule and what was found.
pub(super) type Broken = (Rule, String);

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
                supply(&mut state, need);
            }
        }
        Err((Rule::Calculates, "it asks again and again".to_owned()))
    }

    /// Judges a decision by the rules that hold for every one.
    fn judge(&self, state: &State, step: &Step) -> Result<(), Broken> {
        let mut other = state.clone();
        other.children.reverse();
        if calculate(&other) != *step {
            let found = "observations in another order are decided differently";
            return Err((Rule::OrderIndependent, found.to_owned()));
        }
        let was = state.status.phase;
        if was.is_terminal() && (step.desired.phase != was || starts(&step.action) > 0) {
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
        self.needs_first(&step.action)
    }

    fn needs_first(&self, action: &Action) -> Result<(), Broken> {
        let Action::StartRunnableSteps(starts) = action else {
            return Ok(());
        };
        for start in starts {
            let job = &self.state.spec.jobs[&start.key.job];
            for need in &job.needs {
                let runs = self.state.children.iter().filter(|run| run.job == *need);
                let done = runs.filter(|run| run.phase == RunPhase::Succeeded).count();
                if done < self.state.spec.jobs[need].steps.len() {
                    let found = format!("{} starts before {need} has ended", start.key);
                    return Err((Rule::NeedsFirst, found));
                }
            }
        }
        Ok(())
    }

    /// Carries out the first `writes` writes of a turn; all of them include the status.
    pub(super) fn carry_out(&mut self, step: Step, writes: usize) -> Result<(), Broken> {
        let all = writes > count(&step.action);
        let mut outcomes = Vec::new();
        match step.action {
            Action::None => {}
            Action::Initialize(initialize) => {
                if let Some(snapshot) = initialize.snapshot.filter(|_| writes > 0) {
                    self.freeze(&snapshot)?;
                }
            }
            Action::StartRunnableSteps(starts) => {
                for start in starts.into_iter().take(writes) {
                    outcomes.push(self.create(start)?);
                }
            }
            Action::RequestChildCancellation(names) => {
                for name in names.iter().take(writes) {
                    self.ask(name)?;
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
            job: label(LABEL_WORKFLOW_JOB).unwrap_or_default(),
            step: label(LABEL_WORKFLOW_STEP).unwrap_or_default(),
            action_step: label(LABEL_WORKFLOW_ACTION_STEP),
            name: start.name.clone(),
            ..Child::default()
        });
        let (key, name) = (start.key, start.name);
        Ok(Outcome::Started { key, name })
    }

    fn ask(&mut self, name: &str) -> Result<(), Broken> {
        let mut children = self.state.children.iter_mut();
        match children.find(|child| child.name == name) {
            Some(child) if !child.cancel_asked => {
                child.cancel_asked = true;
                Ok(())
            }
            _ => Err((Rule::AskedOnce, name.to_owned())),
        }
    }

    /// Ends one child as the script says, or as cancelled when it was asked to.
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

    /// Returns the children that have not ended.
    pub(super) fn open(&self) -> Vec<usize> {
        let children = self.state.children.iter().enumerate();
        let open = children.filter(|(_, child)| !child.phase.is_terminal());
        open.map(|(index, _)| index).collect()
    }

    /// Tells worlds apart.
    pub(super) fn fingerprint(&self) -> String {
        let state = &self.state;
        let mut children: Vec<String> = state
            .children
            .iter()
            .map(|child| format!("{} {:?} {}", child.name, child.phase, child.cancel_asked))
            .collect();
        children.sort_unstable();
        let (frozen, cancelled) = (state.snapshot.is_some(), state.spec.cancel_requested);
        format!("{:?} {frozen} {cancelled} {children:?}", state.status)
    }
}

fn supply(state: &mut State, need: Need) {
    let Need::ConfirmRun(name) = need;
    state.absent.insert(name);
}

fn starts(action: &Action) -> usize {
    match action {
        Action::StartRunnableSteps(starts) => starts.len(),
        Action::None | Action::Initialize(_) | Action::RequestChildCancellation(_) => 0,
    }
}

/// How many single writes an action makes, the status not counted.
pub(super) fn count(action: &Action) -> usize {
    match action {
        Action::None => 0,
        Action::Initialize(initialize) => usize::from(initialize.snapshot.is_some()),
        Action::StartRunnableSteps(starts) => starts.len(),
        Action::RequestChildCancellation(names) => names.len(),
    }
}
