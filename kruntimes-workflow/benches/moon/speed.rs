//! W2: transitions of a second, a graph compiled, a turn planned, a file checked.

use std::hint::black_box;

use kruntimes_workflow::plan::{Compiled, State, calculate};
use kruntimes_workflow::yaml;

use crate::clock::on_core;
use crate::days::{folded, latest, ordered};
use crate::definition::{accepted, file, frozen, graph, wide};
use crate::line::{Line, Reach};

const ROUNDS: usize = 9;
/// Repetitions of what is too short to measure alone.
const REPEATED: usize = 10;

/// Seconds on the core for one of `count` repetitions.
fn seconds<T>(count: usize, act: impl Fn() -> T) -> f64 {
    let start = on_core();
    for _ in 0..count {
        black_box(act());
    }
    (on_core() - start) / count as f64
}

/// Measures the engine as a program without Kubernetes uses it, and the turn as a controller does.
pub(crate) fn engine() -> Vec<Line> {
    let (small, large, limits) = (
        frozen(graph(10_000)),
        frozen(graph(100_000)),
        frozen(wide(64, 128)),
    );
    let compiled = Compiled::new(&small).expect("it has no cycle");
    let deep = Compiled::new(&limits).expect("it has no cycle");
    let (first, begun) = (accepted(&small), accepted(&limits));
    let late = latest(begun.clone());
    let text = file(5_000);
    let mut rounds: [Vec<f64>; 6] = Default::default();
    for _ in 0..ROUNDS {
        rounds[0].push(rate(&compiled, &first));
        rounds[1].push(rate(&deep, &begun));
        rounds[2].push(seconds(1, || Compiled::new(&large).is_ok()) * 1e3);
        rounds[3].push(seconds(REPEATED, || calculate(&late)) * 1e3);
        rounds[4].push(seconds(REPEATED, || checked(&text)) * 1e3);
        let each = seconds(REPEATED, || ordered(compiled.graph(), &small.spec.jobs));
        rounds[5].push((2 * small.spec.jobs.len()) as f64 / each);
    }
    told(rounds)
}

/// Gives every series its name and goal.
fn told([rates, steps, compiles, turns, lints, plain]: [Vec<f64>; 6]) -> Vec<Line> {
    let line = |what: &str, rounds, unit, reach| Line {
        goal: "W2",
        what: what.to_owned(),
        rounds,
        unit,
        reach,
    };
    let million = Reach::AtLeast(1_000_000.0);
    vec![
        line(
            "transitions by order alone, 10,000 jobs",
            plain,
            "1/s",
            million,
        ),
        line(
            "transitions with the whole description of every Run, 10,000 jobs",
            rates,
            "1/s",
            million,
        ),
        line("the same, 64 jobs of 128 steps", steps, "1/s", million),
        line(
            "a graph of 100,000 jobs compiled",
            compiles,
            "ms",
            Reach::AtMost(100.0),
        ),
        line(
            "the last turn of 64 jobs of 128 steps",
            turns,
            "ms",
            Reach::AtMost(2.0),
        ),
        line(
            "a file of 5,000 lines read and checked",
            lints,
            "ms",
            Reach::AtMost(50.0),
        ),
    ]
}

/// Reads a file and says everything that can be said about it.
fn checked(text: &str) -> usize {
    let (definitions, findings) = yaml::read("big.yaml", text).expect("it is well formed");
    assert_eq!(definitions.len(), 1, "{findings:?}");
    findings.len()
}

/// Transitions of a second; making and dropping the state is not counted.
fn rate(compiled: &Compiled<'_>, state: &State) -> f64 {
    let state = state.clone();
    let start = on_core();
    let transitions = folded(compiled, state);
    transitions as f64 / (on_core() - start)
}
