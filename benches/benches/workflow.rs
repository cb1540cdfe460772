//! The workflow engine alone: graphs of any size, and what one transition costs.
//!
//! `cargo bench -p kruntimes-benches --bench workflow`. Goals (W2): a graph of
//! 100,000 jobs is ordered within 100 ms and the time grows with the edges; a
//! turn of 64 jobs × 128 steps takes less than 2 ms.

use std::collections::BTreeMap;
use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use kruntimes_core::api::{Job, RunPhase, WorkflowRunPhase};
use kruntimes_workflow::driver::{Closure, Driver, End, MemoryStore, Shelf};
use kruntimes_workflow::graph;
use kruntimes_workflow::plan::{Action, Child, Outcome, State, calculate, merge};
use kruntimes_workflow::testing::{JobBuilder, a_job};

/// A graph in which each job needs up to three earlier ones.
fn graph_of(jobs: usize) -> BTreeMap<String, Job> {
    let name = |job: usize| format!("job-{job:06}");
    let one = |job: usize| {
        let needs = [job / 2, job / 3, job.saturating_sub(7)];
        let needs = needs.into_iter().filter(|need| *need < job).map(name);
        let job_ = Job {
            needs: needs.collect(),
            ..Job::default()
        };
        (name(job), job_)
    };
    (0..jobs).map(one).collect()
}

fn order(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("graph");
    group.sample_size(10);
    for jobs in [1_000usize, 10_000, 100_000] {
        let graph = graph_of(jobs);
        group.throughput(Throughput::Elements(jobs as u64));
        group.bench_with_input(
            BenchmarkId::new("layers", jobs),
            &graph,
            |bencher, graph| {
                bencher.iter(|| graph::layers(black_box(graph)).map(|layers| layers.len()));
            },
        );
    }
    group.finish();
}

fn wide(jobs: usize, steps: usize) -> BTreeMap<String, Job> {
    let add = |job: JobBuilder, step: usize| job.step(&format!("step-{step}"), "true");
    let job = |job: usize| {
        (
            format!("job-{job:02}"),
            (0..steps).fold(a_job(), add).build(),
        )
    };
    (0..jobs).map(job).collect()
}

/// Runs a whole definition; every look finds everything that was started at its end.
fn to_the_end(jobs: &BTreeMap<String, Job>) -> usize {
    let mut state = State {
        namespace: "ns".into(),
        name: "wide".into(),
        uid: "uid".into(),
        ..State::default()
    };
    state.spec.jobs.clone_from(jobs);
    let mut transitions = 0;
    while !state.status.phase.is_terminal() {
        let step = calculate(&state);
        let mut outcomes = Vec::new();
        match step.action {
            Action::Initialize(frozen) => state.snapshot = frozen.snapshot,
            Action::StartRunnableSteps(targets) => {
                for start in targets.steps {
                    let (key, name) = (start.key.clone(), start.name.clone());
                    outcomes.push(Outcome::Started { key, name });
                    state.children.push(Child {
                        name: start.name,
                        job: start.key.job,
                        step: start.key.step,
                        phase: RunPhase::Succeeded,
                        workspace: start.spec.workspace.map(|used| used.name),
                        ..Child::default()
                    });
                    if let Some(workspace) = start.workspace {
                        state.workspaces.push(kruntimes_workflow::plan::Workspace {
                            name: workspace.name,
                            ..Default::default()
                        });
                    }
                    // It starts and it ends.
                    transitions += 2;
                }
            }
            _ => {}
        }
        state.status = merge(step.desired, &outcomes);
    }
    assert_eq!(state.status.phase, WorkflowRunPhase::Succeeded);
    transitions
}

fn transitions(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("transitions");
    group.sample_size(10);
    for (jobs, steps) in [(64, 8), (64, 128)] {
        let definition = wide(jobs, steps);
        group.throughput(Throughput::Elements((jobs * steps * 2) as u64));
        let id = BenchmarkId::new("turns", format!("{jobs}x{steps}"));
        group.bench_with_input(id, &definition, |bencher, definition| {
            bencher.iter(|| to_the_end(black_box(definition)));
        });
    }
    group.finish();
}

fn driver(criterion: &mut Criterion) {
    let definition = wide(16, 8);
    criterion.bench_function(
        "driver, 16 jobs x 8 steps, state stored after every step",
        |bencher| {
            bencher.iter(|| {
                let steps = Closure::new(|_| End::succeeded([("k", "v")]));
                let mut driver = Driver::new(steps, Shelf::default(), MemoryStore::default());
                driver
                    .submit("demo", definition.clone())
                    .expect("the jobs are sound");
                driver.run("demo").expect("nothing fails")
            });
        },
    );
}

criterion_group!(benches, order, transitions, driver);
criterion_main!(benches);
