//! Why a Run is in its state, each row of the table produced on purpose (cli, C-59, C-60, C-160).

use k8s_openapi::api::core::v1::{Namespace, Pod};
use kruntimes_core::crd::{PersistentWorkspace, Runtime};
use kruntimes_k8s::explain::{Confidence, Explanation, LoadError, Options, Picture};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::world::World;

async fn explained(world: &World, run: &str) -> Explanation {
    let (client, now) = (world.server.client(), world.now());
    let picture = Picture::load(&client, "default", run, now).await.unwrap();
    picture.explain(&Options::default()).unwrap()
}

async fn golden(world: &World, run: &str, name: &str) {
    insta::assert_snapshot!(name, explained(world, run).await.to_string());
}

/// Writes the end of a Run, as runtimed would.
async fn ends(world: &World, run: &str, phase: &str, reason: &str, message: &str) {
    let now = world.now();
    let failed = |kind: &str| {
        json!({"type": kind, "status": "False", "reason": reason, "message": message,
               "lastTransitionTime": now})
    };
    let status = json!({
        "phase": phase, "message": message, "attempt": 1, "completionTime": now,
        "conditions": [failed("Running"), failed("Completed")],
    });
    world.report(run, status).await;
}

/// Writes that runtimed has taken a Run.
async fn claimed(world: &World, run: &str) {
    let now = world.now();
    let status = json!({"phase": "Running", "startTime": now, "conditions": [
        {"type": "Running", "status": "True", "reason": "Claimed", "message": "", "lastTransitionTime": now},
    ]});
    world.report(run, status).await;
}

#[tokio::test(start_paused = true)]
async fn c_160_c_158_row_1_a_missing_runtime_names_the_nearest_and_where_it_is() {
    let world = World::new().await;
    let client = world.server.client();
    let other: Namespace = serde_json::from_value(json!({"metadata": {"name": "other"}})).unwrap();
    let namespaces: Api<Namespace> = Api::all(client.clone());
    namespaces
        .create(&PostParams::default(), &other)
        .await
        .unwrap();
    let runtime: Runtime = serde_json::from_value(json!({
        "apiVersion": "kruntimes.io/v1alpha1", "kind": "Runtime", "metadata": {"name": "pyhton"},
        "spec": {"template": {"spec": {"containers": [{"name": "runtime", "image": "i"}]}}},
    }))
    .unwrap();
    let runtimes: Api<Runtime> = Api::namespaced(client, "other");
    runtimes
        .create(&PostParams::default(), &runtime)
        .await
        .unwrap();
    world.run("r", json!({"runtime": "pyhton"})).await;
    world.until_waiting("r").await;
    golden(&world, "r", "row-1-runtime-not-found").await;
}

#[tokio::test(start_paused = true)]
async fn c_160_c_158_row_2_a_pool_without_ready_pods_quotes_the_first_problem() {
    let world = World::new().await;
    world.pod("p", 2).await;
    let waiting = json!({"waiting": {"reason": "ImagePullBackOff", "message": "no image \"i\""}});
    let status = Patch::Merge(
        json!({"status": {"phase": "Pending", "containerStatuses": [{
            "name": "runtime", "image": "i", "imageID": "", "ready": false, "restartCount": 0,
            "state": waiting,
        }]}}),
    );
    let pods: Api<Pod> = Api::default_namespaced(world.server.client());
    pods.patch_status("p", &PatchParams::default(), &status)
        .await
        .unwrap();
    world.run("r", json!({})).await;
    world.until_waiting("r").await;
    golden(&world, "r", "row-2-no-ready-pods").await;
}

#[tokio::test(start_paused = true)]
async fn c_160_c_158_row_3_old_heartbeats_say_how_old_and_on_how_many_pods() {
    let world = World::new().await;
    world.ready_pod("a", 2).await;
    world.ready_pod("b", 2).await;
    world.pass(42).await;
    world.run("r", json!({})).await;
    world.until_waiting("r").await;
    golden(&world, "r", "row-3-heartbeat-stale").await;
}

#[tokio::test(start_paused = true)]
async fn c_160_c_60_row_4_a_full_pool_says_slots_position_and_rate() {
    let world = World::new().await;
    world.ready_pod("a", 2).await;
    for name in ["b1", "b2"] {
        world.run(name, json!({})).await;
        world.until_scheduled(name).await;
    }
    world.pass(1).await;
    world.run("early", json!({})).await;
    world.until_waiting("early").await;
    world.pass(2).await;
    world.run("r", json!({})).await;
    world.until_waiting("r").await;
    golden(&world, "r", "row-4-insufficient-capacity").await;
    let told = explained(&world, "r").await;
    assert!(
        told.summary.contains("2 of 2 slots used, queue position 2"),
        "{told}"
    );
}

#[tokio::test(start_paused = true)]
async fn c_160_c_158_row_5_a_request_beyond_every_pod_says_so() {
    let world = World::new().await;
    world.ready_pod("a", 2).await;
    world
        .run("r", json!({"resources": {"requests": {"runs": "4"}}}))
        .await;
    world.until_waiting("r").await;
    golden(&world, "r", "row-5-request-exceeds-capacity").await;
}

fn near(key: &str, value: &str, kind: &str) -> Value {
    let term = json!({
        "labelSelector": {"matchLabels": {key: value}},
        "topologyKey": "kruntimes.io/runtime-pod",
    });
    json!({"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}})
}

#[tokio::test(start_paused = true)]
async fn c_160_c_158_row_6_affinity_names_the_term_and_whom_it_excludes() {
    let world = World::new().await;
    world.ready_pod("a", 2).await;
    world.ready_pod("b", 2).await;
    world.run("r", near("stage", "build", "runAffinity")).await;
    world.until_waiting("r").await;
    golden(&world, "r", "row-6-affinity").await;
    for name in ["t1", "t2"] {
        world
            .run(name, near("edited", "yes", "runAntiAffinity"))
            .await;
        world.edit(name).await;
        world.until_scheduled(name).await;
    }
    world
        .run("s", near("edited", "yes", "runAntiAffinity"))
        .await;
    world.until_waiting("s").await;
    golden(&world, "s", "row-6-anti-affinity").await;
}

#[tokio::test(start_paused = true)]
async fn c_160_c_158_row_7_a_workspace_is_unbound_missing_or_lost() {
    let world = World::new().await;
    world.ready_pod("a", 2).await;
    world.workspace("w").await;
    world.run("r", json!({"workspace": {"name": "w"}})).await;
    world
        .run("m", json!({"workspace": {"name": "missing"}}))
        .await;
    world.until_waiting("r").await;
    world.until_waiting("m").await;
    golden(&world, "r", "row-7-workspace-unbound").await;
    let missing = explained(&world, "m").await;
    assert_eq!(missing.reason, "WorkspaceNotBound");
    assert_eq!(
        missing.summary,
        "there is no PersistentWorkspace \"missing\""
    );
    world.bind_workspace("w", "a").await;
    world.until_scheduled("r").await;
    let lost = Patch::Merge(json!({"status": {"phase": "Lost"}}));
    let workspaces: Api<PersistentWorkspace> = Api::default_namespaced(world.server.client());
    workspaces
        .patch_status("w", &PatchParams::default(), &lost)
        .await
        .unwrap();
    world.run("l", json!({"workspace": {"name": "w"}})).await;
    world.until_waiting("l").await;
    golden(&world, "l", "row-7-workspace-lost").await;
}

#[tokio::test(start_paused = true)]
async fn c_160_c_158_row_8_between_attempts_it_says_which_when_and_after_what() {
    let world = World::new().await;
    world.ready_pod("a", 2).await;
    let policy = json!({"maxAttempts": 5, "backoff": "10s"});
    world
        .run("r", json!({"retryPolicy": policy, "runtime": "nobody"}))
        .await;
    world.until_waiting("r").await;
    let status = json!({"phase": "Pending", "attempt": 2, "conditions": [{
        "type": "Running", "status": "False", "reason": "RuntimeError", "message": "",
        "lastTransitionTime": world.now(),
    }]});
    world.report("r", status).await;
    world.until_waiting("r").await;
    world.pass(3).await;
    golden(&world, "r", "row-8-retry-backoff").await;
}

#[tokio::test(start_paused = true)]
async fn c_160_c_158_row_9_silence_means_that_no_scheduler_is_there() {
    let mut world = World::new().await;
    world.stop().await;
    world.ready_pod("a", 2).await;
    world.run("r", json!({})).await;
    world.pass(3).await;
    let early = explained(&world, "r").await;
    assert_eq!(
        early.reason, "Placeable",
        "after 3 s nobody is to blame yet"
    );
    world.pass(10).await;
    golden(&world, "r", "row-9-scheduler-silent").await;
}

#[tokio::test(start_paused = true)]
async fn c_160_row_10_assigned_and_not_claimed_says_what_the_pod_is_up_to() {
    let world = World::new().await;
    world.ready_pod("a", 2).await;
    world.run("r", json!({})).await;
    world.until_scheduled("r").await;
    assert_eq!(explained(&world, "r").await.reason, "Assigned");
    world.pass(12).await;
    golden(&world, "r", "row-10-not-claimed").await;
    world.pass(12).await;
    let silent = explained(&world, "r").await;
    assert!(
        silent
            .summary
            .ends_with("runtimed is silent, last heartbeat 24s ago"),
        "{silent}"
    );
    let pods: Api<Pod> = Api::default_namespaced(world.server.client());
    pods.delete("a", &DeleteParams::default()).await.unwrap();
    let gone = explained(&world, "r").await;
    assert!(
        gone.summary.ends_with("not claimed: the pod is gone"),
        "{gone}"
    );
    assert_eq!(gone.confidence, Confidence::Certain);
}

#[tokio::test(start_paused = true)]
async fn c_160_rows_12_14_to_18_each_bad_end_is_explained() {
    let world = World::new().await;
    world.ready_pod("a", 9).await;
    let retried = json!({"retryPolicy": {"maxAttempts": 3, "retryableReasons": ["Timeout"]}});
    for (run, spec, phase, reason, message) in [
        (
            "row-12-runtime-error",
            json!({}),
            "Failed",
            "RuntimeError",
            "runtime stderr: one\nscript: line 2: frobnicate: command not found",
        ),
        (
            "row-14-timeout",
            json!({"timeout": "30s"}),
            "Timeout",
            "Timeout",
            "timeout",
        ),
        (
            "row-15-pod-gone",
            retried,
            "Failed",
            "PodGone",
            "assigned pod is gone",
        ),
        (
            "row-16-execution-lost",
            json!({}),
            "Failed",
            "ExecutionLost",
            "execution lost",
        ),
        (
            "row-17-outputs-invalid",
            json!({"retryPolicy": {"maxAttempts": 3}}),
            "Failed",
            "OutputsInvalid",
            "outputs line 2 must use KEY=VALUE format",
        ),
        (
            "row-18-artifact-invalid",
            json!({}),
            "Failed",
            "ArtifactInvalid",
            "artifact \"report\" is a link that leads outside",
        ),
    ] {
        world.run(run, spec).await;
        world.until_scheduled(run).await;
        world.pass(4).await;
        claimed(&world, run).await;
        world.pass(30).await;
        ends(&world, run, phase, reason, message).await;
        golden(&world, run, run).await;
        world.ready("a").await;
    }
}

#[tokio::test(start_paused = true)]
async fn c_160_row_20_an_invalid_request_names_quantity_and_rule() {
    let world = World::new().await;
    world
        .run("r", json!({"resources": {"requests": {"gpu": "1.5"}}}))
        .await;
    world.until("r", |status| status.phase.is_terminal()).await;
    golden(&world, "r", "row-20-invalid-resources").await;
}

#[tokio::test(start_paused = true)]
async fn c_59_an_unknown_reason_is_shown_raw_and_a_running_run_says_where() {
    let world = World::new().await;
    world.ready_pod("a", 2).await;
    world.run("r", json!({"timeout": "1m"})).await;
    world.until_scheduled("r").await;
    claimed(&world, "r").await;
    world.pass(7).await;
    golden(&world, "r", "running").await;
    ends(&world, "r", "Failed", "MadeUp", "something new").await;
    let told = explained(&world, "r").await;
    assert_eq!(
        (told.reason.as_str(), told.summary.as_str()),
        ("MadeUp", "something new")
    );
    assert_eq!(told.confidence, Confidence::Unknown);
}

#[tokio::test(start_paused = true)]
async fn c_15_a_name_that_is_not_there_is_met_with_the_nearest() {
    let world = World::new().await;
    world.run("build-app", json!({})).await;
    let (client, now) = (world.server.client(), world.now());
    let error = Picture::load(&client, "default", "buidl-app", now)
        .await
        .unwrap_err();
    assert!(matches!(error, LoadError::NotFound { .. }));
    assert_eq!(
        error.to_string(),
        "there is no Run \"buidl-app\" in namespace \"default\"; did you mean \"build-app\"?"
    );
}

#[tokio::test(start_paused = true)]
async fn s_166_a_waiting_run_is_recorded_and_replayed_and_others_are_not() {
    let world = World::new().await;
    world.ready_pod("a", 1).await;
    world.run("b", json!({})).await;
    world.until_scheduled("b").await;
    world.run("r", json!({})).await;
    world.until_waiting("r").await;
    let (client, now) = (world.server.client(), world.now());
    let options = Options::default();
    let picture = Picture::load(&client, "default", "r", now).await.unwrap();
    let text = serde_json::to_string(&picture.record(&options).unwrap()).unwrap();
    let read: kruntimes_sched::Recording = serde_json::from_str(&text).unwrap();
    read.check(&options.profile().unwrap()).unwrap();
    let wait = &read.decision["action"]["Wait"];
    assert_eq!(wait["condition"], "InsufficientCapacity");
    let picture = Picture::load(&client, "default", "b", now).await.unwrap();
    let refused = picture.record(&options).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "the Run does not wait for a place, it is Scheduled"
    );
}
