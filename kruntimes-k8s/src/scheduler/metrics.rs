//! The metrics of the scheduler, as Prometheus reads them (S-118 to S-122).

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::recorder::{Outcome, Recorder, Source, Stage};
use crate::serve::{Counter, Histogram, Registry};

/// How many Runtimes are told apart: anybody who makes Runs can invent names (S-122).
pub const RUNTIMES_MAX: usize = 1000;

/// Stands for all Runtimes that came after the first [`RUNTIMES_MAX`].
const OTHER: &str = "_other";

/// A recorder that counts in a registry.
#[derive(Debug)]
pub struct Metrics {
    syncs: Counter,
    sync_duration: Histogram,
    no_pods: Counter,
    queue_duration: Histogram,
    rejections: Counter,
    conflicts: Counter,
    wakeups: Counter,
    runtimes: Mutex<BTreeSet<String>>,
    runtimes_max: usize,
}

impl Metrics {
    /// Adds the scheduler's metrics to a registry.
    pub fn new(registry: &Registry) -> Self {
        Self::with_limit(registry, RUNTIMES_MAX)
    }

    /// Adds the scheduler's metrics to a registry, telling at most so many Runtimes apart.
    pub fn with_limit(registry: &Registry, runtimes_max: usize) -> Self {
        Self {
            syncs: registry.counter(
                "kruntimes_scheduler_sync_total",
                "Scheduling cycles by how they ended.",
                &["runtime", "result"],
            ),
            sync_duration: registry.histogram(
                "kruntimes_scheduler_sync_duration_seconds",
                "Time from taking a Run out of the queue to the end of its cycle.",
                &["runtime"],
            ),
            no_pods: registry.counter(
                "kruntimes_scheduler_no_pods_total",
                "Scheduling cycles that found no Runtime Pod.",
                &["runtime"],
            ),
            queue_duration: registry.histogram(
                "kruntimes_scheduler_run_queue_duration_seconds",
                "Time from the creation of a Run to its assignment.",
                &["runtime"],
            ),
            rejections: registry.counter(
                "kruntimes_scheduler_filter_rejections_total",
                "Runtime Pods that a filter turned down.",
                &["plugin", "reason"],
            ),
            conflicts: registry.counter(
                "kruntimes_scheduler_reservation_conflicts_total",
                "Places that were lost between choice and write.",
                &["stage"],
            ),
            wakeups: registry.counter(
                "kruntimes_scheduler_pending_run_wakeups_total",
                "Waiting Runs that an event put into the queue.",
                &["source"],
            ),
            runtimes: Mutex::default(),
            runtimes_max,
        }
    }

    /// Returns what to call a Runtime: by its name, if that is one of those told apart.
    fn label<'a>(&self, runtime: &'a str) -> &'a str {
        let known = self.runtimes.lock();
        let mut known = known.unwrap_or_else(PoisonError::into_inner);
        if known.contains(runtime) {
            return runtime;
        }
        if known.len() >= self.runtimes_max {
            return OTHER;
        }
        known.insert(runtime.to_owned());
        runtime
    }
}

impl Recorder for Metrics {
    fn synced(&self, runtime: &str, outcome: Outcome) {
        let runtime = self.label(runtime);
        self.syncs.add(&[runtime, outcome.as_str()], 1);
        match outcome {
            Outcome::NoPods | Outcome::SelectionError => self.no_pods.add(&[runtime], 1),
            Outcome::Scheduled => {}
        }
    }

    fn sync_duration(&self, runtime: &str, took: Duration) {
        self.sync_duration.observe(&[self.label(runtime)], took);
    }

    fn queue_duration(&self, runtime: &str, waited: Duration) {
        self.queue_duration.observe(&[self.label(runtime)], waited);
    }

    fn filter_rejections(&self, plugin: &'static str, reason: &'static str, pods: u64) {
        self.rejections.add(&[plugin, reason], pods);
    }

    fn reservation_conflict(&self, stage: Stage) {
        self.conflicts.add(&[stage.as_str()], 1);
    }

    fn wakeups(&self, source: Source, runs: usize) {
        let runs = u64::try_from(runs).unwrap_or(u64::MAX);
        self.wakeups.add(&[source.as_str()], runs);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s_122_invented_runtimes_end_up_in_one_series() {
        let registry = Registry::new();
        let metrics = Metrics::with_limit(&registry, 2);
        for runtime in ["a", "b", "c", "d", "a"] {
            metrics.synced(runtime, Outcome::NoPods);
            metrics.sync_duration(runtime, Duration::ZERO);
            metrics.queue_duration(runtime, Duration::ZERO);
        }
        assert_eq!(metrics.syncs.get(&["a", "no_pods"]), 2);
        assert_eq!(metrics.syncs.get(&["_other", "no_pods"]), 2);
        let text = registry.text();
        assert!(!text.contains("\"c\"") && !text.contains("\"d\""), "{text}");
        let series = |name: &str| text.lines().filter(|line| line.starts_with(name)).count();
        for name in [
            "kruntimes_scheduler_sync_total{",
            "kruntimes_scheduler_no_pods_total{",
            "kruntimes_scheduler_sync_duration_seconds_count{",
            "kruntimes_scheduler_run_queue_duration_seconds_count{",
        ] {
            assert_eq!(series(name), 3, "{name}");
        }
        assert_eq!(Metrics::new(&registry).runtimes_max, 1000);
    }

    #[test]
    fn s_120_waking_nobody_leaves_no_sample() {
        let registry = Registry::new();
        let metrics = Metrics::new(&registry);
        metrics.wakeups(Source::Workspace, 0);
        assert!(!registry.text().contains("wakeups_total{"));
        metrics.wakeups(Source::Workspace, 2);
        assert_eq!(metrics.wakeups.get(&["workspace"]), 2);
    }
}
