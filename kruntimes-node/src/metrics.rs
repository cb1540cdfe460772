//! What one runtimed counts, as Prometheus reads it (node, section 14).
//!
//! All series carry the name of the one Runtime the Pod belongs to, and reasons out of a fixed list: their
//! number does not grow with the Runs (C-129).

use std::sync::{Arc, Weak};
use std::time::Duration;

use jiff::Timestamp;
use kruntimes_core::api::RunStatus;
use kruntimes_core::condition;
use kruntimes_core::keys::CONDITION_SCHEDULED;
use kruntimes_core::life::ChangeKind;
use kruntimes_k8s::serve::{Counter, Histogram, Registry};

use crate::node::Node;

/// Counts what was written (N-187).
#[derive(Debug)]
pub(crate) struct Metrics {
    runtime: String,
    runs: Counter,
    duration: Histogram,
    dispatch: Histogram,
    retries: Counter,
    failures: Counter,
}

impl Metrics {
    /// Adds the counters of a runtimed to a registry.
    pub(crate) fn new(registry: &Registry, runtime: &str) -> Self {
        Self {
            runtime: runtime.to_owned(),
            runs: registry.counter(
                "kruntimes_runtimed_runs_total",
                "Finished Runs by final phase.",
                &["runtime", "result"],
            ),
            duration: registry.histogram(
                "kruntimes_runtimed_run_duration_seconds",
                "Time from the claim of a Run to its end.",
                &["runtime"],
            ),
            dispatch: registry.histogram(
                "kruntimes_runtimed_dispatch_duration_seconds",
                "Time from the assignment of a Run to its claim.",
                &["runtime"],
            ),
            retries: registry.counter(
                "kruntimes_runtimed_run_retries_total",
                "Failed attempts that are followed by another one on this Pod.",
                &["runtime", "reason"],
            ),
            failures: registry.counter(
                "kruntimes_runtimed_run_failures_total",
                "Runs that ended as failed or timed out.",
                &["runtime", "phase", "reason"],
            ),
        }
    }

    /// Takes note of a status that was written; `claimed` is when this runtimed claimed the Run.
    pub(crate) fn wrote(
        &self,
        kind: &ChangeKind,
        status: &RunStatus,
        claimed: Option<Timestamp>,
        now: Timestamp,
    ) {
        let runtime = self.runtime.as_str();
        match kind {
            ChangeKind::Claimed => {
                if let Some(waited) = dispatched(status, claimed.unwrap_or(now)) {
                    self.dispatch.observe(&[runtime], waited);
                }
            }
            ChangeKind::Observed | ChangeKind::RetryBegun => {}
            ChangeKind::RetryScheduled(failure) => self.retries.add(&[runtime, failure.reason], 1),
            ChangeKind::Ended(failure) => {
                let phase = status.phase.as_str();
                self.runs.add(&[runtime, phase], 1);
                let start = claimed.or(status.start_time.map(Into::into));
                if let Some(took) = start.and_then(|start| between(start, now)) {
                    self.duration.observe(&[runtime], took);
                }
                if let Some(failure) = failure
                    && matches!(phase, "Failed" | "Timeout")
                {
                    self.failures.add(&[runtime, phase, failure.reason], 1);
                }
            }
        }
    }
}

fn between(start: Timestamp, end: Timestamp) -> Option<Duration> {
    Duration::try_from(end.duration_since(start)).ok()
}

/// Returns how long a Run waited for its claim; nothing when that cannot be told (N-35).
fn dispatched(status: &RunStatus, claimed: Timestamp) -> Option<Duration> {
    let scheduled = condition::get(&status.conditions, CONDITION_SCHEDULED)?;
    let is_true = condition::is_true(&status.conditions, CONDITION_SCHEDULED);
    between(scheduled.last_transition_time.0, claimed).filter(|_| is_true)
}

/// Adds what is read from the node whenever somebody asks: held Runs, and ages of heartbeat and last look.
pub(crate) fn read_from(registry: &Registry, node: &Arc<Node>) {
    let labels = [("runtime", node.config.runtime.as_str())];
    let ask = |ask: fn(&Node) -> Option<f64>| {
        let node: Weak<Node> = Arc::downgrade(node);
        move || ask(node.upgrade()?.as_ref())
    };
    registry.reading(
        "kruntimes_runtimed_active_runs",
        "Runs held by this runtimed, until the last process of each is gone.",
        &labels,
        ask(|node| {
            Some(f64::from(
                u32::try_from(node.table.len()).unwrap_or(u32::MAX),
            ))
        }),
    );
    registry.reading(
        "kruntimes_runtimed_heartbeat_age_seconds",
        "Time since the last heartbeat that the API took.",
        &labels,
        ask(|node| node.pulse.heartbeat_age()),
    );
    registry.reading(
        "kruntimes_runtimed_events_age_seconds",
        "Time since the Runtime Server was last heard: 0 while its events are followed.",
        &labels,
        ask(|node| node.pulse.events_age()),
    );
}

#[cfg(test)]
mod tests {
    use kruntimes_core::api::RunPhase;
    use kruntimes_core::condition::{ConditionStatus, Fact};
    use kruntimes_core::life::Failure;
    use kruntimes_core::time::Time;

    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millisecond(millis).unwrap()
    }

    fn scheduled(holds: ConditionStatus) -> RunStatus {
        let mut status = RunStatus::default();
        let fact = Fact::new(CONDITION_SCHEDULED, holds, "Assigned", "");
        condition::set(&mut status.conditions, &fact, Time(at(1000)));
        status
    }

    #[test]
    fn n_35_a_claim_is_measured_from_its_assignment_or_not_at_all() {
        let status = scheduled(ConditionStatus::True);
        let waited = Some(Duration::from_millis(250));
        assert_eq!(dispatched(&status, at(1250)), waited);
        assert_eq!(dispatched(&status, at(999)), None, "the clock stepped back");
        assert_eq!(dispatched(&RunStatus::default(), at(1250)), None);
        let waiting = scheduled(ConditionStatus::False);
        assert_eq!(dispatched(&waiting, at(1250)), None);
        let registry = Registry::new();
        let metrics = Metrics::new(&registry, "bash");
        metrics.wrote(&ChangeKind::Claimed, &status, Some(at(1250)), at(1300));
        metrics.wrote(&ChangeKind::Claimed, &waiting, None, at(1300));
        let text = registry.text();
        let line = "dispatch_duration_seconds_sum{runtime=\"bash\"} 0.25\n";
        assert!(text.contains(line), "{text}");
        assert!(text.contains("dispatch_duration_seconds_count{runtime=\"bash\"} 1\n"));
    }

    #[test]
    fn n_187_c_126_ends_and_retries_are_counted_once_each() {
        let registry = Registry::new();
        let metrics = Metrics::new(&registry, "bash");
        let failure = |reason| Failure::new(reason, "x");
        let status = |phase| RunStatus {
            phase,
            start_time: Some(Time(at(0))),
            ..RunStatus::default()
        };
        for (kind, phase) in [
            (ChangeKind::Observed, RunPhase::Running),
            (
                ChangeKind::RetryScheduled(failure("RuntimeError")),
                RunPhase::Running,
            ),
            (ChangeKind::RetryBegun, RunPhase::Running),
            (ChangeKind::Ended(None), RunPhase::Succeeded),
            (
                ChangeKind::Ended(Some(failure("RuntimeError"))),
                RunPhase::Failed,
            ),
            (
                ChangeKind::Ended(Some(failure("Timeout"))),
                RunPhase::Timeout,
            ),
            (
                ChangeKind::Ended(Some(failure("Cancelled"))),
                RunPhase::Cancelled,
            ),
        ] {
            metrics.wrote(&kind, &status(phase), None, at(2000));
        }
        for result in ["Succeeded", "Failed", "Timeout", "Cancelled"] {
            assert_eq!(metrics.runs.get(&["bash", result]), 1, "{result}");
        }
        assert_eq!(metrics.retries.get(&["bash", "RuntimeError"]), 1);
        for key in [["Failed", "RuntimeError"], ["Timeout", "Timeout"]] {
            assert_eq!(metrics.failures.get(&["bash", key[0], key[1]]), 1);
        }
        let cancelled = ["bash", "Cancelled", "Cancelled"];
        assert_eq!(metrics.failures.get(&cancelled), 0);
        let text = registry.text();
        let line = "run_duration_seconds_sum{runtime=\"bash\"} 8\n";
        assert!(text.contains(line), "{text}");
    }
}
