//! Wall-clock time as a handle.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// Where a component reads the wall clock.
///
/// Waiting goes through `tokio::time`, which a test can pause; a virtual clock
/// follows it, so that stored timestamps and timers agree in a simulation.
#[derive(Clone, Debug)]
pub struct Clock(Source);

#[derive(Clone, Debug)]
enum Source {
    System,
    Virtual { epoch: Timestamp, start: Instant },
    Skewed { of: Box<Source>, skew: Skew },
}

/// How wrong a clock goes, for simulations. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Skew(Arc<AtomicI64>);

impl Skew {
    /// Makes the clocks jump, to so many milliseconds before or behind the right time.
    pub fn set(&self, milliseconds: i64) {
        self.0.store(milliseconds, Ordering::SeqCst);
    }
}

impl Clock {
    /// Reads the clock of the machine.
    pub fn system() -> Self {
        Self(Source::System)
    }

    /// Reads `epoch` now and moves with the timers of the current tokio runtime.
    pub fn virtual_from(epoch: Timestamp) -> Self {
        Self(Source::Virtual {
            epoch,
            start: Instant::now(),
        })
    }

    /// Returns the same clock, as wrong as `skew` says.
    #[must_use]
    pub fn skewed(&self, skew: &Skew) -> Self {
        Self(Source::Skewed {
            of: Box::new(self.0.clone()),
            skew: skew.clone(),
        })
    }

    /// Returns the present instant.
    pub fn now(&self) -> Timestamp {
        self.0.now()
    }
}

impl Source {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the one handle that reads the machine's clock"
    )]
    fn now(&self) -> Timestamp {
        match self {
            Self::System => Timestamp::now(),
            Self::Virtual { epoch, start } => SignedDuration::try_from(start.elapsed())
                .ok()
                .and_then(|elapsed| epoch.checked_add(elapsed).ok())
                .unwrap_or(Timestamp::MAX),
            Self::Skewed { of, skew } => {
                let by = SignedDuration::from_millis(skew.0.load(Ordering::SeqCst));
                of.now().saturating_add(by).unwrap_or(Timestamp::MAX)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_virtual_clock_follows_the_timers() {
        let clock = Clock::virtual_from(Timestamp::UNIX_EPOCH);
        tokio::time::advance(Duration::from_secs(90)).await;
        assert_eq!(clock.now().as_second(), 90);
    }

    #[tokio::test(start_paused = true)]
    async fn a_skewed_clock_jumps_and_comes_back() {
        let (clock, skew) = (Clock::virtual_from(Timestamp::UNIX_EPOCH), Skew::default());
        let wrong = clock.skewed(&skew);
        skew.set(-30_000);
        assert_eq!(wrong.now().as_second(), -30);
        skew.set(0);
        assert_eq!(wrong.now(), clock.now());
    }
}
