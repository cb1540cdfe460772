//! The life of one Pod of the local node.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod};
use kruntimes_core::{keys, resources};
use kruntimes_k8s::clock::Clock;
use kruntimes_node::{NodeDirs, Runtimed};
use kube::api::{Api, Patch, PatchParams};
use kube::{Client, ResourceExt as _};
use serde_json::json;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::{NodeConfig, NodeHandle, PodSandbox};

/// Wait before a failed start or write is tried again.
const RETRY: Duration = Duration::from_millis(500);
/// Wait before a daemon that ended is started again.
const DAEMON_RESTART: Duration = Duration::from_millis(100);

/// A running Pod.
#[derive(Debug)]
pub(super) struct Worker {
    stop: CancellationToken,
    ended: CancellationToken,
}

impl Worker {
    /// Makes the worker of a Pod and the task that is its life.
    pub(super) fn new(
        config: &NodeConfig,
        pod: &Arc<Pod>,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let stop = CancellationToken::new();
        let life = Life {
            config: config.clone(),
            pod: Arc::clone(pod),
            crash: Arc::new(Notify::new()),
        };
        let (stopped, ended) = (stop.clone(), CancellationToken::new());
        let end = ended.clone().drop_guard();
        let task = async move {
            life.run(stopped).await;
            drop(end);
        };
        (Self { stop, ended }, Box::pin(task))
    }

    /// Ends the Pod: its daemon, its Runtime Server and their processes.
    pub(super) fn stop(&self) {
        self.stop.cancel();
    }

    /// Ends the Pod; the token tells when its processes are gone.
    pub(super) fn end(self) -> CancellationToken {
        self.stop.cancel();
        self.ended
    }
}

struct Life {
    config: NodeConfig,
    pod: Arc<Pod>,
    crash: Arc<Notify>,
}

impl Life {
    async fn run(self, stop: CancellationToken) {
        let started = stop.run_until_cancelled(self.start_sandbox()).await;
        let Some(sandbox) = started else { return };
        let _registered = Registered::new(&self.config.handle, &self.pod, &self.crash);
        let live = async {
            self.report_ready().await;
            Box::pin(self.run_daemon(sandbox.as_ref())).await;
        };
        stop.run_until_cancelled(Box::pin(live)).await;
        sandbox.stop().await;
    }

    async fn start_sandbox(&self) -> Arc<dyn PodSandbox> {
        loop {
            match self.config.backend.start(&self.pod).await {
                Ok(sandbox) => return sandbox,
                Err(error) => {
                    tracing::warn!(pod = %self.pod.name_any(), %error, "the Pod cannot start");
                    tokio::time::sleep(RETRY).await;
                }
            }
        }
    }

    async fn report_ready(&self) {
        let api = pods(&self.config.client, &self.pod);
        let patch = json!({"status": ready_status(&self.config.clock, &self.pod)});
        loop {
            let written = api
                .patch_status(
                    &self.pod.name_any(),
                    &PatchParams::default(),
                    &Patch::Merge(&patch),
                )
                .await;
            match written {
                Ok(_) => return,
                Err(kube::Error::Api(status)) if status.is_not_found() => return,
                Err(error) => {
                    tracing::warn!(pod = %self.pod.name_any(), %error, "the Pod status cannot be written");
                    tokio::time::sleep(RETRY).await;
                }
            }
        }
    }

    /// Runs the daemon until it is drained; a crashed one is replaced, as a kubelet replaces a container.
    async fn run_daemon(&self, sandbox: &dyn PodSandbox) {
        let drain = &self.config.handle.drain;
        loop {
            let daemon = Runtimed::new(
                daemon_config(&self.pod),
                self.config.runtimed_client.clone(),
                sandbox.runtime(),
                self.config.clock.clone(),
                Arc::clone(&self.config.logs),
                NodeDirs::new(sandbox.workspace()),
            )
            .with_artifacts(self.config.backend.artifacts())
            .with_shutdown(drain.clone());
            tokio::select! {
                biased;
                () = self.crash.notified() => {}
                // A panic is a crash as well; nothing of the daemon is used again.
                ended = AssertUnwindSafe(daemon.run()).catch_unwind() => {
                    let panicked = ended.is_err();
                    if drain.is_cancelled() && !panicked {
                        return;
                    }
                    tracing::warn!(pod = %self.pod.name_any(), panicked, "runtimed ended, it is started again");
                }
            }
            tokio::time::sleep(DAEMON_RESTART).await;
        }
    }
}

/// Keeps the handle of a daemon listed while its Pod lives.
struct Registered {
    handle: NodeHandle,
    pod: String,
}

impl Registered {
    fn new(handle: &NodeHandle, pod: &Pod, crash: &Arc<Notify>) -> Self {
        let pod = format!("{}/{}", pod.namespace().unwrap_or_default(), pod.name_any());
        let daemons = &handle.daemons;
        daemons.send_modify(|map| drop(map.insert(pod.clone(), Arc::clone(crash))));
        Self {
            handle: handle.clone(),
            pod,
        }
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        let daemons = &self.handle.daemons;
        daemons.send_modify(|map| drop(map.remove(&self.pod)));
    }
}

fn pods(client: &Client, pod: &Pod) -> Api<Pod> {
    Api::namespaced(client.clone(), &pod.namespace().unwrap_or_default())
}

/// What the daemon of a Pod is told, as the Deployment's template would tell it.
fn daemon_config(pod: &Pod) -> kruntimes_node::Config {
    let capacity = resources::capacity(pod.annotations().iter());
    let workers = capacity
        .get(resources::RUNS)
        .and_then(|amount| amount.to_whole());
    let mut config =
        kruntimes_node::Config::new(&pod.namespace().unwrap_or_default(), &pod.name_any());
    config.pod_uid = pod.uid();
    config.runtime = pod
        .labels()
        .get(keys::LABEL_RUNTIME)
        .cloned()
        .unwrap_or_default();
    config.workers = workers.unwrap_or(resources::DEFAULT_RUNS_CAPACITY);
    config
}

/// The status a kubelet would report for a Pod whose containers run.
fn ready_status(clock: &Clock, pod: &Pod) -> serde_json::Value {
    let now = Timestamp::from_second(clock.now().as_second()).unwrap_or_default();
    let condition = |name: &str| json!({"type": name, "status": "True", "lastProbeTime": null, "lastTransitionTime": now});
    let before = pod.status.as_ref();
    let started = before.and_then(|status| status.start_time.as_ref());
    json!({
        "phase": "Running",
        "podIP": "127.0.0.1",
        "hostIP": "127.0.0.1",
        "startTime": started.map_or(now, |started| started.0),
        "conditions": [
            condition("Initialized"),
            condition("Ready"),
            condition("ContainersReady"),
            condition("PodScheduled"),
        ],
        "containerStatuses": containers(pod, now),
    })
}

/// Every container runs; one that ran before, in an earlier life of the node, was started again.
fn containers(pod: &Pod, now: Timestamp) -> Vec<serde_json::Value> {
    let before = pod
        .status
        .iter()
        .flat_map(|status| status.container_statuses.iter().flatten());
    let before: Vec<_> = before.collect();
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let report = |container: &Container| {
        let earlier = before.iter().find(|status| status.name == container.name);
        let image = container.image.as_deref().unwrap_or_default();
        json!({
            "name": container.name,
            "image": image,
            "imageID": image,
            "ready": true,
            "started": true,
            "restartCount": earlier.map_or(0, |status| status.restart_count + 1),
            "state": {"running": {"startedAt": now}},
        })
    };
    containers.map(report).collect()
}
