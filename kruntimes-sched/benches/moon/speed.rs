//! S1 and S2: decisions of a second, and what affinity costs.

use std::hint::black_box;
use std::sync::Arc;

use kruntimes_sched::batch::{Candidate, Fleet, Limits, plan_batch};
use kruntimes_sched::testing::{NAMESPACE, a_pod, a_run};
use kruntimes_sched::{Book, Run, calculate};

use crate::clock::on_core;
use crate::fleet::{Course, NOW, choosy, index, like_run, place, profile, run, runs};
use crate::line::{Line, Reach};

const PODS: usize = 5_000;
const RUNS: usize = 50_000;
const ROUNDS: usize = 7;
/// Scans of a round; each takes as long as thousands of decisions.
const SCANS: usize = 10;

fn course(runs: &[Arc<Run>]) -> Course {
    let course = place(&mut index(PODS), &profile(), runs);
    assert_eq!(course.placed, RUNS, "every run finds a place");
    course
}

/// Measures decisions with their reserve, one after another on one core, and a scan as the floor.
pub(crate) fn decisions() -> Vec<Line> {
    let (wave, plain, profile) = (runs(0..RUNS, like_run), runs(0..RUNS, run), profile());
    let (mut rates, mut tails, mut scans) = (Vec::new(), Vec::new(), Vec::new());
    let mut waves = Vec::new();
    for _ in 0..ROUNDS {
        waves.push(course(&wave).rate());
        let course = course(&plain);
        rates.push(course.rate());
        tails.push(course.p99());
        let index = index(PODS);
        let start = on_core();
        for run in &plain[..SCANS] {
            let snapshot = index.snapshot(run, NOW);
            black_box(calculate(&snapshot, run, &profile));
        }
        let scan = (on_core() - start) / SCANS as f64;
        scans.push(scan * course.rate());
    }
    vec![
        Line {
            goal: "S1",
            what: "decisions with reserve, 50,000 like Runs into 5,000 Pods".into(),
            rounds: waves,
            unit: "1/s",
            reach: Reach::AtLeast(200_000.0),
        },
        Line {
            goal: "S1",
            what: "the same, Runs of five sizes in turn".into(),
            rounds: rates,
            unit: "1/s",
            reach: Reach::AtLeast(200_000.0),
        },
        Line {
            goal: "S1",
            what: "five sizes, what 99 of 100 decisions take at most".into(),
            rounds: tails,
            unit: "µs",
            reach: Reach::AtMost(20.0),
        },
        Line {
            goal: "S1",
            what: "five sizes, a scan against a decision".into(),
            rounds: scans,
            unit: "x",
            reach: Reach::Nothing,
        },
    ]
}

/// Runs and Pods of a batch.
const BATCH: (usize, usize) = (1_000, 200);

/// Measures the plan of a batch, half of whose Runs have a required and a preferred term (S-176).
pub(crate) fn batch() -> Vec<Line> {
    let (runs, pods) = BATCH;
    let pods = (0..pods).map(|pod| a_pod(&format!("pod-{pod:03}")).offers("runs", 8).build());
    let fleet = Fleet::new(NOW, Book::new()).pool(NAMESPACE, "python", pods);
    let candidates: Vec<Candidate> = (0..runs)
        .map(|number| {
            let team = format!("t{}", number % 50);
            let run = a_run(&format!("run-{number:04}")).label("team", &team);
            Candidate::new(if number % 2 == 0 {
                run.build()
            } else {
                run.near("team", &team).likes(7, "team", &team).build()
            })
        })
        .collect();
    let limits = Limits {
        runs,
        ..Limits::default()
    };
    let profile = profile();
    let rounds = (0..ROUNDS).map(|_| {
        let candidates = candidates.clone();
        let start = on_core();
        let plan = plan_batch(&fleet, candidates, &profile, limits);
        let taken = on_core() - start;
        assert_eq!(plan.planned.len(), runs, "nobody is forgotten");
        taken
    });
    vec![Line {
        goal: "S-176",
        what: "plan of 1,000 Runs on 200 Pods".into(),
        rounds: rounds.collect(),
        unit: "s",
        reach: Reach::AtMost(1.0),
    }]
}

/// Measures Runs with a required and a preferred term against Runs without.
pub(crate) fn affinity() -> Vec<Line> {
    let (plain, with_terms) = (runs(0..RUNS, run), runs(0..RUNS, choosy));
    let mut ratios = Vec::new();
    for round in 0..ROUNDS {
        let (first, second) = if round % 2 == 0 {
            let first = course(&plain).rate();
            (first, course(&with_terms).rate())
        } else {
            let second = course(&with_terms).rate();
            (course(&plain).rate(), second)
        };
        ratios.push(first / second);
    }
    vec![Line {
        goal: "S2",
        what: "a decision with a required and a preferred term, against one without".into(),
        rounds: ratios,
        unit: "x",
        reach: Reach::AtMost(3.0),
    }]
}
