//! Takes observations in and remembers which jobs they are about.

use std::sync::Arc;

use kruntimes_core::api::{JobPhase, WorkflowRunPhase, WorkflowSpec};
use kruntimes_core::names;

use super::slot::Touched;
use super::{Engine, JobId};
use crate::plan::turn::fold;
use crate::plan::{Called, Child, Outcome, StepKey, Workspace};

/// One thing that was seen.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Observation {
    /// What a Run looks like now.
    Run(Child),
    /// An uncached read did not find a Run (W-82).
    RunGone {
        /// The step that it stood for.
        key: StepKey,
        /// Its name.
        name: String,
    },
    /// What a child WorkflowRun looks like now.
    Call(Called),
    /// An uncached read did not find the child WorkflowRun of this name.
    CallGone(String),
    /// What a job workspace looks like now.
    Workspace(Workspace),
    /// An uncached read did not find the workspace of this name.
    WorkspaceGone(String),
    /// A Workflow that was needed, or its absence.
    Workflow(String, Option<Arc<WorkflowSpec>>),
    /// What became of a target.
    Outcome(Outcome),
    /// Nothing came of the target of this job; it is to be yielded again (W-61).
    NotStarted(String),
}

impl Engine<'_> {
    /// Takes an observation in; the next [`turn`](Engine::turn) yields what it made possible.
    pub fn observe(&mut self, observation: Observation) {
        if self.is_terminal() {
            return;
        }
        match observation {
            Observation::Run(child) => self.see(child),
            Observation::RunGone { key, name } => {
                if let Some(job) = self.compiled.graph.find(&key.job) {
                    let slot = &mut self.slots[job.index()];
                    slot.family.remove(&name);
                    let step = slot.step(&key.step);
                    self.state.absent.insert(name);
                    self.touch(job, step.map_or(Touched::All, Touched::Step));
                }
            }
            Observation::Call(called) => {
                self.touch_child(&called.name);
                self.calls.insert(called.name.clone(), called);
            }
            Observation::CallGone(name) => {
                self.touch_child(&name);
                self.calls.remove(&name);
                self.state.absent_calls.insert(name);
            }
            Observation::Workspace(workspace) => {
                self.touch_child(&workspace.name);
                self.state.absent_workspaces.remove(&workspace.name);
                self.workspaces.insert(workspace.name.clone(), workspace);
            }
            Observation::WorkspaceGone(name) => {
                self.touch_child(&name);
                self.workspaces.remove(&name);
                self.state.absent_workspaces.insert(name);
            }
            Observation::Workflow(name, spec) => {
                self.state.definitions.workflows.insert(name, spec);
                self.ready.append(&mut self.held);
            }
            Observation::Outcome(outcome) => self.outcome(&outcome),
            Observation::NotStarted(job) => {
                if let Some(job) = self.compiled.graph.find(&job) {
                    self.slots[job.index()].starting = false;
                    self.touch(job, Touched::Nothing);
                }
            }
        }
    }

    fn see(&mut self, child: Child) {
        let Some(job) = self.compiled.graph.find(&child.job) else {
            self.strays.retain(|stray| stray.name != child.name);
            self.strays.push(child);
            return;
        };
        let slot = &mut self.slots[job.index()];
        let step = slot.step(&child.step);
        self.state.absent.remove(&child.name);
        if let Some(workspace) = &child.workspace
            && !self.by_child.contains_key(workspace)
        {
            self.by_child.insert(workspace.clone(), job);
        }
        slot.family.put(child);
        self.touch(job, step.map_or(Touched::Nothing, Touched::Step));
    }

    fn outcome(&mut self, outcome: &Outcome) {
        let Some(job) = self.compiled.graph.find(outcome.job()) else {
            return;
        };
        let slot = &mut self.slots[job.index()];
        slot.starting = false;
        if slot.status.phase.is_settled() || slot.knows(outcome) {
            return;
        }
        fold(&mut slot.status, outcome);
        self.state.status.phase = WorkflowRunPhase::Running;
        match outcome {
            // The next news is that of the Run.
            Outcome::Started { .. } => {}
            Outcome::Called { name, .. } => {
                self.by_child.insert(name.clone(), job);
                if self.calls.contains_key(name) {
                    self.touch(job, Touched::Nothing);
                }
            }
            Outcome::Foreign { .. }
            | Outcome::Invalid { .. }
            | Outcome::ForeignWorkspace { .. } => self.touch(job, Touched::Nothing),
            Outcome::ForeignCall { .. } | Outcome::InvalidCall { .. } => self.ended.push(job),
        }
    }

    pub(super) fn touch(&mut self, job: JobId, touched: Touched) {
        self.dirty.push((job, touched));
    }

    fn touch_child(&mut self, name: &str) {
        if let Some(job) = self.by_child.get(name) {
            self.dirty.push((*job, Touched::Nothing));
        }
    }

    /// Sorts what a state holds into the places where it is found.
    pub(super) fn take_over(&mut self) {
        let (graph, jobs) = (&self.compiled.graph, &self.compiled.jobs);
        for job in graph.jobs() {
            let at = job.index();
            let slots = &self.slots;
            let done = |need: &&JobId| slots[need.index()].status.phase == JobPhase::Succeeded;
            let waits = graph.needs(job).len() - graph.needs(job).iter().filter(done).count();
            let slot = &mut self.slots[at];
            slot.waits = waits;
            if jobs[at].uses.is_some() {
                let name = names::child_workflow_run(&self.state.name, graph.name(job));
                self.by_child.insert(name, job);
                if let Some(name) = &slot.status.workflow_run_name {
                    self.by_child.insert(name.clone(), job);
                }
            }
            match slot.status.phase {
                JobPhase::Succeeded | JobPhase::Skipped => self.settled += 1,
                JobPhase::Failed => {
                    self.settled += 1;
                    self.failed.insert(job);
                    // Whoever waits for it may not have been skipped yet.
                    self.ended.push(job);
                }
                JobPhase::Pending | JobPhase::Waiting | JobPhase::Running => {
                    self.dirty.push((job, Touched::All));
                }
            }
        }
        // They are counted again as they are taken in.
        self.settled -= self.ended.len();
        let state = &mut self.state;
        let (children, calls) = (
            std::mem::take(&mut state.children),
            std::mem::take(&mut state.calls),
        );
        for workspace in std::mem::take(&mut state.workspaces) {
            let name = workspace.name.clone();
            self.workspaces.entry(name).or_insert(workspace);
        }
        for child in children {
            self.see(child);
        }
        let ours = |called: &Called| called.ownership != crate::plan::Ownership::Foreign;
        for called in calls.into_iter().filter(ours) {
            self.calls.entry(called.name.clone()).or_insert(called);
        }
    }
}
