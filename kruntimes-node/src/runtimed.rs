//! The component itself: what runs at once and how it ends.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use kruntimes_core::crd::Run;
use kruntimes_core::resources::Amounts;
use kruntimes_k8s::cache::{Change, ObjectKey};
use kruntimes_k8s::clock::Clock;
use kruntimes_k8s::queue::{self, WorkQueue};
use kruntimes_k8s::serve::{Doors, Registry};
use kruntimes_proto::RuntimeClient;
use kube::runtime::watcher;
use kube::{Api, Client, ResourceExt};
use tokio::net::TcpListener;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::artifact::Artifacts;
use crate::config::Config;
use crate::events::Events;
use crate::files::NodeDirs;
use crate::logs::LogSink;
use crate::metrics::{self, Metrics};
use crate::node::{Node, run_cache};
use crate::readiness::{self, Pulse};
use crate::server::Server;
use crate::table::Table;
use crate::tasks::Tasks;
use crate::workspace::Workspaces;
use crate::{heartbeat, push, reconcile, recovery, status, workspace};

/// How long a shutdown waits for work that is about to end (N-198).
const DRAIN: Duration = Duration::from_secs(20);
/// Wait between two tries to read the own Pod.
const AGAIN: Duration = Duration::from_secs(1);

/// One runtimed.
pub struct Runtimed {
    config: Config,
    client: Client,
    runtime: Arc<dyn RuntimeClient>,
    clock: Clock,
    logs: Arc<dyn LogSink>,
    files: NodeDirs,
    artifacts: Option<Artifacts>,
    status: Option<TcpListener>,
    doors: Option<Doors>,
    registry: Registry,
    shutdown: CancellationToken,
}

impl Runtimed {
    /// Puts a runtimed together; nothing happens before [`run`](Self::run).
    pub fn new(
        config: Config,
        client: Client,
        runtime: Arc<dyn RuntimeClient>,
        clock: Clock,
        logs: Arc<dyn LogSink>,
        files: NodeDirs,
    ) -> Self {
        Self {
            config,
            client,
            runtime,
            clock,
            logs,
            files,
            artifacts: None,
            status: None,
            doors: None,
            registry: Registry::new(),
            shutdown: CancellationToken::new(),
        }
    }

    /// Ends [`run`](Self::run) in order when `shutdown` is cancelled: nothing new is claimed, and tasks
    /// that end within twenty seconds are still recorded. No status is written for a shutdown (N-198).
    pub fn with_shutdown(mut self, shutdown: CancellationToken) -> Self {
        self.shutdown = shutdown;
        self
    }

    /// Keeps what tasks leave behind; without it they have no directory for artifacts.
    pub fn with_artifacts(mut self, artifacts: Option<Artifacts>) -> Self {
        self.artifacts = artifacts;
        self
    }

    /// Answers other components here: execution status, and artifacts if they are kept (N-6, N-7).
    pub fn with_status_listener(mut self, listener: Option<TcpListener>) -> Self {
        self.status = listener;
        self
    }

    /// Tells metrics and health there, from the first moment on; readiness once the own Pod is known (N-23).
    pub fn with_doors(mut self, doors: Option<Doors>) -> Self {
        self.doors = doors;
        self
    }

    /// Counts in this registry.
    pub fn with_registry(mut self, registry: Registry) -> Self {
        self.registry = registry;
        self
    }

    /// Serves the Pod until it is shut down. Dropping the future stops everything at once; executions
    /// live on at the Runtime Server, and the next process takes them up.
    pub async fn run(mut self) {
        let known = Arc::new(AtomicBool::new(false));
        let ready = readiness::check(
            self.client.clone(),
            &self.config.namespace,
            Arc::clone(&self.runtime),
            &known,
            &self.shutdown,
        );
        let (doors, registry) = (self.doors.take(), self.registry.clone());
        let answer = async {
            match doors {
                Some(doors) => doors.serve(registry, ready).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = Box::pin(self.work(&known)) => {}
            () = answer => {}
        }
    }

    async fn work(self, known: &AtomicBool) {
        let (pod_uid, pod) = self.learn_pod().await;
        known.store(true, Ordering::Relaxed);
        let (tasks, owner) = Tasks::new();
        let (events, outbox) = Events::new(&self.config.pod_name);
        let namespace = self.config.namespace.clone();
        let metrics = Metrics::new(&self.registry, &self.config.runtime);
        let node = Arc::new(Node {
            api: Api::namespaced(self.client.clone(), &self.config.namespace),
            config: self.config,
            pod_uid,
            runs: run_cache(),
            workspaces: Workspaces::new(self.client.clone(), &namespace),
            queue: WorkQueue::new(),
            table: Table::new(),
            server: Server::new(self.runtime),
            events,
            logs: self.logs,
            files: self.files,
            artifacts: self.artifacts,
            clock: self.clock,
            metrics,
            pulse: Pulse::default(),
            tasks,
            capacity: Mutex::new(Amounts::new()),
            leaving: AtomicBool::new(false),
            draining: self.shutdown.clone(),
        });
        metrics::read_from(&self.registry, &node);
        node.set_capacity(pod.iter().flat_map(ResourceExt::annotations));
        let work = async {
            recovery::recover(&node).await;
            let workers = node.config.reconciles();
            let reconcile = |key| reconcile::reconcile(&node, key);
            tokio::join!(
                queue::work(&node.queue, workers, reconcile),
                push::follow(&node),
            );
        };
        tokio::select! {
            // In a fixed order, so that equal runs stay equal.
            biased;
            () = drain(&node) => {}
            () = work => {}
            () = follow_runs(&node, self.client.clone()) => {}
            () = status::serve(&node, self.status) => {}
            () = workspace::tend(&node, self.client.clone()) => {}
            () = heartbeat::beat(&node, self.client.clone()) => {}
            () = outbox.deliver(self.client.clone(), &namespace) => {}
        }
        drop(owner);
    }

    /// Returns the UID of the own Pod and, if it can be read, the Pod (N-22).
    async fn learn_pod(&self) -> (String, Option<Pod>) {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &self.config.namespace);
        loop {
            let found = api.get_opt(&self.config.pod_name).await;
            let configured = self.config.pod_uid.clone();
            match found {
                Ok(pod) => {
                    let uid = configured.or_else(|| pod.as_ref().and_then(ResourceExt::uid));
                    if let Some(uid) = uid {
                        return (uid, pod);
                    }
                    tracing::warn!(pod = self.config.pod_name, "own pod is not found");
                }
                Err(error) => {
                    if let Some(uid) = configured {
                        return (uid, None);
                    }
                    tracing::warn!(%error, "own pod cannot be read");
                }
            }
            sleep(AGAIN).await;
        }
    }
}

/// Keeps the local copy of Runs and puts those of this Pod into the queue.
async fn follow_runs(node: &Node, client: Client) {
    let namespace = node.config.namespace.as_str();
    let config = watcher::Config::default();
    let changes = node.runs.follow(client, Some(namespace), config);
    let mut changes = std::pin::pin!(changes);
    while let Some(change) = changes.next().await {
        on_change(node, &change);
    }
}

fn on_change(node: &Node, change: &Change<Run>) {
    if let Change::Applied { new: run, .. } | Change::Deleted(run) = change
        && run.spec.workspace.is_some()
    {
        node.workspaces.look();
    }
    let concerns =
        |run: &Run, key: &ObjectKey| node.is_mine(run) || !node.table.held_as(key).is_empty();
    match change {
        Change::Applied { new, .. } => {
            let key = ObjectKey::of(new.as_ref());
            if concerns(new, &key) {
                node.queue.add(key);
            }
        }
        Change::Deleted(run) => {
            if let Some(uid) = run.uid() {
                node.table.unmark_released(&uid);
            }
            let key = ObjectKey::of(run.as_ref());
            if concerns(run, &key) {
                node.queue.add(key);
            }
        }
        Change::Undecodable { key, error } => {
            tracing::warn!(run = %key, error, "run cannot be decoded");
        }
        Change::Synced => node.workspaces.look(),
    }
}

/// Ends when a shutdown was asked for and nothing is held, or the time for it is over.
async fn drain(node: &Node) {
    node.draining.cancelled().await;
    if timeout(DRAIN, node.table.empty()).await.is_err() {
        tracing::info!("shutting down while runs are active");
    }
}
