//! The WorkflowRun controller over the in-process API service.

mod actions;
mod calls;
mod cancel;
mod conformance;
mod events;
mod extensions;
mod ownership;
mod restart;
mod run;
mod sharing;

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kruntimes_apiserver::ApiServer;
use kruntimes_core::api::{JobPhase, WorkflowRunPhase, WorkflowRunStatus};
use kruntimes_core::crd::{Action, Run, Workflow, WorkflowRun};
use kruntimes_k8s::clock::Clock;
use kruntimes_k8s::workflow::{Config, run};
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::mortal::Mortal;

/// An API service, and a controller that can be killed.
pub(crate) struct World {
    pub(crate) server: ApiServer,
    pub(crate) client: Client,
    controllers: JoinSet<()>,
}

impl World {
    /// Starts without a controller.
    fn idle() -> Self {
        Self::serving(kruntimes_core::crd::all())
    }

    /// Starts a controller on an API that refuses Runs with scripts above ten characters.
    fn strict() -> Self {
        let strict = |crd| {
            let mut value = serde_json::to_value(crd).unwrap();
            let schema = &mut value["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
            let inline = "/properties/spec/properties/source/properties/inline/maxLength";
            if let Some(limit) = schema.pointer_mut(inline) {
                *limit = json!(10);
            }
            serde_json::from_value(value).unwrap()
        };
        let crds = kruntimes_core::crd::all().into_iter().map(strict);
        let mut world = Self::serving(crds.collect());
        world.start();
        world
    }

    fn serving(crds: Vec<CustomResourceDefinition>) -> Self {
        let mut builder = ApiServer::builder();
        for crd in crds {
            builder = builder.crd(crd);
        }
        let server = builder.build().expect("the CRDs are valid");
        Self {
            client: server.client(),
            server,
            controllers: JoinSet::new(),
        }
    }

    fn new() -> Self {
        let mut world = Self::idle();
        world.start();
        world
    }

    /// Starts one more controller.
    fn start(&mut self) {
        self.start_with(self.client.clone());
    }

    fn start_with(&mut self, client: Client) {
        self.start_both(client, Config::default());
    }

    /// Starts a controller that is told something else than the defaults.
    fn start_config(&mut self, config: Config) {
        self.start_both(self.client.clone(), config);
    }

    fn start_both(&mut self, client: Client, config: Config) {
        let clock = Clock::virtual_from(Timestamp::UNIX_EPOCH);
        self.controllers.spawn(run(client, config, clock));
    }

    /// Starts a controller whose writes stop after some; returns its count of writes.
    fn start_mortal(&mut self, writes: usize) -> Mortal {
        self.start_mortal_with(writes, Config::default())
    }

    fn start_mortal_with(&mut self, writes: usize, config: Config) -> Mortal {
        let mortal = Mortal::after(writes);
        self.start_both(self.server.client_with(&mortal), config);
        mortal
    }

    /// Kills every controller.
    async fn kill(&mut self) {
        self.controllers.shutdown().await;
    }

    fn workflow_runs(&self) -> Api<WorkflowRun> {
        Api::namespaced(self.client.clone(), "default")
    }

    fn runs(&self) -> Api<Run> {
        Api::namespaced(self.client.clone(), "default")
    }

    fn revisions(&self) -> Api<ControllerRevision> {
        Api::namespaced(self.client.clone(), "default")
    }

    async fn create(&self, jobs: Value) -> WorkflowRun {
        let object: WorkflowRun = serde_json::from_value(json!({
            "apiVersion": "kruntimes.io/v1alpha1",
            "kind": "WorkflowRun",
            "metadata": {"name": "wfr"},
            "spec": {"jobs": jobs},
        }))
        .unwrap();
        let (api, params) = (self.workflow_runs(), PostParams::default());
        let created = api.create(&params, &object).await;
        created.expect("the WorkflowRun is valid")
    }

    /// Stores an Action or a Workflow.
    async fn define(&self, kind: &str, name: &str, spec: Value) {
        let object = json!({
            "apiVersion": "kruntimes.io/v1alpha1", "kind": kind,
            "metadata": {"name": name}, "spec": spec,
        });
        let params = PostParams::default();
        if kind == "Action" {
            let api: Api<Action> = Api::namespaced(self.client.clone(), "default");
            let object = serde_json::from_value(object).unwrap();
            api.create(&params, &object).await.unwrap();
        } else {
            let api: Api<Workflow> = Api::namespaced(self.client.clone(), "default");
            let object = serde_json::from_value(object).unwrap();
            api.create(&params, &object).await.unwrap();
        }
    }

    /// The status of any WorkflowRun.
    async fn status_of(&self, name: &str) -> WorkflowRunStatus {
        let object = self.workflow_runs().get_status(name).await.unwrap();
        object.status.unwrap_or_default()
    }

    /// Lists the WorkflowRuns, sorted.
    async fn workflow_run_names(&self) -> Vec<String> {
        let list = self.workflow_runs().list(&ListParams::default()).await;
        let mut names: Vec<_> = list.unwrap().iter().map(ResourceExt::name_any).collect();
        names.sort();
        names
    }

    /// Lets everything settle. Time stands still, so nothing that waits for a timer happens.
    async fn settle(&self) {
        for _ in 0..600 {
            tokio::task::yield_now().await;
        }
    }

    async fn status(&self) -> WorkflowRunStatus {
        let object = self.workflow_runs().get_status("wfr").await.unwrap();
        object.status.unwrap_or_default()
    }

    async fn phase(&self) -> WorkflowRunPhase {
        self.status().await.phase
    }

    async fn phases(&self) -> Vec<(String, JobPhase)> {
        let jobs = self.status().await.jobs.unwrap_or_default();
        jobs.into_iter()
            .map(|(name, job)| (name, job.phase))
            .collect()
    }

    /// Lists the Runs as `job/step`, sorted.
    async fn listed(&self) -> Vec<String> {
        let runs = self.runs().list(&ListParams::default()).await.unwrap();
        let mut names: Vec<_> = runs.iter().map(path).collect();
        names.sort();
        names
    }

    async fn run_of(&self, job: &str, step: &str) -> Run {
        let runs = self.runs().list(&ListParams::default()).await.unwrap();
        let mut found = runs
            .into_iter()
            .filter(|run| path(run) == format!("{job}/{step}"));
        found
            .next()
            .unwrap_or_else(|| panic!("no Run of {job}/{step}"))
    }

    /// Ends a Run as a node would, and lets the controller react.
    async fn end(&self, job: &str, step: &str, status: Value) {
        let name = self.run_of(job, step).await.name_any();
        let patch = Patch::Merge(json!({"status": status}));
        let params = PatchParams::default();
        self.runs()
            .patch_status(&name, &params, &patch)
            .await
            .unwrap();
        self.settle().await;
    }

    async fn succeed(&self, job: &str, step: &str) {
        self.end(job, step, json!({"phase": "Succeeded"})).await;
    }

    async fn cancel(&self) {
        let patch = Patch::Merge(json!({"spec": {"cancelRequested": true}}));
        let params = PatchParams::default();
        self.workflow_runs()
            .patch("wfr", &params, &patch)
            .await
            .unwrap();
        self.settle().await;
    }

    /// Plays a node: ends every open Run well until none is left.
    async fn execute_all(&self) {
        loop {
            let runs = self.runs().list(&ListParams::default()).await.unwrap();
            let open = |run: &&Run| {
                run.status
                    .as_ref()
                    .is_none_or(|status| !status.phase.is_terminal())
            };
            let open: Vec<_> = runs
                .iter()
                .filter(open)
                .map(ResourceExt::name_any)
                .collect();
            if open.is_empty() {
                return;
            }
            for name in open {
                let status = json!({"phase": "Succeeded", "outputs": {"from": name}});
                let patch = Patch::Merge(json!({"status": status}));
                let params = PatchParams::default();
                self.runs()
                    .patch_status(&name, &params, &patch)
                    .await
                    .unwrap();
            }
            self.settle().await;
        }
    }
}

fn path(run: &Run) -> String {
    let label = |key: &str| run.labels().get(key).cloned().unwrap_or_default();
    let (job, step) = (
        label("kruntimes.io/workflow-job"),
        label("kruntimes.io/workflow-step"),
    );
    format!("{job}/{step}")
}

/// A job with one step per name.
fn job(needs: &[&str], steps: &[&str]) -> Value {
    let steps: Vec<_> = steps
        .iter()
        .map(|name| json!({"name": name, "run": "true"}))
        .collect();
    if needs.is_empty() {
        return json!({"runs-on": "bash", "steps": steps});
    }
    json!({"runs-on": "bash", "needs": needs, "steps": steps})
}

/// A graph with a call of an Action and a call of a Workflow that calls another one.
fn composed() -> Value {
    json!({
        "build": {
            "runs-on": "bash",
            "steps": [
                {"name": "pre", "run": "1"},
                {"name": "tools", "uses": "tools", "with": {"level": "${{ steps.pre.outputs.from }}"}},
            ],
            "outputs": {"tag": "${{ steps.tools.outputs.where }}"},
        },
        "ship": {"needs": ["build"], "uses": "outer", "with": {"tag": "${{ jobs.build.outputs.tag }}"}},
        "last": {
            "needs": ["ship"], "runs-on": "bash",
            "steps": [{"name": "s", "run": "got ${{ jobs.ship.outputs.url }}"}],
        },
    })
}

impl World {
    /// Stores what `composed` refers to.
    async fn define_all(&self) {
        let tools = json!({
            "inputs": {"level": {"required": true}},
            "outputs": {"where": {"value": "at ${{ steps.one.outputs.from }}"}},
            "steps": [{"name": "one", "run": "1 ${{ inputs.level }}"}, {"name": "two", "run": "2"}],
        });
        self.define("Action", "tools", tools).await;
        let outer = json!({
            "inputs": {"tag": {"required": true}},
            "outputs": {"url": {"value": "outer ${{ jobs.down.outputs.url }}"}},
            "jobs": {"down": {"uses": "inner", "with": {"tag": "${{ inputs.tag }}"}}},
        });
        self.define("Workflow", "outer", outer).await;
        let inner = json!({
            "inputs": {"tag": {}},
            "outputs": {"url": {"value": "inner ${{ jobs.j.outputs.u }}"}},
            "jobs": {"j": {
                "runs-on": "bash",
                "steps": [{"name": "s", "run": "${{ inputs.tag }}"}],
                "outputs": {"u": "${{ inputs.tag }}"},
            }},
        });
        self.define("Workflow", "inner", inner).await;
    }
}

fn diamond() -> Value {
    json!({
        "a": job(&[], &["s"]),
        "l": job(&["a"], &["s"]),
        "r": job(&["a"], &["s"]),
        "z": job(&["l", "r"], &["one", "two"]),
    })
}

/// What of a status must not depend on crashes: everything but times.
fn essence(status: &WorkflowRunStatus) -> Value {
    let mut value = serde_json::to_value(status).unwrap();
    for condition in value["conditions"].as_array_mut().unwrap() {
        condition["lastTransitionTime"] = Value::Null;
    }
    let names: BTreeMap<String, Value> = serde_json::from_value(value["jobs"].clone()).unwrap();
    assert!(!names.is_empty());
    value.as_object_mut().unwrap().remove("snapshotName");
    value
}
