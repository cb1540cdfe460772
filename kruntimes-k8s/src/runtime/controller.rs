//! The shell of the Runtime controller.

use futures::stream::BoxStream;
use futures::{StreamExt as _, stream};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Service, ServiceAccount};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kruntimes_core::api::RuntimeStatus;
use kruntimes_core::condition::{self, ConditionStatus, Fact};
use kruntimes_core::crd::Runtime;
use kruntimes_core::{keys, names};
use kube::api::{Api, Patch, PatchParams};
use kube::runtime::watcher;
use kube::{Client, Resource as _, ResourceExt as _};
use serde_json::Value;

use super::children::{self, Children, DAEMON_SELECTOR};
use super::deployment::{self, Defaults};
use super::ensure::{Error, Refusal, ensure};
use crate::cache::{Cache, Cached, Change, ObjectKey};
use crate::chain;
use crate::clock::Clock;
use crate::patch::status_patch;
use crate::queue::{self, Outcome, WorkQueue};

/// What the Runtime controller is told at start.
#[derive(Clone, Debug)]
pub struct Config {
    /// Namespace to serve; all when absent.
    pub namespace: Option<String>,
    /// What Runtimes get that say nothing else.
    pub defaults: Defaults,
    /// Reconciles at once.
    pub workers: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            namespace: None,
            defaults: Defaults::default(),
            workers: 4,
        }
    }
}

struct Shell {
    client: Client,
    clock: Clock,
    defaults: Defaults,
    runtimes: Cache<Runtime>,
    deployments: Cache<Deployment>,
    services: Cache<Service>,
    policies: Cache<NetworkPolicy>,
    accounts: Cache<ServiceAccount>,
    roles: Cache<Role>,
    bindings: Cache<RoleBinding>,
}

/// Keeps what all Runtimes need, for ever. Dropping the future stops it.
pub async fn run(client: Client, config: Config, clock: Clock) {
    let queue = WorkQueue::new();
    let shell = Shell {
        client: client.clone(),
        clock,
        defaults: config.defaults,
        runtimes: Cache::default(),
        deployments: Cache::default(),
        services: Cache::default(),
        policies: Cache::default(),
        accounts: Cache::default(),
        roles: Cache::default(),
        bindings: Cache::default(),
    };
    let namespace = config.namespace.as_deref();
    let runtimes = shell
        .runtimes
        .follow(client, namespace, watcher::Config::default())
        .map(|change| runtime_key(&change).into_iter().collect());
    let owned = watcher::Config::default().labels(keys::LABEL_RUNTIME);
    let daemons = watcher::Config::default().labels(DAEMON_SELECTOR);
    let keys = stream::select_all([
        runtimes.boxed(),
        shell.owned(&shell.deployments, namespace, &owned),
        shell.owned(&shell.services, namespace, &owned),
        shell.owned(&shell.policies, namespace, &owned),
        shell.shared(&shell.accounts, namespace, &daemons),
        shell.shared(&shell.roles, namespace, &daemons),
        shell.shared(&shell.bindings, namespace, &daemons),
    ]);
    let feed = keys.for_each(|keys: Vec<ObjectKey>| {
        for key in keys {
            queue.add(key);
        }
        std::future::ready(())
    });
    let reconcile = |key| shell.reconcile(key);
    let work = async {
        shell.synced().await;
        queue::work(&queue, config.workers, reconcile).await;
    };
    futures::join!(feed, work);
}

fn runtime_key(change: &Change<Runtime>) -> Option<ObjectKey> {
    match change {
        Change::Applied { new, .. } => Some(ObjectKey::of(new.as_ref())),
        Change::Undecodable { key, error } => {
            tracing::warn!(runtime = %key, error, "a Runtime cannot be decoded and is left alone");
            None
        }
        Change::Deleted(_) | Change::Synced => None,
    }
}

/// Finds the Runtime an object belongs to (N-246).
fn owner_key<K: Cached>(change: &Change<K>) -> Option<ObjectKey> {
    let (Change::Applied { new: object, .. } | Change::Deleted(object)) = change else {
        return None;
    };
    let owners = object.meta().owner_references.as_ref()?;
    let owner = owners.iter().find(|owner| owner.controller == Some(true))?;
    (owner.kind == "Runtime")
        .then(|| ObjectKey::new(object.namespace().unwrap_or_default(), &owner.name))
}

impl Shell {
    async fn synced(&self) {
        self.runtimes.synced().await;
        self.deployments.synced().await;
        self.services.synced().await;
        self.policies.synced().await;
        self.accounts.synced().await;
        self.roles.synced().await;
        self.bindings.synced().await;
    }

    /// Follows objects that belong to one Runtime each.
    fn owned<K: Cached>(
        &self,
        cache: &Cache<K>,
        namespace: Option<&str>,
        config: &watcher::Config,
    ) -> BoxStream<'_, Vec<ObjectKey>> {
        cache
            .follow(self.client.clone(), namespace, config.clone())
            .map(|change| owner_key(&change).into_iter().collect())
            .boxed()
    }

    /// Follows objects that all Runtimes of a namespace may need (N-240).
    fn shared<K: Cached>(
        &self,
        cache: &Cache<K>,
        namespace: Option<&str>,
        config: &watcher::Config,
    ) -> BoxStream<'_, Vec<ObjectKey>> {
        cache
            .follow(self.client.clone(), namespace, config.clone())
            .map(|change| match change {
                Change::Applied { new: object, .. } | Change::Deleted(object) => {
                    self.neighbours(&object.namespace().unwrap_or_default())
                }
                Change::Undecodable { .. } | Change::Synced => Vec::new(),
            })
            .boxed()
    }

    fn neighbours(&self, namespace: &str) -> Vec<ObjectKey> {
        let runtimes = self.runtimes.list();
        let keys = runtimes
            .iter()
            .map(|runtime| ObjectKey::of(runtime.as_ref()));
        keys.filter(|key| key.namespace == namespace).collect()
    }

    async fn reconcile(&self, key: ObjectKey) -> Outcome {
        let Some(runtime) = self.runtimes.get(&key) else {
            return Outcome::Done;
        };
        if runtime.metadata.deletion_timestamp.is_some() {
            return Outcome::Done;
        }
        let made = self.ensure_all(&key, &runtime).await;
        let refused = made.as_ref().err().map(Refusal::to_fact);
        let written = self.write_status(&key, &runtime, refused.as_ref()).await;
        match (made, written) {
            // No watch of this controller tells when a foreign object goes.
            (Err(Refusal::Api(Error::Stale)), _)
            | (_, Err(Error::Stale))
            | (Err(Refusal::Foreign { .. }), Ok(())) => Outcome::Retry,
            (Err(Refusal::Api(error)), _) | (_, Err(error)) => {
                tracing::warn!(runtime = %key, error = %chain(&error), "reconcile failed, it is repeated");
                Outcome::Retry
            }
            _ => Outcome::Done,
        }
    }

    /// Brings every derived object to its desired state; returns the first refusal, after having tried all (N-237).
    async fn ensure_all(&self, key: &ObjectKey, runtime: &Runtime) -> Result<(), Refusal> {
        let Some(owner) = runtime.controller_owner_ref(&()) else {
            return Ok(());
        };
        // What is impossible leaves everything as it is (N-236, N-243).
        let deployment = deployment::desired(
            &key.name,
            &key.namespace,
            owner.clone(),
            &runtime.spec,
            &self.defaults,
        )?;
        let Children {
            account,
            role,
            binding,
            service,
            policy,
        } = children::desired(
            &key.name,
            &key.namespace,
            &owner,
            &deployment::account(&deployment, &self.defaults),
            self.defaults.gateway_namespace.as_deref(),
        );
        let client = &self.client;
        // Pods cannot be made before their account is there.
        let tried = [
            ensure(client, &self.accounts, &account).await,
            ensure(client, &self.roles, &role).await,
            ensure(client, &self.bindings, &binding).await,
            ensure(client, &self.services, &service).await,
            ensure(client, &self.policies, &policy).await,
            ensure(client, &self.deployments, &deployment).await,
        ];
        tried.into_iter().try_for_each(|tried| tried.map(drop))
    }

    /// Reports the ready replicas, also while the Deployment cannot be reconciled (N-245, N-247).
    async fn write_status(
        &self,
        key: &ObjectKey,
        runtime: &Runtime,
        refused: Option<&(String, String)>,
    ) -> Result<(), Error> {
        let deployment = names::runtime_objects(&key.name);
        let ready = self
            .deployments
            .get(&ObjectKey::new(&key.namespace, deployment))
            .and_then(|d| d.status.as_ref()?.ready_replicas)
            .unwrap_or(0);
        let status = derive_status(runtime, ready, refused, &self.clock);
        let old = runtime
            .status
            .as_ref()
            .map(serde_json::to_value)
            .transpose()?;
        let new = serde_json::to_value(&status)?;
        let version = runtime.resource_version();
        let old = old.unwrap_or(Value::Null);
        let Some(patch) = status_patch(version.as_deref(), &old, &new)? else {
            return Ok(());
        };
        let api: Api<Runtime> = Api::namespaced(self.client.clone(), &key.namespace);
        match api
            .patch_status(&key.name, &PatchParams::default(), &Patch::Merge(patch))
            .await
        {
            Ok(object) => {
                self.runtimes.written(object);
                Ok(())
            }
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
            Err(kube::Error::Api(status)) if status.is_conflict() => Err(Error::Stale),
            Err(error) => Err(error.into()),
        }
    }
}

/// Derives the status of a Runtime from what was observed (API reference, section 4.3).
fn derive_status(
    runtime: &Runtime,
    ready: i32,
    refused: Option<&(String, String)>,
    clock: &Clock,
) -> RuntimeStatus {
    let mut status = runtime.status.clone().unwrap_or_default();
    status.ready_replicas = ready;
    let replicas = format!("{ready} replicas are ready");
    let (holds, reason, text) = match refused {
        Some((reason, text)) => (ConditionStatus::False, reason.as_str(), text.as_str()),
        None if ready >= 1 => (ConditionStatus::True, "ReplicasReady", replicas.as_str()),
        None => (
            ConditionStatus::False,
            "NoReadyReplicas",
            "no replica is ready",
        ),
    };
    let fact =
        Fact::new(keys::CONDITION_READY, holds, reason, text).observed(runtime.metadata.generation);
    condition::set(&mut status.conditions, &fact, clock.now().into());
    status
}
