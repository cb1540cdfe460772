//! What becomes of a Run whose Pod is lost: gone, terminating or unhealthy (node, section 16).
//!
//! [`examine`] judges a Pod, [`calculate`] a Run on it. Ages are measured by whoever watches the Pod, from
//! what it saw itself: two clocks that disagree, or one that jumps, end no Run.
//!
//! **Invariants:** a terminal phase is never replaced; an assignment is cleared whole, and only when the
//! Pod is fenced or the Run was not claimed, except that a task waits twice the threshold without a fence.

#[cfg(test)]
mod tests;

use jiff::Timestamp;

use crate::api::{RunPhase, RunSpec, RunStatus};
use crate::condition::{self, ConditionStatus, Fact};
use crate::duration::Duration;
use crate::keys::{
    CONDITION_READY, CONDITION_RUNNING, CONDITION_SCHEDULED, FINALIZER_FUNCTION,
    FINALIZER_REGISTRATION,
};
use crate::life::{Failure, StopRequest, ended, stop_request};
use crate::retry::{self, reason};
use crate::time::Time;

/// How long a Pod may be not ready or silent before its Runs are acted on, unless configured otherwise.
pub const THRESHOLD: Duration = Duration::from_secs(30);
/// How long the daemon of a terminating Pod may still bring claimed tasks to their end (N-198).
pub const DRAIN_WINDOW: Duration = Duration::from_secs(20);

/// A Pod as its watcher sees it. Ages count from when the watcher saw the change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodView {
    /// Its identity.
    pub uid: String,
    /// How long it has carried a deletion timestamp.
    pub terminating: Option<Duration>,
    /// Its condition `Ready`, when it has one.
    pub ready: Option<bool>,
    /// How long that has been so.
    pub settled: Duration,
    /// How long its heartbeat has not changed.
    pub silent: Duration,
}

/// How a Pod is lost, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// No Pod bears its name.
    Gone,
    /// Another Pod bears its name.
    Replaced,
    /// It is on its way out; `serving` while it is still an endpoint of its Service.
    Terminating {
        /// For how long.
        age: Duration,
        /// Its Service still leads to it.
        serving: bool,
    },
    /// It is not ready.
    NotReady {
        /// For how long.
        age: Duration,
    },
    /// It is ready, and its daemon gives no sign of life.
    Silent {
        /// For how long.
        age: Duration,
    },
}

/// Whether a Pod can be relied on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// It can, for this long unless something is heard.
    Sound(Duration),
    /// It cannot.
    Lost(Loss),
}

impl Loss {
    fn failure(self) -> Failure {
        let (reason, message) = match self {
            Self::Gone => (reason::POD_GONE, "assigned pod was deleted"),
            Self::Replaced => (reason::POD_GONE, "assigned pod was replaced"),
            Self::Terminating { .. } => (reason::POD_TERMINATING, "assigned pod is terminating"),
            Self::NotReady { .. } => (reason::POD_UNHEALTHY, "assigned pod is not ready"),
            Self::Silent { .. } => (
                reason::POD_UNHEALTHY,
                "assigned pod runtimed heartbeat is stale",
            ),
        };
        Failure::new(reason, message)
    }
}

/// Judges a Pod that `uid` names; without one the name counts. `None` is a Pod that is not there.
pub fn examine(uid: Option<&str>, pod: Option<&PodView>, threshold: Duration) -> Health {
    let Some(pod) = pod else {
        return Health::Lost(Loss::Gone);
    };
    if uid.is_some_and(|uid| !uid.is_empty() && uid != pod.uid) {
        return Health::Lost(Loss::Replaced);
    }
    if let Some(age) = pod.terminating {
        let serving = pod.ready == Some(true);
        return Health::Lost(Loss::Terminating { age, serving });
    }
    let (age, loss): (_, fn(Duration) -> Loss) = match pod.ready {
        // Without the condition it is not stale yet (N-200).
        None => return Health::Sound(threshold),
        Some(false) => (pod.settled, |age| Loss::NotReady { age }),
        // A Pod that has just become ready gets the time for its first sign of life (N-208).
        Some(true) => (pod.silent.min(pod.settled), |age| Loss::Silent { age }),
    };
    if age >= threshold {
        Health::Lost(loss(age))
    } else {
        Health::Sound(less(threshold, age))
    }
}

fn less(whole: Duration, part: Duration) -> Duration {
    Duration::from_nanos(whole.as_nanos().saturating_sub(part.as_nanos()).max(1))
}

/// Everything one look at a Run takes in.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// What is asked for.
    pub spec: &'a RunSpec,
    /// What has happened so far.
    pub status: &'a RunStatus,
    /// The object carries a deletion timestamp.
    pub deleting: bool,
    /// The object carries a registration finalizer, see [`is_registered`].
    pub registered: bool,
    /// The Pod that bears the assigned name, if there is one.
    pub pod: Option<&'a PodView>,
    /// How long a Pod may be not ready or silent.
    pub threshold: Duration,
    /// The present moment.
    pub now: Timestamp,
}

/// What a look at a Run leads to.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// The Run needs no Pod.
    Nothing,
    /// Its Pod is sound, for this long unless something is heard.
    Sound(Duration),
    /// Its Pod is not, and nothing is to be done for this long.
    Wait(Duration),
    /// The status is written.
    Write(Box<Write>),
    /// The registration finalizers are removed: nobody is left who could do it.
    Unregister,
}

/// One status write of the reaper.
#[derive(Clone, Debug, PartialEq)]
pub struct Write {
    /// The complete next status.
    pub status: RunStatus,
    /// What it means.
    pub fate: Fate,
    /// Why it is written.
    pub failure: Failure,
}

/// What a status write of the reaper means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It was never claimed: another Pod is looked for, and no attempt was used.
    Released,
    /// The attempt is lost: the next one may run elsewhere.
    Retried,
    /// It is over.
    Ended,
}

/// Tells whether a finalizer stands for a registration on a Pod.
pub fn is_registered<'a>(finalizers: impl IntoIterator<Item = &'a String>) -> bool {
    let mut finalizers = finalizers.into_iter();
    finalizers.any(|name| is_registration(name))
}

/// Tells whether this is a finalizer of a registration on a Pod.
pub fn is_registration(finalizer: &str) -> bool {
    [FINALIZER_FUNCTION, FINALIZER_REGISTRATION].contains(&finalizer)
}

/// Decides about one Run (N-200 to N-206).
pub fn calculate(seen: &Seen<'_>) -> Verdict {
    let status = seen.status;
    let over = status.phase.is_terminal();
    let assigned = status
        .assigned_pod
        .as_deref()
        .is_some_and(|pod| !pod.is_empty());
    if !assigned {
        // Whoever had it has released it, or is lost: that was written when the assignment was cleared.
        let idle = over || status.phase == RunPhase::Pending;
        return if seen.registered && idle {
            Verdict::Unregister
        } else {
            Verdict::Nothing
        };
    }
    let leaves = over || seen.deleting;
    if !(status.phase.is_active() && !leaves || seen.registered && leaves) {
        return Verdict::Nothing;
    }
    let uid = status.assigned_pod_uid.as_deref();
    let loss = match examine(uid, seen.pod, seen.threshold) {
        Health::Sound(left) => return Verdict::Sound(left),
        Health::Lost(loss) => loss,
    };
    if leaves {
        return match fence(seen, loss) {
            Ok(()) => Verdict::Unregister,
            Err(wait) => Verdict::Wait(wait),
        };
    }
    if status.phase == RunPhase::Scheduled {
        return unclaimed(seen, loss);
    }
    match fence(seen, loss) {
        Ok(()) => fenced(seen, loss),
        Err(wait) => unfenced(seen, loss, wait),
    }
}

/// Tells whether nothing of the Run can run on the Pod any more, or when to look again.
fn fence(seen: &Seen<'_>, loss: Loss) -> Result<(), Duration> {
    match loss {
        // A task has the window of its daemon, a registration as long as callers are led to it.
        Loss::Terminating { age, .. } if is_task(seen) && age < DRAIN_WINDOW => {
            Err(less(DRAIN_WINDOW, age))
        }
        Loss::Terminating { serving: true, .. } if !is_task(seen) => Err(seen.threshold),
        Loss::Gone | Loss::Replaced | Loss::Terminating { .. } => Ok(()),
        Loss::NotReady { .. } | Loss::Silent { .. } => Err(seen.threshold),
    }
}

fn is_task(seen: &Seen<'_>) -> bool {
    seen.spec.mode.function.is_none() && seen.spec.mode.session.is_none()
}

/// A Run that nobody claimed is placed anew: a late claim is refused, its version is outdated (N-201).
fn unclaimed(seen: &Seen<'_>, loss: Loss) -> Verdict {
    let unhealthy = matches!(loss, Loss::NotReady { .. } | Loss::Silent { .. });
    if unhealthy && !is_task(seen) {
        return Verdict::Wait(seen.threshold);
    }
    if stop_request(seen.spec) != StopRequest::None {
        return end(seen, Failure::cancelled());
    }
    let failure = loss.failure();
    let status = unassigned(seen, &failure);
    write(status, Fate::Released, failure)
}

fn fenced(seen: &Seen<'_>, loss: Loss) -> Verdict {
    let stop = stop_request(seen.spec);
    if stop == StopRequest::Immediate {
        return end(seen, Failure::cancelled());
    }
    if has_served(seen) {
        return end(seen, loss.failure());
    }
    // A drain before the session was ready leaves nothing to keep.
    if stop == StopRequest::Drain {
        return end(seen, Failure::cancelled());
    }
    retry_or_end(seen, loss)
}

/// A session that was ready is never assigned again (N-204).
fn has_served(seen: &Seen<'_>) -> bool {
    let status = seen.status;
    seen.spec.mode.session.is_some()
        && (matches!(status.phase, RunPhase::Ready | RunPhase::Finalizing)
            || condition::get(&status.conditions, CONDITION_READY).is_some())
}

/// Without a fence only a task is acted on, and started elsewhere only after twice the threshold (N-203).
fn unfenced(seen: &Seen<'_>, loss: Loss, wait: Duration) -> Verdict {
    let (Loss::NotReady { age } | Loss::Silent { age }) = loss else {
        return Verdict::Wait(wait);
    };
    if !is_task(seen) {
        return Verdict::Wait(wait);
    }
    if stop_request(seen.spec) == StopRequest::Immediate {
        return end(seen, Failure::cancelled());
    }
    let twice = seen.threshold.saturating_mul(2);
    if age < twice && may_retry(seen, &loss.failure()) {
        return Verdict::Wait(less(twice, age));
    }
    retry_or_end(seen, loss)
}

fn may_retry(seen: &Seen<'_>, failure: &Failure) -> bool {
    let attempt = retry::current_attempt(seen.status.attempt);
    retry::may_retry(seen.spec, attempt, failure.reason)
}

fn retry_or_end(seen: &Seen<'_>, loss: Loss) -> Verdict {
    let failure = loss.failure();
    if !may_retry(seen, &failure) {
        return end(seen, failure);
    }
    let mut next = unassigned(seen, &failure);
    next.attempt = Some(retry::current_attempt(seen.status.attempt).saturating_add(1));
    // The scheduler measures the wait before the next attempt from here (S-114).
    untrue(&mut next, CONDITION_RUNNING, &failure, seen.now);
    write(next, Fate::Retried, failure)
}

/// Takes a Run off its Pod: name, UID, start, endpoint and readiness go together (N-11, N-202).
fn unassigned(seen: &Seen<'_>, failure: &Failure) -> RunStatus {
    let mut next = RunStatus {
        phase: RunPhase::Pending,
        assigned_pod: None,
        assigned_pod_uid: None,
        start_time: None,
        endpoint: None,
        message: Some(failure.message.clone()),
        ..seen.status.clone()
    };
    untrue(&mut next, CONDITION_SCHEDULED, failure, seen.now);
    if condition::get(&next.conditions, CONDITION_READY).is_some() {
        untrue(&mut next, CONDITION_READY, failure, seen.now);
    }
    next
}

fn untrue(status: &mut RunStatus, kind: &str, failure: &Failure, now: Timestamp) {
    let fact = Fact::new(
        kind,
        ConditionStatus::False,
        failure.reason,
        &failure.message,
    );
    condition::set(&mut status.conditions, &fact, Time(now));
}

fn end(seen: &Seen<'_>, failure: Failure) -> Verdict {
    let status = ended(seen.status, failure.clone(), seen.now).status;
    write(status, Fate::Ended, failure)
}

fn write(status: RunStatus, fate: Fate, failure: Failure) -> Verdict {
    Verdict::Write(Box::new(Write {
        status,
        fate,
        failure,
    }))
}
