//! What expressions of a job may read (section 5.2).

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

use kruntimes_core::api::{ActionStepStatus, Job, JobPhase, JobStatus, StepPhase, StepStatus};

use crate::expansion::{Legs, combined};
use crate::expr::Source;
use crate::graph;

/// A step of a job or of an Action, as expressions see it.
pub(super) trait Slot {
    fn name(&self) -> &str;
    fn phase(&self) -> StepPhase;
    fn outputs(&self) -> &BTreeMap<String, String>;
}

impl Slot for StepStatus {
    fn name(&self) -> &str {
        &self.name
    }

    fn phase(&self) -> StepPhase {
        self.conclusion()
    }

    fn outputs(&self) -> &BTreeMap<String, String> {
        &self.outputs
    }
}

impl Slot for ActionStepStatus {
    fn name(&self) -> &str {
        &self.name
    }

    fn phase(&self) -> StepPhase {
        self.phase
    }

    fn outputs(&self) -> &BTreeMap<String, String> {
        &self.outputs
    }
}

/// Earlier steps of the same job or Action (W-35).
pub(super) struct Steps<'a, S> {
    /// All steps of the job or Action.
    pub(super) all: &'a [S],
    /// How many of them are earlier than the text.
    pub(super) before: usize,
}

impl<S: Slot> Source for Steps<'_, S> {
    fn knows(&self, name: &str) -> bool {
        self.all.iter().any(|step| step.name() == name)
    }

    fn outputs(&self, name: &str) -> Option<&BTreeMap<String, String>> {
        let earlier = self.all.iter().take(self.before);
        let mut done = earlier.filter(|step| step.phase() == StepPhase::Succeeded);
        done.find(|step| step.name() == name).map(Slot::outputs)
    }
}

/// Steps of an Action before steps of the job that calls it (W-35).
pub(super) struct Within<'a> {
    /// Steps of the Action.
    pub(super) own: Steps<'a, ActionStepStatus>,
    /// Steps of the calling job.
    pub(super) caller: Steps<'a, StepStatus>,
}

impl Source for Within<'_> {
    fn knows(&self, name: &str) -> bool {
        self.own.knows(name) || self.caller.knows(name)
    }

    fn outputs(&self, name: &str) -> Option<&BTreeMap<String, String>> {
        if self.own.knows(name) {
            self.own.outputs(name)
        } else {
            self.caller.outputs(name)
        }
    }
}

/// Where the state of a job is found by its name.
pub(super) trait States {
    fn job(&self, name: &str) -> Option<&JobStatus>;
}

impl States for BTreeMap<String, JobStatus> {
    fn job(&self, name: &str) -> Option<&JobStatus> {
        self.get(name)
    }
}

/// Succeeded jobs among those a text may name (W-34).
pub(super) struct Jobs<'a> {
    /// The job whose texts are read, with all jobs of the definition; absent means that all may be named.
    reader: Option<(&'a str, &'a BTreeMap<String, Job>)>,
    /// Jobs that the reader depends on, once somebody names one that it does not need directly.
    before: OnceCell<BTreeSet<String>>,
    /// The state of all jobs.
    pub(super) status: &'a dyn States,
    /// Outputs of jobs that became legs, once all legs succeeded (W-200).
    combined: BTreeMap<&'a str, Option<BTreeMap<String, String>>>,
}

impl<'a> Jobs<'a> {
    /// What texts of one job may read.
    pub(super) fn seen_from(
        job: &'a str,
        defined: &'a BTreeMap<String, Job>,
        status: &'a dyn States,
    ) -> Self {
        Self {
            reader: Some((job, defined)),
            before: OnceCell::new(),
            status,
            combined: BTreeMap::new(),
        }
    }

    /// Adds the jobs that became legs, as far as all legs may be named.
    pub(super) fn with_legs(mut self, legs: &'a Legs) -> Self {
        for (name, legs) in legs {
            let visible = legs.iter().all(|leg| self.is_visible(leg));
            let status = self.status;
            let outputs = visible.then(|| combined(legs, |leg| status.job(leg)));
            self.combined.insert(name, outputs.flatten());
        }
        self
    }

    /// What the outputs of a finished WorkflowRun may read.
    pub(super) fn all(status: &'a dyn States) -> Self {
        Self {
            reader: None,
            before: OnceCell::new(),
            status,
            combined: BTreeMap::new(),
        }
    }

    fn is_visible(&self, name: &str) -> bool {
        let Some((reader, defined)) = self.reader else {
            return true;
        };
        let needs = defined.get(reader).map_or(&[][..], |job| &job.needs);
        let direct = name != reader && needs.iter().any(|need| need == name);
        let owned = || {
            graph::ancestors(defined, reader)
                .into_iter()
                .map(str::to_owned)
        };
        let before = || self.before.get_or_init(|| owned().collect());
        direct || before().contains(name)
    }
}

impl Source for Jobs<'_> {
    fn knows(&self, name: &str) -> bool {
        if self.combined.contains_key(name) {
            return true;
        }
        match self.reader {
            Some((_, defined)) => defined.contains_key(name),
            None => self.status.job(name).is_some(),
        }
    }

    fn outputs(&self, name: &str) -> Option<&BTreeMap<String, String>> {
        if let Some(combined) = self.combined.get(name) {
            return combined.as_ref();
        }
        let job = self.status.job(name).filter(|_| self.is_visible(name))?;
        (job.phase == JobPhase::Succeeded).then_some(&job.outputs)
    }
}
