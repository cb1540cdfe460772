//! The local node: Deployments become Pods, Pods become a Runtime Server and a runtimed.
//!
//! It stands for the deployment controller and for the kubelet, for the
//! Deployments of Runtimes and for nothing else. What a Pod is made of is the
//! business of a [`PodBackend`].

mod backend;
mod local;
mod pod;
mod replicas;
mod servers;

pub use backend::{BackendError, PodBackend, PodSandbox};
pub use local::{BashBackend, BashBackendConfig};
pub(crate) use local::{LOCAL_SERVERS, local_server};
pub use servers::Servers;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use futures::{StreamExt as _, stream};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kruntimes_core::keys;
use kruntimes_k8s::cache::{Cache, Change, ObjectKey};
use kruntimes_k8s::clock::Clock;
use kruntimes_k8s::queue::{self, Outcome, WorkQueue};
use kruntimes_node::LogSink;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::runtime::watcher;
use kube::{Client, ResourceExt as _};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// What the local node is made of.
#[derive(Clone)]
pub struct NodeConfig {
    /// Client of the API service.
    pub client: Client,
    /// Clients for the runtimed of each Pod, so that faults can be told apart.
    pub runtimed_client: Client,
    /// Wall clock.
    pub clock: Clock,
    /// What Pods are made of.
    pub backend: Arc<dyn PodBackend>,
    /// Where the output of Runs goes.
    pub logs: Arc<dyn LogSink>,
    /// Handle of the node.
    pub handle: NodeHandle,
}

/// A handle of a running node: ends it in order, and crashes daemons in tests.
#[derive(Clone, Debug, Default)]
pub struct NodeHandle {
    daemons: Arc<watch::Sender<BTreeMap<String, Arc<Notify>>>>,
    drain: CancellationToken,
    stop: CancellationToken,
    stopped: Arc<watch::Sender<bool>>,
}

impl NodeHandle {
    /// Returns the Pods whose daemon runs as `namespace/name`, in order.
    pub fn pods(&self) -> Vec<String> {
        self.daemons.borrow().keys().cloned().collect()
    }

    /// Drops the daemon of a Pod wherever it is; its Runtime Server stays, and a new daemon starts.
    ///
    /// Returns whether there is such a daemon.
    pub fn crash_daemon(&self, pod: &str) -> bool {
        let daemons = self.daemons.borrow();
        let crash = daemons.get(pod);
        crash.inspect(|crash| crash.notify_one()).is_some()
    }

    /// Ends every daemon in order (N-198) and its Pod with it, and returns when none is left.
    ///
    /// No Run is claimed any more; what is executed has twenty seconds to come to its end.
    pub async fn drain(&self) {
        self.drain.cancel();
        let mut daemons = self.daemons.subscribe();
        // The sender lives in `self`, so waiting cannot fail.
        let _ = daemons.wait_for(BTreeMap::is_empty).await;
    }

    /// Ends every Pod and waits until their processes are gone. The node starts no Pod afterwards.
    pub async fn stop(&self) {
        self.stop.cancel();
        // The sender lives in `self`, so waiting cannot fail.
        let _ = self.stopped.subscribe().wait_for(|stopped| *stopped).await;
    }
}

/// Runs the node until it is stopped. Dropping the future ends its Pods.
pub async fn run(config: NodeConfig) {
    let node = Node {
        deployments: Cache::default(),
        pods: Cache::new(&[("owner", |pod: &Pod| owner(pod).into_iter().collect())]),
        workers: Mutex::default(),
        tasks: Mutex::new(JoinSet::new()),
        config,
    };
    let queue = WorkQueue::new();
    let client = &node.config.client;
    let labelled = watcher::Config::default().labels(keys::LABEL_RUNTIME);
    let deployments = node
        .deployments
        .follow(client.clone(), None, labelled.clone())
        .filter_map(|change| async move { deployment_key(&change) });
    let pods = node
        .pods
        .follow(client.clone(), None, labelled)
        .filter_map(|change| async move { pod_key(&change) });
    let feed = stream::select(deployments, pods).for_each(|key| {
        queue.add(key);
        std::future::ready(())
    });
    let work = async {
        node.deployments.synced().await;
        node.pods.synced().await;
        queue::work(&queue, 4, |key| node.reconcile(key)).await;
    };
    let maintain = async {
        if let Some(artifacts) = node.config.backend.artifacts() {
            kruntimes_node::maintain(client.clone(), artifacts.store).await;
        }
    };
    let stop = node.config.handle.stop.clone();
    let live = Box::pin(async { futures::join!(feed, work, maintain) });
    stop.run_until_cancelled(live).await;
    node.end_all().await;
    node.config.handle.stopped.send_replace(true);
    // A node that was stopped on request is not to be started again.
    std::future::pending::<()>().await;
}

struct Node {
    config: NodeConfig,
    deployments: Cache<Deployment>,
    pods: Cache<Pod>,
    /// Running Pods by UID.
    workers: Mutex<BTreeMap<String, pod::Worker>>,
    tasks: Mutex<JoinSet<()>>,
}

fn owner(pod: &Pod) -> Option<String> {
    let owners = pod.metadata.owner_references.as_ref()?;
    let owner = owners.iter().find(|owner| owner.controller == Some(true))?;
    (owner.kind == "Deployment")
        .then(|| format!("{}/{}", pod.namespace().unwrap_or_default(), owner.name))
}

fn deployment_key(change: &Change<Deployment>) -> Option<ObjectKey> {
    match change {
        Change::Applied { new: object, .. } | Change::Deleted(object) => {
            Some(ObjectKey::of(object.as_ref()))
        }
        Change::Undecodable { .. } | Change::Synced => None,
    }
}

fn pod_key(change: &Change<Pod>) -> Option<ObjectKey> {
    let (Change::Applied { new: pod, .. } | Change::Deleted(pod)) = change else {
        return None;
    };
    let (namespace, name) = owner(pod)?
        .split_once('/')
        .map(|(namespace, name)| (namespace.to_owned(), name.to_owned()))?;
    Some(ObjectKey::new(namespace, name))
}

impl Node {
    /// Brings the Pods of one Deployment to what it asks for.
    async fn reconcile(&self, key: ObjectKey) -> Outcome {
        let deployment = self.deployments.get(&key);
        let pods = self.pods.by_index("owner", &key.to_string());
        let plan = replicas::plan(&key, deployment.as_deref(), &pods);
        self.stop_vanished();
        for pod in &plan.keep {
            self.ensure_worker(pod);
        }
        let api: Api<Pod> = Api::namespaced(self.config.client.clone(), &key.namespace);
        let mut failed = false;
        for pod in plan.create {
            match api.create(&PostParams::default(), &pod).await {
                Ok(pod) => {
                    self.pods.written(pod.clone());
                    self.ensure_worker(&Arc::new(pod));
                }
                Err(kube::Error::Api(status)) if status.is_already_exists() => failed = true,
                Err(error) => {
                    tracing::warn!(deployment = %key, %error, "a Pod cannot be created");
                    failed = true;
                }
            }
        }
        for name in plan.delete {
            self.end_worker(&pods, &name).await;
            match api.delete(&name, &DeleteParams::default()).await {
                Ok(_) => {}
                Err(kube::Error::Api(status)) if status.is_not_found() => {}
                Err(error) => {
                    tracing::warn!(deployment = %key, %error, "a Pod cannot be deleted");
                    failed = true;
                }
            }
        }
        if let Some(deployment) = deployment {
            failed |= !self.report(&key, &deployment).await;
        }
        if failed {
            Outcome::Retry
        } else {
            Outcome::Done
        }
    }

    /// Writes the status of a Deployment when it changed.
    async fn report(&self, key: &ObjectKey, deployment: &Deployment) -> bool {
        let pods = self.pods.by_index("owner", &key.to_string());
        let Some(patch) = replicas::status_patch(deployment, &pods) else {
            return true;
        };
        let api: Api<Deployment> = Api::namespaced(self.config.client.clone(), &key.namespace);
        match api
            .patch_status(&key.name, &PatchParams::default(), &Patch::Merge(patch))
            .await
        {
            Ok(object) => {
                self.deployments.written(object);
                true
            }
            Err(kube::Error::Api(status)) if status.is_not_found() => true,
            Err(error) => {
                tracing::warn!(deployment = %key, %error, "a status cannot be written");
                false
            }
        }
    }

    fn ensure_worker(&self, pod: &Arc<Pod>) {
        let Some(uid) = pod.uid() else { return };
        let mut workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        workers.entry(uid).or_insert_with(|| {
            let (worker, task) = pod::Worker::new(&self.config, pod);
            self.tasks
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .spawn(task);
            worker
        });
    }

    /// Ends a Pod before its object is deleted: one that is gone is proof that nothing of it runs.
    async fn end_worker(&self, pods: &[Arc<Pod>], name: &str) {
        let pod = pods.iter().find(|pod| pod.name_any() == name);
        let Some(uid) = pod.and_then(|pod| pod.uid()) else {
            return;
        };
        let worker = {
            let mut workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
            workers.remove(&uid)
        };
        if let Some(worker) = worker {
            worker.end().cancelled().await;
        }
    }

    /// Ends every Pod and waits until its processes are gone.
    async fn end_all(&self) {
        let workers =
            std::mem::take(&mut *self.workers.lock().unwrap_or_else(PoisonError::into_inner));
        for worker in workers.values() {
            worker.stop();
        }
        let mut tasks =
            std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        while tasks.join_next().await.is_some() {}
    }

    /// Stops the processes of Pods that are gone or on their way out.
    fn stop_vanished(&self) {
        let live: Vec<String> = self
            .pods
            .list()
            .iter()
            .filter(|pod| pod.metadata.deletion_timestamp.is_none())
            .filter_map(|pod| pod.uid())
            .collect();
        let mut workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        workers.retain(|uid, worker| {
            let keep = live.contains(uid);
            if !keep {
                worker.stop();
            }
            keep
        });
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
    }
}
