//! What an engine keeps of one job.

use kruntimes_core::api::JobStatus;

use crate::graph::{Graph, JobId};
use crate::plan::Outcome;
use crate::plan::budget::job_bytes;
use crate::plan::children::Family;
use crate::plan::scopes::States;

/// One job in progress.
#[derive(Clone, Debug, Default)]
pub(super) struct Slot {
    pub(super) status: JobStatus,
    /// Predecessors that have not succeeded.
    pub(super) waits: usize,
    pub(super) family: Family,
    /// Whether a target was yielded whose outcome is not known.
    pub(super) starting: bool,
    /// What its outputs count in the budget.
    pub(super) bytes: usize,
}

impl Slot {
    pub(super) fn new(status: JobStatus) -> Self {
        Self {
            bytes: job_bytes(&status),
            status,
            ..Self::default()
        }
    }

    /// Tells whether the Run that was started has been seen before its outcome was told.
    pub(super) fn knows(&self, outcome: &Outcome) -> bool {
        let Outcome::Started { key, .. } = outcome else {
            return false;
        };
        let Some(step) = self.step(&key.step).map(|at| &self.status.steps[at]) else {
            return false;
        };
        match &key.action_step {
            None => step.run_name.is_some(),
            Some(inner) => {
                let mut steps = step.action_steps.iter();
                let inner = steps.find(|step| step.name == *inner);
                inner.is_some_and(|step| step.run_name.is_some())
            }
        }
    }

    /// Finds a step; mostly it is the first that is not done.
    pub(super) fn step(&self, name: &str) -> Option<usize> {
        let steps = &self.status.steps;
        let done = |phase| phase == kruntimes_core::api::StepPhase::Succeeded;
        let open = steps.iter().position(|step| !done(step.phase));
        let open = open.filter(|at| steps[*at].name == name);
        open.or_else(|| steps.iter().position(|step| step.name == name))
    }
}

/// Which steps of a job an observation is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Touched {
    /// None; something else about the job changed.
    Nothing,
    /// One.
    Step(usize),
    /// Any.
    All,
}

/// The state of all jobs, as texts of one of them read it.
pub(super) struct Board<'a> {
    pub(super) graph: &'a Graph<'a>,
    pub(super) slots: &'a [Slot],
}

impl States for Board<'_> {
    fn job(&self, name: &str) -> Option<&JobStatus> {
        let found: JobId = self.graph.find(name)?;
        Some(&self.slots[found.index()].status)
    }
}
