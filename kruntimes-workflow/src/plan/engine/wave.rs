//! One wave: derive what was touched, tell dependents, attempt what is ready.

use std::mem;

use kruntimes_core::api::{JobPhase, WorkflowRunPhase};

use super::slot::Touched;
use super::{Engine, JobId, Turn};
use crate::plan::budget::{Budget, job_bytes};
use crate::plan::children::Children;
use crate::plan::derive::{Derivation, skip_job, skip_text};
use crate::plan::scopes::Jobs;
use crate::plan::start::{Attempt, Position};
use crate::plan::{ChildNames, workspace};

impl Engine<'_> {
    /// Does for the jobs that were touched what a turn does for all.
    pub(super) fn wave(&mut self, turn: &mut Turn) {
        if self.is_terminal() {
            self.dirty.clear();
            self.ended.clear();
            self.ready.clear();
            return;
        }
        let mut dirty = mem::take(&mut self.dirty);
        dirty.sort_unstable();
        for (job, touched) in dirty.drain(..) {
            self.derive(job, touched, turn);
        }
        // The room is used again.
        self.dirty = dirty;
        self.tell_dependents();
        if self.settled == self.slots.len() {
            self.end();
            return;
        }
        let mut ready = mem::take(&mut self.ready);
        ready.sort_unstable();
        ready.dedup();
        for job in ready.drain(..) {
            self.attempt(job, turn);
        }
        if self.ready.is_empty() {
            self.ready = ready;
        }
    }

    fn children(&self, job: JobId) -> Children<'_> {
        let family = &self.slots[job.index()].family;
        let absent = &self.state.absent;
        Children::of_one(family, &self.calls, &self.workspaces, absent)
    }

    fn derive(&mut self, job: JobId, touched: Touched, turn: &mut Turn) {
        let at = job.index();
        let slot = &mut self.slots[at];
        if slot.status.phase.is_settled() {
            return;
        }
        let steps = match touched {
            Touched::Nothing => 0..0,
            Touched::Step(step) => step..step + 1,
            Touched::All => 0..slot.status.steps.len(),
        };
        let mut status = mem::take(&mut slot.status);
        let name = self.compiled.graph.name(job);
        let mut derivation = Derivation {
            state: &self.state,
            children: self.children(job),
            budget: self.budget,
            needs: mem::take(&mut turn.needs),
            adopt: mem::take(&mut turn.adopt),
        };
        let named = (name, Some(self.compiled.jobs[at]));
        derivation.advance_job(named, &mut status, steps, &self.board());
        let lost = if self.workspaces.is_empty() && self.state.absent_workspaces.is_empty() {
            Vec::new()
        } else {
            workspace::stranded_in(&self.state, &derivation.children, name, &status)
        };
        let Derivation {
            budget,
            needs,
            adopt,
            ..
        } = derivation;
        (turn.needs, turn.adopt) = (needs, adopt);
        turn.cancel.runs.extend(lost);
        let phase = status.phase;
        self.slots[at].status = status;
        self.count(at, phase, budget);
        match phase {
            JobPhase::Succeeded | JobPhase::Failed | JobPhase::Skipped => self.ended.push(job),
            JobPhase::Running => {
                self.state.status.phase = WorkflowRunPhase::Running;
                self.ready.push(job);
            }
            JobPhase::Pending | JobPhase::Waiting => self.ready.push(job),
        }
    }

    /// Counts what a job now holds; one that failed may hold less than was taken for it.
    fn count(&mut self, at: usize, phase: JobPhase, after: Budget) {
        let slot = &mut self.slots[at];
        let before = slot.bytes;
        slot.bytes = if phase == JobPhase::Failed {
            job_bytes(&slot.status)
        } else {
            before + (after.used - self.budget.used)
        };
        self.budget.used = self.budget.used - before + slot.bytes;
    }

    /// Lets dependents of what settled become ready, or skips them (W-74, W-76).
    fn tell_dependents(&mut self) {
        let mut ended = mem::take(&mut self.ended);
        let mut failed = Vec::new();
        self.settled += ended.len();
        for job in ended.drain(..) {
            if self.slots[job.index()].status.phase == JobPhase::Failed {
                self.failed.insert(job);
                failed.push(job);
                continue;
            }
            for dependent in self.compiled.graph.dependents(job) {
                let waits = &mut self.slots[dependent.index()].waits;
                *waits -= 1;
                if *waits == 0 {
                    self.ready.push(*dependent);
                }
            }
        }
        // The room is used again.
        self.ended = ended;
        if !failed.is_empty() {
            self.skip_behind(failed);
            self.explain();
        }
    }

    fn skip_behind(&mut self, mut front: Vec<JobId>) {
        while !front.is_empty() {
            let graph = &self.compiled.graph;
            let dependents = front.iter().flat_map(|job| graph.dependents(*job));
            let idle = |job: &JobId| {
                let phase = self.slots[job.index()].status.phase;
                matches!(phase, JobPhase::Pending | JobPhase::Waiting)
            };
            let mut next: Vec<JobId> = dependents.copied().filter(idle).collect();
            next.sort_unstable();
            next.dedup();
            // All are judged before one changes, so that the blame does not depend on the order.
            let board = self.board();
            let text = |job: &JobId| {
                let status = &self.slots[job.index()].status;
                skip_text(graph.name(*job), status, &board)
            };
            let texts: Vec<Option<String>> = next.iter().map(text).collect();
            for (job, text) in next.iter().zip(texts) {
                skip_job(
                    &mut self.slots[job.index()].status,
                    text.unwrap_or_default(),
                );
            }
            self.settled += next.len();
            front = next;
        }
    }

    /// Shows the message of the first failed job that has one (W-81).
    fn explain(&mut self) {
        let mut failed = self.failed.iter();
        let first = failed.find_map(|job| self.slots[job.index()].status.message.clone());
        if let Some(text) = first {
            self.state.status.message = Some(text);
        }
    }

    fn end(&mut self) {
        let mut status = mem::take(&mut self.state.status);
        let mut derivation = Derivation {
            state: &self.state,
            children: self.children(self.compiled.graph.order()[0]),
            budget: self.budget,
            needs: Vec::new(),
            adopt: ChildNames::default(),
        };
        derivation.end(&mut status, !self.failed.is_empty(), &self.board());
        self.state.status = status;
    }

    fn attempt(&mut self, job: JobId, turn: &mut Turn) {
        let at = job.index();
        let slot = &self.slots[at];
        let may_start = match slot.status.phase {
            JobPhase::Running => true,
            JobPhase::Pending | JobPhase::Waiting => slot.waits == 0,
            JobPhase::Succeeded | JobPhase::Failed | JobPhase::Skipped => false,
        };
        if !may_start || slot.starting {
            return;
        }
        let (name, definition) = (self.compiled.graph.name(job), self.compiled.jobs[at]);
        let (snapshot, board) = (self.compiled.snapshot, self.board());
        let position = Position {
            state: &self.state,
            snapshot,
            children: &self.children(job),
            name,
            definition,
            job: &slot.status,
            jobs: &Jobs::seen_from(name, &snapshot.spec.jobs, &board),
        };
        let attempt = if definition.uses.is_none() {
            position.step()
        } else {
            position.call()
        };
        let Some(attempt) = attempt else { return };
        match &attempt {
            Attempt::Step(step) => {
                if let Some(workspace) = &step.workspace {
                    self.by_child.insert(workspace.name.clone(), job);
                }
                self.slots[at].starting = true;
            }
            Attempt::Call(_) => self.slots[at].starting = true,
            Attempt::Held(_) => self.held.push(job),
            // An engine has no conditions; `fits` sees to it.
            Attempt::Refused(..) | Attempt::Settled(_) | Attempt::Skipped(_) => {}
        }
        let status = &mut self.slots[at].status;
        if attempt.record(status, &mut turn.targets, &mut turn.needs) {
            return;
        }
        self.state.status.phase = WorkflowRunPhase::Running;
        if status.phase.is_settled() {
            self.held.retain(|held| *held != job);
            self.ended.push(job);
        } else {
            self.touch(job, Touched::Nothing);
        }
    }
}
