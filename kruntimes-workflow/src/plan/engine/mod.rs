//! The turn without the walk: folds one observation at a time and touches only what it changes.
//!
//! [`calculate`](super::calculate) looks at a whole WorkflowRun, which is what a
//! controller wants that keeps nothing in memory. A program that keeps its
//! executions uses an [`Engine`]: it holds the state, takes [`Observation`]s, and
//! yields with every [`turn`](Engine::turn) what became possible through them.
//! Both decide alike, and a state passes from one to the other at any time.
//!
//! Cancellation looks at every child anyway: take the state back with
//! [`Engine::into_state`], set the request, and let `calculate` decide the rest.

mod fold;
mod slot;
mod wave;

use std::collections::{BTreeMap, BTreeSet};

use kruntimes_core::api::{Job, WorkflowRunPhase, WorkflowRunStatus};

use super::budget::{Budget, job_bytes};
use super::{Called, Child, ChildNames, Need, State, Targets, Workspace};
use crate::graph::{Graph, Invalid, JobId};
use crate::snapshot::Snapshot;
pub use fold::Observation;
use slot::{Board, Slot, Touched};

/// A frozen definition ready to be executed: its graph, and its jobs by number.
#[derive(Clone, Debug)]
pub struct Compiled<'a> {
    snapshot: &'a Snapshot,
    graph: Graph<'a>,
    jobs: Vec<&'a Job>,
}

impl<'a> Compiled<'a> {
    /// Compiles a snapshot, in time that grows with its jobs and edges.
    ///
    /// # Errors
    ///
    /// Fails on a dependency that is no job, or on a cycle (W-14).
    pub fn new(snapshot: &'a Snapshot) -> Result<Self, Invalid> {
        Ok(Self {
            graph: Graph::compile(&snapshot.spec.jobs)?,
            jobs: snapshot.spec.jobs.values().collect(),
            snapshot,
        })
    }

    /// Returns the graph of its jobs.
    pub fn graph(&self) -> &Graph<'a> {
        &self.graph
    }

    /// Checks that an engine can continue a state.
    ///
    /// # Errors
    ///
    /// Says what stands against it; `calculate` decides about every state.
    pub fn fits(&self, state: &State) -> Result<(), Unfit> {
        let Some(jobs) = state.status.jobs.as_ref().filter(|jobs| !jobs.is_empty()) else {
            return Err(Unfit::Empty);
        };
        if state.deleting || state.spec.cancel_requested || state.status.phase.is_terminal() {
            return Err(Unfit::Ending);
        }
        let extensions = &state.policy.extensions;
        if !extensions.is_empty()
            || extensions.predicate.is_some()
            || !self.snapshot.legs.is_empty()
        {
            return Err(Unfit::Extended);
        }
        let graph = &self.graph;
        let alike = |(id, (name, job)): (JobId, (&String, &kruntimes_core::api::JobStatus))| {
            let needs = graph.needs(id).iter().map(|need| graph.name(*need));
            let steps = self.jobs[id.index()].steps.iter();
            graph.name(id) == name
                && needs.eq(job.pre.iter().map(String::as_str))
                && steps
                    .map(|step| &step.name)
                    .eq(job.steps.iter().map(|step| &step.name))
        };
        let snapshot = state.snapshot.as_deref();
        let same = snapshot.is_some_and(|snapshot| {
            std::ptr::eq(snapshot, self.snapshot) || snapshot == self.snapshot
        });
        if !same || jobs.len() != graph.len() || !graph.jobs().zip(jobs).all(alike) {
            return Err(Unfit::Different);
        }
        Ok(())
    }
}

/// What became possible through the observations since the last turn.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Turn {
    /// What to start; tell the [`Outcome`](super::Outcome) of each.
    pub targets: Targets,
    /// Children to ask to cancel, whose job lost its workspace.
    pub cancel: ChildNames,
    /// Facts to observe before more can be decided.
    pub needs: Vec<Need>,
    /// Used children without controller, to be adopted (W-46).
    pub adopt: ChildNames,
}

/// Why a state is not one that an engine continues; let `calculate` decide about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unfit {
    /// It has not been initialized.
    #[error("the state is not initialized")]
    Empty,
    /// It has ended, or is about to.
    #[error("the state has ended or is being cancelled")]
    Ending,
    /// Its jobs are not those of the definition.
    #[error("the state and the definition have different jobs or steps")]
    Different,
    /// Extensions are on: what they change is decided by `calculate`.
    #[error("the policy of the state has extensions")]
    Extended,
}

/// One WorkflowRun in progress.
#[derive(Clone, Debug)]
pub struct Engine<'a> {
    compiled: &'a Compiled<'a>,
    /// Everything that has no place of its own below; jobs and children are taken out.
    state: State,
    slots: Vec<Slot>,
    calls: BTreeMap<String, Called>,
    workspaces: BTreeMap<String, Workspace>,
    /// Jobs by the name of their child WorkflowRun, or of the workspace of their Runs.
    by_child: BTreeMap<String, JobId>,
    /// Runs that belong to no job.
    strays: Vec<Child>,
    budget: Budget,
    /// What has to be derived again.
    dirty: Vec<(JobId, Touched)>,
    /// Jobs that settled and whose dependents do not know it yet.
    ended: Vec<JobId>,
    /// Jobs that became ready.
    ready: Vec<JobId>,
    /// Jobs that wait for a fact.
    held: Vec<JobId>,
    failed: BTreeSet<JobId>,
    settled: usize,
}

impl<'a> Engine<'a> {
    /// Takes over a state that was initialized.
    ///
    /// # Errors
    ///
    /// Fails when the state is not one to continue from, see [`Compiled::fits`].
    pub fn resume(compiled: &'a Compiled<'a>, mut state: State) -> Result<Self, Unfit> {
        compiled.fits(&state)?;
        let jobs = state.status.jobs.take().unwrap_or_default();
        let mut engine = Self {
            budget: Budget {
                used: Budget::of(&state.status).used + jobs.values().map(job_bytes).sum::<usize>(),
            },
            slots: jobs.into_values().map(Slot::new).collect(),
            compiled,
            calls: BTreeMap::new(),
            workspaces: BTreeMap::new(),
            by_child: BTreeMap::new(),
            strays: Vec::new(),
            dirty: Vec::new(),
            ended: Vec::new(),
            ready: Vec::new(),
            held: Vec::new(),
            failed: BTreeSet::new(),
            settled: 0,
            state,
        };
        engine.take_over();
        Ok(engine)
    }

    /// Yields what became possible.
    pub fn turn(&mut self) -> Turn {
        let mut turn = Turn::default();
        self.turn_into(&mut turn);
        turn
    }

    /// The same into a turn whose lists have been emptied, so that their room is used again.
    pub fn turn_into(&mut self, turn: &mut Turn) {
        let mut waves = 0;
        while !self.is_idle() {
            self.wave(turn);
            waves += 1;
        }
        if waves > 1 {
            turn.targets.steps.sort_by(|a, b| a.key.cmp(&b.key));
            turn.targets.calls.sort_by(|a, b| a.job.cmp(&b.job));
        }
        let lists = [
            &mut turn.cancel.runs,
            &mut turn.adopt.runs,
            &mut turn.adopt.workflow_runs,
        ];
        for names in lists {
            names.sort();
            names.dedup();
        }
        turn.needs.sort();
        turn.needs.dedup();
        if turn.needs.is_empty() {
            // What was read for one turn is not used in the next.
            self.state.definitions.workflows.clear();
            self.state.absent_calls.clear();
        }
    }

    fn is_idle(&self) -> bool {
        let waiting = [&self.ended, &self.ready];
        self.dirty.is_empty() && waiting.into_iter().all(Vec::is_empty)
    }

    /// Tells whether the end is reached.
    pub fn is_terminal(&self) -> bool {
        self.phase().is_terminal()
    }

    /// Returns where the whole is.
    pub fn phase(&self) -> WorkflowRunPhase {
        self.state.status.phase
    }

    /// Writes the status down, which takes time for every job.
    pub fn status(&self) -> WorkflowRunStatus {
        let names = self.compiled.snapshot.spec.jobs.keys().cloned();
        let jobs = self.slots.iter().map(|slot| slot.status.clone());
        WorkflowRunStatus {
            jobs: Some(names.zip(jobs).collect()),
            ..self.state.status.clone()
        }
    }

    /// Gives the state back, for `calculate` or to store it.
    pub fn into_state(self) -> State {
        let mut state = self.state;
        state.children = self.strays;
        let names = self.compiled.snapshot.spec.jobs.keys().cloned();
        let mut jobs = Vec::with_capacity(self.slots.len());
        for slot in self.slots {
            jobs.push(slot.status);
            state.children.extend(slot.family.into_runs());
        }
        state.status.jobs = Some(names.zip(jobs).collect());
        state.calls = self.calls.into_values().collect();
        state.workspaces = self.workspaces.into_values().collect();
        state
    }

    fn board(&self) -> Board<'_> {
        Board {
            graph: &self.compiled.graph,
            slots: &self.slots,
        }
    }
}
