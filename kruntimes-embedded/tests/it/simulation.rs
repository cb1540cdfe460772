//! Simulated bad days, and small worlds with one trouble each.
//!
//! `KRT_SEED=17 cargo test -p kruntimes-embedded --test it simulation` replays one day, `KRT_SCHEDULE=17` one small
//! world. `KRT_DAYS` and `KRT_SCHEDULES` say how many there are; `cargo xtask simulate --nightly` sets them high.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use kruntimes_embedded::world::{PER_WORLD, Report, every_kind, live_through, simulate};

/// Days of a normal test run.
const DAYS: u64 = 40;
/// Small worlds of a normal test run.
const SCHEDULES: u64 = 5000;

/// The one that is to be replayed, or as many as there are.
fn numbers(one: &str, many: &str, normal: u64) -> Vec<u64> {
    let read = |name: &str| {
        let text = std::env::var(name).ok()?;
        Some(text.parse::<u64>().expect("the variable is a number"))
    };
    match (read(one), read(many)) {
        (Some(number), _) => vec![number],
        (None, count) => (0..count.unwrap_or(normal)).collect(),
    }
}

/// Does the work of every number on two threads.
fn spread<T: Default + Send>(numbers: &[u64], work: impl Fn(u64, &mut T) + Sync) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let some = || {
        let mut sum = T::default();
        loop {
            let index = next.fetch_add(1, Ordering::SeqCst);
            let Some(&number) = numbers.get(index) else {
                return sum;
            };
            work(number, &mut sum);
        }
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..2).map(|_| scope.spawn(some)).collect();
        threads
            .into_iter()
            .map(|thread| {
                thread
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            })
            .collect()
    })
}

fn add(sum: &mut Report, report: &Report) {
    sum.targets += report.targets;
    sum.faults += report.faults;
    sum.crashes += report.crashes;
    sum.rolls += report.rolls;
    sum.changes += report.changes;
    sum.executions += report.executions;
}

/// Lost answers, conflicts, stalled watches, crashes: invariants 1–5, 7, 9 and 13 hold.
#[test]
fn survives_bad_days() {
    let days = numbers("KRT_SEED", "KRT_DAYS", DAYS);
    let sums = spread(&days, |seed, sum: &mut Report| {
        let report = simulate(seed).unwrap_or_else(|violation| {
            panic!(
                "seed {seed}: {violation}\nreplay: KRT_SEED={seed} cargo test -p kruntimes-embedded --test it simulation"
            )
        });
        add(sum, &report);
    });
    let mut sum = Report::default();
    for report in &sums {
        add(&mut sum, report);
    }
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

/// How many schedules of each kind there were, and how many met their trouble.
#[derive(Default)]
struct Tally {
    kinds: BTreeMap<String, (u64, u64)>,
    time: Duration,
    changes: u64,
    executions: usize,
}

/// The fault table, one trouble in each of thousands of small worlds: invariants 1–5, 7, 8, 10, 13 and 15 hold.
#[test]
fn survives_every_kind_of_trouble() {
    let schedules = numbers("KRT_SCHEDULE", "KRT_SCHEDULES", SCHEDULES);
    // Schedules of one world follow each other; the last one leads through all before it.
    let last_of_worlds: Vec<u64> = schedules
        .chunk_by(|one, next| one / PER_WORLD == next / PER_WORLD)
        .filter_map(|world| world.last().copied())
        .collect();
    let tallies = spread(&last_of_worlds, |last, tally: &mut Tally| {
        let lived = live_through(last).unwrap_or_else(|broken| {
            let number = broken.number;
            panic!(
                "{broken}\nreplay: KRT_SCHEDULE={number} cargo test -p kruntimes-embedded --test it simulation"
            )
        });
        for shown in lived {
            let count = tally.kinds.entry(shown.kind).or_default();
            count.0 += 1;
            count.1 += u64::from(shown.struck);
            tally.time += shown.time;
            tally.changes += shown.changes;
            tally.executions += shown.executions;
        }
    });
    let mut sum = Tally::default();
    for tally in tallies {
        for (kind, (lived, struck)) in tally.kinds {
            let count = sum.kinds.entry(kind).or_default();
            count.0 += lived;
            count.1 += struck;
        }
        sum.time += tally.time;
        sum.changes += tally.changes;
        sum.executions += tally.executions;
    }
    let Tally {
        kinds,
        time,
        changes,
        executions,
    } = &sum;
    println!(
        "{} schedules: {changes} changes, {executions} executions, {} s of virtual time",
        schedules.len(),
        time.as_secs()
    );
    for (kind, (lived, struck)) in kinds {
        println!("{struck:>6} of {lived:>6}  {kind}");
    }
    assert!(*changes > 0, "the worlds were empty");
    let rounds = schedules.len() / every_kind().len();
    if rounds >= 20 {
        for kind in every_kind() {
            let met = kinds.get(&kind).is_some_and(|(_, struck)| *struck > 0);
            assert!(met, "no schedule met its trouble: {kind}");
        }
    }
}
