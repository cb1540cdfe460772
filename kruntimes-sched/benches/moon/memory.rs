//! M1: memory of a Run that holds a place.

use std::fs;

use kruntimes_sched::Vocabulary;

use crate::count::{self, observe};
use crate::fleet::index;
use crate::line::{Line, Reach};

const RUNS: usize = 1_000_000;
const PODS: usize = 100_000;

/// Runs of the two processes whose heaps are compared.
const FEW: usize = 10_000;
const MANY: usize = 60_000;

/// Measures what one more active Run adds, its own strings included.
///
/// The first million Runs are counted as one round each tenth, because the
/// allocator takes memory in large pieces.
pub(crate) fn per_run() -> Vec<Line> {
    let Some(start) = resident() else {
        return Vec::new();
    };
    let (mut index, mut vocabulary) = (index(PODS), Vocabulary::default());
    let empty = resident().unwrap_or(start);
    let mut before = empty;
    let mut rounds = Vec::new();
    for tenth in 0..10 {
        for number in tenth * RUNS / 10..(tenth + 1) * RUNS / 10 {
            observe(&mut index, &mut vocabulary, number, PODS);
        }
        let after = resident().unwrap_or(before);
        rounds.push((after - before) * 10.0 / RUNS as f64);
        before = after;
    }
    let heap = count::heap("held", MANY).zip(count::heap("held", FEW));
    let heap = heap.map(|(many, few)| (many - few) / (MANY - FEW) as f64);
    vec![
        Line {
            goal: "M1",
            what: "heap of an active Run, its names and the index included".into(),
            rounds: heap.into_iter().collect(),
            unit: "B",
            reach: Reach::AtMost(300.0),
        },
        Line {
            goal: "M1",
            what: "resident memory of an active Run, of a million on 100,000 Pods".into(),
            rounds,
            unit: "B",
            reach: Reach::AtMost(500.0),
        },
        Line {
            goal: "M1",
            what: "resident memory of a process with a million Runs on 100,000 Pods".into(),
            rounds: vec![before / 1024.0 / 1024.0],
            unit: "MiB",
            reach: Reach::AtMost(512.0),
        },
    ]
}

/// Bytes of memory that are the process's own, where the system tells.
fn resident() -> Option<f64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"))?;
    let kibibytes: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024.0)
}
