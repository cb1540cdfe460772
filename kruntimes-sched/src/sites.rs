//! What every Pod of one namespace holds.

use std::sync::Arc;

use crate::identity::{PodName, PodUid};
use crate::occupancy::{Hold, Occupancy};
use crate::pod::Pod;
use crate::register::{self, Keyed, Register};

/// Pods that hold something.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sites(Register<Site>);

/// Everything that holds capacity of Pods of one name.
#[derive(Clone, Debug)]
struct Site {
    name: PodName,
    /// By UID, where it is recorded; mostly one.
    parts: Vec<(Option<PodUid>, Arc<Occupancy>)>,
}

impl Keyed for Site {
    type Key = str;

    fn key(&self) -> &str {
        self.name.as_str()
    }
}

impl Site {
    fn part(&self, uid: Option<&PodUid>) -> Option<&Arc<Occupancy>> {
        let mut parts = self.parts.iter();
        let found = parts.find(|(other, _)| other.as_ref() == uid);
        found.map(|(_, held)| held)
    }
}

impl Sites {
    /// Returns what a Pod holds, if anything (S-13).
    pub(crate) fn occupancy(&self, pod: &Pod) -> Option<Arc<Occupancy>> {
        self.occupancy_at(register::number(pod.name.as_str()), pod)
    }

    /// As [`Sites::occupancy`], where the number that stands for the name is known.
    pub(crate) fn occupancy_at(&self, number: u64, pod: &Pod) -> Option<Arc<Occupancy>> {
        let site = self.0.at(number, pod.name.as_str())?;
        match (site.part(None), site.part(Some(&pod.uid))) {
            (None, None) => None,
            (Some(one), None) | (None, Some(one)) => Some(Arc::clone(one)),
            (Some(one), Some(other)) => Some(Arc::new(one.merged(other))),
        }
    }

    /// Returns all of them, in an order that means nothing.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&PodName, Option<&PodUid>, &Occupancy)> {
        self.0.values().flat_map(|site| {
            let parts = site.parts.iter();
            parts.map(|(uid, held)| (&site.name, uid.as_ref(), held.as_ref()))
        })
    }

    pub(crate) fn insert(&mut self, hold: &Arc<Hold>) {
        let pod = register::number(hold.pod.as_str());
        let run = register::number(hold.run.uid.as_str());
        self.insert_at(pod, run, hold);
    }

    /// As [`Sites::insert`], where the numbers that stand for the Pod's name and the Run's UID are known.
    pub(crate) fn insert_at(&mut self, pod: u64, run: u64, hold: &Arc<Hold>) {
        let alone = || {
            let mut held = Occupancy::default();
            held.insert_at(run, Arc::clone(hold));
            (hold.pod_uid.clone(), Arc::new(held))
        };
        let Some(site) = self.0.at_mut(pod, hold.pod.as_str()) else {
            let site = Site {
                name: hold.pod.clone(),
                parts: vec![alone()],
            };
            self.0.insert_at(pod, site);
            return;
        };
        let mut parts = site.parts.iter_mut();
        match parts.find(|(uid, _)| *uid == hold.pod_uid) {
            Some((_, held)) => Arc::make_mut(held).insert_at(run, Arc::clone(hold)),
            None => site.parts.push(alone()),
        }
    }

    pub(crate) fn remove(&mut self, hold: &Hold) {
        let Some(site) = self.0.get_mut(hold.pod.as_str()) else {
            return;
        };
        let mut parts = site.parts.iter_mut();
        if let Some((_, held)) = parts.find(|(uid, _)| *uid == hold.pod_uid) {
            Arc::make_mut(held).remove(&hold.run.uid);
        }
        site.parts.retain(|(_, held)| !held.is_empty());
        if site.parts.is_empty() {
            self.0.remove(hold.pod.as_str());
        }
    }
}
