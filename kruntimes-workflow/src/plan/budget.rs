//! How much of its outputs a WorkflowRun may keep (W-84).

use std::collections::BTreeMap;

use kruntimes_core::api::WorkflowRunStatus;
use kruntimes_core::limits::{OUTPUTS_MAX_BYTES, OUTPUTS_MAX_KEYS, WORKFLOW_OUTPUTS_MAX_BYTES};

use super::message;

/// Bytes of outputs in one status.
pub(super) struct Budget {
    used: usize,
}

/// Counts keys and values.
pub(super) fn bytes(outputs: &BTreeMap<String, String>) -> usize {
    outputs
        .iter()
        .map(|(key, value)| key.len() + value.len())
        .sum()
}

impl Budget {
    /// Counts what a status already holds.
    pub(super) fn of(status: &WorkflowRunStatus) -> Self {
        let jobs = status.jobs.iter().flat_map(BTreeMap::values);
        let used = jobs.map(|job| {
            let steps = job.steps.iter().map(|step| {
                let inner = step.action_steps.iter().map(|inner| bytes(&inner.outputs));
                bytes(&step.outputs) + inner.sum::<usize>()
            });
            bytes(&job.outputs) + steps.sum::<usize>()
        });
        Self {
            used: bytes(&status.outputs) + used.sum::<usize>(),
        }
    }

    /// Takes room for `size` bytes of `whose` outputs, or says why there is none.
    pub(super) fn take(&mut self, whose: &str, size: usize) -> Result<(), String> {
        if size > OUTPUTS_MAX_BYTES {
            return Err(message::map_too_large(whose, size));
        }
        let total = self.used.saturating_add(size);
        if total > WORKFLOW_OUTPUTS_MAX_BYTES {
            return Err(message::total_too_large(whose, total));
        }
        self.used = total;
        Ok(())
    }

    /// Takes room for a whole map.
    pub(super) fn take_map(
        &mut self,
        whose: &str,
        outputs: &BTreeMap<String, String>,
    ) -> Result<(), String> {
        if outputs.len() > OUTPUTS_MAX_KEYS {
            let count = outputs.len();
            return Err(format!(
                "outputs of {whose} have {count} keys, exceeds {OUTPUTS_MAX_KEYS}"
            ));
        }
        self.take(whose, bytes(outputs))
    }
}
