//! What every Pod of one namespace holds.

use std::iter;
use std::sync::Arc;

use crate::identity::{PodName, PodUid};
use crate::occupancy::{Claim, Hold, Location, Occupancy};
use crate::pod::Pod;
use crate::register::{self, Keyed, Register};

/// Pods that hold something.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sites(Register<Site>);

/// Everything that holds capacity of Pods of one name; at least one of them holds something.
#[derive(Clone, Debug)]
struct Site {
    /// By UID, where it is recorded; mostly there is no other.
    first: Part,
    rest: Vec<Part>,
}

type Part = (Arc<Location>, Arc<Occupancy>);

impl Keyed for Site {
    type Key = str;

    fn key(&self) -> &str {
        self.first.0.pod.as_str()
    }
}

impl Site {
    fn parts(&self) -> impl Iterator<Item = &Part> {
        iter::once(&self.first).chain(&self.rest)
    }

    fn part(&self, uid: Option<&PodUid>) -> Option<&Arc<Occupancy>> {
        let mut parts = self.parts();
        let found = parts.find(|(at, _)| at.pod_uid.as_ref() == uid);
        found.map(|(_, held)| held)
    }

    fn part_mut(&mut self, uid: Option<&PodUid>) -> Option<&mut Part> {
        let mut parts = iter::once(&mut self.first).chain(&mut self.rest);
        parts.find(|(at, _)| at.pod_uid.as_ref() == uid)
    }

    /// Drops the parts that hold nothing; tells whether any is left.
    fn tidy(&mut self) -> bool {
        self.rest.retain(|(_, held)| !held.is_empty());
        if !self.first.1.is_empty() {
            return true;
        }
        let next = self.rest.pop();
        let is_left = next.is_some();
        self.first = next.unwrap_or_else(|| self.first.clone());
        is_left
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
        let parts = self.0.values().flat_map(Site::parts);
        parts.map(|(at, held)| (&at.pod, at.pod_uid.as_ref(), held.as_ref()))
    }

    /// Adds a hold and returns it.
    pub(crate) fn insert(&mut self, claim: Claim<'_>) -> Arc<Hold> {
        let pod = register::number(claim.pod.as_str());
        let run = register::number(claim.run.uid.as_str());
        self.insert_at(pod, run, claim)
    }

    /// As [`Sites::insert`], where the numbers that stand for the Pod's name and the Run's UID are known.
    pub(crate) fn insert_at(&mut self, pod: u64, run: u64, claim: Claim<'_>) -> Arc<Hold> {
        let Some(site) = self.0.at_mut(pod, claim.pod.as_str()) else {
            let (first, hold) = alone(run, claim);
            let rest = Vec::new();
            self.0.insert_at(pod, Site { first, rest });
            return hold;
        };
        if let Some((at, held)) = site.part_mut(claim.pod_uid) {
            let hold = claim.hold(Some(at));
            Arc::make_mut(held).insert_at(run, Arc::clone(&hold));
            return hold;
        }
        let (part, hold) = alone(run, claim);
        site.rest.push(part);
        hold
    }

    /// Removes a hold; the numbers stand for the Pod's name and the Run's UID.
    pub(crate) fn remove(&mut self, pod: u64, run: u64, hold: &Hold) {
        let Some(site) = self.0.at_mut(pod, hold.pod().as_str()) else {
            return;
        };
        if let Some((_, held)) = site.part_mut(hold.pod_uid()) {
            let held = Arc::make_mut(held);
            held.remove_at(run, &hold.run.uid);
            if held.is_empty() && !site.tidy() {
                self.0.remove_at(pod, hold.pod().as_str());
            }
        }
    }
}

fn alone(run: u64, claim: Claim<'_>) -> (Part, Arc<Hold>) {
    let hold = claim.hold(None);
    let mut held = Occupancy::default();
    held.insert_at(run, Arc::clone(&hold));
    ((Arc::clone(&hold.location), Arc::new(held)), hold)
}
