//! The part of the contract that any server can be asked to keep, whatever its programs are.

use std::time::Duration;

use futures::StreamExt as _;
use futures::future::{join, join_all};
use kruntimes_proto::{ClientError, ExecuteRequest, ExecutionState};

use super::Subject;
use crate::adapter::Manners;
use crate::capture::{OUTPUT_MAX_BYTES, TRUNCATION_MARK};

/// Programs of the server's language, as text of the entrypoint's file.
///
/// They are written by the [`wrap`](Subject::wrap) of the subject, which may return them as they are.
#[derive(Clone, Copy, Debug)]
pub struct Programs {
    /// Writes the line `out` to standard output and succeeds.
    pub print: &'static str,
    /// Writes the line `before` to standard output and fails.
    pub fail: &'static str,
    /// Writes the line `ready` to standard output and goes on until it is stopped.
    pub endless: &'static str,
    /// Writes more than a mebibyte to standard output, beginning with the line `first`, and succeeds.
    pub flood: &'static str,
}

/// How long an endless program gets before its time limit ends it.
const LIMIT: Duration = Duration::from_secs(2);

pub(super) async fn success_has_its_output(subject: &Subject, programs: &Programs) {
    let end = subject.run("success", programs.print).await;
    assert_eq!(end.state, ExecutionState::Succeeded, "{end:?}");
    assert_eq!((end.exit_code, end.stdout.as_str()), (0, "out\n"));
    subject.clear("success").await;
}

pub(super) async fn failure_is_told_with_what_came_before(subject: &Subject, programs: &Programs) {
    let end = subject.run("failure", programs.fail).await;
    assert_eq!(end.state, ExecutionState::Failed, "{end:?}");
    assert_ne!(end.exit_code, 0, "{end:?}");
    assert_eq!(end.stdout, "before\n");
    subject.clear("failure").await;
}

pub(super) async fn a_running_id_cannot_be_forgotten(subject: &Subject, programs: &Programs) {
    subject.start("forget", programs.endless).await;
    let early = subject.client.forget("forget").await;
    let refused = matches!(early, Err(ClientError::FailedPrecondition { .. }));
    assert!(refused, "{early:?}");
    subject.clear("forget").await;
    subject.run("forgotten", programs.print).await;
    assert_eq!(subject.client.forget("forgotten").await, Ok(()));
    let late = subject.client.status("forgotten").await;
    assert!(late.is_err_and(|error| error.is_not_found()));
}

pub(super) async fn list_finds_everything_again(subject: &Subject, programs: &Programs) {
    subject.run("listed-done", programs.print).await;
    subject.start("listed-live", programs.endless).await;
    let all = subject.client.list().await.unwrap_or_default();
    let state = |id: &str| all.iter().find(|one| one.id == id).map(|one| one.state);
    assert_eq!(state("listed-done"), Some(ExecutionState::Succeeded));
    assert_eq!(state("listed-live"), Some(ExecutionState::Running));
    subject.clear("listed-done").await;
    subject.clear("listed-live").await;
}

pub(super) async fn output_can_be_read_while_it_grows(subject: &Subject, programs: &Programs) {
    subject.start("growing", programs.endless).await;
    let seen = subject.ready("growing").await;
    assert_eq!(seen.state, ExecutionState::Running);
    assert_eq!(seen.stdout, "ready\n");
    subject.clear("growing").await;
}

pub(super) async fn long_output_is_capped(subject: &Subject, programs: &Programs) {
    let end = subject.run("flood", programs.flood).await;
    assert_eq!(
        end.state,
        ExecutionState::Succeeded,
        "{}",
        end.error_message
    );
    assert!(end.stdout.starts_with("first\n"));
    assert!(end.stdout.ends_with(TRUNCATION_MARK));
    let most = OUTPUT_MAX_BYTES + TRUNCATION_MARK.len();
    assert!(end.stdout.len() <= most, "{} bytes", end.stdout.len());
    subject.clear("flood").await;
}

pub(super) async fn a_time_limit_ends_the_program(subject: &Subject, programs: &Programs) {
    let request = subject.request("limit", programs.endless);
    let timeout = Some(LIMIT);
    subject.execute(ExecuteRequest { timeout, ..request }).await;
    let end = subject.end("limit").await;
    assert_eq!((end.state, end.exit_code), (ExecutionState::Failed, -1));
    assert_eq!(end.error_message, "timeout");
    subject.clear("limit").await;
}

pub(super) async fn cancel_may_be_repeated(subject: &Subject, programs: &Programs) {
    subject.start("cancel", programs.endless).await;
    subject.ready("cancel").await;
    let cancel = || subject.client.cancel("cancel");
    let (first, second) = join(cancel(), cancel()).await;
    for answer in [first, second, cancel().await] {
        let harmless = answer
            .as_ref()
            .map_or_else(ClientError::is_not_found, |()| true);
        assert!(harmless, "{answer:?}");
    }
    match (subject.manners, subject.client.status("cancel").await) {
        // N-229
        (Manners::Replace, status) => assert!(status.is_err_and(|error| error.is_not_found())),
        (Manners::Keep, Ok(end)) => {
            assert_eq!((end.state, end.exit_code), (ExecutionState::Failed, -1));
            assert_eq!(end.error_message, "cancelled");
        }
        (Manners::Keep, Err(error)) => unreachable!("a cancelled id stays: {error}"),
    }
    subject.clear("cancel").await;
}

pub(super) async fn a_success_stays_one(subject: &Subject, programs: &Programs) {
    subject.run("stays", programs.print).await;
    let answer = subject.client.cancel("stays").await;
    assert_eq!(answer, Ok(()));
    if subject.manners == Manners::Keep {
        assert_eq!(subject.read("stays").await.state, ExecutionState::Succeeded);
    }
    subject.clear("stays").await;
}

pub(super) async fn a_repeated_execute_keeps_the_rules(subject: &Subject, programs: &Programs) {
    subject.start("twice", programs.endless).await;
    subject.ready("twice").await;
    let answer = subject
        .client
        .execute(subject.request("twice", programs.print));
    match (subject.manners, answer.await) {
        (Manners::Replace, answer) => {
            assert_eq!(answer, Ok(()));
            assert_eq!(subject.end("twice").await.stdout, "out\n");
        }
        (Manners::Keep, answer) => {
            let refused = matches!(answer, Err(ClientError::AlreadyExists { .. }));
            assert!(refused, "{answer:?}");
            let now = subject.read("twice").await;
            assert_eq!(now.state, ExecutionState::Running);
        }
    }
    subject.clear("twice").await;
}

pub(super) async fn an_ended_id_is_not_answered_with_its_old_result(
    subject: &Subject,
    programs: &Programs,
) {
    subject.run("again", programs.fail).await;
    let answer = subject
        .client
        .execute(subject.request("again", programs.print));
    match (subject.manners, answer.await) {
        (Manners::Replace, answer) => {
            assert_eq!(answer, Ok(()));
            assert_eq!(subject.end("again").await.state, ExecutionState::Succeeded);
        }
        (Manners::Keep, answer) => {
            let refused = matches!(answer, Err(ClientError::AlreadyExists { .. }));
            assert!(refused, "{answer:?}");
        }
    }
    subject.clear("again").await;
}

pub(super) async fn fifty_at_once(subject: &Subject, programs: &Programs) {
    let ids: Vec<String> = (0..50).map(|number| format!("parallel-{number}")).collect();
    let runs = ids.iter().map(|id| async move {
        let end = subject.run(id, programs.print).await;
        assert_eq!((end.exit_code, end.stdout.as_str()), (0, "out\n"), "{id}");
        subject.clear(id).await;
    });
    join_all(runs).await;
}

/// Optional for a server: one that answers `Unimplemented` passes.
pub(super) async fn events_tell_the_end(subject: &Subject, programs: &Programs) {
    let ids = ["told".to_owned()];
    let mut events = match subject.client.watch(&ids).await {
        Ok(events) => events,
        Err(error) => {
            assert!(error.is_unimplemented(), "{error}");
            return;
        }
    };
    subject.start("told", programs.print).await;
    loop {
        let event = events.next().await;
        let Some(Ok(event)) = event else {
            unreachable!("the events broke: {event:?}");
        };
        assert_eq!(event.id, "told");
        if event.state.is_final() {
            break;
        }
    }
    assert_eq!(subject.read("told").await.stdout, "out\n");
    subject.clear("told").await;
}
