//! Pods that go while something depends on them.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Pod, Service, ServiceAccount};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kruntimes_core::crd::{PersistentWorkspace, Runtime};
use kube::ResourceExt as _;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::World;
use super::world::{heard, within};

/// A new template replaces the Pod under a Run: it moves to the new one with its next attempt.
pub(crate) async fn a_run_moves_to_the_pod_that_replaces_its_own(world: &World) {
    let (journal, started) = (world.file("journal"), world.fifo("started"));
    // The first attempt never ends by itself.
    let script = format!(
        "echo run >> {0}; if [ \"$(wc -l < {0})\" = 1 ]; then echo here > {1}; exec sleep 1000; fi",
        journal.display(),
        started.display(),
    );
    let twice = json!({"retryPolicy": {"maxAttempts": 2, "backoff": "1s"}});
    world.submit_run("mover", &script, twice).await;
    assert_eq!(heard(&started).await, "here\n");
    let labels = json!({"revision": "two"});
    let template = json!({"spec": {"template": {"metadata": {"labels": labels}}}});
    let runtimes = world.api::<Runtime>();
    let params = PatchParams::default();
    let template = Patch::Merge(template);
    runtimes.patch("bash", &params, &template).await.unwrap();
    let status = world.end_of_run("mover").await;
    assert_eq!(status["phase"], "Succeeded", "{status:#}");
    assert_eq!(status["attempt"], 2, "{status:#}");
    let journal = std::fs::read_to_string(journal).unwrap();
    assert_eq!(journal, "run\nrun\n");
}

/// A workspace is bound to a Pod, lost with it, and does not outlive its deletion.
pub(crate) async fn a_workspace_is_bound_to_a_pod_and_lost_with_it(world: &World) {
    let workspace = json!({
        "apiVersion": "kruntimes.io/v1alpha1", "kind": "PersistentWorkspace",
        "metadata": {"name": "cache"}, "spec": {"runtime": "bash"},
    });
    world.create::<PersistentWorkspace>(workspace).await;
    let workspaces = world.api::<PersistentWorkspace>();
    let in_phase = |wanted: &'static str| {
        move |found: Option<&PersistentWorkspace>| {
            let status = found.and_then(|found| found.status.as_ref());
            status.is_some_and(|status| json!(status.phase) == wanted)
        }
    };
    let bound = within(workspaces.clone(), "cache", in_phase("Bound")).await;
    let status = serde_json::to_value(bound.unwrap().status).unwrap();
    assert_eq!(status["path"], "/workspace/persistent/cache");
    let pod = status["boundPod"].as_str().unwrap();
    let pods = world.api::<Pod>();
    pods.delete(pod, &DeleteParams::default()).await.unwrap();
    let lost = within(workspaces.clone(), "cache", in_phase("Lost")).await;
    let lost = serde_json::to_value(lost.unwrap()).unwrap();
    // Its successor bears the same name and may be there already.
    let reason = reason(&lost, "Bound");
    assert!(reason.starts_with("BoundPod"), "{reason}");
    assert_eq!(lost["status"]["boundPodUID"], status["boundPodUID"]);
    let params = DeleteParams::default();
    workspaces.delete("cache", &params).await.unwrap();
    within(
        workspaces,
        "cache",
        |found: Option<&PersistentWorkspace>| found.is_none(),
    )
    .await;
}

/// A change of one derived object writes none of the others again: what the server completed is no drift.
pub(crate) async fn derived_objects_are_written_once(world: &World) {
    let replicas = |wanted: i32| {
        move |found: Option<&Deployment>| {
            let spec = found.and_then(|found| found.spec.as_ref());
            spec.is_some_and(|spec| spec.replicas == Some(wanted))
        }
    };
    within(world.api::<Deployment>(), "runtime-bash", replicas(1)).await;
    let before = versions(world).await;
    for wanted in [2, 1] {
        let patch = Patch::Merge(json!({"spec": {"replicas": wanted}}));
        let runtimes = world.api::<Runtime>();
        let params = PatchParams::default();
        runtimes.patch("bash", &params, &patch).await.unwrap();
        // The Deployment comes last in each pass.
        within(world.api::<Deployment>(), "runtime-bash", replicas(wanted)).await;
    }
    assert_eq!(versions(world).await, before);
}

async fn versions(world: &World) -> Vec<Option<String>> {
    let (owned, daemon) = ("runtime-bash", "kruntimes-runtimed");
    let binding = "kruntimes-runtimed-kruntimes-runtimed";
    let (service, policy) = (world.api::<Service>(), world.api::<NetworkPolicy>());
    let (account, role) = (world.api::<ServiceAccount>(), world.api::<Role>());
    vec![
        service.get(owned).await.unwrap().resource_version(),
        policy.get(owned).await.unwrap().resource_version(),
        account.get(daemon).await.unwrap().resource_version(),
        role.get(daemon).await.unwrap().resource_version(),
        world
            .api::<RoleBinding>()
            .get(binding)
            .await
            .unwrap()
            .resource_version(),
    ]
}

fn reason(object: &Value, condition: &str) -> String {
    let conditions = object["status"]["conditions"].as_array().unwrap();
    let found = conditions.iter().find(|found| found["type"] == condition);
    found.unwrap()["reason"].as_str().unwrap().to_owned()
}
