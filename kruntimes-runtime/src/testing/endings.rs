//! Cases about ends: natural, forced, and both at once.

use std::time::Duration;

use futures::future::join;
use kruntimes_proto::{ClientError, ExecuteRequest, ExecutionState};
use tokio::time::Instant;

use super::Subject;
use crate::adapter::Manners;

/// Ends that nothing delays are seen within this on a slow machine.
const PROMPT: Duration = Duration::from_secs(1);

/// Rounds of the race between a cancel and a natural end.
const RACES: u32 = 300;

/// Seconds in which a program of any language is up, on a machine that is merely slow.
const STARTUP: u64 = 4;

fn limited(request: ExecuteRequest, seconds: u64) -> ExecuteRequest {
    ExecuteRequest {
        timeout: Some(Duration::from_secs(seconds)),
        ..request
    }
}

pub(super) async fn a_time_limit_ends_the_program(subject: &Subject) {
    let script = "echo $$ > leader; sleep 300 & echo $! > child; echo ready; wait";
    subject
        .execute(limited(subject.request("limit", script), STARTUP))
        .await;
    let end = subject.end("limit").await;
    assert_eq!((end.state, end.exit_code), (ExecutionState::Failed, -1));
    assert_eq!(
        (end.error_message.as_str(), end.stdout.as_str()),
        ("timeout", "ready\n")
    );
    subject.gone("limit", "leader");
    subject.gone("limit", "child");
    subject.clear("limit").await;
}

pub(super) async fn cancel_ends_the_program_and_may_be_repeated(subject: &Subject) {
    subject
        .start("cancel", "echo $$ > leader; echo ready; sleep 300")
        .await;
    subject.ready("cancel").await;
    assert_eq!(subject.client.cancel("cancel").await, Ok(()));
    subject.gone("cancel", "leader");
    let again = subject.client.cancel("cancel").await;
    match (subject.manners, subject.client.status("cancel").await) {
        // N-229
        (Manners::Replace, status) => {
            assert!(status.is_err_and(|error| error.is_not_found()));
            assert!(again.is_err_and(|error| error.is_not_found()));
        }
        (Manners::Keep, status) => {
            let end = status
                .ok()
                .map(|end| (end.state, end.exit_code, end.error_message));
            assert_eq!(
                end,
                Some((ExecutionState::Failed, -1, "cancelled".to_owned()))
            );
            assert_eq!(again, Ok(()));
        }
    }
    subject.clear("cancel").await;
}

pub(super) async fn cancels_may_meet(subject: &Subject) {
    subject
        .start("meet", "echo $$ > leader; echo ready; sleep 300")
        .await;
    subject.ready("meet").await;
    let cancel = || subject.client.cancel("meet");
    let (first, second) = join(cancel(), cancel()).await;
    for answer in [first, second] {
        let harmless = answer
            .as_ref()
            .map_or_else(ClientError::is_not_found, |()| true);
        assert!(harmless, "{answer:?}");
    }
    subject.gone("meet", "leader");
    subject.clear("meet").await;
}

pub(super) async fn a_slow_cancel_delays_nobody_else(subject: &Subject) {
    // The cancel needs the whole grace, whatever it is; everything else is done before it returns.
    subject
        .start(
            "deaf",
            "trap '' TERM; echo ready; while :; do sleep 1; done",
        )
        .await;
    subject.ready("deaf").await;
    let others = async {
        let end = subject.run("quick", "exit 0").await;
        assert_eq!(end.state, ExecutionState::Succeeded);
        assert_eq!(subject.read("deaf").await.state, ExecutionState::Running);
        assert!(subject.client.health().await.is_ok());
        Instant::now()
    };
    let cancel = async {
        assert_eq!(subject.client.cancel("deaf").await, Ok(()));
        Instant::now()
    };
    let (cancelled, done) = join(cancel, others).await;
    assert!(done < cancelled, "the others waited for the cancel");
    subject.clear("quick").await;
    subject.clear("deaf").await;
}

pub(super) async fn a_repeated_execute_never_leaves_two_programs(subject: &Subject) {
    let script = "echo $$ > leader.$N; echo ready $N; sleep 300";
    let request = |n: &str| {
        let mut request = subject.request("twice", script);
        request.env.insert("N".to_owned(), n.to_owned());
        request
    };
    subject.execute(request("1")).await;
    subject.ready("twice").await;
    let (second, third) = join(
        subject.client.execute(request("2")),
        subject.client.execute(request("3")),
    )
    .await;
    match subject.manners {
        Manners::Replace => {
            assert_eq!((second, third), (Ok(()), Ok(())));
            let now = subject.ready("twice").await.stdout;
            subject.gone("twice", "leader.1");
            assert!(["ready 2\n", "ready 3\n"].contains(&now.as_str()), "{now}");
        }
        Manners::Keep => {
            assert!(
                matches!(second, Err(ClientError::AlreadyExists { .. })),
                "{second:?}"
            );
            assert!(
                matches!(third, Err(ClientError::AlreadyExists { .. })),
                "{third:?}"
            );
            assert_eq!(subject.ready("twice").await.stdout, "ready 1\n");
        }
    }
    subject.clear("twice").await;
    for leader in ["leader.1", "leader.2", "leader.3"] {
        if subject.directory("twice").join(leader).exists() {
            subject.gone("twice", leader);
        }
    }
}

pub(super) async fn an_ended_id_is_not_answered_with_its_old_result(subject: &Subject) {
    subject.run("again", "echo old; exit 1").await;
    let answer = subject
        .client
        .execute(subject.request("again", "echo new; exit 2"))
        .await;
    match subject.manners {
        Manners::Replace => {
            assert_eq!(answer, Ok(()));
            let end = subject.end("again").await;
            assert_eq!((end.exit_code, end.stdout.as_str()), (2, "new\n"));
        }
        Manners::Keep => assert!(
            matches!(answer, Err(ClientError::AlreadyExists { .. })),
            "{answer:?}"
        ),
    }
    subject.clear("again").await;
}

/// Case 052.
pub(super) async fn a_background_child_delays_nothing(subject: &Subject) {
    let start = Instant::now();
    let end = subject
        .run(
            "background",
            "sleep 300 & echo $! > child; echo done; exit 0",
        )
        .await;
    assert_eq!(
        (end.state, end.stdout.as_str()),
        (ExecutionState::Succeeded, "done\n")
    );
    assert!(start.elapsed() < PROMPT, "{:?}", start.elapsed());
    subject.gone("background", "child");
    subject.clear("background").await;
}

/// Case 053.
pub(super) async fn the_whole_tree_ends(subject: &Subject) {
    let script = "bash -c 'bash -c \"echo \\$\\$ > deep; sleep 300; :\" & echo $! > mid; wait' & echo $! > top
        until [ -s deep ] && [ -s mid ]; do sleep 0.01; done; echo ready; wait";
    subject.start("tree", script).await;
    subject.ready("tree").await;
    subject.clear("tree").await;
    for file in ["top", "mid", "deep"] {
        subject.gone("tree", file);
    }
}

/// N-221, while the parent lives.
pub(super) async fn a_child_of_another_session_ends(subject: &Subject) {
    let script = "setsid sleep 300 > /dev/null 2>&1 & echo $! > child; echo ready; sleep 300";
    subject.start("session", script).await;
    subject.ready("session").await;
    subject.clear("session").await;
    subject.gone("session", "child");
}

/// N-221, after the parents are gone: found by its mark alone.
pub(super) async fn an_orphan_of_another_session_ends(subject: &Subject) {
    let script = "(setsid bash -c 'echo $$ > orphan; exec sleep 300' > /dev/null 2>&1 &)
        until [ -s orphan ]; do sleep 0.01; done; exit 0";
    let end = subject.run("orphan", script).await;
    assert_eq!(end.state, ExecutionState::Succeeded);
    subject.gone("orphan", "orphan");
    subject.clear("orphan").await;
}

pub(super) async fn a_deaf_child_is_killed(subject: &Subject) {
    let script = "trap '' TERM; bash -c 'echo $$ > child; while :; do sleep 1; done' &
        echo $$ > leader; until [ -s child ]; do sleep 0.01; done; echo ready; wait";
    subject.start("stubborn", script).await;
    subject.ready("stubborn").await;
    subject.clear("stubborn").await;
    subject.gone("stubborn", "leader");
    subject.gone("stubborn", "child");
}

/// Case 055: the signal reaches the whole group, and there is time to act on it.
pub(super) async fn the_program_may_clean_up(subject: &Subject) {
    let script =
        "bash -c 'trap \"echo bye > bye.txt; exit\" TERM; echo ready; sleep 300 & wait' ; exit 0";
    subject.start("bye", script).await;
    subject.ready("bye").await;
    subject.clear("bye").await;
    assert!(subject.directory("bye").join("bye.txt").exists());
}

pub(super) async fn a_signal_is_named(subject: &Subject) {
    let end = subject.run("signal", "kill -SEGV $$").await;
    assert_eq!((end.state, end.exit_code), (ExecutionState::Failed, -1));
    assert!(
        end.error_message.contains("SIGSEGV"),
        "{}",
        end.error_message
    );
    subject.clear("signal").await;
}

/// Case 056: a cancel around the moment of a natural end.
pub(super) async fn cancel_meets_the_natural_end(subject: &Subject) {
    for round in 0..RACES {
        let id = format!("race-{}", round % 4);
        subject.start(&id, "echo $$ > leader; exit 0").await;
        // Spreads the cancels over the life of the program.
        for _ in 0..round % 40 {
            tokio::task::yield_now().await;
        }
        if round % 3 == 0 {
            assert!(subject.client.status(&id).await.is_ok());
        }
        assert_eq!(subject.client.cancel(&id).await, Ok(()), "round {round}");
        if let (Manners::Keep, Ok(end)) = (subject.manners, subject.client.status(&id).await) {
            let well = end.state == ExecutionState::Succeeded && end.exit_code == 0;
            let stopped = end.state == ExecutionState::Failed && end.exit_code == -1;
            assert!(well || stopped, "round {round}: {end:?}");
        }
        subject.clear(&id).await;
        if subject.directory(&id).join("leader").exists() {
            let _ = std::fs::remove_file(subject.directory(&id).join("leader"));
        }
    }
}
