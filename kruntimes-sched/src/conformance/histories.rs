//! Generated histories of several workers and a slow, reordering watch.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use jiff::Timestamp;
use kruntimes_core::resources::{self, Amounts};

use crate::book::Observation;
use crate::calculate::calculate;
use crate::decision::Action;
use crate::pod::Pod;
use crate::profile::Profile;
use crate::run::Run;
use crate::snapshot::Snapshot;
use crate::testing::{a_pod, a_run, active, elsewhere, namespace, pending};

use super::Ledger;

const WORKERS: u64 = 4;
const STEPS: u32 = 64;

/// What a history broke.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// Number of the item.
    pub item: &'static str,
    /// The step after which it does not hold.
    pub step: u32,
    /// What was found.
    pub detail: String,
}

/// Numbers that look random and follow from a seed alone (SplitMix64).
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    fn at(&mut self, length: usize) -> usize {
        let bound = u64::try_from(length).unwrap_or(u64::MAX);
        usize::try_from(self.below(bound)).unwrap_or(0)
    }

    fn amount(&mut self, most: u64) -> i64 {
        i64::try_from(1 + self.below(most)).unwrap_or(1)
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Life {
    Pending,
    On(usize),
    Ended,
}

/// A Run as the API has it, and what of it is still on its way to the book.
struct Subject {
    run: Run,
    life: Life,
    known: Life,
    /// Versions that were not delivered yet, oldest first.
    news: VecDeque<(Life, i32)>,
}

/// What a worker is at.
enum Work {
    /// It chose from a snapshot that gets older.
    Chosen(usize, usize),
    /// It holds a place and is about to write.
    Reserved(usize, usize),
}

struct World<'a, L> {
    profile: &'a Profile,
    ledger: L,
    dice: Dice,
    pods: Vec<Arc<Pod>>,
    subjects: Vec<Subject>,
    workers: BTreeMap<u64, Work>,
}

/// Plays one history and checks after every step that no Pod is overcommitted and no Run counted twice or not at all.
///
/// # Errors
///
/// Returns the item that broke first. The same seed plays the same history.
pub fn history<L: Ledger>(profile: &Profile, ledger: L, seed: u64) -> Result<(), Broken> {
    let mut dice = Dice(seed);
    let pods = (0..=dice.at(3)).map(|at| {
        let pod = a_pod(&format!("p{at}")).offers("runs", dice.amount(4));
        Arc::new(pod.build())
    });
    let pods = pods.collect();
    let subjects = (0..4 + dice.at(5)).map(|at| {
        let run = a_run(&format!("r{at}")).asks("runs", dice.amount(3));
        let exclusive = dice.below(5) == 0;
        Subject {
            run: if exclusive { run.exclusive() } else { run }.build(),
            life: Life::Pending,
            known: Life::Pending,
            news: VecDeque::new(),
        }
    });
    let subjects = subjects.collect();
    let mut world = World {
        profile,
        ledger,
        dice,
        pods,
        subjects,
        workers: BTreeMap::new(),
    };
    for step in 0..STEPS {
        world.step();
        world
            .check()
            .map_err(|(item, detail)| Broken { item, step, detail })?;
    }
    while world.deliver() {
        let broken = |(item, detail)| Broken {
            item,
            step: STEPS,
            detail,
        };
        world.check().map_err(broken)?;
    }
    Ok(())
}

impl<L: Ledger> World<'_, L> {
    fn step(&mut self) {
        let worker = self.dice.below(WORKERS);
        let subject = self.dice.at(self.subjects.len());
        match self.dice.below(12) {
            0..5 => self.work(worker, subject),
            5..9 => {
                self.deliver();
            }
            9 => self.end(subject),
            10 => self.lose(subject),
            _ => self.relist(),
        }
    }

    /// Moves a worker on: take and choose, reserve, write.
    fn work(&mut self, worker: u64, subject: usize) {
        match self.workers.remove(&worker) {
            None => self.choose(worker, subject),
            Some(Work::Chosen(subject, pod)) => {
                let run = Arc::new(self.subjects[subject].run.clone());
                let (profile, now) = (self.profile, Timestamp::UNIX_EPOCH);
                if self.ledger.reserve(profile, &run, &self.pods[pod], now) {
                    self.workers.insert(worker, Work::Reserved(subject, pod));
                }
            }
            Some(Work::Reserved(subject, pod)) => match self.dice.below(4) {
                0 => self
                    .ledger
                    .release(self.profile, &self.subjects[subject].run),
                outcome => self.write(subject, pod, outcome == 1),
            },
        }
    }

    fn choose(&mut self, worker: u64, at: usize) {
        let subject = &self.subjects[at];
        let taken = self.workers.values().any(|work| match work {
            Work::Chosen(other, _) | Work::Reserved(other, _) => *other == at,
        });
        // A worker acts on no version that is older than the last write of this process.
        let written = subject
            .news
            .iter()
            .any(|(life, _)| matches!(life, Life::On(_)));
        if taken || written || subject.known != Life::Pending {
            return;
        }
        let view = self.ledger.view(&namespace());
        let now = Timestamp::UNIX_EPOCH;
        let snapshot = Snapshot::new(now, self.pods.iter().cloned(), view);
        let decision = calculate(&snapshot, &subject.run, self.profile);
        let Action::Bind { pod, .. } = decision.action else {
            return;
        };
        if let Some(pod) = self.pods.iter().position(|other| other.name == pod) {
            self.workers.insert(worker, Work::Chosen(at, pod));
        }
    }

    /// The API takes the write; its answer reaches the book at once, or only with the watch.
    fn write(&mut self, at: usize, pod: usize, answered: bool) {
        let subject = &mut self.subjects[at];
        subject.life = Life::On(pod);
        subject.news.push_back((Life::On(pod), subject.run.attempt));
        if answered {
            // Versions older than the answer are not shown any more.
            subject.news.clear();
            subject.known = Life::On(pod);
            let seen = self.seen(at, Life::On(pod), self.subjects[at].run.attempt);
            self.ledger.observe(&seen);
        }
    }

    /// Delivers the oldest version of some Run; Runs overtake each other.
    fn deliver(&mut self) -> bool {
        let waiting: Vec<usize> = (0..self.subjects.len())
            .filter(|at| !self.subjects[*at].news.is_empty())
            .collect();
        if waiting.is_empty() {
            return false;
        }
        let at = waiting[self.dice.at(waiting.len())];
        if let Some((life, attempt)) = self.subjects[at].news.pop_front() {
            self.subjects[at].known = life;
            let seen = self.seen(at, life, attempt);
            self.ledger.observe(&seen);
        }
        true
    }

    /// Shows the complete list again, as it is known by now.
    fn relist(&mut self) {
        let known = (0..self.subjects.len()).map(|at| {
            let subject = &self.subjects[at];
            let oldest = subject.news.front().map(|(_, attempt)| *attempt);
            let attempt = oldest.unwrap_or(subject.run.attempt);
            // A version that lost its Pod starts the next attempt.
            let lost = subject
                .news
                .front()
                .is_some_and(|(life, _)| *life == Life::Pending);
            self.seen(at, subject.known, attempt - i32::from(lost))
        });
        let known: Vec<Observation> = known.collect();
        self.ledger.observe_all(&namespace(), &known);
        // Another namespace's list touches nothing here (S-80).
        self.ledger.observe_all(&"another".into(), &[]);
    }

    fn end(&mut self, at: usize) {
        let subject = &mut self.subjects[at];
        if matches!(subject.life, Life::On(_)) {
            subject.life = Life::Ended;
            subject.news.push_back((Life::Ended, subject.run.attempt));
        }
    }

    /// A Run loses its Pod and waits again, for its next attempt.
    fn lose(&mut self, at: usize) {
        let subject = &mut self.subjects[at];
        if matches!(subject.life, Life::On(_)) {
            subject.run.attempt += 1;
            subject.life = Life::Pending;
            subject.news.push_back((Life::Pending, subject.run.attempt));
        }
    }

    fn seen(&self, at: usize, life: Life, attempt: i32) -> Observation {
        let run = Arc::new(Run {
            attempt,
            ..self.subjects[at].run.clone()
        });
        match life {
            Life::Pending => pending(run),
            Life::On(pod) => active(run, &self.pods[pod]),
            Life::Ended => elsewhere(run),
        }
    }

    fn check(&self) -> Result<(), (&'static str, String)> {
        for (at, pod) in self.pods.iter().enumerate() {
            let counted = self.ledger.used(&namespace(), pod);
            let mut really = Amounts::new();
            let mut neighbours = 0_usize;
            let mut exclusive = false;
            for subject in &self.subjects {
                if subject.life == Life::On(at) {
                    resources::add(&mut really, &subject.run.request);
                    neighbours += 1;
                    exclusive |= subject.run.exclusive;
                }
            }
            if exceeds(&counted, &pod.capacity) {
                return Err(("S-81", format!("{} counts {counted:?}", pod.name)));
            }
            if exceeds(&really, &pod.capacity) {
                return Err(("S-81", format!("{} really holds {really:?}", pod.name)));
            }
            if exclusive && neighbours > 1 {
                return Err(("S-54", format!("{} is shared", pod.name)));
            }
            if exceeds(&really, &counted) {
                let detail = format!("{} holds {really:?}, counts {counted:?}", pod.name);
                return Err(("S-79", detail));
            }
            let quiet = self.workers.is_empty() && self.subjects.iter().all(|s| s.news.is_empty());
            if quiet && counted != really {
                let detail = format!("{} holds {really:?}, counts {counted:?}", pod.name);
                return Err(("S-79", detail));
            }
        }
        Ok(())
    }
}

fn exceeds(amounts: &Amounts, bounds: &Amounts) -> bool {
    let bound = |name: &String| bounds.get(name).copied().unwrap_or_default();
    amounts.iter().any(|(name, amount)| *amount > bound(name))
}
