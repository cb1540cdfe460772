//! Tells people what a WorkflowRun ran into: Warning events, which decide nothing.

use kruntimes_core::api::{JobPhase, WorkflowRunPhase, WorkflowRunStatus};
use kruntimes_core::condition;
use kruntimes_core::crd::WorkflowRun;
use kruntimes_core::keys::CONDITION_COMPLETED;
use kruntimes_workflow::explain::{What, changes};

use super::controller::Shell;
use crate::event;

/// Who tells.
const COMPONENT: &str = "kruntimes-controller";

/// Reason of the event about a snapshot that may not be used (W-54).
pub const REASON_SNAPSHOT_INVALID: &str = "SnapshotInvalid";

/// Events about failed jobs in one turn; the rest is in the status.
const JOBS_MAX: usize = 16;

impl Shell {
    /// Tells that a snapshot may not be used.
    pub(super) async fn tell_snapshot(&self, object: &WorkflowRun, text: &str) {
        let (reason, now) = (REASON_SNAPSHOT_INVALID, self.clock.now());
        event::warn(&self.client, object, COMPONENT, reason, text, now).await;
    }

    /// Tells which jobs failed in a turn, and that the whole did.
    ///
    /// What goes well is in the status and costs no request.
    pub(super) async fn tell_failures(&self, object: &WorkflowRun, desired: &WorkflowRunStatus) {
        let none = WorkflowRunStatus::default();
        let before = object.status.as_ref().unwrap_or(&none);
        for (reason, text) in failures(before, desired) {
            let now = self.clock.now();
            event::warn(&self.client, object, COMPONENT, &reason, &text, now).await;
        }
    }
}

/// Names what went wrong between two states: reasons of the status, and its words.
fn failures(before: &WorkflowRunStatus, after: &WorkflowRunStatus) -> Vec<(String, String)> {
    let failed = |(name, job): (&String, &kruntimes_core::api::JobStatus)| {
        let was = before.jobs.as_ref().and_then(|jobs| jobs.get(name));
        let new = job.phase == JobPhase::Failed && was.map(|was| was.phase) != Some(job.phase);
        let reason = job.reason.clone().filter(|_| new)?;
        Some((
            reason,
            format!("jobs.{name}: {}", job.message.clone().unwrap_or_default()),
        ))
    };
    let jobs = after.jobs.iter().flatten();
    let mut told: Vec<_> = jobs.filter_map(failed).take(JOBS_MAX).collect();
    let ended = changes(before, after)
        .into_iter()
        .find_map(|event| match event.what {
            What::Ended(WorkflowRunPhase::Failed, why) => Some(why),
            _ => None,
        });
    if let Some(why) = ended
        && let Some(completed) = condition::get(&after.conditions, CONDITION_COMPLETED)
    {
        told.push((completed.reason.clone(), why));
    }
    told
}
