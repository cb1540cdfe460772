//! Runs that hold a place and wait for the permission to be bound (S-161).

use std::time::Duration;

use jiff::Timestamp;
use kruntimes_core::crd::Run as ApiRun;
use kruntimes_sched::{Permitted, Placement, Profile, permit, unreserve};

use super::shell::{Shell, State};
use super::turn::Plan;
use crate::cache::ObjectKey;
use crate::queue::Outcome;

/// What becomes of a Run that may hold a place already.
pub(super) enum Standing {
    /// It holds none: it gets a cycle.
    Free,
    /// Everybody has allowed it: it is bound.
    Allowed(Placement),
    /// It goes on waiting, or its time is up.
    Settled(Outcome),
}

/// Asks for permission to bind a reserved Run.
pub(super) fn permitted(
    profile: &Profile,
    state: &mut State,
    placement: Placement,
    now: Timestamp,
) -> Plan {
    let view = state.index.book().view(placement.run.namespace.as_str());
    let answer = permit(profile, &mut state.room, &view, &placement, now);
    // With the view gone the book changes in place.
    drop(view);
    match answer {
        Ok(Permitted::Now) => return Plan::Bind(placement),
        Ok(Permitted::Waits { until }) => return Plan::Linger { until },
        Ok(Permitted::Denied { plugin, reason }) => {
            tracing::debug!(run = %placement.run.name, plugin, reason, "run is not permitted");
        }
        Err(error) => {
            unreserve(profile, state.index.book_mut(), &placement.run);
            return Plan::Retry(error);
        }
    }
    unreserve(profile, state.index.book_mut(), &placement.run);
    Plan::Denied
}

/// Returns how long it is until then.
pub(super) fn left(until: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(until.duration_since(now)).unwrap_or_default()
}

impl Shell {
    /// Tells whether the Pod of a placement is still the one that was chosen, and usable (S-87).
    pub(super) fn is_there(&self, placement: &Placement) -> bool {
        is_there(&self.state(), placement)
    }

    /// Hands over everybody who has been allowed meanwhile.
    pub(super) fn release_allowed(&self, state: &mut State) {
        for placement in state.room.take_allowed() {
            let key = key_of(&placement);
            state.allowed.insert(key.clone(), placement);
            self.queue.add(key);
        }
    }

    /// Gives up the place that a Run holds and will not take.
    pub(super) fn abandon(&self, key: &ObjectKey) {
        let mut state = self.state();
        let given_up = state.allowed.remove(key).or_else(|| {
            let waiting = find(&state, key)?;
            let run = &waiting.run;
            state.room.deny(&run.namespace, &run.uid)
        });
        if let Some(placement) = &given_up {
            unreserve(&self.profile, state.index.book_mut(), &placement.run);
        }
        drop(state);
        if let Some(placement) = &given_up {
            self.freed(placement);
        }
    }

    /// Tells how a Run that passed the gates stands with those who permit.
    pub(super) fn standing(&self, key: &ObjectKey, object: &ApiRun, now: Timestamp) -> Standing {
        let uid = object.metadata.uid.as_deref().unwrap_or_default();
        let mut state = self.state();
        if let Some(placement) = state.allowed.get(key).cloned() {
            if is_there(&state, &placement) && placement.run.uid.as_str() == uid {
                state.allowed.remove(key);
                return Standing::Allowed(placement);
            }
            drop(state);
            self.abandon(key);
            return Standing::Free;
        }
        let Some(waiting) = find(&state, key) else {
            return Standing::Free;
        };
        if waiting.run.uid.as_str() != uid {
            drop(state);
            self.abandon(key);
            return Standing::Free;
        }
        let expired = state.room.take_expired(&self.profile, now);
        for placement in &expired {
            unreserve(&self.profile, state.index.book_mut(), &placement.run);
        }
        let until = find(&state, key).and(state.room.next_deadline());
        drop(state);
        for placement in &expired {
            let other = key_of(placement);
            if other != *key {
                self.queue.add_backoff(other);
            }
        }
        for placement in &expired {
            self.freed(placement);
        }
        Standing::Settled(until.map_or(Outcome::Retry, |until| Outcome::After(left(until, now))))
    }
}

/// Tells whether the Pod of a placement is still the one that was chosen, and usable.
fn is_there(state: &State, placement: &Placement) -> bool {
    let run = &placement.run;
    let pool = ObjectKey::new(run.namespace.as_str(), run.runtime.as_str());
    let pod = state.pools.pod(&pool, &placement.pod.name);
    pod.is_some_and(|pod| pod.uid == placement.pod.uid && pod.ready)
}

/// Places that nobody will take are given back also when everything ends (S-88).
impl Drop for Shell {
    fn drop(&mut self) {
        let profile = self.profile.clone();
        let mut state = self.state();
        let waiting: Vec<_> = (state.room.waiting())
            .map(|waiter| waiter.placement.clone())
            .chain(state.allowed.values().cloned())
            .collect();
        for placement in waiting {
            unreserve(&profile, state.index.book_mut(), &placement.run);
        }
    }
}

fn find(state: &State, key: &ObjectKey) -> Option<Placement> {
    let mut waiting = state.room.waiting();
    let found = waiting.find(|waiter| key_of(&waiter.placement) == *key)?;
    Some(found.placement.clone())
}

fn key_of(placement: &Placement) -> ObjectKey {
    let run = &placement.run;
    ObjectKey::new(run.namespace.as_str(), run.name.as_str())
}
