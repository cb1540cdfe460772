//! How much of its outputs a WorkflowRun may keep (W-84).

use std::collections::BTreeMap;

use kruntimes_core::api::{ArtifactRef, JobStatus, WorkflowRunStatus};
use kruntimes_core::limits::{OUTPUTS_MAX_BYTES, OUTPUTS_MAX_KEYS, WORKFLOW_OUTPUTS_MAX_BYTES};

use super::message;

/// Bytes of outputs in one status.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Budget {
    pub(super) used: usize,
}

/// Counts keys and values.
pub(super) fn bytes(outputs: &BTreeMap<String, String>) -> usize {
    outputs
        .iter()
        .map(|(key, value)| key.len() + value.len())
        .sum()
}

/// Counts names and serialized references.
pub(super) fn artifact_bytes(artifacts: &BTreeMap<String, ArtifactRef>) -> usize {
    let size = |reference: &ArtifactRef| {
        serde_json::to_vec(reference).map_or(usize::MAX, |text| text.len())
    };
    artifacts
        .iter()
        .map(|(name, reference)| name.len().saturating_add(size(reference)))
        .fold(0, usize::saturating_add)
}

/// Counts what one job holds.
pub(super) fn job_bytes(job: &JobStatus) -> usize {
    let steps = job.steps.iter().map(|step| {
        let inner = step.action_steps.iter().map(|inner| bytes(&inner.outputs));
        bytes(&step.outputs) + inner.sum::<usize>()
    });
    bytes(&job.outputs) + artifact_bytes(&job.artifacts) + steps.sum::<usize>()
}

impl Budget {
    /// Counts what a status already holds.
    pub(super) fn of(status: &WorkflowRunStatus) -> Self {
        let jobs = status.jobs.iter().flat_map(BTreeMap::values);
        Self {
            used: bytes(&status.outputs) + jobs.map(job_bytes).sum::<usize>(),
        }
    }

    /// Takes room for `size` bytes of `whose` outputs, or says why there is none.
    pub(super) fn take(&mut self, whose: impl Fn() -> String, size: usize) -> Result<(), String> {
        if size > OUTPUTS_MAX_BYTES {
            return Err(message::map_too_large(&whose(), size));
        }
        let total = self.used.saturating_add(size);
        if total > WORKFLOW_OUTPUTS_MAX_BYTES {
            return Err(message::total_too_large(&whose(), total));
        }
        self.used = total;
        Ok(())
    }

    /// Takes room for a whole map.
    pub(super) fn take_map(
        &mut self,
        whose: impl Fn() -> String,
        outputs: &BTreeMap<String, String>,
    ) -> Result<(), String> {
        if outputs.len() > OUTPUTS_MAX_KEYS {
            return Err(message::too_many_keys(&whose(), outputs.len()));
        }
        self.take(whose, bytes(outputs))
    }
}
