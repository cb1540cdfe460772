//! Runs that are stopped: by a deadline, by a cancel, by deletion, by losing their place.

use std::time::Duration;

use kruntimes_core::api::RunPhase;
use kruntimes_proto::testing::{Dialect, Fault, Method, Script, ScriptedServer};
use kruntimes_proto::{ClientError, RuntimeClient as _};
use kube::ResourceExt as _;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::world::{World, conditions, message, retried, script, status};

#[tokio::test(start_paused = true)]
async fn n_101_n_114_n_179_the_deadline_stops_the_work_for_good() {
    for dialect in [Dialect::Bash, Dialect::Python] {
        let world = World::new(1).await;
        let server = ScriptedServer::new(|_| {
            Script::never_ends()
                .stdout("begun\nhalf")
                .slow_to_cancel(Duration::from_secs(2))
        })
        .speak(dialect);
        let _daemon = world.daemon(server.clone());
        let mut spec = retried("x", 3, Duration::ZERO);
        spec.timeout = Some(Duration::from_millis(2_500).into());
        let run = world.submit("a", spec).await;
        let begun = tokio::time::Instant::now();
        let done = world.until_over("a").await;
        assert_eq!(status(&done).phase, RunPhase::Timeout);
        assert_eq!(message(&done), "timeout after 2.5s");
        assert_eq!(status(&done).attempt, Some(1), "no further attempt");
        let took = begun.elapsed().as_millis();
        assert!(
            (4_400..4_700).contains(&took),
            "limit and grace took {took} ms"
        );
        assert!(server.live().is_empty(), "scenario 12");
        assert_eq!(server.executed(&run.uid().unwrap()), 1);
        world
            .eventually("the directory is gone", || !world.run_dir(&run).exists())
            .await;
        assert_eq!(
            world.logs.lines(),
            ["Stdout 1 begun", "Stdout 1 half"],
            "N-179"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn n_91_a_hanging_server_hardly_delays_a_deadline() {
    let world = World::new(1).await;
    let server = ScriptedServer::new(|_| Script::never_ends()).without_events();
    let _daemon = world.daemon(server.clone());
    let mut spec = script("x");
    spec.timeout = Some(Duration::from_secs(4).into());
    let run = world.submit("a", spec).await;
    world
        .eventually("it runs", || server.executed(&run.uid().unwrap()) == 1)
        .await;
    for _ in 0..20 {
        server.break_next(Method::Status, Fault::Delay(Duration::from_secs(600)));
    }
    let begun = tokio::time::Instant::now();
    let done = world.until_over("a").await;
    assert_eq!(status(&done).phase, RunPhase::Timeout);
    assert!(
        begun.elapsed() <= Duration::from_secs(16),
        "{:?}",
        begun.elapsed()
    );
    assert!(server.live().is_empty());
}

#[tokio::test(start_paused = true)]
async fn n_115_a_success_before_the_deadline_counts() {
    let world = World::new(1).await;
    // Ends in time, but nobody is told and nobody looks before the deadline.
    let server = ScriptedServer::new(|_| Script::exits(0).after(Duration::from_millis(1_900)))
        .without_events();
    let _daemon = world.daemon(server.clone());
    let mut spec = script("x");
    spec.timeout = Some(Duration::from_secs(2).into());
    let run = world.submit("a", spec).await;
    world
        .eventually("it runs", || server.executed(&run.uid().unwrap()) == 1)
        .await;
    server.break_next(Method::Status, Fault::Delay(Duration::from_millis(1_400)));
    assert_eq!(
        status(&world.until_over("a").await).phase,
        RunPhase::Succeeded
    );
}

#[tokio::test(start_paused = true)]
async fn n_112_retries_share_one_budget() {
    let world = World::new(1).await;
    let server = ScriptedServer::new(|_| Script::exits(1).after(Duration::from_secs(1)));
    let _daemon = world.daemon(server.clone());
    let mut spec = retried("x", 9, Duration::from_secs(2));
    spec.timeout = Some(Duration::from_secs(10).into());
    let run = world.submit("a", spec).await;
    let done = world.until_over("a").await;
    // 1 s + 2 s + 1 s + 4 s + 1 s: the third wait would go beyond the budget.
    assert_eq!(status(&done).phase, RunPhase::Timeout);
    assert_eq!(server.executed(&run.uid().unwrap()), 3);
    assert_eq!(
        world.clock.now().as_second() - status(&done).start_time.unwrap().0.as_second(),
        10
    );
}

#[tokio::test(start_paused = true)]
async fn n_26_a_cancel_before_the_claim_touches_no_server() {
    let world = World::new(1).await;
    let server = ScriptedServer::default();
    world.create("a", script("x")).await;
    world.cancel("a").await;
    let run = world.assign("a").await;
    let _daemon = world.daemon(server.clone());
    let done = world.until_over("a").await;
    assert_eq!(status(&done).phase, RunPhase::Cancelled);
    assert_eq!(message(&done), "cancelled by user");
    assert_eq!(status(&done).start_time, None);
    let uid = run.uid().unwrap();
    assert!(
        server.calls().iter().all(|call| call.id() != uid),
        "{:?}",
        server.calls()
    );
}

#[tokio::test(start_paused = true)]
async fn n_116_n_119_case_047_a_cancel_stops_a_running_task() {
    let world = World::new(1).await;
    let server = ScriptedServer::new(|_| Script::never_ends());
    let _daemon = world.daemon(server.clone());
    let run = world.submit("a", retried("x", 3, Duration::ZERO)).await;
    world
        .eventually("it runs", || server.live().len() == 1)
        .await;
    world.cancel("a").await;
    let done = world.until_over("a").await;
    assert_eq!(status(&done).phase, RunPhase::Cancelled);
    assert_eq!(status(&done).attempt, Some(1));
    assert!(conditions(&done).contains(&"Completed=False Cancelled".to_owned()));
    assert!(server.live().is_empty());
    // N-119
    let version = done.resource_version();
    world.cancel("a").await;
    world.pass(Duration::from_secs(60)).await;
    assert_eq!(world.get("a").await.resource_version(), version);
    assert!(!world.run_dir(&run).exists());
    assert_eq!(world.events().await, ["Warning RunCancelled"]);
}

#[tokio::test(start_paused = true)]
async fn n_110_n_116_case_046_a_cancel_is_effective_during_backoff() {
    let world = World::new(1).await;
    let server = ScriptedServer::new(|_| Script::exits(1));
    let _daemon = world.daemon(server.clone());
    let run = world
        .submit("a", retried("x", 5, Duration::from_secs(60)))
        .await;
    world.until("a", |status| status.attempt == Some(2)).await;
    world.pass(Duration::from_secs(5)).await;
    let asked = tokio::time::Instant::now();
    world.cancel("a").await;
    let done = world.until_over("a").await;
    assert_eq!(status(&done).phase, RunPhase::Cancelled);
    assert_eq!(asked.elapsed(), Duration::ZERO);
    world.pass(Duration::from_secs(300)).await;
    assert_eq!(server.executed(&run.uid().unwrap()), 1);
    assert!(!world.run_dir(&run).exists(), "scenario 18");
}

#[tokio::test(start_paused = true)]
async fn n_80_a_cancel_during_a_slow_start_leaves_nothing() {
    let world = World::new(1).await;
    let server = ScriptedServer::new(|_| Script::never_ends());
    server.break_next(Method::Execute, Fault::Delay(Duration::from_secs(4)));
    let _daemon = world.daemon(server.clone());
    let run = world.submit("a", script("x")).await;
    world
        .eventually("the start is on its way", || {
            server
                .calls()
                .iter()
                .any(|call| call.method() == Method::Execute)
        })
        .await;
    world.cancel("a").await;
    let done = world.until_over("a").await;
    assert_eq!(status(&done).phase, RunPhase::Cancelled);
    world.pass(Duration::from_secs(30)).await;
    assert!(server.live().is_empty(), "the late start was undone");
    assert!(!world.run_dir(&run).exists());
}

#[tokio::test(start_paused = true)]
async fn n_120_scenario_5_deleting_a_run_stops_its_process_and_frees_its_place() {
    let world = World::new(1).await;
    let server = ScriptedServer::new(|_| Script::never_ends());
    let _daemon = world.daemon(server.clone());
    let run = world.submit("a", script("sleep")).await;
    let uid = run.uid().unwrap();
    world
        .eventually("it runs", || server.live().len() == 1)
        .await;
    world.delete("a").await;
    world
        .eventually("the process is gone", || server.live().is_empty())
        .await;
    world
        .eventually("the directory is gone", || !world.run_dir(&run).exists())
        .await;
    // N-121: the same name, another Run.
    server.script(&uid, Script::never_ends());
    let next = world.submit("a", script("x")).await;
    assert_ne!(next.uid(), run.uid());
    world
        .eventually("the place is used", || {
            server.live() == [next.uid().unwrap()]
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn n_122_a_deleting_run_with_another_finalizer_is_released_and_not_written() {
    let world = World::new(1).await;
    let server = ScriptedServer::new(|_| Script::never_ends());
    let _daemon = world.daemon(server.clone());
    world.submit("a", script("sleep")).await;
    let patch = json!({ "metadata": { "finalizers": ["kruntimes.io/artifact-cleanup"] } });
    world
        .runs
        .patch("a", &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .unwrap();
    world
        .eventually("it runs", || server.live().len() == 1)
        .await;
    world.pass(Duration::from_secs(5)).await;
    world.delete("a").await;
    world
        .eventually("the process is gone", || server.live().is_empty())
        .await;
    let version = world.get("a").await.resource_version();
    let calls = server.calls().len();
    world.pass(Duration::from_secs(60)).await;
    assert_eq!(world.get("a").await.resource_version(), version);
    let asked: Vec<_> = server.calls()[calls..]
        .iter()
        .filter(|c| !c.id().is_empty())
        .cloned()
        .collect();
    assert!(asked.len() <= 3, "{asked:?}");
}

#[tokio::test(start_paused = true)]
async fn n_124_capacity_stays_taken_until_the_execution_is_forgotten() {
    let world = World::new(1).await;
    let server = ScriptedServer::new(|_| Script::exits(0));
    for _ in 0..80 {
        let gone = ClientError::Unavailable {
            message: "x".into(),
        };
        server.break_next(Method::Forget, Fault::Refuse(gone));
    }
    let _daemon = world.daemon(server.clone());
    world.submit("a", script("x")).await;
    world.until_phase("a", RunPhase::Succeeded).await;
    world.submit("b", script("x")).await;
    world.pass(Duration::from_secs(5)).await;
    assert_eq!(
        status(&world.get("b").await).phase,
        RunPhase::Scheduled,
        "N-30"
    );
    world.until_phase("b", RunPhase::Succeeded).await;
    assert!(server.list().await.unwrap().len() <= 1);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_taken_away_is_released_and_may_come_back() {
    let world = World::new(1).await;
    let server = ScriptedServer::new(|_| Script::exits(0).after(Duration::from_secs(5)));
    let _daemon = world.daemon(server.clone());
    let run = world.submit("a", script("x")).await;
    let uid = run.uid().unwrap();
    world
        .eventually("it runs", || server.live().len() == 1)
        .await;
    let requeue = json!({ "status": {
        "phase": "Pending", "assignedPod": null, "assignedPodUID": null, "startTime": null, "attempt": 2,
    }});
    world.patch_status("a", &requeue).await;
    world
        .eventually("the process is gone", || server.live().is_empty())
        .await;
    world.assign("a").await;
    let done = world.until_over("a").await;
    assert_eq!(status(&done).phase, RunPhase::Succeeded);
    assert_eq!(status(&done).attempt, Some(2));
    assert_eq!(server.executed(&uid), 2);
}

#[tokio::test(start_paused = true)]
async fn n_24_one_slow_stop_does_not_delay_others() {
    let world = World::new(3).await;
    let server = ScriptedServer::new(|request| {
        let text = std::fs::read_to_string(format!("{}/script", request.working_dir)).unwrap();
        if text == "slow" {
            Script::never_ends().slow_to_cancel(Duration::from_secs(4))
        } else {
            Script::exits(0).after(Duration::from_secs(1))
        }
    });
    let _daemon = world.daemon(server.clone());
    world.submit("slow", script("slow")).await;
    world
        .eventually("it runs", || server.live().len() == 1)
        .await;
    world.cancel("slow").await;
    let begun = tokio::time::Instant::now();
    world.submit("quick", script("quick")).await;
    world.until_phase("quick", RunPhase::Succeeded).await;
    assert!(
        begun.elapsed() < Duration::from_millis(1_500),
        "{:?}",
        begun.elapsed()
    );
    assert_eq!(status(&world.get("slow").await).phase, RunPhase::Running);
    world.until_phase("slow", RunPhase::Cancelled).await;
}

#[tokio::test(start_paused = true)]
async fn case_089_a_place_is_free_when_its_process_is_gone_not_when_it_is_asked_to_go() {
    let world = World::new(1).await;
    let server =
        ScriptedServer::new(|_| Script::never_ends().slow_to_cancel(Duration::from_secs(8)));
    let _daemon = world.daemon(server.clone());
    let dying = world.submit("a", script("x")).await.uid().unwrap();
    world
        .eventually("it runs", || server.executed(&dying) == 1)
        .await;
    world.cancel("a").await;
    let next = world.submit("b", script("x")).await.uid().unwrap();
    for _ in 0..79 {
        world.pass(Duration::from_millis(100)).await;
        assert_eq!(server.live(), std::slice::from_ref(&dying));
        assert_eq!(server.executed(&next), 0);
    }
    world.until_phase("a", RunPhase::Cancelled).await;
    world
        .eventually("the place is used", || server.live() == [next.clone()])
        .await;
}
