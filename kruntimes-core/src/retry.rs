//! Whether a failed attempt is repeated, and when (API reference, section 15).

use crate::api::{RetryPolicy, RunSpec};
use crate::duration::Duration;

/// Longest wait before a repeated attempt.
pub const BACKOFF_MAX: Duration = Duration::from_secs(60);
/// Wait before the second attempt when the policy names none.
pub const BACKOFF_DEFAULT: Duration = Duration::from_secs(1);

/// Reasons that end a Run whatever its policy says (API reference, section 3.10).
pub const NEVER_RETRIED: &[&str] = &[
    reason::IDLE_TIMEOUT,
    reason::LEASE_EXPIRED,
    reason::CANCELLED,
    reason::OUTPUTS_INVALID,
    reason::OUTPUTS_TOO_LARGE,
    reason::ARTIFACT_INVALID,
    reason::INVALID_RESOURCES,
    reason::INVALID_AFFINITY,
];

/// Failure reasons of Runs.
pub mod reason {
    /// Source, entrypoint or script could not be prepared.
    pub const PREPARE_SOURCE: &str = "PrepareSource";
    /// The Runtime Server refused the start.
    pub const RUNTIME_EXECUTE: &str = "RuntimeExecute";
    /// A session could not be registered.
    pub const SESSION_REGISTER: &str = "SessionRegister";
    /// The process failed.
    pub const RUNTIME_ERROR: &str = "RuntimeError";
    /// The Runtime Server no longer knows the execution.
    pub const EXECUTION_LOST: &str = "ExecutionLost";
    /// A deadline passed.
    pub const TIMEOUT: &str = "Timeout";
    /// A function was idle too long.
    pub const IDLE_TIMEOUT: &str = "IdleTimeout";
    /// A session lost its lease.
    pub const LEASE_EXPIRED: &str = "LeaseExpired";
    /// The assigned Pod is gone.
    pub const POD_GONE: &str = "PodGone";
    /// The assigned Pod is being deleted.
    pub const POD_TERMINATING: &str = "PodTerminating";
    /// The assigned Pod is not ready or its heartbeat is stale.
    pub const POD_UNHEALTHY: &str = "PodUnhealthy";
    /// Cancelled on request.
    pub const CANCELLED: &str = "Cancelled";
    /// The outputs file breaks its grammar.
    pub const OUTPUTS_INVALID: &str = "OutputsInvalid";
    /// The outputs file breaks a limit.
    pub const OUTPUTS_TOO_LARGE: &str = "OutputsTooLarge";
    /// An artifact was refused.
    pub const ARTIFACT_INVALID: &str = "ArtifactInvalid";
    /// A request is no whole number.
    pub const INVALID_RESOURCES: &str = "InvalidResources";
    /// A selector does not compile.
    pub const INVALID_AFFINITY: &str = "InvalidAffinity";
}

/// Returns the number of allowed attempts; absent or not positive means one.
pub fn max_attempts(policy: Option<&RetryPolicy>) -> i32 {
    policy.and_then(|p| p.max_attempts).unwrap_or(1).max(1)
}

/// Returns the attempt a stored value stands for; absent or zero means the first.
pub fn current_attempt(stored: Option<i32>) -> i32 {
    stored.unwrap_or(1).max(1)
}

/// Tells whether an attempt that failed for `reason` is repeated.
pub fn may_retry(spec: &RunSpec, attempt: i32, reason: &str) -> bool {
    let policy = spec.retry_policy.as_ref();
    let listed = policy.is_none_or(|p| {
        p.retryable_reasons.is_empty() || p.retryable_reasons.iter().any(|r| r == reason)
    });
    attempt < max_attempts(policy) && !NEVER_RETRIED.contains(&reason) && listed
}

/// Returns the wait before attempt `attempt`: doubled from the base, at most 60 s, saturating (N-104, S-115).
pub fn backoff(policy: Option<&RetryPolicy>, attempt: i32) -> Duration {
    let base = policy
        .and_then(|p| p.backoff)
        .filter(|d| d.is_positive())
        .unwrap_or(BACKOFF_DEFAULT);
    let doublings = u32::try_from(attempt.saturating_sub(2).max(0)).unwrap_or(0);
    let factor = 1_i64
        .checked_shl(doublings)
        .filter(|f| *f > 0)
        .unwrap_or(i64::MAX);
    base.saturating_mul(factor).min(BACKOFF_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(max: i32, backoff: Duration, reasons: &[&str]) -> RetryPolicy {
        RetryPolicy {
            max_attempts: Some(max),
            backoff: Some(backoff),
            retryable_reasons: reasons.iter().map(|&r| r.into()).collect(),
        }
    }

    #[test]
    fn s_115_backoff_doubles_and_saturates() {
        let one = policy(100, Duration::ZERO, &[]);
        for (attempt, seconds) in [(1, 1), (2, 1), (3, 2), (4, 4), (5, 8), (10, 60), (100, 60)] {
            assert_eq!(
                backoff(Some(&one), attempt),
                Duration::from_secs(seconds),
                "{attempt}"
            );
        }
        let five = policy(9, Duration::from_secs(5), &[]);
        assert_eq!(backoff(Some(&five), 2), Duration::from_secs(5));
        assert_eq!(backoff(Some(&five), 3), Duration::from_secs(10));
        assert_eq!(
            backoff(Some(&policy(9, Duration::from_secs(900), &[])), 2),
            BACKOFF_MAX
        );
        assert_eq!(backoff(None, i32::MAX), BACKOFF_MAX);
    }

    #[test]
    fn n_103_the_policy_decides_what_is_repeated() {
        let spec = |p| RunSpec {
            retry_policy: p,
            ..RunSpec::default()
        };
        let all = spec(Some(policy(3, Duration::ZERO, &[])));
        let listed = spec(Some(policy(3, Duration::ZERO, &["Timeout", "Cancelled"])));
        for (case, spec, attempt, reason, want) in [
            ("no policy", &spec(None), 1, "RuntimeError", false),
            ("first of three", &all, 1, "RuntimeError", true),
            ("second of three", &all, 2, "RuntimeError", true),
            ("last of three", &all, 3, "RuntimeError", false),
            ("never: outputs", &all, 1, "OutputsInvalid", false),
            (
                "never: cancel, even when listed",
                &listed,
                1,
                "Cancelled",
                false,
            ),
            ("not listed", &listed, 1, "RuntimeError", false),
            ("listed", &listed, 1, "Timeout", true),
        ] {
            assert_eq!(may_retry(spec, attempt, reason), want, "{case}");
        }
    }

    #[test]
    fn s_116_what_is_not_said_has_a_default_and_nothing_is_written_back() {
        for (max, want) in [(-1, 1), (0, 1), (1, 1), (7, 7)] {
            let asked = policy(max, Duration::ZERO, &[]);
            let before = asked.clone();
            assert_eq!(max_attempts(Some(&asked)), want, "{max}");
            assert_eq!(asked, before);
        }
        assert_eq!(max_attempts(None), 1);
        for (stored, want) in [(None, 1), (Some(0), 1), (Some(1), 1), (Some(3), 3)] {
            assert_eq!(current_attempt(stored), want, "{stored:?}");
        }
    }
}
