//! What people are told, and what wakes a WorkflowRun.

use k8s_openapi::api::core::v1::Event;
use kruntimes_core::crd::PersistentWorkspace;
use kruntimes_core::names::job_workspace;
use kruntimes_k8s::workflow::{REASON_SNAPSHOT_INVALID, Shared};
use kruntimes_workflow::plan::JobWorkspace;

use super::*;

/// Reasons and words of all events, sorted.
async fn told(world: &World) -> Vec<(String, String)> {
    let api: Api<Event> = Api::namespaced(world.client.clone(), "default");
    let found = api.list(&ListParams::default()).await.unwrap();
    let said = |event: Event| {
        assert_eq!(event.type_.as_deref(), Some("Warning"));
        assert_eq!(event.involved_object.kind.as_deref(), Some("WorkflowRun"));
        (event.reason.unwrap(), event.message.unwrap())
    };
    let mut told: Vec<_> = found.items.into_iter().map(said).collect();
    told.sort();
    told
}

#[tokio::test(start_paused = true)]
async fn w_192_failures_are_told_once_with_their_reasons_and_success_is_not() {
    let world = World::new();
    world
        .create(json!({"a": job(&[], &["s"]), "b": job(&["a"], &["s"])}))
        .await;
    world.settle().await;
    assert_eq!(told(&world).await, []);
    world.end("a", "s", json!({"phase": "Failed"})).await;
    world.settle().await;
    assert_eq!(world.phase().await, WorkflowRunPhase::Failed);
    let text = "step \"s\" in job \"a\" failed";
    let want = [
        ("JobFailed".to_owned(), text.to_owned()),
        ("StepFailed".to_owned(), format!("jobs.a: {text}")),
    ];
    assert_eq!(told(&world).await, want);
    world.settle().await;
    assert_eq!(told(&world).await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn w_53_w_54_a_snapshot_of_somebody_else_is_not_read_but_told() {
    let mut world = World::new();
    world.create(json!({"a": job(&[], &["s"])})).await;
    world.settle().await;
    world.kill().await;
    let before = world.status().await;
    let name = before.snapshot_name.clone().unwrap();
    let labels = json!({"metadata": {"labels": {"kruntimes.io/workflowrun-uid": "other"}}});
    world
        .revisions()
        .patch(&name, &PatchParams::default(), &Patch::Merge(labels))
        .await
        .unwrap();
    world.start();
    world.settle().await;
    let text = format!("workflow snapshot default/{name} belongs to another workflowrun");
    assert_eq!(
        told(&world).await,
        [(REASON_SNAPSHOT_INVALID.to_owned(), text)]
    );
    assert_eq!(world.status().await, before);
}

#[tokio::test(start_paused = true)]
async fn w_69_a_child_wakes_the_workflow_run_that_controls_it_and_no_other() {
    let world = World::new();
    world.create(json!({"a": job(&[], &["s"])})).await;
    world.settle().await;
    // Another kind with this name and no name at all: nobody is woken, nothing is written.
    let before = world.server.resource_version();
    let mut made = 0;
    for (kind, name) in [("Workshop", "wfr"), ("WorkflowRun", "stranger")] {
        let run: Run = serde_json::from_value(json!({
            "apiVersion": "kruntimes.io/v1alpha1",
            "kind": "Run",
            "metadata": {
                "name": format!("other-{made}"),
                "labels": {"kruntimes.io/workflowrun-uid": "x"},
                "ownerReferences": [{
                    "apiVersion": "kruntimes.io/v1alpha1", "kind": kind, "name": name,
                    "uid": "x", "controller": true,
                }],
            },
            "spec": {"runtime": "bash", "mode": {"task": {}}, "source": {"inline": "1"}},
        }))
        .unwrap();
        world
            .runs()
            .create(&PostParams::default(), &run)
            .await
            .unwrap();
        made += 1;
    }
    world.settle().await;
    let written = world.server.resource_version() - before;
    assert_eq!(written, made);
    // The child it controls does.
    world.succeed("a", "s").await;
    world.settle().await;
    assert_eq!(world.phase().await, WorkflowRunPhase::Succeeded);
}

#[tokio::test(start_paused = true)]
async fn w_124_the_operator_decides_how_long_a_workspace_is_kept_after_its_job() {
    let mut world = World::idle();
    let mut config = Config::default();
    config.policy.job_workspace = JobWorkspace::MultiStep;
    config.shared = Shared {
        ttl_seconds: Some(60),
        ..Shared::default()
    };
    world.start_config(config);
    world
        .create(json!({"a": job(&[], &["s", "t"]), "b": job(&[], &["s"])}))
        .await;
    world.settle().await;
    let api: Api<PersistentWorkspace> = Api::namespaced(world.client.clone(), "default");
    let name = job_workspace("wfr", "a");
    let expiry = async || api.get(&name).await.unwrap().spec.ttl_seconds_after_unused;
    assert_eq!(expiry().await, None);
    world.succeed("a", "s").await;
    world.settle().await;
    // Between two steps it has no clock.
    assert_eq!(expiry().await, None);
    world.succeed("a", "t").await;
    world.settle().await;
    assert_eq!(world.phase().await, WorkflowRunPhase::Running);
    assert_eq!(expiry().await, Some(60));
    let before = world.server.resource_version();
    world.settle().await;
    assert_eq!(world.server.resource_version(), before);
}
