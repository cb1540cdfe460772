//! What holds capacity of one namespace.

use std::sync::Arc;

use crate::identity::RunUid;
use crate::occupancy::{Claim, Hold};
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

    pub(crate) fn insert(&mut self, claim: Claim<'_>, trail: &mut Trail) {
        let run = register::number(claim.run.uid.as_str());
        self.remove_at(run, &claim.run.uid, trail);
        let pod = register::number(claim.pod.as_str());
        self.insert_new(pod, run, claim, trail);
    }

    /// Inserts a hold of a Run that has none; the numbers stand for the Pod's name and the Run's UID.
    pub(crate) fn insert_new(&mut self, pod: u64, run: u64, claim: Claim<'_>, trail: &mut Trail) {
        let hold = Arc::make_mut(&mut self.sites).insert_at(pod, run, claim);
        trail.note(&hold, pod, true);
        self.names.insert(ByName(Arc::clone(&hold)));
        self.holds.insert_at(run, ByUid(hold));
    }

    pub(crate) fn remove(&mut self, run: &RunUid, trail: &mut Trail) {
        self.remove_at(register::number(run.as_str()), run, trail);
    }

    /// As [`Space::remove`], where the number that stands for the UID is known.
    pub(crate) fn remove_at(&mut self, number: u64, run: &RunUid, trail: &mut Trail) {
        let Some(ByUid(hold)) = self.holds.remove_at(number, run.as_str()) else {
            return;
        };
        let pod = register::number(hold.pod().as_str());
        trail.note(&hold, pod, false);
        let name = hold.run.name.as_str();
        let named = register::number(name);
        if (self.names.at(named, name)).is_some_and(|named| named.0.run.uid == *run) {
            self.names.remove_at(named, name);
        }
        Arc::make_mut(&mut self.sites).remove(pod, number, &hold);
    }
}
