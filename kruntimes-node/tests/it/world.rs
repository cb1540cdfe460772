//! One Pod with its runtimed, in a world whose time a test controls.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, Pod};
use kruntimes_apiserver::{ApiServer, Background, SeededIds};
use kruntimes_core::api::{
    EnvVar, Mode, RetryPolicy, RunPhase, RunSpec, RunStatus, Source, TaskMode,
};
use kruntimes_core::crd::{self, Run};
use kruntimes_k8s::clock::Clock;
use kruntimes_k8s::serve::{Addresses, Doors, Registry};
use kruntimes_node::{Artifacts, Config, GitTool, LogRecord, LogSink, NodeDirs, Runtimed};
use kruntimes_proto::RuntimeClient;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::wait::await_condition;
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub(crate) const POD: &str = "pod-a";
pub(crate) const NS: &str = "default";

/// Ends the test instead of letting it hang.
const PATIENCE: Duration = Duration::from_secs(600);

#[derive(Clone)]
struct Stamps(Clock);

impl kruntimes_apiserver::Clock for Stamps {
    fn now(&self) -> Timestamp {
        self.0.now()
    }
}

#[derive(Default)]
pub(crate) struct Collected(Mutex<Vec<LogRecord>>);

impl LogSink for Collected {
    fn record(&self, record: LogRecord) {
        self.0.lock().unwrap().push(record);
    }
}

impl Collected {
    /// Returns stream, attempt and text of every record, as one line each.
    pub(crate) fn lines(&self) -> Vec<String> {
        let records = self.0.lock().unwrap();
        let line = |r: &LogRecord| format!("{:?} {} {}", r.stream, r.attempt, r.message);
        records.iter().map(line).collect()
    }
}

pub(crate) struct World {
    pub(crate) api_server: ApiServer,
    pub(crate) client: Client,
    pub(crate) runs: Api<Run>,
    pub(crate) clock: Clock,
    pub(crate) logs: Arc<Collected>,
    pub(crate) workers: i64,
    pub(crate) pod_uid: String,
    pub(crate) git: GitTool,
    pub(crate) artifacts: Option<Artifacts>,
    /// Taken by the next daemon.
    pub(crate) status: Mutex<Option<TcpListener>>,
    /// Taken by the next daemon.
    pub(crate) doors: Mutex<Option<Doors>>,
    pub(crate) registry: Registry,
    temp: tempfile::TempDir,
    _background: Background,
}

/// A running runtimed; it ends when this is dropped.
pub(crate) struct Daemon {
    task: JoinHandle<()>,
    pub(crate) shutdown: CancellationToken,
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Daemon {
    /// Kills it, as a crash would.
    pub(crate) async fn kill(mut self) {
        self.task.abort();
        let _ = (&mut self.task).await;
    }

    /// Waits until it has ended by itself.
    pub(crate) async fn ended(&mut self) {
        (&mut self.task).await.unwrap();
    }
}

impl World {
    pub(crate) async fn new(workers: i64) -> Self {
        let clock = Clock::virtual_from("2026-01-01T00:00:00.5Z".parse().unwrap());
        let mut builder = ApiServer::builder()
            .clock(Arc::new(Stamps(clock.clone())))
            .ids(Arc::new(SeededIds::new(1)));
        for crd in crd::all() {
            builder = builder.crd(crd);
        }
        let api_server = builder.build().unwrap();
        let background = api_server.spawn_background();
        let client = api_server.client();
        let mut world = Self {
            runs: Api::namespaced(client.clone(), NS),
            api_server,
            client,
            clock,
            logs: Arc::default(),
            workers,
            pod_uid: String::new(),
            git: GitTool::default(),
            artifacts: None,
            status: Mutex::default(),
            doors: Mutex::default(),
            registry: Registry::new(),
            temp: tempfile::tempdir().unwrap(),
            _background: background,
        };
        world.pod_uid = world.make_pod(&json!({})).await;
        world
    }

    /// Makes the Pod and returns its UID.
    pub(crate) async fn make_pod(&self, annotations: &Value) -> String {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": { "name": POD, "labels": { "runtime": "bash" }, "annotations": annotations },
            "spec": { "containers": [{ "name": "runtime", "image": "bash" }] },
        }))
        .unwrap();
        let made = self.pods().create(&PostParams::default(), &pod).await;
        made.unwrap().uid().unwrap()
    }

    pub(crate) fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), NS)
    }

    pub(crate) fn workspace(&self) -> PathBuf {
        self.temp.path().join("workspace")
    }

    pub(crate) fn run_dir(&self, run: &Run) -> PathBuf {
        self.workspace().join(run.uid().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.temp.path().join(name)
    }

    pub(crate) fn daemon(&self, runtime: impl RuntimeClient + 'static) -> Daemon {
        self.daemon_with(self.client.clone(), runtime)
    }

    pub(crate) fn daemon_with(
        &self,
        client: Client,
        runtime: impl RuntimeClient + 'static,
    ) -> Daemon {
        let mut config = Config::new(NS, POD);
        config.runtime = "bash".into();
        config.workers = self.workers;
        config.git = self.git.clone();
        let shutdown = CancellationToken::new();
        let runtimed = Runtimed::new(
            config,
            client,
            Arc::new(runtime),
            self.clock.clone(),
            Arc::clone(&self.logs) as Arc<dyn LogSink>,
            NodeDirs::new(self.workspace()),
        )
        .with_artifacts(self.artifacts.clone())
        .with_status_listener(self.status.lock().unwrap().take())
        .with_doors(self.doors.lock().unwrap().take())
        .with_registry(self.registry.clone())
        .with_shutdown(shutdown.clone());
        Daemon {
            task: tokio::spawn(runtimed.run()),
            shutdown,
        }
    }

    /// Opens metrics and health for the next daemon and returns their ports.
    pub(crate) async fn open_doors(&self) -> (u16, u16) {
        let local = || "127.0.0.1:0".parse().unwrap();
        let addresses = Addresses {
            metrics: local(),
            probes: local(),
        };
        let doors = Doors::open(&addresses).await.unwrap();
        let (metrics, probes) = doors.ports();
        *self.doors.lock().unwrap() = Some(doors);
        (metrics.unwrap(), probes.unwrap())
    }

    /// Returns the value of one series, written with its labels.
    pub(crate) fn measured(&self, series: &str) -> Option<f64> {
        let text = self.registry.text();
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        line.map(|value| value.parse().unwrap())
    }

    pub(crate) async fn create(&self, name: &str, spec: RunSpec) -> Run {
        let run = Run::new(name, spec);
        self.runs
            .create(&PostParams::default(), &run)
            .await
            .unwrap()
    }

    /// Does what the scheduler does: binds the Run to this Pod.
    pub(crate) async fn assign(&self, name: &str) -> Run {
        let uid = self.pod_uid.clone();
        self.assign_to(name, &uid).await
    }

    pub(crate) async fn assign_to(&self, name: &str, pod_uid: &str) -> Run {
        let status = json!({ "status": {
            "phase": "Scheduled",
            "assignedPod": POD,
            "assignedPodUID": pod_uid,
            "conditions": [{
                "type": "Scheduled", "status": "True", "reason": "Assigned", "message": "to pod-a",
                "lastTransitionTime": kruntimes_core::time::Time(self.clock.now()),
            }],
        }});
        self.patch_status(name, &status).await
    }

    pub(crate) async fn patch_status(&self, name: &str, patch: &Value) -> Run {
        let params = PatchParams::default();
        let patch = Patch::Merge(patch);
        let patched = self.runs.patch_status(name, &params, &patch);
        patched.await.unwrap()
    }

    /// Creates and assigns.
    pub(crate) async fn submit(&self, name: &str, spec: RunSpec) -> Run {
        self.create(name, spec).await;
        self.assign(name).await
    }

    pub(crate) async fn cancel(&self, name: &str) {
        let patch = json!({ "spec": { "cancelRequested": true } });
        let (params, patch) = (PatchParams::default(), Patch::Merge(&patch));
        let patched = self.runs.patch(name, &params, &patch);
        patched.await.unwrap();
    }

    pub(crate) async fn delete(&self, name: &str) {
        let params = DeleteParams::default();
        self.runs.delete(name, &params).await.unwrap();
    }

    pub(crate) async fn get(&self, name: &str) -> Run {
        self.runs.get(name).await.unwrap()
    }

    /// Waits until the Run looks as wanted and returns it so.
    pub(crate) async fn until(
        &self,
        name: &str,
        wanted: impl Fn(&RunStatus) -> bool + Send + Sync,
    ) -> Run {
        let condition = |run: Option<&Run>| {
            run.is_some_and(|run| wanted(&run.status.clone().unwrap_or_default()))
        };
        let waiting = await_condition(self.runs.clone(), name, condition);
        let Ok(found) = tokio::time::timeout(PATIENCE, waiting).await else {
            panic!(
                "{name} never gets there: {:#?}",
                self.get(name).await.status
            );
        };
        found.unwrap().unwrap()
    }

    pub(crate) async fn until_phase(&self, name: &str, phase: RunPhase) -> Run {
        self.until(name, |status| status.phase == phase).await
    }

    pub(crate) async fn until_over(&self, name: &str) -> Run {
        self.until(name, |status| status.phase.is_terminal()).await
    }

    /// Lets virtual time pass.
    pub(crate) async fn pass(&self, time: Duration) {
        let _ = tokio::time::timeout(time, std::future::pending::<()>()).await;
    }

    /// Passes time in small steps until something holds.
    pub(crate) async fn eventually(&self, what: &str, mut holds: impl FnMut() -> bool) {
        for _ in 0..6_000 {
            if holds() {
                return;
            }
            self.pass(Duration::from_millis(10)).await;
        }
        panic!("it never holds that {what}");
    }

    /// Returns type and reason of all Events, in order.
    pub(crate) async fn events(&self) -> Vec<String> {
        let api: Api<Event> = Api::namespaced(self.client.clone(), NS);
        let mut found = api.list(&ListParams::default()).await.unwrap().items;
        found.sort_by_key(|event| {
            let version = event.metadata.resource_version.as_deref();
            version.and_then(|v| v.parse::<u64>().ok())
        });
        let word = |event: &Event| {
            format!(
                "{} {}",
                event.type_.clone().unwrap_or_default(),
                event.reason.clone().unwrap_or_default()
            )
        };
        found.iter().map(word).collect()
    }
}

/// A task with an inline script.
pub(crate) fn script(text: &str) -> RunSpec {
    RunSpec {
        runtime: "bash".into(),
        mode: Mode {
            task: Some(TaskMode::default()),
            ..Mode::default()
        },
        source: Some(Source {
            inline: Some(text.into()),
            ..Source::default()
        }),
        ..RunSpec::default()
    }
}

/// The same with this many attempts and this backoff.
pub(crate) fn retried(text: &str, max: i32, backoff: Duration) -> RunSpec {
    RunSpec {
        retry_policy: Some(RetryPolicy {
            max_attempts: Some(max),
            backoff: Some(backoff.into()),
            ..RetryPolicy::default()
        }),
        ..script(text)
    }
}

/// The same with these variables.
pub(crate) fn with_env(spec: RunSpec, variables: &[(&str, &str)]) -> RunSpec {
    let variable = |(name, value): &(&str, &str)| EnvVar {
        name: (*name).into(),
        value: Some((*value).into()),
        value_from: None,
    };
    RunSpec {
        env: variables.iter().map(variable).collect(),
        ..spec
    }
}

pub(crate) fn status(run: &Run) -> &RunStatus {
    run.status.as_ref().unwrap()
}

pub(crate) fn message(run: &Run) -> &str {
    status(run).message.as_deref().unwrap_or_default()
}

/// Returns `Type=Status Reason` of every condition.
pub(crate) fn conditions(run: &Run) -> Vec<String> {
    let word = |c: &kruntimes_core::condition::Condition| {
        format!("{}={} {}", c.condition_type, c.status.as_str(), c.reason)
    };
    status(run).conditions.iter().map(word).collect()
}
