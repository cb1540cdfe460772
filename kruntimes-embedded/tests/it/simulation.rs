//! Simulated bad days: the whole engine, a paused clock, seeded faults and crashes.
//!
//! `KRT_SEED=17 cargo test -p kruntimes-embedded --test it simulation` replays one day.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use kruntimes_embedded::world::{Report, simulate};

/// Days of a normal test run.
const SEEDS: u64 = 200;

/// One day replayed, or as many as there are, spread over the processors.
fn days() -> Vec<u64> {
    match std::env::var("KRT_SEED") {
        Ok(seed) => vec![seed.parse().expect("KRT_SEED is a number")],
        Err(_) => (0..SEEDS).collect(),
    }
}

/// Lost answers, conflicts, stalled watches, crashes: invariants 1–5, 7, 9 and 13 hold.
#[test]
fn survives_bad_days() {
    let days = days();
    let next = AtomicU64::new(0);
    let live = || {
        let mut sum = Report::default();
        loop {
            let index = usize::try_from(next.fetch_add(1, Ordering::SeqCst)).unwrap();
            let Some(&seed) = days.get(index) else {
                return sum;
            };
            let report = simulate(seed).unwrap_or_else(|violation| {
                panic!(
                    "seed {seed}: {violation}\nreplay: KRT_SEED={seed} cargo test -p kruntimes-embedded --test it simulation"
                )
            });
            sum.targets += report.targets;
            sum.faults += report.faults;
            sum.crashes += report.crashes;
            sum.rolls += report.rolls;
            sum.changes += report.changes;
            sum.executions += report.executions;
        }
    };
    let sum = thread::scope(|scope| {
        let threads: Vec<_> = (0..2).map(|_| scope.spawn(live)).collect();
        let reports = threads.into_iter().map(|thread| {
            thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        reports.fold(Report::default(), |mut sum, report| {
            sum.targets += report.targets;
            sum.faults += report.faults;
            sum.crashes += report.crashes;
            sum.rolls += report.rolls;
            sum.changes += report.changes;
            sum.executions += report.executions;
            sum
        })
    });
    println!("{} days: {sum:?}", days.len());
    assert!(
        sum.executions > 0 && sum.changes > 0,
        "the days were empty: {sum:?}"
    );
    if days.len() > 1 {
        assert!(
            sum.faults > 0 && sum.crashes > 0 && sum.rolls > 0,
            "the days were not bad: {sum:?}"
        );
    }
}
