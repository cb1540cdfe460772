//! Following a target: every line once, and an end in every case.

use std::time::Duration;

use futures::StreamExt as _;
use kruntimes_core::crd::{Run, WorkflowRun};
use kruntimes_embedded::{
    DELETED, Embedded, Ending, Following, Options, OutputStream, Progress, Submission,
};
use kube::Api;
use kube::api::DeleteParams;
use serde_json::json;

use crate::local::{finish, run, submit, workflow};

fn runs(engine: &Embedded) -> Api<Run> {
    Api::namespaced(engine.client(), "default")
}

/// Waits for the end, without any more output.
async fn ending(progress: &mut Following) -> Ending {
    let wait = async {
        loop {
            match progress.next().await.expect("an end") {
                Progress::Ended(ending) => break *ending,
                Progress::Output { line, .. } => unreachable!("output of something else: {line}"),
                Progress::Transition { .. } => {}
            }
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(60), wait).await;
    waited.expect("the end is told")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_136_what_has_ended_before_is_told_at_once() {
    let engine = Embedded::start(Options::default()).await.unwrap();
    let target = submit(
        &engine,
        run("quick", &json!({"source": {"inline": "exit 3"}})),
    )
    .await;
    let (_, first) = finish(&engine, &target).await;
    let (lines, again) = finish(&engine, &target).await;
    assert_eq!((first.phase, again.phase), ("Failed", "Failed"));
    assert_eq!(lines, [""; 0]);
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_136_a_deletion_is_an_end_of_its_own() {
    let engine = Embedded::start(Options::default()).await.unwrap();
    let script = json!({"source": {"inline": "echo up; sleep 300"}});
    let target = submit(&engine, run("r", &script)).await;
    let mut progress = engine.follow(&target);
    while !matches!(progress.next().await, Some(Progress::Output { .. })) {}
    let params = DeleteParams::default();
    runs(&engine).delete("r", &params).await.unwrap();
    // Another Run takes the name; it is none of the follower's business.
    let next = submit(
        &engine,
        run("r", &json!({"source": {"inline": "echo next"}})),
    )
    .await;
    assert_eq!(ending(&mut progress).await.phase, DELETED);
    let (_, after) = finish(&engine, &next).await;
    assert_eq!(after.phase, "Succeeded");
    runs(&engine).delete("r", &params).await.unwrap();
    // Nothing of that name is left to be seen.
    assert_eq!(ending(&mut engine.follow(&target)).await.phase, DELETED);
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_136_the_deletion_of_a_workflow_run_is_one_too() {
    let engine = Embedded::start(Options::default()).await.unwrap();
    let steps = json!([{"name": "s", "run": "echo up; sleep 300"}]);
    let jobs = json!({"j": {"runs-on": "bash", "steps": steps}});
    let target = submit(&engine, workflow("w", &jobs)).await;
    let mut progress = engine.follow(&target);
    while !matches!(progress.next().await, Some(Progress::Output { .. })) {}
    let api: Api<WorkflowRun> = Api::namespaced(engine.client(), "default");
    api.delete("w", &DeleteParams::default()).await.unwrap();
    assert_eq!(ending(&mut progress).await.phase, DELETED);
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_137_every_line_comes_once_in_order_and_whole() {
    const LINES: usize = 500;
    let engine = Embedded::start(Options::default()).await.unwrap();
    let script = format!(
        "for i in $(seq {LINES}); do echo \"\u{20ac}\u{1f600} $i\"; echo \"\u{fc} $i\" >&2; done"
    );
    let target = submit(
        &engine,
        run("lines", &json!({"source": {"inline": script}})),
    )
    .await;
    let mut progress = engine.follow(&target);
    let (mut out, mut err) = (Vec::new(), Vec::new());
    loop {
        match progress.next().await.expect("an end") {
            Progress::Output { stream, line, .. } => match stream {
                OutputStream::Stdout => out.push(line),
                OutputStream::Stderr => err.push(line),
            },
            Progress::Transition { .. } => {}
            Progress::Ended(ending) => break assert_eq!(ending.phase, "Succeeded"),
        }
    }
    let numbered =
        |head: &str| -> Vec<String> { (1..=LINES).map(|n| format!("{head} {n}")).collect() };
    assert_eq!(out, numbered("\u{20ac}\u{1f600}"));
    assert_eq!(err, numbered("\u{fc}"));
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_target_says_before_anybody_listens_is_not_lost() {
    let engine = Embedded::start(Options::default()).await.unwrap();
    let submission = Submission {
        targets: vec![run("early", &json!({"source": {"inline": "echo early"}}))],
        ..Submission::default()
    };
    let mut followed = engine.submit_followed(submission).await.unwrap();
    let (target, mut progress) = followed.remove(0);
    // Only now does anybody read, and the Run is over.
    finish(&engine, &target).await;
    let mut lines = Vec::new();
    while let Some(news) = progress.next().await {
        if let Progress::Output { line, .. } = news {
            lines.push(line);
        }
    }
    assert_eq!(lines, ["early"]);
    engine.shutdown().await;
}
