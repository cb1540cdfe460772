//! What became of Runs on lost Pods, as Prometheus reads it (C-128).

use kruntimes_core::loss::Fate;

use crate::serve::{Bounded, Counter, Registry};

/// How many Runtimes are told apart.
const RUNTIMES_MAX: usize = 1000;

/// Counts each Run that was moved or ended.
#[derive(Debug)]
pub(super) struct Metrics {
    runs: Counter,
    runtimes: Bounded,
}

impl Metrics {
    pub(super) fn new(registry: &Registry) -> Self {
        Self {
            runs: registry.counter(
                "kruntimes_stale_runs_total",
                "Runs taken off a lost Pod, by why and by what became of them.",
                &["runtime", "reason", "outcome"],
            ),
            runtimes: Bounded::new(RUNTIMES_MAX),
        }
    }

    /// Counts a write that succeeded.
    pub(super) fn acted(&self, runtime: &str, reason: &'static str, fate: Fate) {
        let outcome = match fate {
            Fate::Released | Fate::Retried => "retry",
            Fate::Ended => "fail",
        };
        let runtime = self.runtimes.label(runtime);
        self.runs.add(&[runtime, reason, outcome], 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c_128_lost_runs_are_counted_by_reason_and_outcome() {
        let registry = Registry::new();
        let metrics = Metrics::new(&registry);
        for fate in [Fate::Released, Fate::Retried, Fate::Ended] {
            metrics.acted("bash", "PodGone", fate);
        }
        assert_eq!(metrics.runs.get(&["bash", "PodGone", "retry"]), 2);
        assert_eq!(metrics.runs.get(&["bash", "PodGone", "fail"]), 1);
    }
}
