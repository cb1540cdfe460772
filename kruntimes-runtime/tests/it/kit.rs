//! Servers made with the kit: the contract, and what only work inside a server can do wrong.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use kruntimes_proto::{ClientError, ExecuteRequest, ExecutionState, RuntimeClient, connect};
use kruntimes_runtime::kit::{Failure, Handler, Job, Options, supervisor};
use kruntimes_runtime::server::{Listener, ServerHandle};
use kruntimes_runtime::testing::{CONTRACT, Programs, Subject};
use kruntimes_runtime::{Manners, Refusal, Supervisor};
use tokio_util::sync::CancellationToken;

use crate::bash::{run, shell};

/// Understands a word per line.
struct Words;

#[async_trait]
impl Handler for Words {
    async fn run(&self, job: Job) -> Result<(), Failure> {
        let text = job.text()?;
        for line in text.lines() {
            match line.split_once(' ').unwrap_or((line, "")) {
                ("say", what) => job.stdout.write(format!("{what}\n")),
                ("complain", what) => job.stderr.write(format!("{what}\n")),
                ("flood", _) => job.stdout.write(vec![b'y'; 2 << 20]),
                ("wait", _) => job.stop.cancelled().await,
                ("sulk", _) => std::future::pending().await,
                ("thread", _) => {
                    let (stop, stdout) = (job.stop.clone(), job.stdout.clone());
                    let (file, runtime) = (
                        job.directory.join("left"),
                        tokio::runtime::Handle::current(),
                    );
                    tokio::task::spawn_blocking(move || {
                        runtime.block_on(stop.cancelled());
                        std::fs::write(file, "after the stop").expect("the directory exists");
                        drop(stdout);
                    });
                    job.stdout.write("ready\n");
                    std::future::pending::<()>().await;
                }
                ("fail", code) => {
                    let exit_code = code.parse().unwrap_or(0);
                    let message = "as asked".to_owned();
                    return Err(Failure { exit_code, message });
                }
                ("panic", _) => unreachable!("as asked"),
                (word, _) => return Err(Failure::new(format!("what is {word}"))),
            }
        }
        Ok(())
    }

    fn check(&self, request: &ExecuteRequest) -> Result<(), Refusal> {
        match request.handler.as_str() {
            "" => Ok(()),
            name => Err(Refusal::new(format!("there is no {name} here"))),
        }
    }
}

fn options(work_dir: &Path) -> Options {
    Options {
        work_dir: work_dir.to_owned(),
        termination_grace: Duration::from_millis(200),
    }
}

fn words(work_dir: &Path) -> Supervisor {
    supervisor(Words, &options(work_dir)).expect("the work root is there")
}

async fn check(client: Arc<dyn RuntimeClient>, dir: &Path) {
    let programs = Programs {
        print: "say out",
        fail: "say before\nfail 3",
        endless: "say ready\nwait",
        flood: "say first\nflood",
    };
    let subject = Subject {
        client,
        work_dir: dir.join("conformance"),
        wrap: str::to_owned,
        manners: Manners::Keep,
    };
    for case in CONTRACT {
        let copy = subject.clone();
        let end = tokio::spawn(async move { (case.check)(&copy, &programs).await }).await;
        assert!(end.is_ok(), "{}: {end:?}", case.name);
    }
    let left = subject.client.list().await.expect("list");
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test]
async fn n_235_a_handler_keeps_the_contract_in_process() {
    let dir = tempfile::tempdir().unwrap();
    check(Arc::new(words(dir.path())), dir.path()).await;
}

#[tokio::test]
async fn n_235_a_handler_keeps_the_contract_over_grpc() {
    let dir = tempfile::tempdir().unwrap();
    let listener = Listener::unix(&dir.path().join("s")).unwrap();
    let token = CancellationToken::new();
    let server = ServerHandle::spawn(listener, words(dir.path()), &token);
    check(Arc::new(connect(server.endpoint()).unwrap()), dir.path()).await;
    server.shutdown().await.unwrap();
}

#[tokio::test]
async fn n_217_a_panic_fails_its_job_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let server = words(dir.path());
    let end = run(&server, shell("a", dir.path(), &["say before", "panic"])).await;
    assert_eq!((end.state, end.exit_code), (ExecutionState::Failed, -1));
    assert_eq!(
        (end.error_message.as_str(), end.stdout.as_str()),
        ("the work panicked", "before\n")
    );
    let next = run(&server, shell("b", dir.path(), &["say still here"])).await;
    assert_eq!(next.stdout, "still here\n");
}

#[tokio::test]
async fn failures_have_their_code_and_are_never_zero() {
    let dir = tempfile::tempdir().unwrap();
    let server = words(dir.path());
    for (id, line, code) in [("a", "fail 7", 7), ("b", "fail 0", 1)] {
        let end = run(&server, shell(id, dir.path(), &["complain why", line])).await;
        assert_eq!((end.state, end.exit_code), (ExecutionState::Failed, code));
        assert_eq!((&*end.error_message, &*end.stderr), ("as asked", "why\n"));
    }
    let none = run(&server, shell("none", dir.path(), &[])).await;
    assert_eq!(none.error_message, "no script or args provided");
}

#[tokio::test]
async fn a_handler_refuses_before_anything_begins() {
    let dir = tempfile::tempdir().unwrap();
    let server = words(dir.path());
    let request = ExecuteRequest {
        handler: "a.b".to_owned(),
        ..shell("a", dir.path(), &["say no"])
    };
    let refused = server.execute(request).await;
    assert!(
        matches!(&refused, Err(ClientError::InvalidArgument { message }) if message.contains("a.b")),
        "{refused:?}"
    );
    assert!(server.list().await.unwrap().is_empty());
}

/// Work that does not listen is dropped after the grace period.
#[tokio::test(start_paused = true)]
async fn n_219_work_that_goes_on_is_dropped_after_the_grace() {
    let dir = tempfile::tempdir().unwrap();
    let server = words(dir.path());
    let start = tokio::time::Instant::now();
    server
        .execute(shell("a", dir.path(), &["sulk"]))
        .await
        .unwrap();
    server.cancel("a").await.unwrap();
    assert_eq!(start.elapsed().as_millis(), 200);
    assert_eq!(server.status("a").await.unwrap().error_message, "cancelled");
}

/// A thread cannot be dropped, so a cancel waits for it (N-214).
#[tokio::test]
async fn n_214_a_thread_that_holds_an_output_is_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let server = words(dir.path());
    let request = shell("a", dir.path(), &["thread"]);
    server.execute(request).await.unwrap();
    server.cancel("a").await.unwrap();
    let end = server.status("a").await.unwrap();
    assert_eq!(
        (end.state, &*end.error_message),
        (ExecutionState::Failed, "cancelled")
    );
    let left = dir.path().join("left");
    // Whether the thread began at all is decided by when the cancel came.
    assert_eq!(left.exists(), end.stdout == "ready\n");
}

#[tokio::test]
async fn n_227_the_end_of_the_server_ends_its_work() {
    let dir = tempfile::tempdir().unwrap();
    let server = words(dir.path());
    let request = shell("a", dir.path(), &["wait"]);
    server.execute(request).await.unwrap();
    server.shutdown().await;
    let end = server.status("a").await.unwrap();
    assert_eq!(
        (end.state, &*end.error_message),
        (ExecutionState::Failed, "server shutdown")
    );
}
