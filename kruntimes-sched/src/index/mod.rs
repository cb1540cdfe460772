//! Decisions without looking at every Pod.
//!
//! [`crate::calculate`] asks every plugin about every Pod. That is the
//! definition; [`Index`] gives the same answers from structures that it keeps
//! up to date as Pods and Runs come and go:
//!
//! - Runs that ask for the same share a class; each class knows which of the Pods
//!   that have room comes first by the load it would have (`lead`, `class`), and for
//!   Runs with wishes the position of each (`order`); a class catches up with what
//!   has changed when it is used;
//! - the Pods with targets of a selector are kept from its first use on (`targets`);
//! - heartbeats that go stale are found in the order of time (`pool`).

mod class;
mod cycle;
mod lead;
mod names;
mod order;
mod pool;
mod ranking;
mod recipe;
mod room;
mod space;
mod targets;
mod weight;

use std::collections::BTreeMap;
use std::mem;
use std::sync::Arc;

use jiff::Timestamp;

use crate::book::Book;
use crate::bundled::Bundled;
use crate::calculate::calculate;
use crate::decision::Decision;
use crate::identity::{Namespace, PodName, RuntimeName, WorkspaceName};
use crate::plugins::RuntimePodAvailability;
use crate::pod::Pod;
use crate::profile::Profile;
use crate::run::Run;
use crate::snapshot::{Nominated, Snapshot};
use crate::trail::Change;
use crate::workspace::Workspace;

use pool::Holdings;
use recipe::Recipe;
use space::Space;

/// The pools of all namespaces and the book of what they hold, kept so that a decision is quick.
///
/// [`Index::decide`] gives the decision that [`calculate`] gives on
/// [`Index::snapshot`]. Only the scores of the candidates that lose are left
/// out of [`Action::Bind`](crate::Action::Bind). A profile that explains, limits its
/// candidates, contains other than the default plugins, or another heartbeat
/// limit than the index has, is scanned: always right, but not quick.
#[derive(Debug)]
pub struct Index {
    availability: RuntimePodAvailability,
    book: Book,
    spaces: BTreeMap<Namespace, Space>,
}

impl Index {
    /// Makes an index of what a book says, without any Pod yet.
    ///
    /// Of `availability` the heartbeat limit matters: profiles with the same one are quick.
    pub fn new(availability: RuntimePodAvailability, book: Book) -> Self {
        let mut index = Self {
            availability,
            book,
            spaces: BTreeMap::new(),
        };
        index.rebuild();
        index
    }

    /// Makes an index for which a profile is quick, if it is for any.
    pub fn for_profile(profile: &Profile, book: Book) -> Self {
        let known = profile.filters.iter().rev().find_map(|entry| {
            if let Some(Bundled::RuntimePodAvailability(availability)) = &entry.bundled {
                Some(*availability)
            } else {
                None
            }
        });
        Self::new(known.unwrap_or_default(), book)
    }

    /// Tells whether decisions with a profile are quick.
    pub fn is_quick(&self, profile: &Profile) -> bool {
        Recipe::of(profile, self.availability.heartbeat_limit()).is_some()
    }

    /// Returns the book.
    pub fn book(&self) -> &Book {
        &self.book
    }

    /// Returns the book to be changed in any way; the index follows before it is used again.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use jiff::Timestamp;
    /// use kruntimes_sched::{Book, Index, Pod, Run, Snapshot, plugins, reserve};
    ///
    /// let mut index = Index::new(plugins::RuntimePodAvailability::default(), Book::new());
    /// let pod = Arc::new(Pod::new("pod", "uid"));
    /// index.set_pod(&"ns".into(), &"bash".into(), &pod);
    /// let profile = plugins::standard().explain(false).build()?;
    /// let run = Arc::new(Run::new("ns", "run", "uid"));
    /// let now = Timestamp::UNIX_EPOCH;
    /// let taken = reserve(&profile, index.book_mut(), &run, &pod, now);
    /// assert!(taken.is_ok());
    /// # Ok::<(), kruntimes_sched::ProfileError>(())
    /// ```
    pub fn book_mut(&mut self) -> &mut Book {
        self.catch_up();
        &mut self.book
    }

    /// Lets the book be changed in any way, and follows at once.
    pub fn change<T>(&mut self, edit: impl FnOnce(&mut Book) -> T) -> T {
        let result = edit(self.book_mut());
        self.catch_up();
        result
    }

    /// Takes in what has changed in the book.
    fn catch_up(&mut self) {
        let Some(mut changes) = self.book.take_changes() else {
            // It is another book altogether.
            self.rebuild();
            return;
        };
        let is_only = changes.len() == 1;
        for change in changes.drain(..) {
            self.follow(&change, is_only);
        }
        self.book.keep_changes(changes);
    }

    fn follow(&mut self, change: &Change, is_only: bool) {
        let namespace = &change.hold.run.namespace;
        if !self.spaces.contains_key(namespace) {
            self.spaces.insert(namespace.clone(), Space::default());
        }
        let Some(space) = self.spaces.get_mut(namespace) else {
            return;
        };
        let book = &self.book;
        space.follow(change, is_only, Holdings { book, namespace });
        if !change.came {
            self.drop_if_empty(namespace);
        }
    }

    /// Adds a Pod to a pool, or shows what has become of it.
    ///
    /// Within a namespace a Pod's name is its own: the Pod leaves the pool it was in before.
    pub fn set_pod(&mut self, namespace: &Namespace, runtime: &RuntimeName, pod: &Arc<Pod>) {
        self.catch_up();
        let limit = self.availability.heartbeat_limit();
        let space = self.spaces.entry(namespace.clone()).or_default();
        space.set_pod(&self.book, namespace, runtime, limit, pod);
    }

    /// Takes a Pod out of its pool.
    pub fn remove_pod(&mut self, namespace: &Namespace, name: &PodName) {
        self.catch_up();
        if let Some(space) = self.spaces.get_mut(namespace) {
            space.remove_pod(&self.book, namespace, name);
        }
        self.drop_if_empty(namespace);
    }

    /// Says whether the object of a pool exists; it does unless said otherwise.
    pub fn set_runtime(&mut self, namespace: &Namespace, runtime: &RuntimeName, exists: bool) {
        let limit = self.availability.heartbeat_limit();
        let space = self.spaces.entry(namespace.clone()).or_default();
        space.pool_mut(runtime, limit).runtime_exists = exists;
        self.drop_if_empty(namespace);
    }

    /// Sets the waiting Runs for which places of a pool are being freed.
    pub fn set_nominated(
        &mut self,
        namespace: &Namespace,
        runtime: &RuntimeName,
        nominated: impl Into<Arc<[Nominated]>>,
    ) {
        let limit = self.availability.heartbeat_limit();
        let space = self.spaces.entry(namespace.clone()).or_default();
        space.pool_mut(runtime, limit).nominated = nominated.into();
        self.drop_if_empty(namespace);
    }

    /// Adds a workspace or shows what has become of it.
    pub fn set_workspace(&mut self, namespace: &Namespace, workspace: impl Into<Arc<Workspace>>) {
        let space = self.spaces.entry(namespace.clone()).or_default();
        let workspace = workspace.into();
        space.workspaces.insert(workspace.name.clone(), workspace);
    }

    /// Forgets a workspace.
    pub fn remove_workspace(&mut self, namespace: &Namespace, name: &WorkspaceName) {
        if let Some(space) = self.spaces.get_mut(namespace) {
            space.workspaces.remove(name);
        }
        self.drop_if_empty(namespace);
    }

    /// Returns the Pods of a pool, in no particular order.
    pub fn pods(&self, namespace: &Namespace, runtime: &RuntimeName) -> Vec<Arc<Pod>> {
        let pool = (self.spaces.get(namespace)).and_then(|space| space.pool(runtime));
        pool.map_or_else(Vec::new, |pool| pool.pods().cloned().collect())
    }

    /// Finds a Pod of a namespace.
    pub fn pod(&self, namespace: &Namespace, name: &PodName) -> Option<&Arc<Pod>> {
        self.spaces.get(namespace)?.pod(name)
    }

    /// Freezes what a cycle for the Run looks at. Costs as much as its pool is large.
    pub fn snapshot(&self, run: &Run, now: Timestamp) -> Snapshot {
        let view = self.book.view(run.namespace.as_str());
        let space = self.spaces.get(&run.namespace);
        let pool = space.and_then(|space| space.pool(&run.runtime));
        let pods = pool.into_iter().flat_map(|pool| pool.pods().cloned());
        let workspace = space.and_then(|space| space.workspace_of(run)).cloned();
        let snapshot = Snapshot::new(now, pods, view).with_workspace(workspace);
        match pool {
            Some(pool) => snapshot
                .runtime_exists(pool.runtime_exists)
                .with_nominated(Arc::clone(&pool.nominated)),
            None => snapshot,
        }
    }

    /// Decides where a Run goes.
    pub fn decide(&mut self, run: &Run, profile: &Profile, now: Timestamp) -> Decision {
        self.quick(run, profile, now)
            .unwrap_or_else(|| calculate(&self.snapshot(run, now), run, profile))
    }

    /// Decides by the structures of the index, where they know everything that matters.
    ///
    /// Returns nothing where [`Index::decide`] has to look at every Pod.
    pub fn quick(&mut self, run: &Run, profile: &Profile, now: Timestamp) -> Option<Decision> {
        let recipe = Recipe::of(profile, self.availability.heartbeat_limit())?;
        self.catch_up();
        // What the Run itself still holds is no obstacle to it (S-35); the sums include it.
        if self.book.is_held(run) {
            return None;
        }
        let space = self.spaces.get_mut(&run.namespace)?;
        space.decide(&self.book, recipe, run, profile, now)
    }

    fn drop_if_empty(&mut self, namespace: &Namespace) {
        if self.spaces.get(namespace).is_some_and(Space::is_empty) {
            self.spaces.remove(namespace);
        }
    }

    /// Starts to follow the book as it is, and keeps the Pods.
    fn rebuild(&mut self) {
        self.book.follow();
        let limit = self.availability.heartbeat_limit();
        let before = mem::take(&mut self.spaces);
        for hold in self.book.holds() {
            let space = self.spaces.entry(hold.run.namespace.clone()).or_default();
            space.count(hold);
        }
        for (namespace, space) in before {
            let fresh = self.spaces.entry(namespace.clone()).or_default();
            space.move_to(fresh, &self.book, &namespace, limit);
        }
    }
}
