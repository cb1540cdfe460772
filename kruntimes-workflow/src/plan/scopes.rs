//! What expressions of a job may read (section 5.2).

use std::collections::{BTreeMap, BTreeSet};

use kruntimes_core::api::{Job, JobPhase, JobStatus, StepPhase, StepStatus};

use crate::expr::Source;

/// Earlier steps of the same job (W-35).
pub(super) struct Steps<'a> {
    /// All steps of the job.
    pub(super) all: &'a [StepStatus],
    /// How many of them are earlier than the text.
    pub(super) before: usize,
}

impl Source for Steps<'_> {
    fn knows(&self, name: &str) -> bool {
        self.all.iter().any(|step| step.name == name)
    }

    fn outputs(&self, name: &str) -> Option<&BTreeMap<String, String>> {
        let earlier = self.all.iter().take(self.before);
        let mut done = earlier.filter(|step| step.phase == StepPhase::Succeeded);
        done.find(|step| step.name == name)
            .map(|step| &step.outputs)
    }
}

/// Succeeded jobs among those a text may name (W-34).
pub(super) struct Jobs<'a> {
    /// All jobs of the definition.
    pub(super) defined: &'a BTreeMap<String, Job>,
    /// Jobs the text may name; absent means all.
    pub(super) visible: Option<BTreeSet<&'a str>>,
    /// Their state.
    pub(super) status: &'a BTreeMap<String, JobStatus>,
}

impl Source for Jobs<'_> {
    fn knows(&self, name: &str) -> bool {
        self.defined.contains_key(name)
    }

    fn outputs(&self, name: &str) -> Option<&BTreeMap<String, String>> {
        let visible = self
            .visible
            .as_ref()
            .is_none_or(|names| names.contains(name));
        let job = self.status.get(name).filter(|_| visible)?;
        (job.phase == JobPhase::Succeeded).then_some(&job.outputs)
    }
}
