//! The pools and Runs that are measured.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use kruntimes_sched::plugins::{RuntimePodAvailability, standard};
use kruntimes_sched::testing::{NAMESPACE, RunBuilder, a_pod, a_run};
use kruntimes_sched::{
    Action, Book, Heartbeat, Index, Pod, PodName, Profile, Run, Vocabulary, reserve,
};

use crate::clock::on_core;

/// Instant of every decision.
pub(crate) const NOW: Timestamp = Timestamp::UNIX_EPOCH;
const RUNTIME: &str = "bash";

/// The default profile without explanations, as a scheduler uses it.
pub(crate) fn profile() -> Profile {
    let built = standard().explain(false).build();
    built.expect("the default plugins form a profile")
}

/// An index of Pods with three resources, which all give signs of life, as a scheduler reads them.
pub(crate) fn index(pods: usize) -> Index {
    let mut index = Index::new(RuntimePodAvailability::default(), Book::new());
    let mut vocabulary = Vocabulary::default();
    for number in 0..pods {
        let mut pod = a_pod(&format!("pod-{number:07}"))
            .offers("runs", 12)
            .offers("memory", 64)
            .offers("example.com/gpu", 4)
            .heartbeat(Heartbeat::At(NOW))
            .build();
        vocabulary.share_pod(&mut pod);
        index.set_pod(&NAMESPACE.into(), &RUNTIME.into(), &Arc::new(pod));
    }
    index
}

/// Runs as a scheduler reads them: equal labels and requests are kept once.
pub(crate) fn runs(numbers: Range<usize>, make: fn(usize) -> RunBuilder) -> Vec<Arc<Run>> {
    let mut vocabulary = Vocabulary::default();
    let read = numbers.map(|number| {
        let mut run = make(number).build();
        vocabulary.share(&mut run);
        Arc::new(run)
    });
    read.collect()
}

/// A Run like all others, as in a wave.
pub(crate) fn like_run(number: usize) -> RunBuilder {
    run(number).asks("memory", 2)
}

/// A Run of one of five sizes.
pub(crate) fn run(number: usize) -> RunBuilder {
    let memory = i64::try_from(1 + number % 5).expect("a small number");
    a_run(&format!("run-{number:07}"))
        .uid(&format!("5f0c7a52-8d1e-4a6b-9c33-{number:012}"))
        .runtime(RUNTIME)
        .asks("memory", memory)
        .label("app", &format!("app-{}", number % 50))
}

/// A Run that must be with its cohort of four and would like to be with its team of 96.
pub(crate) fn choosy(number: usize) -> RunBuilder {
    let (cohort, team) = (format!("c{}", number / 4), format!("t{}", number / 96));
    run(number)
        .label("cohort", &cohort)
        .label("team", &team)
        .near("cohort", &cohort)
        .likes(10, "team", &team)
}

/// How long every decision took, with its reserve, and how many Runs found a place.
pub(crate) struct Course {
    pub(crate) each: Vec<Duration>,
    /// All of them together, on the core.
    pub(crate) seconds: f64,
    pub(crate) placed: usize,
}

impl Course {
    /// Decisions of one second.
    pub(crate) fn rate(&self) -> f64 {
        self.each.len() as f64 / self.seconds
    }

    /// Microseconds that 99 of 100 decisions take at most.
    pub(crate) fn p99(&self) -> f64 {
        let mut sorted = self.each.clone();
        sorted.sort_unstable();
        sorted[sorted.len() * 99 / 100].as_secs_f64() * 1e6
    }
}

/// Decides and reserves Runs one after another.
pub(crate) fn place(index: &mut Index, profile: &Profile, runs: &[Arc<Run>]) -> Course {
    let mut placed = 0;
    let before = on_core();
    let each = runs.iter().map(|run| {
        let start = Instant::now();
        let decision = index.decide(run, profile, NOW);
        if let Action::Bind { pod, .. } = &decision.action {
            let pod = pod_of(index, pod);
            let taken = index.change(|book| reserve(profile, book, run, &pod, NOW));
            placed += usize::from(taken.is_ok());
        }
        start.elapsed()
    });
    let each = each.collect();
    let seconds = on_core() - before;
    Course {
        each,
        seconds,
        placed,
    }
}

/// Finds a Pod that was chosen.
pub(crate) fn pod_of(index: &Index, name: &PodName) -> Arc<Pod> {
    let pod = index.pod(&NAMESPACE.into(), name);
    Arc::clone(pod.expect("the winner is a pod of the index"))
}
