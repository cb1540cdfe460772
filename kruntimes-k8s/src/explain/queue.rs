//! The Runs that wait for the same Runtime, and how fast they get their turn.

use jiff::Timestamp;
use kruntimes_core::crd::Run;
use kube::ResourceExt as _;

use super::picture::Picture;
use super::words::{age, seconds};
use crate::scheduler::seen;

/// How far back ended Runs are counted, in seconds.
const RATE_WINDOW: i64 = 60;

/// The Runs of the same Runtime.
pub(super) struct Queue {
    /// Counts from one.
    pub(super) position: usize,
    /// How many wait.
    pub(super) waiting: usize,
    /// How many ended in the last [`RATE_WINDOW`].
    ended: usize,
}

impl Queue {
    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    /// How fast the line gets shorter, for people.
    pub(super) fn rate(&self) -> String {
        if self.ended == 0 {
            return format!("none ended in the last {}", seconds(RATE_WINDOW));
        }
        let rate = self.ended as f64 / RATE_WINDOW as f64;
        if rate < 0.1 {
            return format!("{} ended in the last {}", self.ended, seconds(RATE_WINDOW));
        }
        format!("drains about {rate:.1} Runs/s")
    }

    /// Counts the Runs that were made before the Run, and those that have ended.
    pub(super) fn of(picture: &Picture) -> Self {
        let pool = |run: &&Run| run.spec.runtime == picture.run.spec.runtime;
        let age_of = |run: &Run| {
            let created = run.metadata.creation_timestamp.as_ref();
            (
                created.map_or(Timestamp::MAX, |time| time.0),
                run.name_any(),
            )
        };
        let own = age_of(&picture.run);
        let waiting: Vec<&Run> = picture
            .runs
            .iter()
            .filter(pool)
            .filter(|run| seen::is_pending(run))
            .collect();
        let ended = picture.runs.iter().filter(pool).filter(|run| {
            let done = run
                .status
                .as_ref()
                .and_then(|status| status.completion_time);
            done.is_some_and(|time| age(time.0, picture.now) < RATE_WINDOW)
        });
        Self {
            position: waiting.iter().filter(|run| age_of(run) < own).count() + 1,
            waiting: waiting.len(),
            ended: ended.count(),
        }
    }
}
