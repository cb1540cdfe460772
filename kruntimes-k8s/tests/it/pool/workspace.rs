//! PersistentWorkspaces from their binding to their end.

use std::time::Duration;

use kruntimes_apiserver::fault::{FaultLayer, FaultPlan};
use kruntimes_core::api::{PersistentWorkspaceStatus, WorkspacePhase};
use kruntimes_core::condition;
use kruntimes_core::crd::PersistentWorkspace;
use kube::ResourceExt as _;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::runtime::wait::await_condition;
use serde_json::{Value, json};

use super::{World, in_time, parsed};

const FINALIZER: &str = "kruntimes.io/persistent-workspace-cleanup";

impl World {
    async fn workspace(&self, name: &str, spec: Value) {
        let mut whole = json!({"runtime": "bash"});
        for (key, value) in spec.as_object().into_iter().flatten() {
            whole[key] = value.clone();
        }
        let workspace = parsed(json!({
            "apiVersion": "kruntimes.io/v1alpha1",
            "kind": "PersistentWorkspace",
            "metadata": {"name": name},
            "spec": whole,
        }));
        let params = PostParams::default();
        self.workspaces().create(&params, &workspace).await.unwrap();
    }

    async fn until_phase(&self, name: &str, phase: WorkspacePhase) -> PersistentWorkspaceStatus {
        let is = move |object: Option<&PersistentWorkspace>| {
            let status = object.and_then(|object| object.status.as_ref());
            status.is_some_and(|s| s.phase == phase && !s.conditions.is_empty())
        };
        let found = in_time(await_condition(self.workspaces(), name, is)).await;
        found.unwrap().and_then(|object| object.status).unwrap()
    }

    async fn bound(&self, name: &str) -> PersistentWorkspaceStatus {
        self.until_phase(name, WorkspacePhase::Bound).await
    }

    async fn condition(&self, name: &str, kind: &str) -> (String, String) {
        let object = self.workspaces().get(name).await.unwrap();
        let status = object.status.unwrap_or_default();
        let found = condition::get(&status.conditions, kind).expect("the condition is there");
        (found.status.as_str().to_owned(), found.reason.clone())
    }

    async fn delete_workspace(&self, name: &str) {
        let params = DeleteParams::default();
        self.workspaces().delete(name, &params).await.unwrap();
    }

    /// Does what the daemon of the bound Pod does when the data is gone.
    async fn let_go(&self, name: &str) {
        let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        let params = PatchParams::default();
        self.workspaces()
            .patch(name, &params, &patch)
            .await
            .unwrap();
    }
}

fn says(status: &str, reason: &str) -> (String, String) {
    (status.to_owned(), reason.to_owned())
}

#[tokio::test(start_paused = true)]
async fn n_250_n_252_a_workspace_waits_for_a_ready_pod_and_is_bound_to_it() {
    let world = World::new().await;
    world.workspace("cache", json!({})).await;
    world.until_phase("cache", WorkspacePhase::Pending).await;
    assert_eq!(
        world.condition("cache", "Bound").await,
        says("False", "NoReadyRuntimePods")
    );
    let uid = world.pod("p").await;
    world.report_pod("p", "False").await;
    world.pass(5).await;
    world.until_phase("cache", WorkspacePhase::Pending).await;
    world.report_pod("p", "True").await;
    let status = world.bound("cache").await;
    assert_eq!(status.bound_pod.as_deref(), Some("p"));
    assert_eq!(status.bound_pod_uid, Some(uid));
    assert_eq!(status.runtime.as_deref(), Some("bash"));
    assert_eq!(status.path.as_deref(), Some("/workspace/persistent/cache"));
    let object = world.workspaces().get("cache").await.unwrap();
    assert_eq!(object.finalizers(), [FINALIZER]);
}

#[tokio::test(start_paused = true)]
async fn n_250_a_silent_pod_is_no_candidate() {
    let world = World::new().await;
    world.ready_pod("silent").await;
    world.pass(16).await;
    world.workspace("cache", json!({})).await;
    world.until_phase("cache", WorkspacePhase::Pending).await;
    world.ready_pod("alive").await;
    let status = world.bound("cache").await;
    assert_eq!(status.bound_pod.as_deref(), Some("alive"));
}

#[tokio::test(start_paused = true)]
async fn n_253_s_104_a_bound_pod_may_be_not_ready_but_not_gone() {
    let world = World::new().await;
    world.ready_pod("p").await;
    world.workspace("cache", json!({})).await;
    let bound = world.bound("cache").await;
    world.report_pod("p", "False").await;
    world.pass(600).await;
    assert_eq!(world.bound("cache").await, bound);
    world.kill_pod("p").await;
    world.until_phase("cache", WorkspacePhase::Lost).await;
    assert_eq!(
        world.condition("cache", "Bound").await,
        says("False", "BoundPodDeleted")
    );
    world.ready_pod("p").await;
    world.pass(600).await;
    let lost = world.until_phase("cache", WorkspacePhase::Lost).await;
    assert_eq!(lost.bound_pod_uid, bound.bound_pod_uid, "never bound again");
}

#[tokio::test(start_paused = true)]
async fn n_253_a_pod_that_is_deleted_gracefully_is_lost_while_it_is_still_there() {
    let world = World::new().await;
    world.ready_pod("p").await;
    let hold = Patch::Merge(json!({"metadata": {"finalizers": ["a.b/c"]}}));
    let params = PatchParams::default();
    world.pods().patch("p", &params, &hold).await.unwrap();
    world.workspace("cache", json!({})).await;
    world.bound("cache").await;
    world.kill_pod("p").await;
    world.until_phase("cache", WorkspacePhase::Lost).await;
    assert_eq!(
        world.condition("cache", "Bound").await,
        says("False", "BoundPodDeleting")
    );
}

#[tokio::test(start_paused = true)]
async fn n_253_n_260_the_runtime_comes_and_goes_in_the_condition() {
    let world = World::new().await;
    world.ready_pod("p").await;
    world.workspace("cache", json!({})).await;
    world.bound("cache").await;
    assert_eq!(
        world.condition("cache", "RuntimeReady").await,
        says("True", "RuntimeFound")
    );
    let params = DeleteParams::default();
    world.runtimes().delete("bash", &params).await.unwrap();
    world.pass(1).await;
    assert_eq!(
        world.condition("cache", "RuntimeReady").await,
        says("False", "RuntimeNotFound")
    );
    world.bound("cache").await;
    world.runtime("bash").await;
    world.pass(1).await;
    assert_eq!(
        world.condition("cache", "RuntimeReady").await,
        says("True", "RuntimeFound")
    );
}

#[tokio::test(start_paused = true)]
async fn n_255_n_256_an_unused_workspace_is_released_exactly_when_its_time_is_over() {
    let world = World::new().await;
    world.ready_pod("p").await;
    world
        .run("user", json!({"workspace": {"name": "cache"}}))
        .await;
    let ttl = json!({"ttlSecondsAfterUnused": 1800});
    world.workspace("cache", ttl).await;
    world.bound("cache").await;
    world.pass(7200).await;
    assert_eq!(
        world.condition("cache", "InUse").await,
        says("True", "ActiveRuns")
    );
    let end = json!({"phase": "Succeeded", "completionTime": world.clock.now()});
    world.report("user", end).await;
    world.pass(1799).await;
    assert_eq!(
        world.condition("cache", "InUse").await,
        says("False", "Unused")
    );
    assert_eq!(world.bound("cache").await.phase, WorkspacePhase::Bound);
    world.pass(2).await;
    let object = world.workspaces().get("cache").await.unwrap();
    assert!(object.metadata.deletion_timestamp.is_some());
    assert_eq!(object.status.unwrap().phase, WorkspacePhase::Released);
    // N-257: as long as the Pod lives, its daemon removes the data first.
    world.pass(7200).await;
    assert!(world.workspaces().get_opt("cache").await.unwrap().is_some());
    world.let_go("cache").await;
    world.until_gone(world.workspaces(), "cache").await;
}

#[tokio::test(start_paused = true)]
async fn n_256_without_ttl_or_with_retain_a_workspace_stays() {
    let world = World::new().await;
    world.ready_pod("p").await;
    world.workspace("plain", json!({})).await;
    let retain = json!({"ttlSecondsAfterUnused": 1, "cleanupPolicy": "Retain"});
    world.workspace("retained", retain).await;
    world.pass(100_000).await;
    for name in ["plain", "retained"] {
        world.bound(name).await;
    }
}

#[tokio::test(start_paused = true)]
async fn n_258_deletion_never_hangs_on_a_dead_pod() {
    let world = World::new().await;
    world.workspace("never-bound", json!({})).await;
    world
        .until_phase("never-bound", WorkspacePhase::Pending)
        .await;
    world.delete_workspace("never-bound").await;
    world.until_gone(world.workspaces(), "never-bound").await;
    world.ready_pod("p").await;
    world.workspace("first", json!({})).await;
    world.workspace("second", json!({})).await;
    world.bound("first").await;
    world.bound("second").await;
    // Deleted before and after the Pod goes.
    world.delete_workspace("first").await;
    world.pass(60).await;
    assert!(world.workspaces().get_opt("first").await.unwrap().is_some());
    world.kill_pod("p").await;
    world.until_gone(world.workspaces(), "first").await;
    world.until_phase("second", WorkspacePhase::Lost).await;
    world.delete_workspace("second").await;
    world.until_gone(world.workspaces(), "second").await;
}

#[tokio::test(start_paused = true)]
async fn n_260_rest_writes_nothing() {
    let world = World::new().await;
    world.ready_pod("p").await;
    world
        .run("user", json!({"workspace": {"name": "used"}}))
        .await;
    for name in ["used", "unused"] {
        world.workspace(name, json!({})).await;
        world.bound(name).await;
    }
    world.pass(10).await;
    let writes = |world: &World| {
        let stats = world.server.stats();
        ["patch", "patch-status"]
            .map(|verb| stats.requests(verb, "persistentworkspaces.kruntimes.io"))
    };
    let before = writes(&world);
    world.pass_with(&["p"], 600).await;
    assert_eq!(writes(&world), before);
    assert_eq!(
        before,
        [2, 2],
        "each got its finalizer, and was bound at the first look"
    );
}

#[tokio::test(start_paused = true)]
async fn n_251_n_256_a_bad_day_ends_like_a_good_one() {
    for seed in 0..5 {
        let faults = FaultLayer::new(
            seed,
            FaultPlan {
                lost_request: 0.1,
                lost_answer: 0.1,
                conflict: 0.1,
                watch_cut: 0.3,
                watch_cut_after: Duration::from_millis(1)..=Duration::from_secs(20),
                watch_stall: 0.1,
                ..FaultPlan::default()
            },
        );
        let world = World::behind(&faults).await;
        world
            .workspace("short", json!({"ttlSecondsAfterUnused": 30}))
            .await;
        world.workspace("long", json!({})).await;
        let uid = world.ready_pod("p").await;
        world.pass_with(&["p"], 300).await;
        let long = world.bound("long").await;
        assert_eq!(long.bound_pod_uid, Some(uid), "seed {seed}");
        let short = world.workspaces().get("short").await.unwrap();
        assert!(short.metadata.deletion_timestamp.is_some(), "seed {seed}");
        world.kill_pod("p").await;
        world.until_gone(world.workspaces(), "short").await;
        world.until_phase("long", WorkspacePhase::Lost).await;
    }
}
