//! Overhead of one step: 20 parallel jobs of 5 steps of `true`, against the floor of `bash -c true`.
//!
//! `cargo bench -p kruntimes-benches --bench steps` prints wall time, the
//! median gap from the end of a step to the start of the next one as seen in
//! the status, and the floor taken in the same process, interleaved.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

use std::collections::BTreeMap;
use std::process::Command;
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use kruntimes_embedded::{Embedded, Options, Progress, StepPath, Submission};
use serde_json::{Map, Value, json};

const ROUNDS: usize = 5;
const JOBS: usize = 20;
const STEPS: usize = 5;

fn workflow(name: &str, jobs: usize) -> Value {
    let steps: Vec<Value> = (0..STEPS)
        .map(|step| json!({"name": format!("step-{step}"), "run": "true"}))
        .collect();
    let jobs: Map<String, Value> = (0..jobs)
        .map(|job| {
            (
                format!("job-{job:02}"),
                json!({"runs-on": "bash", "steps": steps}),
            )
        })
        .collect();
    json!({
        "apiVersion": "kruntimes.io/v1alpha1",
        "kind": "WorkflowRun",
        "metadata": {"name": name},
        "spec": {"jobs": jobs},
    })
}

fn floor() -> Duration {
    let started = Instant::now();
    for _ in 0..50 {
        let ended = Command::new("bash").args(["-c", "true"]).status();
        assert!(ended.is_ok_and(|status| status.success()), "bash runs");
    }
    started.elapsed() / 50
}

fn median(mut values: Vec<Duration>) -> Duration {
    values.sort();
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// Wall time of one workflow, and the gaps between the steps of each job.
async fn round(engine: &Embedded, name: &str, jobs: usize) -> (Duration, Vec<Duration>) {
    let submission = Submission {
        targets: vec![workflow(name, jobs)],
        ..Submission::default()
    };
    let started = Instant::now();
    let targets = engine
        .submit(submission)
        .await
        .expect("the workflow is valid");
    let mut progress = engine.follow(&targets[0]);
    let mut ends: BTreeMap<String, Instant> = BTreeMap::new();
    let mut gaps = Vec::new();
    let mut wall = Duration::ZERO;
    while let Some(news) = progress.next().await {
        match news {
            Progress::Transition {
                path:
                    StepPath {
                        job: Some(job),
                        step: Some(_),
                        ..
                    },
                to,
                ..
            } => match to {
                "Succeeded" => {
                    ends.insert(job, Instant::now());
                }
                "Running" => gaps.extend(ends.remove(&job).map(|end| end.elapsed())),
                _ => {}
            },
            Progress::Transition {
                path,
                to: "Succeeded",
                ..
            } if path == StepPath::default() => {
                wall = started.elapsed();
            }
            Progress::Transition { .. } | Progress::Output { .. } => {}
            Progress::Ended(ending) => assert_eq!(ending.phase, "Succeeded"),
        }
    }
    (wall, gaps)
}

fn main() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime can be built");
    runtime.block_on(async {
        let engine = Embedded::start(Options::default())
            .await
            .expect("the engine starts");
        let (mut floors, mut walls, mut chains) = (Vec::new(), Vec::new(), Vec::new());
        let mut gaps = Vec::new();
        for number in 0..ROUNDS {
            floors.push(floor());
            let (wall, wide) = round(&engine, &format!("wide-{number}"), JOBS).await;
            walls.push(wall);
            gaps.extend(wide);
            let (wall, _) = round(&engine, &format!("chain-{number}"), 1).await;
            chains.push(wall / u32::try_from(STEPS).unwrap_or(1));
            floors.push(floor());
        }
        let steps = u32::try_from(JOBS * STEPS).unwrap_or(1);
        println!("floor, bash -c true:            {:?}", median(floors));
        println!(
            "wall, {JOBS} jobs x {STEPS} steps:         {:?}",
            median(walls.clone())
        );
        println!(
            "wall per step, wide:            {:?}",
            median(walls) / steps
        );
        println!("wall per step, chain of {STEPS}:      {:?}", median(chains));
        println!("median gap end -> next running: {:?}", median(gaps));
        engine.shutdown().await;
    });
}
