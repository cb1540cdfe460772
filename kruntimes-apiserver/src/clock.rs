//! The wall clock behind creation and deletion timestamps.

/// Tells the wall-clock time that objects are stamped with.
pub trait Clock: Send + Sync {
    /// Returns the present moment; it may stand still or jump, the service never waits on it.
    fn now(&self) -> jiff::Timestamp;
}

/// Reads the clock of the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the handle through which everything else reads the clock"
    )]
    fn now(&self) -> jiff::Timestamp {
        jiff::Timestamp::now()
    }
}

/// Cuts a moment to whole seconds, the precision of `metadata` timestamps.
pub(crate) fn whole_seconds(moment: jiff::Timestamp) -> String {
    jiff::Timestamp::from_second(moment.as_second())
        .unwrap_or(moment)
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_of_a_second_are_cut_off() {
        let moment: jiff::Timestamp = "2026-01-02T03:04:05.999Z".parse().unwrap();
        assert_eq!(whole_seconds(moment), "2026-01-02T03:04:05Z");
    }
}
