//! Runs that hold a place and wait for the permission to be bound.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use crate::book::View;
use crate::calculate::guarded;
use crate::decision::CycleError;
use crate::identity::{Namespace, RunUid};
use crate::placing::{Permission, Placement, Question};
use crate::profile::Profile;

/// A Run that waits, and for whose permission.
#[derive(Clone, Debug)]
pub struct Waiter {
    /// The place it keeps.
    pub placement: Placement,
    /// When each plugin that has not allowed it yet denies it.
    pub deadlines: BTreeMap<&'static str, Timestamp>,
}

impl Waiter {
    /// Returns when the Run is denied, unless it is allowed before.
    pub fn until(&self) -> Option<Timestamp> {
        self.deadlines.values().min().copied()
    }
}

/// The Runs that wait for a permission; a plain value beside the book.
///
/// Each keeps its assumption (S-161). Whoever takes a Run out decides what
/// becomes of the place: bind it, or unreserve it.
#[derive(Clone, Debug, Default)]
pub struct WaitingRoom {
    waiting: BTreeMap<(Namespace, RunUid), Waiter>,
}

impl WaitingRoom {
    /// Makes an empty room.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns who waits, by namespace and UID.
    pub fn waiting(&self) -> impl Iterator<Item = &Waiter> {
        self.waiting.values()
    }

    /// Allows a Run in the name of a plugin; without one, in the name of all.
    pub fn allow(&mut self, namespace: &Namespace, run: &RunUid, plugin: Option<&str>) {
        let key = (namespace.clone(), run.clone());
        if let Some(waiter) = self.waiting.get_mut(&key) {
            waiter
                .deadlines
                .retain(|name, _| plugin.is_some_and(|plugin| plugin != *name));
        }
    }

    /// Takes a Run out that is not to be bound; the caller unreserves it.
    pub fn deny(&mut self, namespace: &Namespace, run: &RunUid) -> Option<Placement> {
        let denied = self.waiting.remove(&(namespace.clone(), run.clone()));
        denied.map(|waiter| waiter.placement)
    }

    /// Takes out everybody whom all plugins have allowed; the caller binds them.
    pub fn take_allowed(&mut self) -> Vec<Placement> {
        self.take(|waiter| waiter.deadlines.is_empty())
    }

    /// Takes out everybody whose time is up; the caller unreserves them in this order.
    ///
    /// The last in the queue comes first, so that of two groups that are in
    /// each other's way the later one yields (S-161).
    pub fn take_expired(&mut self, profile: &Profile, now: Timestamp) -> Vec<Placement> {
        let expired = self.take(|waiter| waiter.until().is_some_and(|until| until <= now));
        let by_uid: BTreeMap<RunUid, Placement> = expired
            .into_iter()
            .map(|placement| (placement.run.uid.clone(), placement))
            .collect();
        let mut runs: Vec<_> = by_uid.values().map(|p| p.run.clone()).collect();
        profile.sort(&mut runs, now);
        let places = runs.iter().rev().map(|run| by_uid[&run.uid].clone());
        places.collect()
    }

    /// Returns the next instant at which somebody's time is up.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        self.waiting().filter_map(Waiter::until).min()
    }

    fn take(&mut self, which: impl Fn(&Waiter) -> bool) -> Vec<Placement> {
        let taken = self.waiting.extract_if(.., |_, waiter| which(waiter));
        taken.map(|(_, waiter)| waiter.placement).collect()
    }
}

/// How the question for permission ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Permitted {
    /// The Run may be bound now.
    Now,
    /// The Run is in the waiting room and keeps its place, at most until then.
    Waits {
        /// When it is denied unless it is allowed before.
        until: Timestamp,
    },
    /// The Run may not be bound; the caller unreserves it.
    Denied {
        /// The plugin.
        plugin: &'static str,
        /// What it gave as cause.
        reason: &'static str,
    },
}

/// Asks every permit plugin about a reserved Run (S-161).
///
/// `view` must be taken after the reserve, so that the Run is in it. Runs that
/// become allowed on the way are fetched with [`WaitingRoom::take_allowed`].
///
/// # Errors
///
/// Returns the plugin that panicked. The caller unreserves.
pub fn permit(
    profile: &Profile,
    room: &mut WaitingRoom,
    view: &View,
    placement: &Placement,
    now: Timestamp,
) -> Result<Permitted, CycleError> {
    let namespace = &placement.run.namespace;
    let mut deadlines = BTreeMap::new();
    let mut also: BTreeSet<(&'static str, RunUid)> = BTreeSet::new();
    for entry in &profile.permits {
        let question = Question {
            run: &placement.run,
            pod: &placement.pod,
            now,
            view,
            room,
        };
        match guarded(entry.name, || entry.plugin.permit(&question))? {
            Permission::Allow => {}
            Permission::AllowAlso(others) => {
                also.extend(others.into_iter().map(|uid| (entry.name, uid)));
            }
            Permission::Deny(reason) => {
                return Ok(Permitted::Denied {
                    plugin: entry.name,
                    reason,
                });
            }
            Permission::Wait { until } => {
                deadlines.insert(entry.name, until);
            }
        }
    }
    for (plugin, uid) in also {
        room.allow(namespace, &uid, Some(plugin));
    }
    let Some(until) = deadlines.values().min().copied() else {
        return Ok(Permitted::Now);
    };
    let waiter = Waiter {
        placement: placement.clone(),
        deadlines,
    };
    let key = (namespace.clone(), placement.run.uid.clone());
    room.waiting.insert(key, waiter);
    Ok(Permitted::Waits { until })
}
