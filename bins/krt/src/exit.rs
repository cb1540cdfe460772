//! How the process ends (C-14).

use std::process::ExitCode;

use kruntimes_embedded::DELETED;

/// Why the process ends, as its exit code says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Everything ended well.
    Done,
    /// Something outside the file did not work.
    NotCarriedOut,
    /// It was asked for in a wrong way.
    Usage,
    /// The file or an input was refused.
    Refused,
    /// The deadline of the caller passed.
    Late,
    /// No engine is running where one was looked for.
    NotRunning,
    /// What ran ended `Failed`.
    Failed,
    /// What ran ended `Timeout`.
    Timeout,
    /// What ran ended `Cancelled`.
    Cancelled,
    /// What ran was deleted or replaced before it ended.
    Gone,
    /// Stopped by SIGINT.
    Interrupted,
    /// Stopped by SIGTERM or SIGHUP.
    Terminated,
}

impl Exit {
    /// The exit code.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::NotCarriedOut => 1,
            Self::Usage => 2,
            Self::Refused => 3,
            Self::Late => 4,
            Self::NotRunning => 5,
            Self::Failed => 10,
            Self::Timeout => 11,
            Self::Cancelled => 12,
            Self::Gone => 13,
            Self::Interrupted => 130,
            Self::Terminated => 143,
        }
    }

    /// The end of one object.
    pub(crate) fn of_phase(phase: &str) -> Self {
        match phase {
            "Succeeded" | "Ready" => Self::Done,
            "Failed" => Self::Failed,
            "Timeout" => Self::Timeout,
            "Cancelled" => Self::Cancelled,
            DELETED => Self::Gone,
            _ => Self::NotCarriedOut,
        }
    }

    /// The end of several objects: the worst of their ends.
    pub(crate) fn of_phases<'a>(phases: impl IntoIterator<Item = &'a str>) -> Self {
        let ends = phases.into_iter().map(Self::of_phase);
        ends.reduce(Self::worse).unwrap_or(Self::NotCarriedOut)
    }

    /// The worse of two ends.
    pub(crate) fn worse(self, other: Self) -> Self {
        if other.rank() > self.rank() {
            other
        } else {
            self
        }
    }

    fn rank(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Cancelled => 1,
            Self::Timeout => 2,
            Self::Failed => 3,
            Self::Gone => 4,
            Self::Usage
            | Self::Refused
            | Self::Late
            | Self::NotCarriedOut
            | Self::NotRunning
            | Self::Interrupted
            | Self::Terminated => 5,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c_14_the_worst_end_decides() {
        for (phases, want) in [
            (&["Succeeded"][..], 0),
            (&["Succeeded", "Ready"], 0),
            (&["Failed"], 10),
            (&["Timeout"], 11),
            (&["Cancelled"], 12),
            (&["Cancelled", "Failed", "Timeout", "Succeeded"], 10),
            (&["Succeeded", "Cancelled"], 12),
            (&["Deleted", "Failed"], 13),
            (&["Unknown", "Deleted"], 1),
            (&["Unknown", "Failed"], 1),
            (&[], 1),
        ] {
            assert_eq!(
                Exit::of_phases(phases.iter().copied()).code(),
                want,
                "{phases:?}"
            );
        }
    }
}
