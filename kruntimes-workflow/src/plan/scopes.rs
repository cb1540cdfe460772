//! What expressions of a job may read (section 5.2).

use std::collections::{BTreeMap, BTreeSet};

use kruntimes_core::api::{ActionStepStatus, Job, JobPhase, JobStatus, StepPhase, StepStatus};

use crate::expansion::combined;
use crate::expr::Source;
use crate::graph;
use crate::snapshot::Snapshot;

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

/// Succeeded jobs among those a text may name (W-34).
pub(super) struct Jobs<'a> {
    /// All jobs of the definition.
    pub(super) defined: BTreeSet<&'a str>,
    /// Jobs the text may name; absent means all.
    pub(super) visible: Option<BTreeSet<&'a str>>,
    /// Their state.
    pub(super) status: &'a BTreeMap<String, JobStatus>,
    /// Outputs of jobs that became legs (W-200).
    pub(super) combined: BTreeMap<&'a str, BTreeMap<String, String>>,
}

impl<'a> Jobs<'a> {
    /// What texts of one job may read.
    pub(super) fn seen_from(
        job: &str,
        defined: &'a BTreeMap<String, Job>,
        status: &'a BTreeMap<String, JobStatus>,
    ) -> Self {
        Self {
            defined: defined.keys().map(String::as_str).collect(),
            visible: Some(graph::ancestors(defined, job)),
            status,
            combined: BTreeMap::new(),
        }
    }

    /// Adds the jobs that became legs, as far as all legs may be named.
    pub(super) fn with_legs(mut self, snapshot: &'a Snapshot) -> Self {
        for (name, legs) in &snapshot.legs {
            let seen = |leg: &String| {
                let visible = self.visible.as_ref();
                visible.is_none_or(|names| names.contains(leg.as_str()))
            };
            if legs.iter().all(seen)
                && let Some(outputs) = combined(legs, self.status)
            {
                self.combined.insert(name, outputs);
            }
            self.defined.insert(name);
        }
        self
    }

    /// What the outputs of a finished WorkflowRun may read.
    pub(super) fn all(status: &'a BTreeMap<String, JobStatus>) -> Self {
        Self {
            defined: status.keys().map(String::as_str).collect(),
            visible: None,
            status,
            combined: BTreeMap::new(),
        }
    }
}

impl Source for Jobs<'_> {
    fn knows(&self, name: &str) -> bool {
        self.defined.contains(name)
    }

    fn outputs(&self, name: &str) -> Option<&BTreeMap<String, String>> {
        if let Some(outputs) = self.combined.get(name) {
            return Some(outputs);
        }
        let visible = self
            .visible
            .as_ref()
            .is_none_or(|names| names.contains(name));
        let job = self.status.get(name).filter(|_| visible)?;
        (job.phase == JobPhase::Succeeded).then_some(&job.outputs)
    }
}
