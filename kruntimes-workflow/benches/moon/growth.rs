//! X1: how the price of a whole execution grows with its graph.

use crate::count::instructions;
use crate::line::{Line, Reach};

/// Jobs, over four decades.
const JOBS: [usize; 5] = [10, 100, 1_000, 10_000, 100_000];

/// Measures the slopes in log-log over four decades, of instructions and not of time.
pub(crate) fn exponents() -> Vec<Line> {
    let line = |what: &str, probe| Line {
        goal: "X1",
        what: what.to_owned(),
        rounds: slope(probe),
        unit: "exponent",
        reach: Reach::AtMost(1.05),
    };
    vec![
        line(
            "growth of compiling and executing a graph against its jobs",
            "execute",
        ),
        line("growth of compiling alone", "compile"),
    ]
}

/// Counts a probe at every size; nothing where valgrind is not installed.
fn slope(probe: &str) -> Vec<f64> {
    let counts: Option<Vec<f64>> = JOBS.iter().map(|jobs| instructions(probe, *jobs)).collect();
    counts.into_iter().map(|counts| fitted(&counts)).collect()
}

/// Fits a power by least squares.
fn fitted(counts: &[f64]) -> f64 {
    let points = JOBS.iter().zip(counts);
    let logs: Vec<(f64, f64)> = points
        .map(|(jobs, count)| ((*jobs as f64).ln(), count.ln()))
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
