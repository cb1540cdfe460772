//! The Pods that will do for Runs with the same request.

use std::sync::Arc;

use kruntimes_core::resources::{self, Amounts};

use crate::load::Load;
use crate::occupancy::Occupancy;
use crate::pod::Pod;
use crate::run::Run;

use super::order::Order;

/// Runs that ask for the same and are equally exclusive, and the Pods that are available to them.
#[derive(Debug)]
pub(super) struct Class {
    request: Arc<Amounts>,
    exclusive: bool,
    /// The available Pods by the load they would have.
    pub(super) order: Order,
    /// Slots that are to be filed anew before the order is used, each once.
    late: Vec<usize>,
    is_late: Vec<bool>,
    /// Number of the decision that used the class last.
    pub(super) used: u64,
}

impl Class {
    pub(super) fn of(run: &Run) -> Self {
        Self {
            request: Arc::clone(&run.request),
            exclusive: run.exclusive,
            order: Order::default(),
            late: Vec::new(),
            is_late: Vec::new(),
            used: 0,
        }
    }

    pub(super) fn is_of(&self, run: &Run) -> bool {
        self.exclusive == run.exclusive
            && (Arc::ptr_eq(&self.request, &run.request) || self.request == run.request)
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

    /// Files a Pod that is alive, `name` standing for its name, or takes it out.
    pub(super) fn file(&mut self, slot: usize, name: u64, pod: &Pod, held: &Occupancy) {
        let usage = held.usage();
        if held.is_closed_to(self.exclusive)
            || !resources::fits(&self.request, usage, &pod.capacity)
        {
            self.order.remove(slot);
            return;
        }
        let load = Load::of(&self.request, usage, &pod.capacity);
        self.order.insert(slot, name, load);
    }
}
