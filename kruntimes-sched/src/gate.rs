//! What ends a dequeue before a cycle is worth its while.

use jiff::Timestamp;
use kruntimes_core::api::{RunPhase, RunSpec, RunStatus};
use kruntimes_core::condition::{self, ConditionStatus};
use kruntimes_core::duration::Duration;
use kruntimes_core::keys::CONDITION_RUNNING;
use kruntimes_core::resources::{self, Amounts, InvalidRequest};
use kruntimes_core::retry;

/// A Run as the gates see it.
#[derive(Clone, Copy, Debug)]
pub struct Waiting<'a> {
    /// Whether it is being deleted.
    pub deleting: bool,
    /// What it asks for.
    pub spec: &'a RunSpec,
    /// What happened to it so far; absent for a new Run.
    pub status: Option<&'a RunStatus>,
}

/// What to do with a dequeued Run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gate {
    /// Nothing: it is being deleted, no longer pending, or names no Runtime.
    Ignore,
    /// End it as `Cancelled` (S-108).
    Cancel,
    /// End it as `Failed` (S-109).
    Invalid(InvalidRequest),
    /// Look again after this long (S-114).
    Backoff(Duration),
    /// Run one cycle with this request.
    Cycle(Amounts),
}

/// Passes a Run through the gates in their order; the first that applies decides (S-29).
pub fn gate(run: &Waiting<'_>, now: Timestamp) -> Gate {
    let pending = run
        .status
        .is_none_or(|status| status.phase == RunPhase::Pending);
    if run.deleting || !pending || run.spec.runtime.is_empty() {
        return Gate::Ignore;
    }
    if run.spec.cancel_requested || run.spec.termination.is_some() {
        return Gate::Cancel;
    }
    let request = match resources::request(run.spec) {
        Ok(request) => request,
        Err(invalid) => return Gate::Invalid(invalid),
    };
    match run.status.and_then(|status| ready_at(run.spec, status)) {
        Some(at) if at > now => {
            let nanos = at.duration_since(now).as_nanos();
            Gate::Backoff(Duration::from_nanos(
                i64::try_from(nanos).unwrap_or(i64::MAX),
            ))
        }
        Some(_) | None => Gate::Cycle(request),
    }
}

/// Returns when the next attempt of a Run that lost its Pod may be placed (S-114).
fn ready_at(spec: &RunSpec, status: &RunStatus) -> Option<Timestamp> {
    let attempt = retry::current_attempt(status.attempt);
    let running = condition::get(&status.conditions, CONDITION_RUNNING)?;
    if attempt <= 1 || running.status != ConditionStatus::False {
        return None;
    }
    let wait = retry::backoff(spec.retry_policy.as_ref(), attempt);
    Some(wait.after(running.last_transition_time.0))
}

#[cfg(test)]
mod tests {
    use kruntimes_core::api::{Condition, Resources, RetryPolicy, Termination, TerminationMode};
    use kruntimes_core::time::Time;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn spec() -> RunSpec {
        RunSpec {
            runtime: "python".into(),
            ..RunSpec::default()
        }
    }

    fn invalid(mut spec: RunSpec) -> RunSpec {
        spec.resources = Some(Resources {
            requests: [("gpu".to_owned(), "500m".parse().unwrap())].into(),
        });
        spec
    }

    /// A Run whose second attempt may start at second `100 + backoff`.
    fn retried(attempt: i32) -> RunStatus {
        RunStatus {
            attempt: Some(attempt),
            conditions: vec![Condition {
                condition_type: CONDITION_RUNNING.into(),
                status: ConditionStatus::False,
                reason: "PodGone".into(),
                message: String::new(),
                last_transition_time: Time(at(100)),
                observed_generation: None,
            }],
            ..RunStatus::default()
        }
    }

    fn passed(deleting: bool, spec: &RunSpec, status: Option<&RunStatus>, second: i64) -> Gate {
        let run = Waiting {
            deleting,
            spec,
            status,
        };
        gate(&run, at(second))
    }

    #[test]
    fn s_29_the_first_gate_that_applies_decides() {
        let cancelled = RunSpec {
            cancel_requested: true,
            ..spec()
        };
        let drained = RunSpec {
            termination: Some(Termination {
                mode: TerminationMode::Drain,
            }),
            ..spec()
        };
        let scheduled = RunStatus {
            phase: RunPhase::Scheduled,
            ..RunStatus::default()
        };
        let nowhere = RunSpec {
            cancel_requested: true,
            ..RunSpec::default()
        };
        let bad = || Gate::Invalid(InvalidRequest("gpu".into()));
        for (case, deleting, spec, status, want) in [
            ("deleted", true, &cancelled, None, Gate::Ignore),
            ("placed", false, &cancelled, Some(&scheduled), Gate::Ignore),
            ("no runtime", false, &nowhere, None, Gate::Ignore),
            ("cancelled", false, &cancelled, None, Gate::Cancel),
            ("drained", false, &drained, None, Gate::Cancel),
            (
                "both",
                false,
                &invalid(cancelled.clone()),
                None,
                Gate::Cancel,
            ),
            ("invalid", false, &invalid(spec()), None, bad()),
            (
                "invalid in backoff",
                false,
                &invalid(spec()),
                Some(&retried(9)),
                bad(),
            ),
        ] {
            assert_eq!(passed(deleting, spec, status, 100), want, "{case}");
        }
    }

    #[test]
    fn s_128_a_run_without_status_is_pending() {
        for status in [None, Some(&RunStatus::default())] {
            let gate = passed(false, &spec(), status, 0);
            assert!(matches!(gate, Gate::Cycle(request) if request.contains_key("runs")));
        }
    }

    #[test]
    fn s_114_a_later_attempt_waits_out_its_delay() {
        let five = RunSpec {
            retry_policy: Some(RetryPolicy {
                backoff: Some(Duration::from_secs(5)),
                ..RetryPolicy::default()
            }),
            ..spec()
        };
        let mut never_ran = retried(2);
        never_ran.conditions.clear();
        let mut running = retried(2);
        running.conditions[0].status = ConditionStatus::True;
        for (case, spec, status, second, want) in [
            ("second, at once", &spec(), &retried(2), 100, Some(1)),
            ("second, due", &spec(), &retried(2), 101, None),
            ("third", &spec(), &retried(3), 100, Some(2)),
            ("hundredth", &spec(), &retried(100), 110, Some(50)),
            ("base of five", &five, &retried(3), 100, Some(10)),
            ("first", &spec(), &retried(1), 100, None),
            ("no condition", &spec(), &never_ran, 100, None),
            ("running", &spec(), &running, 100, None),
        ] {
            let gate = passed(false, spec, Some(status), second);
            match want {
                Some(seconds) => {
                    assert_eq!(gate, Gate::Backoff(Duration::from_secs(seconds)), "{case}");
                }
                None => assert!(matches!(gate, Gate::Cycle(_)), "{case}"),
            }
        }
    }
}
