//! The Pods that will do for Runs with the same request.

use std::sync::Arc;

use kruntimes_core::resources::{self, Amounts};

use crate::load::Load;
use crate::occupancy::Occupancy;
use crate::register;
use crate::run::Run;

use super::lead::{Filed, Lead};
use super::order::Order;
use super::pool::Slot;
use super::room::{Offer, Resources, Wanted};
use super::weight::Weight;

/// Runs that ask for the same and are equally exclusive, and the Pods that are available to them.
#[derive(Debug)]
pub(super) struct Class {
    request: Arc<Amounts>,
    /// Stands for the request.
    number: u64,
    exclusive: bool,
    wanted: Option<Wanted>,
    /// The available Pods by the load they would have.
    lead: Lead,
    /// Slots that are to be filed anew before the class is used.
    late: Late,
    /// The same Pods with their positions, which few Runs ask for.
    order: Order,
    /// Slots whose position may be another.
    moved: Late,
    /// Number of the decision that used the class last.
    pub(super) used: u64,
}

impl Class {
    /// Makes the class of a Run, `number` being that of its request.
    pub(super) fn of(run: &Run, number: u64, resources: &mut Resources) -> Self {
        Self {
            request: Arc::clone(&run.request),
            number,
            exclusive: run.exclusive,
            wanted: Wanted::of(&run.request, resources),
            lead: Lead::default(),
            late: Late::default(),
            order: Order::default(),
            moved: Late::default(),
            used: 0,
        }
    }

    /// Returns the number that stands for the request of a Run.
    pub(super) fn number_of(run: &Run) -> u64 {
        register::number(run.request.as_ref())
    }

    pub(super) fn is_of(&self, run: &Run, number: u64) -> bool {
        self.number == number && self.exclusive == run.exclusive && self.request == run.request
    }

    /// Tells the same of a Run whose request is the very one of the class.
    pub(super) fn shares(&self, run: &Run) -> bool {
        self.exclusive == run.exclusive && Arc::ptr_eq(&self.request, &run.request)
    }

    /// Returns what its Runs ask for, if that is the very request and its numbers are usual.
    pub(super) fn wanted(&self, request: &Arc<Amounts>) -> Option<&Wanted> {
        let same = Arc::ptr_eq(&self.request, request);
        self.wanted.as_ref().filter(|_| same)
    }

    /// Reads the request again after the resources got other numbers.
    pub(super) fn renumber(&mut self, resources: &mut Resources) {
        self.wanted = Wanted::of(&self.request, resources);
    }

    /// Notes that something about a Pod has changed; a class that nobody uses does no more than that.
    pub(super) fn note(&mut self, slot: usize) {
        self.late.note(slot);
    }

    /// Returns a slot that is to be filed anew, or taken out.
    pub(super) fn next_late(&mut self) -> Option<usize> {
        self.late.next()
    }

    /// Files a Pod that is alive, or takes it out; `held` says what it holds in full.
    pub(super) fn file(
        &mut self,
        number: usize,
        slot: &Slot,
        held: impl FnOnce() -> Arc<Occupancy>,
    ) {
        let name = slot.name;
        let moved = match self.offer(slot, held) {
            Some(weight) => self.lead.insert(number, Filed { weight, name }),
            None => self.lead.remove(number),
        };
        if moved {
            self.moved.note(number);
        }
    }

    /// Takes out a slot that is not available.
    pub(super) fn withdraw(&mut self, slot: usize) {
        if self.lead.remove(slot) {
            self.moved.note(slot);
        }
    }

    /// Takes out a slot whose Pod is gone, and with it the name.
    pub(super) fn forget(&mut self, slot: usize) {
        self.lead.remove(slot);
        self.order.remove(slot);
    }

    /// Gives the names other numbers.
    pub(super) fn rename(&mut self, names: &[(usize, u64)]) {
        self.lead.rename(names);
        self.order.rename(names);
    }

    /// Returns the available Pods.
    pub(super) fn lead(&self) -> &Lead {
        &self.lead
    }

    /// Returns their positions as [`Class::sort`] found them.
    pub(super) fn order(&self) -> &Order {
        &self.order
    }

    /// Brings the positions up to date.
    pub(super) fn sort(&mut self) {
        while let Some(slot) = self.moved.next() {
            match self.lead.filed(slot) {
                Some(filed) => self.order.insert(slot, filed.clone()),
                None => self.order.remove(slot),
            }
        }
    }

    fn offer(&self, slot: &Slot, held: impl FnOnce() -> Arc<Occupancy>) -> Option<Weight> {
        if slot.is_closed_to(self.exclusive) {
            return None;
        }
        if let (Some(room), Some(wanted)) = (&slot.room, &self.wanted) {
            match room.offer(wanted) {
                Offer::None => return None,
                Offer::Fits(weight) => return Some(weight),
                Offer::Unknown => {}
            }
        }
        let (held, capacity) = (held(), &slot.pod.capacity);
        let usage = held.usage();
        resources::fits(&self.request, usage, capacity)
            .then(|| Weight::Odd(Box::new(Load::of(&self.request, usage, capacity))))
    }
}

/// Slots that wait for something, each once.
#[derive(Debug, Default)]
struct Late {
    slots: Vec<usize>,
    is_late: Vec<bool>,
}

impl Late {
    fn note(&mut self, slot: usize) {
        if self.is_late.len() <= slot {
            self.is_late.resize(slot + 1, false);
        }
        if !self.is_late[slot] {
            self.is_late[slot] = true;
            self.slots.push(slot);
        }
    }

    fn next(&mut self) -> Option<usize> {
        let slot = self.slots.pop()?;
        self.is_late[slot] = false;
        Some(slot)
    }
}
