//! Laws and scenarios of the turn, against a world without clock or network.

mod actions;
mod calls;
mod cancellation;
mod claims;
mod crashes;
mod data;
mod engine;
mod extensions;
mod finish;
mod laws;
mod limits;
mod sharing;
mod start;

use std::collections::BTreeMap;

use kruntimes_core::api::{
    Job, JobPhase, JobStatus, RunPhase, StepPhase, WorkflowRunPhase, WorkflowRunStatus,
};
use kruntimes_core::condition;
use kruntimes_core::keys::{LABEL_WORKFLOW_ACTION_STEP, LABEL_WORKFLOW_JOB, LABEL_WORKFLOW_STEP};
use kruntimes_core::time::Time;

use super::*;
use crate::definitions::Definitions;
pub(super) use crate::testing::{a_job, jobs};

/// One WorkflowRun, its Runs, and a hand that carries out actions.
#[derive(Clone)]
pub(super) struct World {
    pub(super) state: State,
    /// Every create that was carried out, in order.
    pub(super) created: Vec<StartStep>,
    /// Every child WorkflowRun that was created, in order.
    pub(super) called: Vec<StartCall>,
    /// Every cancellation that was sent, in order.
    pub(super) asked: Vec<String>,
    /// What can be read when a calculation asks for it.
    pub(super) stored: Definitions,
}

impl World {
    pub(super) fn new(jobs: BTreeMap<String, Job>) -> Self {
        let mut state = State {
            namespace: "ns".into(),
            name: "wfr".into(),
            uid: "uid-1".into(),
            generation: Some(1),
            now: Time(jiff::Timestamp::UNIX_EPOCH),
            ..State::default()
        };
        state.spec.jobs = jobs;
        Self {
            state,
            created: Vec::new(),
            called: Vec::new(),
            asked: Vec::new(),
            stored: Definitions::default(),
        }
    }

    /// Starts with everything accepted.
    pub(super) fn accepted(jobs: BTreeMap<String, Job>) -> Self {
        let mut world = Self::new(jobs);
        world.turn();
        assert!(world.status().jobs.is_some(), "{:?}", world.status());
        world
    }

    /// Starts after the turn that accepts or refuses.
    pub(super) fn accepted_or_not(jobs: BTreeMap<String, Job>) -> Self {
        let mut world = Self::new(jobs);
        world.turn();
        world
    }

    pub(super) fn status(&self) -> &WorkflowRunStatus {
        &self.state.status
    }

    pub(super) fn job(&self, name: &str) -> &JobStatus {
        &self.state.status.jobs.as_ref().unwrap()[name]
    }

    pub(super) fn phase(&self) -> WorkflowRunPhase {
        self.state.status.phase
    }

    pub(super) fn phases(&self) -> Vec<(&str, JobPhase)> {
        let jobs = self.state.status.jobs.as_ref().unwrap();
        jobs.iter()
            .map(|(name, job)| (name.as_str(), job.phase))
            .collect()
    }

    pub(super) fn message(&self) -> &str {
        self.state.status.message.as_deref().unwrap_or_default()
    }

    pub(super) fn condition(&self, kind: &str) -> Option<(&str, &str, &str)> {
        let found = condition::get(&self.state.status.conditions, kind)?;
        Some((found.status.as_str(), &found.reason, &found.message))
    }

    /// Calculates, supplying what is asked for from the world.
    pub(super) fn decide(&mut self) -> Step {
        self.state.check().unwrap();
        // Nothing that was read for one turn is used in the next.
        self.state.definitions = Definitions::default();
        self.state.absent_calls.clear();
        for _ in 0..12 {
            let step = calculate(&self.state);
            if step.needs.is_empty() {
                return step;
            }
            for need in step.needs {
                self.supply(need);
            }
        }
        panic!("it keeps asking: {:?}", calculate(&self.state).needs)
    }

    fn supply(&mut self, need: Need) {
        let state = &mut self.state;
        match need {
            Need::ConfirmRun(name) => {
                assert!(!state.children.iter().any(|child| child.name == name));
                assert!(state.absent.insert(name), "it is asked once");
            }
            Need::ConfirmWorkflowRun(name) => {
                assert!(!state.calls.iter().any(|child| child.name == name));
                assert!(state.absent_calls.insert(name), "it is asked once");
            }
            Need::ConfirmWorkspace(name) => {
                assert!(!state.workspaces.iter().any(|found| found.name == name));
                assert!(state.absent_workspaces.insert(name), "it is asked once");
            }
            Need::Action(name) => {
                let found = self.stored.actions.get(&name).cloned().flatten();
                assert!(state.definitions.actions.insert(name, found).is_none());
            }
            Need::Workflow(name) => {
                let found = self.stored.workflows.get(&name).cloned().flatten();
                assert!(state.definitions.workflows.insert(name, found).is_none());
            }
        }
    }

    /// Carries out at most `writes` single writes of an action; the rest is lost to a crash.
    pub(super) fn apply(&mut self, action: Action, writes: usize) -> Vec<Outcome> {
        match action {
            Action::None => Vec::new(),
            Action::CancelItself { .. } => {
                self.state.spec.cancel_requested |= writes > 0;
                Vec::new()
            }
            Action::Initialize(initialize) => {
                if let Some(snapshot) = initialize.snapshot.filter(|_| writes > 0) {
                    assert!(self.state.snapshot.is_none(), "a snapshot is written once");
                    let bytes = snapshot.to_value();
                    let stored = crate::snapshot::Snapshot::from_value("ns/s", &bytes);
                    self.state.snapshot = Some(stored.unwrap().into());
                }
                Vec::new()
            }
            Action::StartRunnableSteps(targets) => {
                let steps = targets.steps.len();
                let kept = targets.steps.into_iter().take(writes);
                let mut outcomes: Vec<_> = kept.map(|target| self.create(target)).collect();
                let kept = targets.calls.into_iter().take(writes.saturating_sub(steps));
                outcomes.extend(kept.map(|target| self.call(target)));
                outcomes
            }
            Action::RequestChildCancellation(names) => {
                let runs = names.runs.len();
                for name in names.runs.into_iter().take(writes) {
                    assert!(!self.asked.contains(&name), "{name} is asked once");
                    self.run_named(&name).cancel_asked = true;
                    self.asked.push(name);
                }
                let writes = writes.saturating_sub(runs);
                for name in names.workflow_runs.into_iter().take(writes) {
                    assert!(!self.asked.contains(&name), "{name} is asked once");
                    self.child_named(&name).cancel_asked = true;
                    self.asked.push(name);
                }
                Vec::new()
            }
        }
    }

    fn call(&mut self, target: StartCall) -> Outcome {
        let known = |child: &Called| child.name == target.name;
        assert!(!self.state.calls.iter().any(known), "it is created once");
        self.state.calls.push(Called {
            name: target.name.clone(),
            uid: format!("uid of {}", target.name),
            annotations: target.annotations.clone(),
            ..Called::default()
        });
        self.called.push(target.clone());
        Outcome::Called {
            job: target.job,
            name: target.name,
        }
    }

    pub(super) fn child_named(&mut self, name: &str) -> &mut Called {
        let mut children = self.state.calls.iter_mut();
        children.find(|child| child.name == name).unwrap()
    }

    /// The child WorkflowRun of a call job.
    pub(super) fn child(&mut self, job: &str) -> &mut Called {
        let name = kruntimes_core::names::child_workflow_run(&self.state.name, job);
        self.child_named(&name)
    }

    fn create(&mut self, target: StartStep) -> Outcome {
        let known = |child: &Child| child.name == target.name;
        assert!(
            !self.state.children.iter().any(known),
            "{} is created once",
            target.name
        );
        self.state.children.push(Child {
            name: target.name.clone(),
            uid: format!("uid of {}", target.name),
            workspace: target.spec.workspace.as_ref().map(|used| used.name.clone()),
            job: target.labels[LABEL_WORKFLOW_JOB].clone(),
            step: target.labels[LABEL_WORKFLOW_STEP].clone(),
            action_step: target.labels.get(LABEL_WORKFLOW_ACTION_STEP).cloned(),
            ..Child::default()
        });
        if let Some(workspace) = &target.workspace {
            self.state.workspaces.push(Workspace {
                name: workspace.name.clone(),
                ..Workspace::default()
            });
        }
        self.created.push(target.clone());
        Outcome::Started {
            key: target.key,
            name: target.name,
        }
    }

    /// One undisturbed turn; returns what was done.
    pub(super) fn turn(&mut self) -> Action {
        let step = self.decide();
        let outcomes = self.apply(step.action.clone(), usize::MAX);
        self.state.status = merge(step.desired, &outcomes);
        step.action
    }

    /// A turn that must have nothing to do.
    pub(super) fn idle_turn(&mut self) {
        let before = self.state.status.clone();
        assert_eq!(self.turn(), Action::None);
        assert_eq!(self.state.status, before);
    }

    /// A turn that only writes the status, and one with nothing to do.
    pub(super) fn idle_turn_after_one(&mut self) {
        assert_eq!(self.turn(), Action::None);
        self.idle_turn();
    }

    /// Turns until nothing changes.
    pub(super) fn settle(&mut self) {
        for _ in 0..400 {
            let before = self.state.status.clone();
            if self.turn() == Action::None && self.state.status == before {
                return;
            }
        }
        panic!("never settles: {:?}", self.state.status);
    }

    pub(super) fn run_named(&mut self, name: &str) -> &mut Child {
        let mut children = self.state.children.iter_mut();
        children.find(|child| child.name == name).unwrap()
    }

    pub(super) fn run(&mut self, job: &str, step: &str) -> &mut Child {
        let mut children = self.state.children.iter_mut();
        let found = children.find(|child| child.job == job && child.step == step);
        found.unwrap_or_else(|| panic!("no Run of {job}/{step}"))
    }

    /// Ends a Run.
    pub(super) fn end(&mut self, job: &str, step: &str, phase: RunPhase) {
        self.run(job, step).phase = phase;
    }

    /// Ends a Run well, with outputs.
    pub(super) fn succeed(&mut self, job: &str, step: &str, outputs: &[(&str, &str)]) {
        let own = |&(k, v): &(&str, &str)| (k.to_owned(), v.to_owned());
        let run = self.run(job, step);
        run.phase = RunPhase::Succeeded;
        run.outputs = outputs.iter().map(own).collect();
    }

    /// Ends the first unfinished Run well; tells whether there was one.
    pub(super) fn succeed_any(&mut self) -> bool {
        self.succeed_any_with(&[])
    }

    /// The same, with outputs.
    pub(super) fn succeed_any_with(&mut self, outputs: &[(&str, &str)]) -> bool {
        let own = |&(k, v): &(&str, &str)| (k.to_owned(), v.to_owned());
        let mut open = self.state.children.iter_mut();
        let Some(run) = open.find(|run| !run.phase.is_terminal()) else {
            return false;
        };
        run.phase = RunPhase::Succeeded;
        run.outputs = outputs.iter().map(own).collect();
        true
    }

    pub(super) fn names(action: &Action) -> Vec<String> {
        match action {
            Action::StartRunnableSteps(targets) => {
                let steps = targets.steps.iter().map(|target| {
                    let StepKey { job, step, .. } = &target.key;
                    match &target.key.action_step {
                        Some(inner) => format!("{job}/{step}/{inner}"),
                        None => format!("{job}/{step}"),
                    }
                });
                let calls = targets.calls.iter().map(|target| target.job.clone());
                steps.chain(calls).collect()
            }
            Action::RequestChildCancellation(names) => {
                [names.runs.clone(), names.workflow_runs.clone()].concat()
            }
            Action::None | Action::Initialize(_) | Action::CancelItself { .. } => Vec::new(),
        }
    }

    /// One turn that must start exactly these steps.
    pub(super) fn starts(&mut self, want: &[&str]) {
        let action = self.turn();
        assert_eq!(Self::names(&action), want, "{action:?}");
    }

    pub(super) fn step_phases(&self, job: &str) -> Vec<StepPhase> {
        self.job(job).steps.iter().map(|step| step.phase).collect()
    }
}
