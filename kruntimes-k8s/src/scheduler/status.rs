//! The scheduler's status writes, each as a function from one status to the next.

use jiff::Timestamp;
use kruntimes_core::api::{RunPhase, RunStatus};
use kruntimes_core::condition::{self, ConditionStatus, Fact};
use kruntimes_core::keys::CONDITION_READY;
use kruntimes_core::life::{self, Failure};
use kruntimes_core::time::Time;
use kruntimes_sched::Pod;

use super::names::Names;

/// Condition reason of a Run that waits out its retry delay.
const RETRY_BACKOFF: &str = "RetryBackoff";

/// Assigns a Run to a Pod (S-82).
pub fn bound(names: &Names, status: &RunStatus, pod: &Pod, now: Timestamp) -> RunStatus {
    let mut next = status.clone();
    next.phase = RunPhase::Scheduled;
    next.assigned_pod = Some(pod.name.to_string());
    next.assigned_pod_uid = Some(pod.uid.to_string());
    next.message = None;
    let message = format!("assigned to runtime pod {}", pod.name);
    let fact = Fact::new(
        &names.scheduled_condition,
        ConditionStatus::True,
        "Assigned",
        &message,
    );
    condition::set(&mut next.conditions, &fact, Time(now));
    next
}

/// Tells a Run why it waits, or nothing when it has been told already (S-110).
pub fn waiting(
    names: &Names,
    status: &RunStatus,
    message: &str,
    reason: &str,
    now: Timestamp,
) -> Option<RunStatus> {
    let told = is_told(names, status, reason)
        && status.phase == RunPhase::Pending
        && status.message.as_deref() == Some(message);
    if told {
        return None;
    }
    let mut next = status.clone();
    next.phase = RunPhase::Pending;
    next.message = Some(message.to_owned());
    next.assigned_pod = None;
    next.assigned_pod_uid = None;
    let fact = Fact::new(
        &names.scheduled_condition,
        ConditionStatus::False,
        reason,
        message,
    );
    condition::set(&mut next.conditions, &fact, Time(now));
    Some(next)
}

/// Tells a Run that it waits for its next attempt, or nothing when it has been told already (S-111).
pub fn backing_off(names: &Names, status: &RunStatus, now: Timestamp) -> Option<RunStatus> {
    if is_told(names, status, RETRY_BACKOFF) {
        return None;
    }
    let mut next = status.clone();
    let fact = Fact::new(
        &names.scheduled_condition,
        ConditionStatus::False,
        RETRY_BACKOFF,
        "waiting before the next attempt",
    );
    condition::set(&mut next.conditions, &fact, Time(now));
    Some(next)
}

/// Ends a Run that was never placed (S-106). The attempt stays as it is: none was made.
pub fn ended(names: &Names, status: &RunStatus, failure: Failure, now: Timestamp) -> RunStatus {
    let (reason, message) = (failure.reason, failure.message.clone());
    let has_ready = condition::get(&status.conditions, CONDITION_READY).is_some();
    let kinds = [
        Some(names.running_condition.as_str()),
        Some(CONDITION_READY).filter(|_| has_ready),
        Some(names.completed_condition.as_str()),
    ];
    let mut conditions = status.conditions.clone();
    for kind in kinds.into_iter().flatten() {
        let fact = Fact::new(kind, ConditionStatus::False, reason, &message);
        condition::set(&mut conditions, &fact, Time(now));
    }
    RunStatus {
        attempt: status.attempt,
        conditions,
        ..life::ended(status, failure, now).status
    }
}

fn is_told(names: &Names, status: &RunStatus, reason: &str) -> bool {
    condition::get(&status.conditions, &names.scheduled_condition)
        .is_some_and(|found| found.status == ConditionStatus::False && found.reason == reason)
}

#[cfg(test)]
mod tests {
    use kruntimes_core::keys::{CONDITION_COMPLETED, CONDITION_RUNNING};

    use super::*;

    fn ours() -> Names {
        Names::default()
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn s_82_a_bind_sets_name_uid_phase_and_condition_and_clears_the_message() {
        let told = waiting(
            &ours(),
            &RunStatus::default(),
            "waiting",
            "NoReadyPods",
            at(1),
        )
        .unwrap();
        let bound = bound(&ours(), &told, &Pod::new("p", "uid"), at(2));
        assert_eq!(bound.phase, RunPhase::Scheduled);
        assert_eq!(bound.assigned_pod.as_deref(), Some("p"));
        assert_eq!(bound.assigned_pod_uid.as_deref(), Some("uid"));
        assert_eq!(bound.message, None);
        let [condition] = &bound.conditions[..] else {
            panic!("one condition of one type");
        };
        assert_eq!(condition.status, ConditionStatus::True);
        assert_eq!(condition.reason, "Assigned");
        assert_eq!(condition.message, "assigned to runtime pod p");
        assert_eq!(condition.last_transition_time, Time(at(2)));
    }

    #[test]
    fn s_110_a_waiting_run_is_told_only_what_is_new() {
        let told = waiting(&ours(), &RunStatus::default(), "m", "NoReadyPods", at(1)).unwrap();
        assert_eq!(waiting(&ours(), &told, "m", "NoReadyPods", at(9)), None);
        let reason = waiting(&ours(), &told, "m", "HeartbeatStale", at(9)).unwrap();
        assert_eq!(reason.conditions[0].last_transition_time, Time(at(1)));
        assert!(waiting(&ours(), &told, "n", "NoReadyPods", at(9)).is_some());
    }

    #[test]
    fn s_111_the_backoff_is_told_once() {
        let told = backing_off(&ours(), &RunStatus::default(), at(1)).unwrap();
        assert_eq!(told.conditions[0].reason, "RetryBackoff");
        assert_eq!(backing_off(&ours(), &told, at(2)), None);
    }

    #[test]
    fn s_106_s_108_a_terminal_write_is_complete() {
        let ended = ended(&ours(), &RunStatus::default(), Failure::cancelled(), at(5));
        assert_eq!(ended.phase, RunPhase::Cancelled);
        assert_eq!(ended.message.as_deref(), Some("cancelled by user"));
        assert_eq!(ended.completion_time, Some(Time(at(5))));
        assert_eq!(ended.attempt, None);
        for kind in [CONDITION_RUNNING, CONDITION_COMPLETED] {
            let found = condition::get(&ended.conditions, kind).unwrap();
            assert_eq!(found.status, ConditionStatus::False, "{kind}");
            assert_eq!(found.reason, "Cancelled", "{kind}");
            assert_eq!(found.message, "cancelled by user", "{kind}");
        }
    }

    #[test]
    fn s_106_s_157_the_end_is_told_under_the_names_that_are_given() {
        let theirs = Names {
            running_condition: "Working".into(),
            completed_condition: "Running".into(),
            ..Names::default()
        };
        let mut status = RunStatus::default();
        for kind in [CONDITION_READY, "Working", "Of others"] {
            let fact = Fact::new(kind, ConditionStatus::True, "R", "");
            condition::set(&mut status.conditions, &fact, Time(at(1)));
        }
        let written = ended(&theirs, &status, Failure::cancelled(), at(5));
        let told: Vec<_> = (written.conditions.iter())
            .map(|found| (found.condition_type.as_str(), found.reason.as_str()))
            .collect();
        let want = [
            (CONDITION_READY, "Cancelled"),
            ("Working", "Cancelled"),
            ("Of others", "R"),
            ("Running", "Cancelled"),
        ];
        assert_eq!(told, want);
        let written = ended(&ours(), &status, Failure::cancelled(), at(5));
        let everywhere = life::ended(&status, Failure::cancelled(), at(5)).status;
        assert_eq!(written.conditions, everywhere.conditions);
    }
}
