//! The real Bash server over a unix socket, in real time.

use std::time::Duration;

use futures::StreamExt as _;
use kruntimes_core::api::RunPhase;
use kruntimes_proto::{ExecuteRequest, GrpcClient, RuntimeClient as _};
use kruntimes_runtime::bash;
use kruntimes_runtime::server::ServerHandle;
use kube::ResourceExt as _;
use tokio_util::sync::CancellationToken;

use crate::world::{Daemon, World, conditions, message, retried, script, status, with_env};

/// One Pod with a Bash server of its own.
pub(crate) struct Real {
    pub(crate) world: World,
    client: GrpcClient,
    _server: ServerHandle,
    _daemon: Daemon,
}

async fn real(workers: i64) -> Real {
    real_with(workers, Duration::from_millis(200)).await
}

/// Starts a server that leaves programs this long to end by themselves.
pub(crate) async fn real_with(workers: i64, termination_grace: Duration) -> Real {
    real_on(World::new(workers).await, termination_grace)
}

/// The same in a world that exists.
pub(crate) fn real_on(world: World, termination_grace: Duration) -> Real {
    let socket = world.path("bash.sock");
    let config = bash::Config {
        work_dir: world.workspace(),
        termination_grace,
        ..bash::Config::default()
    };
    std::fs::create_dir_all(world.workspace()).unwrap();
    let server = bash::serve_unix(&socket, &config, &CancellationToken::new()).unwrap();
    let client = kruntimes_proto::connect(&format!("unix:{}", socket.display())).unwrap();
    let daemon = world.daemon(client.clone());
    Real {
        world,
        client,
        _server: server,
        _daemon: daemon,
    }
}

#[tokio::test]
async fn a_script_succeeds_with_outputs_and_logs() {
    let real = real(2).await;
    let text = "echo hello; echo oops >&2; echo \"WHERE=$PWD\" >> \"$KRUNTIME_OUTPUTS\"; test -d \"$TMPDIR\"";
    let run = real.world.submit("a", script(text)).await;
    let done = real.world.until_over("a").await;
    assert_eq!(
        status(&done).phase,
        RunPhase::Succeeded,
        "{}",
        message(&done)
    );
    let dir = real.world.run_dir(&run);
    assert_eq!(status(&done).outputs["WHERE"], dir.display().to_string());
    real.world
        .eventually("the directory is gone", || !dir.exists())
        .await;
    assert_eq!(real.world.logs.lines(), ["Stdout 1 hello", "Stderr 1 oops"]);
    assert!(real.client.list().await.unwrap().is_empty(), "forgotten");
}

#[tokio::test]
async fn a_failure_shows_stderr_and_is_repeated() {
    let real = real(2).await;
    let text = "echo broken >&2; test -e mark || { touch mark; exit 4; }; echo \"A=2\" > \"$KRUNTIME_OUTPUTS\"";
    real.world
        .submit("a", retried(text, 2, Duration::from_millis(50)))
        .await;
    let done = real.world.until_over("a").await;
    assert_eq!(
        status(&done).phase,
        RunPhase::Succeeded,
        "{}",
        message(&done)
    );
    assert_eq!(status(&done).attempt, Some(2));
    real.world.submit("b", script("echo why >&2; exit 4")).await;
    assert_eq!(
        message(&real.world.until_over("b").await),
        "runtime stderr: why"
    );
}

#[tokio::test]
async fn scenario_12_a_stubborn_task_ends_at_its_deadline() {
    let real = real(2).await;
    let mut spec = script("trap '' TERM; sleep 60 & while true; do sleep 1; done");
    spec.timeout = Some(Duration::from_millis(400).into());
    let run = real.world.submit("a", spec).await;
    let done = real.world.until_over("a").await;
    assert_eq!(status(&done).phase, RunPhase::Timeout);
    assert_eq!(message(&done), "timeout after 400ms");
    let uid = run.uid().unwrap();
    assert!(real.client.status(&uid).await.unwrap_err().is_not_found());
}

#[tokio::test]
async fn a_cancel_ends_a_sleeping_task() {
    let real = real(2).await;
    let run = real.world.submit("a", script("echo up; sleep 60")).await;
    real.world
        .eventually("it runs", || !real.world.logs.lines().is_empty())
        .await;
    real.world.cancel("a").await;
    let done = real.world.until_over("a").await;
    assert_eq!(status(&done).phase, RunPhase::Cancelled);
    real.world
        .eventually("the directory is gone", || {
            !real.world.run_dir(&run).exists()
        })
        .await;
    assert!(real.client.list().await.unwrap().is_empty());
}

#[tokio::test]
async fn case_058_one_line_without_end_is_cut_and_the_run_succeeds() {
    let real = real(2).await;
    let text = "head -c 40000000 /dev/zero | tr '\\0' y; echo A=1 >> \"$KRUNTIME_OUTPUTS\"";
    real.world.submit("a", script(text)).await;
    real.world.submit("b", script("echo here")).await;
    for name in ["a", "b"] {
        let done = real.world.until_over(name).await;
        assert_eq!(status(&done).phase, RunPhase::Succeeded, "{name}");
    }
    let lines = real.world.logs.lines();
    let kept: usize = lines.iter().map(String::len).sum();
    assert!(kept < 1_200_000, "{kept}");
    for want in ["Stdout 1 [output truncated]", "Stdout 1 here"] {
        assert!(lines.iter().any(|line| line == want), "{want}");
    }
}

/// The exit code that the signal leads to is not a failure of its own, and nothing is repeated.
#[tokio::test]
async fn case_047_a_failing_answer_to_a_cancel_is_a_cancel() {
    let real = real(2).await;
    let text = "trap 'exit 1' TERM; echo up; sleep 60 & wait";
    real.world
        .submit("a", retried(text, 3, Duration::ZERO))
        .await;
    real.world
        .eventually("it runs", || !real.world.logs.lines().is_empty())
        .await;
    real.world.cancel("a").await;
    let done = real.world.until_over("a").await;
    assert_eq!(status(&done).phase, RunPhase::Cancelled);
    assert_eq!(status(&done).attempt, Some(1));
    assert!(conditions(&done).contains(&"Completed=False Cancelled".to_owned()));
    assert_eq!(real.world.logs.lines(), ["Stdout 1 up"]);
}

/// Cancels that arrive around the moment at which the script ends by itself.
#[tokio::test]
async fn n_117_case_056_a_cancel_that_meets_the_end_leaves_one_or_the_other() {
    let real = real(4).await;
    let text = "echo A=1 >> \"$KRUNTIME_OUTPUTS\"; exit 0";
    for round in 0..24 {
        let name = format!("r{round}");
        real.world.submit(&name, script(text)).await;
        for _ in 0..round * 40 {
            tokio::task::yield_now().await;
        }
        real.world.cancel(&name).await;
        let done = real.world.until_over(&name).await;
        match status(&done).phase {
            RunPhase::Succeeded => assert_eq!(status(&done).outputs["A"], "1", "{round}"),
            RunPhase::Cancelled => assert!(status(&done).outputs.is_empty(), "{round}"),
            other => panic!("round {round}: {other}"),
        }
    }
    real.world
        .eventually("nothing is left", || {
            std::fs::read_dir(real.world.workspace())
                .unwrap()
                .flatten()
                .all(|entry| entry.file_name() == ".kruntimes")
        })
        .await;
}

#[tokio::test]
async fn n_68_n_71_case_059_the_run_wins_over_the_container_and_loses_to_reserved_names() {
    let real = real(2).await;
    let text = "echo \"SAW=$HOME $LANG ${KRUNTIME_ARTIFACTS_DIR-none}\" >> \"$KRUNTIME_OUTPUTS\"";
    let variables = [
        ("HOME", "/tmp/h"),
        ("LANG", "C"),
        ("KRUNTIME_OUTPUTS", "/dev/null"),
        ("KRUNTIME_ARTIFACTS_DIR", "/tmp"),
    ];
    real.world
        .submit("a", with_env(script(text), &variables))
        .await;
    let done = real.world.until_over("a").await;
    assert_eq!(status(&done).outputs["SAW"], "/tmp/h C none");
}

#[tokio::test]
async fn scenario_7_a_background_child_does_not_hold_up_the_end() {
    let real = real(2).await;
    real.world
        .submit("a", script("sleep 60 & disown; exit 0"))
        .await;
    assert_eq!(
        status(&real.world.until_over("a").await).phase,
        RunPhase::Succeeded
    );
}

#[tokio::test]
async fn n_180_n_222_scenario_13_ten_mebibytes_of_output_are_cut_and_the_run_succeeds() {
    let real = real(2).await;
    let text = "yes 0123456789012345678901234567890123456789 | head -c 10485760";
    real.world.submit("a", script(text)).await;
    assert_eq!(
        status(&real.world.until_over("a").await).phase,
        RunPhase::Succeeded
    );
    let lines = real.world.logs.lines();
    let last = lines
        .iter()
        .rev()
        .find(|line| !line.ends_with(' '))
        .unwrap();
    assert_eq!(last, "Stdout 1 [output truncated]");
    assert!(lines.len() >= 25_000, "{}", lines.len());
}

/// N-73, for an earlier assignment: its work may live until the next claim.
#[tokio::test]
async fn what_is_stopped_by_a_claim_leaves_nothing_to_the_attempt() {
    let real = real(1).await;
    // Once something was executed, the daemon has seen what it found at its start.
    real.world.submit("first", script("true")).await;
    real.world.until_over("first").await;
    let run = real.world.create("a", script("true")).await;
    let dir = real.world.run_dir(&run).display().to_string();
    let trap = format!("trap 'echo OLD=1 >> {dir}/outputs; exit' TERM; echo up");
    let left = ExecuteRequest {
        id: run.uid().unwrap(),
        args: vec![trap, "while :; do sleep 0.05; done".into()],
        working_dir: dir,
        ..ExecuteRequest::default()
    };
    let mut events = real.client.watch(&[]).await.unwrap();
    real.client.execute(left).await.unwrap();
    while !events.next().await.unwrap().unwrap().output {}
    real.world.assign("a").await;
    let done = real.world.until_over("a").await;
    assert_eq!(status(&done).phase, RunPhase::Succeeded);
    assert!(
        status(&done).outputs.is_empty(),
        "{:?}",
        status(&done).outputs
    );
}
