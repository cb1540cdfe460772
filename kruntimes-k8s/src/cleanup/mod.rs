//! Keeps the maintainers of artifact stores: there while deleted Runs wait for them, gone when idle
//! (node, N-169 to N-171 and N-175).

mod maintainer;

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kruntimes_core::api::ArtifactStore;
use kruntimes_core::condition::{self, ConditionStatus, Fact};
use kruntimes_core::crd::{Run, Runtime};
use kruntimes_core::keys::{
    CONDITION_CLEANUP_PENDING, FINALIZER_ARTIFACT, LABEL_ARTIFACT_STORE_HASH,
};
use kruntimes_core::names;
use kube::api::{Api, DeleteParams, Patch, PatchParams, Preconditions};
use kube::runtime::watcher;
use kube::{Client, ResourceExt as _};
use tokio::time::Instant;

pub use maintainer::{IDENTITY, Image, Maintainer, desired};

use crate::cache::{Cache, Cached, Change, ObjectKey};
use crate::patch::status_patch;
use crate::pool::Shared;
use crate::queue::{self, Outcome, WorkQueue};
use crate::runtime::ensure::{Refusal, ensure};
use crate::{chain, event};

/// Name under which Events are written.
const COMPONENT: &str = "kruntimes-controller";
/// When a deleted Run that still waits is looked at again (N-170).
const RECHECK: Duration = Duration::from_secs(30);
/// How long a maintainer may have nothing to do (N-175).
const IDLE: Duration = Duration::from_secs(600);

/// Index of deleted Runs whose data is to be removed, by namespace and store.
pub(crate) const BY_STORE: &str = "store";

/// Returns the place of a deleted Run in that index.
pub(crate) fn waits_for(run: &Run) -> Option<String> {
    let store = run.status.as_ref()?.artifact_store.as_ref()?;
    let waits = is_deleted(run) && has_data(run);
    waits.then(|| {
        place(
            &run.namespace().unwrap_or_default(),
            &names::artifact_store(store),
        )
    })
}

fn place(namespace: &str, hash: &str) -> String {
    format!("{namespace}/{hash}")
}

fn is_deleted(run: &Run) -> bool {
    run.metadata.deletion_timestamp.is_some()
}

fn has_data(run: &Run) -> bool {
    run.finalizers().iter().any(|f| f == FINALIZER_ARTIFACT)
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Run(ObjectKey),
    Maintainer(ObjectKey),
}

pub(crate) struct Controller {
    shared: Shared,
    image: Image,
    queue: WorkQueue<Key>,
    idle_since: Mutex<BTreeMap<ObjectKey, Instant>>,
    deployments: Cache<Deployment>,
    accounts: Cache<ServiceAccount>,
    roles: Cache<Role>,
    bindings: Cache<RoleBinding>,
}

/// Why a Run was not helped.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("the maintainer of its artifact store cannot be made")]
    Refused(#[from] Refusal),
    #[error("the API refused a write")]
    Api(#[from] kube::Error),
    #[error("a status has no JSON form")]
    Json(#[from] serde_json::Error),
}

impl Controller {
    pub(crate) fn new(shared: &Shared, image: Image) -> Self {
        Self {
            shared: shared.clone(),
            image,
            queue: WorkQueue::new(),
            idle_since: Mutex::default(),
            deployments: Cache::default(),
            accounts: Cache::default(),
            roles: Cache::default(),
            bindings: Cache::default(),
        }
    }

    /// Takes note of a Run; one that has no artifacts costs nothing.
    pub(crate) fn run_changed(&self, change: &Change<Run>) {
        match change {
            Change::Applied { new: run, .. } if has_data(run) => {
                let known = run
                    .status
                    .as_ref()
                    .is_some_and(|s| s.artifact_store.is_some());
                if is_deleted(run) || !known {
                    self.queue.add(Key::Run(ObjectKey::of(run.as_ref())));
                }
            }
            Change::Deleted(run) => {
                if let Some(store) = run.status.as_ref().and_then(|s| s.artifact_store.as_ref()) {
                    let name = names::maintainer(&names::artifact_store(store));
                    let namespace = run.namespace().unwrap_or_default();
                    self.queue
                        .add(Key::Maintainer(ObjectKey::new(namespace, name)));
                }
            }
            Change::Applied { .. } | Change::Undecodable { .. } | Change::Synced => {}
        }
    }

    /// Follows what it makes, and works, for ever.
    pub(crate) async fn work(
        &self,
        namespace: Option<&str>,
        workers: usize,
        runtimes: &Cache<Runtime>,
    ) {
        let client = &self.shared.client;
        let ours = watcher::Config::default().labels(maintainer::SELECTOR);
        let deployments = self
            .deployments
            .follow(client.clone(), namespace, ours.clone());
        let deployments = futures::StreamExt::for_each(deployments, |change| {
            if let Change::Applied { new: object, .. } | Change::Deleted(object) = &change {
                self.queue
                    .add(Key::Maintainer(ObjectKey::of(object.as_ref())));
            }
            std::future::ready(())
        });
        let work = async {
            self.deployments.synced().await;
            self.accounts.synced().await;
            self.roles.synced().await;
            self.bindings.synced().await;
            queue::work(&self.queue, workers, |key| self.reconcile(key, runtimes)).await;
        };
        futures::join!(
            deployments,
            keep(&self.accounts, client, namespace, &ours),
            keep(&self.roles, client, namespace, &ours),
            keep(&self.bindings, client, namespace, &ours),
            work
        );
    }

    async fn reconcile(&self, key: Key, runtimes: &Cache<Runtime>) -> Outcome {
        match key {
            Key::Maintainer(key) => self.idle(&key).await,
            Key::Run(key) => {
                let Some(run) = self.shared.runs.get(&key).filter(|run| has_data(run)) else {
                    return Outcome::Done;
                };
                match self.help(&key, &run, runtimes).await {
                    Ok(outcome) => outcome,
                    Err(Error::Api(kube::Error::Api(status))) if status.is_conflict() => {
                        Outcome::Retry
                    }
                    Err(Error::Api(kube::Error::Api(status))) if status.is_not_found() => {
                        Outcome::Done
                    }
                    Err(error) => {
                        let told = chain(&error);
                        tracing::warn!(run = %key, error = told, "cleanup is tried again");
                        self.tell(&run, true, "ArtifactCleanupRetry", &told).await;
                        Outcome::After(RECHECK)
                    }
                }
            }
        }
    }

    /// Sees to it that somebody removes the data of a Run (N-169, N-170).
    async fn help(
        &self,
        key: &ObjectKey,
        run: &Run,
        runtimes: &Cache<Runtime>,
    ) -> Result<Outcome, Error> {
        let status = run.status.clone().unwrap_or_default();
        let Some(store) = &status.artifact_store else {
            let runtime = runtimes.get(&ObjectKey::new(&key.namespace, &run.spec.runtime));
            let store = runtime.and_then(|runtime| runtime.spec.artifact_store.clone());
            return self.complete(key, run, store).await;
        };
        if !is_deleted(run) {
            return Ok(Outcome::Done);
        }
        let made = desired(&key.namespace, store, &self.image);
        let name = made.deployment.name_any();
        self.idle_since()
            .remove(&ObjectKey::new(&key.namespace, &name));
        let client = &self.shared.client;
        let mut written = ensure(client, &self.accounts, &made.account).await?;
        written |= ensure(client, &self.roles, &made.role).await?;
        written |= ensure(client, &self.bindings, &made.binding).await?;
        written |= ensure(client, &self.deployments, &made.deployment).await?;
        if written {
            let text = format!("deployment {name} removes the artifacts of this run");
            self.tell(run, false, "RuntimeMaintainerEnsured", &text)
                .await;
        }
        Ok(Outcome::After(RECHECK))
    }

    /// Writes down where the data is, or that nobody knows (N-169).
    async fn complete(
        &self,
        key: &ObjectKey,
        run: &Run,
        store: Option<ArtifactStore>,
    ) -> Result<Outcome, Error> {
        let old = run.status.clone().unwrap_or_default();
        let mut new = old.clone();
        match store {
            Some(store) => new.artifact_store = Some(store),
            None if !is_deleted(run) => return Ok(Outcome::Done),
            None => {
                let runtime = &run.spec.runtime;
                let text = format!(
                    "neither status.artifactStore nor the Runtime {runtime} tells where the artifacts of \
                     this run are: whoever knows that they are gone may remove the finalizer \
                     {FINALIZER_ARTIFACT}"
                );
                let fact = Fact::new(
                    CONDITION_CLEANUP_PENDING,
                    ConditionStatus::True,
                    "ArtifactStoreUnknown",
                    &text,
                );
                let now = self.shared.clock.now();
                condition::set(&mut new.conditions, &fact, now.into());
            }
        }
        let version = run.resource_version();
        if let Some(patch) = status_patch(version.as_deref(), &old, &new)? {
            let api: Api<Run> = Api::namespaced(self.shared.client.clone(), &key.namespace);
            let params = PatchParams::default();
            let run = api
                .patch_status(&key.name, &params, &Patch::Merge(patch))
                .await?;
            self.shared.runs.written(run);
            self.queue.add(Key::Run(key.clone()));
        }
        // The Runtime may come back.
        Ok(Outcome::After(RECHECK))
    }

    fn idle_since(&self) -> std::sync::MutexGuard<'_, BTreeMap<ObjectKey, Instant>> {
        // A panic elsewhere leaves plain values behind, which stay usable.
        self.idle_since
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes a maintainer that has had nothing to do for a while (N-175).
    async fn idle(&self, key: &ObjectKey) -> Outcome {
        let Some(deployment) = self.deployments.get(key) else {
            self.idle_since().remove(key);
            return Outcome::Done;
        };
        let Some(hash) = deployment.labels().get(LABEL_ARTIFACT_STORE_HASH) else {
            return Outcome::Done;
        };
        let waiting = self
            .shared
            .runs
            .by_index(BY_STORE, &place(&key.namespace, hash));
        if !waiting.is_empty() {
            self.idle_since().remove(key);
            for run in waiting {
                self.queue.add(Key::Run(ObjectKey::of(run.as_ref())));
            }
            return Outcome::Done;
        }
        let since = *(self.idle_since().entry(key.clone())).or_insert_with(Instant::now);
        let left = IDLE.saturating_sub(since.elapsed());
        if !left.is_zero() {
            return Outcome::After(left);
        }
        let api: Api<Deployment> = Api::namespaced(self.shared.client.clone(), &key.namespace);
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                uid: deployment.uid(),
                resource_version: None,
            }),
            ..DeleteParams::background()
        };
        match api.delete(&key.name, &params).await {
            Ok(_) => Outcome::Done,
            Err(kube::Error::Api(status)) if status.is_not_found() => Outcome::Done,
            Err(error) => {
                tracing::warn!(maintainer = %key, error = %chain(&error), "it stays for now");
                Outcome::Retry
            }
        }
    }

    async fn tell(&self, run: &Run, warning: bool, reason: &str, text: &str) {
        let (client, now) = (&self.shared.client, self.shared.clock.now());
        let kind = if warning { "Warning" } else { "Normal" };
        event::record(client, run, (COMPONENT, kind, reason), text, now).await;
    }
}

/// Keeps a local copy of what maintainers share.
async fn keep<K: Cached>(
    cache: &Cache<K>,
    client: &Client,
    namespace: Option<&str>,
    config: &watcher::Config,
) {
    let changes = cache.follow(client.clone(), namespace, config.clone());
    futures::StreamExt::for_each(changes, |_| std::future::ready(())).await;
}
