//! One reconcile of one Run: ask the reducer, carry out its move, ask again until it rests.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kruntimes_core::api::RunStatus;
use kruntimes_core::crd::Run;
use kruntimes_core::life::{self, Answer, Change, ChangeKind, Local, Move, Observed, Report};
use kruntimes_core::retry;
use kruntimes_k8s::cache::ObjectKey;
use kruntimes_k8s::patch::status_patch;
use kruntimes_k8s::queue::Outcome;
use kruntimes_proto::{Execution, ExecutionState};
use kube::ResourceExt as _;
use kube::api::{Patch, PatchParams};

use crate::events::Note;
use crate::node::{self, Node, until};
use crate::readiness::PASS;
use crate::server::STATUS_LIMIT;
use crate::start::{self, Start};
use crate::table::{Refused, Upload};
use crate::{recovery, release};

/// Wait before a Run that cannot be claimed is looked at again, unless something frees room (N-25).
const CLAIM_AGAIN: Duration = Duration::from_secs(1);
/// Distance of two looks at an execution whose server reports nothing by itself (N-88).
const POLL: Duration = PASS;
/// Distance of two looks although the server reports: against a lost event.
const SAFETY: Duration = Duration::from_secs(30);
/// Limit of the last question before a deadline counts (N-91, N-115).
const LAST_LOOK: Duration = Duration::from_secs(1);
/// Moves of one reconcile; more would mean that it runs in a circle.
const MOVES: usize = 12;

/// Reconciles the Run of this name.
pub(crate) async fn reconcile(node: &Arc<Node>, key: ObjectKey) -> Outcome {
    let run = node.runs.get(&key);
    let uid = run.as_ref().and_then(|run| run.uid());
    // A Run that is gone or replaced under its name is released by UID (N-120, N-121).
    for held in node.table.held_as(&key) {
        if uid.as_ref() != Some(&held) {
            release::spawn(node, &held, None, true);
        }
    }
    let (Some(run), Some(uid)) = (run, uid) else {
        return Outcome::Done;
    };
    let mut turn = Turn {
        node,
        run,
        uid,
        answer: None,
        failed_at: None,
    };
    for _ in 0..MOVES {
        match turn.step().await {
            Next::Again => {}
            Next::Stop(outcome) => return outcome,
        }
    }
    tracing::error!(run = %key, "reconcile does not settle");
    Outcome::Retry
}

pub(crate) enum Next {
    /// Decide again.
    Again,
    /// Come back as told.
    Stop(Outcome),
}

/// One reconcile on its way.
pub(crate) struct Turn<'a> {
    pub(crate) node: &'a Arc<Node>,
    pub(crate) run: Arc<Run>,
    pub(crate) uid: String,
    /// What the server said in this reconcile; a bare state comes from an event.
    answer: Option<Said>,
    /// When this reconcile recorded a failure that is repeated.
    failed_at: Option<Timestamp>,
}

enum Said {
    Report(Execution),
    Live,
    NotFound,
    Silent,
}

impl Said {
    fn view(&self) -> Answer<'_> {
        match self {
            Self::Live => Answer::Live,
            Self::NotFound => Answer::NotFound,
            Self::Silent => Answer::Silent,
            Self::Report(report) => match report.state {
                ExecutionState::Pending | ExecutionState::Running => Answer::Live,
                ExecutionState::Succeeded => Answer::Succeeded,
                ExecutionState::Failed => Answer::Failed(Report {
                    exit_code: report.exit_code,
                    stderr: &report.stderr,
                    error_message: &report.error_message,
                }),
                ExecutionState::Unknown(number) => Answer::Unknown(number),
            },
        }
    }
}

impl Turn<'_> {
    pub(crate) fn status(&self) -> RunStatus {
        self.run.status.clone().unwrap_or_default()
    }

    fn decide(&self, now: Timestamp) -> Move {
        let status = self.status();
        self.node.table.look(&self.uid, |hold| {
            life::next(&Observed {
                spec: &self.run.spec,
                status: &status,
                deleting: self.run.metadata.deletion_timestamp.is_some(),
                mine: self.node.is_mine(&self.run),
                hold,
                answer: self.answer.as_ref().map(Said::view),
                now,
            })
        })
    }

    async fn step(&mut self) -> Next {
        let now = self.node.clock.now();
        match self.decide(now) {
            Move::Rest => Next::Stop(Outcome::Done),
            Move::Wait(at) => Next::Stop(self.wait(now, at)),
            Move::AskLater => Next::Stop(self.wait(now, Some(now + POLL))),
            Move::AskServer => {
                self.ask(now).await;
                Next::Again
            }
            Move::Adopt => self.adopt().await,
            Move::Claim(change) => self.claim(*change).await,
            Move::NextAttempt => {
                self.next_attempt();
                Next::Again
            }
            Move::Start => {
                self.start(false);
                self.answer = None;
                Next::Again
            }
            Move::Collect => self.collect().await,
            Move::Write(change) => self.write(*change).await,
            Move::StopThenWrite(change) => {
                release::stop_work(self.node, &self.uid, Some(&self.run)).await;
                self.write(*change).await
            }
            Move::Release => {
                if self.run.metadata.deletion_timestamp.is_some() {
                    self.node.table.mark_released(&self.uid);
                }
                release::spawn(self.node, &self.uid, Some(Arc::clone(&self.run)), true);
                Next::Stop(Outcome::Done)
            }
        }
    }

    /// Waits until `at`, and no longer than a server that reports nothing may be left alone.
    pub(crate) fn wait(&self, now: Timestamp, at: Option<Timestamp>) -> Outcome {
        let look = if self.node.server.is_pushing() {
            SAFETY
        } else {
            POLL
        };
        Outcome::After(at.map_or(look, |at| until(now, at).min(look)))
    }

    /// Asks the server, unless an event has said all there is to know.
    async fn ask(&mut self, now: Timestamp) {
        let deadline = self.deadline();
        let overdue = deadline.is_some_and(|deadline| now >= deadline);
        let pushed = self
            .node
            .table
            .update(&self.uid, |entry| entry.pushed.take());
        let said = if pushed.flatten().is_some() && !overdue {
            Said::Live
        } else {
            // A hanging server must not hold up a deadline.
            let limit = match deadline {
                _ if overdue => LAST_LOOK,
                Some(deadline) => until(now, deadline).max(Duration::from_millis(1)),
                None => STATUS_LIMIT,
            };
            match self.node.server.status_within(&self.uid, limit).await {
                Ok(report) => Said::Report(report),
                Err(error) if error.is_not_found() => Said::NotFound,
                Err(error) => {
                    tracing::debug!(uid = self.uid, %error, "runtime server does not answer");
                    Said::Silent
                }
            }
        };
        if let Said::Report(_) | Said::NotFound = said {
            self.node.pulse.heard();
        }
        if let Said::Report(_) | Said::Live = said {
            self.node.table.update(&self.uid, |entry| {
                entry.local.seen.get_or_insert(now);
            });
        }
        if let Said::Report(report) = &said {
            self.node.take_report(&self.run, &self.uid, report);
        }
        self.answer = Some(said);
    }

    pub(crate) fn deadline(&self) -> Option<Timestamp> {
        let exact = self
            .node
            .table
            .update(&self.uid, |entry| entry.local.claimed_at);
        life::deadline(&self.run.spec, &self.status(), exact.flatten())
    }

    /// Takes up work that is `Running` by its status but unknown here: a claim whose answer was lost.
    async fn adopt(&mut self) -> Next {
        let entry = recovery::entry(&self.run);
        match self.node.server.status(&self.uid).await {
            Ok(_) => self.node.table.adopt(&self.uid, entry),
            // Nothing runs yet, so it has to fit like any other.
            Err(error) if error.is_not_found() => {
                let capacity = self.node.capacity();
                let taken = self.node.table.reserve(&self.uid, entry, &capacity);
                if taken == Err(Refused::NoRoom) {
                    return Next::Stop(Outcome::After(CLAIM_AGAIN));
                }
            }
            Err(_) => return Next::Stop(Outcome::After(POLL)),
        }
        recovery::resume(self.node, &self.uid);
        Next::Again
    }

    /// Reserves, then writes; a failed write gives the place back (N-25 to N-34).
    async fn claim(&mut self, change: Change) -> Next {
        if self.node.draining.is_cancelled() {
            return Next::Stop(Outcome::Done);
        }
        if !self.node.server.is_healthy().await {
            return Next::Stop(Outcome::After(CLAIM_AGAIN));
        }
        let mut entry = match node::entry(&self.run) {
            Ok(entry) => entry,
            Err(error) => {
                tracing::warn!(run = %self.run.name_any(), %error, "run is not claimed");
                return Next::Stop(Outcome::Done);
            }
        };
        entry.local.claimed_at = change.status.start_time.map(Into::into);
        let capacity = self.node.capacity();
        if self
            .node
            .table
            .reserve(&self.uid, entry, &capacity)
            .is_err()
        {
            return Next::Stop(Outcome::After(CLAIM_AGAIN));
        }
        let next = self.write(change).await;
        if let Next::Stop(_) = next {
            // Others that wait for this place look again soon; waking them here could run in a circle.
            self.node.table.remove(&self.uid);
        }
        next
    }

    fn start(&self, fresh: bool) {
        let epoch = self.node.table.update(&self.uid, |entry| {
            entry.local.starting = true;
            entry.epoch
        });
        if let Some(epoch) = epoch {
            let start = Start {
                run: Arc::clone(&self.run),
                uid: self.uid.clone(),
                epoch,
                fresh,
            };
            start::spawn(self.node, start);
        }
    }

    /// Writes a status and does what belongs to it. Nothing else happens when the write fails (N-97).
    pub(crate) async fn write(&mut self, change: Change) -> Next {
        let version = self.run.metadata.resource_version.as_deref();
        let patch = match status_patch(version, &self.status(), &change.status) {
            Ok(Some(patch)) => patch,
            Ok(None) => return Next::Stop(Outcome::Done),
            Err(error) => {
                tracing::error!(%error, "status has no JSON form");
                return Next::Stop(Outcome::Retry);
            }
        };
        let name = self.run.name_any();
        let params = PatchParams::default();
        match self
            .node
            .api
            .patch_status(&name, &params, &Patch::Merge(patch))
            .await
        {
            Ok(run) => {
                self.node.runs.written(run.clone());
                self.run = Arc::new(run);
                self.after(&change.kind)
            }
            Err(kube::Error::Api(status)) if status.is_not_found() => {
                let key = ObjectKey::of(self.run.as_ref());
                let uid = self.run.metadata.uid.as_deref();
                self.node.runs.vanished(&key, uid);
                self.node.queue.add(key);
                Next::Stop(Outcome::Done)
            }
            // N-13: the newer version is on its way.
            Err(kube::Error::Api(status)) if status.is_conflict() => Next::Stop(Outcome::Retry),
            Err(error) => {
                tracing::warn!(run = name, %error, "status cannot be written");
                Next::Stop(Outcome::Retry)
            }
        }
    }

    /// Does what follows a status write that succeeded.
    fn after(&mut self, kind: &ChangeKind) -> Next {
        let claimed = (self.node.table)
            .update(&self.uid, |entry| entry.local.claimed_at)
            .flatten();
        let now = self.node.clock.now();
        self.node.metrics.wrote(kind, &self.status(), claimed, now);
        if let Some(note) = Note::of(&self.run, kind) {
            self.node.note(&self.run, &note);
        }
        match kind {
            ChangeKind::Claimed => {
                self.start(true);
                Next::Again
            }
            ChangeKind::Observed => Next::Again,
            ChangeKind::RetryScheduled(_) => {
                self.failed_at = Some(self.node.clock.now());
                Next::Again
            }
            // The next reconcile finds nothing at the server and starts (N-108).
            ChangeKind::RetryBegun => Next::Stop(Outcome::After(Duration::ZERO)),
            ChangeKind::Ended(_) => {
                self.node.flush_logs(&self.run, &self.uid);
                let stop = self.answer.as_ref().is_none_or(
                    |said| !matches!(said, Said::Report(report) if report.state.is_final()),
                );
                release::spawn(self.node, &self.uid, Some(Arc::clone(&self.run)), stop);
                Next::Stop(Outcome::Done)
            }
        }
    }

    /// Makes the entry ready for the next attempt and has the last one forgotten (N-105, N-106).
    fn next_attempt(&mut self) {
        self.node.flush_logs(&self.run, &self.uid);
        let attempt = retry::current_attempt(self.status().attempt);
        let failed_at = self.failed_at.take();
        self.answer = None;
        self.node.table.update(&self.uid, |entry| {
            entry.epoch += 1;
            entry.pushed = None;
            entry.report = None;
            entry.upload = Upload::default();
            (entry.stdout, entry.stderr) = Default::default();
            entry.local = Local {
                attempt,
                starting: entry.local.starting,
                claimed_at: entry.local.claimed_at,
                failed_at,
                unforgotten: true,
                ..Local::default()
            };
        });
        release::spawn_forget(self.node, &self.uid);
    }
}
