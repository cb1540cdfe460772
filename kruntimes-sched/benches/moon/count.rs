//! Counts that do not depend on what else the machine does, taken by valgrind.

use std::env;
use std::hint::black_box;
use std::mem;
use std::process::Command;
use std::sync::Arc;

use kruntimes_sched::testing::active;
use kruntimes_sched::{
    Action, Index, Observation, Profile, Run, RunState, Vocabulary, reserve, unreserve,
};

use crate::fleet::{NOW, index, place, pod_of, profile, run, runs};

/// First argument of a process that is counted.
pub(crate) const PROBE: &str = "probe";

/// What is counted, by name, with a size.
type Probe = (&'static str, fn(usize));

const PROBES: [Probe; 5] = [
    ("drain", drain),
    ("pods", pods),
    ("backlog", backlog),
    ("held", held),
    ("memory", memory),
];

/// Decisions of the probes that make a fixed number of them.
const DECISIONS: usize = 2_000;

/// Does what a counted process is to do.
pub(crate) fn probe(name: &str, size: &str) {
    let known = PROBES.iter().find(|(known, _)| *known == name);
    if let (Some((_, act)), Ok(size)) = (known, size.parse()) {
        act(size);
    }
}

/// Returns the instructions that a probe executes in [`counted`], where valgrind is installed.
pub(crate) fn instructions(name: &str, size: usize) -> Option<f64> {
    let options = [
        "--tool=callgrind",
        "--callgrind-out-file=/dev/null",
        "--toggle-collect=*count::counted*",
    ];
    number_after(&valgrind(&options, name, size)?, "Collected :")
}

/// Returns the bytes that a probe has asked for and not given back at its end, where valgrind is installed.
pub(crate) fn heap(name: &str, size: usize) -> Option<f64> {
    let told = valgrind(&["--leak-check=no"], name, size)?;
    number_after(&told, "in use at exit:")
}

fn valgrind(options: &[&str], name: &str, size: usize) -> Option<String> {
    let mut command = Command::new("valgrind");
    command.args(options).arg(env::current_exe().ok()?);
    let output = command.args([PROBE, name, &size.to_string()]).output();
    String::from_utf8(output.ok()?.stderr).ok()
}

fn number_after(text: &str, words: &str) -> Option<f64> {
    let rest = text.rsplit_once(words)?.1.trim_start();
    let digits = rest.split([' ', '\n']).next()?;
    digits.replace(',', "").parse().ok()
}

/// Does what is to be counted.
#[inline(never)]
fn counted<T>(act: impl FnOnce() -> T) -> T {
    black_box(act())
}

/// Places Runs, ten to a Pod.
fn drain(count: usize) {
    let (runs, profile, mut index) = (runs(0..count, run), profile(), index(count / 10));
    let course = counted(|| place(&mut index, &profile, &runs));
    assert_eq!(course.placed, count, "every run finds a place");
}

/// Places Runs and gives their places back, so that a pool stays as it is.
fn pods(count: usize) {
    let (runs, profile, mut index) = (runs(0..DECISIONS, run), profile(), index(count));
    // The classes are there before it counts.
    there_and_back(&mut index, &profile, &runs[..10]);
    counted(|| there_and_back(&mut index, &profile, &runs));
}

fn there_and_back(index: &mut Index, profile: &Profile, runs: &[Arc<Run>]) {
    for run in runs {
        let decision = index.decide(run, profile, NOW);
        if let Action::Bind { pod, .. } = &decision.action {
            let pod = pod_of(index, pod);
            let taken = index.change(|book| reserve(profile, book, run, &pod, NOW));
            assert!(taken.is_ok(), "the pod has room");
            index.change(|book| unreserve(profile, book, run));
        }
    }
}

/// Looks at each of some waiting Runs in turn while a pool of 100 Pods is full.
fn backlog(count: usize) {
    let (profile, mut index) = (profile(), index(100));
    place(&mut index, &profile, &runs(0..2_000, run));
    let waiting = runs(1_000_000..1_000_000 + count, run);
    counted(|| {
        for at in 0..DECISIONS {
            black_box(index.decide(&waiting[at % count], &profile, NOW));
        }
    });
}

/// Pods of the pools on which Runs are only held.
pub(crate) const HELD_PODS: usize = 100_000;

/// Ends with Runs held in an index, one after the other on every Pod.
fn held(count: usize) {
    let (mut index, mut vocabulary) = (index(HELD_PODS / 10), Vocabulary::default());
    for number in 0..count {
        observe(&mut index, &mut vocabulary, number, HELD_PODS / 10);
    }
    mem::forget((index, vocabulary));
}

/// Ends with nothing but the Runs themselves.
fn memory(count: usize) {
    mem::forget(runs(0..count, run));
}

/// Shows an active Run to the book.
pub(crate) fn observe(index: &mut Index, vocabulary: &mut Vocabulary, number: usize, pods: usize) {
    let pod = pod_of(index, &format!("pod-{:07}", number % pods).into());
    let mut run = run(number).build();
    vocabulary.share(&mut run);
    let Observation { run, .. } = active(Arc::new(run), &pod);
    let seen = Observation {
        run,
        state: RunState::Holding {
            pod: pod.name.clone(),
            pod_uid: Some(pod.uid.clone()),
        },
    };
    index.change(|book| book.observe(&seen));
}
