//! What a Pod holds.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use kruntimes_core::quantity::Quantity;
use kruntimes_core::resources::{self, Amounts};
use serde::{Deserialize, Serialize};

use crate::identity::{PodName, PodUid, RunUid};
use crate::run::Run;
use crate::shared;

/// How a hold is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Origin {
    /// The Run was seen active on the Pod.
    Observed,
    /// This process reserved the place and has not yet seen the Run there.
    Assumed,
}

/// One Run that holds capacity of one Pod.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Hold {
    /// The Run as it was when it was reserved or last observed (S-90).
    #[serde(with = "shared")]
    pub run: Arc<Run>,
    /// The Pod.
    pub pod: PodName,
    /// The Pod's UID, where the Run records it; otherwise the name decides (S-13).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_uid: Option<PodUid>,
    /// How it is known.
    pub origin: Origin,
}

/// Everything that holds capacity of one Pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Occupancy {
    usage: Amounts,
    holds: BTreeMap<RunUid, Arc<Hold>>,
    exclusive: usize,
}

impl Occupancy {
    /// Returns the holds by Run UID.
    pub fn holds(&self) -> impl Iterator<Item = &Hold> {
        self.holds.values().map(AsRef::as_ref)
    }

    /// Tells whether a Run is among the holds.
    pub fn has(&self, run: &RunUid) -> bool {
        self.holds.contains_key(run)
    }

    /// Returns the sum of all requests.
    pub fn usage(&self) -> &Amounts {
        &self.usage
    }

    /// Returns the sum of the requests of all Runs but `run` (S-35).
    pub fn usage_without(&self, run: &RunUid) -> Cow<'_, Amounts> {
        let Some(own) = self.holds.get(run) else {
            return Cow::Borrowed(&self.usage);
        };
        let mut rest = self.usage.clone();
        subtract(&mut rest, &own.run.request);
        Cow::Owned(rest)
    }

    /// Returns the holds of all Runs but `run`.
    pub fn others<'a>(&'a self, run: &'a RunUid) -> impl Iterator<Item = &'a Hold> {
        self.holds().filter(move |hold| hold.run.uid != *run)
    }

    /// Tells whether exclusivity keeps `run` away: its own, or that of a neighbour (S-54).
    pub fn excludes(&self, run: &Run) -> bool {
        let own = self.holds.get(&run.uid);
        let others = self.holds.len() - usize::from(own.is_some());
        let exclusive = self.exclusive - usize::from(own.is_some_and(|own| own.run.exclusive));
        (run.exclusive && others > 0) || exclusive > 0
    }

    /// Tells whether somebody is there whom a new Run, exclusive or not, would disturb.
    pub(crate) fn is_closed_to(&self, exclusive: bool) -> bool {
        (exclusive && !self.holds.is_empty()) || self.exclusive > 0
    }

    /// Tells whether `run` fits beside everything else, resources and exclusivity (S-11, S-54).
    pub fn admits(&self, run: &Run, capacity: &Amounts) -> bool {
        !self.excludes(run)
            && resources::fits(&run.request, &self.usage_without(&run.uid), capacity)
    }

    /// Returns the union of two parts that hold different Runs.
    pub(crate) fn merged(&self, other: &Self) -> Self {
        let mut whole = self.clone();
        for hold in other.holds.values() {
            whole.insert(Arc::clone(hold));
        }
        whole
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.holds.is_empty()
    }

    pub(crate) fn insert(&mut self, hold: Arc<Hold>) {
        add(&mut self.usage, &hold.run.request);
        self.exclusive += usize::from(hold.run.exclusive);
        if let Some(before) = self.holds.insert(hold.run.uid.clone(), hold) {
            subtract(&mut self.usage, &before.run.request);
            self.exclusive -= usize::from(before.run.exclusive);
        }
    }

    pub(crate) fn remove(&mut self, run: &RunUid) {
        if let Some(hold) = self.holds.remove(run) {
            subtract(&mut self.usage, &hold.run.request);
            self.exclusive -= usize::from(hold.run.exclusive);
        }
    }

    /// Adds all requests up again.
    pub(crate) fn recount(&self) -> Amounts {
        let mut total = Amounts::new();
        for hold in self.holds.values() {
            add(&mut total, &hold.run.request);
        }
        total
    }
}

/// Adds `more` to `total`; what is zero has no entry, whether it was asked for or not.
fn add(total: &mut Amounts, more: &Amounts) {
    resources::add(total, more);
    total.retain(|_, amount| !amount.is_zero());
}

/// Takes `less` away from `total`; what reaches zero disappears.
fn subtract(total: &mut Amounts, less: &Amounts) {
    for (name, amount) in less {
        let Some(left) = total.get_mut(name) else {
            continue;
        };
        *left = left.checked_sub(*amount).unwrap_or(Quantity::ZERO);
        if left.is_zero() {
            total.remove(name);
        }
    }
}
