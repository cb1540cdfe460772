//! One namespace: its pools, its workspaces and the targets of affinity.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use kruntimes_core::duration::Duration;

use crate::book::Book;
use crate::decision::Decision;
use crate::identity::{Namespace, PodName, RuntimeName, WorkspaceName};
use crate::occupancy::Hold;
use crate::pod::Pod;
use crate::profile::Profile;
use crate::register::{Keyed, Register};
use crate::run::Run;
use crate::trail::Change;
use crate::workspace::Workspace;

use super::cycle::Cycle;
use super::pool::{Holdings, Pool};
use super::recipe::{Recipe, Wishes};
use super::targets::{Spot, Targets};

/// Where a Pod is found.
#[derive(Debug)]
struct Located {
    name: PodName,
    spot: Spot,
}

impl Keyed for Located {
    type Key = PodName;

    fn key(&self) -> &PodName {
        &self.name
    }
}

/// One namespace of the index.
#[derive(Debug, Default)]
pub(super) struct Space {
    pools: Vec<Pool>,
    runtimes: BTreeMap<RuntimeName, usize>,
    located: Register<Located>,
    targets: Targets,
    pub(super) workspaces: BTreeMap<WorkspaceName, Arc<Workspace>>,
}

impl Space {
    /// Tells whether nothing is known that is not taken for granted.
    pub(super) fn is_empty(&self) -> bool {
        let mut pools = self.pools.iter();
        self.located.is_empty()
            && self.workspaces.is_empty()
            && self.targets.is_empty()
            && pools.all(|pool| pool.runtime_exists && pool.nominated.is_empty())
    }

    pub(super) fn pool(&self, runtime: &RuntimeName) -> Option<&Pool> {
        self.runtimes
            .get(runtime)
            .map(|number| &self.pools[*number])
    }

    pub(super) fn pool_mut(&mut self, runtime: &RuntimeName, limit: Duration) -> &mut Pool {
        let number = self.number_of(runtime, limit);
        &mut self.pools[number]
    }

    fn number_of(&mut self, runtime: &RuntimeName, limit: Duration) -> usize {
        if let Some(number) = self.runtimes.get(runtime) {
            return *number;
        }
        let number = self.pools.len();
        self.pools.push(Pool::new(limit));
        self.runtimes.insert(runtime.clone(), number);
        number
    }

    pub(super) fn pod(&self, name: &PodName) -> Option<&Arc<Pod>> {
        let (pool, slot) = self.located.get(name)?.spot;
        self.pools[pool].pod(slot)
    }

    pub(super) fn workspace_of(&self, run: &Run) -> Option<&Arc<Workspace>> {
        self.workspaces.get(run.workspace.as_ref()?)
    }

    pub(super) fn set_pod(
        &mut self,
        book: &Book,
        namespace: &Namespace,
        runtime: &RuntimeName,
        limit: Duration,
        pod: &Arc<Pod>,
    ) {
        let number = self.number_of(runtime, limit);
        let located = self.located.get(&pod.name);
        if located.is_some_and(|located| located.spot.0 != number) {
            self.remove_pod(book, namespace, &pod.name);
        }
        let held = Holdings { book, namespace };
        let (slot, before) = self.pools[number].set(Arc::clone(pod), held);
        if before.as_ref().is_some_and(|before| before.uid == pod.uid) {
            return;
        }
        let spot = (number, slot);
        if let Some(before) = before {
            for hold in held.of(&before).holds() {
                self.targets.displace(&hold.run.labels, spot);
            }
        }
        for hold in held.of(pod).holds() {
            self.targets.place(&hold.run.labels, spot);
        }
        let name = pod.name.clone();
        self.located.insert(Located { name, spot });
    }

    pub(super) fn remove_pod(&mut self, book: &Book, namespace: &Namespace, name: &PodName) {
        let Some(Located { spot, .. }) = self.located.remove(name) else {
            return;
        };
        let number = spot.0;
        if let Some((slot, pod)) = self.pools[number].remove(name) {
            for hold in book.occupancy(namespace, &pod).holds() {
                self.targets.displace(&hold.run.labels, (number, slot));
            }
        }
    }

    /// Follows a change of the book; the book is at most that one change ahead if it `is_only` one.
    pub(super) fn follow(&mut self, change: &Change, is_only: bool, held: Holdings<'_>) {
        let spot = self.spot_of(change);
        let labels = &change.hold.run.labels;
        if change.came {
            self.targets.add(labels, spot);
        } else {
            self.targets.remove(labels, spot);
        }
        if let Some((pool, slot)) = spot {
            let only = is_only.then_some(change);
            self.pools[pool].follow(slot, only, held);
        }
    }

    /// Counts a hold whose Pod is not known yet.
    pub(super) fn count(&mut self, hold: &Hold) {
        self.targets.add(&hold.run.labels, None);
    }

    /// Hands everything but the targets over to a space that follows another book.
    pub(super) fn move_to(
        self,
        other: &mut Self,
        book: &Book,
        namespace: &Namespace,
        limit: Duration,
    ) {
        other.workspaces = self.workspaces;
        for (runtime, number) in &self.runtimes {
            let before = &self.pools[*number];
            let pool = other.pool_mut(runtime, limit);
            pool.runtime_exists = before.runtime_exists;
            pool.nominated = Arc::clone(&before.nominated);
            for pod in before.pods() {
                other.set_pod(book, namespace, runtime, limit, pod);
            }
        }
    }

    pub(super) fn decide(
        &mut self,
        book: &Book,
        recipe: Recipe,
        run: &Run,
        profile: &Profile,
        now: Timestamp,
    ) -> Option<Decision> {
        let number = *self.runtimes.get(&run.runtime)?;
        let held = Holdings {
            book,
            namespace: &run.namespace,
        };
        let pool = &mut self.pools[number];
        pool.advance(now);
        let class = pool.class(run, held)?;
        let workspace = (run.workspace.as_ref()).and_then(|name| self.workspaces.get(name));
        let rule = recipe.workspace.rule(workspace.map(AsRef::as_ref), run);
        let wishes = Wishes::of(run, rule, &mut self.targets)?;
        if wishes.are_compared() {
            self.pools[number].sort(class);
        }
        let pool = &self.pools[number];
        Cycle {
            recipe,
            profile,
            run,
            wishes: &wishes,
            targets: &self.targets,
            pool,
            number,
            class: pool.class_at(class),
        }
        .decide()
    }

    fn spot_of(&self, Change { hold, pod, .. }: &Change) -> Option<Spot> {
        let spot = self.located.at(*pod, hold.pod())?.spot;
        let pod = self.pools[spot.0].pod(spot.1)?;
        let same = hold.pod_uid().is_none_or(|uid| *uid == pod.uid);
        same.then_some(spot)
    }
}
