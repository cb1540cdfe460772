//! The parts of kruntimes around a client.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kruntimes_core::crd::{Action, Run, Workflow, WorkflowRun};
use kruntimes_embedded::node::{self, BashBackend, BashBackendConfig, NodeConfig, NodeHandle};
use kruntimes_embedded::{LogHub, Supervisor, bash_runtime};
use kruntimes_k8s::clock::Clock;
use kruntimes_k8s::{definitions, pool, runtime, scheduler, workflow};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::wait::{Condition, await_condition};
use kube::{Client, ResourceExt as _};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Runs at once in the Runtime of a world.
const SLOTS: u32 = 4;
/// Longest wait for anything. Much longer than it takes, so that a hang shows as a failure.
const PATIENCE: Duration = Duration::from_secs(120);

/// The shipped controllers, a scheduler and a local node at work in one namespace.
pub(crate) struct World {
    pub(crate) client: Client,
    pub(crate) namespace: String,
    supervisor: Supervisor,
    node: NodeHandle,
    directory: tempfile::TempDir,
}

impl World {
    /// Makes a namespace with a `bash` Runtime and starts everything.
    pub(crate) async fn start(client: Client) -> Self {
        let namespace = json!({"metadata": {"generateName": "scenario-"}});
        let namespace: Namespace = serde_json::from_value(namespace).unwrap();
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let made = namespaces.create(&PostParams::default(), &namespace).await;
        let world = Self {
            client,
            namespace: made.unwrap().name_any(),
            supervisor: Supervisor::default(),
            node: NodeHandle::default(),
            directory: tempfile::tempdir().unwrap(),
        };
        world.start_controllers();
        world.start_scheduler("scheduler");
        world.start_node();
        world
            .create::<kruntimes_core::crd::Runtime>(bash_runtime(SLOTS))
            .await;
        world
    }

    fn start_controllers(&self) {
        let (client, namespace) = (self.client.clone(), Some(self.namespace.clone()));
        self.supervisor.start("workflow", move || {
            let config = workflow::Config {
                namespace: namespace.clone(),
                ..workflow::Config::default()
            };
            Box::pin(workflow::run(client.clone(), config, Clock::system()))
        });
        let (client, namespace) = (self.client.clone(), Some(self.namespace.clone()));
        self.supervisor.start("definitions", move || {
            let config = definitions::Config {
                namespace: namespace.clone(),
                ..definitions::Config::default()
            };
            Box::pin(definitions::run(client.clone(), config, Clock::system()))
        });
        let (client, namespace) = (self.client.clone(), Some(self.namespace.clone()));
        self.supervisor.start("runtime", move || {
            let config = runtime::Config {
                namespace: namespace.clone(),
                ..runtime::Config::default()
            };
            Box::pin(runtime::run(client.clone(), config, Clock::system()))
        });
        let (client, namespace) = (self.client.clone(), Some(self.namespace.clone()));
        self.supervisor.start("pool", move || {
            let config = pool::Config {
                namespace: namespace.clone(),
                ..pool::Config::default()
            };
            Box::pin(pool::run(client.clone(), config, Clock::system()))
        });
    }

    /// Starts one more scheduler.
    pub(crate) fn start_scheduler(&self, name: &'static str) {
        let (client, namespace) = (self.client.clone(), Some(self.namespace.clone()));
        self.supervisor.start(name, move || {
            let config = scheduler::Config {
                namespace: namespace.clone(),
                ..scheduler::Config::default()
            };
            let life = scheduler::run(client.clone(), config, Clock::system());
            Box::pin(async { life.await.unwrap() })
        });
    }

    fn start_node(&self) {
        let config = NodeConfig {
            client: self.client.clone(),
            runtimed_client: self.client.clone(),
            clock: Clock::system(),
            backend: Arc::new(BashBackend::new(BashBackendConfig {
                root: self.directory.path().to_owned(),
                grace: Duration::from_millis(200),
                records: None,
            })),
            logs: Arc::new(LogHub::default()),
            handle: self.node.clone(),
        };
        self.supervisor
            .start("node", move || Box::pin(node::run(config.clone())));
    }

    /// Drops a part wherever it is; it starts again.
    pub(crate) fn crash(&self, part: &str) {
        assert!(self.supervisor.crash(part), "there is no {part}");
    }

    /// Ends everything, the namespace included.
    pub(crate) async fn stop(&self) {
        self.node.stop().await;
        self.supervisor.stop().await;
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let params = DeleteParams::default();
        namespaces.delete(&self.namespace, &params).await.unwrap();
    }

    /// Path of a file that steps and the test share.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Makes a fifo that steps and the test share.
    pub(crate) fn fifo(&self, name: &str) -> PathBuf {
        let path = self.file(name);
        let made = std::process::Command::new("mkfifo").arg(&path).status();
        assert!(made.unwrap().success());
        path
    }

    /// Returns the objects of one kind in the namespace of this world.
    pub(crate) fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    pub(crate) fn workflow_runs(&self) -> Api<WorkflowRun> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    pub(crate) fn runs(&self) -> Api<Run> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    pub(crate) async fn create<K>(&self, mut object: Value) -> K
    where
        K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + serde::Serialize
            + DeserializeOwned,
    {
        object["metadata"]["namespace"] = json!(self.namespace);
        let object: K = serde_json::from_value(object).unwrap();
        let api: Api<K> = Api::namespaced(self.client.clone(), &self.namespace);
        api.create(&PostParams::default(), &object).await.unwrap()
    }

    /// Creates a WorkflowRun.
    pub(crate) async fn submit(&self, name: &str, jobs: Value) {
        let object = json!({
            "apiVersion": "kruntimes.io/v1alpha1", "kind": "WorkflowRun",
            "metadata": {"name": name}, "spec": {"jobs": jobs},
        });
        self.create::<WorkflowRun>(object).await;
    }

    /// Creates an Action.
    pub(crate) async fn action(&self, name: &str, spec: Value) {
        let object = json!({
            "apiVersion": "kruntimes.io/v1alpha1", "kind": "Action",
            "metadata": {"name": name}, "spec": spec,
        });
        self.create::<Action>(object).await;
    }

    /// Creates a Workflow.
    pub(crate) async fn workflow(&self, name: &str, spec: Value) {
        let object = json!({
            "apiVersion": "kruntimes.io/v1alpha1", "kind": "Workflow",
            "metadata": {"name": name}, "spec": spec,
        });
        self.create::<Workflow>(object).await;
    }

    /// Creates a Run of a script, with more of a spec.
    pub(crate) async fn submit_run(&self, name: &str, script: &str, more: Value) {
        let mut spec = more;
        spec["runtime"] = json!("bash");
        spec["mode"] = json!({"task": {}});
        spec["source"] = json!({"inline": script});
        let object = json!({
            "apiVersion": "kruntimes.io/v1alpha1", "kind": "Run",
            "metadata": {"name": name}, "spec": spec,
        });
        self.create::<Run>(object).await;
    }

    /// Asks for the cancellation of a WorkflowRun.
    pub(crate) async fn cancel(&self, name: &str) {
        let patch = Patch::Merge(json!({"spec": {"cancelRequested": true}}));
        let api = self.workflow_runs();
        let patched = api.patch(name, &PatchParams::default(), &patch).await;
        patched.unwrap();
    }

    /// Waits until a WorkflowRun is over; returns its status.
    pub(crate) async fn end_of(&self, name: &str) -> Value {
        let over = |found: Option<&WorkflowRun>| {
            let status = found.and_then(|found| found.status.as_ref());
            status.is_some_and(|status| status.phase.is_terminal())
        };
        let found = within(self.workflow_runs(), name, over).await;
        serde_json::to_value(found.unwrap().status).unwrap()
    }

    /// Waits until a Run is over; returns its status.
    pub(crate) async fn end_of_run(&self, name: &str) -> Value {
        let over = |found: Option<&Run>| {
            let status = found.and_then(|found| found.status.as_ref());
            status.is_some_and(|status| status.phase.is_terminal())
        };
        let found = within(self.runs(), name, over).await;
        serde_json::to_value(found.unwrap().status).unwrap()
    }

    /// Waits until a Run is gone.
    pub(crate) async fn end_of_existence(&self, name: &str) {
        within(self.runs(), name, |found: Option<&Run>| found.is_none()).await;
    }

    /// Lists the names of all Runs.
    pub(crate) async fn run_names(&self) -> Vec<String> {
        let runs = self.runs().list(&ListParams::default()).await.unwrap();
        runs.iter().map(kube::ResourceExt::name_any).collect()
    }
}

pub(crate) async fn within<K, C>(api: Api<K>, name: &str, condition: C) -> Option<K>
where
    K: kube::Resource + Clone + std::fmt::Debug + Send + DeserializeOwned + 'static,
    C: Condition<K>,
{
    let waiting = await_condition(api, name, condition);
    let waited = tokio::time::timeout(PATIENCE, waiting).await;
    waited
        .unwrap_or_else(|_| panic!("{name} is not there yet"))
        .unwrap()
}

/// Reads a fifo to its end, off the threads that the parts need.
pub(crate) async fn heard(path: &Path) -> String {
    let path = path.to_owned();
    let read = tokio::task::spawn_blocking(move || std::fs::read_to_string(path));
    let read = tokio::time::timeout(PATIENCE, read).await;
    read.expect("somebody writes into the fifo")
        .unwrap()
        .unwrap()
}

/// Writes into a fifo that somebody reads.
pub(crate) async fn tell(path: &Path, text: &'static str) {
    let path = path.to_owned();
    let written = tokio::task::spawn_blocking(move || std::fs::write(path, text));
    let written = tokio::time::timeout(PATIENCE, written).await;
    written.expect("somebody reads the fifo").unwrap().unwrap();
}
