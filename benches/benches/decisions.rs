//! Pure decisions: a workflow turn at the limits of size, and one scheduling cycle.
//!
//! `cargo bench -p kruntimes-benches --bench decisions`. Goals: a turn of 64
//! jobs × 128 steps below 10 ms (W-197); 1,000 Runs on 200 Pods below a second
//! (S-176), that is a cycle below 1 ms.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use kruntimes_core::api::RunPhase;
use kruntimes_sched::batch::{Candidate, Fleet, Limits, plan_batch};
use kruntimes_sched::plugins;
use kruntimes_sched::testing::{NAMESPACE, SnapshotBuilder, a_pod, a_run, a_snapshot, at};
use kruntimes_workflow::plan::{Action, Child, Outcome, State, calculate, merge};
use kruntimes_workflow::testing::{JobBuilder, a_job};

const JOBS: usize = 64;
const STEPS: usize = 128;

/// Carries one turn out: what is started has succeeded by the next look.
fn carry_out(state: &mut State) {
    let step = calculate(state);
    let mut outcomes = Vec::new();
    match step.action {
        Action::Initialize(frozen) => state.snapshot = frozen.snapshot,
        Action::StartRunnableSteps(starts) => {
            for start in starts.steps {
                outcomes.push(Outcome::Started {
                    key: start.key.clone(),
                    name: start.name.clone(),
                });
                state.children.push(Child {
                    name: start.name,
                    job: start.key.job,
                    step: start.key.step,
                    phase: RunPhase::Succeeded,
                    ..Child::default()
                });
            }
        }
        _ => {}
    }
    state.status = merge(step.desired, &outcomes);
}

/// A WorkflowRun of the largest size, half way through.
fn half_way() -> State {
    let add = |job: JobBuilder, step: usize| job.step(&format!("step-{step}"), "true");
    let jobs = (0..JOBS).map(|job| {
        let steps = (0..STEPS).fold(a_job(), add);
        (format!("job-{job:02}"), steps.build())
    });
    let mut state = State {
        namespace: "ns".into(),
        name: "wide".into(),
        uid: "uid".into(),
        generation: Some(1),
        ..State::default()
    };
    state.spec.jobs = jobs.collect();
    for _ in 0..=STEPS / 2 {
        carry_out(&mut state);
    }
    assert_eq!(state.children.len(), JOBS * STEPS / 2, "half of it is done");
    state
}

fn workflow_turn(criterion: &mut Criterion) {
    let state = half_way();
    criterion.bench_function("workflow turn, 64 jobs x 128 steps", |bencher| {
        bencher.iter(|| calculate(black_box(&state)));
    });
}

fn scheduling_cycle(criterion: &mut Criterion) {
    let pods = (0..200).map(|pod| a_pod(&format!("pod-{pod:03}")).offers("runs", 8));
    let pool = pods.fold(a_snapshot(), SnapshotBuilder::pod);
    let snapshot = pool.build();
    let profile = plugins::standard()
        .explain(false)
        .build()
        .expect("the default plugins form a profile");
    let run = a_run("run").build();
    criterion.bench_function("scheduling cycle, 200 pods", |bencher| {
        bencher
            .iter(|| kruntimes_sched::calculate(black_box(&snapshot), black_box(&run), &profile));
    });
}

/// S-176: below a second; half of the Runs have a required and a preferred term.
fn batch_plan(criterion: &mut Criterion) {
    let pods = (0..200).map(|pod| a_pod(&format!("pod-{pod:03}")).offers("runs", 8).build());
    let fleet = Fleet::new(at(0), kruntimes_sched::Book::new()).pool(NAMESPACE, "python", pods);
    let candidates: Vec<Candidate> = (0..1000)
        .map(|n| {
            let run = a_run(&format!("run-{n:04}")).label("team", &format!("t{}", n % 50));
            if n % 2 == 0 {
                return Candidate::new(run.build());
            }
            let team = format!("t{}", n % 50);
            let run = run.near("team", &team).likes(7, "team", &team);
            Candidate::new(run.build())
        })
        .collect();
    let profile = plugins::standard()
        .explain(false)
        .build()
        .expect("the default plugins form a profile");
    let limits = Limits {
        runs: 1000,
        ..Limits::default()
    };
    criterion.bench_function("batch plan, 1,000 runs on 200 pods", |bencher| {
        bencher.iter(|| plan_batch(&fleet, candidates.clone(), &profile, limits));
    });
}

criterion_group!(decisions, workflow_turn, scheduling_cycle, batch_plan);
criterion_main!(decisions);
