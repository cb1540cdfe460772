//! One dequeue: gates, one cycle, at most one write.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kruntimes_core::api::RunStatus;
use kruntimes_core::crd::Run as ApiRun;
use kruntimes_core::life::Failure;
use kruntimes_core::message::quoted;
use kruntimes_core::resources::Amounts;
use kruntimes_core::retry::reason;
use kruntimes_sched::{
    Action, CycleError, Decision, Gate, Held, Placement, Pod, Profile, Rejections, ReserveError,
    Run, post_bind, reserve, unreserve,
};
use tokio::time::Instant;

use super::line::Ticket;
use super::permission::{Standing, left, permitted};
use super::recorder::{Outcome as Synced, Stage};
use super::shell::{Shell, State};
use super::writer::{WriteError, Written};
use super::{REEXAMINE_AFTER, seen, status};
use crate::cache::ObjectKey;
use crate::queue::Outcome;

/// Why a turn did not finish. All are repeated with the key's growing wait.
#[derive(Debug, thiserror::Error)]
pub(super) enum TurnError {
    #[error("the run was not read")]
    Read(#[source] kube::Error),
    #[error(transparent)]
    Write(#[from] WriteError),
    #[error("the cycle failed")]
    Cycle(#[source] CycleError),
    #[error("an intent was not performed")]
    Intent(#[source] super::IntentError),
}

/// What one cycle leads to.
pub(super) enum Plan {
    Bind(Placement),
    /// The Run keeps its place and waits for a permission.
    Linger {
        until: Timestamp,
    },
    /// The Run may not be bound.
    Denied,
    /// A plugin holds the Run back from the queue.
    Hold {
        reason: &'static str,
    },
    Wait {
        message: String,
        condition: &'static str,
    },
    Fail {
        reason: &'static str,
        message: String,
    },
    Refused,
    Retry(CycleError),
}

/// A reserved place that is given up unless it is kept: on error, on panic and on shutdown (S-88).
struct Reservation<'a> {
    shell: &'a Shell,
    run: Arc<Run>,
    kept: bool,
}

impl Reservation<'_> {
    fn keep(mut self) {
        self.kept = true;
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        if !self.kept {
            let mut state = self.shell.state();
            let book = state.index.book_mut();
            unreserve(&self.shell.profile, book, &self.run);
        }
    }
}

impl Shell {
    pub(super) async fn reconcile(&self, key: ObjectKey) -> Outcome {
        match self.turn(&key).await {
            Ok(outcome) => outcome,
            Err(error) => {
                let cause = std::error::Error::source(&error);
                tracing::warn!(%key, %error, cause, "run is tried again");
                Outcome::Retry
            }
        }
    }

    async fn turn(&self, key: &ObjectKey) -> Result<Outcome, TurnError> {
        if self.state().unsettled.contains_key(key) {
            return self.settle(key).await;
        }
        let ticket = self.state().line.leave(&key.into());
        let Some(object) = self.observed(key) else {
            self.abandon(key);
            self.pass_on(ticket);
            return Ok(Outcome::Done);
        };
        let now = self.clock.now();
        let gate = seen::gate_of(&self.config.names, &object, now);
        if let Gate::Cycle(request) = gate {
            match self.standing(key, &object, now) {
                Standing::Free => {}
                Standing::Allowed(placement) => {
                    let turn = self.bind(&object, placement, now);
                    return self.timed(&object.spec.runtime, turn).await;
                }
                Standing::Settled(outcome) => {
                    let turn = std::future::ready(Ok(outcome));
                    return self.timed(&object.spec.runtime, turn).await;
                }
            }
            let turn = self.cycle(&object, request, ticket, now);
            return self.timed(&object.spec.runtime, turn).await;
        }
        self.abandon(key);
        self.pass_on(ticket);
        self.stopped_by(&object, gate, now).await
    }

    /// Does what a gate before the cycle asks for.
    async fn stopped_by(
        &self,
        object: &ApiRun,
        gate: Gate,
        now: Timestamp,
    ) -> Result<Outcome, TurnError> {
        match gate {
            Gate::Ignore | Gate::Cycle(_) => Ok(Outcome::Done),
            Gate::Cancel => self.end(object, Failure::cancelled(), now).await,
            Gate::Invalid(invalid) => {
                let message = invalid.to_string();
                let failure = Failure::new(reason::INVALID_RESOURCES, &message);
                self.end(object, failure, now).await
            }
            Gate::Backoff(left) => {
                let told = status::backing_off(&self.config.names, &current(object), now);
                let turn = self.tell(object, told, Outcome::After(left.to_std()));
                self.timed(&object.spec.runtime, turn).await
            }
        }
    }

    /// Measures a dequeue that passed the gates, whatever its end (S-121).
    async fn timed<T>(&self, runtime: &str, turn: impl Future<Output = T>) -> T {
        let start = Instant::now();
        let end = turn.await;
        self.recorder.sync_duration(runtime, start.elapsed());
        end
    }

    async fn cycle(
        &self,
        object: &ApiRun,
        request: Amounts,
        ticket: Option<Ticket>,
        now: Timestamp,
    ) -> Result<Outcome, TurnError> {
        let runtime = &object.spec.runtime;
        let plan = self.plan(object, request, ticket.as_ref(), now);
        self.pass_on(ticket);
        match plan {
            Plan::Bind(placement) => self.bind(object, placement, now).await,
            Plan::Wait { message, condition } => {
                self.recorder.synced(runtime, Synced::NoPods);
                let told = status::waiting(
                    &self.config.names,
                    &current(object),
                    &message,
                    condition,
                    now,
                );
                self.tell(object, told, Outcome::After(REEXAMINE_AFTER))
                    .await
            }
            Plan::Linger { until } => Ok(Outcome::After(left(until, now))),
            Plan::Denied => Ok(Outcome::Retry),
            Plan::Hold { reason } => {
                let runtime = quoted(runtime);
                let message = format!("waiting for available runtime pods for runtime {runtime}");
                let told =
                    status::waiting(&self.config.names, &current(object), &message, reason, now);
                self.tell(object, told, Outcome::Done).await
            }
            Plan::Fail { reason, message } => {
                let ended = self
                    .end(object, Failure::new(reason, &message), now)
                    .await?;
                // One that was changed meanwhile is judged anew.
                if ended == Outcome::Done {
                    self.recorder.synced(runtime, Synced::SelectionError);
                }
                Ok(ended)
            }
            Plan::Refused => {
                self.recorder.reservation_conflict(Stage::Reserve);
                Ok(Outcome::Retry)
            }
            Plan::Retry(error) => Err(TurnError::Cycle(error)),
        }
    }

    /// Takes a snapshot, decides, and reserves what was chosen, all at one instant.
    fn plan(
        &self,
        object: &ApiRun,
        request: Amounts,
        ticket: Option<&Ticket>,
        now: Timestamp,
    ) -> Plan {
        let mut run = seen::run(object, request);
        self.config.names.adopt(&mut run);
        let namespace = object.metadata.namespace.as_deref().unwrap_or_default();
        let pool = ObjectKey::new(namespace, &object.spec.runtime);
        // Whatever changes after this is shown to the line, which the Run enters before it is let go.
        let mut state = self.state();
        state.vocabulary.share(&mut run);
        let run = Arc::new(run);
        match self.profile.held(&run, now) {
            Ok(None) => {}
            Ok(Some(Held { plugin, reason })) => {
                state.line.wait(&run, vec![plugin], false, ticket);
                return Plan::Hold { reason };
            }
            Err(error) => return Plan::Retry(error),
        }
        let workspace = object.spec.workspace.as_ref().and_then(|workspace| {
            let key = ObjectKey::new(namespace, &workspace.name);
            let found = self.workspaces.get(&key)?;
            Some(Arc::new(seen::workspace(&found)))
        });
        let has_runtime = self.runtimes.get(&pool).is_some();
        let decision = state.decide(&self.profile, &run, workspace, has_runtime, now);
        self.count(&decision);
        let pod = match decision.action {
            Action::Bind { pod, .. } => state.pools.pod(&pool, &pod).cloned(),
            Action::Wait {
                message, condition, ..
            } => {
                let by = turned_away_by(&decision.rejections);
                let alike = self.treats_alike();
                state.line.wait(&run, by, alike, ticket);
                return Plan::Wait { message, condition };
            }
            Action::Fail { reason, message } => return Plan::Fail { reason, message },
            Action::Retry { error } => return Plan::Retry(error),
        };
        let plan = take(&self.profile, &mut state, Arc::clone(&run), pod, now);
        self.release_allowed(&mut state);
        if matches!(plan, Plan::Refused | Plan::Denied) {
            state.line.wait(&run, Vec::new(), false, ticket);
        }
        plan
    }

    fn count(&self, decision: &Decision) {
        for seen in decision.rejections.iter().filter(|seen| seen.pods > 0) {
            self.recorder
                .filter_rejections(seen.plugin, seen.reason, seen.pods);
        }
    }

    /// Writes the placement down; the reservation stays until the Run is seen there (S-84).
    pub(super) async fn bind(
        &self,
        object: &ApiRun,
        placement: Placement,
        now: Timestamp,
    ) -> Result<Outcome, TurnError> {
        let reservation = Reservation {
            shell: self,
            run: Arc::clone(&placement.run),
            kept: false,
        };
        let names = &self.config.names;
        let next = status::bound(names, &current(object), &placement.pod, now);
        let written = match self.prepare(&placement).await {
            // The Pod may have gone while others prepared it (S-87).
            Ok(_) if !self.is_there(&placement) => {
                drop(reservation);
                return Ok(Outcome::Retry);
            }
            Ok(true) => self.write(object, &next).await,
            Ok(false) => Ok(Written::Unchanged),
            Err(error) => Err(error),
        };
        match written {
            Ok(Written::Done(_) | Written::Unchanged) => {
                reservation.keep();
                self.placed(object);
                post_bind(&self.profile, &placement);
                Ok(Outcome::Done)
            }
            Ok(Written::Conflict) => {
                self.recorder.reservation_conflict(Stage::Bind);
                drop(reservation);
                self.freed(&placement);
                Ok(Outcome::Retry)
            }
            Ok(Written::Gone) => {
                drop(reservation);
                self.freed(&placement);
                Ok(Outcome::Done)
            }
            Err(TurnError::Write(WriteError::Api(error))) if is_unknown(&error) => {
                let key = ObjectKey::of(object);
                tracing::warn!(%key, %error, "outcome of a bind is unknown, the run is read");
                reservation.keep();
                self.state().unsettled.insert(key.clone(), placement);
                self.settle(&key).await
            }
            Err(error) => {
                drop(reservation);
                self.freed(&placement);
                Err(error)
            }
        }
    }

    /// Reads a Run whose last bind has an unknown outcome, and hands its place over or back (S-86).
    ///
    /// On error the place stays reserved and the Run unsettled: planning it
    /// again from an old version could give up a place that it really holds.
    async fn settle(&self, key: &ObjectKey) -> Result<Outcome, TurnError> {
        let found = self.writer.read(key).await.map_err(TurnError::Read)?;
        let Some(placement) = self.state().unsettled.remove(key) else {
            return Ok(Outcome::Done);
        };
        let Placement { run, pod } = &placement;
        let is_there = found.as_ref().is_some_and(|found| {
            let assigned = found
                .status
                .as_ref()
                .and_then(|s| s.assigned_pod_uid.as_deref());
            found.metadata.uid.as_deref() == Some(run.uid.as_str())
                && assigned == Some(pod.uid.as_str())
        });
        if !is_there {
            unreserve(&self.profile, self.state().index.book_mut(), run);
            self.freed(&placement);
        }
        match found {
            Some(found) => {
                if is_there {
                    self.placed(&found);
                    post_bind(&self.profile, &placement);
                }
                self.written(found);
            }
            None => self.vanished(key, Some(run.uid.as_str())),
        }
        Ok(if is_there {
            Outcome::Done
        } else {
            Outcome::Retry
        })
    }

    fn placed(&self, object: &ApiRun) {
        let runtime = &object.spec.runtime;
        self.recorder.synced(runtime, Synced::Scheduled);
        let arrival = self.state().arrivals.remove(&ObjectKey::of(object));
        let created = object.metadata.creation_timestamp.as_ref();
        let Some(created) = created.map(|created| created.0) else {
            return;
        };
        let by_stamp = Duration::try_from(self.clock.now().duration_since(created));
        if let Ok(by_stamp) = by_stamp {
            let arrival = arrival.map(|arrival| arrival.elapsed());
            let waited = queued_for(by_stamp, arrival);
            self.recorder.queue_duration(runtime, waited);
        }
    }

    /// Ends a Run that was never placed.
    async fn end(
        &self,
        object: &ApiRun,
        failure: Failure,
        now: Timestamp,
    ) -> Result<Outcome, TurnError> {
        if let Some(uid) = &object.metadata.uid {
            let namespace = seen::namespace(object);
            let uid = uid.as_str().into();
            self.state().index.book_mut().release(&namespace, &uid);
        }
        let next = status::ended(&self.config.names, &current(object), failure, now);
        Ok(match self.write(object, &next).await? {
            Written::Done(_) | Written::Unchanged | Written::Gone => Outcome::Done,
            Written::Conflict => Outcome::Retry,
        })
    }

    /// Writes a waiting status if there is anything new to tell, and then goes on as said.
    async fn tell(
        &self,
        object: &ApiRun,
        told: Option<RunStatus>,
        then: Outcome,
    ) -> Result<Outcome, TurnError> {
        let Some(next) = told else {
            return Ok(then);
        };
        Ok(match self.write(object, &next).await? {
            Written::Done(_) | Written::Unchanged => then,
            Written::Conflict => Outcome::Retry,
            Written::Gone => Outcome::Done,
        })
    }

    /// Patches the status against the version that was read (S-83) and takes the answer in.
    async fn write(&self, object: &ApiRun, next: &RunStatus) -> Result<Written, TurnError> {
        let written = self.writer.write(object, next).await?;
        match &written {
            Written::Done(object) => self.written((**object).clone()),
            Written::Gone => {
                let uid = object.metadata.uid.as_deref();
                self.vanished(&ObjectKey::of(object), uid);
            }
            Written::Unchanged | Written::Conflict => {}
        }
        Ok(written)
    }
}

fn current(object: &ApiRun) -> RunStatus {
    object.status.clone().unwrap_or_default()
}

/// Returns who turned a Run away, each once.
fn turned_away_by(rejections: &[Rejections]) -> Vec<&'static str> {
    let mut by: Vec<_> = rejections.iter().map(|seen| seen.plugin).collect();
    by.sort_unstable();
    by.dedup();
    by
}

/// Reserves what was chosen; a Pod that is not there any more is as good as refused (S-87).
fn take(
    profile: &Profile,
    state: &mut State,
    run: Arc<Run>,
    pod: Option<Arc<Pod>>,
    now: Timestamp,
) -> Plan {
    let Some(pod) = pod else {
        return Plan::Refused;
    };
    match reserve(profile, state.index.book_mut(), &run, &pod, now) {
        Ok(()) => permitted(profile, state, Placement { run, pod }, now),
        Err(ReserveError::Broken(error)) => Plan::Retry(error),
        Err(refused) => {
            tracing::debug!(run = %run.name, %refused, "place is not reserved");
            Plan::Refused
        }
    }
}

/// Returns how long a Run waited: since it arrived, if that agrees with its time of creation.
///
/// Creation is known to the second only, and cut off: what the watch saw is
/// finer, but may be late (C-127).
fn queued_for(by_stamp: Duration, since_arrival: Option<Duration>) -> Duration {
    let least = by_stamp.saturating_sub(Duration::from_secs(1));
    since_arrival.map_or(by_stamp, |seen| seen.clamp(least, by_stamp))
}

/// Tells whether a write may have taken place although it was not answered.
fn is_unknown(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(answer) => answer.code >= 500,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s_121_c_127_a_wait_is_measured_finer_than_the_stamp_and_never_against_it() {
        let millis = Duration::from_millis;
        for (by_stamp, seen, want) in [
            (900, Some(12), 12),
            (5_400, None, 5_400),
            // The watch told late.
            (9_000, Some(100), 8_000),
            // The API's clock is ahead of ours.
            (200, Some(700), 200),
        ] {
            let waited = queued_for(millis(by_stamp), seen.map(millis));
            assert_eq!(waited, millis(want), "{by_stamp} {seen:?}");
        }
    }
}
