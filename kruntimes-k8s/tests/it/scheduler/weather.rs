//! Placement in bad weather: watches that break and miss things, lists that are late, nodes that starve.

use super::*;

/// Breaks every watch after this time.
fn cut_after(time: Duration) -> FaultPlan {
    FaultPlan {
        watch_cut: 1.0,
        watch_cut_after: time..=time,
        ..FaultPlan::default()
    }
}

/// Lets nothing reach the API.
fn unreachable_api() -> FaultPlan {
    FaultPlan {
        lost_request: 1.0,
        ..FaultPlan::default()
    }
}

#[tokio::test(start_paused = true)]
async fn case_085_case_098_a_deletion_that_no_watch_told_frees_its_place() {
    let mut world = World::new().await;
    let faults = FaultLayer::new(1, cut_after(Duration::from_secs(1)));
    let handle = faults.handle();
    world.start_behind(&faults).await;
    world.ready_pod("p", 1).await;
    world.run("first", json!({})).await;
    world.until_scheduled("first").await;
    world.run("second", json!({})).await;
    world.until_waiting("second").await;
    handle.set_plan(unreachable_api());
    world.pass(5).await;
    let params = DeleteParams::default();
    world.runs().delete("first", &params).await.unwrap();
    world.ready("p").await;
    let start = Instant::now();
    // Whoever asks for what happened is told to list anew.
    handle.set_plan(FaultPlan {
        watch_expired: 1.0,
        ..FaultPlan::default()
    });
    world.until_scheduled("second").await;
    assert!(start.elapsed().as_secs() <= 10, "{:?}", start.elapsed());
    assert!(handle.counts().watches_expired > 0);
}

#[tokio::test(start_paused = true)]
async fn case_095_after_all_watches_broke_every_kind_is_followed_again() {
    let mut world = World::new().await;
    let faults = FaultLayer::new(1, cut_after(Duration::from_secs(60)));
    let handle = faults.handle();
    world.start_behind(&faults).await;
    world.pass(59).await;
    handle.set_plan(unreachable_api());
    world.pass(20).await;
    assert!(handle.counts().watches_cut >= 3, "Runs, Runtimes and Pods");
    handle.set_plan(FaultPlan::default());
    let start = Instant::now();
    world.runtime("bash").await;
    world.run("elsewhere", json!({"runtime": "bash"})).await;
    world.ready_pod("p", 1).await;
    world.run("here", json!({})).await;
    let status = world.until_waiting("elsewhere").await;
    assert_eq!(reason(&status), Some(("False", "NoReadyPods")));
    world.until_scheduled("here").await;
    assert!(start.elapsed().as_secs() <= 10, "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn s_125_case_088_a_new_scheduler_places_nothing_before_it_has_seen_everything() {
    for seed in 0..8 {
        let mut world = World::new().await;
        world.ready_pod("p", 4).await;
        for n in 0..4 {
            world.run(&format!("r{n}"), json!({})).await;
            world.until_scheduled(&format!("r{n}")).await;
        }
        world.stop().await;
        // Their names come first in every list.
        for n in 0..4 {
            world.run(&format!("a{n}"), json!({})).await;
        }
        // Lists arrive late and in any order.
        let late = FaultPlan {
            delay: 1.0,
            delay_for: Duration::from_millis(1)..=Duration::from_secs(5),
            ..FaultPlan::default()
        };
        world.start_behind(&FaultLayer::new(seed, late)).await;
        for _ in 0..6 {
            world.ready("p").await;
            world.pass(5).await;
            let runs = world.runs().list(&ListParams::default()).await.unwrap();
            let placed = runs.into_iter().filter(|run| {
                let status = run.status.as_ref();
                status.is_some_and(|status| status.phase.is_active())
            });
            assert_eq!(placed.count(), 4, "seed {seed}");
        }
        for n in 0..4 {
            let status = world.until_waiting(&format!("a{n}")).await;
            assert_eq!(reason(&status), Some(("False", "InsufficientCapacity")));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn case_092_what_happens_during_a_cycle_is_not_lost() {
    let mut world = World::new().await;
    let slow = Duration::from_millis(200);
    let faults = FaultLayer::new(
        1,
        FaultPlan {
            delay: 1.0,
            delay_for: slow..=slow,
            ..FaultPlan::default()
        },
    );
    world.start_behind(&faults).await;
    world.ready_pod("p", 1).await;
    world.run("first", json!({})).await;
    world.until_scheduled("first").await;
    world.pass(2).await;
    world.run("second", json!({})).await;
    let halfway = tokio::time::timeout(slow / 2, std::future::pending::<()>());
    halfway.await.unwrap_err();
    let status = world.status("second").await;
    assert_eq!(status.conditions, [], "its cycle has not ended");
    world.report("first", json!({"phase": "Succeeded"})).await;
    let start = Instant::now();
    world.until_scheduled("second").await;
    assert!(
        start.elapsed() < Duration::from_secs(2),
        "{:?}",
        start.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn s_85_a_place_that_its_run_did_not_take_goes_to_whoever_waits_for_it() {
    let mut world = World::new().await;
    let slow = Duration::from_millis(200);
    let faults = FaultLayer::new(
        1,
        FaultPlan {
            delay: 1.0,
            delay_for: slow..=slow,
            ..FaultPlan::default()
        },
    );
    world.start_behind(&faults).await;
    world.ready_pod("p", 1).await;
    world.pass(2).await;
    world.run("first", json!({})).await;
    world.run("second", json!({})).await;
    let halfway = tokio::time::timeout(slow / 2, std::future::pending::<()>());
    halfway.await.unwrap_err();
    let cancel = Patch::Merge(json!({"spec": {"cancelRequested": true}}));
    let params = PatchParams::default();
    world.runs().patch("first", &params, &cancel).await.unwrap();
    let start = Instant::now();
    world.until_scheduled("second").await;
    assert!(
        start.elapsed() < Duration::from_secs(2),
        "{:?}",
        start.elapsed()
    );
    assert_eq!(world.counts.get("conflict bind"), 1);
    let status = world.status("first").await;
    assert_eq!(status.phase, RunPhase::Cancelled);
}

#[tokio::test(start_paused = true)]
async fn case_100_as_many_sessions_as_pods_get_one_each() {
    const COUNT: usize = 50;
    let mut world = World::new().await;
    let pods: Vec<_> = (0..COUNT).map(|n| format!("p{n}")).collect();
    for pod in &pods {
        world.ready_pod(pod, 1).await;
    }
    // A lagging cache, and conflicts that make losers choose again.
    let lag = FaultPlan {
        conflict: 0.2,
        watch_stall: 1.0,
        delay_for: Duration::from_millis(1)..=Duration::from_millis(60),
        ..FaultPlan::default()
    };
    world.start_behind(&FaultLayer::new(1, lag)).await;
    for n in 0..COUNT {
        let session = json!({"mode": {"session": {}}});
        world.run(&format!("r{n}"), session).await;
    }
    for round in 0.. {
        for pod in &pods {
            world.ready(pod).await;
        }
        world.pass(5).await;
        let runs = world.runs().list(&ListParams::default()).await.unwrap();
        let placed: Vec<_> = runs
            .into_iter()
            .filter_map(|run| run.status?.assigned_pod)
            .collect();
        let distinct: std::collections::BTreeSet<_> = placed.iter().collect();
        assert_eq!(distinct.len(), placed.len(), "one Run per Pod");
        if placed.len() == COUNT {
            break;
        }
        assert!(round < 60, "only {} of {COUNT} are placed", placed.len());
    }
}

#[tokio::test(start_paused = true)]
async fn case_061_a_run_on_a_silent_pod_is_not_started_elsewhere() {
    let world = World::new().await;
    world.ready_pod("p", 1).await;
    world.run("busy", json!({})).await;
    world.until_scheduled("busy").await;
    world.report("busy", json!({"phase": "Running"})).await;
    world.ready_pod("q", 1).await;
    for _ in 0..60 {
        world.pass(10).await;
        world.ready("q").await;
        let status = world.status("busy").await;
        assert_eq!(status.assigned_pod.as_deref(), Some("p"));
        assert_eq!(status.phase, RunPhase::Running);
    }
    world.run("next", json!({})).await;
    let status = world.until_scheduled("next").await;
    assert_eq!(status.assigned_pod.as_deref(), Some("q"));
}

#[tokio::test(start_paused = true)]
async fn case_070_runs_deleted_in_backoff_are_not_thought_of_again() {
    const COUNT: usize = 30;
    let world = World::new().await;
    let now = jiff::Timestamp::from_second(1_767_225_600).unwrap();
    let lost = json!({
        "phase": "Pending",
        "attempt": 7,
        "conditions": [{
            "type": "Running", "status": "False", "reason": "PodGone", "message": "",
            "lastTransitionTime": now,
        }],
    });
    for n in 0..COUNT {
        let name = format!("r{n}");
        let policy = json!({"retryPolicy": {"maxAttempts": 9}});
        world.run(&name, policy).await;
        world.report(&name, lost.clone()).await;
        world
            .until(&name, |status| {
                reason(status) == Some(("False", "RetryBackoff"))
            })
            .await;
    }
    for n in 0..COUNT {
        let params = DeleteParams::default();
        world
            .runs()
            .delete(&format!("r{n}"), &params)
            .await
            .unwrap();
    }
    world.pass(1).await;
    let (writes, cycles) = (world.writes(), world.counts.get("duration python"));
    for _ in 0..60 {
        world.pass(10).await;
    }
    world.ready_pod("p", 1).await;
    world.pass(60).await;
    assert_eq!(world.writes(), writes);
    assert_eq!(world.counts.get("duration python"), cycles);
    assert_eq!(world.counts.get("wakeups runtime_pod"), 0);
}
