//! The scheduler against the in-process API service (scheduler, sections 4, 5, 10, 13 and 15).

mod explain;
mod failover;
mod histories;
mod measured;
mod names;
mod points;
mod rules;
mod wakes;
mod weather;
mod world;

use std::collections::BTreeMap;
use std::time::Duration;

use kruntimes_apiserver::fault::{FaultLayer, FaultPlan};
use kruntimes_core::api::RunPhase;
use kruntimes_core::condition;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::json;
use tokio::time::Instant;

use world::{Trick, World, reason};

#[tokio::test(start_paused = true)]
async fn s_82_s_128_a_new_run_is_bound_with_one_write_and_no_timer() {
    let world = World::new().await;
    world.ready_pod("b", 2).await;
    world.ready_pod("a", 2).await;
    world.pass(1).await;
    let start = Instant::now();
    world.run("r", json!({})).await;
    let status = world.until_scheduled("r").await;
    assert_eq!(start.elapsed().as_nanos(), 0, "no timer was needed");
    assert_eq!(world.writes(), 1);
    assert_eq!(status.assigned_pod.as_deref(), Some("a"));
    assert!(
        status
            .assigned_pod_uid
            .as_ref()
            .is_some_and(|uid| !uid.is_empty())
    );
    assert_eq!(reason(&status), Some(("True", "Assigned")));
    assert_eq!(status.conditions[0].message, "assigned to runtime pod a");
    assert_eq!(status.message, None);
    world.pass(120).await;
    assert_eq!(world.writes(), 1, "a bound run is left alone");
    for (key, want) in [
        ("sync python scheduled", 1),
        ("duration python", 1),
        ("queue python", 1),
        ("sync python no_pods", 0),
    ] {
        assert_eq!(world.counts.get(key), want, "{key}");
    }
}

#[tokio::test(start_paused = true)]
async fn s_28_a_waiting_run_is_placed_by_the_pod_event_before_any_timer() {
    let world = World::new().await;
    world.run("r", json!({})).await;
    let status = world.until_waiting("r").await;
    assert_eq!(status.phase, RunPhase::Pending);
    assert_eq!(reason(&status), Some(("False", "NoReadyPods")));
    assert_eq!(
        status.message.as_deref(),
        Some("waiting for available runtime pods for runtime \"python\"")
    );
    world.pod("p", 2).await;
    world.pass(1).await;
    let start = Instant::now();
    world.ready("p").await;
    let status = world.until_scheduled("r").await;
    assert_eq!(start.elapsed().as_nanos(), 0);
    assert_eq!(status.message, None);
    assert_eq!(world.counts.get("wakeups runtime_pod"), 1);
}

#[tokio::test(start_paused = true)]
async fn s_111_a_missing_runtime_is_named_and_its_creation_corrects_it() {
    let world = World::new().await;
    world.run("r", json!({"runtime": "bash"})).await;
    let status = world.until_waiting("r").await;
    assert_eq!(reason(&status), Some(("False", "RuntimeNotFound")));
    let start = Instant::now();
    world.runtime("bash").await;
    let told =
        |status: &kruntimes_core::api::RunStatus| reason(status) == Some(("False", "NoReadyPods"));
    world.until("r", told).await;
    assert_eq!(start.elapsed().as_nanos(), 0);
}

#[tokio::test(start_paused = true)]
async fn s_131_one_place_serves_two_runs_one_after_the_other() {
    let world = World::new().await;
    world.ready_pod("p", 1).await;
    world.run("first", json!({})).await;
    world.run("second", json!({})).await;
    world.until_scheduled("first").await;
    let status = world.until_waiting("second").await;
    assert_eq!(reason(&status), Some(("False", "InsufficientCapacity")));
    let start = Instant::now();
    world.report("first", json!({"phase": "Succeeded"})).await;
    world.until_scheduled("second").await;
    assert_eq!(start.elapsed().as_nanos(), 0);
    assert_eq!(world.counts.get("wakeups capacity_released"), 1);
    let rejected = world
        .counts
        .get("rejected RuntimePodAvailability RuntimePodUnavailable");
    assert_eq!(rejected, 1, "no cycle is run twice");
}

#[tokio::test(start_paused = true)]
async fn s_22_deleting_an_active_run_frees_its_place() {
    let world = World::new().await;
    world.ready_pod("p", 1).await;
    world.run("first", json!({})).await;
    world.until_scheduled("first").await;
    world.run("second", json!({})).await;
    world.until_waiting("second").await;
    let runs = world.runs();
    runs.delete("first", &DeleteParams::default())
        .await
        .unwrap();
    world.until_scheduled("second").await;
}

#[tokio::test(start_paused = true)]
async fn s_30_s_108_a_cancelled_run_ends_without_runtime_or_pod() {
    let world = World::new().await;
    let spec = json!({
        "runtime": "nowhere",
        "cancelRequested": true,
        "resources": {"requests": {"gpu": "500m"}},
    });
    world.run("r", spec).await;
    let status = world.until("r", |status| status.phase.is_terminal()).await;
    assert_eq!(status.phase, RunPhase::Cancelled);
    assert_eq!(status.message.as_deref(), Some("cancelled by user"));
    assert!(status.completion_time.is_some());
    assert_eq!(status.attempt, None);
    assert_eq!(world.writes(), 1);
    assert_eq!(world.counts.get("duration nowhere"), 0);
}

#[tokio::test(start_paused = true)]
async fn s_109_an_invalid_request_fails_at_once() {
    let world = World::new().await;
    let requests = json!({"resources": {"requests": {"gpu": "500m"}}});
    world.run("r", requests).await;
    let status = world.until("r", |status| status.phase.is_terminal()).await;
    assert_eq!(status.phase, RunPhase::Failed);
    let message = "resource request \"gpu\" must be a non-negative integer";
    assert_eq!(status.message.as_deref(), Some(message));
    for kind in ["Running", "Completed"] {
        let found = condition::get(&status.conditions, kind).unwrap();
        assert_eq!(found.reason, "InvalidResources", "{kind}");
    }
}

#[tokio::test(start_paused = true)]
async fn s_85_s_119_a_conflict_on_bind_is_repeated_silently() {
    let world = World::new().await;
    world.ready_pod("p", 1).await;
    world.meddle(&[Trick::Edit]);
    world.run("r", json!({})).await;
    world.until_scheduled("r").await;
    assert_eq!(world.label("r", "edited").await.as_deref(), Some("yes"));
    assert_eq!(world.counts.get("conflict bind"), 1);
    assert_eq!(world.counts.get("conflict reserve"), 0);
    assert_eq!(world.writes(), 2);
}

#[tokio::test(start_paused = true)]
async fn s_132_a_lost_bind_gives_its_place_back() {
    let world = World::new().await;
    world.ready_pod("p", 1).await;
    world.meddle(&[Trick::Delete]);
    world.run("first", json!({})).await;
    world.pass(1).await;
    world.run("second", json!({})).await;
    let status = world.until_scheduled("second").await;
    assert_eq!(status.assigned_pod.as_deref(), Some("p"));
    assert!(world.runs().get_opt("first").await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn s_139_s_133_a_run_deleted_in_flight_does_not_hide_its_successor() {
    let world = World::new().await;
    world.ready_pod("p", 1).await;
    world.meddle(&[Trick::Delete]);
    world.run("r", json!({})).await;
    world.pass(1).await;
    world.run("r", json!({})).await;
    world.until_scheduled("r").await;
}

#[tokio::test(start_paused = true)]
async fn s_86_case_080_a_lost_answer_is_looked_up_once_and_the_run_is_not_bound_twice() {
    let world = World::new().await;
    world.ready_pod("p", 1).await;
    world.meddle(&[Trick::LoseAnswer]);
    world.run("r", json!({})).await;
    world.until_scheduled("r").await;
    world.run("next", json!({})).await;
    world.until_waiting("next").await;
    let bound = world.writes();
    world.pass(20).await;
    assert_eq!(bound, 2, "one bind, one waiting status");
    assert_eq!(world.writes(), bound);
    assert_eq!(world.counts.get("sync python scheduled"), 1);
}

#[tokio::test(start_paused = true)]
async fn s_86_s_119_a_lost_request_is_looked_up_and_repeated() {
    for trick in [Trick::LoseRequest, Trick::LoseRequestAndRead] {
        let world = World::new().await;
        world.ready_pod("p", 1).await;
        world.meddle(&[trick]);
        world.run("r", json!({})).await;
        let start = Instant::now();
        world.until_scheduled("r").await;
        assert!(start.elapsed().as_millis() < 100, "{trick:?}");
        assert_eq!(world.counts.get("sync python scheduled"), 1, "{trick:?}");
        assert_eq!(world.counts.get("conflict bind"), 0, "{trick:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn s_28_a_heartbeat_that_goes_stale_in_silence_is_noticed_after_half_a_minute() {
    let world = World::new().await;
    world.ready_pod("p", 1).await;
    world.run("first", json!({})).await;
    world.until_scheduled("first").await;
    world.run("second", json!({})).await;
    let status = world.until_waiting("second").await;
    assert_eq!(reason(&status), Some(("False", "InsufficientCapacity")));
    let start = Instant::now();
    let stale = |status: &kruntimes_core::api::RunStatus| {
        reason(status) == Some(("False", "HeartbeatStale"))
    };
    world.until("second", stale).await;
    assert_eq!(start.elapsed().as_secs(), 30);
}

#[tokio::test(start_paused = true)]
async fn s_110_s_136_a_run_larger_than_every_pod_is_told_once() {
    let world = World::new().await;
    world.ready_pod("p", 2).await;
    let requests = json!({"resources": {"requests": {"runs": "3"}}});
    world.run("r", requests).await;
    let status = world.until_waiting("r").await;
    assert_eq!(reason(&status), Some(("False", "RequestExceedsCapacity")));
    for _ in 0..60 {
        world.ready("p").await;
        world.pass(5).await;
    }
    assert_eq!(world.writes(), 1);
    assert_eq!(world.status("r").await.phase, RunPhase::Pending);
}

#[tokio::test(start_paused = true)]
async fn s_114_a_run_that_lost_its_pod_waits_out_its_delay() {
    let world = World::new().await;
    world
        .run("r", json!({"retryPolicy": {"maxAttempts": 5}}))
        .await;
    world.until_waiting("r").await;
    let now = jiff::Timestamp::from_second(1_767_225_600).unwrap();
    let lost = json!({
        "phase": "Pending",
        "attempt": 4,
        "conditions": [{
            "type": "Running", "status": "False", "reason": "PodGone", "message": "",
            "lastTransitionTime": now,
        }],
    });
    world.report("r", lost).await;
    let told =
        |status: &kruntimes_core::api::RunStatus| reason(status) == Some(("False", "RetryBackoff"));
    world.until("r", told).await;
    let start = Instant::now();
    world.ready_pod("p", 1).await;
    world.until_scheduled("r").await;
    assert_eq!(start.elapsed().as_secs(), 4);
}

#[tokio::test(start_paused = true)]
async fn s_125_s_127_a_new_scheduler_counts_what_the_old_one_placed() {
    let mut world = World::new().await;
    world.ready_pod("p", 1).await;
    world.run("first", json!({})).await;
    world.until_scheduled("first").await;
    world.stop().await;
    world.run("second", json!({})).await;
    world.pass(60).await;
    let untouched = world.status("second").await;
    assert_eq!(untouched.conditions, [], "nobody works after the stop");
    world.ready("p").await;
    world.start();
    let status = world.until_waiting("second").await;
    assert_eq!(reason(&status), Some(("False", "InsufficientCapacity")));
    assert_eq!(world.writes(), 2, "the first run is not bound again");
}

#[tokio::test(start_paused = true)]
async fn s_54_a_session_and_a_task_never_share_a_pod() {
    let world = World::new().await;
    world.ready_pod("p", 5).await;
    world.run("s", json!({"mode": {"session": {}}})).await;
    world.until_scheduled("s").await;
    world.run("t", json!({})).await;
    let status = world.until_waiting("t").await;
    assert_eq!(reason(&status), Some(("False", "InsufficientCapacity")));
    world.report("s", json!({"phase": "Succeeded"})).await;
    world.until_scheduled("t").await;
}

#[tokio::test(start_paused = true)]
async fn s_49_a_run_follows_its_workspace_and_is_woken_by_it() {
    let world = World::new().await;
    world.ready_pod("a", 5).await;
    world.ready_pod("b", 5).await;
    world.run("r", json!({"workspace": {"name": "w"}})).await;
    let status = world.until_waiting("r").await;
    assert_eq!(reason(&status), Some(("False", "WorkspaceNotBound")));
    let message = "waiting for referenced PersistentWorkspace \"w\" to exist";
    assert_eq!(status.message.as_deref(), Some(message));
    let start = Instant::now();
    world.workspace("w").await;
    let told = |status: &kruntimes_core::api::RunStatus| {
        status.message.as_deref()
            == Some("waiting for referenced PersistentWorkspace \"w\" to bind")
    };
    world.until("r", told).await;
    world.bind_workspace("w", "b").await;
    let status = world.until_scheduled("r").await;
    assert_eq!(status.assigned_pod.as_deref(), Some("b"));
    assert_eq!(start.elapsed().as_nanos(), 0, "no timer was needed");
    assert_eq!(world.counts.get("wakeups workspace"), 2);
}

#[tokio::test(start_paused = true)]
async fn s_21_s_91_a_new_target_wakes_the_runs_that_must_be_with_it() {
    let world = World::new().await;
    let term = json!({
        "labelSelector": {"matchLabels": {"edited": "yes"}},
        "topologyKey": "kruntimes.io/runtime-pod",
    });
    let required = json!({"requiredDuringSchedulingIgnoredDuringExecution": [term]});
    world
        .run("a", json!({"affinity": {"runAffinity": required}}))
        .await;
    world.run("t", json!({})).await;
    world.edit("t").await;
    world.until_waiting("t").await;
    world.ready_pod("p", 5).await;
    let start = Instant::now();
    world.until_scheduled("t").await;
    world.until_scheduled("a").await;
    assert_eq!(start.elapsed().as_nanos(), 0, "no timer was needed");
    // If its cycle came after that of its target, nothing had to wake it.
    assert!(world.counts.get("wakeups affinity_target") <= 1);
}

#[tokio::test(start_paused = true)]
async fn s_141_a_crowd_fills_a_pool_exactly_and_the_rest_waits() {
    let world = World::new().await;
    world.pod("p", 20).await;
    for n in 0..30 {
        world.run(&format!("r{n}"), json!({})).await;
    }
    world.pass(1).await;
    let told = world.writes();
    assert_eq!(told, 30, "each run is told once");
    world.edit("r0").await;
    world.ready("p").await;
    world.pass(1).await;
    let runs = world.runs().list(&ListParams::default()).await;
    let placed = runs.unwrap().into_iter().filter(|run| {
        let status = run.status.as_ref();
        status.is_some_and(|status| status.phase == RunPhase::Scheduled)
    });
    assert_eq!(placed.count(), 20);
    assert_eq!(world.counts.get("wakeups runtime_pod"), 20, "one per slot");
    assert_eq!(world.counts.get("conflict bind"), 0);
}

/// Lost requests, lost answers, conflicts, cut and stalled watches.
fn trouble() -> FaultPlan {
    FaultPlan {
        delay: 0.3,
        delay_for: Duration::from_millis(1)..=Duration::from_millis(400),
        lost_request: 0.1,
        lost_answer: 0.15,
        conflict: 0.1,
        internal_error: 0.05,
        watch_expired: 0.1,
        watch_cut: 0.3,
        watch_stall: 0.3,
        ..FaultPlan::default()
    }
}

/// Asserts that no Pod holds more Runs than it offers, and returns who is placed.
async fn placed(world: &World, case: &str) -> Vec<String> {
    let mut by_pod: BTreeMap<String, usize> = BTreeMap::new();
    let mut placed = Vec::new();
    for run in world.runs().list(&ListParams::default()).await.unwrap() {
        let status = run.status.unwrap_or_default();
        if status.phase.is_active() {
            *by_pod.entry(status.assigned_pod.unwrap()).or_default() += 1;
            placed.extend(run.metadata.name);
        }
    }
    assert!(by_pod.values().all(|runs| *runs <= 2), "{case}: {by_pod:?}");
    placed
}

#[tokio::test(start_paused = true)]
async fn s_81_bad_days_neither_lose_a_run_nor_overcommit_a_pod() {
    for seed in 0..8 {
        let mut world = World::new().await;
        let faults = FaultLayer::new(seed, trouble());
        world.start_behind(&faults).await;
        for pod in ["a", "b", "c"] {
            world.pod(pod, 2).await;
        }
        for n in 0..15 {
            world.run(&format!("r{n}"), json!({})).await;
        }
        let mut ended = 0;
        for round in 0..200 {
            for pod in ["a", "b", "c"] {
                world.ready(pod).await;
            }
            world.pass(5).await;
            let placed = placed(&world, &format!("seed {seed}, round {round}")).await;
            // The nodes are slow: one Run ends per round.
            if let Some(run) = placed.first() {
                world.report(run, json!({"phase": "Succeeded"})).await;
                ended += 1;
            }
            if ended == 15 {
                break;
            }
        }
        assert_eq!(ended, 15, "seed {seed}: every run was placed");
        assert!(faults.handle().counts().total() > 0, "seed {seed}");
    }
}
