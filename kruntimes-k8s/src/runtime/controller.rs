//! The shell of the Runtime controller.

use std::sync::Arc;

use futures::{StreamExt as _, stream};
use k8s_openapi::api::apps::v1::Deployment;
use kruntimes_core::api::RuntimeStatus;
use kruntimes_core::condition::{self, ConditionStatus, Fact};
use kruntimes_core::crd::Runtime;
use kruntimes_core::{keys, limits, message, names};
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::runtime::watcher;
use kube::{Client, Resource as _, ResourceExt as _};
use serde_json::Value;

use super::deployment::{self, Defaults};
use crate::cache::{Cache, Change, ObjectKey};
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

/// Why one reconcile did not finish. All are repeated.
#[derive(Debug, thiserror::Error)]
enum Error {
    /// Computed from an old version. No news for anybody, it is only repeated (S-107, N-13).
    #[error("the object has changed meanwhile")]
    Stale,
    #[error("the API refused a write")]
    Api(#[from] kube::Error),
    #[error("an object has no JSON form")]
    Json(#[from] serde_json::Error),
}

struct Shell {
    client: Client,
    clock: Clock,
    defaults: Defaults,
    runtimes: Cache<Runtime>,
    deployments: Cache<Deployment>,
}

/// Keeps the Deployments of all Runtimes, for ever. Dropping the future stops it.
pub async fn run(client: Client, config: Config, clock: Clock) {
    let queue = WorkQueue::new();
    let shell = Shell {
        client: client.clone(),
        clock,
        defaults: config.defaults,
        runtimes: Cache::default(),
        deployments: Cache::default(),
    };
    let namespace = config.namespace.as_deref();
    let runtimes = shell
        .runtimes
        .follow(client.clone(), namespace, watcher::Config::default())
        .filter_map(|change| async move { runtime_key(&change) });
    let deployments = shell
        .deployments
        .follow(client, namespace, watcher::Config::default())
        .filter_map(|change| async move { owner_key(&change) });
    let feed = stream::select(runtimes, deployments).for_each(|key| {
        queue.add(key);
        std::future::ready(())
    });
    let reconcile = |key| shell.reconcile(key);
    let work = async {
        shell.runtimes.synced().await;
        shell.deployments.synced().await;
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

/// Finds the Runtime a Deployment belongs to (N-246).
fn owner_key(change: &Change<Deployment>) -> Option<ObjectKey> {
    let (Change::Applied { new: object, .. } | Change::Deleted(object)) = change else {
        return None;
    };
    let owners = object.metadata.owner_references.as_ref()?;
    let owner = owners.iter().find(|owner| owner.controller == Some(true))?;
    (owner.kind == "Runtime")
        .then(|| ObjectKey::new(object.namespace().unwrap_or_default(), &owner.name))
}

impl Shell {
    async fn reconcile(&self, key: ObjectKey) -> Outcome {
        let Some(runtime) = self.runtimes.get(&key) else {
            return Outcome::Done;
        };
        if runtime.metadata.deletion_timestamp.is_some() {
            return Outcome::Done;
        }
        let made = self.ensure_deployment(&key, &runtime).await;
        let refused = made.as_ref().err().map(Refusal::to_fact);
        let written = self.write_status(&key, &runtime, refused.as_ref()).await;
        match (made, written) {
            // No watch of this controller tells when a foreign object goes.
            (Err(Refusal::Api(Error::Stale)), _)
            | (_, Err(Error::Stale))
            | (Err(Refusal::Foreign(_)), Ok(())) => Outcome::Retry,
            (Err(Refusal::Api(error)), _) | (_, Err(error)) => {
                tracing::warn!(runtime = %key, error = %chain(&error), "reconcile failed, it is repeated");
                Outcome::Retry
            }
            _ => Outcome::Done,
        }
    }

    /// Creates or repairs the Deployment; two passes without a change write nothing (N-237).
    async fn ensure_deployment(&self, key: &ObjectKey, runtime: &Runtime) -> Result<(), Refusal> {
        let Some(owner) = runtime.controller_owner_ref(&()) else {
            return Ok(());
        };
        let desired = deployment::desired(
            &key.name,
            &key.namespace,
            owner,
            &runtime.spec,
            &self.defaults,
        )?;
        let name = names::runtime_objects(&key.name);
        let api: Api<Deployment> = Api::namespaced(self.client.clone(), &key.namespace);
        let known = self.deployments.get(&ObjectKey::new(&key.namespace, &name));
        let existing = if let Some(known) = known {
            known
        } else {
            match api.create(&PostParams::default(), &desired).await {
                Ok(object) => {
                    self.deployments.written(object);
                    return Ok(());
                }
                // The cache lags; what is there may be as outdated as anything found in the cache.
                Err(kube::Error::Api(status)) if status.is_already_exists() => {
                    Arc::new(api.get(&name).await.map_err(Error::from)?)
                }
                Err(error) => return Err(Error::from(error).into()),
            }
        };
        if is_foreign(&existing, &key.name) {
            return Err(Refusal::Foreign(name));
        }
        let want = serde_json::to_value(&desired).map_err(Error::from)?;
        let have = serde_json::to_value(existing.as_ref()).map_err(Error::from)?;
        let object = if deployment::covers(&have, &want) {
            Arc::unwrap_or_clone(existing)
        } else {
            api.patch(&name, &PatchParams::default(), &Patch::Merge(want))
                .await
                .map_err(Error::from)?
        };
        self.deployments.written(object);
        Ok(())
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

/// Tells whether a Deployment belongs to something else than a Runtime of this name.
fn is_foreign(deployment: &Deployment, runtime: &str) -> bool {
    let owners = deployment.metadata.owner_references.iter().flatten();
    owners
        .filter(|owner| owner.controller == Some(true))
        .any(|owner| owner.kind != Runtime::kind(&()) || owner.name != runtime)
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

/// Why a Deployment was not brought to its desired state.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error(transparent)]
    Impossible(#[from] deployment::Error),
    #[error("deployment {0} is controlled by another object")]
    Foreign(String),
    #[error(transparent)]
    Api(#[from] Error),
}

impl Refusal {
    /// Reason and message of the `Ready` condition.
    fn to_fact(&self) -> (String, String) {
        let reason = match self {
            Self::Impossible(error) => error.reason(),
            Self::Foreign(_) | Self::Api(_) => "ReconcileFailed",
        };
        let text = message::bounded(&chain(self), limits::MESSAGE_MAX_BYTES);
        (reason.to_owned(), text)
    }
}
