//! Laws that hold for every pool and every history.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use kruntimes_sched::plugins::standard;
use kruntimes_sched::testing::{
    SnapshotBuilder, a_pod, a_run, a_snapshot, active, elsewhere, namespace, pending, winner,
};
use kruntimes_sched::{
    Action, Book, Observation, Pod, PodName, Profile, Run, Snapshot, calculate, reserve, unreserve,
};
use proptest::prelude::*;

const PODS: usize = 3;
const RUNS: usize = 8;

/// One step of a history with several workers and a slow watch.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// A worker takes a Run and a snapshot.
    Take { worker: usize, run: usize },
    /// A worker reserves what it chose from its snapshot, however old that is by now.
    Reserve { worker: usize },
    /// The API accepts the worker's write; the answer reaches the book now, or only with the watch.
    Write { worker: usize, answered: bool },
    /// The API refuses the worker's write.
    Conflict { worker: usize },
    /// The watch delivers its next event.
    Deliver,
    /// Somebody edits the labels of a Run that waits.
    Edit { run: usize },
    /// An active Run ends.
    End { run: usize },
    /// An active Run loses its Pod and waits again.
    Lose { run: usize },
}

fn step() -> impl Strategy<Value = Step> {
    let worker = 0..3_usize;
    let run = 0..RUNS;
    prop_oneof![
        4 => (worker.clone(), run.clone()).prop_map(|(worker, run)| Step::Take { worker, run }),
        4 => worker.clone().prop_map(|worker| Step::Reserve { worker }),
        4 => (worker.clone(), any::<bool>()).prop_map(|(worker, answered)| Step::Write { worker, answered }),
        1 => worker.prop_map(|worker| Step::Conflict { worker }),
        5 => Just(Step::Deliver),
        2 => run.clone().prop_map(|run| Step::Edit { run }),
        2 => run.clone().prop_map(|run| Step::End { run }),
        1 => run.prop_map(|run| Step::Lose { run }),
    ]
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Life {
    Pending,
    On(usize),
    Ended,
}

#[derive(Debug)]
enum Work {
    Chosen { run: usize, pod: usize },
    Reserved { run: usize, pod: usize },
}

struct World {
    profile: Profile,
    pods: Vec<Arc<Pod>>,
    runs: Vec<Run>,
    /// What the API server knows.
    truth: Vec<Life>,
    /// What the watch has told so far, or an own write's answer.
    known: Vec<Life>,
    events: VecDeque<(usize, Life, i32)>,
    book: Book,
    workers: BTreeMap<usize, Work>,
}

impl World {
    fn new(capacities: &[i64], requests: &[(i64, bool)]) -> Self {
        let pods = (0..PODS).zip(capacities).map(|(at, capacity)| {
            Arc::new(a_pod(&format!("p{at}")).offers("runs", *capacity).build())
        });
        let runs = requests.iter().enumerate().map(|(at, (asked, exclusive))| {
            let run = a_run(&format!("r{at}")).asks("runs", *asked);
            if *exclusive { run.exclusive() } else { run }.build()
        });
        Self {
            profile: standard().explain(false).build().unwrap(),
            pods: pods.collect(),
            runs: runs.collect(),
            truth: vec![Life::Pending; RUNS],
            known: vec![Life::Pending; RUNS],
            events: VecDeque::new(),
            book: Book::new(),
            workers: BTreeMap::new(),
        }
    }

    fn seen(&self, run: usize, life: Life, attempt: i32) -> Observation {
        let run = Arc::new(Run {
            attempt,
            ..self.runs[run].clone()
        });
        match life {
            Life::Pending => pending(run),
            Life::On(pod) => active(run, &self.pods[pod]),
            Life::Ended => elsewhere(run),
        }
    }

    fn busy(&self, run: usize) -> bool {
        self.workers.values().any(|work| match work {
            Work::Chosen { run: other, .. } | Work::Reserved { run: other, .. } => *other == run,
        })
    }

    fn change(&mut self, run: usize, life: Life) {
        self.truth[run] = life;
        self.events.push_back((run, life, self.runs[run].attempt));
    }

    fn take(&mut self, worker: usize, run: usize) {
        // A key is at one worker at a time, and a worker acts on no version older than its own write.
        let written = self
            .events
            .iter()
            .any(|(other, life, _)| *other == run && matches!(life, Life::On(_)));
        if self.workers.contains_key(&worker)
            || self.busy(run)
            || written
            || self.known[run] != Life::Pending
        {
            return;
        }
        let now = jiff::Timestamp::UNIX_EPOCH;
        let view = self.book.view(kruntimes_sched::testing::NAMESPACE);
        let snapshot = Snapshot::new(now, self.pods.iter().cloned(), view);
        let decision = calculate(&snapshot, &self.runs[run], &self.profile);
        if let Some(name) = winner(&decision) {
            let pod = self.pods.iter().position(|p| p.name.as_str() == name);
            let pod = pod.expect("the winner is one of the pods");
            self.workers.insert(worker, Work::Chosen { run, pod });
        }
    }

    fn reserve(&mut self, worker: usize) {
        let Some(Work::Chosen { run, pod }) = self.workers.get(&worker) else {
            return;
        };
        let (run, pod) = (*run, *pod);
        let shared = Arc::new(self.runs[run].clone());
        let now = jiff::Timestamp::UNIX_EPOCH;
        match reserve(&self.profile, &mut self.book, &shared, &self.pods[pod], now) {
            Ok(()) => self.workers.insert(worker, Work::Reserved { run, pod }),
            Err(_) => self.workers.remove(&worker),
        };
    }

    fn write(&mut self, worker: usize, answered: bool) {
        let Some(Work::Reserved { run, pod }) = self.workers.get(&worker) else {
            return;
        };
        let (run, pod) = (*run, *pod);
        self.workers.remove(&worker);
        self.change(run, Life::On(pod));
        if answered {
            // The cache drops versions older than the answer.
            self.events.retain(|(other, _, _)| *other != run);
            self.known[run] = Life::On(pod);
            let seen = self.seen(run, Life::On(pod), self.runs[run].attempt);
            self.book.observe(&seen);
        }
    }

    fn apply(&mut self, step: Step) {
        match step {
            Step::Take { worker, run } => self.take(worker, run),
            Step::Reserve { worker } => self.reserve(worker),
            Step::Write { worker, answered } => self.write(worker, answered),
            Step::Conflict { worker } => {
                if let Some(Work::Reserved { run, .. }) = self.workers.get(&worker) {
                    unreserve(&self.profile, &mut self.book, &self.runs[*run]);
                    self.workers.remove(&worker);
                }
            }
            Step::Deliver => {
                if let Some((run, life, attempt)) = self.events.pop_front() {
                    self.known[run] = life;
                    let seen = self.seen(run, life, attempt);
                    self.book.observe(&seen);
                }
            }
            Step::Edit { run } => {
                if self.truth[run] == Life::Pending {
                    self.change(run, Life::Pending);
                }
            }
            Step::End { run } => {
                if matches!(self.truth[run], Life::On(_)) && !self.busy(run) {
                    self.change(run, Life::Ended);
                }
            }
            Step::Lose { run } => {
                if matches!(self.truth[run], Life::On(_)) && !self.busy(run) {
                    self.runs[run].attempt += 1;
                    self.change(run, Life::Pending);
                }
            }
        }
    }

    /// No Pod holds more than it offers, in the book and in truth.
    fn check(&self) -> Result<(), TestCaseError> {
        let fail = |error: kruntimes_sched::Violation| TestCaseError::fail(error.to_string());
        self.book.check().map_err(fail)?;
        for (at, pod) in self.pods.iter().enumerate() {
            self.book.check_pod(&namespace(), pod).map_err(fail)?;
            let mut truth = Book::new();
            for (run, life) in self.truth.iter().enumerate() {
                if *life == Life::On(at) {
                    truth.observe(&self.seen(run, *life, 1));
                }
            }
            truth.check_pod(&namespace(), pod).map_err(fail)?;
        }
        Ok(())
    }
}

fn pool(pods: &[(i64, bool, Vec<i64>)]) -> SnapshotBuilder {
    let built = pods
        .iter()
        .enumerate()
        .map(|(at, (capacity, ready, held))| {
            let name = format!("p{at}");
            let mut pod = a_pod(&name).offers("runs", *capacity).offers("gpu", 4);
            for (n, amount) in held.iter().enumerate() {
                pod = pod.holds(a_run(&format!("{name}-{n}")).asks("runs", *amount));
            }
            if *ready { pod } else { pod.unready() }
        });
    built.fold(a_snapshot(), SnapshotBuilder::pod)
}

fn pods() -> impl Strategy<Value = Vec<(i64, bool, Vec<i64>)>> {
    let held = prop::collection::vec(1_i64..4, 0..4);
    prop::collection::vec((1_i64..12, any::<bool>(), held), 0..7)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(160))]

    #[test]
    fn s_81_case_083_no_history_overcommits_a_pod(
        capacities in prop::collection::vec(1_i64..5, PODS),
        requests in prop::collection::vec((1_i64..4, prop::bool::weighted(0.2)), RUNS),
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let mut world = World::new(&capacities, &requests);
        for step in steps {
            world.apply(step);
            world.check()?;
        }
        while !world.events.is_empty() {
            world.apply(Step::Deliver);
            world.check()?;
        }
        for (run, life) in world.truth.iter().enumerate() {
            let hold = world.book.hold(&namespace(), &world.runs[run].uid);
            let on = hold.map(|hold| hold.pod().clone());
            let want = match life {
                Life::On(pod) => Some(world.pods[*pod].name.clone()),
                Life::Pending | Life::Ended => None,
            };
            if !world.busy(run) {
                prop_assert_eq!(on, want, "run {} after everything was delivered", run);
            }
        }
    }

    #[test]
    fn s_65_s_143_neither_order_nor_repetition_changes_a_decision(
        pods in pods(),
        rotate in 0..7_usize,
        asked in 1_i64..4,
    ) {
        let profile = standard().build().unwrap();
        let run = a_run("mine").asks("runs", asked).build();
        let snapshot = pool(&pods).build();
        let view = snapshot.view().clone();
        let mut listed: Vec<Arc<Pod>> =
            snapshot.pods().iter().map(|state| Arc::clone(&state.pod)).collect();
        listed.reverse();
        let by = rotate % listed.len().max(1);
        listed.rotate_left(by);
        let shuffled = Snapshot::new(snapshot.now(), listed, view);
        let bytes = |snapshot: &Snapshot| {
            serde_json::to_string(&calculate(snapshot, &run, &profile)).unwrap()
        };
        prop_assert_eq!(bytes(&snapshot), bytes(&snapshot));
        prop_assert_eq!(bytes(&snapshot), bytes(&shuffled));
    }

    #[test]
    fn s_143_the_order_in_which_runs_were_seen_changes_no_decision(
        labels in prop::collection::vec((0..4_usize, 0..3_usize), 1..12),
        near in prop::option::of(0..3_usize),
        far in prop::option::of(0..3_usize),
        likes in prop::collection::vec((1..100_i32, 0..3_usize), 0..3),
    ) {
        const STAGES: [&str; 3] = ["build", "test", "ship"];
        let pods = (0..4).map(|at| a_pod(&format!("p{at}")).offers("runs", 9));
        let pool = pods.fold(a_snapshot(), SnapshotBuilder::pod);
        let mut run = a_run("mine").label("stage", "build");
        run = near.map_or(run.clone(), |at| run.near("stage", STAGES[at]));
        run = far.map_or(run.clone(), |at| run.far_from("stage", STAGES[at]));
        for (weight, at) in likes {
            run = run.likes(weight, "stage", STAGES[at]).dislikes(weight, "zone", "x");
        }
        let run = run.build();
        let mut seen: Vec<Observation> = labels.iter().enumerate().map(|(n, (pod, stage))| {
            let target = a_run(&format!("t{n}")).label("stage", STAGES[*stage]).shared();
            active(target, &a_pod(&format!("p{pod}")).build())
        }).collect();
        let profile = standard().build().unwrap();
        let decide = |seen: &[Observation]| {
            let mut book = Book::new();
            for observation in seen {
                book.observe(observation);
            }
            serde_json::to_string(&calculate(&pool.build_from(&book), &run, &profile)).unwrap()
        };
        let first = decide(&seen);
        seen.reverse();
        prop_assert_eq!(first, decide(&seen));
    }

    #[test]
    fn s_11_placing_until_nothing_fits_never_exceeds_capacity(
        pods in pods(),
        asked in prop::collection::vec(1_i64..4, 1..30),
    ) {
        // Pods that start over their capacity stay as they are; nothing is added to them.
        let built = pool(&pods);
        let mut book = built.book();
        let profile = standard().explain(false).build().unwrap();
        let full: Vec<PodName> = built
            .build()
            .pods()
            .iter()
            .filter(|state| book.check_pod(&namespace(), &state.pod).is_err())
            .map(|state| state.pod.name.clone())
            .collect();
        for (at, amount) in asked.into_iter().enumerate() {
            let run = a_run(&format!("new{at}")).asks("runs", amount).shared();
            let snapshot = built.build_from(&book);
            let action = calculate(&snapshot, &run, &profile).action;
            let Action::Bind { pod, .. } = action else { continue };
            prop_assert!(!full.contains(&pod));
            let pod = &snapshot.pod(&pod).unwrap().pod;
            prop_assert!(pod.ready);
            book.reserve(&run, pod).unwrap();
            book.check_pod(&namespace(), pod).unwrap();
        }
    }
}
