//! The engine on this machine, with real processes.

use futures::StreamExt as _;
use kruntimes_embedded::{Embedded, Ending, Options, Progress, StepPath, Submission, Target};
use serde_json::{Value, json};

pub(crate) fn run(name: &str, spec: &Value) -> Value {
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

pub(crate) async fn submit(engine: &Embedded, object: Value) -> Target {
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
pub(crate) async fn finish(engine: &Embedded, target: &Target) -> (Vec<String>, Ending) {
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

pub(crate) fn workflow(name: &str, jobs: &Value) -> Value {
    json!({
        "apiVersion": "kruntimes.io/v1alpha1",
        "kind": "WorkflowRun",
        "metadata": {"name": name},
        "spec": {"jobs": jobs},
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn outputs_travel_from_job_to_job() {
    let engine = Embedded::start(Options::default()).await.unwrap();
    let jobs = json!({
        "build": {
            "runs-on": "bash",
            "outputs": {"tag": "${{ steps.pack.outputs.tag }}"},
            "steps": [
                {"name": "prepare", "run": "echo preparing"},
                {"name": "pack", "run": "echo tag=v41 >> \"$KRUNTIME_OUTPUTS\""},
            ],
        },
        "announce": {
            "runs-on": "bash",
            "needs": ["build"],
            "steps": [{"name": "say", "env": {"TAG": "${{ jobs.build.outputs.tag }}"}, "run": "echo built $TAG"}],
        },
    });
    let target = submit(&engine, workflow("release", &jobs)).await;
    let (lines, ending) = finish(&engine, &target).await;
    assert_eq!(ending.phase, "Succeeded", "{ending:?}");
    assert_eq!(lines, ["preparing", "built v41"]);
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failing_step_skips_its_dependents_and_shows_its_end() {
    let engine = Embedded::start(Options::default()).await.unwrap();
    let step = |run: &str| json!([{"name": "step", "run": run}]);
    let jobs = json!({
        "bad": {"runs-on": "bash", "steps": step("echo reason >&2; exit 17")},
        "after": {"runs-on": "bash", "needs": ["bad"], "steps": step("true")},
        "free": {"runs-on": "bash", "steps": step("true")},
    });
    let target = submit(&engine, workflow("broken", &jobs)).await;
    let (_, ending) = finish(&engine, &target).await;
    assert_eq!(ending.phase, "Failed");
    let phase = |job: &str| ending.object["status"]["jobs"][job]["phase"].clone();
    assert_eq!(
        [phase("bad"), phase("after"), phase("free")],
        ["Failed", "Skipped", "Succeeded"]
    );
    assert_eq!(ending.failures.len(), 1, "{ending:?}");
    assert_eq!(ending.failures[0].exit_code, Some(17));
    assert_eq!(ending.failures[0].stderr_tail, ["reason"]);
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_041_cancelled_means_that_no_process_is_left() {
    let engine = Embedded::start(Options::default()).await.unwrap();
    let script = "echo $$; trap '' TERM; sleep 300 & wait; sleep 300";
    let jobs = json!({"long": {"runs-on": "bash", "steps": [{"name": "sleep", "run": script}]}});
    let target = submit(&engine, workflow("long", &jobs)).await;
    let mut progress = engine.follow(&target);
    let pid = loop {
        match progress.next().await.unwrap() {
            Progress::Output { line, .. } => break line,
            Progress::Transition { .. } => {}
            Progress::Ended(ending) => panic!("it ended early: {ending:?}"),
        }
    };
    engine.cancel(&target).await.unwrap();
    engine.cancel(&target).await.unwrap();
    let process = std::path::PathBuf::from(format!("/proc/{pid}"));
    let mut phases = Vec::new();
    loop {
        match progress.next().await.unwrap() {
            Progress::Transition { path, to, .. } if path == StepPath::default() => {
                assert!(to != "Cancelled" || !process.exists());
                phases.push(to);
            }
            Progress::Transition { .. } | Progress::Output { .. } => {}
            Progress::Ended(ending) => break assert_eq!(ending.phase, "Cancelled"),
        }
    }
    assert_eq!(phases.last(), Some(&"Cancelled"));
    engine.shutdown().await;
}

/// A value with quotes and dollar signs reaches a script as data.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_016_case_017_values_in_variables_are_exact_and_never_executed() {
    let engine = Embedded::start(Options::default()).await.unwrap();
    let title = r#""; touch owned; echo "`touch owned`$(touch owned)'"#;
    let produce = r#"printf 'title=%s\n' "$TEXT" >> "$KRUNTIME_OUTPUTS""#;
    let show = r#"printf '%s\n' "$TITLE" "$PRICE" "$OPEN"; test -e owned || echo safe"#;
    let jobs = json!({"j": {"runs-on": "bash", "steps": [
        {"name": "make", "run": produce, "env": {"TEXT": title}},
        {"name": "show", "run": show, "env": {
            "TITLE": "${{ steps.make.outputs.title }}",
            "PRICE": "a$b$$c$$$d",
            "OPEN": "$${{ '${{' }} not.ours }}",
        }},
    ]}});
    let target = submit(&engine, workflow("exact", &jobs)).await;
    let (lines, ending) = finish(&engine, &target).await;
    assert_eq!(ending.phase, "Succeeded", "{ending:?}");
    assert_eq!(lines, [title, "a$b$$c$$$d", "$${{ not.ours }}", "safe"]);
    engine.shutdown().await;
}
