//! The Pods that will do for Runs with the same request.

use std::sync::Arc;

use kruntimes_core::resources::{self, Amounts};

use crate::load::Load;
use crate::occupancy::Occupancy;
use crate::register;
use crate::run::Run;

use super::order::Order;
use super::pool::Slot;
use super::room::{Offer, Wanted};
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
    pub(super) order: Order,
    /// Slots that are to be filed anew before the order is used, each once.
    late: Vec<usize>,
    is_late: Vec<bool>,
    /// Number of the decision that used the class last.
    pub(super) used: u64,
}

impl Class {
    /// Makes the class of a Run, `number` being that of its request.
    pub(super) fn of(run: &Run, number: u64) -> Self {
        Self {
            request: Arc::clone(&run.request),
            number,
            exclusive: run.exclusive,
            wanted: Wanted::of(&run.request),
            order: Order::default(),
            late: Vec::new(),
            is_late: Vec::new(),
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

    /// Notes that something about a Pod has changed; a class that nobody uses does no more than that.
    pub(super) fn note(&mut self, slot: usize) {
        if self.is_late.len() <= slot {
            self.is_late.resize(slot + 1, false);
        }
        if !self.is_late[slot] {
            self.is_late[slot] = true;
            self.late.push(slot);
        }
    }

    /// Returns a slot that is to be filed anew, or taken out.
    pub(super) fn next_late(&mut self) -> Option<usize> {
        let slot = self.late.pop()?;
        self.is_late[slot] = false;
        Some(slot)
    }

    /// Files a Pod that is alive, or takes it out; `held` says what it holds in full.
    pub(super) fn file(
        &mut self,
        number: usize,
        slot: &Slot,
        held: impl FnOnce() -> Arc<Occupancy>,
    ) {
        match self.offer(slot, held) {
            Some(weight) => self.order.insert(number, slot.name, weight),
            None => self.order.remove(number),
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
