//! What a Pod holds.

use std::borrow::Cow;
use std::sync::Arc;

use kruntimes_core::quantity::Quantity;
use kruntimes_core::resources::{self, Amounts};
use serde::{Deserialize, Serialize};

use crate::identity::{PodName, PodUid, RunUid};
use crate::register;
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
    /// Where. All holds of one Pod have the same.
    #[serde(flatten, with = "shared")]
    pub(crate) location: Arc<Location>,
    /// How it is known.
    pub origin: Origin,
}

/// A Pod as those that hold its capacity know it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Location {
    pub(crate) pod: PodName,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) pod_uid: Option<PodUid>,
}

/// A hold in the making.
#[derive(Debug)]
pub(crate) struct Claim<'a> {
    pub(crate) run: Arc<Run>,
    pub(crate) pod: &'a PodName,
    pub(crate) pod_uid: Option<&'a PodUid>,
    pub(crate) origin: Origin,
}

impl Claim<'_> {
    /// Makes the hold, at a location that is known or a new one.
    pub(crate) fn hold(self, known: Option<&Arc<Location>>) -> Arc<Hold> {
        let location = known.cloned().unwrap_or_else(|| {
            Arc::new(Location {
                pod: self.pod.clone(),
                pod_uid: self.pod_uid.cloned(),
            })
        });
        Arc::new(Hold {
            run: self.run,
            location,
            origin: self.origin,
        })
    }
}

impl Hold {
    /// Returns the same as a claim.
    pub(crate) fn claim(&self) -> Claim<'_> {
        Claim {
            run: Arc::clone(&self.run),
            pod: self.pod(),
            pod_uid: self.pod_uid(),
            origin: self.origin,
        }
    }

    /// Returns the name of the Pod.
    pub fn pod(&self) -> &PodName {
        &self.location.pod
    }

    /// Returns the UID of the Pod, where the Run records it; otherwise the name decides (S-13).
    pub fn pod_uid(&self) -> Option<&PodUid> {
        self.location.pod_uid.as_ref()
    }
}

/// Everything that holds capacity of one Pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Occupancy {
    usage: Amounts,
    /// By the numbers that stand for the Run UIDs, which are kept apart to be searched quickly.
    holds: Vec<Arc<Hold>>,
    numbers: Vec<u32>,
    exclusive: usize,
}

impl Occupancy {
    /// Returns the holds by Run UID.
    pub fn holds(&self) -> impl Iterator<Item = &Hold> {
        let mut holds: Vec<&Hold> = self.holds_in_any_order().collect();
        holds.sort_unstable_by(|a, b| a.run.uid.cmp(&b.run.uid));
        holds.into_iter()
    }

    /// Returns the same more quickly.
    pub(crate) fn holds_in_any_order(&self) -> impl Iterator<Item = &Hold> {
        self.holds.iter().map(AsRef::as_ref)
    }

    /// Returns how many Runs there are, and how many of them are exclusive.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.holds.len(), self.exclusive)
    }

    /// Tells whether a Run is among the holds.
    pub fn has(&self, run: &RunUid) -> bool {
        self.find(run).is_ok()
    }

    /// Returns the place of a Run among the holds, or the place where it would be.
    fn find(&self, run: &RunUid) -> Result<usize, usize> {
        self.find_at(short(register::number(run.as_str())), run)
    }

    fn find_at(&self, number: u32, run: &RunUid) -> Result<usize, usize> {
        let first = self.numbers.partition_point(|other| *other < number);
        let alike = self.numbers[first..].iter();
        let alike = alike.take_while(|other| **other == number).count();
        let mut same = first..first + alike;
        let found = same.find(|at| self.holds[*at].run.uid == *run);
        found.ok_or(first)
    }

    fn own(&self, run: &RunUid) -> Option<&Hold> {
        let at = self.find(run).ok()?;
        self.holds.get(at).map(AsRef::as_ref)
    }

    /// Returns the sum of all requests.
    pub fn usage(&self) -> &Amounts {
        &self.usage
    }

    /// Returns the sum of the requests of all Runs but `run` (S-35).
    pub fn usage_without(&self, run: &RunUid) -> Cow<'_, Amounts> {
        let Some(own) = self.own(run) else {
            return Cow::Borrowed(&self.usage);
        };
        let mut rest = self.usage.clone();
        subtract(&mut rest, &own.run.request);
        Cow::Owned(rest)
    }

    /// Returns the holds of all Runs but `run`, in no particular order.
    pub fn others<'a>(&'a self, run: &'a RunUid) -> impl Iterator<Item = &'a Hold> {
        self.holds_in_any_order()
            .filter(move |hold| hold.run.uid != *run)
    }

    /// Tells whether exclusivity keeps `run` away: its own, or that of a neighbour (S-54).
    pub fn excludes(&self, run: &Run) -> bool {
        if self.exclusive == 0 && !run.exclusive {
            return false;
        }
        let own = self.own(&run.uid);
        let others = self.holds.len() - usize::from(own.is_some());
        let exclusive = self.exclusive - usize::from(own.is_some_and(|own| own.run.exclusive));
        (run.exclusive && others > 0) || exclusive > 0
    }

    /// Tells whether `run` fits beside everything else, resources and exclusivity (S-11, S-54).
    pub fn admits(&self, run: &Run, capacity: &Amounts) -> bool {
        !self.excludes(run)
            && resources::fits(&run.request, &self.usage_without(&run.uid), capacity)
    }

    /// Returns the union of two parts that hold different Runs.
    pub(crate) fn merged(&self, other: &Self) -> Self {
        let mut whole = self.clone();
        for hold in &other.holds {
            whole.insert(Arc::clone(hold));
        }
        whole
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.holds.is_empty()
    }

    pub(crate) fn insert(&mut self, hold: Arc<Hold>) {
        let number = register::number(hold.run.uid.as_str());
        self.insert_at(number, hold);
    }

    /// As [`Occupancy::insert`], where the number that stands for the Run UID is known.
    pub(crate) fn insert_at(&mut self, number: u64, hold: Arc<Hold>) {
        add(&mut self.usage, &hold.run.request);
        self.exclusive += usize::from(hold.run.exclusive);
        match self.find_at(short(number), &hold.run.uid) {
            Err(at) => {
                make_room(&mut self.numbers);
                make_room(&mut self.holds);
                self.numbers.insert(at, short(number));
                self.holds.insert(at, hold);
            }
            Ok(at) => {
                let before = std::mem::replace(&mut self.holds[at], hold);
                subtract(&mut self.usage, &before.run.request);
                self.exclusive -= usize::from(before.run.exclusive);
            }
        }
    }

    /// Removes a Run; the number stands for its UID.
    pub(crate) fn remove_at(&mut self, number: u64, run: &RunUid) {
        if let Ok(at) = self.find_at(short(number), run) {
            let hold = self.holds.remove(at);
            self.numbers.remove(at);
            subtract(&mut self.usage, &hold.run.request);
            self.exclusive -= usize::from(hold.run.exclusive);
        }
    }

    /// Adds all requests up again.
    pub(crate) fn recount(&self) -> Amounts {
        let mut total = Amounts::new();
        for hold in &self.holds {
            add(&mut total, &hold.run.request);
        }
        total
    }
}

/// Makes room for one more, and for few that nobody may ever need.
fn make_room<T>(list: &mut Vec<T>) {
    if list.len() == list.capacity() {
        list.reserve_exact((list.len() / 4).max(4));
    }
}

/// Returns half of a number.
fn short(number: u64) -> u32 {
    let [.., a, b, c, d] = number.to_be_bytes();
    u32::from_be_bytes([a, b, c, d])
}

/// Adds `more` to `total`; what is zero has no entry, whether it was asked for or not.
fn add(total: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        let Some(before) = total.get_mut(name) else {
            if !amount.is_zero() {
                total.insert(name.clone(), *amount);
            }
            continue;
        };
        *before = before.checked_add(*amount).unwrap_or(*before);
        if before.is_zero() {
            total.remove(name);
        }
    }
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
