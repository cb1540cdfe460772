//! Maintainers of artifact stores: made when deleted Runs wait for them, removed when idle.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::rbac::v1::Role;
use kruntimes_core::crd::{Run, Runtime};
use kruntimes_k8s::cleanup::{IDENTITY, Image};
use kruntimes_k8s::pool::Config;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use kube::runtime::wait::await_condition;
use serde_json::{Value, json};

use super::{World, in_time};

const NAME: &str = "runtime-maintainer-8ec520a69bdef1d2";

fn volume() -> Value {
    json!({"driver": "filesystem", "filesystem": {"volumeClaimName": "artifacts"}})
}

async fn world() -> World {
    let mut world = World::without_controllers().await;
    let config = Config {
        maintainer: Some(Image::default()),
        ..Config::default()
    };
    let run = kruntimes_k8s::pool::run(world.client.clone(), config, world.clock.clone());
    world.controllers.spawn(run);
    world
}

fn deployments(world: &World) -> Api<Deployment> {
    Api::default_namespaced(world.client.clone())
}

/// Makes a Run with artifacts in a store, and deletes it.
async fn deleted(world: &World, name: &str, store: Option<Value>) {
    let run = json!({
        "apiVersion": "kruntimes.io/v1alpha1",
        "kind": "Run",
        "metadata": {"name": name, "finalizers": ["kruntimes.io/artifact-cleanup"]},
        "spec": {"runtime": "bash", "mode": {"task": {"args": ["x"]}}},
    });
    let run: Run = serde_json::from_value(run).unwrap();
    let runs = world.runs();
    runs.create(&kube::api::PostParams::default(), &run)
        .await
        .unwrap();
    if let Some(store) = store {
        let patch = json!({"status": {"artifactStore": store}});
        let params = PatchParams::default();
        runs.patch_status(name, &params, &Patch::Merge(&patch))
            .await
            .unwrap();
    }
    runs.delete(name, &DeleteParams::default()).await.unwrap();
}

async fn there(world: &World) -> Deployment {
    let api = deployments(world);
    let waiting = await_condition(api, NAME, |found: Option<&Deployment>| found.is_some());
    Box::pin(in_time(waiting)).await.unwrap().unwrap()
}

async fn gone(world: &World) {
    let api = deployments(world);
    let waiting = await_condition(api, NAME, |found: Option<&Deployment>| found.is_none());
    Box::pin(in_time(waiting)).await.unwrap();
}

async fn release(world: &World, name: &str) {
    let patch = json!({"metadata": {"finalizers": null}});
    let params = PatchParams::default();
    let runs = world.runs();
    runs.patch(name, &params, &Patch::Merge(&patch))
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn n_170_n_171_n_175_a_maintainer_is_there_while_runs_wait_for_it() {
    let world = world().await;
    deleted(&world, "a", Some(volume())).await;
    let made = there(&world).await;
    assert_eq!(made.metadata.owner_references, None);
    let roles: Api<Role> = Api::default_namespaced(world.client.clone());
    assert!(roles.get_opt(IDENTITY).await.unwrap().is_some());
    // A second Run of the same store finds it there; nothing is written again in the rechecks.
    deleted(&world, "b", Some(volume())).await;
    world.pass(95).await;
    let again = deployments(&world).get(NAME).await.unwrap();
    assert_eq!(
        again.metadata.resource_version,
        made.metadata.resource_version
    );
    let events = world.events().await;
    let told = events
        .iter()
        .filter(|(reason, _)| reason == "RuntimeMaintainerEnsured");
    assert_eq!(told.count(), 1, "{events:?}");
    // Deleted by somebody, it comes back while it is needed.
    deployments(&world)
        .delete(NAME, &DeleteParams::default())
        .await
        .unwrap();
    let back = there(&world).await;
    assert_ne!(back.metadata.uid, made.metadata.uid);
    release(&world, "a").await;
    world.pass(700).await;
    assert!(
        deployments(&world).get_opt(NAME).await.unwrap().is_some(),
        "b still waits"
    );
    release(&world, "b").await;
    world.pass(590).await;
    assert!(deployments(&world).get_opt(NAME).await.unwrap().is_some());
    gone(&world).await;
    deleted(&world, "c", Some(volume())).await;
    there(&world).await;
}

#[tokio::test(start_paused = true)]
async fn n_169_a_missing_store_is_completed_or_explained() {
    let world = world().await;
    let runtimes: Api<Runtime> = world.runtimes();
    deleted(&world, "lost", None).await;
    let explained = |run: Option<&Run>| {
        let status = run.and_then(|run| run.status.as_ref());
        status.is_some_and(|status| {
            status
                .conditions
                .iter()
                .any(|c| c.reason == "ArtifactStoreUnknown")
        })
    };
    let waiting = await_condition(world.runs(), "lost", explained);
    let found = Box::pin(in_time(waiting)).await.unwrap().unwrap();
    let text = &found.status.unwrap().conditions[0].message;
    assert!(
        text.contains("kruntimes.io/artifact-cleanup") && text.contains("bash"),
        "{text}"
    );
    assert!(deployments(&world).get_opt(NAME).await.unwrap().is_none());
    // Once the Runtime tells where its artifacts are, the Run carries it and is cleaned up after.
    let patch = json!({"spec": {"artifactStore": volume()}});
    let params = PatchParams::default();
    runtimes
        .patch("bash", &params, &Patch::Merge(&patch))
        .await
        .unwrap();
    there(&world).await;
    let run = world.runs().get("lost").await.unwrap();
    let store = serde_json::to_value(run.status.unwrap().artifact_store).unwrap();
    assert_eq!(store, volume());
}
