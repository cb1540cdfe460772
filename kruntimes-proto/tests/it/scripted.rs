//! The scripted server keeps the contract of a real one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::StreamExt;
use kruntimes_proto::testing::{Dialect, Fault, Method, Script, ScriptedServer};
use kruntimes_proto::{ClientError, ExecuteRequest, ExecutionState, RuntimeClient};
use tokio::time::Instant;

fn request(id: &str) -> ExecuteRequest {
    ExecuteRequest {
        id: id.to_owned(),
        ..ExecuteRequest::default()
    }
}

const MINUTE: Duration = Duration::from_mins(1);

#[tokio::test(start_paused = true)]
async fn work_ends_on_the_paused_clock_and_the_watch_tells_it() {
    let done = Arc::new(AtomicBool::new(false));
    let server = ScriptedServer::default();
    let mark = Arc::clone(&done);
    let script = Script::exits(0)
        .after(MINUTE)
        .stdout("hi")
        .on_finish(move || mark.store(true, Ordering::SeqCst));
    server.script("a", script);
    let client: Arc<dyn RuntimeClient> = Arc::new(server.clone());
    client.execute(request("a")).await.unwrap();
    let mut events = client.watch(&["a".to_owned()]).await.unwrap();
    assert_eq!(
        events.next().await.unwrap().unwrap().state,
        ExecutionState::Running
    );
    assert!(!done.load(Ordering::SeqCst));
    let start = Instant::now();
    assert_eq!(
        events.next().await.unwrap().unwrap().state,
        ExecutionState::Succeeded
    );
    // The paused clock moves in whole milliseconds.
    assert!(start.elapsed() >= MINUTE && start.elapsed() < MINUTE + Duration::from_millis(5));
    assert!(done.load(Ordering::SeqCst));
    assert_eq!(client.status("a").await.unwrap().stdout, "hi");
    client.forget("a").await.unwrap();
    assert_eq!(
        events.next().await.unwrap().unwrap().state,
        ExecutionState::GONE
    );
    assert!(client.status("a").await.unwrap_err().is_not_found());
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_hides_work_that_was_done() {
    let server = ScriptedServer::new(|_| Script::never_ends());
    server.break_next(Method::Execute, Fault::LoseAnswer);
    let error = server.execute(request("a")).await.unwrap_err();
    assert!(error.is_ambiguous());
    assert_eq!(server.live(), ["a"]);
    assert_eq!(server.executed("a"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_restart_loses_everything_and_ends_the_watches() {
    let server = ScriptedServer::new(|_| Script::exits(0).after(MINUTE));
    server.execute(request("a")).await.unwrap();
    let mut events = server.watch(&[]).await.unwrap();
    assert!(events.next().await.is_some());
    server.break_next(Method::Status, Fault::Crash);
    assert!(matches!(
        server.status("a").await,
        Err(ClientError::Unavailable { .. })
    ));
    assert!(server.status("a").await.unwrap_err().is_not_found());
    assert!(events.next().await.is_none());
    // The lost execution's end does not reach the new one of the same id.
    server.script("a", Script::never_ends());
    server.execute(request("a")).await.unwrap();
    tokio::time::advance(2 * MINUTE).await;
    assert_eq!(
        server.status("a").await.unwrap().state,
        ExecutionState::Running
    );
    assert_eq!(server.executed("a"), 2);
}

#[tokio::test(start_paused = true)]
async fn the_time_limit_ends_work_with_its_message() {
    let server = ScriptedServer::new(|_| Script::never_ends());
    let mut events = server.watch(&[]).await.unwrap();
    let limited = ExecuteRequest {
        timeout: Some(Duration::from_secs(3)),
        ..request("a")
    };
    server.execute(limited).await.unwrap();
    while !events.next().await.unwrap().unwrap().state.is_final() {}
    let end = server.status("a").await.unwrap();
    assert_eq!((end.exit_code, end.error_message.as_str()), (-1, "timeout"));
}

#[tokio::test(start_paused = true)]
async fn dialects_differ_in_repeats_and_cancels() {
    let bash = ScriptedServer::new(|_| Script::never_ends());
    let python = ScriptedServer::new(|_| Script::never_ends()).speak(Dialect::Python);
    for server in [&bash, &python] {
        server.execute(request("a")).await.unwrap();
        assert!(matches!(
            server.forget("a").await,
            Err(ClientError::FailedPrecondition { .. })
        ));
    }
    // N-228, N-232
    bash.execute(request("a")).await.unwrap();
    assert!(matches!(
        python.execute(request("a")).await,
        Err(ClientError::AlreadyExists { .. })
    ));
    assert_eq!((bash.executed("a"), python.executed("a")), (2, 1));
    // N-229, N-234
    bash.cancel("a").await.unwrap();
    python.cancel("a").await.unwrap();
    assert!(bash.status("a").await.unwrap_err().is_not_found());
    assert_eq!(python.status("a").await.unwrap().error_message, "cancelled");
}

#[tokio::test(start_paused = true)]
async fn delays_refusals_and_missing_events_are_played() {
    let server = ScriptedServer::default().without_events();
    assert!(server.watch(&[]).await.err().unwrap().is_unimplemented());
    let start = Instant::now();
    server.break_next(Method::List, Fault::Delay(MINUTE));
    assert!(server.list().await.unwrap().is_empty());
    assert!(start.elapsed() >= MINUTE);
    let refusal = ClientError::InvalidArgument {
        message: "no".to_owned(),
    };
    server.script("a", Script::refused(refusal.clone()));
    assert_eq!(server.execute(request("a")).await, Err(refusal));
    assert_eq!(server.executed("a"), 0);
    assert_eq!(server.calls().len(), 3);
}
