//! Cases about starting, reading and forgetting.

use std::path::Path;

use futures::StreamExt;
use futures::future::join_all;
use kruntimes_proto::{ClientError, ExecuteRequest, ExecutionState};

use super::Subject;
use crate::capture::{OUTPUT_MAX_BYTES, TRUNCATION_MARK};

pub(super) async fn success_has_its_output(subject: &Subject) {
    let end = subject.run("success", "echo out; echo err >&2").await;
    assert_eq!(end.state, ExecutionState::Succeeded);
    assert_eq!((end.exit_code, end.error_message.as_str()), (0, ""));
    assert_eq!(
        (end.stdout.as_str(), end.stderr.as_str()),
        ("out\n", "err\n")
    );
    subject.clear("success").await;
}

pub(super) async fn failure_has_its_exit_code(subject: &Subject) {
    for code in [1, 3, 255] {
        let end = subject
            .run("failure", &format!("echo before; exit {code}"))
            .await;
        assert_eq!((end.state, end.exit_code), (ExecutionState::Failed, code));
        assert_eq!(end.stdout, "before\n");
        subject.clear("failure").await;
    }
}

pub(super) async fn an_empty_id_is_invalid(subject: &Subject) {
    let request = ExecuteRequest {
        id: String::new(),
        ..subject.request("empty", "exit 0")
    };
    let answer = subject.client.execute(request).await;
    assert!(
        matches!(answer, Err(ClientError::InvalidArgument { .. })),
        "{answer:?}"
    );
}

pub(super) async fn unknown_ids_are_not_found(subject: &Subject) {
    let client = &subject.client;
    assert!(
        client
            .status("nobody")
            .await
            .is_err_and(|error| error.is_not_found())
    );
    assert!(
        client
            .cancel("nobody")
            .await
            .is_err_and(|error| error.is_not_found())
    );
    assert!(
        client
            .forget("nobody")
            .await
            .is_err_and(|error| error.is_not_found())
    );
}

pub(super) async fn forget_drops_only_what_has_ended(subject: &Subject) {
    subject.start("forget", "echo ready; sleep 300").await;
    let early = subject.client.forget("forget").await;
    assert!(
        matches!(early, Err(ClientError::FailedPrecondition { .. })),
        "{early:?}"
    );
    subject.clear("forget").await;
    subject.run("forgotten", "exit 0").await;
    assert_eq!(subject.client.forget("forgotten").await, Ok(()));
    let late = subject.client.status("forgotten").await;
    assert!(late.is_err_and(|error| error.is_not_found()));
}

pub(super) async fn list_finds_everything_again(subject: &Subject) {
    subject.run("listed-done", "echo kept; exit 4").await;
    subject.start("listed-live", "sleep 300").await;
    let all = subject.client.list().await.unwrap_or_default();
    let find = |id: &str| all.iter().find(|one| one.id == id);
    let done = find("listed-done").map(|one| (one.state, one.exit_code, one.stdout.as_str()));
    assert_eq!(done, Some((ExecutionState::Failed, 4, "kept\n")));
    assert_eq!(
        find("listed-live").map(|one| one.state),
        Some(ExecutionState::Running)
    );
    subject.clear("listed-done").await;
    subject.clear("listed-live").await;
}

pub(super) async fn the_environment_of_the_request_wins(subject: &Subject) {
    let mut request = subject.request("env", "echo \"$HOME|$LANG|$KRUNTIME_EMPTY|${PATH##*:}\"");
    let path = std::env::var("PATH").unwrap_or_default();
    for (name, value) in [("HOME", "/tmp/h"), ("LANG", "C"), ("KRUNTIME_EMPTY", "")] {
        request.env.insert(name.to_owned(), value.to_owned());
    }
    request
        .env
        .insert("PATH".to_owned(), format!("{path}:/from/request"));
    subject.execute(request).await;
    assert_eq!(subject.end("env").await.stdout, "/tmp/h|C||/from/request\n");
    subject.clear("env").await;
}

pub(super) async fn a_missing_directory_is_made(subject: &Subject) {
    let mut request = subject.request("missing", "exit 0");
    let wanted = subject.directory("missing").join("a/b");
    request.working_dir = wanted.to_string_lossy().into_owned();
    // Nothing can be found there, so this fails in its own way, but the directory exists afterwards.
    subject.execute(request).await;
    assert_eq!(subject.end("missing").await.state, ExecutionState::Failed);
    assert!(wanted.is_dir());
    subject.clear("missing").await;
}

pub(super) async fn a_directory_that_cannot_be_made_fails(subject: &Subject) {
    let mut request = subject.request("blocked", "exit 0");
    let below_file = Path::new(&request.working_dir).join("script/below");
    request.working_dir = below_file.to_string_lossy().into_owned();
    subject.execute(request).await;
    let end = subject.end("blocked").await;
    assert_eq!(end.state, ExecutionState::Failed);
    assert!(
        end.error_message.starts_with("mkdir: "),
        "{}",
        end.error_message
    );
    subject.clear("blocked").await;
}

pub(super) async fn escaping_entrypoints_are_invalid(subject: &Subject) {
    for entrypoint in ["/bin/true", "../script", "a/../../script", "."] {
        let request = ExecuteRequest {
            entrypoint: entrypoint.to_owned(),
            ..subject.request("escape", "exit 0")
        };
        let answer = subject.client.execute(request).await;
        assert!(
            matches!(answer, Err(ClientError::InvalidArgument { .. })),
            "{entrypoint}: {answer:?}"
        );
    }
    let mut outside = subject.request("escape", "exit 0");
    "/".clone_into(&mut outside.working_dir);
    let answer = subject.client.execute(outside).await;
    assert!(
        matches!(answer, Err(ClientError::InvalidArgument { .. })),
        "{answer:?}"
    );
}

pub(super) async fn long_output_is_capped_and_the_program_goes_on(subject: &Subject) {
    let flood = "echo first; head -c 10485760 /dev/zero | tr '\\0' y; echo last >&2; exit 0";
    let end = subject.run("flood", flood).await;
    assert_eq!(end.state, ExecutionState::Succeeded);
    assert!(end.stdout.starts_with("first\nyyy"));
    assert!(end.stdout.ends_with(TRUNCATION_MARK));
    assert_eq!(end.stdout.len(), OUTPUT_MAX_BYTES + TRUNCATION_MARK.len());
    assert_eq!(end.stderr, "last\n");
    subject.clear("flood").await;
}

pub(super) async fn output_that_is_no_text_is_replaced(subject: &Subject) {
    let end = subject.run("bytes", r"printf 'a\377b\000c'").await;
    assert_eq!(end.stdout, "a\u{fffd}b\0c");
    subject.clear("bytes").await;
}

pub(super) async fn output_can_be_read_while_it_grows(subject: &Subject) {
    subject
        .start("growing", "echo ready; read -t 300 < <(sleep 300)")
        .await;
    let seen = subject.ready("growing").await;
    assert_eq!(
        (seen.state, seen.stdout.as_str()),
        (ExecutionState::Running, "ready\n")
    );
    subject.clear("growing").await;
}

pub(super) async fn fifty_at_once(subject: &Subject) {
    let ids: Vec<String> = (0..50).map(|number| format!("parallel-{number}")).collect();
    let runs = ids.iter().map(|id| async move {
        let end = subject.run(id, &format!("echo {id}; exit 0")).await;
        assert_eq!(
            (end.state, end.stdout),
            (ExecutionState::Succeeded, format!("{id}\n"))
        );
        subject.clear(id).await;
    });
    join_all(runs).await;
}

/// Optional for a server: one that answers `Unimplemented` passes.
pub(super) async fn events_tell_the_end(subject: &Subject) {
    let ids = ["told".to_owned()];
    let mut events = match subject.client.watch(&ids).await {
        Ok(events) => events,
        Err(error) => {
            assert!(error.is_unimplemented(), "{error}");
            return;
        }
    };
    subject.start("untold", "exit 0").await;
    subject.start("told", "echo out; exit 9").await;
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
    assert_eq!(subject.read("told").await.exit_code, 9);
    subject.end("untold").await;
    subject.clear("told").await;
    subject.clear("untold").await;
}

pub(super) async fn health_is_good(subject: &Subject) {
    let health = subject.client.health().await;
    assert!(health.is_ok_and(|health| health.healthy));
}
