//! The Pods of one Runtime, ready to be chosen from.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use kruntimes_core::duration::Duration;
use kruntimes_core::quantity::Quantity;

use crate::book::Book;
use crate::identity::{Namespace, PodName, PodUid};
use crate::occupancy::Occupancy;
use crate::plugins::Outlook;
use crate::pod::{Heartbeat, Pod};
use crate::run::Run;
use crate::snapshot::Nominated;
use crate::trail::Change;

use super::class::Class;
use super::names::Names;
use super::room::{Resources, Room, Wanted};

/// Classes that are kept at a time.
const MAX_CLASSES: usize = 64;
/// Decisions after which a class that none of them used may be dropped.
const IDLE: u64 = 4096;

/// What Pods of one namespace hold, as the book says.
#[derive(Clone, Copy)]
pub(super) struct Holdings<'a> {
    pub(super) book: &'a Book,
    pub(super) namespace: &'a Namespace,
}

impl Holdings<'_> {
    pub(super) fn of(self, pod: &Pod) -> Arc<Occupancy> {
        self.book.occupancy(self.namespace, pod)
    }
}

/// One Pod of a pool.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) pod: Arc<Pod>,
    /// Stands for the name.
    pub(super) name: u64,
    alive: bool,
    /// What it has left; nothing if its numbers are unusual.
    pub(super) room: Option<Room>,
    /// Runs that it holds, and how many of them are exclusive.
    held: usize,
    exclusive: usize,
}

impl Slot {
    fn new(
        pod: Arc<Pod>,
        name: u64,
        alive: bool,
        held: &Occupancy,
        resources: &mut Resources,
    ) -> Self {
        let mut slot = Self {
            room: Room::of(&pod, resources),
            pod,
            name,
            alive,
            held: 0,
            exclusive: 0,
        };
        slot.fill(held, resources);
        slot
    }

    fn fill(&mut self, held: &Occupancy, resources: &Resources) {
        (self.held, self.exclusive) = held.counts();
        if let Some(room) = &mut self.room {
            room.fill(held, resources);
        }
    }

    /// Adds the only change there was to what is known; tells whether that could be done.
    fn follow(&mut self, change: &Change, asked: &Wanted) -> bool {
        let Some(room) = &mut self.room else {
            return false;
        };
        if !room.follow(asked, change.came) {
            return false;
        }
        let exclusive = usize::from(change.hold.run.exclusive);
        (self.held, self.exclusive) = if change.came {
            (self.held + 1, self.exclusive + exclusive)
        } else {
            (self.held - 1, self.exclusive - exclusive)
        };
        true
    }

    /// Tells whether somebody is there whom a new Run, exclusive or not, would disturb.
    pub(super) fn is_closed_to(&self, exclusive: bool) -> bool {
        (exclusive && self.held > 0) || self.exclusive > 0
    }
}

/// The Pods of one Runtime of one namespace.
#[derive(Debug)]
pub(super) struct Pool {
    limit: Duration,
    slots: Vec<Option<Slot>>,
    free: Vec<usize>,
    names: Names,
    /// Stands for the name of the Pod that was added last.
    added: u64,
    classes: Vec<Class>,
    resources: Resources,
    decisions: u64,
    /// Instant for which it is known who is alive.
    now: Timestamp,
    /// Ready Pods by the end of their last sign of life: still to come, and past.
    fresh: BTreeSet<(Timestamp, usize)>,
    stale: BTreeSet<(Timestamp, usize)>,
    ready: usize,
    alive: usize,
    /// How many Pods that are alive offer how much of a resource.
    offers: BTreeMap<String, BTreeMap<Quantity, usize>>,
    pub(super) runtime_exists: bool,
    pub(super) nominated: Arc<[Nominated]>,
}

impl Pool {
    pub(super) fn new(limit: Duration) -> Self {
        Self {
            limit,
            slots: Vec::new(),
            free: Vec::new(),
            names: Names::default(),
            added: 0,
            classes: Vec::new(),
            resources: Resources::default(),
            decisions: 0,
            now: Timestamp::MIN,
            fresh: BTreeSet::new(),
            stale: BTreeSet::new(),
            ready: 0,
            alive: 0,
            offers: BTreeMap::new(),
            runtime_exists: true,
            nominated: Arc::default(),
        }
    }

    /// Returns the number of Pods.
    pub(super) fn len(&self) -> usize {
        self.names.len()
    }

    pub(super) fn pods(&self) -> impl Iterator<Item = &Arc<Pod>> {
        self.slots.iter().flatten().map(|slot| &slot.pod)
    }

    pub(super) fn pod(&self, slot: usize) -> Option<&Arc<Pod>> {
        Some(&self.slots.get(slot)?.as_ref()?.pod)
    }

    pub(super) fn slot_of(&self, name: &PodName) -> Option<usize> {
        self.names.slot_of(name)
    }

    /// Finds a Pod by name and UID.
    pub(super) fn find(&self, name: &PodName, uid: &PodUid) -> Option<usize> {
        let slot = self.slot_of(name)?;
        self.pod(slot)
            .is_some_and(|pod| pod.uid == *uid)
            .then_some(slot)
    }

    /// Adds a Pod or replaces the one of the same name; returns its slot and the Pod before.
    pub(super) fn set(&mut self, pod: Arc<Pod>, held: Holdings<'_>) -> (usize, Option<Arc<Pod>>) {
        let slot = self.names.slot_of(&pod.name);
        let slot = slot.unwrap_or_else(|| self.add(&pod));
        let before = self.slots[slot].take();
        let name = before.as_ref().map_or(self.added, |before| before.name);
        let alive = pod.ready && pod.heartbeat.is_fresh(self.now, self.limit);
        let same = before.as_ref().is_some_and(|before| {
            before.alive == alive
                && before.pod.ready == pod.ready
                && before.pod.uid == pod.uid
                && before.pod.capacity == pod.capacity
        });
        if let Some(before) = &before {
            self.unwatch(slot, &before.pod);
        }
        self.watch(slot, &pod);
        let before = match before {
            // Nothing but a sign of life.
            Some(mut known) if same => {
                let before = std::mem::replace(&mut known.pod, pod);
                self.slots[slot] = Some(known);
                Some(before)
            }
            before => {
                if let Some(before) = &before {
                    self.uncount(before);
                }
                self.count(&pod, alive);
                if self.resources.are_many() {
                    self.renumber(held);
                }
                let held = held.of(&pod);
                let resources = &mut self.resources;
                self.slots[slot] = Some(Slot::new(pod, name, alive, &held, resources));
                self.note(slot);
                before.map(|before| before.pod)
            }
        };
        (slot, before)
    }

    /// Makes a slot for a new Pod.
    fn add(&mut self, pod: &Pod) -> usize {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        let changed = self.names.insert(&pod.name, slot);
        for (changed, name) in &changed {
            if let Some(Some(known)) = self.slots.get_mut(*changed) {
                known.name = *name;
            } else {
                self.added = *name;
            }
        }
        if changed.len() > 1 {
            for class in &mut self.classes {
                class.rename(&changed);
            }
        }
        slot
    }

    /// Takes a Pod out; returns its slot.
    pub(super) fn remove(&mut self, name: &PodName) -> Option<(usize, Arc<Pod>)> {
        let slot = self.names.remove(name)?;
        let gone = self.slots[slot].take()?;
        self.unwatch(slot, &gone.pod);
        self.uncount(&gone);
        for class in &mut self.classes {
            class.forget(slot);
        }
        self.free.push(slot);
        Some((slot, gone.pod))
    }

    /// Takes in that a Run came to a Pod or went from it, which the book knows already.
    ///
    /// A change that is the only one is added to what is known; otherwise the book is read.
    pub(super) fn follow(&mut self, slot: usize, only: Option<&Change>, held: Holdings<'_>) {
        if let Some(Some(changed)) = self.slots.get_mut(slot) {
            let followed = only.is_some_and(|change| {
                let request = &change.hold.run.request;
                let mut classes = self.classes.iter();
                if let Some(asked) = classes.find_map(|class| class.wanted(request)) {
                    return changed.follow(change, asked);
                }
                let asked = Wanted::of_known(request, &self.resources);
                asked.is_some_and(|asked| changed.follow(change, &asked))
            });
            if !followed {
                let held = held.of(&changed.pod);
                changed.fill(&held, &self.resources);
            }
        }
        self.note(slot);
    }

    /// Forgets the names of resources that are in use no more.
    fn renumber(&mut self, held: Holdings<'_>) {
        self.resources = Resources::default();
        for slot in self.slots.iter_mut().flatten() {
            slot.room = Room::of(&slot.pod, &mut self.resources);
            slot.fill(&held.of(&slot.pod), &self.resources);
        }
        for class in &mut self.classes {
            class.renumber(&mut self.resources);
        }
        self.resources.settle();
    }

    /// Notes in every class that a Pod, or what it holds, has changed.
    fn note(&mut self, slot: usize) {
        for class in &mut self.classes {
            class.note(slot);
        }
    }

    /// Goes to another instant: some Pods fall silent, or are heard of again should the clock go back.
    pub(super) fn advance(&mut self, now: Timestamp) {
        self.now = now;
        while let Some(&(end, slot)) = self.fresh.first()
            && end < now
        {
            self.fresh.pop_first();
            self.stale.insert((end, slot));
            self.revive(slot, false);
        }
        while let Some(&(end, slot)) = self.stale.last()
            && end >= now
        {
            self.stale.pop_last();
            self.fresh.insert((end, slot));
            self.revive(slot, true);
        }
    }

    fn revive(&mut self, slot: usize, alive: bool) {
        if let Some(mut changed) = self.slots[slot].take() {
            self.uncount(&changed);
            changed.alive = alive;
            self.count(&changed.pod, alive);
            self.slots[slot] = Some(changed);
            self.note(slot);
        }
    }

    /// Returns the class of a Run, up to date; it is made if there is room for it.
    pub(super) fn class(&mut self, run: &Run, held: Holdings<'_>) -> Option<usize> {
        self.decisions += 1;
        let shared = self.classes.iter().position(|class| class.shares(run));
        let number = match shared {
            Some(number) => number,
            None => self.find_class(run, held)?,
        };
        let class = &mut self.classes[number];
        class.used = self.decisions;
        while let Some(late) = class.next_late() {
            match self.slots.get(late) {
                Some(Some(slot)) if slot.alive => {
                    class.file(late, slot, || held.of(&slot.pod));
                }
                Some(Some(_) | None) | None => class.withdraw(late),
            }
        }
        Some(number)
    }

    /// Brings the positions of a class up to date.
    pub(super) fn sort(&mut self, class: usize) {
        self.classes[class].sort();
    }

    pub(super) fn class_at(&self, number: usize) -> &Class {
        &self.classes[number]
    }

    fn find_class(&mut self, run: &Run, held: Holdings<'_>) -> Option<usize> {
        let request = Class::number_of(run);
        let mut known = self.classes.iter();
        let known = known.position(|class| class.is_of(run, request));
        known.or_else(|| self.add_class(run, request, held))
    }

    fn add_class(&mut self, run: &Run, request: u64, held: Holdings<'_>) -> Option<usize> {
        let decisions = self.decisions;
        self.classes.retain(|class| decisions - class.used < IDLE);
        if self.classes.len() >= MAX_CLASSES {
            return None;
        }
        if self.resources.are_many() {
            self.renumber(held);
        }
        let mut class = Class::of(run, request, &mut self.resources);
        for slot in 0..self.slots.len() {
            class.note(slot);
        }
        self.classes.push(class);
        Some(self.classes.len() - 1)
    }

    /// Says what is wrong with the pool as a whole, for a Run that nothing fits.
    pub(super) fn explain(&self, run: &Run) -> Option<&'static str> {
        let outlook = Outlook {
            runtime_exists: self.runtime_exists,
            is_ready: self.ready > 0,
            is_alive: self.alive > 0,
        };
        outlook.reason(|| {
            run.request.iter().any(|(resource, asked)| {
                let most = self.offers.get(resource).and_then(|o| o.last_key_value());
                most.is_none_or(|(most, _)| most < asked)
            })
        })
    }

    fn watch(&mut self, slot: usize, pod: &Pod) {
        if let Some(end) = self.end_of(pod) {
            if end >= self.now {
                self.fresh.insert((end, slot));
            } else {
                self.stale.insert((end, slot));
            }
        }
    }

    fn unwatch(&mut self, slot: usize, pod: &Pod) {
        if let Some(end) = self.end_of(pod) {
            self.fresh.remove(&(end, slot));
            self.stale.remove(&(end, slot));
        }
    }

    /// Returns the last instant at which a ready Pod's sign of life counts, if time can end it.
    fn end_of(&self, pod: &Pod) -> Option<Timestamp> {
        match pod.heartbeat {
            Heartbeat::At(probe) if pod.ready => Some(self.limit.after(probe)),
            Heartbeat::At(_) | Heartbeat::Unneeded | Heartbeat::Missing => None,
        }
    }

    fn count(&mut self, pod: &Pod, alive: bool) {
        self.ready += usize::from(pod.ready);
        if alive {
            self.alive += 1;
            for (resource, amount) in pod.capacity.iter() {
                let amounts = self.offers.entry(resource.clone()).or_default();
                *amounts.entry(*amount).or_default() += 1;
            }
        }
    }

    fn uncount(&mut self, slot: &Slot) {
        self.ready -= usize::from(slot.pod.ready);
        if !slot.alive {
            return;
        }
        self.alive -= 1;
        for (resource, amount) in slot.pod.capacity.iter() {
            let Some(amounts) = self.offers.get_mut(resource) else {
                continue;
            };
            if let Some(count) = amounts.get_mut(amount) {
                *count -= 1;
                if *count == 0 {
                    amounts.remove(amount);
                }
            }
            if amounts.is_empty() {
                self.offers.remove(resource);
            }
        }
    }
}
