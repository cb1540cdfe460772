//! The engine on this machine, with real processes.

use futures::StreamExt as _;
use kruntimes_embedded::{Embedded, Ending, Options, Progress, Submission, Target};
use serde_json::{Value, json};

fn run(name: &str, spec: &Value) -> Value {
    let mut spec = spec.clone();
    spec["runtime"] = json!("bash");
    spec["mode"] = json!({"task": {}});
    json!({
        "apiVersion": "kruntimes.io/v1alpha1",
        "kind": "Run",
        "metadata": {"name": name},
        "spec": spec,
    })
}

async fn submit(engine: &Embedded, object: Value) -> Target {
    let submission = Submission {
        targets: vec![object],
        ..Submission::default()
    };
    engine
        .submit(submission)
        .await
        .expect("the object is valid")
        .remove(0)
}

/// Follows a target to its end; returns its output lines and how it ended.
async fn finish(engine: &Embedded, target: &Target) -> (Vec<String>, Ending) {
    let mut progress = engine.follow(target);
    let mut lines = Vec::new();
    loop {
        match progress
            .next()
            .await
            .expect("the end comes before the stream ends")
        {
            Progress::Output { line, .. } => lines.push(line),
            Progress::Ended(ending) => return (lines, *ending),
            Progress::Transition { .. } => {}
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_is_executed_through_every_room() {
    let engine = Embedded::start(Options::default()).await.unwrap();
    let script = "echo out; echo err >&2; echo key=value >> \"$KRUNTIME_OUTPUTS\"";
    let target = submit(
        &engine,
        run("hello", &json!({"source": {"inline": script}})),
    )
    .await;
    let (mut lines, ending) = finish(&engine, &target).await;
    lines.sort();
    assert_eq!(ending.phase, "Succeeded", "{ending:?}");
    assert_eq!(lines, ["err", "out"]);
    assert_eq!(ending.object["status"]["outputs"], json!({"key": "value"}));
    engine.shutdown().await;
}
