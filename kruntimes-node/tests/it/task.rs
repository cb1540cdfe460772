//! Tasks that are claimed, executed and end by themselves.

use std::time::Duration;

use kruntimes_core::api::{EnvVar, RunPhase, RunSpec};
use kruntimes_core::quantity::Quantity;
use kruntimes_proto::testing::{Call, Fault, Method, Script, ScriptedServer};
use kruntimes_proto::{ClientError, ExecuteRequest, Health};
use kube::ResourceExt as _;
use serde_json::json;

use crate::world::{World, conditions, message, script, status};

/// Writes the outputs file when the work ends.
fn leaves(request: &ExecuteRequest, outputs: &str) -> Script {
    let path = request.env["KRUNTIME_OUTPUTS"].clone();
    let outputs = outputs.to_owned();
    Script::exits(0).on_finish(move || std::fs::write(path, outputs).unwrap())
}

#[tokio::test(start_paused = true)]
async fn n_10_n_84_n_96_n_98_a_task_succeeds_with_its_outputs_in_two_writes() {
    let world = World::new(2).await;
    let server = ScriptedServer::new(|request| {
        leaves(request, "A=1\n")
            .after(Duration::from_millis(400))
            .stdout("hi\nlast")
    });
    let _daemon = world.daemon(server.clone());
    let run = world.submit("a", script("echo hi")).await;
    let before = world
        .api_server
        .stats()
        .requests("patch-status", "runs.kruntimes.io");
    let done = world.until_over("a").await;
    let uid = run.uid().unwrap();
    assert_eq!(status(&done).phase, RunPhase::Succeeded);
    assert_eq!(message(&done), "execution completed");
    assert_eq!(status(&done).outputs["A"], "1");
    assert_eq!(status(&done).attempt, Some(1));
    assert!(status(&done).completion_time >= status(&done).start_time);
    assert_eq!(
        conditions(&done),
        [
            "Scheduled=True Assigned",
            "Running=False Completed",
            "RuntimeAccepted=True Observed",
            "Completed=True RunCompleted",
        ]
    );
    world
        .eventually("the place is free", || {
            server.calls().iter().any(|c| c.method() == Method::Forget)
        })
        .await;
    world
        .eventually("the directory is gone", || !world.run_dir(&run).exists())
        .await;
    assert_eq!(world.logs.lines(), ["Stdout 1 hi", "Stdout 1 last"]);
    assert_eq!(server.executed(&uid), 1);
    assert_eq!(server.live(), Vec::<String>::new());
    // Architecture, section 5: bind, claim, end.
    let after = world
        .api_server
        .stats()
        .requests("patch-status", "runs.kruntimes.io");
    assert_eq!(after - before, 2);
    assert!(world.events().await.is_empty(), "N-98");
}

#[tokio::test(start_paused = true)]
async fn n_42_the_script_is_in_place_when_it_is_executed() {
    let world = World::new(2).await;
    let server = ScriptedServer::new(|request| {
        let script = format!("{}/{}", request.working_dir, request.entrypoint);
        let text = std::fs::read_to_string(script).unwrap();
        leaves(request, &format!("TEXT={text}\n"))
    });
    let _daemon = world.daemon(server.clone());
    let mut spec = script("echo exactly this");
    spec.env = vec![EnvVar {
        name: "WHO".into(),
        value: Some("me".into()),
        value_from: None,
    }];
    spec.timeout = Some(Duration::from_millis(1_500).into());
    world.submit("a", spec).await;
    let done = world.until_over("a").await;
    assert_eq!(status(&done).outputs["TEXT"], "echo exactly this");
    let request = server.calls().into_iter().find_map(|call| match call {
        Call::Execute(request) => Some(request),
        Call::Other(..) => None,
    });
    let request = request.unwrap();
    assert_eq!(request.env["WHO"], "me");
    assert_eq!(request.timeout, Some(Duration::from_millis(1_500)), "N-72");
}

#[tokio::test(start_paused = true)]
async fn n_83_a_longer_task_shows_that_it_was_accepted() {
    let world = World::new(2).await;
    let server = ScriptedServer::new(|_| Script::exits(0).after(Duration::from_secs(30)));
    let _daemon = world.daemon(server);
    world.submit("a", script("sleep 30")).await;
    let accepted = |status: &kruntimes_core::api::RunStatus| {
        kruntimes_core::condition::is_true(&status.conditions, "RuntimeAccepted")
    };
    let seen = world.until("a", accepted).await;
    assert_eq!(status(&seen).phase, RunPhase::Running);
    assert_eq!(
        status(&world.until_over("a").await).phase,
        RunPhase::Succeeded
    );
}

#[tokio::test(start_paused = true)]
async fn n_99_n_100_n_179_a_failure_tells_the_end_of_stderr() {
    let world = World::new(2).await;
    let server =
        ScriptedServer::new(|_| Script::exits(3).stdout("secret").stderr("no such thing\n"));
    let _daemon = world.daemon(server);
    world.submit("a", script("false")).await;
    let done = world.until_over("a").await;
    assert_eq!(status(&done).phase, RunPhase::Failed);
    assert_eq!(message(&done), "runtime stderr: no such thing");
    assert!(conditions(&done).contains(&"Completed=False RuntimeError".to_owned()));
    world.pass(Duration::from_secs(1)).await;
    assert_eq!(world.events().await, ["Warning RunFailed"]);
    // N-100, N-179
    let mut lines = world.logs.lines();
    lines.sort();
    assert_eq!(lines, ["Stderr 1 no such thing", "Stdout 1 secret"]);
}

#[tokio::test(start_paused = true)]
async fn n_131_bad_outputs_end_the_run() {
    let world = World::new(4).await;
    let server = ScriptedServer::new(|request| {
        let text = std::fs::read_to_string(format!("{}/script", request.working_dir)).unwrap();
        leaves(request, &text)
    });
    let _daemon = world.daemon(server);
    let long = format!("K={}", "x".repeat(8193));
    for (name, text, reason) in [
        ("bad", "no equals sign", "OutputsInvalid"),
        ("long", &*long, "OutputsTooLarge"),
    ] {
        world
            .submit(name, crate::world::retried(text, 3, Duration::ZERO))
            .await;
        let done = world.until_over(name).await;
        assert_eq!(status(&done).phase, RunPhase::Failed, "{name}");
        assert!(conditions(&done).contains(&format!("Completed=False {reason}")));
        assert_eq!(status(&done).attempt, Some(1));
        assert!(status(&done).outputs.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn n_29_two_runs_share_one_slot_one_after_the_other() {
    let world = World::new(1).await;
    let server = ScriptedServer::new(|_| Script::exits(0).after(Duration::from_secs(3)));
    let _daemon = world.daemon(server.clone());
    world.submit("a", script("a")).await;
    world.submit("b", script("b")).await;
    world.pass(Duration::from_secs(1)).await;
    assert_eq!(server.live().len(), 1);
    let first = world.until_over("a").await;
    let second = world.until_over("b").await;
    assert!(status(&second).start_time >= status(&first).completion_time);
    let begun = world.clock.now();
    assert!(
        begun.as_second() - status(&first).start_time.unwrap().0.as_second() <= 7,
        "the freed place is used at once"
    );
}

#[tokio::test(start_paused = true)]
async fn n_31_capacity_of_the_pod_is_checked_again() {
    let world = World::new(8).await;
    world
        .pods()
        .delete(
            crate::world::POD,
            &kube::api::DeleteParams::default().grace_period(0),
        )
        .await
        .unwrap();
    let uid = world
        .make_pod(&json!({ "kruntimes.io/capacity.gpu": "1", "kruntimes.io/capacity.runs": "1" }))
        .await;
    let server = ScriptedServer::new(|_| Script::exits(0).after(Duration::from_secs(5)));
    let _daemon = world.daemon(server.clone());
    let with_gpu = || {
        let mut spec = script("x");
        let requests = [("gpu".to_owned(), Quantity::from_whole(1))];
        spec.resources = Some(kruntimes_core::api::Resources {
            requests: requests.into(),
        });
        spec
    };
    for (name, spec) in [("a", with_gpu()), ("b", with_gpu()), ("c", script("x"))] {
        world.create(name, spec).await;
        world.assign_to(name, &uid).await;
    }
    world.pass(Duration::from_secs(2)).await;
    let phase = async |name| status(&world.get(name).await).phase;
    assert_eq!(phase("a").await, RunPhase::Running);
    assert_eq!(phase("b").await, RunPhase::Scheduled, "no second gpu");
    assert_eq!(
        phase("c").await,
        RunPhase::Running,
        "`runs` comes from the workers"
    );
    assert_eq!(
        status(&world.until_over("b").await).phase,
        RunPhase::Succeeded
    );
}

#[tokio::test(start_paused = true)]
async fn n_27_an_unhealthy_server_gets_no_work() {
    let world = World::new(2).await;
    let server = ScriptedServer::default();
    server.set_health(Health {
        healthy: false,
        message: "warming up".into(),
    });
    let _daemon = world.daemon(server.clone());
    let run = world.submit("a", script("x")).await;
    world.pass(Duration::from_secs(20)).await;
    assert_eq!(status(&world.get("a").await).phase, RunPhase::Scheduled);
    // N-185
    let pod = world.pods().get(crate::world::POD).await.unwrap();
    let beat = pod.status.unwrap().conditions.unwrap().remove(0);
    assert_eq!(
        (&*beat.status, beat.reason.as_deref()),
        ("False", Some("RuntimeServerUnhealthy"))
    );
    server.set_health(Health {
        healthy: true,
        message: String::new(),
    });
    world.until_phase("a", RunPhase::Succeeded).await;
    assert_eq!(server.executed(&run.uid().unwrap()), 1);
}

#[tokio::test(start_paused = true)]
async fn n_183_the_heartbeat_is_fresh_and_leaves_other_conditions_alone() {
    let world = World::new(2).await;
    let _daemon = world.daemon(ScriptedServer::default());
    let beat = async || {
        let pod = world.pods().get(crate::world::POD).await.unwrap();
        pod.status.and_then(|s| s.conditions).unwrap_or_default()
    };
    world.pass(Duration::from_millis(100)).await;
    let first = beat().await;
    assert_eq!(first[0].type_, "kruntimes.io/RuntimedReady");
    let ready =
        json!({ "status": { "conditions": [{ "type": "Ready", "status": "True" }, first[0]] } });
    let params = kube::api::PatchParams::default();
    world
        .pods()
        .patch_status(crate::world::POD, &params, &kube::api::Patch::Merge(&ready))
        .await
        .unwrap();
    world.pass(Duration::from_secs(11)).await;
    let later = beat().await;
    assert_eq!(later.len(), 2);
    assert_eq!(
        (&*later[0].type_, &*later[0].status),
        ("Ready", "True"),
        "N-184"
    );
    assert!(later[1].last_probe_time > first[0].last_probe_time);
    assert_eq!(later[1].last_transition_time, first[0].last_transition_time);
}

#[tokio::test(start_paused = true)]
async fn n_21_n_119_n_196_a_run_of_a_former_pod_of_this_name_is_ignored() {
    let world = World::new(2).await;
    let server = ScriptedServer::default();
    let _daemon = world.daemon(server.clone());
    world.create("old", script("x")).await;
    world.assign_to("old", "another-uid").await;
    world.submit("new", script("x")).await;
    world.until_phase("new", RunPhase::Succeeded).await;
    world.pass(Duration::from_secs(60)).await;
    assert_eq!(status(&world.get("old").await).phase, RunPhase::Scheduled);
    world
        .patch_status("old", &json!({ "status": { "phase": "Running" } }))
        .await;
    world.pass(Duration::from_secs(60)).await;
    assert_eq!(
        status(&world.get("old").await).phase,
        RunPhase::Running,
        "N-196"
    );
    world.cancel("old").await;
    let version = world.get("old").await.resource_version();
    world.pass(Duration::from_secs(60)).await;
    let left = world.get("old").await;
    assert_eq!(left.resource_version(), version, "N-119");
    assert!(server.calls().iter().all(|c| c.id() != left.uid().unwrap()));
}

#[tokio::test(start_paused = true)]
async fn n_81_a_lost_answer_does_not_execute_twice() {
    let world = World::new(2).await;
    let server = ScriptedServer::new(|_| Script::exits(0).after(Duration::from_secs(1)));
    server.break_next(Method::Execute, Fault::LoseAnswer);
    let _daemon = world.daemon(server.clone());
    let run = world.submit("a", script("x")).await;
    let done = world.until_over("a").await;
    assert_eq!(status(&done).phase, RunPhase::Succeeded);
    assert_eq!(status(&done).attempt, Some(1));
    assert_eq!(server.executed(&run.uid().unwrap()), 1);
}

#[tokio::test(start_paused = true)]
async fn n_81_nothing_is_sent_again_before_the_server_has_answered() {
    let world = World::new(2).await;
    let server = ScriptedServer::new(|_| Script::exits(0).after(Duration::from_secs(9)));
    server.break_next(Method::Status, Fault::Delay(Duration::ZERO));
    server.break_next(Method::Execute, Fault::LoseAnswer);
    for _ in 0..5 {
        let gone = ClientError::Unavailable {
            message: "x".into(),
        };
        server.break_next(Method::Status, Fault::Refuse(gone));
    }
    let _daemon = world.daemon(server.clone());
    let run = world.submit("a", script("x")).await;
    let done = world.until_over("a").await;
    assert_eq!(status(&done).phase, RunPhase::Succeeded);
    assert_eq!(server.executed(&run.uid().unwrap()), 1);
}

#[tokio::test(start_paused = true)]
async fn n_13_n_97_a_conflict_on_the_terminal_write_is_no_failure() {
    let world = World::new(2).await;
    let server = ScriptedServer::new(|request| leaves(request, "A=1"));
    let layer = kruntimes_apiserver::fault::FaultLayer::new(
        7,
        kruntimes_apiserver::fault::FaultPlan {
            conflict: 0.6,
            ..Default::default()
        },
    );
    let handle = layer.handle();
    let client = world.api_server.client_with(&layer);
    let _daemon = world.daemon_with(client, server.clone());
    for name in ["a", "b", "c", "d"] {
        let run = world.submit(name, script("x")).await;
        let done = world.until_over(name).await;
        assert_eq!(status(&done).phase, RunPhase::Succeeded);
        assert_eq!(status(&done).outputs["A"], "1", "N-97");
        assert_eq!(server.executed(&run.uid().unwrap()), 1);
    }
    assert!(handle.counts().conflicts > 4);
}

#[tokio::test(start_paused = true)]
async fn n_81_a_start_that_never_arrived_is_sent_again_without_a_retry() {
    let world = World::new(2).await;
    let server = ScriptedServer::default();
    let gone = ClientError::Unavailable {
        message: "refused".into(),
    };
    server.break_next(Method::Execute, Fault::Refuse(gone));
    let _daemon = world.daemon(server.clone());
    let run = world.submit("a", script("x")).await;
    let done = world.until_over("a").await;
    assert_eq!(status(&done).attempt, Some(1));
    assert_eq!(server.executed(&run.uid().unwrap()), 1);
}

#[tokio::test(start_paused = true)]
async fn n_79_a_refused_start_is_a_failure_with_an_event() {
    let world = World::new(2).await;
    let refusal = ClientError::InvalidArgument {
        message: "bad directory".into(),
    };
    let server = ScriptedServer::new(move |_| Script::refused(refusal.clone()));
    let _daemon = world.daemon(server);
    world.submit("a", script("x")).await;
    let done = world.until_over("a").await;
    assert!(conditions(&done).contains(&"Completed=False RuntimeExecute".to_owned()));
    assert_eq!(message(&done), "invalid argument: bad directory");
    world.pass(Duration::from_secs(1)).await;
    assert_eq!(
        world.events().await,
        ["Warning RunExecutionStartFailed", "Warning RunFailed"]
    );
}

#[tokio::test(start_paused = true)]
async fn n_87_case_068_silence_of_the_server_changes_nothing() {
    let world = World::new(2).await;
    let server =
        ScriptedServer::new(|_| Script::exits(0).after(Duration::from_secs(2))).without_events();
    let _daemon = world.daemon(server.clone());
    let run = world.submit("a", script("x")).await;
    world
        .eventually("it runs", || server.executed(&run.uid().unwrap()) == 1)
        .await;
    for fault in [
        Fault::Refuse(ClientError::Unavailable {
            message: "x".into(),
        }),
        Fault::Refuse(ClientError::Unavailable {
            message: "x".into(),
        }),
        Fault::Delay(Duration::from_secs(60)),
    ] {
        server.break_next(Method::Status, fault);
    }
    let done = world.until_over("a").await;
    assert_eq!(status(&done).phase, RunPhase::Succeeded);
    assert_eq!(status(&done).attempt, Some(1));
}

#[tokio::test(start_paused = true)]
async fn n_177_lines_are_emitted_while_the_task_runs() {
    let world = World::new(2).await;
    let server = ScriptedServer::new(|_| Script::never_ends());
    let _daemon = world.daemon(server.clone());
    let run = world.submit("a", script("x")).await;
    let uid = run.uid().unwrap();
    world
        .eventually("it runs", || server.executed(&uid) == 1)
        .await;
    server.print(&uid, "one\ntw");
    world.pass(Duration::from_millis(500)).await;
    assert_eq!(world.logs.lines(), ["Stdout 1 one"]);
    server.print(&uid, "o\nthree");
    world.pass(Duration::from_millis(500)).await;
    assert_eq!(world.logs.lines(), ["Stdout 1 one", "Stdout 1 two"]);
    server.finish(&uid, 0);
    world.until_phase("a", RunPhase::Succeeded).await;
    world
        .eventually("the last line is there", || world.logs.lines().len() == 3)
        .await;
}

#[tokio::test(start_paused = true)]
async fn an_exit_is_recorded_without_a_timer_when_the_server_tells() {
    let world = World::new(2).await;
    let server = ScriptedServer::new(|_| Script::never_ends());
    let _daemon = world.daemon(server.clone());
    let run = world.submit("a", script("x")).await;
    let uid = run.uid().unwrap();
    world
        .eventually("it runs", || server.executed(&uid) == 1)
        .await;
    world.pass(Duration::from_secs(5)).await;
    let exit = tokio::time::Instant::now();
    server.finish(&uid, 0);
    world.until_phase("a", RunPhase::Succeeded).await;
    assert_eq!(exit.elapsed(), Duration::ZERO, "L3");
}

#[tokio::test(start_paused = true)]
async fn what_this_build_cannot_do_fails_by_reason() {
    let world = World::new(4).await;
    let server = ScriptedServer::default();
    let _daemon = world.daemon(server.clone());
    let session = RunSpec {
        mode: kruntimes_core::api::Mode {
            session: Some(kruntimes_core::api::SessionMode::default()),
            ..Default::default()
        },
        source: None,
        ..script("")
    };
    let function = RunSpec {
        mode: kruntimes_core::api::Mode {
            function: Some(kruntimes_core::api::FunctionMode::default()),
            ..Default::default()
        },
        source: None,
        ..script("")
    };
    for (name, spec, reason) in [
        ("session", session, "SessionRegister"),
        ("function", function, "RuntimeExecute"),
    ] {
        world.submit(name, spec).await;
        let done = world.until_over(name).await;
        assert_eq!(status(&done).phase, RunPhase::Failed);
        assert!(conditions(&done).contains(&format!("Completed=False {reason}")));
        assert!(message(&done).ends_with("not supported by this runtimed yet"));
    }
    let executes = server
        .calls()
        .iter()
        .filter(|c| c.method() == Method::Execute)
        .count();
    assert_eq!(executes, 0);
}

#[tokio::test(start_paused = true)]
async fn n_70_values_from_elsewhere_are_empty_and_reported_once() {
    let world = World::new(2).await;
    let server = ScriptedServer::default();
    let _daemon = world.daemon(server);
    let mut spec = script("x");
    let from = json!({ "secretKeyRef": { "name": "s", "key": "k" } });
    spec.env = vec![EnvVar {
        name: "TOKEN".into(),
        value: None,
        value_from: from.as_object().cloned(),
    }];
    world.submit("a", spec).await;
    world.until_phase("a", RunPhase::Succeeded).await;
    world.pass(Duration::from_secs(1)).await;
    assert_eq!(world.events().await, ["Warning EnvValueFromIgnored"]);
}
