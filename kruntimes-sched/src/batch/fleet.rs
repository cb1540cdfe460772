//! Every pool at one instant.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use crate::book::Book;
use crate::identity::{Namespace, RuntimeName, WorkspaceName};
use crate::index::Index;
use crate::pod::Pod;
use crate::profile::Profile;
use crate::run::Run;
use crate::snapshot::{Nominated, Snapshot};
use crate::workspace::Workspace;

#[derive(Clone, Debug, Default)]
struct Pool {
    pods: Vec<Arc<Pod>>,
    without_runtime: bool,
}

/// The frozen input of a batch: the Pods of every pool, workspaces, and what holds capacity.
///
/// It is to many Runs what a [`Snapshot`] is to one.
#[derive(Clone, Debug)]
pub struct Fleet {
    now: Timestamp,
    book: Book,
    pools: BTreeMap<(Namespace, RuntimeName), Pool>,
    workspaces: BTreeMap<(Namespace, WorkspaceName), Arc<Workspace>>,
    nominated: BTreeMap<Namespace, Arc<[Nominated]>>,
}

impl Fleet {
    /// Starts without Pods, with what the book knows.
    pub fn new(now: Timestamp, book: Book) -> Self {
        Self {
            now,
            book,
            pools: BTreeMap::new(),
            workspaces: BTreeMap::new(),
            nominated: BTreeMap::new(),
        }
    }

    /// Adds the Pods of one Runtime.
    pub fn pool<P: Into<Arc<Pod>>>(
        mut self,
        namespace: impl Into<Namespace>,
        runtime: impl Into<RuntimeName>,
        pods: impl IntoIterator<Item = P>,
    ) -> Self {
        let pool = self.pools.entry((namespace.into(), runtime.into()));
        let pods = pods.into_iter().map(Into::into);
        pool.or_default().pods.extend(pods);
        self
    }

    /// Says that a pool's own object does not exist.
    pub fn without_runtime(
        mut self,
        namespace: impl Into<Namespace>,
        runtime: impl Into<RuntimeName>,
    ) -> Self {
        let pool = self.pools.entry((namespace.into(), runtime.into()));
        pool.or_default().without_runtime = true;
        self
    }

    /// Adds a workspace.
    pub fn workspace(mut self, namespace: impl Into<Namespace>, workspace: Workspace) -> Self {
        let key = (namespace.into(), workspace.name.clone());
        self.workspaces.insert(key, Arc::new(workspace));
        self
    }

    /// Says for whom room is kept in a namespace.
    pub fn nominated(
        mut self,
        namespace: impl Into<Namespace>,
        nominated: impl Into<Arc<[Nominated]>>,
    ) -> Self {
        self.nominated.insert(namespace.into(), nominated.into());
        self
    }

    /// Returns the instant of the picture.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Returns what holds capacity.
    pub fn book(&self) -> &Book {
        &self.book
    }

    /// Returns how many Pods a cycle of the Run may look at.
    pub(crate) fn pods_for(&self, run: &Run) -> usize {
        self.pool_of(run).map_or(0, |pool| pool.pods.len())
    }

    /// Takes the snapshot of one Run, with what `book` knows by now.
    pub fn snapshot(&self, book: &Book, run: &Run) -> Snapshot {
        let pool = self.pool_of(run);
        let pods = pool.map_or(&[][..], |pool| &pool.pods);
        let workspace = run.workspace.as_ref().and_then(|name| {
            let key = (run.namespace.clone(), name.clone());
            self.workspaces.get(&key).cloned()
        });
        let nominated = self.nominated.get(&run.namespace);
        Snapshot::new(
            self.now,
            pods.iter().cloned(),
            book.view(run.namespace.as_str()),
        )
        .runtime_exists(pool.is_some_and(|pool| !pool.without_runtime))
        .with_workspace(workspace)
        .with_nominated(nominated.cloned().unwrap_or_default())
    }

    /// Makes an index of the fleet; nothing if a Pod is in it more than once, as only a scan takes it.
    pub(super) fn index(&self, profile: &Profile) -> Option<Index> {
        let mut index = Index::for_profile(profile, self.book.clone());
        for ((namespace, runtime), pool) in &self.pools {
            index.set_runtime(namespace, runtime, !pool.without_runtime);
            for pod in &pool.pods {
                if index.pod(namespace, &pod.name).is_some() {
                    return None;
                }
                index.set_pod(namespace, runtime, pod);
            }
        }
        for ((namespace, _), workspace) in &self.workspaces {
            index.set_workspace(namespace, Arc::clone(workspace));
        }
        Some(index)
    }

    fn pool_of(&self, run: &Run) -> Option<&Pool> {
        self.pools
            .get(&(run.namespace.clone(), run.runtime.clone()))
    }
}
