//! The Runtime controller over the in-process API service.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use kruntimes_apiserver::ApiServer;
use kruntimes_core::condition;
use kruntimes_core::crd::Runtime;
use kruntimes_k8s::clock::Clock;
use kruntimes_k8s::runtime::{Config, run};
use kube::Client;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

struct World {
    server: ApiServer,
    client: Client,
    _controller: tokio::task::JoinSet<()>,
}

fn world() -> World {
    let mut builder = ApiServer::builder();
    for crd in kruntimes_core::crd::all() {
        builder = builder.crd(crd);
    }
    let server = builder.build().expect("the CRDs are valid");
    let client = server.client();
    let clock = Clock::virtual_from(Timestamp::UNIX_EPOCH);
    let mut controller = tokio::task::JoinSet::new();
    controller.spawn(run(client.clone(), Config::default(), clock));
    controller.spawn(server.run_garbage_collector());
    World {
        server,
        client,
        _controller: controller,
    }
}

impl World {
    fn runtimes(&self) -> Api<Runtime> {
        Api::namespaced(self.client.clone(), "default")
    }

    fn deployments(&self) -> Api<Deployment> {
        Api::namespaced(self.client.clone(), "default")
    }

    async fn create(&self, name: &str, containers: Value) {
        let runtime: Runtime = serde_json::from_value(json!({
            "apiVersion": "kruntimes.io/v1alpha1",
            "kind": "Runtime",
            "metadata": {"name": name},
            "spec": {"template": {"spec": {"containers": containers}}},
        }))
        .unwrap();
        let api = self.runtimes();
        let created = api.create(&PostParams::default(), &runtime).await;
        created.expect("the Runtime is valid");
    }

    /// Lets the controller settle: paused time moves only when nothing else can.
    async fn settle(&self) {
        tokio::time::advance(Duration::from_millis(1)).await;
        for _ in 0..500 {
            tokio::task::yield_now().await;
        }
    }

    async fn ready(&self, name: &str) -> (String, String, i32) {
        let status = self
            .runtimes()
            .get(name)
            .await
            .unwrap()
            .status
            .unwrap_or_default();
        let ready = condition::get(&status.conditions, "Ready").expect("a Ready condition");
        (
            ready.status.as_str().to_owned(),
            ready.reason.clone(),
            status.ready_replicas,
        )
    }
}

fn bash() -> Value {
    json!([{"name": "runtime", "image": "bash"}])
}

#[tokio::test(start_paused = true)]
async fn n_246_ready_replicas_follow_the_deployment_up_and_down() {
    let world = world();
    world.create("bash", bash()).await;
    world.settle().await;
    assert_eq!(
        world.ready("bash").await,
        ("False".into(), "NoReadyReplicas".into(), 0)
    );
    for (count, status, reason) in [
        (2, "True", "ReplicasReady"),
        (0, "False", "NoReadyReplicas"),
    ] {
        let patch = Patch::Merge(json!({"status": {"readyReplicas": count}}));
        let written = world
            .deployments()
            .patch_status("runtime-bash", &PatchParams::default(), &patch)
            .await;
        written.unwrap();
        world.settle().await;
        assert_eq!(
            world.ready("bash").await,
            (status.into(), reason.into(), count)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn n_237_drift_is_repaired_and_rest_writes_nothing() {
    let world = world();
    world.create("bash", bash()).await;
    world.settle().await;
    let patch = Patch::Merge(
        json!({"spec": {"replicas": 7}, "metadata": {"annotations": {"other": "kept"}}}),
    );
    let api = world.deployments();
    let params = PatchParams::default();
    let drifted = api.patch("runtime-bash", &params, &patch);
    drifted.await.unwrap();
    world.settle().await;
    let repaired = world.deployments().get("runtime-bash").await.unwrap();
    assert_eq!(repaired.spec.unwrap().replicas, Some(1));
    assert_eq!(repaired.metadata.annotations.unwrap()["other"], "kept");
    let before = world.server.resource_version();
    tokio::time::advance(Duration::from_secs(600)).await;
    world.settle().await;
    assert_eq!(
        world.server.resource_version(),
        before,
        "ten quiet minutes write nothing"
    );
}

#[tokio::test(start_paused = true)]
async fn n_236_n_243_impossible_runtimes_say_why_and_make_nothing() {
    let world = world();
    let long = "r".repeat(60);
    world.create(&long, bash()).await;
    world
        .create(
            "odd",
            json!([{"name": "runtime", "image": "bash", "ports": [{"containerPort": "x"}]}]),
        )
        .await;
    world.settle().await;
    assert_eq!(world.ready(&long).await.1, "InvalidName");
    assert_eq!(world.ready("odd").await.1, "ReconcileFailed");
    let api = world.deployments();
    let made = api.list(&kube::api::ListParams::default()).await.unwrap();
    assert!(made.items.is_empty());
}

#[tokio::test(start_paused = true)]
async fn deleting_a_runtime_takes_its_deployment_along() {
    let world = world();
    world.create("bash", bash()).await;
    world.settle().await;
    assert!(
        world
            .deployments()
            .get_opt("runtime-bash")
            .await
            .unwrap()
            .is_some()
    );
    let deleted = world.runtimes();
    deleted
        .delete("bash", &DeleteParams::default())
        .await
        .unwrap();
    world.settle().await;
    assert!(
        world
            .deployments()
            .get_opt("runtime-bash")
            .await
            .unwrap()
            .is_none()
    );
}

#[tokio::test(start_paused = true)]
async fn a_deployment_of_something_else_is_left_alone_until_it_goes() {
    let world = world();
    let owner = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": "1", "controller": true,
    });
    let selector = json!({"matchLabels": {"app": "x"}});
    let template = json!({
        "metadata": {"labels": {"app": "x"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    });
    let foreign: Deployment = serde_json::from_value(json!({
        "metadata": {"name": "runtime-bash", "finalizers": ["a.b/c"], "ownerReferences": [owner]},
        "spec": {"selector": selector, "template": template},
    }))
    .unwrap();
    let api = world.deployments();
    let made = api.create(&PostParams::default(), &foreign).await.unwrap();
    world.create("bash", bash()).await;
    world.settle().await;
    assert_eq!(world.ready("bash").await.1, "ReconcileFailed");
    let kept = api.get("runtime-bash").await.unwrap();
    assert_eq!(
        kept.metadata.owner_references,
        made.metadata.owner_references
    );
    let release = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    let params = PatchParams::default();
    api.patch("runtime-bash", &params, &release).await.unwrap();
    let _ = api.delete("runtime-bash", &DeleteParams::default()).await;
    tokio::time::advance(Duration::from_secs(60)).await;
    world.settle().await;
    let ours = api.get("runtime-bash").await.unwrap();
    assert_eq!(ours.metadata.owner_references.unwrap()[0].kind, "Runtime");
    assert_eq!(world.ready("bash").await.1, "NoReadyReplicas");
}
