//! What holds capacity: observed Runs and assumptions, handed over without a gap.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kruntimes_core::quantity::Quantity;
use kruntimes_core::resources::{self, Amounts};

use crate::identity::{Namespace, PodName, PodUid, RunUid};
use crate::occupancy::{Claim, Hold, Occupancy, Origin};
use crate::pod::Pod;
use crate::register;
use crate::run::Run;
use crate::sites::Sites;
use crate::space::Space;
use crate::trail::{Change, Trail};

/// Where an observed Run stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunState {
    /// It waits for a place and is assigned to none.
    Pending,
    /// It is active on a Pod.
    Holding {
        /// Name of the Pod.
        pod: PodName,
        /// UID of the Pod, where it is recorded.
        pod_uid: Option<PodUid>,
    },
    /// Neither: ended, or on its way between phases.
    Elsewhere,
}

/// One Run as it was seen.
#[derive(Clone, Debug)]
pub struct Observation {
    /// The Run. An active Run whose request is invalid carries an empty one (S-14).
    pub run: Arc<Run>,
    /// Where it stands.
    pub state: RunState,
}

/// Why a place cannot be reserved.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Taken {
    /// Another Run has taken the room meanwhile. Waiting may help.
    #[error("pod has {free} {resource} left, the Run asks for {asked}")]
    NoRoom {
        /// Lexically first resource that does not fit.
        resource: String,
        /// Capacity minus what is held.
        free: Quantity,
        /// The Run's request.
        asked: Quantity,
    },
    /// An exclusive Run is there, or the Run is exclusive and somebody is there. Waiting may help.
    #[error("pod is held exclusively, or would have to be")]
    Exclusive,
    /// The Run is already active somewhere. Waiting will not help.
    #[error("run {0} is already active")]
    AlreadyActive(RunUid),
}

/// A contradiction in a [`Book`]; only a bug can make one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    /// A Pod holds more than it offers.
    #[error("pod {pod} holds {held} {resource} of {offered}")]
    Overcommitted {
        /// The Pod.
        pod: PodName,
        /// Lexically first such resource.
        resource: String,
        /// What is held.
        held: Quantity,
        /// What is offered.
        offered: Quantity,
    },
    /// An exclusive Run has a neighbour.
    #[error("an exclusive run on pod {0} has a neighbour")]
    Shared(PodName),
    /// The sums of a Pod are not the sums of its Runs.
    #[error("the sums of pod {0} are wrong")]
    Sums(PodName),
    /// A Run is counted on another Pod than its hold names, or not exactly once.
    #[error("run {0} is not counted exactly once")]
    Count(RunUid),
}

/// All Runs that hold capacity, by namespace: observed ones and assumptions (S-76).
///
/// The book is a plain value; a caller with several workers puts it behind one
/// lock. Observation and assumption live in one place, so that the handoff of
/// S-78 is one step: at every instant a placed Run is counted exactly once
/// (S-79), and a reserve made from an old snapshot still sees it (S-81).
///
/// Observations of one Run must arrive in order; a Run that was seen active is
/// not expected to be shown again in an older, pending version.
#[derive(Clone, Debug, Default)]
pub struct Book {
    spaces: BTreeMap<Namespace, Space>,
    trail: Trail,
    /// The UID that was looked up last, and the number that stands for it.
    last: Option<(RunUid, u64)>,
}

/// Everything that held capacity of one namespace at one instant; never changes.
#[derive(Clone, Debug, Default)]
pub struct View {
    sites: Arc<Sites>,
    nothing: Arc<Occupancy>,
}

impl View {
    /// Returns what the Pod holds: Runs that record its UID, and Runs that record only its name (S-13).
    pub fn occupancy(&self, pod: &Pod) -> Arc<Occupancy> {
        (self.sites.occupancy(pod)).unwrap_or_else(|| Arc::clone(&self.nothing))
    }

    /// Returns every hold of the namespace with its Pod, in Pod order.
    pub fn holds(&self) -> impl Iterator<Item = &Hold> {
        self.sites().flat_map(|(_, _, held)| held.holds())
    }

    /// Returns every Pod that holds something, by name and, where it is recorded, UID.
    pub fn sites(&self) -> impl Iterator<Item = (&PodName, Option<&PodUid>, &Occupancy)> {
        let mut sites: Vec<_> = self.sites_in_any_order().collect();
        sites.sort_unstable_by_key(|(name, uid, _)| (*name, *uid));
        sites.into_iter()
    }

    /// Returns the same more quickly.
    pub(crate) fn sites_in_any_order(
        &self,
    ) -> impl Iterator<Item = (&PodName, Option<&PodUid>, &Occupancy)> {
        self.sites.iter()
    }

    /// Returns the view as it would be without some Runs.
    pub(crate) fn without(&self, runs: &BTreeSet<RunUid>) -> Self {
        Self::of(self.holds().filter(|hold| !runs.contains(&hold.run.uid)))
    }

    /// Puts a view together from its holds, as one that was recorded.
    pub(crate) fn of<'a>(holds: impl IntoIterator<Item = &'a Hold>) -> Self {
        let mut sites = Sites::default();
        for hold in holds {
            sites.insert(hold.claim());
        }
        Self {
            sites: Arc::new(sites),
            nothing: Arc::default(),
        }
    }
}

impl Book {
    /// Makes an empty book, as a new leader starts with (S-125).
    pub fn new() -> Self {
        Self::default()
    }

    /// Shows one Run to the book and hands its assumption over where it is due (S-78).
    pub fn observe(&mut self, seen: &Observation) {
        let run = &seen.run;
        let space = self.spaces.entry(run.namespace.clone()).or_default();
        // A Run of the same name and another UID replaced the earlier one (S-133).
        if let Some(earlier) = space.named(run.name.as_str())
            && earlier.run.uid != run.uid
        {
            let earlier = earlier.run.uid.clone();
            space.remove(&earlier, &mut self.trail);
        }
        match &seen.state {
            RunState::Pending => {
                if (space.hold(&run.uid)).is_some_and(|hold| !still_assumed(hold, run)) {
                    space.remove(&run.uid, &mut self.trail);
                }
            }
            RunState::Holding { pod, pod_uid } => {
                let claim = Claim {
                    run: Arc::clone(run),
                    pod,
                    pod_uid: pod_uid.as_ref(),
                    origin: Origin::Observed,
                };
                space.insert(claim, &mut self.trail);
            }
            RunState::Elsewhere => space.remove(&run.uid, &mut self.trail),
        }
        self.drop_if_empty(&run.namespace);
    }

    /// Shows a complete list of one namespace; whatever is not in it holds nothing any more (S-78, S-80).
    pub fn observe_all<'a>(
        &mut self,
        namespace: &Namespace,
        seen: impl IntoIterator<Item = &'a Observation>,
    ) {
        let mut present = BTreeSet::new();
        for observation in seen {
            if observation.run.namespace == *namespace {
                present.insert(observation.run.uid.clone());
                self.observe(observation);
            }
        }
        if let Some(space) = self.spaces.get_mut(namespace) {
            let held = space.holds().map(|hold| &hold.run.uid);
            let gone = held.filter(|uid| !present.contains(*uid));
            let gone: Vec<RunUid> = gone.cloned().collect();
            for uid in gone {
                space.remove(&uid, &mut self.trail);
            }
        }
        self.drop_if_empty(namespace);
    }

    /// Forgets a Run that no longer exists.
    pub fn forget(&mut self, namespace: &Namespace, run: &RunUid) {
        if let Some(space) = self.spaces.get_mut(namespace) {
            space.remove(run, &mut self.trail);
        }
        self.drop_if_empty(namespace);
    }

    /// Forgets whatever Run of this name holds capacity.
    pub fn forget_named(&mut self, namespace: &Namespace, name: &str) {
        let space = self.spaces.get(namespace);
        if let Some(hold) = space.and_then(|space| space.named(name)) {
            let uid = hold.run.uid.clone();
            self.forget(namespace, &uid);
        }
    }

    /// Reserves the complete request of a Run on a Pod, or changes nothing (S-77).
    ///
    /// An earlier assumption of the same Run is replaced (S-89).
    ///
    /// # Errors
    ///
    /// Returns what is in the way by the book's present knowledge, however old
    /// the snapshot was from which the Pod was chosen.
    pub fn reserve(&mut self, run: &Arc<Run>, pod: &Pod) -> Result<(), Taken> {
        self.reserve_at(register::number(pod.name.as_str()), run, pod)
    }

    /// As [`Book::reserve`], where the number that stands for the Pod's name is known.
    pub(crate) fn reserve_at(&mut self, site: u64, run: &Arc<Run>, pod: &Pod) -> Result<(), Taken> {
        let number = self.number_of(&run.uid);
        let space = self.spaces.get(&run.namespace);
        let before = space.and_then(|space| space.hold_at(number, &run.uid));
        if before.is_some_and(|hold| hold.origin == Origin::Observed) {
            return Err(Taken::AlreadyActive(run.uid.clone()));
        }
        let is_new = before.is_none();
        // Whoever looks at the occupancy lets it go before it changes, so that it changes in place.
        if let Some(held) = space.and_then(|space| space.sites.occupancy_at(site, pod)) {
            has_room(run, is_new, &held, pod)?;
        } else {
            has_room(run, is_new, &Occupancy::default(), pod)?;
        }
        let space = self.spaces.entry(run.namespace.clone()).or_default();
        if !is_new {
            space.remove_at(number, &run.uid, &mut self.trail);
        }
        let claim = Claim {
            run: Arc::clone(run),
            pod: &pod.name,
            pod_uid: Some(&pod.uid),
            origin: Origin::Assumed,
        };
        space.insert_new(site, number, claim, &mut self.trail);
        Ok(())
    }

    /// Gives the assumption of a Run up; an observed Run stays counted.
    pub fn release(&mut self, namespace: &Namespace, run: &RunUid) {
        if self
            .hold(namespace, run)
            .is_some_and(|hold| hold.origin == Origin::Assumed)
        {
            self.forget(namespace, run);
        }
    }

    /// Returns how a Run holds capacity, if it does.
    pub fn hold(&self, namespace: &Namespace, run: &RunUid) -> Option<&Hold> {
        self.spaces.get(namespace)?.hold(run)
    }

    /// Tells whether a Run holds capacity; the answer for the same Run is quick the next time.
    pub(crate) fn is_held(&mut self, run: &Run) -> bool {
        let number = self.number_of(&run.uid);
        let space = self.spaces.get(&run.namespace);
        space.is_some_and(|space| space.hold_at(number, &run.uid).is_some())
    }

    /// Returns the number that stands for a UID; that of the last one is known.
    fn number_of(&mut self, run: &RunUid) -> u64 {
        match &self.last {
            Some((last, number)) if last.is_clone_of(run) => *number,
            Some(_) | None => {
                let number = register::number(run.as_str());
                self.last = Some((run.clone(), number));
                number
            }
        }
    }

    /// Returns what a Pod holds at this instant.
    pub fn occupancy(&self, namespace: &Namespace, pod: &Pod) -> Arc<Occupancy> {
        self.occupancy_at(register::number(pod.name.as_str()), namespace, pod)
    }

    /// As [`Book::occupancy`], where the number that stands for the Pod's name is known.
    pub(crate) fn occupancy_at(
        &self,
        site: u64,
        namespace: &Namespace,
        pod: &Pod,
    ) -> Arc<Occupancy> {
        let space = self.spaces.get(namespace);
        let held = space.and_then(|space| space.sites.occupancy_at(site, pod));
        held.unwrap_or_default()
    }

    /// Freezes what holds capacity of one namespace, usage and targets from the same instant (S-33).
    ///
    /// Costs one reference count, whatever the namespace holds.
    pub fn view(&self, namespace: &str) -> View {
        self.spaces
            .get(namespace)
            .map_or_else(View::default, |space| View {
                sites: Arc::clone(&space.sites),
                nothing: Arc::default(),
            })
    }

    /// Returns the number of assumptions of all namespaces.
    pub fn assumed(&self) -> usize {
        let assumed = |hold: &&Arc<Hold>| hold.origin == Origin::Assumed;
        self.holds().filter(assumed).count()
    }

    /// Checks that the book does not contradict itself; for property tests (S-154).
    ///
    /// # Errors
    ///
    /// Returns the first wrong sum or count.
    pub fn check(&self) -> Result<(), Violation> {
        for space in self.spaces.values() {
            let mut counted: BTreeMap<&RunUid, u32> = BTreeMap::new();
            for (pod, uid, occupancy) in space.sites.iter() {
                if occupancy.is_empty() || occupancy.recount() != *occupancy.usage() {
                    return Err(Violation::Sums(pod.clone()));
                }
                for hold in occupancy.holds_in_any_order() {
                    if hold.pod() != pod || hold.pod_uid() != uid {
                        return Err(Violation::Count(hold.run.uid.clone()));
                    }
                    *counted.entry(&hold.run.uid).or_default() += 1;
                }
            }
            for hold in space.holds() {
                if counted.remove(&hold.run.uid) != Some(1) {
                    return Err(Violation::Count(hold.run.uid.clone()));
                }
            }
            if let Some(uid) = counted.into_keys().next() {
                return Err(Violation::Count(uid.clone()));
            }
        }
        Ok(())
    }

    /// Checks that a Pod holds no more than it offers; for property tests (S-81).
    ///
    /// # Errors
    ///
    /// Returns the first resource that is exceeded, or a broken exclusivity.
    pub fn check_pod(&self, namespace: &Namespace, pod: &Pod) -> Result<(), Violation> {
        let held = self.occupancy(namespace, pod);
        for (resource, held) in held.usage() {
            let offered = pod.capacity.get(resource).copied().unwrap_or_default();
            if *held > offered {
                return Err(Violation::Overcommitted {
                    pod: pod.name.clone(),
                    resource: resource.clone(),
                    held: *held,
                    offered,
                });
            }
        }
        if held.holds().count() > 1 && held.holds().any(|hold| hold.run.exclusive) {
            return Err(Violation::Shared(pod.name.clone()));
        }
        Ok(())
    }

    /// Starts to note every hold that comes or goes, for an index that follows.
    pub(crate) fn follow(&mut self) {
        self.trail.start();
    }

    /// Returns what came and went since the last time; nothing when nobody follows.
    pub(crate) fn take_changes(&mut self) -> Option<Vec<Change>> {
        self.trail.take()
    }

    /// Takes an emptied list of changes back.
    pub(crate) fn keep_changes(&mut self, emptied: Vec<Change>) {
        self.trail.keep(emptied);
    }

    /// Returns everything that holds capacity, of all namespaces.
    pub(crate) fn holds(&self) -> impl Iterator<Item = &Arc<Hold>> {
        self.spaces.values().flat_map(Space::holds)
    }

    fn drop_if_empty(&mut self, namespace: &Namespace) {
        if self.spaces.get(namespace).is_some_and(Space::is_empty) {
            self.spaces.remove(namespace);
        }
    }
}

/// The last row of S-78: the observation may be older than our own write.
fn still_assumed(hold: &Hold, seen: &Run) -> bool {
    hold.origin == Origin::Assumed && hold.run.name == seen.name && seen.attempt <= hold.run.attempt
}

/// Checks that a Run fits beside everything else on a Pod.
fn has_room(run: &Run, is_new: bool, held: &Occupancy, pod: &Pod) -> Result<(), Taken> {
    if held.excludes(run) {
        return Err(Taken::Exclusive);
    }
    let usage = if is_new {
        Cow::Borrowed(held.usage())
    } else {
        held.usage_without(&run.uid)
    };
    if resources::fits(&run.request, &usage, &pod.capacity) {
        Ok(())
    } else {
        Err(no_room(run, &usage, &pod.capacity))
    }
}

fn no_room(run: &Run, usage: &Amounts, capacity: &Amounts) -> Taken {
    let free_of = |name: &String| {
        let offered = capacity.get(name).copied().unwrap_or_default();
        let used = usage.get(name).copied().unwrap_or_default();
        offered.checked_sub(used).unwrap_or_default()
    };
    let short = run.request.iter().find(|(name, asked)| {
        asked.is_positive() && (!capacity.contains_key(*name) || free_of(name) < **asked)
    });
    let (resource, asked) = short.map_or_else(Default::default, |(n, a)| (n.clone(), *a));
    Taken::NoRoom {
        free: free_of(&resource),
        resource,
        asked,
    }
}
