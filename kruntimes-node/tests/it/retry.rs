//! Attempts that fail and are repeated on the same Pod.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use kruntimes_core::api::RunPhase;
use kruntimes_proto::testing::{Dialect, Fault, Method, Script, ScriptedServer};
use kruntimes_proto::{ClientError, ExecuteRequest};
use kube::ResourceExt as _;

use crate::world::{World, conditions, message, retried, script, status};

/// Fails this often, then succeeds; notes when each attempt began.
fn fails(times: usize, world: &World) -> (ScriptedServer, Arc<std::sync::Mutex<Vec<Timestamp>>>) {
    let begun = Arc::new(std::sync::Mutex::new(Vec::new()));
    let (noted, clock) = (Arc::clone(&begun), world.clock.clone());
    let server = ScriptedServer::new(move |_| {
        let mut noted = noted.lock().unwrap();
        noted.push(clock.now());
        let script = if noted.len() <= times {
            Script::exits(1).stdout(format!("try {}", noted.len()))
        } else {
            Script::exits(0)
        };
        script.after(Duration::from_millis(10))
    });
    (server, begun)
}

#[tokio::test(start_paused = true)]
async fn n_102_n_104_n_105_n_107_n_108_attempts_are_counted_and_spaced() {
    for dialect in [Dialect::Bash, Dialect::Python] {
        let world = World::new(1).await;
        let (server, begun) = fails(3, &world);
        let server = server.speak(dialect);
        let _daemon = world.daemon(server.clone());
        let backoff = Duration::from_millis(300);
        let run = world.submit("a", retried("x", 4, backoff)).await;
        let done = world.until_over("a").await;
        assert_eq!(status(&done).phase, RunPhase::Succeeded, "{dialect:?}");
        assert_eq!(status(&done).attempt, Some(4));
        assert_eq!(
            server.executed(&run.uid().unwrap()),
            4,
            "N-82, N-106, scenario 6"
        );
        let begun = begun.lock().unwrap().clone();
        let waits: Vec<i64> = begun
            .windows(2)
            .map(|pair| i64::try_from(pair[1].duration_since(pair[0]).as_millis()).unwrap())
            .collect();
        for (wait, least) in waits.iter().zip([300, 600, 1200]) {
            assert!((least..least + 60).contains(wait), "{waits:?}");
        }
        world.pass(Duration::from_secs(1)).await;
        assert_eq!(
            world.events().await,
            [
                "Warning RunFailedRetrying",
                "Normal RunRetrying",
                "Warning RunFailedRetrying",
                "Normal RunRetrying",
                "Warning RunFailedRetrying",
                "Normal RunRetrying",
                "Normal RunSucceeded",
            ]
        );
        // N-179: output of attempts that are repeated is not lost.
        assert_eq!(
            world.logs.lines(),
            ["Stdout 1 try 1", "Stdout 2 try 2", "Stdout 3 try 3"]
        );
    }
}

#[tokio::test(start_paused = true)]
async fn n_118_used_up_retries_end_the_run() {
    let world = World::new(1).await;
    let (server, _) = fails(9, &world);
    let _daemon = world.daemon(server.clone());
    let run = world
        .submit("a", retried("x", 2, Duration::from_secs(2)))
        .await;
    let waiting = world.until("a", |status| status.attempt == Some(2)).await;
    assert_eq!(status(&waiting).phase, RunPhase::Running);
    assert!(conditions(&waiting).contains(&"Running=False RuntimeError".to_owned()));
    let done = world.until_over("a").await;
    assert_eq!(status(&done).phase, RunPhase::Failed);
    assert_eq!(status(&done).attempt, Some(2));
    assert_eq!(message(&done), "runtime execution failed with exit code 1");
    assert_eq!(server.executed(&run.uid().unwrap()), 2);
    world.pass(Duration::from_secs(1)).await;
    assert_eq!(
        world.events().await.last().unwrap(),
        "Warning RunRetriesExhausted"
    );
}

#[tokio::test(start_paused = true)]
async fn n_73_n_109_an_attempt_sees_kept_files_and_no_old_outputs() {
    let world = World::new(1).await;
    let count = Arc::new(AtomicUsize::new(0));
    let tries = Arc::clone(&count);
    let server = ScriptedServer::new(move |request: &ExecuteRequest| {
        let dir = std::path::PathBuf::from(&request.working_dir);
        assert!(dir.join("script").exists());
        let first = tries.fetch_add(1, Ordering::Relaxed) == 0;
        assert_eq!(dir.join("mark").exists(), !first, "files are kept");
        assert!(!dir.join("outputs").exists(), "outputs are not");
        Script::exits(i32::from(first)).on_finish(move || {
            std::fs::write(dir.join("mark"), "").unwrap();
            std::fs::write(dir.join("outputs"), if first { "OLD=1" } else { "NEW=1" }).unwrap();
        })
    });
    let _daemon = world.daemon(server);
    world.submit("a", retried("x", 2, Duration::ZERO)).await;
    let done = world.until_over("a").await;
    let names: Vec<_> = status(&done).outputs.keys().cloned().collect();
    assert_eq!(names, ["NEW"]);
}

#[tokio::test(start_paused = true)]
async fn n_106_no_attempt_begins_before_the_last_one_is_forgotten() {
    let world = World::new(1).await;
    let (server, begun) = fails(1, &world);
    for _ in 0..20 {
        let gone = ClientError::Unavailable {
            message: "x".into(),
        };
        server.break_next(Method::Forget, Fault::Refuse(gone));
    }
    let _daemon = world.daemon(server.clone());
    world
        .submit("a", retried("x", 2, Duration::from_millis(100)))
        .await;
    let done = world.until_over("a").await;
    assert_eq!(status(&done).phase, RunPhase::Succeeded);
    let begun = begun.lock().unwrap().clone();
    let wait = begun[1].duration_since(begun[0]).as_millis();
    assert!(wait >= 2_000, "twenty tries, 100 ms apart, took {wait} ms");
}

#[tokio::test(start_paused = true)]
async fn n_86_n_197_scenario_3_case_068_a_restarted_server_costs_one_attempt() {
    for events in [true, false] {
        let world = World::new(1).await;
        let server = ScriptedServer::new(|_| Script::exits(0).after(Duration::from_secs(10)));
        let server = if events {
            server
        } else {
            server.without_events()
        };
        let _daemon = world.daemon(server.clone());
        let run = world
            .submit("a", retried("x", 2, Duration::from_secs(1)))
            .await;
        let uid = run.uid().unwrap();
        world
            .eventually("it runs", || server.executed(&uid) == 1)
            .await;
        world.pass(Duration::from_secs(2)).await;
        server.restart();
        let lost = world.until("a", |status| status.attempt == Some(2)).await;
        assert!(conditions(&lost).contains(&"Running=False ExecutionLost".to_owned()));
        let done = world.until_over("a").await;
        assert_eq!(status(&done).phase, RunPhase::Succeeded, "events: {events}");
        assert_eq!(server.executed(&uid), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn n_111_a_server_timeout_follows_the_policy() {
    let world = World::new(1).await;
    let count = AtomicUsize::new(0);
    let server = ScriptedServer::new(move |_| {
        if count.fetch_add(1, Ordering::Relaxed) == 0 {
            Script::exits(-1).message("timeout")
        } else {
            Script::exits(0)
        }
    });
    let _daemon = world.daemon(server);
    world.submit("a", retried("x", 2, Duration::ZERO)).await;
    let done = world.until_over("a").await;
    assert_eq!(status(&done).phase, RunPhase::Succeeded);
    assert_eq!(status(&done).attempt, Some(2));
}

#[tokio::test(start_paused = true)]
async fn n_102_without_a_policy_there_is_one_attempt() {
    let world = World::new(1).await;
    let (server, begun) = fails(1, &world);
    let _daemon = world.daemon(server);
    world.submit("a", script("x")).await;
    let done = world.until_over("a").await;
    assert_eq!(status(&done).phase, RunPhase::Failed);
    world.pass(Duration::from_secs(120)).await;
    assert_eq!(begun.lock().unwrap().len(), 1);
}

/// The time before the claim, spent in a queue, is not part of the budget.
#[tokio::test(start_paused = true)]
async fn n_112_case_064_the_budget_of_retries_begins_with_the_claim() {
    let world = World::new(1).await;
    let (server, _) = fails(2, &world);
    let _daemon = world.daemon(server);
    let mut spec = retried("x", 3, Duration::from_secs(5));
    spec.timeout = Some(Duration::from_secs(30).into());
    world.create("a", spec).await;
    world.pass(Duration::from_secs(60)).await;
    world.assign("a").await;
    let done = world.until_over("a").await;
    assert_eq!(status(&done).phase, RunPhase::Succeeded);
    assert_eq!(status(&done).attempt, Some(3));
}

#[tokio::test(start_paused = true)]
async fn case_070_runs_deleted_in_backoff_leave_nothing_to_do() {
    const RUNS: usize = 40;
    let world = World::new(40).await;
    let server = ScriptedServer::new(|_| Script::exits(1));
    let _daemon = world.daemon(server.clone());
    let names: Vec<_> = (0..RUNS).map(|number| format!("r{number}")).collect();
    for name in &names {
        let spec = retried("x", 5, Duration::from_secs(60));
        world.submit(name, spec).await;
    }
    for name in &names {
        world.until(name, |status| status.attempt == Some(2)).await;
    }
    for name in &names {
        world.delete(name).await;
    }
    world.pass(Duration::from_secs(10)).await;
    let asked = || {
        server
            .calls()
            .iter()
            .filter(|call| !call.id().is_empty())
            .count()
    };
    let writes = || {
        let stats = world.api_server.stats();
        stats.requests("patch-status", "runs.kruntimes.io")
    };
    let (before, written) = (asked(), writes());
    let told = world.events().await.len();
    world.pass(Duration::from_secs(900)).await;
    assert_eq!((asked(), writes()), (before, written));
    assert_eq!(world.events().await.len(), told);
    let left = std::fs::read_dir(world.workspace()).unwrap().flatten();
    assert_eq!(
        left.filter(|entry| entry.file_name() != ".kruntimes")
            .count(),
        0
    );
    // Every place is free again.
    for name in &names {
        world.submit(name, script("x")).await;
    }
    for name in &names {
        world.until_over(name).await;
    }
}

#[tokio::test(start_paused = true)]
async fn case_146_a_policy_that_is_not_needed_changes_nothing() {
    let world = World::new(2).await;
    let server = ScriptedServer::new(|request: &ExecuteRequest| {
        let path = request.env["KRUNTIME_OUTPUTS"].clone();
        Script::exits(0).on_finish(move || std::fs::write(path, "A=1").unwrap())
    });
    let _daemon = world.daemon(server);
    world.submit("plain", script("x")).await;
    world
        .submit("policy", retried("x", 3, Duration::from_secs(1)))
        .await;
    let essence = |run: &kruntimes_core::crd::Run| {
        let status = status(run);
        (
            status.phase,
            status.outputs.clone(),
            status.attempt,
            conditions(run),
        )
    };
    let plain = essence(&world.until_over("plain").await);
    assert_eq!(plain.1["A"], "1");
    assert_eq!(essence(&world.until_over("policy").await), plain);
}
