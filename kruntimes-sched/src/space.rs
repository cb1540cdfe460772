//! What holds capacity of one namespace.

use std::sync::Arc;

use crate::identity::RunUid;
use crate::occupancy::Hold;
use crate::register::{self, Keyed, Register};
use crate::sites::Sites;
use crate::trail::Trail;

/// The holds of one namespace by Run and by Pod.
#[derive(Clone, Debug, Default)]
pub(crate) struct Space {
    holds: Register<ByUid>,
    names: Register<ByName>,
    pub(crate) sites: Arc<Sites>,
}

#[derive(Clone, Debug)]
struct ByUid(Arc<Hold>);

impl Keyed for ByUid {
    type Key = str;

    fn key(&self) -> &str {
        self.0.run.uid.as_str()
    }
}

#[derive(Clone, Debug)]
struct ByName(Arc<Hold>);

impl Keyed for ByName {
    type Key = str;

    fn key(&self) -> &str {
        self.0.run.name.as_str()
    }
}

impl Space {
    pub(crate) fn is_empty(&self) -> bool {
        self.holds.is_empty()
    }

    pub(crate) fn hold(&self, run: &RunUid) -> Option<&Hold> {
        self.hold_at(register::number(run.as_str()), run)
    }

    /// As [`Space::hold`], where the number that stands for the UID is known.
    pub(crate) fn hold_at(&self, number: u64, run: &RunUid) -> Option<&Hold> {
        let found = self.holds.at(number, run.as_str());
        found.map(|found| found.0.as_ref())
    }

    pub(crate) fn named(&self, name: &str) -> Option<&Hold> {
        self.names.get(name).map(|found| found.0.as_ref())
    }

    /// Returns all holds, in an order that means nothing.
    pub(crate) fn holds(&self) -> impl Iterator<Item = &Arc<Hold>> {
        self.holds.values().map(|found| &found.0)
    }

    pub(crate) fn insert(&mut self, hold: Hold, trail: &mut Trail) {
        self.remove(&hold.run.uid, trail);
        let pod = register::number(hold.pod.as_str());
        let run = register::number(hold.run.uid.as_str());
        self.insert_new(pod, run, hold, trail);
    }

    /// Inserts a hold of a Run that has none; the numbers stand for the Pod's name and the Run's UID.
    pub(crate) fn insert_new(&mut self, pod: u64, run: u64, hold: Hold, trail: &mut Trail) {
        let hold = Arc::new(hold);
        trail.note(&hold, true);
        Arc::make_mut(&mut self.sites).insert_at(pod, run, &hold);
        self.names.insert(ByName(Arc::clone(&hold)));
        self.holds.insert_at(run, ByUid(hold));
    }

    pub(crate) fn remove(&mut self, run: &RunUid, trail: &mut Trail) {
        let Some(ByUid(hold)) = self.holds.remove(run.as_str()) else {
            return;
        };
        trail.note(&hold, false);
        let name = hold.run.name.as_str();
        if (self.named(name)).is_some_and(|named| named.run.uid == *run) {
            self.names.remove(name);
        }
        Arc::make_mut(&mut self.sites).remove(&hold);
    }
}
