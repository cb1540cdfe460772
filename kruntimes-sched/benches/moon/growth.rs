//! X1: how the price of a decision grows with the pool and with the backlog.

use crate::count::instructions;
use crate::fleet::{index, place, profile, run, runs};
use crate::line::{Line, Reach};

/// Pods of the pool. To make the largest one takes valgrind longer than everything that is counted.
const PODS: [usize; 5] = [10, 50, 250, 1_000, 5_000];
/// Runs that wait.
const BACKLOG: [usize; 5] = [10, 100, 1_000, 10_000, 50_000];
/// Runs to place in all.
const DRAIN: [usize; 5] = [20, 100, 1_000, 5_000, 20_000];

/// Measures the slopes in log-log over several decades, of instructions and not of time.
pub(crate) fn exponents() -> Vec<Line> {
    let line = |what: &str, rounds, most| Line {
        goal: "X1",
        what: what.to_owned(),
        rounds,
        unit: "exponent",
        reach: Reach::AtMost(most),
    };
    let mut lines = vec![
        line(
            "growth of a decision with reserve and release against Pods",
            slope("pods", &PODS),
            0.15,
        ),
        line(
            "growth of a decision that finds no place against waiting Runs",
            slope("backlog", &BACKLOG),
            0.10,
        ),
        line(
            "growth of placing all Runs against their number",
            slope("drain", &DRAIN),
            1.05,
        ),
    ];
    lines.push(Line {
        reach: Reach::Nothing,
        ..line("the last one by time on the core", of_the_drain(), 0.0)
    });
    lines
}

/// Counts a probe at every size; nothing where valgrind is not installed.
fn slope(probe: &str, sizes: &[usize]) -> Vec<f64> {
    let counts = sizes.iter().map(|size| instructions(probe, *size));
    let counts: Option<Vec<f64>> = counts.collect();
    (counts.into_iter())
        .map(|counts| fitted(sizes, &counts))
        .collect()
}

/// Rounds of what is measured by time.
const ROUNDS: usize = 3;

fn of_the_drain() -> Vec<f64> {
    let profile = profile();
    let most = DRAIN.into_iter().max().unwrap_or_default();
    let runs = runs(0..most, run);
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
        fitted(&DRAIN, &times)
    });
    rounds.collect()
}

/// Fits a power by least squares.
fn fitted(sizes: &[usize], times: &[f64]) -> f64 {
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
