//! The life of servers and supervisors: memory, other people's children, shutdown.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::{FutureExt, StreamExt};
use kruntimes_proto::testing::{Script, ScriptedServer};
use kruntimes_proto::{
    ClientError, EventStream, ExecuteRequest, Execution, ExecutionState, Health, RuntimeClient,
    connect,
};
use kruntimes_runtime::bash::{Config, serve_unix};
use kruntimes_runtime::process::{Command, Exit, Group};
use kruntimes_runtime::server::{Listener, serve};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::bash::{bash, run, shell};

const FOREVER: &str = "echo $$ > leader; setsid sleep 300 & echo $! > other; echo ready; sleep 300";

/// Starts work and waits until its processes are there.
async fn busy(server: &dyn RuntimeClient, id: &str, dir: &Path) {
    let mut events = server.watch(&[id.to_owned()]).await.expect("watch");
    server
        .execute(shell(id, dir, &[FOREVER]))
        .await
        .expect("execute");
    while !server
        .status(id)
        .await
        .expect("status")
        .stdout
        .contains("ready")
    {
        events.next().await.expect("events").expect("event");
    }
}

fn pid(dir: &Path, file: &str) -> String {
    std::fs::read_to_string(dir.join(file))
        .expect("a process id")
        .trim()
        .to_owned()
}

fn none_survives(dir: &Path) {
    for file in ["leader", "other"] {
        let process = Path::new("/proc").join(pid(dir, file));
        assert!(!process.exists(), "{file}");
    }
}

#[tokio::test]
async fn n_227_shutdown_ends_everything_and_results_stay() {
    let dir = tempfile::tempdir().unwrap();
    let server = bash(dir.path());
    busy(&server, "a", dir.path()).await;
    let mut events = server.watch(&[]).await.unwrap();
    assert_eq!(
        events.next().await.unwrap().unwrap().state,
        ExecutionState::Running
    );
    server.shutdown().await;
    none_survives(dir.path());
    let end = server.status("a").await.unwrap();
    assert_eq!(
        (end.state, end.exit_code, end.stdout.as_str()),
        (ExecutionState::Failed, -1, "ready\n")
    );
    let refused = server.execute(shell("b", dir.path(), &["true"])).await;
    assert!(
        matches!(refused, Err(ClientError::Unavailable { .. })),
        "{refused:?}"
    );
    assert!(!server.health().await.unwrap().healthy);
    assert_eq!(
        events.next().await.unwrap().unwrap().state,
        ExecutionState::Failed
    );
    assert!(events.next().await.is_none());
    server.shutdown().await;
}

#[tokio::test]
async fn n_227_a_cancelled_token_ends_the_server_within_its_time() {
    let dir = tempfile::tempdir().unwrap();
    let config = Config {
        work_dir: dir.path().to_owned(),
        termination_grace: Duration::from_millis(200),
        ..Config::default()
    };
    let token = CancellationToken::new();
    let socket = dir.path().join("s");
    let server = serve_unix(&socket, &config, &token).unwrap();
    let client = connect(server.endpoint()).unwrap();
    busy(&client, "a", dir.path()).await;
    // An open stream must not hold the server up.
    let _events = client.watch(&[]).await.unwrap();
    let start = Instant::now();
    token.cancel();
    server.shutdown().await.unwrap();
    assert!(start.elapsed() < Duration::from_secs(5));
    none_survives(dir.path());
    let late = client.health().await;
    assert!(
        matches!(late, Err(ClientError::Unavailable { .. })),
        "{late:?}"
    );
    // The same client reaches the next server on the socket.
    let _next = serve_unix(&socket, &config, &CancellationToken::new()).unwrap();
    assert!(client.health().await.unwrap().healthy);
    assert!(client.list().await.unwrap().is_empty());
    assert!(
        serve_unix(&socket, &config, &CancellationToken::new()).is_err(),
        "somebody listens"
    );
}

#[test]
fn the_end_of_the_tokio_runtime_kills_what_runs() {
    let dir = tempfile::tempdir().unwrap();
    let tokio = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let server = tokio.block_on(async {
        let server = bash(dir.path());
        busy(&server, "a", dir.path()).await;
        server
    });
    drop(tokio);
    none_survives(dir.path());
    // The record says so too, to whoever still holds the server.
    let end = server.status("a").now_or_never().unwrap().unwrap();
    assert_eq!((end.state, end.exit_code), (ExecutionState::Failed, -1));
}

#[tokio::test]
async fn dropping_the_supervisor_stops_what_runs() {
    let dir = tempfile::tempdir().unwrap();
    let server = bash(dir.path());
    busy(&server, "a", dir.path()).await;
    let mut events = server.watch(&[]).await.unwrap();
    let leader = process_end(&pid(dir.path(), "leader"));
    drop(server);
    leader.readable().await.unwrap();
    // The streams end with the supervisor.
    while events.next().await.is_some() {}
}

/// Becomes readable when the process ends.
fn process_end(pid: &str) -> tokio::net::unix::pipe::Receiver {
    let pid = rustix::process::Pid::from_raw(pid.parse().expect("number")).expect("pid");
    let fd =
        rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::NONBLOCK).expect("pidfd");
    tokio::net::unix::pipe::Receiver::from_owned_fd_unchecked(fd).expect("registers")
}

#[tokio::test]
async fn other_children_of_this_process_are_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let server = bash(dir.path());
    let mut ours = tokio::process::Command::new("sleep")
        .arg("300")
        .spawn()
        .unwrap();
    let mut quick = tokio::process::Command::new("sh")
        .args(["-c", "exit 7"])
        .spawn()
        .unwrap();
    for round in 0..20 {
        let end = run(&server, shell("a", dir.path(), &["sleep 300 & exit 0"])).await;
        assert_eq!(end.state, ExecutionState::Succeeded, "{round}");
    }
    assert_eq!(quick.wait().await.unwrap().code(), Some(7));
    assert_eq!(ours.try_wait().unwrap(), None);
    ours.kill().await.unwrap();
}

/// The kept text is bounded, so an endless writer costs a bounded amount of memory.
#[tokio::test]
async fn case_058_endless_output_takes_bounded_memory() {
    let dir = tempfile::tempdir().unwrap();
    let server = bash(dir.path());
    let before = resident();
    let mut request = shell(
        "a",
        dir.path(),
        &["yes \"$(head -c 4000 /dev/zero | tr '\\0' y)\""],
    );
    request.timeout = Some(Duration::from_secs(1));
    let end = run(&server, request).await;
    assert_eq!(end.error_message, "timeout");
    assert!(end.stdout.len() < 1_100_000);
    let grown = resident().saturating_sub(before);
    assert!(grown < 64 << 20, "{grown} bytes");
}

fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("proc");
    let size = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"))
        .expect("RssAnon");
    size.trim()
        .trim_end_matches(" kB")
        .parse::<usize>()
        .expect("a number")
        * 1024
}

#[tokio::test]
async fn a_group_reports_how_its_leader_ended() {
    let dir = tempfile::tempdir().unwrap();
    let command = |script: &str| Command {
        program: "/bin/sh".into(),
        args: vec!["-c".into(), script.into()],
        directory: dir.path().to_owned(),
        ..Command::default()
    };
    for (script, want) in [
        ("exit 5", Exit::Code(5)),
        ("kill -KILL $$", Exit::Signal("SIGKILL".to_owned())),
        ("trap 'exit 3' TERM; kill -TERM $$; exit 0", Exit::Code(3)),
    ] {
        let (group, _pipes) = Group::spawn(&command(script)).unwrap();
        group.leader_ended().await;
        assert_eq!(group.end(Duration::ZERO).await.unwrap(), want, "{script}");
    }
    let missing = Command {
        program: "/nowhere/program".into(),
        ..command("")
    };
    assert!(Group::spawn(&missing).is_err());
}

/// Panics when it is asked for a status.
struct Broken;

#[async_trait]
impl RuntimeClient for Broken {
    async fn execute(&self, _: ExecuteRequest) -> Result<(), ClientError> {
        Ok(())
    }
    async fn status(&self, id: &str) -> Result<Execution, ClientError> {
        unreachable!("no status of {id}")
    }
    async fn list(&self) -> Result<Vec<Execution>, ClientError> {
        let entry = |number: usize| Execution {
            id: number.to_string(),
            state: ExecutionState::Succeeded,
            exit_code: 0,
            stdout: "x".repeat(1 << 20),
            stderr: String::new(),
            error_message: String::new(),
        };
        Ok((0..100).map(entry).collect())
    }
    async fn cancel(&self, _: &str) -> Result<(), ClientError> {
        Ok(())
    }
    async fn forget(&self, _: &str) -> Result<(), ClientError> {
        Ok(())
    }
    async fn health(&self) -> Result<Health, ClientError> {
        std::future::pending().await
    }
    async fn watch(&self, _: &[String]) -> Result<EventStream, ClientError> {
        let message = "no events".to_owned();
        Err(ClientError::Unimplemented { message })
    }
}

/// Serves anything over TCP until the token is cancelled.
async fn over_tcp(
    runtime: Arc<dyn RuntimeClient>,
    token: &CancellationToken,
) -> impl RuntimeClient + use<> {
    let listener = Listener::tcp("127.0.0.1:0").await.expect("a free port");
    let client = connect(listener.endpoint()).expect("endpoint");
    tokio::spawn(serve(listener, runtime, token.clone().cancelled_owned()));
    client
}

#[tokio::test]
async fn n_217_a_panic_is_an_internal_error_and_the_server_goes_on() {
    let token = CancellationToken::new();
    let client = over_tcp(Arc::new(Broken), &token).await;
    let answer = client.status("a").await;
    let internal = |error: &ClientError| matches!(error, ClientError::Other { code, .. } if *code == tonic::Code::Internal);
    assert!(answer.as_ref().is_err_and(internal), "{answer:?}");
    assert_eq!(client.cancel("a").await, Ok(()));
    assert!(client.watch(&[]).await.err().unwrap().is_unimplemented());
}

#[tokio::test]
async fn n_8_a_huge_list_keeps_every_entry() {
    let token = CancellationToken::new();
    let client = over_tcp(Arc::new(Broken), &token).await;
    let all = client.list().await.unwrap();
    let total: usize = all.iter().map(|one| one.stdout.len()).sum();
    assert_eq!(all.len(), 100);
    assert!(total < 16 << 20 && total > 12 << 20, "{total}");
}

#[tokio::test]
async fn a_lost_server_is_unavailable_in_the_middle_of_a_call() {
    let token = CancellationToken::new();
    let client = Arc::new(over_tcp(Arc::new(Broken), &token).await);
    assert_eq!(client.cancel("a").await, Ok(()));
    let hanging = tokio::spawn({
        let client = Arc::clone(&client);
        async move { client.health().await }
    });
    token.cancel();
    let answer = hanging.await.unwrap();
    assert!(
        matches!(answer, Err(ClientError::Unavailable { .. })),
        "{answer:?}"
    );
}

#[tokio::test]
async fn errors_and_events_cross_the_wire_unchanged() {
    let token = CancellationToken::new();
    let scripted = ScriptedServer::new(|_| Script::never_ends());
    let client = over_tcp(Arc::new(scripted.clone()), &token).await;
    client
        .execute(shell("a", Path::new("/w"), &["x"]))
        .await
        .unwrap();
    assert_eq!(client.forget("a").await, scripted.forget("a").await);
    assert_eq!(client.status("b").await, scripted.status("b").await);
    let mut events = client.watch(&["a".to_owned()]).await.unwrap();
    assert_eq!(
        events.next().await.unwrap().unwrap().state,
        ExecutionState::Running
    );
    assert!(scripted.print("a", "text"));
    assert!(events.next().await.unwrap().unwrap().output);
    assert!(scripted.finish("a", 3));
    assert_eq!(
        events.next().await.unwrap().unwrap().state,
        ExecutionState::Failed
    );
    assert_eq!(client.status("a").await.unwrap().exit_code, 3);
}
