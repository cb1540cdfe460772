//! How long a failed watch is left alone before it is tried again.

use std::time::Duration;

use kube::runtime::utils::Backoff;

/// Waits between failed watches: doubling, without jitter, so that equal runs stay equal.
#[derive(Clone, Debug)]
pub(super) struct WatchBackoff {
    next: Duration,
}

impl Default for WatchBackoff {
    fn default() -> Self {
        Self {
            next: Duration::from_millis(50),
        }
    }
}

impl Iterator for WatchBackoff {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let wait = self.next;
        self.next = (wait * 2).min(Duration::from_secs(10));
        Some(wait)
    }
}

impl Backoff for WatchBackoff {
    fn reset(&mut self) {
        *self = Self::default();
    }
}
