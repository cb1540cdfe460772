//! M1: memory of a Run that holds a place.

use std::fs;
use std::sync::Arc;

use kruntimes_sched::RunState;
use kruntimes_sched::testing::active;
use kruntimes_sched::{Index, Observation};

use crate::fleet::{index, pod_of, run};
use crate::line::{Line, Reach};

const RUNS: usize = 1_000_000;
const PODS: usize = 100_000;

/// Measures what one more active Run adds to the resident memory, its own strings included.
///
/// The first million Runs are counted as one round each tenth, because the
/// allocator takes memory in large pieces.
pub(crate) fn per_run() -> Vec<Line> {
    let Some(mut before) = resident() else {
        return Vec::new();
    };
    let mut index = index(PODS);
    before = resident().unwrap_or(before);
    let mut rounds = Vec::new();
    for tenth in 0..10 {
        for number in tenth * RUNS / 10..(tenth + 1) * RUNS / 10 {
            observe(&mut index, number);
        }
        let after = resident().unwrap_or(before);
        rounds.push((after - before) * 10.0 / RUNS as f64);
        before = after;
    }
    vec![Line {
        goal: "M1",
        what: "resident memory of an active Run, of a million on 100,000 Pods".into(),
        rounds,
        unit: "B",
        reach: Reach::AtMost(300.0),
    }]
}

fn observe(index: &mut Index, number: usize) {
    let pod = pod_of(index, &format!("pod-{:07}", number % PODS).into());
    let Observation { run, .. } = active(run(number).shared(), &pod);
    let seen = Observation {
        run: Arc::clone(&run),
        state: RunState::Holding {
            pod: pod.name.clone(),
            pod_uid: Some(pod.uid.clone()),
        },
    };
    index.change(|book| book.observe(&seen));
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
