//! A cluster of one API service and one scheduler, on a paused clock.

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Method, Request, Response};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kruntimes_apiserver::fault::FaultLayer;
use kruntimes_apiserver::{AnswerBody, ApiServer, ApiService, BoxError};
use kruntimes_core::api::{RunPhase, RunStatus};
use kruntimes_core::condition;
use kruntimes_core::crd::{PersistentWorkspace, Run, Runtime};
use kruntimes_k8s::clock::Clock;
use kruntimes_k8s::scheduler::{Config, Outcome, Recorder, Scheduler, Source, Stage};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::client::Body;
use kube::runtime::wait::await_condition;
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tower::{Layer, Service, ServiceExt as _};

/// Virtual time after which something that should happen is given up.
const PATIENCE: Duration = Duration::from_secs(600);

/// What happens to the scheduler's next status write.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Trick {
    /// Somebody edits the Run just before.
    Edit,
    /// Somebody deletes the Run just before.
    Delete,
    /// The write takes place and its answer is lost.
    LoseAnswer,
    /// The write is lost.
    LoseRequest,
    /// The write is lost, and so is the next read of a Run.
    LoseRequestAndRead,
}

/// Meddles with status writes on their way to the API.
#[derive(Clone)]
struct Meddler {
    tricks: Arc<Mutex<VecDeque<Trick>>>,
    plain: Client,
}

#[derive(Clone)]
struct Meddled {
    inner: ApiService,
    meddler: Meddler,
    lose_next_read: Arc<Mutex<bool>>,
}

impl Layer<ApiService> for Meddler {
    type Service = Meddled;

    fn layer(&self, inner: ApiService) -> Meddled {
        Meddled {
            inner,
            meddler: self.clone(),
            lose_next_read: Arc::default(),
        }
    }
}

impl Service<Request<Body>> for Meddled {
    type Response = Response<AnswerBody>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let this = self.clone();
        Box::pin(async move {
            let path = request.uri().path().to_owned();
            let reads = request.method() == Method::GET && path.contains("/runs/");
            if reads && std::mem::take(&mut *this.lose_next_read.lock().unwrap()) {
                return Err("connection reset".into());
            }
            let writes = request.method() == Method::PATCH && path.ends_with("/status");
            let trick = if writes {
                this.meddler.tricks.lock().unwrap().pop_front()
            } else {
                None
            };
            let name = path.split('/').rev().nth(1).unwrap_or_default();
            let runs = Api::<Run>::default_namespaced(this.meddler.plain.clone());
            match trick {
                Some(Trick::Edit) => edit(&runs, name).await,
                Some(Trick::Delete) => {
                    runs.delete(name, &DeleteParams::default()).await.unwrap();
                }
                Some(Trick::LoseRequest) => return Err("connection reset".into()),
                Some(Trick::LoseRequestAndRead) => {
                    *this.lose_next_read.lock().unwrap() = true;
                    return Err("connection reset".into());
                }
                Some(Trick::LoseAnswer) | None => {}
            }
            let answer = this.inner.oneshot(request).await?;
            if matches!(trick, Some(Trick::LoseAnswer)) {
                return Err("connection reset".into());
            }
            Ok(answer)
        })
    }
}

async fn edit(runs: &Api<Run>, name: &str) {
    let patch = Patch::Merge(json!({"metadata": {"labels": {"edited": "yes"}}}));
    runs.patch(name, &PatchParams::default(), &patch)
        .await
        .unwrap();
}

/// Counts what it is told, by a readable key.
#[derive(Debug, Default)]
pub(crate) struct Counts(Mutex<BTreeMap<String, u64>>);

impl Counts {
    fn add(&self, key: String, amount: u64) {
        *self.0.lock().unwrap().entry(key).or_default() += amount;
    }

    pub(crate) fn get(&self, key: &str) -> u64 {
        self.0.lock().unwrap().get(key).copied().unwrap_or(0)
    }
}

impl Recorder for Counts {
    fn synced(&self, runtime: &str, outcome: Outcome) {
        self.add(format!("sync {runtime} {}", outcome.as_str()), 1);
    }

    fn sync_duration(&self, runtime: &str, _: Duration) {
        self.add(format!("duration {runtime}"), 1);
    }

    fn queue_duration(&self, runtime: &str, _: Duration) {
        self.add(format!("queue {runtime}"), 1);
    }

    fn filter_rejections(&self, plugin: &'static str, reason: &'static str, pods: u64) {
        self.add(format!("rejected {plugin} {reason}"), pods);
    }

    fn reservation_conflict(&self, stage: Stage) {
        self.add(format!("conflict {}", stage.as_str()), 1);
    }

    fn wakeups(&self, source: Source, runs: usize) {
        self.add(
            format!("wakeups {}", source.as_str()),
            u64::try_from(runs).unwrap(),
        );
    }
}

#[derive(Clone)]
struct ServerClock(Clock);

impl kruntimes_apiserver::Clock for ServerClock {
    fn now(&self) -> Timestamp {
        self.0.now()
    }
}

/// The cluster.
pub(crate) struct World {
    pub(crate) server: ApiServer,
    pub(crate) counts: Arc<Counts>,
    client: Client,
    clock: Clock,
    tricks: Arc<Mutex<VecDeque<Trick>>>,
    scheduler: JoinSet<()>,
}

impl World {
    /// Starts with a Runtime `python`, without Pods.
    pub(crate) async fn new() -> Self {
        let clock = Clock::virtual_from("2026-01-01T00:00:00Z".parse().unwrap());
        let mut builder = ApiServer::builder().clock(Arc::new(ServerClock(clock.clone())));
        for crd in kruntimes_core::crd::all() {
            builder = builder.crd(crd);
        }
        let server = builder.build().unwrap();
        let mut world = Self {
            client: server.client(),
            server,
            counts: Arc::default(),
            clock,
            tricks: Arc::default(),
            scheduler: JoinSet::new(),
        };
        world.runtime("python").await;
        world.start();
        world
    }

    /// Starts over with a scheduler that reaches the API through `faults`.
    pub(crate) async fn start_behind(&mut self, faults: &FaultLayer) {
        self.stop().await;
        self.schedule(self.server.client_with(faults));
    }

    /// Starts a scheduler that knows nothing yet.
    pub(crate) fn start(&mut self) {
        let meddler = Meddler {
            tricks: Arc::clone(&self.tricks),
            plain: self.client.clone(),
        };
        self.schedule(self.server.client_with(&meddler));
    }

    /// Starts over with a scheduler that is equipped like this.
    pub(crate) async fn start_with(&mut self, equip: impl FnOnce(Scheduler) -> Scheduler) {
        self.stop().await;
        let (client, clock) = (self.client.clone(), self.clock.clone());
        let scheduler = Scheduler::new(client, Config::default(), clock).unwrap();
        self.scheduler.spawn(equip(scheduler).run());
    }

    fn schedule(&mut self, client: Client) {
        let scheduler = Scheduler::new(client, Config::default(), self.clock.clone());
        let scheduler = scheduler.unwrap().recorder(Arc::clone(&self.counts) as _);
        self.scheduler.spawn(scheduler.run());
    }

    /// Starts over with a scheduler behind `faults` that is equipped like this.
    pub(crate) async fn start_equipped(
        &mut self,
        faults: &FaultLayer,
        equip: impl FnOnce(Scheduler) -> Scheduler,
    ) {
        self.stop().await;
        let client = self.server.client_with(faults);
        let scheduler = Scheduler::new(client, Config::default(), self.clock.clone()).unwrap();
        self.scheduler.spawn(equip(scheduler).run());
    }

    /// Starts a scheduler whose requests pass through a layer of the test's own.
    pub(crate) fn start_through<L>(&mut self, layer: &L)
    where
        L: Layer<ApiService>,
        L::Service: Service<Request<Body>, Response = Response<AnswerBody>> + Send + 'static,
        <L::Service as Service<Request<Body>>>::Future: Send + 'static,
        <L::Service as Service<Request<Body>>>::Error: Into<BoxError>,
    {
        self.schedule(self.server.client_with(layer));
    }

    /// Makes a namespace with a Runtime `python` and returns a client of it.
    pub(crate) async fn namespace(&self, name: &str) -> Client {
        let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(self.client());
        let namespace = parsed(json!({"metadata": {"name": name}}));
        let params = PostParams::default();
        namespaces.create(&params, &namespace).await.unwrap();
        let client = Client::new(self.server.service(), name);
        create_runtime(&client, "python").await;
        client
    }

    /// Returns a client that nobody meddles with.
    pub(crate) fn client(&self) -> Client {
        self.client.clone()
    }

    /// Returns the clock that everybody here reads.
    pub(crate) fn clock(&self) -> Clock {
        self.clock.clone()
    }

    /// Drops the scheduler's future.
    pub(crate) async fn stop(&mut self) {
        self.scheduler.shutdown().await;
    }

    /// Meddles with the next status writes of the scheduler.
    pub(crate) fn meddle(&self, tricks: &[Trick]) {
        self.tricks.lock().unwrap().extend(tricks);
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(crate) fn runs(&self) -> Api<Run> {
        Api::default_namespaced(self.client.clone())
    }

    pub(crate) fn pods(&self) -> Api<Pod> {
        Api::default_namespaced(self.client.clone())
    }

    pub(crate) async fn runtime(&self, name: &str) {
        create_runtime(&self.client, name).await;
    }

    /// Creates a Pod of Runtime `python` that is neither ready nor alive yet.
    pub(crate) async fn pod(&self, name: &str, runs: u32) {
        create_pod(&self.client, name, runs).await;
    }

    /// Makes a Pod ready and gives it a heartbeat of now.
    pub(crate) async fn ready(&self, name: &str) {
        enliven(&self.client, name, self.clock.now()).await;
    }

    /// Creates a ready Pod.
    pub(crate) async fn ready_pod(&self, name: &str, runs: u32) {
        self.pod(name, runs).await;
        self.ready(name).await;
    }

    fn workspaces(&self) -> Api<PersistentWorkspace> {
        Api::default_namespaced(self.client.clone())
    }

    /// Creates a workspace of Runtime `python` that is bound to nothing.
    pub(crate) async fn workspace(&self, name: &str) {
        let workspace: PersistentWorkspace = parsed(json!({
            "apiVersion": "kruntimes.io/v1alpha1",
            "kind": "PersistentWorkspace",
            "metadata": {"name": name},
            "spec": {"runtime": "python"},
        }));
        let params = PostParams::default();
        self.workspaces().create(&params, &workspace).await.unwrap();
    }

    /// Binds a workspace to a Pod.
    pub(crate) async fn bind_workspace(&self, name: &str, pod: &str) {
        let uid = self.pods().get(pod).await.unwrap().metadata.uid;
        let patch = json!({"status": {"phase": "Bound", "boundPod": pod, "boundPodUID": uid}});
        let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
        let workspaces = self.workspaces();
        workspaces
            .patch_status(name, &params, &patch)
            .await
            .unwrap();
    }

    /// Creates a Run of Runtime `python`; `spec` is merged into its spec.
    pub(crate) async fn run(&self, name: &str, spec: Value) {
        create_run(&self.client, name, &spec).await;
    }

    /// Writes the status of a Run, as runtimed or a controller would.
    pub(crate) async fn report(&self, name: &str, status: Value) {
        let patch = Patch::Merge(json!({ "status": status }));
        self.runs()
            .patch_status(name, &PatchParams::default(), &patch)
            .await
            .unwrap();
    }

    /// Waits for a Run to look like this, and returns its status.
    pub(crate) async fn until(&self, name: &str, is: fn(&RunStatus) -> bool) -> RunStatus {
        let looks =
            move |run: Option<&Run>| run.and_then(|run| run.status.as_ref()).is_some_and(is);
        let waiting = await_condition(self.runs(), name, looks);
        let found = tokio::time::timeout(PATIENCE, waiting).await;
        let found = found.expect("it happens in time").unwrap();
        found.and_then(|run| run.status).expect("a status was seen")
    }

    pub(crate) async fn until_scheduled(&self, name: &str) -> RunStatus {
        self.until(name, |status| status.phase == RunPhase::Scheduled)
            .await
    }

    pub(crate) async fn until_waiting(&self, name: &str) -> RunStatus {
        self.until(name, |status| {
            reason(status).is_some_and(|(to, _)| to == "False")
        })
        .await
    }

    pub(crate) async fn status(&self, name: &str) -> RunStatus {
        let run = self.runs().get(name).await.unwrap();
        run.status.unwrap_or_default()
    }

    pub(crate) async fn label(&self, name: &str, key: &str) -> Option<String> {
        self.runs()
            .get(name)
            .await
            .unwrap()
            .labels()
            .get(key)
            .cloned()
    }

    pub(crate) async fn edit(&self, name: &str) {
        edit(&self.runs(), name).await;
    }

    /// Returns how many status writes of Runs the API has seen.
    pub(crate) fn writes(&self) -> u64 {
        self.server
            .stats()
            .requests("patch-status", "runs.kruntimes.io")
    }

    /// Lets this much virtual time pass.
    pub(crate) async fn pass(&self, seconds: u64) {
        // The clock is paused, so this ends as soon as nothing else has anything to do.
        tokio::time::timeout(Duration::from_secs(seconds), std::future::pending::<()>())
            .await
            .unwrap_err();
    }
}

async fn create_runtime(client: &Client, name: &str) {
    let runtime: Runtime = parsed(json!({
        "apiVersion": "kruntimes.io/v1alpha1",
        "kind": "Runtime",
        "metadata": {"name": name},
        "spec": {"template": {"spec": {"containers": [{"name": "runtime", "image": "i"}]}}},
    }));
    let api = Api::default_namespaced(client.clone());
    api.create(&PostParams::default(), &runtime).await.unwrap();
}

/// Creates a Pod of Runtime `python` that is neither ready nor alive yet.
pub(crate) async fn create_pod(client: &Client, name: &str, runs: u32) {
    let pod: Pod = parsed(json!({
        "metadata": {
            "name": name,
            "labels": {"runtime": "python"},
            "annotations": {"kruntimes.io/capacity.runs": runs.to_string()},
        },
        "spec": {"containers": [{"name": "runtime", "image": "i"}]},
    }));
    let pods = Api::default_namespaced(client.clone());
    pods.create(&PostParams::default(), &pod).await.unwrap();
}

/// Makes a Pod ready and gives it a heartbeat.
pub(crate) async fn enliven(client: &Client, name: &str, now: Timestamp) {
    let condition = |kind: &str| json!({"type": kind, "status": "True", "lastProbeTime": now});
    let patch = Patch::Merge(json!({"status": {
        "phase": "Running",
        "conditions": [condition("Ready"), condition("kruntimes.io/RuntimedReady")],
    }}));
    let (pods, params) = (
        Api::<Pod>::default_namespaced(client.clone()),
        PatchParams::default(),
    );
    pods.patch_status(name, &params, &patch).await.unwrap();
}

/// Creates a Run of Runtime `python`; `spec` is merged into its spec.
pub(crate) async fn create_run(client: &Client, name: &str, spec: &Value) {
    let mut whole = json!({"runtime": "python", "mode": {"task": {}}});
    for (key, value) in spec.as_object().into_iter().flatten() {
        whole[key] = value.clone();
    }
    let run: Run = parsed(json!({
        "apiVersion": "kruntimes.io/v1alpha1",
        "kind": "Run",
        "metadata": {"name": name},
        "spec": whole,
    }));
    let runs = Api::default_namespaced(client.clone());
    runs.create(&PostParams::default(), &run).await.unwrap();
}

/// Returns status and reason of the condition `Scheduled`.
pub(crate) fn reason(status: &RunStatus) -> Option<(&str, &str)> {
    let found = condition::get(&status.conditions, "Scheduled")?;
    Some((found.status.as_str(), found.reason.as_str()))
}

pub(crate) fn parsed<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("the manifest fits its type")
}
