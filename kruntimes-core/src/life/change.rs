//! The status writes of a node, each as a function from one status to the next.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::Failure;
use crate::api::{ArtifactRef, RunPhase, RunSpec, RunStatus};
use crate::condition::{self, ConditionStatus, Fact};
use crate::keys::{
    CONDITION_COMPLETED, CONDITION_READY, CONDITION_RUNNING, CONDITION_RUNTIME_ACCEPTED,
};
use crate::retry;
use crate::time::Time;

/// One status write and what it means.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The complete next status.
    pub status: RunStatus,
    /// What kind of step it is.
    pub kind: ChangeKind,
}

/// What a status write means, for Events, metrics and the steps that follow it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// The node takes the Run.
    Claimed,
    /// The Runtime Server has the attempt.
    Observed,
    /// The attempt failed, another one follows on this Pod.
    RetryScheduled(Failure),
    /// The wait before the attempt is over.
    RetryBegun,
    /// The end, with its failure unless it is a success.
    Ended(Option<Failure>),
}

fn set(status: &mut RunStatus, fact: &Fact<'_>, now: Timestamp) {
    condition::set(&mut status.conditions, fact, Time(now));
}

fn accepted(status: &mut RunStatus, now: Timestamp) {
    let fact = Fact::new(
        CONDITION_RUNTIME_ACCEPTED,
        ConditionStatus::True,
        "Observed",
        "Runtime Server accepted execution",
    );
    set(status, &fact, now);
}

/// Takes a Run: `Scheduled` to `Running` (N-33).
pub fn claimed(spec: &RunSpec, status: &RunStatus, now: Timestamp) -> Change {
    let mut next = status.clone();
    next.phase = RunPhase::Running;
    next.start_time = Some(Time(now));
    next.message = None;
    let running = Fact::new(
        CONDITION_RUNNING,
        ConditionStatus::True,
        "Claimed",
        "claimed by runtimed",
    );
    set(&mut next, &running, now);
    if spec.mode.task.is_some() {
        let dispatching = Fact::new(
            CONDITION_RUNTIME_ACCEPTED,
            ConditionStatus::False,
            "Dispatching",
            "",
        );
        set(&mut next, &dispatching, now);
    }
    Change {
        status: next,
        kind: ChangeKind::Claimed,
    }
}

/// Records that the Runtime Server reported the attempt (N-83).
pub fn observed(status: &RunStatus, now: Timestamp) -> Change {
    let mut next = status.clone();
    accepted(&mut next, now);
    Change {
        status: next,
        kind: ChangeKind::Observed,
    }
}

/// Ends the waiting time: the next attempt begins (N-108).
pub fn retry_begun(status: &RunStatus, now: Timestamp) -> Change {
    let mut next = status.clone();
    let running = Fact::new(
        CONDITION_RUNNING,
        ConditionStatus::True,
        "Retrying",
        "Retry after failure",
    );
    let waiting = Fact::new(
        CONDITION_RUNTIME_ACCEPTED,
        ConditionStatus::False,
        "Retrying",
        "",
    );
    set(&mut next, &running, now);
    set(&mut next, &waiting, now);
    Change {
        status: next,
        kind: ChangeKind::RetryBegun,
    }
}

/// Ends a task well, with what it left behind (N-96).
pub fn succeeded(
    status: &RunStatus,
    outputs: BTreeMap<String, String>,
    artifact_refs: Vec<ArtifactRef>,
    now: Timestamp,
) -> Change {
    let mut next = terminal(status, RunPhase::Succeeded, "Completed", "", now);
    accepted(&mut next, now);
    next.message = Some("execution completed".to_owned());
    next.outputs = outputs;
    next.artifact_refs = artifact_refs;
    let completed = Fact::new(
        CONDITION_COMPLETED,
        ConditionStatus::True,
        "RunCompleted",
        "Completed successfully",
    );
    set(&mut next, &completed, now);
    Change {
        status: next,
        kind: ChangeKind::Ended(None),
    }
}

/// Ends a Run badly, without another attempt (N-10).
pub fn ended(status: &RunStatus, failure: Failure, now: Timestamp) -> Change {
    let message = &failure.message;
    let mut next = terminal(status, failure.phase(), failure.reason, message, now);
    next.message = Some(message.clone());
    let completed = Fact::new(
        CONDITION_COMPLETED,
        ConditionStatus::False,
        failure.reason,
        message,
    );
    set(&mut next, &completed, now);
    Change {
        status: next,
        kind: ChangeKind::Ended(Some(failure)),
    }
}

/// Deals with a failed attempt: schedules the next one where the policy allows it, else ends the Run
/// (N-103, N-105).
///
/// `seen` tells that the Runtime Server had reported the attempt; it is written here if it was not yet.
pub fn failed(
    spec: &RunSpec,
    status: &RunStatus,
    failure: Failure,
    seen: bool,
    now: Timestamp,
) -> Change {
    let attempt = retry::current_attempt(status.attempt);
    let mut change = if retry::may_retry(spec, attempt, failure.reason) {
        let mut next = status.clone();
        next.attempt = Some(attempt + 1);
        let running = Fact::new(
            CONDITION_RUNNING,
            ConditionStatus::False,
            failure.reason,
            &failure.message,
        );
        set(&mut next, &running, now);
        Change {
            status: next,
            kind: ChangeKind::RetryScheduled(failure),
        }
    } else {
        ended(status, failure, now)
    };
    if seen {
        accepted(&mut change.status, now);
    }
    change
}

fn terminal(
    status: &RunStatus,
    phase: RunPhase,
    reason: &str,
    message: &str,
    now: Timestamp,
) -> RunStatus {
    let mut next = status.clone();
    next.phase = phase;
    next.attempt = Some(retry::current_attempt(status.attempt));
    next.endpoint = None;
    // A clock that went back must not let the end lie before the start.
    next.completion_time = Some(Time(now).max(status.start_time.unwrap_or(Time(now))));
    let of = |kind| Fact::new(kind, ConditionStatus::False, reason, message);
    set(&mut next, &of(CONDITION_RUNNING), now);
    if condition::get(&next.conditions, CONDITION_READY).is_some() {
        set(&mut next, &of(CONDITION_READY), now);
    }
    next
}
