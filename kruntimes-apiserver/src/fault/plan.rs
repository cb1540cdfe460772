//! What may go wrong, how likely it is, and how often it has happened.

use std::{ops::RangeInclusive, time::Duration};

/// How likely each kind of trouble is, as a probability per request between 0 and 1.
///
/// The default plan injects nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct FaultPlan {
    /// The request waits before it reaches the API.
    pub delay: f64,
    /// How long delayed requests and stalled watches wait.
    pub delay_for: RangeInclusive<Duration>,
    /// The request never reaches the API; the caller sees a broken connection.
    pub lost_request: f64,
    /// The work is done, but the caller sees a broken connection.
    pub lost_answer: f64,
    /// An update, patch or deletion is refused with 409 although nothing has changed.
    pub conflict: f64,
    /// A further page of a list is refused with 410.
    pub page_expired: f64,
    /// Refused with 429 and `Retry-After: 1`.
    pub too_many_requests: f64,
    /// Refused with 500.
    pub internal_error: f64,
    /// A watch is told 410 at once, so that its client must list anew.
    pub watch_expired: f64,
    /// A watch ends early, with or without an error.
    pub watch_cut: f64,
    /// How long a watch that is cut lasts.
    pub watch_cut_after: RangeInclusive<Duration>,
    /// Per event of a watch: it and all behind it wait.
    pub watch_stall: f64,
    /// A watch starts at an older version than asked for, so that its client is told again what it knows.
    pub watch_replay: f64,
    /// How many versions a replaying watch goes back.
    pub watch_replay_by: RangeInclusive<u64>,
}

impl Default for FaultPlan {
    fn default() -> Self {
        Self {
            delay: 0.0,
            delay_for: Duration::from_millis(1)..=Duration::from_millis(200),
            lost_request: 0.0,
            lost_answer: 0.0,
            conflict: 0.0,
            page_expired: 0.0,
            too_many_requests: 0.0,
            internal_error: 0.0,
            watch_expired: 0.0,
            watch_cut: 0.0,
            watch_cut_after: Duration::from_millis(1)..=Duration::from_secs(60),
            watch_stall: 0.0,
            watch_replay: 0.0,
            watch_replay_by: 1..=50,
        }
    }
}

/// How often each kind of trouble was injected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FaultCounts {
    /// Requests that waited.
    pub delays: u64,
    /// Requests lost on the way in.
    pub lost_requests: u64,
    /// Answers lost on the way out.
    pub lost_answers: u64,
    /// Made-up 409 answers.
    pub conflicts: u64,
    /// Made-up 410 answers to pages.
    pub pages_expired: u64,
    /// Made-up 429 answers.
    pub too_many_requests: u64,
    /// Made-up 500 answers.
    pub internal_errors: u64,
    /// Watches told 410.
    pub watches_expired: u64,
    /// Watches cut short.
    pub watches_cut: u64,
    /// Events held back.
    pub watch_stalls: u64,
    /// Watches that started at an older version.
    pub watch_replays: u64,
}

impl FaultCounts {
    /// Sums up all kinds of trouble.
    pub fn total(&self) -> u64 {
        self.delays
            + self.lost_requests
            + self.lost_answers
            + self.conflicts
            + self.pages_expired
            + self.too_many_requests
            + self.internal_errors
            + self.watches_expired
            + self.watches_cut
            + self.watch_stalls
            + self.watch_replays
    }
}
