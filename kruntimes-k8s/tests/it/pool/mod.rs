//! The controllers that keep pools alive, over the in-process API service and on a paused clock.

mod cleanup;
mod reaper;
mod retention;
mod workspace;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, Pod};
use kruntimes_apiserver::ApiServer;
use kruntimes_apiserver::fault::FaultLayer;
use kruntimes_core::api::RunStatus;
use kruntimes_core::crd::{PersistentWorkspace, Run, Runtime};
use kruntimes_k8s::clock::Clock;
use kruntimes_k8s::pool::{Config, run};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::wait::await_condition;
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use tokio::task::JoinSet;

/// Virtual time after which something that should happen is given up.
const PATIENCE: Duration = Duration::from_secs(3600);

#[derive(Clone)]
struct ServerClock(Clock);

impl kruntimes_apiserver::Clock for ServerClock {
    fn now(&self) -> Timestamp {
        self.0.now()
    }
}

/// A cluster of one API service and the controllers, with a Runtime `bash`.
struct World {
    server: ApiServer,
    client: Client,
    clock: Clock,
    controllers: JoinSet<()>,
}

impl World {
    async fn new() -> Self {
        let world = Self::without_controllers().await;
        world.started()
    }

    async fn behind(faults: &FaultLayer) -> Self {
        let mut world = Self::without_controllers().await;
        let client = world.server.client_with(faults);
        world.start(client);
        world
    }

    async fn without_controllers() -> Self {
        let clock = Clock::virtual_from("2026-01-01T00:00:00Z".parse().unwrap());
        let mut builder = ApiServer::builder().clock(Arc::new(ServerClock(clock.clone())));
        for crd in kruntimes_core::crd::all() {
            builder = builder.crd(crd);
        }
        let server = builder.build().unwrap();
        let world = Self {
            client: server.client(),
            server,
            clock,
            controllers: JoinSet::new(),
        };
        world.runtime("bash").await;
        world
    }

    fn started(mut self) -> Self {
        self.start(self.client.clone());
        self
    }

    fn start(&mut self, client: Client) {
        let run = run(client, Config::default(), self.clock.clone());
        self.controllers.spawn(run);
    }

    async fn stop(&mut self) {
        self.controllers.shutdown().await;
    }

    fn runs(&self) -> Api<Run> {
        Api::default_namespaced(self.client.clone())
    }

    fn pods(&self) -> Api<Pod> {
        Api::default_namespaced(self.client.clone())
    }

    fn runtimes(&self) -> Api<Runtime> {
        Api::default_namespaced(self.client.clone())
    }

    fn workspaces(&self) -> Api<PersistentWorkspace> {
        Api::default_namespaced(self.client.clone())
    }

    async fn runtime(&self, name: &str) {
        let runtime = parsed(json!({
            "apiVersion": "kruntimes.io/v1alpha1",
            "kind": "Runtime",
            "metadata": {"name": name},
            "spec": {"template": {"spec": {"containers": [{"name": "runtime", "image": "i"}]}}},
        }));
        let params = PostParams::default();
        self.runtimes().create(&params, &runtime).await.unwrap();
    }

    /// Creates a Pod of Runtime `bash` that is neither ready nor alive yet, and returns its UID.
    async fn pod(&self, name: &str) -> String {
        let pod = parsed(json!({
            "metadata": {"name": name, "labels": {"runtime": "bash"}},
            "spec": {"containers": [{"name": "runtime", "image": "i"}]},
        }));
        let pod: Pod = self
            .pods()
            .create(&PostParams::default(), &pod)
            .await
            .unwrap();
        pod.uid().unwrap()
    }

    /// Reports a Pod as its kubelet and its daemon would now.
    async fn report_pod(&self, name: &str, ready: &str) {
        let condition = |kind: &str, status: &str| json!({"type": kind, "status": status, "lastProbeTime": self.clock.now()});
        let patch = json!({"status": {
            "phase": "Running",
            "conditions": [condition("Ready", ready), condition("kruntimes.io/RuntimedReady", "True")],
        }});
        let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
        self.pods()
            .patch_status(name, &params, &patch)
            .await
            .unwrap();
    }

    async fn ready_pod(&self, name: &str) -> String {
        let uid = self.pod(name).await;
        self.report_pod(name, "True").await;
        uid
    }

    /// Removes a Pod at once.
    async fn kill_pod(&self, name: &str) {
        let params = DeleteParams::default().grace_period(0);
        self.pods().delete(name, &params).await.unwrap();
    }

    /// Creates a Run of Runtime `bash`; `spec` is merged into its spec.
    async fn run(&self, name: &str, spec: Value) {
        let mut whole = json!({"runtime": "bash", "mode": {"task": {}}});
        for (key, value) in spec.as_object().into_iter().flatten() {
            whole[key] = value.clone();
        }
        let run = parsed(json!({
            "apiVersion": "kruntimes.io/v1alpha1",
            "kind": "Run",
            "metadata": {"name": name},
            "spec": whole,
        }));
        self.runs()
            .create(&PostParams::default(), &run)
            .await
            .unwrap();
    }

    /// Writes the status of a Run, as the scheduler or a daemon would.
    async fn report(&self, name: &str, status: Value) {
        let patch = Patch::Merge(json!({ "status": status }));
        let params = PatchParams::default();
        self.runs()
            .patch_status(name, &params, &patch)
            .await
            .unwrap();
    }

    /// Waits for a Run to look like this, and returns its status.
    async fn until_run(&self, name: &str, is: fn(&RunStatus) -> bool) -> RunStatus {
        let looks =
            move |run: Option<&Run>| run.and_then(|run| run.status.as_ref()).is_some_and(is);
        let found = in_time(await_condition(self.runs(), name, looks))
            .await
            .unwrap();
        found.and_then(|run| run.status).expect("a status was seen")
    }

    async fn until_gone<K>(&self, api: Api<K>, name: &str)
    where
        K: kube::Resource + Clone + serde::de::DeserializeOwned + std::fmt::Debug + Send + 'static,
    {
        let gone = |object: Option<&K>| object.is_none();
        in_time(await_condition(api, name, gone)).await.unwrap();
    }

    /// Lets this much virtual time pass.
    async fn pass(&self, seconds: u64) {
        // The clock is paused, so this ends as soon as nothing else has anything to do.
        tokio::time::timeout(Duration::from_secs(seconds), std::future::pending::<()>())
            .await
            .unwrap_err();
    }

    /// Lets time pass while these Pods report themselves ready every five seconds.
    async fn pass_with(&self, pods: &[&str], seconds: u64) {
        for _ in 0..seconds / 5 {
            self.pass(5).await;
            for pod in pods {
                self.report_pod(pod, "True").await;
            }
        }
        self.pass(seconds % 5 + 1).await;
    }

    /// Returns reason and message of the Events.
    async fn events(&self) -> Vec<(String, String)> {
        let api: Api<Event> = Api::default_namespaced(self.client.clone());
        let events = api.list(&ListParams::default()).await.unwrap();
        events
            .into_iter()
            .map(|event| {
                let reason = event.reason.unwrap_or_default();
                (reason, event.message.unwrap_or_default())
            })
            .collect()
    }
}

async fn in_time<T>(waiting: impl Future<Output = T>) -> T {
    let found = tokio::time::timeout(PATIENCE, waiting).await;
    found.expect("it happens in time")
}

fn parsed<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("the manifest fits its type")
}
