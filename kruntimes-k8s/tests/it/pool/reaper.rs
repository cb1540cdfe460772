//! Runs whose Pod is lost.

use std::time::Duration;

use kruntimes_apiserver::fault::{FaultLayer, FaultPlan};
use kruntimes_core::api::RunPhase;
use kruntimes_core::condition;
use kube::ResourceExt as _;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::World;

impl World {
    /// Assigns a Run to a Pod, in this phase.
    async fn assign(&self, run: &str, pod: &str, phase: &str) {
        let uid = self.pods().get(pod).await.unwrap().metadata.uid;
        let condition = |kind: &str| {
            json!({"type": kind, "status": "True", "reason": "Because", "message": "",
                   "lastTransitionTime": self.clock.now()})
        };
        let mut status = json!({
            "phase": phase, "assignedPod": pod, "assignedPodUID": uid,
            "conditions": [condition("Scheduled")],
        });
        if phase != "Scheduled" {
            status["startTime"] = json!(self.clock.now());
            status["conditions"] = json!([condition("Scheduled"), condition("Running")]);
        }
        if phase == "Ready" {
            status["endpoint"] = json!({"protocol": "HTTPS", "url": "https://gateway/u"});
            status["conditions"] = json!([
                condition("Scheduled"),
                condition("Running"),
                condition("Ready")
            ]);
        }
        self.report(run, status).await;
    }

    async fn assigned_run(&self, name: &str, spec: Value, pod: &str, phase: &str) {
        self.run(name, spec).await;
        self.assign(name, pod, phase).await;
    }

    async fn phase(&self, run: &str) -> RunPhase {
        let run = self.runs().get(run).await.unwrap();
        run.status.unwrap_or_default().phase
    }

    async fn finalize(&self, run: &str, finalizers: &[&str]) {
        let patch = Patch::Merge(json!({"metadata": {"finalizers": finalizers}}));
        let params = PatchParams::default();
        self.runs().patch(run, &params, &patch).await.unwrap();
    }

    /// Begins the deletion of a Pod that takes its time.
    async fn terminate_pod(&self, name: &str) {
        let patch = Patch::Merge(json!({"metadata": {"finalizers": ["a.b/kubelet"]}}));
        let params = PatchParams::default();
        self.pods().patch(name, &params, &patch).await.unwrap();
        self.kill_pod(name).await;
    }
}

fn attempts(max: i32) -> Value {
    json!({"retryPolicy": {"maxAttempts": max}})
}

#[tokio::test(start_paused = true)]
async fn s_117_n_201_an_unclaimed_run_goes_back_when_its_pod_goes() {
    let world = World::new().await;
    world.ready_pod("p").await;
    world.assigned_run("r", json!({}), "p", "Scheduled").await;
    world.pass(5).await;
    assert_eq!(world.phase("r").await, RunPhase::Scheduled);
    world.kill_pod("p").await;
    let status = world.until_run("r", |s| s.phase == RunPhase::Pending).await;
    assert_eq!((status.assigned_pod, status.assigned_pod_uid), (None, None));
    assert_eq!(status.attempt, None);
    let scheduled = condition::get(&status.conditions, "Scheduled").unwrap();
    assert_eq!(
        (scheduled.status.as_str(), &*scheduled.reason),
        ("False", "PodGone")
    );
}

#[tokio::test(start_paused = true)]
async fn n_202_n_207_a_lost_task_is_retried_then_failed_and_both_are_told() {
    let world = World::new().await;
    world.ready_pod("p").await;
    world.assigned_run("r", attempts(2), "p", "Running").await;
    world.kill_pod("p").await;
    let status = world.until_run("r", |s| s.phase == RunPhase::Pending).await;
    assert_eq!(status.attempt, Some(2));
    assert_eq!((status.start_time, status.endpoint), (None, None));
    // A namesake is another Pod.
    world.ready_pod("q").await;
    world.assign("r", "q", "Running").await;
    world.kill_pod("q").await;
    world.ready_pod("q").await;
    let status = world.until_run("r", |s| s.phase == RunPhase::Failed).await;
    assert!(status.completion_time.is_some());
    let completed = condition::get(&status.conditions, "Completed").unwrap();
    assert_eq!(
        (completed.status.as_str(), &*completed.reason),
        ("False", "PodGone")
    );
    world.pass(1).await;
    let mut events = world.events().await;
    events.sort();
    let reasons: Vec<_> = events.iter().map(|(reason, _)| reason.as_str()).collect();
    assert_eq!(reasons, ["StaleRunFailed", "StaleRunRetrying"]);
    assert!(
        events[0].1.starts_with("attempt 2/2 was lost (PodGone): "),
        "{events:?}"
    );
    assert_eq!(
        events[1].1,
        "attempt 1/2 was lost, next in 1s (PodGone): assigned pod was deleted"
    );
}

#[tokio::test(start_paused = true)]
async fn n_200_n_203_silence_ends_a_task_and_moves_it_only_after_twice_the_threshold() {
    let world = World::new().await;
    world.ready_pod("p").await;
    world
        .assigned_run("last", attempts(1), "p", "Running")
        .await;
    world
        .assigned_run("again", attempts(2), "p", "Running")
        .await;
    world.pass_with(&["p"], 300).await;
    assert_eq!(
        world.phase("last").await,
        RunPhase::Running,
        "heartbeats keep it"
    );
    world.pass(27).await;
    assert_eq!(world.phase("last").await, RunPhase::Running);
    world.pass(3).await;
    assert_eq!(world.phase("last").await, RunPhase::Failed);
    world.pass(25).await;
    assert_eq!(world.phase("again").await, RunPhase::Running);
    world.pass(5).await;
    let again = world
        .until_run("again", |s| s.phase == RunPhase::Pending)
        .await;
    let running = condition::get(&again.conditions, "Running").unwrap();
    assert_eq!(&*running.reason, "PodUnhealthy");
}

#[tokio::test(start_paused = true)]
async fn n_200_a_pod_that_is_not_ready_for_too_long_loses_its_runs() {
    let world = World::new().await;
    world.ready_pod("p").await;
    world.assigned_run("r", attempts(1), "p", "Running").await;
    world.report_pod("p", "False").await;
    world.pass(29).await;
    assert_eq!(world.phase("r").await, RunPhase::Running);
    // It recovers in time, and the count starts anew.
    world.report_pod("p", "True").await;
    world.pass(5).await;
    world.report_pod("p", "False").await;
    world.pass(29).await;
    assert_eq!(world.phase("r").await, RunPhase::Running);
    world.pass(2).await;
    assert_eq!(world.phase("r").await, RunPhase::Failed);
    let status = world.runs().get("r").await.unwrap().status.unwrap();
    assert_eq!(status.message.as_deref(), Some("assigned pod is not ready"));
}

#[tokio::test(start_paused = true)]
async fn n_208_a_pod_without_any_heartbeat_gets_the_threshold_from_becoming_ready() {
    let world = World::new().await;
    world.pod("p").await;
    world.assigned_run("r", attempts(1), "p", "Running").await;
    world.pass(300).await;
    assert_eq!(
        world.phase("r").await,
        RunPhase::Running,
        "no Ready condition yet"
    );
    let ready = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
    let (params, ready) = (PatchParams::default(), Patch::Merge(ready));
    world
        .pods()
        .patch_status("p", &params, &ready)
        .await
        .unwrap();
    world.pass(29).await;
    assert_eq!(world.phase("r").await, RunPhase::Running);
    world.pass(2).await;
    assert_eq!(world.phase("r").await, RunPhase::Failed);
}

#[tokio::test(start_paused = true)]
async fn n_198_n_201_a_terminating_pod_keeps_claimed_tasks_for_its_window_and_no_others() {
    let world = World::new().await;
    world.ready_pod("p").await;
    world
        .assigned_run("waiting", attempts(1), "p", "Scheduled")
        .await;
    world
        .assigned_run("claimed", attempts(2), "p", "Running")
        .await;
    world
        .assigned_run("quick", attempts(2), "p", "Running")
        .await;
    world.terminate_pod("p").await;
    world
        .until_run("waiting", |s| s.phase == RunPhase::Pending)
        .await;
    world.pass(10).await;
    world.report("quick", json!({"phase": "Succeeded"})).await;
    world.pass(9).await;
    assert_eq!(world.phase("claimed").await, RunPhase::Running);
    world.pass(2).await;
    assert_eq!(world.phase("claimed").await, RunPhase::Pending);
    assert_eq!(world.phase("quick").await, RunPhase::Succeeded);
}

/// A function, or else a session, that may be repeated once.
fn registration(mode: &str) -> Value {
    let mode = match mode {
        "function" => json!({"task": null, "function": {"handler": "a.b"}}),
        _ => json!({"task": null, "session": {}}),
    };
    json!({"mode": mode, "retryPolicy": {"maxAttempts": 2}})
}

#[tokio::test(start_paused = true)]
async fn n_204_n_206_registrations_move_behind_a_fence_and_leave_no_finalizer() {
    let world = World::new().await;
    world.ready_pod("p").await;
    for (name, mode, finalizers) in [
        (
            "function",
            "function",
            &["kruntimes.io/function-cleanup", "a.b/other"][..],
        ),
        ("session", "session", &["kruntimes.io/registration-cleanup"]),
        ("deleted", "function", &["kruntimes.io/function-cleanup"]),
    ] {
        world
            .assigned_run(name, registration(mode), "p", "Ready")
            .await;
        world.finalize(name, finalizers).await;
    }
    let params = DeleteParams::default();
    world.runs().delete("deleted", &params).await.unwrap();
    // Silence is no fence.
    world.pass(600).await;
    for name in ["function", "session", "deleted"] {
        let run = world.runs().get(name).await.unwrap();
        assert!(!run.finalizers().is_empty());
        assert_eq!(world.phase(name).await, RunPhase::Ready);
    }
    world.kill_pod("p").await;
    world.until_gone(world.runs(), "deleted").await;
    let moved = world
        .until_run("function", |s| s.phase == RunPhase::Pending)
        .await;
    assert_eq!((moved.attempt, moved.endpoint), (Some(2), None));
    let failed = world
        .until_run("session", |s| s.phase == RunPhase::Failed)
        .await;
    assert_eq!(failed.endpoint, None);
    world.pass(1).await;
    let function = world.runs().get("function").await.unwrap();
    assert_eq!(function.finalizers(), ["a.b/other"]);
    let session = world.runs().get("session").await.unwrap();
    assert!(session.finalizers().is_empty());
}

#[tokio::test(start_paused = true)]
async fn n_205_a_cancelled_run_on_a_lost_pod_ends_cancelled() {
    let world = World::new().await;
    world.ready_pod("p").await;
    let spec = json!({"cancelRequested": true, "retryPolicy": {"maxAttempts": 9}});
    world.assigned_run("r", spec, "p", "Running").await;
    world.kill_pod("p").await;
    let status = world.until_run("r", |s| s.phase.is_terminal()).await;
    assert_eq!(status.phase, RunPhase::Cancelled);
    assert_eq!(status.message.as_deref(), Some("cancelled by user"));
}

#[tokio::test(start_paused = true)]
async fn a_run_assigned_before_its_pod_was_seen_is_left_where_it_is() {
    let mut world = World::new().await;
    world.stop().await;
    // The watch of Pods says nothing for long, while that of Runs does.
    let stalled = FaultLayer::new(
        3,
        FaultPlan {
            watch_stall: 0.5,
            ..FaultPlan::default()
        },
    );
    let client = world.server.client_with(&stalled);
    world.start(client);
    world.pass(1).await;
    for n in 0..20 {
        let (pod, run) = (format!("p{n}"), format!("r{n}"));
        world.ready_pod(&pod).await;
        world.assigned_run(&run, attempts(1), &pod, "Running").await;
        world.pass(1).await;
    }
    for n in 0..20 {
        assert_eq!(world.phase(&format!("r{n}")).await, RunPhase::Running);
    }
}

#[tokio::test(start_paused = true)]
async fn n_207_under_faults_every_lost_run_is_dealt_with_once() {
    for seed in 0..5 {
        let faults = FaultLayer::new(
            seed,
            FaultPlan {
                lost_request: 0.1,
                lost_answer: 0.1,
                conflict: 0.2,
                watch_cut: 0.3,
                watch_cut_after: Duration::from_millis(1)..=Duration::from_secs(20),
                watch_stall: 0.1,
                ..FaultPlan::default()
            },
        );
        let world = World::behind(&faults).await;
        world.ready_pod("dies").await;
        world.ready_pod("lives").await;
        for n in 0..5 {
            let (lost, kept) = (format!("lost{n}"), format!("kept{n}"));
            world
                .assigned_run(&lost, attempts(2), "dies", "Running")
                .await;
            world
                .assigned_run(&kept, attempts(2), "lives", "Running")
                .await;
        }
        world.pass_with(&["dies", "lives"], 60).await;
        world.kill_pod("dies").await;
        world.pass_with(&["lives"], 180).await;
        for n in 0..5 {
            let lost = world
                .until_run(&format!("lost{n}"), |s| s.phase == RunPhase::Pending)
                .await;
            assert_eq!(
                lost.attempt,
                Some(2),
                "seed {seed}: no attempt is used twice"
            );
            assert_eq!(
                world.phase(&format!("kept{n}")).await,
                RunPhase::Running,
                "seed {seed}"
            );
        }
    }
}
