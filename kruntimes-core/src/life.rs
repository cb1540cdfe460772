//! The life of one Run on a node: which status each event leads to, as pure functions.
//!
//! [`next`] is the reducer: it looks at a Run, at what the node holds of it and at what the Runtime
//! Server says, and returns the one [`Move`] of this reconcile. A move that writes carries the complete
//! next status. Nothing here reads a clock: `now` is part of what is looked at.
//!
//! **Invariant:** a terminal status is never the input of a move that writes.

mod change;
mod failure;
#[cfg(test)]
mod laws;
mod turn;

pub use change::{Change, ChangeKind, claimed, ended, failed, observed, retry_begun, succeeded};
pub use failure::{Failure, Report, classify};
pub use turn::{Answer, Hold, Local, Move, OBSERVED_AFTER, Observed, next};

use jiff::Timestamp;

use crate::api::{RunSpec, RunStatus, TerminationMode};
use crate::condition::{self, ConditionStatus};
use crate::duration::Duration;
use crate::keys::CONDITION_RUNNING;
use crate::retry;
use crate::time::Time;

/// What the spec asks to be done with a Run before its work is over (API reference, section 16).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StopRequest {
    /// Nothing: the work runs to its end.
    None,
    /// Finish what was accepted, then end well; sessions only.
    Drain,
    /// Stop the work now.
    Immediate,
}

/// Reads the effective termination request; `Immediate` wins by either spelling (N-16).
pub fn stop_request(spec: &RunSpec) -> StopRequest {
    if spec.cancel_requested {
        return StopRequest::Immediate;
    }
    match spec.termination.map(|t| t.mode) {
        Some(TerminationMode::Immediate) => StopRequest::Immediate,
        Some(TerminationMode::Drain) => StopRequest::Drain,
        None => StopRequest::None,
    }
}

/// Tells whether a Run is assigned to this very Pod; a former Pod of the same name is another one (N-21).
pub fn is_assigned_to(status: &RunStatus, pod_name: &str, pod_uid: &str) -> bool {
    let fenced = match status.assigned_pod_uid.as_deref() {
        None | Some("") => true,
        Some(uid) => uid == pod_uid,
    };
    status.assigned_pod.as_deref() == Some(pod_name) && fenced
}

/// Returns when the budget of the Run is used up; `None` without a timeout or before the claim (N-112).
///
/// `exact` is the claim time with its fraction, known to the process that claimed. The stored time has
/// whole seconds, so without `exact` the end of that second counts: a budget is never cut short.
pub fn deadline(spec: &RunSpec, status: &RunStatus, exact: Option<Timestamp>) -> Option<Timestamp> {
    let timeout = spec.timeout?;
    let start = exact.or_else(|| status.start_time.map(latest))?;
    Some(timeout.after(start))
}

/// Tells whether the Run waits out the time before a same-Pod retry.
pub fn is_in_backoff(status: &RunStatus) -> bool {
    condition::get(&status.conditions, CONDITION_RUNNING)
        .is_some_and(|running| running.status == ConditionStatus::False)
}

/// Returns when the next attempt may begin; `None` outside of a backoff (N-107).
///
/// Measured from the transition to `Running=False`. `exact` is that moment with its fraction; without it
/// the end of the stored second counts, so that a retry never starts early.
pub fn retry_due(
    spec: &RunSpec,
    status: &RunStatus,
    exact: Option<Timestamp>,
) -> Option<Timestamp> {
    let running = condition::get(&status.conditions, CONDITION_RUNNING)
        .filter(|running| running.status == ConditionStatus::False)?;
    let since = exact.unwrap_or_else(|| latest(running.last_transition_time));
    let attempt = retry::current_attempt(status.attempt);
    Some(retry::backoff(spec.retry_policy.as_ref(), attempt).after(since))
}

/// Returns the last moment that a stored time of whole seconds can stand for.
fn latest(stored: Time) -> Timestamp {
    if stored.0.subsec_nanosecond() == 0 {
        Duration::from_secs(1).after(stored.0)
    } else {
        stored.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{RetryPolicy, Termination};
    use crate::condition::Fact;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millisecond(millis).unwrap()
    }

    #[test]
    fn n_16_either_spelling_stops_and_immediate_wins() {
        let spec = |cancel_requested, mode: Option<TerminationMode>| RunSpec {
            cancel_requested,
            termination: mode.map(|mode| Termination { mode }),
            ..RunSpec::default()
        };
        for (cancel, mode, want) in [
            (false, None, StopRequest::None),
            (true, None, StopRequest::Immediate),
            (
                false,
                Some(TerminationMode::Immediate),
                StopRequest::Immediate,
            ),
            (false, Some(TerminationMode::Drain), StopRequest::Drain),
            (true, Some(TerminationMode::Drain), StopRequest::Immediate),
        ] {
            assert_eq!(stop_request(&spec(cancel, mode)), want, "{cancel} {mode:?}");
        }
    }

    #[test]
    fn n_21_the_uid_fences_the_name() {
        let status = |pod: Option<&str>, uid: Option<&str>| RunStatus {
            assigned_pod: pod.map(Into::into),
            assigned_pod_uid: uid.map(Into::into),
            ..RunStatus::default()
        };
        for (pod, uid, want) in [
            (None, None, false),
            (Some("p"), None, true),
            (Some("p"), Some(""), true),
            (Some("p"), Some("u"), true),
            (Some("p"), Some("old"), false),
            (Some("q"), Some("u"), false),
        ] {
            assert_eq!(is_assigned_to(&status(pod, uid), "p", "u"), want);
        }
    }

    #[test]
    fn n_112_the_budget_starts_with_the_claim() {
        let spec = RunSpec {
            timeout: Some(Duration::from_millis(500)),
            ..RunSpec::default()
        };
        let mut status = RunStatus::default();
        assert_eq!(deadline(&spec, &status, None), None);
        status.start_time = Some(Time(at(3_000)));
        assert_eq!(deadline(&spec, &status, Some(at(3_900))), Some(at(4_400)));
        assert_eq!(deadline(&spec, &status, None), Some(at(4_500)));
        assert_eq!(deadline(&RunSpec::default(), &status, None), None);
    }

    #[test]
    fn n_107_a_retry_never_starts_early() {
        let spec = RunSpec {
            retry_policy: Some(RetryPolicy {
                max_attempts: Some(9),
                backoff: Some(Duration::from_millis(100)),
                ..RetryPolicy::default()
            }),
            ..RunSpec::default()
        };
        let mut status = RunStatus {
            attempt: Some(3),
            ..RunStatus::default()
        };
        assert_eq!(retry_due(&spec, &status, None), None);
        condition::set(
            &mut status.conditions,
            &Fact::new(
                CONDITION_RUNNING,
                ConditionStatus::False,
                "RuntimeError",
                "",
            ),
            Time(at(5_000)),
        );
        assert!(is_in_backoff(&status));
        assert_eq!(retry_due(&spec, &status, Some(at(5_950))), Some(at(6_150)));
        assert_eq!(retry_due(&spec, &status, None), Some(at(6_200)));
    }
}
