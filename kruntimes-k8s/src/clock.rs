//! Wall-clock time as a handle.

use jiff::Timestamp;
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

    /// Returns the present instant.
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the one handle that reads the machine's clock"
    )]
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            Source::System => Timestamp::now(),
            Source::Virtual { epoch, start } => jiff::SignedDuration::try_from(start.elapsed())
                .ok()
                .and_then(|elapsed| epoch.checked_add(elapsed).ok())
                .unwrap_or(Timestamp::MAX),
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
}
