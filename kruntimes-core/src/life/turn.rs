//! The reducer: what one reconcile of a Run does on its node (node, sections 5, 9 and 10).

use jiff::Timestamp;

use super::{
    Change, Failure, Report, StopRequest, claimed, classify, deadline, ended, failed,
    is_in_backoff, observed, retry_begun, retry_due, stop_request,
};
use crate::api::{RunPhase, RunSpec, RunStatus};
use crate::condition;
use crate::duration::Duration;
use crate::keys::CONDITION_RUNTIME_ACCEPTED;
use crate::retry::{self, reason};

/// How long an execution lives before its observation is written on its own.
///
/// A shorter one has it written together with its result, which saves one of four writes.
pub const OBSERVED_AFTER: Duration = Duration::from_secs(1);

/// Everything one reconcile looks at.
#[derive(Clone, Copy, Debug)]
pub struct Observed<'a> {
    /// What is asked for.
    pub spec: &'a RunSpec,
    /// What has happened so far.
    pub status: &'a RunStatus,
    /// The object carries a deletion timestamp.
    pub deleting: bool,
    /// The Run is assigned to this very Pod (N-21).
    pub mine: bool,
    /// What this node holds of the Run.
    pub hold: Hold<'a>,
    /// What the Runtime Server said in this reconcile; `None` while it was not asked.
    pub answer: Option<Answer<'a>>,
    /// The present moment.
    pub now: Timestamp,
}

/// What a node holds of a Run.
#[derive(Clone, Copy, Debug)]
pub enum Hold<'a> {
    /// Nothing.
    None,
    /// An entry with capacity.
    Held(&'a Local),
    /// Nothing any more: the Run was released before its object became terminal.
    Released,
}

/// What a node knows of a Run it holds, beyond the stored status.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Local {
    /// The attempt that all of this is about.
    pub attempt: i32,
    /// When this process first saw the server report the present attempt.
    pub seen: Option<Timestamp>,
    /// The entry was made from stored status and not by a claim of this process.
    pub recovered: bool,
    /// A start is on its way.
    pub starting: bool,
    /// Preparation or start of the present attempt failed.
    pub failure: Option<Failure>,
    /// An earlier attempt may still be known to the server (N-106).
    pub unforgotten: bool,
    /// The claim time with its fraction.
    pub claimed_at: Option<Timestamp>,
    /// The time of the last failure with its fraction.
    pub failed_at: Option<Timestamp>,
}

/// What the Runtime Server said of an execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer<'a> {
    /// Pending or running.
    Live,
    /// Ended well.
    Succeeded,
    /// Ended badly.
    Failed(Report<'a>),
    /// A state this build has no name for.
    Unknown(i32),
    /// The server does not know the execution.
    NotFound,
    /// The server could not be asked.
    Silent,
}

/// The one thing a reconcile does.
#[derive(Clone, Debug, PartialEq)]
pub enum Move {
    /// Nothing, until something changes.
    Rest,
    /// Nothing before this instant; without one, until something changes.
    Wait(Option<Timestamp>),
    /// Ask the Runtime Server, then decide again.
    AskServer,
    /// The server could not tell: ask later, change nothing (N-87).
    AskLater,
    /// Reserve if health and capacity allow it, then write.
    Claim(Box<Change>),
    /// Make an entry for work that an earlier process claimed, then decide again.
    Adopt,
    /// The status has moved to another attempt: forget what is known of the last one, here and at the
    /// server, then decide again.
    NextAttempt,
    /// Prepare and execute in the background.
    Start,
    /// Read what the task left behind, then write its success.
    Collect,
    /// Write.
    Write(Box<Change>),
    /// Stop the work at the server, then write.
    StopThenWrite(Box<Change>),
    /// Stop and forget the work, remove its files, free its capacity; write nothing.
    Release,
}

fn write(change: Change) -> Move {
    Move::Write(Box::new(change))
}

/// Decides what one reconcile does.
///
/// A terminal Run, a Run of another Pod and a deleting Run are never written to.
pub fn next(seen: &Observed<'_>) -> Move {
    let phase = seen.status.phase;
    let over = phase.is_terminal() || phase == RunPhase::Pending || !seen.mine;
    match seen.hold {
        Hold::Held(_) if over || seen.deleting => return Move::Release,
        Hold::None | Hold::Released if over => return Move::Rest,
        Hold::Released => return Move::Rest,
        Hold::None | Hold::Held(_) => {}
    }
    match (phase, seen.hold) {
        (RunPhase::Scheduled, Hold::None) => scheduled(seen),
        // It was taken away and came back for its next attempt, unseen: what is held is of the last one.
        (RunPhase::Scheduled, Hold::Held(local))
            if local.attempt < retry::current_attempt(seen.status.attempt) =>
        {
            Move::Release
        }
        // The claim is on its way (N-25).
        (RunPhase::Scheduled, Hold::Held(_) | Hold::Released) => Move::Rest,
        // Work of an earlier process, deleting or not: only what is held can be released.
        (_, Hold::None | Hold::Released) => Move::Adopt,
        (RunPhase::Running, Hold::Held(local)) => running(seen, local),
        (_, Hold::Held(_)) => registered(seen),
    }
}

fn scheduled(seen: &Observed<'_>) -> Move {
    let (spec, status) = (seen.spec, seen.status);
    if stop_request(spec) == StopRequest::Immediate {
        return write(ended(status, Failure::cancelled(), seen.now));
    }
    if seen.deleting {
        return Move::Rest;
    }
    match spec.timeout {
        Some(timeout) if !timeout.is_positive() => write(ended(status, timed_out(spec), seen.now)),
        Some(_) | None => Move::Claim(Box::new(claimed(spec, status, seen.now))),
    }
}

fn timed_out(spec: &RunSpec) -> Failure {
    let timeout = spec.timeout.unwrap_or_default();
    Failure::new(reason::TIMEOUT, &format!("timeout after {timeout}"))
}

/// A registration from before this process: nothing here serves it any more.
fn registered(seen: &Observed<'_>) -> Move {
    let failure = if stop_request(seen.spec) == StopRequest::Immediate {
        Failure::cancelled()
    } else {
        Failure::new(
            reason::EXECUTION_LOST,
            "runtime execution not found after runtimed restart",
        )
    };
    Move::StopThenWrite(Box::new(ended(seen.status, failure, seen.now)))
}

fn running(seen: &Observed<'_>, local: &Local) -> Move {
    let (spec, status, now) = (seen.spec, seen.status, seen.now);
    if stop_request(spec) == StopRequest::Immediate {
        return Move::StopThenWrite(Box::new(ended(status, Failure::cancelled(), now)));
    }
    let deadline = deadline(spec, status, local.claimed_at);
    if deadline.is_some_and(|deadline| now >= deadline) {
        return overdue(seen, local);
    }
    // Also when the write that moved it was thought to have failed (N-106).
    if local.attempt != retry::current_attempt(status.attempt) {
        return Move::NextAttempt;
    }
    if is_in_backoff(status) {
        return backing_off(seen, local, deadline);
    }
    if let Some(failure) = &local.failure {
        return write(failed(spec, status, failure.clone(), false, now));
    }
    if local.starting {
        return Move::Wait(deadline);
    }
    let Some(answer) = seen.answer else {
        return Move::AskServer;
    };
    let known = local.seen.is_some() || is_accepted(status);
    let lost = |failure| write(failed(spec, status, failure, known, now));
    match answer {
        Answer::Live => live(seen, local, deadline),
        Answer::Succeeded => Move::Collect,
        Answer::Failed(report) => write(failed(spec, status, classify(&report), true, now)),
        Answer::Unknown(number) => lost(Failure::new(
            reason::RUNTIME_EXECUTE,
            &format!("runtime server reported the unknown execution state {number}"),
        )),
        Answer::NotFound if known => lost(execution_lost(local)),
        Answer::NotFound => Move::Start,
        Answer::Silent => Move::AskLater,
    }
}

fn is_accepted(status: &RunStatus) -> bool {
    condition::is_true(&status.conditions, CONDITION_RUNTIME_ACCEPTED)
}

fn execution_lost(local: &Local) -> Failure {
    let text = if local.recovered && local.seen.is_none() {
        "runtime execution not found after runtimed restart"
    } else {
        "runtime execution not found"
    };
    Failure::new(reason::EXECUTION_LOST, text)
}

/// The deadline has passed: a success that is already there is honoured, all else ends (N-114, N-115).
fn overdue(seen: &Observed<'_>, local: &Local) -> Move {
    let may_have_ended = !is_in_backoff(seen.status) && local.failure.is_none() && !local.starting;
    match seen.answer {
        None if may_have_ended => Move::AskServer,
        Some(Answer::Succeeded) if may_have_ended => Move::Collect,
        None | Some(_) => {
            let mut change = ended(seen.status, timed_out(seen.spec), seen.now);
            if local.seen.is_some() {
                change.status = observed(&change.status, seen.now).status;
            }
            Move::StopThenWrite(Box::new(change))
        }
    }
}

fn backing_off(seen: &Observed<'_>, local: &Local, deadline: Option<Timestamp>) -> Move {
    let due = retry_due(seen.spec, seen.status, local.failed_at).unwrap_or(seen.now);
    if local.unforgotten {
        return Move::Wait(deadline);
    }
    if seen.now >= due {
        return write(retry_begun(seen.status, seen.now));
    }
    Move::Wait(Some(deadline.map_or(due, |deadline| deadline.min(due))))
}

fn live(seen: &Observed<'_>, local: &Local, deadline: Option<Timestamp>) -> Move {
    if is_accepted(seen.status) {
        return Move::Wait(deadline);
    }
    let due = OBSERVED_AFTER.after(local.seen.unwrap_or(seen.now));
    if seen.now >= due {
        return write(observed(seen.status, seen.now));
    }
    Move::Wait(Some(deadline.map_or(due, |deadline| deadline.min(due))))
}
