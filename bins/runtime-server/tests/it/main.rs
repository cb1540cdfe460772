//! The binary as a process: flags, signals, orphans.

use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Duration;

use futures::StreamExt;
use kruntimes_proto::{ExecuteRequest, RuntimeClient, connect};
use nix::sys::signal::{SigSet, SigmaskHow};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::unix::pipe::Receiver;
use tokio::process::{Child, Command};

fn binary(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_runtime-server"));
    command.args(args).kill_on_drop(true).stdin(Stdio::null());
    command
}

async fn output(args: &[&str]) -> (Output, String) {
    let output = binary(args).output().await.expect("starts");
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    (output, String::from_utf8_lossy(&text).into_owned())
}

/// Starts the server and waits until it says where it serves; none when the wrapper around it refuses.
async fn serving_under(
    wrapper: &[&str],
    dir: &Path,
) -> Option<(Child, impl RuntimeClient + use<>)> {
    let socket = dir.join("server.sock");
    let (socket, work) = (socket.to_string_lossy(), dir.to_string_lossy());
    let flags = [
        "--language",
        "bash",
        "--socket",
        &socket,
        "--work-dir",
        &work,
        "--termination-grace",
        "100ms",
    ];
    let words = [wrapper, &[env!("CARGO_BIN_EXE_runtime-server")], &flags].concat();
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).kill_on_drop(true);
    command.stdin(Stdio::null()).stderr(Stdio::piped());
    // A supervisor may start it with everything blocked, and the mask is inherited.
    let mask = SigSet::all()
        .thread_swap_mask(SigmaskHow::SIG_BLOCK)
        .expect("mask");
    let child = command.spawn();
    mask.thread_set_mask().expect("mask");
    let mut child = child.expect("starts");
    let mut log = BufReader::new(child.stderr.take().expect("stderr")).lines();
    while let Some(line) = log.next_line().await.expect("log") {
        if line.contains("serving") {
            let client = connect(&format!("unix:{socket}")).expect("endpoint");
            return Some((child, client));
        }
    }
    None
}

async fn serving(dir: &Path) -> (Child, impl RuntimeClient + use<>) {
    serving_under(&[], dir).await.expect("serves")
}

/// Runs a command until it has printed `ready` or ended; returns what it printed.
async fn run(client: &impl RuntimeClient, dir: &Path, script: &str) -> String {
    let id = "a".to_owned();
    let mut events = client
        .watch(std::slice::from_ref(&id))
        .await
        .expect("watch");
    let request = ExecuteRequest {
        id: id.clone(),
        args: vec![script.to_owned()],
        working_dir: dir.to_string_lossy().into_owned(),
        ..ExecuteRequest::default()
    };
    client.execute(request).await.expect("execute");
    loop {
        let now = client.status(&id).await.expect("status");
        if now.state.is_final() || now.stdout.contains("ready") {
            return now.stdout;
        }
        events.next().await.expect("events").expect("event");
    }
}

/// Ends the server as a kubelet does, so that nothing it runs is left behind.
async fn stop(mut server: Child) {
    let id = server.id().and_then(|id| i32::try_from(id).ok());
    let pid = id.and_then(Pid::from_raw).expect("the server runs");
    kill_process(pid, Signal::TERM).expect("signal");
    let end = tokio::time::timeout(Duration::from_secs(5), server.wait()).await;
    assert!(end.expect("in time").expect("status").success());
}

#[tokio::test]
async fn n_227_sigterm_ends_the_server_and_everything_it_runs() {
    let dir = tempfile::tempdir().unwrap();
    let (server, client) = serving(dir.path()).await;
    let printed = run(
        &client,
        dir.path(),
        "trap '' TERM; echo $$; echo ready; while :; do sleep 1; done",
    )
    .await;
    let program = printed.lines().next().unwrap();
    assert!(Path::new("/proc").join(program).exists());
    stop(server).await;
    assert!(!Path::new("/proc").join(program).exists());
    assert!(!dir.path().join("server.sock").exists());
}

#[tokio::test]
async fn n_218_orphans_are_reaped_while_their_execution_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let (server, client) = serving(dir.path()).await;
    // Job control gives the orphan a group of its own in the server's session.
    let script =
        "set -m; (sleep 300 & echo $!) > orphan; set +m; cat orphan; echo ready; sleep 300";
    let printed = run(&client, dir.path(), script).await;
    let orphan = printed.lines().next().unwrap().parse().unwrap();
    let orphan = Pid::from_raw(orphan).unwrap();
    let end = Receiver::from_owned_fd_unchecked(pidfd_open(orphan, PidfdFlags::NONBLOCK).unwrap())
        .unwrap();
    kill_process(orphan, Signal::KILL).unwrap();
    end.readable().await.unwrap();
    // A pidfd tells the end of the process; only reaping makes its number disappear.
    let path = Path::new("/proc").join(orphan.as_raw_pid().to_string());
    let reaped = async {
        while path.exists() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), reaped)
        .await
        .expect("the orphan is reaped");
    assert!(!client.status("a").await.unwrap().state.is_final());
    stop(server).await;
}

/// A process that was put into a running container has a session leader it cannot see: session 0.
#[tokio::test]
async fn orphans_are_reaped_by_a_server_whose_session_is_elsewhere() {
    let dir = tempfile::tempdir().unwrap();
    let namespace = [
        "unshare",
        "--map-root-user",
        "--pid",
        "--fork",
        "--mount-proc",
        "--kill-child",
    ];
    let Some((_server, client)) = serving_under(&namespace, dir.path()).await else {
        eprintln!("not tried: this machine gives us no PID namespace");
        return;
    };
    let script = "cut -d' ' -f6 /proc/$PPID/stat
        set -m; (sleep 300 & echo $! > orphan); set +m
        read -r orphan < orphan; kill -KILL \"$orphan\"
        while [ -e \"/proc/$orphan\" ]; do :; done; echo ready";
    let printed = tokio::time::timeout(Duration::from_secs(20), run(&client, dir.path(), script));
    let printed = printed.await.expect("the orphan is reaped");
    assert_eq!(printed, "0\nready\n");
}

#[tokio::test]
async fn wrong_flags_are_explained() {
    for (args, want) in [
        (&["--language", "ruby"][..], "possible values: bash, python"),
        (
            &["--language", "bash", "--termination-grace", "soon"],
            "invalid duration",
        ),
        (
            &["--language", "bash", "--termination-grace=-1s"],
            "negative",
        ),
        (
            &["--language", "bash", "--port", "1", "--socket", "/x"],
            "cannot be used with",
        ),
        (
            &[
                "--language",
                "bash",
                "--socket",
                "/nowhere/x",
                "--work-dir",
                "/tmp",
            ],
            "cannot listen on unix:/nowhere/x: ",
        ),
        (&[], "--language"),
    ] {
        let (output, text) = output(args).await;
        assert!(!output.status.success());
        assert!(text.contains(want), "{args:?}: {text}");
    }
}

#[tokio::test]
async fn help_shows_examples() {
    let (output, text) = output(&["--help"]).await;
    assert!(output.status.success());
    assert!(
        text.contains("runtime-server --language bash --socket"),
        "{text}"
    );
}
