//! The controller as a subject of the engine's conformance suite (W-211).

use kruntimes_core::api::{ActionSpec, RunPhase, WorkflowRunSpec, WorkflowSpec};
use kruntimes_workflow::driver::End;
use kruntimes_workflow::testkit::conformance::{Seen, Subject, run as conform};

use super::*;

/// A controller over the in-process API server, on a clock that stands still.
struct Cluster {
    runtime: tokio::runtime::Runtime,
    world: World,
}

impl Cluster {
    fn new() -> Self {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_time().start_paused(true).build().unwrap();
        let world = runtime.block_on(async { World::new() });
        Self { runtime, world }
    }

    /// Creates an object, or replaces the spec of the one that is there.
    fn define<K>(&self, api: &Api<K>, kind: &str, name: &str, spec: &Value)
    where
        K: kube::Resource
            + Clone
            + serde::de::DeserializeOwned
            + serde::Serialize
            + std::fmt::Debug,
    {
        let object = json!({
            "apiVersion": "kruntimes.io/v1alpha1", "kind": kind,
            "metadata": {"name": name}, "spec": spec,
        });
        self.runtime.block_on(async {
            if api.get_opt(name).await.unwrap().is_some() {
                let params = kube::api::DeleteParams::default();
                api.delete(name, &params).await.unwrap();
            }
            let object = serde_json::from_value(object).unwrap();
            api.create(&PostParams::default(), &object).await.unwrap();
        });
    }
}

impl Subject for Cluster {
    fn reset(&mut self) {
        *self = Self::new();
    }

    fn define_workflow(&mut self, name: &str, spec: WorkflowSpec) {
        let api: Api<Workflow> = Api::namespaced(self.world.client.clone(), "default");
        self.define(&api, "Workflow", name, &json!(spec));
    }

    fn define_action(&mut self, name: &str, spec: ActionSpec) {
        let api: Api<Action> = Api::namespaced(self.world.client.clone(), "default");
        self.define(&api, "Action", name, &json!(spec));
    }

    fn submit(&mut self, name: &str, spec: WorkflowRunSpec) -> Result<(), String> {
        let object = WorkflowRun::new(name, spec);
        let created = self.runtime.block_on(async {
            let (api, params) = (self.world.workflow_runs(), PostParams::default());
            api.create(&params, &object).await
        });
        created.map(|_| ()).map_err(|error| error.to_string())
    }

    fn cancel(&mut self, name: &str) {
        let patch = Patch::Merge(json!({"spec": {"cancelRequested": true}}));
        self.runtime.block_on(async {
            let (api, params) = (self.world.workflow_runs(), PatchParams::default());
            api.patch(name, &params, &patch).await.unwrap();
        });
    }

    fn settle(&mut self) {
        self.runtime.block_on(self.world.settle());
    }

    fn crash(&mut self) {
        let world = &mut self.world;
        self.runtime.block_on(async {
            world.kill().await;
            world.start();
        });
    }

    fn runs(&mut self, of: &str) -> Vec<Seen> {
        let runs = self.runtime.block_on(async {
            let owner = self.world.workflow_runs().get(of).await.ok()?;
            let label = format!("kruntimes.io/workflowrun-uid={}", owner.uid()?);
            let owned = ListParams::default().labels(&label);
            self.world.runs().list(&owned).await.ok()
        });
        let seen = |run: Run| {
            let inner = run.labels().get("kruntimes.io/workflow-action-step");
            let inner = inner.map(|inner| format!("/{inner}")).unwrap_or_default();
            let phase = run.status.as_ref().map(|status| status.phase);
            Seen {
                name: run.name_any(),
                place: format!("{}{inner}", path(&run)),
                open: !phase.is_some_and(RunPhase::is_terminal),
                cancel_asked: run.spec.cancel_requested,
                spec: run.spec,
            }
        };
        runs.into_iter().flatten().map(seen).collect()
    }

    fn end(&mut self, run: &str, end: End) {
        let status = json!({
            "phase": end.phase.as_str(), "outputs": end.outputs, "message": end.message,
            "artifactRefs": end.artifacts,
        });
        let patch = Patch::Merge(json!({"status": status}));
        self.runtime.block_on(async {
            let (api, params) = (self.world.runs(), PatchParams::default());
            api.patch_status(run, &params, &patch).await.unwrap();
        });
    }

    fn status(&mut self, name: &str) -> WorkflowRunStatus {
        self.runtime.block_on(self.world.status_of(name))
    }
}

#[test]
fn w_211_the_controller_passes_the_conformance_suite_of_the_engine() {
    let report = conform(&mut Cluster::new());
    let shown: Vec<String> = report.failures.iter().map(ToString::to_string).collect();
    assert_eq!(shown, Vec::<String>::new());
    assert!(report.checks >= 25);
}
