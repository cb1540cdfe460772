//! Removing what deleted Runs have in a store (node, section 12.7).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt as _;
use kruntimes_core::crd::Run;
use kruntimes_core::keys::FINALIZER_ARTIFACT;
use kruntimes_core::names;
use kruntimes_k8s::cache::{Cache, Change, ObjectKey};
use kruntimes_k8s::clock::Clock;
use kruntimes_k8s::event;
use kruntimes_k8s::queue::{self, Outcome, WorkQueue};
use kruntimes_k8s::serve::{Counter, Registry};
use kube::api::{ListParams, Patch, PatchParams};
use kube::runtime::watcher;
use kube::{Api, Client, ResourceExt as _};
use serde_json::json;
use tokio::time::sleep;

use super::Store;
use super::collect::{joined, remove_run};

/// Runs that are cleaned at once.
const WORKERS: usize = 4;
/// Distance of two looks at all that waits, against an event that was missed (N-172).
const EVERY: Duration = Duration::from_secs(10);
/// Name under which Events are written.
const COMPONENT: &str = "runtime-maintainer";

/// Removes the artifacts of deleted Runs from one store and lets the Runs go.
///
/// Runs of other stores are left alone (N-173). One whose data cannot be removed is tried again and again,
/// says so in Events, and holds up no other (N-174).
pub struct Maintainer {
    client: Client,
    store: Arc<dyn Store>,
    hash: String,
    namespace: Option<String>,
    clock: Clock,
    registry: Registry,
}

/// Why a Run could not be cleaned.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MaintainError {
    /// The API refuses or cannot be reached.
    #[error("the API refused a request")]
    Api(#[from] kube::Error),
    /// Nothing is to be done, or not by this maintainer.
    #[error("there is no deleted run {uid} of this store")]
    NoRun {
        /// UID of the Run.
        uid: String,
    },
    /// The store failed.
    #[error("artifacts cannot be removed: {0}")]
    Store(
        /// What it says.
        String,
    ),
}

/// Removes the artifacts of deleted Runs from one store, for ever and in all namespaces.
pub async fn maintain(client: Client, store: Arc<dyn Store>) {
    Maintainer::new(client, store).run().await;
}

impl Maintainer {
    /// Makes a maintainer of all namespaces, for Runs with the very settings of the store.
    pub fn new(client: Client, store: Arc<dyn Store>) -> Self {
        Self {
            client,
            hash: names::artifact_store(&store.settings()),
            store,
            namespace: None,
            clock: Clock::system(),
            registry: Registry::new(),
        }
    }

    /// Serves one namespace only.
    pub fn in_namespace(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.to_owned());
        self
    }

    /// Serves Runs whose settings have this name, see [`names::artifact_store`].
    pub fn for_hash(mut self, hash: &str) -> Self {
        hash.clone_into(&mut self.hash);
        self
    }

    /// Takes the time of Events from this clock.
    pub fn with_clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Counts in this registry.
    pub fn with_registry(mut self, registry: Registry) -> Self {
        self.registry = registry;
        self
    }

    /// Works for ever. Dropping the future stops it.
    pub async fn run(self) {
        let runs: Cache<Run> = Cache::new(&[]);
        let queue = WorkQueue::new();
        let work = Work::new(&self);
        let hash = self.hash.as_str();
        let (seen, ours) = (runs.clone(), self.hash.clone());
        self.registry.reading(
            "kruntimes_artifact_cleanup_pending_runs",
            "Deleted Runs of this store whose artifacts are still to be removed.",
            &[],
            move || {
                let waiting = seen.list().iter().filter(|run| is_ours(run, &ours)).count();
                Some(f64::from(u32::try_from(waiting).unwrap_or(u32::MAX)))
            },
        );
        let namespace = self.namespace.as_deref();
        let config = watcher::Config::default();
        let changes = runs.follow(self.client.clone(), namespace, config);
        let feed = changes.for_each(|change| {
            if let Change::Applied { new, .. } = change
                && is_ours(&new, hash)
            {
                queue.add(ObjectKey::of(new.as_ref()));
            }
            std::future::ready(())
        });
        let again = async {
            loop {
                sleep(EVERY).await;
                for run in runs.list().iter().filter(|run| is_ours(run, hash)) {
                    // One that is waiting for its next try keeps its place.
                    if work.tries(run) == 0 {
                        queue.add(ObjectKey::of(run.as_ref()));
                    }
                }
            }
        };
        let clean = queue::work(&queue, WORKERS, |key| {
            let (runs, work) = (&runs, &work);
            async move {
                match runs.get(&key) {
                    Some(run) if is_ours(&run, hash) => work.reconcile(&run).await,
                    Some(_) | None => Outcome::Done,
                }
            }
        });
        futures::join!(feed, again, clean);
    }

    /// Cleans one Run, once (N-172).
    ///
    /// # Errors
    ///
    /// Fails when there is no such Run to clean, and when the store or the API fails.
    pub async fn once(&self, uid: &str) -> Result<(), MaintainError> {
        let api: Api<Run> = match &self.namespace {
            Some(namespace) => Api::namespaced(self.client.clone(), namespace),
            None => Api::all(self.client.clone()),
        };
        let runs = api.list(&ListParams::default()).await?;
        let found = runs
            .iter()
            .find(|run| run.uid().as_deref() == Some(uid) && is_ours(run, &self.hash));
        match found {
            Some(run) => Work::new(self).clean(run).await,
            None => Err(MaintainError::NoRun {
                uid: uid.to_owned(),
            }),
        }
    }
}

fn is_ours(run: &Run, hash: &str) -> bool {
    let settings = run.status.as_ref().and_then(|s| s.artifact_store.as_ref());
    run.metadata.deletion_timestamp.is_some()
        && run.finalizers().iter().any(|f| f == FINALIZER_ARTIFACT)
        && settings.is_some_and(|settings| names::artifact_store(settings) == hash)
}

/// What all reconciles share.
struct Work<'a> {
    maintainer: &'a Maintainer,
    /// How often each Run has failed, by UID.
    failures: Mutex<BTreeMap<String, u32>>,
    operations: Counter,
}

impl<'a> Work<'a> {
    fn new(maintainer: &'a Maintainer) -> Self {
        Self {
            maintainer,
            failures: Mutex::default(),
            operations: maintainer.registry.counter(
                "kruntimes_artifact_operations_total",
                "Operations on the artifact store by how they ended.",
                &["driver", "op", "result"],
            ),
        }
    }

    fn failures(&self) -> MutexGuard<'_, BTreeMap<String, u32>> {
        // A panic elsewhere leaves plain values behind, which stay usable.
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tries(&self, run: &Run) -> u32 {
        let uid = run.metadata.uid.as_deref().unwrap_or_default();
        self.failures().get(uid).copied().unwrap_or_default()
    }

    async fn reconcile(&self, run: &Run) -> Outcome {
        let uid = run.uid().unwrap_or_default();
        let Err(error) = self.clean(run).await else {
            self.failures().remove(&uid);
            return Outcome::Done;
        };
        let tries = self.tries(run).saturating_add(1);
        self.failures().insert(uid, tries);
        let text = format!("try {tries}: {error}");
        tracing::warn!(run = run.name_any(), text, "a deleted run stays for now");
        if let MaintainError::Store(_) = error {
            let told = (COMPONENT, "Warning", "ArtifactCleanupRetry");
            let (client, now) = (&self.maintainer.client, self.maintainer.clock.now());
            event::record(client, run, told, &text, now).await;
        }
        Outcome::Retry
    }

    /// Removes the data, then the finalizer; both may be repeated.
    async fn clean(&self, run: &Run) -> Result<(), MaintainError> {
        let (name, namespace) = (run.name_any(), run.namespace().unwrap_or_default());
        let uid = run.uid().unwrap_or_default();
        let store = &self.maintainer.store;
        let driver = match store.settings().driver {
            kruntimes_core::api::ArtifactDriver::Filesystem => "filesystem",
            kruntimes_core::api::ArtifactDriver::S3 => "s3",
        };
        let removed = remove_run(Arc::clone(store), &namespace, &uid).await;
        let result = if removed.is_ok() {
            "success"
        } else {
            "failure"
        };
        self.operations.add(&[driver, "delete_run", result], 1);
        removed.map_err(|error| MaintainError::Store(joined(&error, Ok(()))))?;
        let mut left = run.finalizers().to_vec();
        left.retain(|finalizer| finalizer != FINALIZER_ARTIFACT);
        let patch = Patch::Merge(json!({ "metadata": {
            "uid": uid,
            "resourceVersion": run.metadata.resource_version,
            "finalizers": left,
        }}));
        let api: Api<Run> = Api::namespaced(self.maintainer.client.clone(), &namespace);
        match api.patch(&name, &PatchParams::default(), &patch).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
