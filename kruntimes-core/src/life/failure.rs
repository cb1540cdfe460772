//! Why an attempt failed: reason, message and the phase it ends in (node, section 9.6).

use crate::api::RunPhase;
use crate::limits::MESSAGE_MAX_BYTES;
use crate::message::{bounded, tail};
use crate::retry::reason;

/// One failed attempt: a reason from the closed list and a bounded text for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Machine-readable cause, one of [`crate::retry::reason`].
    pub reason: &'static str,
    /// At most 1024 bytes; never standard output (N-100).
    pub message: String,
}

impl Failure {
    /// Makes a failure and bounds its message (N-18).
    pub fn new(reason: &'static str, message: &str) -> Self {
        Self {
            reason,
            message: bounded(message, MESSAGE_MAX_BYTES),
        }
    }

    /// Makes the failure of a cancelled Run.
    pub fn cancelled() -> Self {
        Self::new(reason::CANCELLED, "cancelled by user")
    }

    /// Returns the phase a Run ends in when this failure is not repeated.
    pub fn phase(&self) -> RunPhase {
        match self.reason {
            reason::TIMEOUT | reason::IDLE_TIMEOUT | reason::LEASE_EXPIRED => RunPhase::Timeout,
            reason::CANCELLED => RunPhase::Cancelled,
            _ => RunPhase::Failed,
        }
    }
}

/// What a Runtime Server says of an execution that ended badly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report<'a> {
    /// Of the main process.
    pub exit_code: i32,
    /// Kept part of standard error.
    pub stderr: &'a str,
    /// The server's own words.
    pub error_message: &'a str,
}

const NOTHING_TO_RUN: &[&str] = &["no args or script provided", "no script or args provided"];
const PREPARATION: &[&str] = &["mkdir:", "git clone:", "git checkout:", "write inline:"];

/// Classifies an execution that ended badly and words its message (N-99, API note 42).
pub fn classify(report: &Report<'_>) -> Failure {
    let error = report.error_message.trim();
    let reason = if error == "timeout" {
        reason::TIMEOUT
    } else if NOTHING_TO_RUN.contains(&error)
        || PREPARATION.iter().any(|start| error.starts_with(start))
    {
        reason::PREPARE_SOURCE
    } else {
        reason::RUNTIME_ERROR
    };
    Failure::new(reason, &summary(report))
}

fn summary(report: &Report<'_>) -> String {
    const STDERR: &str = "runtime stderr: ";
    let error = report.error_message.trim();
    let stderr = report.stderr.trim_end();
    if !error.is_empty() {
        error.to_owned()
    } else if !stderr.trim_start().is_empty() {
        format!("{STDERR}{}", tail(stderr, MESSAGE_MAX_BYTES - STDERR.len()))
    } else if report.exit_code != 0 {
        format!(
            "runtime execution failed with exit code {}",
            report.exit_code
        )
    } else {
        "runtime execution failed".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn n_99_text_is_taken_from_the_best_source() {
        let long = format!("{}the end\n", "x".repeat(2000));
        let of = |exit_code, stderr, error_message| {
            classify(&Report {
                exit_code,
                stderr,
                error_message,
            })
        };
        for (case, failure, reason, message) in [
            ("error text", of(1, "err", "boom"), "RuntimeError", "boom"),
            (
                "stderr",
                of(1, "a\nb\n", ""),
                "RuntimeError",
                "runtime stderr: a\nb",
            ),
            (
                "exit code",
                of(3, " \n", ""),
                "RuntimeError",
                "runtime execution failed with exit code 3",
            ),
            (
                "nothing",
                of(0, "", ""),
                "RuntimeError",
                "runtime execution failed",
            ),
            ("timeout", of(0, "x", "timeout"), "Timeout", "timeout"),
            (
                "nothing to run",
                of(-1, "", "no script or args provided"),
                "PrepareSource",
                "no script or args provided",
            ),
            (
                "mkdir",
                of(-1, "", "mkdir: denied"),
                "PrepareSource",
                "mkdir: denied",
            ),
            (
                "not quite a timeout",
                of(1, "", "timeout of the upstream"),
                "RuntimeError",
                "timeout of the upstream",
            ),
        ] {
            assert_eq!(
                (failure.reason, &*failure.message),
                (reason, message),
                "{case}"
            );
        }
        let cut = of(1, &long, "").message;
        assert!(cut.len() <= MESSAGE_MAX_BYTES);
        assert!(cut.starts_with("runtime stderr: ... x") && cut.ends_with("the end"));
    }

    #[test]
    fn the_reason_decides_the_phase() {
        for (reason, phase) in [
            (reason::TIMEOUT, RunPhase::Timeout),
            (reason::CANCELLED, RunPhase::Cancelled),
            (reason::EXECUTION_LOST, RunPhase::Failed),
            (reason::OUTPUTS_INVALID, RunPhase::Failed),
        ] {
            assert_eq!(Failure::new(reason, "").phase(), phase);
        }
    }
}
