//! Laws and scenarios of the turn, against a world without clock or network.

mod cancellation;
mod crashes;
mod data;
mod finish;
mod laws;
mod limits;
mod start;

use std::collections::BTreeMap;

use kruntimes_core::api::{
    Job, JobPhase, JobStatus, RunPhase, StepPhase, WorkflowRunPhase, WorkflowRunStatus,
};
use kruntimes_core::condition;
use kruntimes_core::keys::{LABEL_WORKFLOW_ACTION_STEP, LABEL_WORKFLOW_JOB, LABEL_WORKFLOW_STEP};
use kruntimes_core::time::Time;

use super::*;
pub(super) use crate::testing::{a_job, jobs};

/// One WorkflowRun, its Runs, and a hand that carries out actions.
#[derive(Clone)]
pub(super) struct World {
    pub(super) state: State,
    /// Every create that was carried out, in order.
    pub(super) created: Vec<StartStep>,
    /// Every cancellation that was sent, in order.
    pub(super) asked: Vec<String>,
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
            asked: Vec::new(),
        }
    }

    /// Starts with everything accepted.
    pub(super) fn accepted(jobs: BTreeMap<String, Job>) -> Self {
        let mut world = Self::new(jobs);
        world.turn();
        assert!(world.status().jobs.is_some(), "{:?}", world.status());
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
        let mut step = calculate(&self.state);
        if !step.needs.is_empty() {
            for Need::ConfirmRun(name) in step.needs {
                assert!(!self.state.children.iter().any(|child| child.name == name));
                self.state.absent.insert(name);
            }
            step = calculate(&self.state);
        }
        assert_eq!(step.needs, []);
        step
    }

    /// Carries out at most `writes` single writes of an action; the rest is lost to a crash.
    pub(super) fn apply(&mut self, action: Action, writes: usize) -> Vec<Outcome> {
        match action {
            Action::None => Vec::new(),
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
                let kept = targets.into_iter().take(writes);
                kept.map(|target| self.create(target)).collect()
            }
            Action::RequestChildCancellation(names) => {
                for name in names.into_iter().take(writes) {
                    assert!(!self.asked.contains(&name), "{name} is asked once");
                    self.run_named(&name).cancel_asked = true;
                    self.asked.push(name);
                }
                Vec::new()
            }
        }
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
            job: target.labels[LABEL_WORKFLOW_JOB].clone(),
            step: target.labels[LABEL_WORKFLOW_STEP].clone(),
            action_step: target.labels.get(LABEL_WORKFLOW_ACTION_STEP).cloned(),
            ..Child::default()
        });
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
        let mut open = self.state.children.iter_mut();
        let Some(run) = open.find(|run| !run.phase.is_terminal()) else {
            return false;
        };
        run.phase = RunPhase::Succeeded;
        true
    }

    pub(super) fn names(action: &Action) -> Vec<String> {
        match action {
            Action::StartRunnableSteps(targets) => targets
                .iter()
                .map(|target| format!("{}/{}", target.key.job, target.key.step))
                .collect(),
            Action::RequestChildCancellation(names) => names.clone(),
            Action::None | Action::Initialize(_) => Vec::new(),
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
