//! X1: how the price of a decision grows with the pool and with the backlog.

use std::hint::black_box;
use std::sync::Arc;

use kruntimes_sched::{Action, Index, Run, reserve, unreserve};

use crate::clock::on_core;
use crate::fleet::{NOW, index, place, pod_of, profile, run};
use crate::line::{Line, Reach};

/// Pods of the pool, over four decades.
const PODS: [usize; 5] = [50, 500, 5_000, 50_000, 500_000];
/// Runs that wait, over four decades.
const BACKLOG: [usize; 5] = [10, 100, 1_000, 10_000, 100_000];
/// Runs to place in all.
const DRAIN: [usize; 5] = [50, 500, 5_000, 50_000, 500_000];
const ROUNDS: usize = 5;
const DECISIONS: usize = 2_000;

/// Measures the slopes in log-log over four decades.
pub(crate) fn exponents() -> Vec<Line> {
    vec![
        Line {
            goal: "X1",
            what: "growth of a decision with reserve and release against Pods".into(),
            rounds: against_pods(),
            unit: "exponent",
            reach: Reach::AtMost(0.15),
        },
        Line {
            goal: "X1",
            what: "growth of a decision that finds no place against waiting Runs".into(),
            rounds: against_backlog(),
            unit: "exponent",
            reach: Reach::AtMost(0.10),
        },
        Line {
            goal: "X1",
            what: "growth of placing all Runs against their number".into(),
            rounds: of_the_drain(),
            unit: "exponent",
            reach: Reach::AtMost(1.05),
        },
    ]
}

fn against_pods() -> Vec<f64> {
    let runs: Vec<Arc<Run>> = (0..DECISIONS).map(|number| run(number).shared()).collect();
    let mut pools: Vec<Index> = PODS.into_iter().map(index).collect();
    let rounds = (0..=ROUNDS).map(|_| {
        let times = pools.iter_mut().map(|index| there_and_back(index, &runs));
        slope(&PODS, &times.collect::<Vec<_>>())
    });
    // The first round makes the classes.
    rounds.skip(1).collect()
}

/// Decides, reserves and gives back, so that the pool stays as it is; returns seconds.
fn there_and_back(index: &mut Index, runs: &[Arc<Run>]) -> f64 {
    let profile = profile();
    let start = on_core();
    for run in runs {
        let decision = index.decide(run, &profile, NOW);
        if let Action::Bind { pod, .. } = &decision.action {
            let pod = pod_of(index, pod);
            let taken = index.change(|book| reserve(&profile, book, run, &pod, NOW));
            assert!(taken.is_ok(), "the pod has room");
            index.change(|book| unreserve(&profile, book, run));
        }
    }
    on_core() - start
}

/// A full pool of 1,000 Pods; every waiting Run is looked at as often as it takes to make equal work.
fn against_backlog() -> Vec<f64> {
    let profile = profile();
    let most = BACKLOG.into_iter().max().unwrap_or_default();
    let mut index = index(1_000);
    let runs: Vec<Arc<Run>> = (0..20_000).map(|number| run(number).shared()).collect();
    place(&mut index, &profile, &runs);
    let waiting: Vec<Arc<Run>> = (0..most).map(|n| run(1_000_000 + n).shared()).collect();
    let rounds = (0..ROUNDS).map(|_| {
        let times = BACKLOG.map(|backlog| {
            let start = on_core();
            for at in 0..most {
                let run = &waiting[at % backlog];
                black_box(index.decide(run, &profile, NOW));
            }
            on_core() - start
        });
        slope(&BACKLOG, &times)
    });
    rounds.collect()
}

fn of_the_drain() -> Vec<f64> {
    let profile = profile();
    let most = DRAIN.into_iter().max().unwrap_or_default();
    let runs: Vec<Arc<Run>> = (0..most).map(|number| run(number).shared()).collect();
    let rounds = (0..ROUNDS).map(|_| {
        let times = DRAIN.map(|count| {
            // Small ones are repeated until there is something to measure.
            let times = (50_000 / count).max(1);
            let seconds = (0..times).map(|_| {
                // Ten Runs to a Pod.
                let course = place(&mut index(count / 10), &profile, &runs[..count]);
                assert_eq!(course.placed, count, "every run finds a place");
                course.seconds
            });
            seconds.sum::<f64>() / times as f64
        });
        slope(&DRAIN, &times)
    });
    rounds.collect()
}

/// Fits a power by least squares.
fn slope(sizes: &[usize], times: &[f64]) -> f64 {
    let points = sizes.iter().zip(times);
    let logs: Vec<(f64, f64)> = points
        .map(|(size, time)| ((*size as f64).ln(), time.ln()))
        .collect();
    let count = logs.len() as f64;
    let (x, y) = logs
        .iter()
        .fold((0.0, 0.0), |sum, p| (sum.0 + p.0, sum.1 + p.1));
    let (x, y) = (x / count, y / count);
    let both: f64 = logs.iter().map(|p| (p.0 - x) * (p.1 - y)).sum();
    let own: f64 = logs.iter().map(|p| (p.0 - x) * (p.0 - x)).sum();
    both / own
}
