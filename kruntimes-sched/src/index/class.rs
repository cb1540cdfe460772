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
    /// Number of the decision that used the class last.
    pub(super) used: u64,
}

impl Class {
    pub(super) fn of(run: &Run) -> Self {
        Self {
            request: Arc::clone(&run.request),
            exclusive: run.exclusive,
            order: Order::default(),
            used: 0,
        }
    }

    pub(super) fn is_of(&self, run: &Run) -> bool {
        self.exclusive == run.exclusive
            && (Arc::ptr_eq(&self.request, &run.request) || self.request == run.request)
    }

    /// Files a Pod that is alive where it belongs by what it holds now, or takes it out.
    pub(super) fn file(&mut self, slot: usize, pod: &Pod, held: &Occupancy) {
        let usage = held.usage();
        if held.is_closed_to(self.exclusive)
            || !resources::fits(&self.request, usage, &pod.capacity)
        {
            self.order.remove(slot);
            return;
        }
        let load = Load::of(&self.request, usage, &pod.capacity);
        self.order.insert(slot, &pod.name, load);
    }
}
