//! runtimed ends at some point and a new one takes over.

use std::time::Duration;

use kruntimes_core::api::RunPhase;
use kruntimes_proto::testing::{Fault, Method, Script, ScriptedServer};
use kruntimes_proto::{ClientError, ExecuteRequest, RuntimeClient as _};
use kube::ResourceExt as _;
use serde_json::json;

use crate::world::{World, conditions, message, retried, script, status};

#[tokio::test(start_paused = true)]
async fn n_77_n_192_n_199_scenario_1_killed_between_claim_and_start() {
    let world = World::new(1).await;
    let server = ScriptedServer::default();
    server.break_next(Method::Execute, Fault::Delay(Duration::from_secs(5)));
    let daemon = world.daemon(server.clone());
    let run = world.submit("a", script("x")).await;
    world.until_phase("a", RunPhase::Running).await;
    daemon.kill().await;
    assert_eq!(server.executed(&run.uid().unwrap()), 0);
    let _daemon = world.daemon(server.clone());
    let done = world.until_over("a").await;
    assert_eq!(status(&done).phase, RunPhase::Succeeded);
    assert_eq!(status(&done).attempt, Some(1));
    assert_eq!(server.executed(&run.uid().unwrap()), 1);
}

#[tokio::test(start_paused = true)]
async fn n_191_n_199_scenario_2_case_067_killed_while_a_task_runs() {
    let world = World::new(1).await;
    let server = ScriptedServer::new(|request: &ExecuteRequest| {
        let path = request.env["KRUNTIME_OUTPUTS"].clone();
        Script::exits(0)
            .after(Duration::from_secs(30))
            .stdout("one\ntwo\n")
            .on_finish(move || std::fs::write(path, "A=1").unwrap())
    });
    let daemon = world.daemon(server.clone());
    let run = world.submit("a", script("x")).await;
    let uid = run.uid().unwrap();
    world
        .eventually("it runs", || server.executed(&uid) == 1)
        .await;
    world.pass(Duration::from_secs(3)).await;
    daemon.kill().await;
    world.pass(Duration::from_secs(3)).await;
    let _daemon = world.daemon(server.clone());
    let done = world.until_over("a").await;
    assert_eq!(status(&done).phase, RunPhase::Succeeded, "N-191");
    assert_eq!(status(&done).outputs["A"], "1");
    assert_eq!(server.executed(&uid), 1);
    world.pass(Duration::from_secs(1)).await;
    let lines = world.logs.lines();
    assert!(
        lines.ends_with(&["Stdout 1 one".into(), "Stdout 1 two".into()]),
        "{lines:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn n_191_a_result_that_came_meanwhile_is_recorded() {
    let world = World::new(1).await;
    let server = ScriptedServer::new(|_| {
        Script::exits(3)
            .after(Duration::from_secs(3))
            .stderr("boom")
    });
    let daemon = world.daemon(server.clone());
    let run = world.submit("a", script("x")).await;
    world
        .eventually("it runs", || server.executed(&run.uid().unwrap()) == 1)
        .await;
    daemon.kill().await;
    world.pass(Duration::from_secs(10)).await;
    let _daemon = world.daemon(server.clone());
    let done = world.until_over("a").await;
    assert_eq!(message(&done), "runtime stderr: boom");
    assert_eq!(server.executed(&run.uid().unwrap()), 1);
}

#[tokio::test(start_paused = true)]
async fn n_192_what_both_lost_is_lost_only_if_it_was_observed() {
    for (lived, executed, want) in [(20, 1, RunPhase::Failed), (0, 2, RunPhase::Succeeded)] {
        let world = World::new(1).await;
        let server = ScriptedServer::new(|_| Script::exits(0).after(Duration::from_secs(60)));
        let daemon = world.daemon(server.clone());
        let run = world.submit("a", script("x")).await;
        let uid = run.uid().unwrap();
        world
            .eventually("it runs", || server.executed(&uid) == 1)
            .await;
        world.pass(Duration::from_secs(lived)).await;
        daemon.kill().await;
        server.restart();
        let _daemon = world.daemon(server.clone());
        let done = world.until_over("a").await;
        assert_eq!(status(&done).phase, want);
        assert_eq!(status(&done).attempt, Some(1));
        assert_eq!(server.executed(&uid), executed);
        if want == RunPhase::Failed {
            assert!(conditions(&done).contains(&"Completed=False ExecutionLost".to_owned()));
            assert_eq!(
                message(&done),
                "runtime execution not found after runtimed restart"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn n_193_a_backoff_survives() {
    let world = World::new(1).await;
    let server = ScriptedServer::new(|_| Script::exits(1));
    let daemon = world.daemon(server.clone());
    let run = world
        .submit("a", retried("x", 2, Duration::from_secs(30)))
        .await;
    let uid = run.uid().unwrap();
    world.until("a", |status| status.attempt == Some(2)).await;
    let failed = tokio::time::Instant::now();
    daemon.kill().await;
    world.pass(Duration::from_secs(10)).await;
    let _daemon = world.daemon(server.clone());
    world.submit("b", script("x")).await;
    world.pass(Duration::from_secs(10)).await;
    assert_eq!(
        status(&world.get("b").await).phase,
        RunPhase::Scheduled,
        "its place is held"
    );
    world
        .eventually("it runs again", || server.executed(&uid) == 2)
        .await;
    let waited = failed.elapsed();
    assert!(
        waited >= Duration::from_secs(30) && waited <= Duration::from_secs(32),
        "{waited:?}"
    );
    world.until_over("b").await;
}

#[tokio::test(start_paused = true)]
async fn n_113_a_deadline_survives() {
    let world = World::new(1).await;
    let server = ScriptedServer::new(|_| Script::never_ends());
    let daemon = world.daemon(server.clone());
    let mut spec = script("x");
    spec.timeout = Some(Duration::from_secs(60).into());
    world.submit("a", spec).await;
    world.pass(Duration::from_secs(10)).await;
    daemon.kill().await;
    let _daemon = world.daemon(server.clone());
    let done = world.until_over("a").await;
    assert_eq!(status(&done).phase, RunPhase::Timeout);
    let took = status(&done).completion_time.unwrap().0.as_second()
        - status(&done).start_time.unwrap().0.as_second();
    assert!((60..=61).contains(&took), "{took}");
}

#[tokio::test(start_paused = true)]
async fn n_195_executions_without_a_run_are_stopped() {
    let world = World::new(1).await;
    let server = ScriptedServer::new(|_| Script::never_ends());
    let orphan = ExecuteRequest {
        id: "6f1c2d3e-0000-4000-8000-000000000001".into(),
        ..ExecuteRequest::default()
    };
    server.execute(orphan.clone()).await.unwrap();
    std::fs::create_dir_all(world.workspace().join(&orphan.id)).unwrap();
    let _daemon = world.daemon(server.clone());
    world
        .eventually("it is gone", || server.live().is_empty())
        .await;
    world
        .eventually("N-127", || !world.workspace().join(&orphan.id).exists())
        .await;
}

#[tokio::test(start_paused = true)]
async fn n_189_nothing_is_claimed_before_the_server_has_answered() {
    let world = World::new(1).await;
    let server = ScriptedServer::default();
    for _ in 0..6 {
        let gone = ClientError::Unavailable {
            message: "x".into(),
        };
        server.break_next(Method::List, Fault::Refuse(gone));
    }
    let _daemon = world.daemon(server);
    world.submit("a", script("x")).await;
    world.pass(Duration::from_millis(2_500)).await;
    assert_eq!(status(&world.get("a").await).phase, RunPhase::Scheduled);
    world.until_phase("a", RunPhase::Succeeded).await;
}

#[tokio::test(start_paused = true)]
async fn n_194_n_196_one_silent_answer_does_not_stop_recovery() {
    let world = World::new(3).await;
    let server = ScriptedServer::new(|_| Script::exits(0).after(Duration::from_secs(20)));
    let daemon = world.daemon(server.clone());
    for name in ["a", "b", "c"] {
        world.submit(name, script("x")).await;
    }
    world
        .eventually("all run", || server.live().len() == 3)
        .await;
    daemon.kill().await;
    server.break_next(Method::Status, Fault::Delay(Duration::from_secs(60)));
    let _daemon = world.daemon(server.clone());
    for name in ["a", "b", "c"] {
        assert_eq!(
            status(&world.until_over(name).await).phase,
            RunPhase::Succeeded
        );
    }
}

#[tokio::test(start_paused = true)]
async fn n_198_a_shutdown_claims_nothing_and_records_what_ends() {
    let world = World::new(2).await;
    let server = ScriptedServer::new(|_| Script::exits(0).after(Duration::from_secs(5)));
    let mut daemon = world.daemon(server.clone());
    world.submit("a", script("x")).await;
    world
        .eventually("it runs", || server.live().len() == 1)
        .await;
    daemon.shutdown.cancel();
    world.submit("b", script("x")).await;
    daemon.ended().await;
    assert_eq!(status(&world.get("a").await).phase, RunPhase::Succeeded);
    assert_eq!(status(&world.get("b").await).phase, RunPhase::Scheduled);
}

#[tokio::test(start_paused = true)]
async fn n_198_a_shutdown_does_not_wait_for_ever_and_writes_no_status() {
    let world = World::new(2).await;
    let server = ScriptedServer::new(|_| Script::never_ends());
    let mut daemon = world.daemon(server.clone());
    world.submit("a", script("x")).await;
    world
        .until("a", |status| {
            kruntimes_core::condition::is_true(&status.conditions, "RuntimeAccepted")
        })
        .await;
    let version = world.get("a").await.resource_version();
    daemon.shutdown.cancel();
    let asked = tokio::time::Instant::now();
    daemon.ended().await;
    assert_eq!(asked.elapsed().as_secs(), 20);
    assert_eq!(world.get("a").await.resource_version(), version);
    assert_eq!(server.live().len(), 1, "the next process takes it up");
}

#[tokio::test(start_paused = true)]
async fn a_registration_of_an_earlier_process_is_lost() {
    let world = World::new(2).await;
    world.submit("a", script("x")).await;
    world
        .patch_status("a", &json!({ "status": { "phase": "Ready" } }))
        .await;
    let _daemon = world.daemon(ScriptedServer::default());
    let done = world.until_over("a").await;
    assert!(conditions(&done).contains(&"Completed=False ExecutionLost".to_owned()));
}
