//! Generated histories of several workers and a slow, reordering watch.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use jiff::Timestamp;
use kruntimes_core::resources::{self, Amounts};

use crate::book::Observation;
use crate::calculate::calculate;
use crate::decision::Action;
use crate::identity::Namespace;
use crate::pod::Pod;
use crate::profile::Profile;
use crate::run::Run;
use crate::snapshot::Snapshot;
use crate::testing::{a_pod, a_run, active, elsewhere, namespace, pending};

use super::Ledger;

const WORKERS: u64 = 4;
const STEPS: u32 = 80;

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

/// Where a Run is; a place is an index into [`World::pods`].
#[derive(Clone, Copy, Debug, PartialEq)]
enum Life {
    Pending,
    On(usize),
    Ended,
    Gone,
}

/// One version of a Run.
type Version = (Life, Arc<Run>);

/// A name as the API has it, and what of it is still on its way to the book.
struct Subject {
    space: Namespace,
    life: Life,
    run: Arc<Run>,
    /// How often the name was used.
    births: u32,
    known: Version,
    /// Versions that were not delivered yet, oldest first.
    news: VecDeque<Version>,
}

impl Subject {
    fn turn(&mut self, life: Life) {
        self.life = life;
        self.news.push_back((life, Arc::clone(&self.run)));
    }
}

/// What a worker is at: a name, a Pod, and the version of the Run that it read.
enum Work {
    /// It chose from a snapshot that gets older.
    Chosen(usize, usize, Arc<Run>),
    /// It holds a place and is about to write.
    Reserved(usize, usize, Arc<Run>),
}

struct World<'a, L> {
    profile: &'a Profile,
    ledger: L,
    dice: Dice,
    /// Every Pod there ever was.
    pods: Vec<Arc<Pod>>,
    /// Those that are there.
    live: Vec<usize>,
    subjects: Vec<Subject>,
    workers: BTreeMap<u64, Work>,
}

/// Plays one history and checks after every step that no Pod is overcommitted and no Run counted twice or not at all.
///
/// Two namespaces have Runs of equal names on Pods of equal names and UIDs.
/// Runs are placed, retried, deleted and made again, Pods replaced; what the
/// book is shown of that comes late, overtaken by other Runs, and repeatedly.
///
/// # Errors
///
/// Returns the item that broke first. The same seed plays the same history.
pub fn history<L: Ledger>(profile: &Profile, ledger: L, seed: u64) -> Result<(), Broken> {
    let mut dice = Dice(seed);
    let pods: Vec<_> = (0..=dice.at(3))
        .map(|at| {
            a_pod(&format!("p{at}"))
                .offers("runs", dice.amount(4))
                .build()
        })
        .map(Arc::new)
        .collect();
    let mut world = World {
        profile,
        ledger,
        dice,
        live: (0..pods.len()).collect(),
        pods,
        subjects: Vec::new(),
        workers: BTreeMap::new(),
    };
    for at in 0..4 + world.dice.at(5) {
        let subject = world.subject(at);
        world.subjects.push(subject);
    }
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

/// Returns the namespaces that the histories play in.
fn spaces() -> [Namespace; 2] {
    [namespace(), "other".into()]
}

impl<L: Ledger> World<'_, L> {
    fn step(&mut self) {
        let worker = self.dice.below(WORKERS);
        let subject = self.dice.at(self.subjects.len());
        match self.dice.below(18) {
            0..6 => self.work(worker, subject),
            6..11 => {
                self.deliver();
            }
            11 => self.end(subject),
            12 => self.lose(subject),
            13 => self.relist(),
            14 => self.repeat(subject),
            15 => self.delete(subject),
            16 => self.make_again(subject),
            _ => self.replace_pod(),
        }
    }

    /// Makes a Run of a name that both namespaces use.
    fn subject(&mut self, at: usize) -> Subject {
        let space = spaces()[at % 2].clone();
        let run = self.new_run(&space, at / 2, 0);
        Subject {
            space,
            life: Life::Pending,
            births: 0,
            known: (Life::Pending, Arc::clone(&run)),
            run,
            news: VecDeque::new(),
        }
    }

    fn new_run(&mut self, space: &Namespace, name: usize, birth: u32) -> Arc<Run> {
        let run = a_run(&format!("r{name}"))
            .namespace(space.as_str())
            .uid(&format!("{}-{name}-{birth}", space.as_str()))
            .asks("runs", self.dice.amount(3));
        let exclusive = self.dice.below(5) == 0;
        if exclusive { run.exclusive() } else { run }.shared()
    }

    /// Moves a worker on: take and choose, reserve, write.
    fn work(&mut self, worker: u64, subject: usize) {
        match self.workers.remove(&worker) {
            None => self.choose(worker, subject),
            Some(Work::Chosen(subject, pod, run)) => {
                let (profile, now) = (self.profile, Timestamp::UNIX_EPOCH);
                let is_there = self.live.contains(&pod);
                if is_there && self.ledger.reserve(profile, &run, &self.pods[pod], now) {
                    let reserved = Work::Reserved(subject, pod, run);
                    self.workers.insert(worker, reserved);
                }
            }
            Some(Work::Reserved(subject, pod, run)) => match self.dice.below(4) {
                0 => self.ledger.release(self.profile, &run),
                outcome => self.write(subject, pod, &run, outcome == 1),
            },
        }
    }

    fn choose(&mut self, worker: u64, at: usize) {
        let subject = &self.subjects[at];
        let taken = self.workers.values().any(|work| match work {
            Work::Chosen(other, ..) | Work::Reserved(other, ..) => *other == at,
        });
        // A worker acts on no version that is older than the last write of this process.
        let written = subject
            .news
            .iter()
            .any(|(life, _)| matches!(life, Life::On(_)));
        if taken || written || subject.known.0 != Life::Pending {
            return;
        }
        let run = Arc::clone(&subject.known.1);
        let view = self.ledger.view(&subject.space);
        let now = Timestamp::UNIX_EPOCH;
        let pods = self.live.iter().map(|at| Arc::clone(&self.pods[*at]));
        let snapshot = Snapshot::new(now, pods, view);
        let decision = calculate(&snapshot, &run, self.profile);
        let Action::Bind { pod, .. } = decision.action else {
            return;
        };
        let live = self.live.iter().copied();
        let pod = live.into_iter().find(|at| self.pods[*at].name == pod);
        if let Some(pod) = pod {
            self.workers.insert(worker, Work::Chosen(at, pod, run));
        }
    }

    /// The API takes the write unless the Run changed; its answer reaches the book at once, or only with the watch.
    fn write(&mut self, at: usize, pod: usize, read: &Arc<Run>, answered: bool) {
        let subject = &mut self.subjects[at];
        if subject.life != Life::Pending || subject.run != *read {
            self.ledger.release(self.profile, read);
            return;
        }
        subject.turn(Life::On(pod));
        if answered {
            // Versions older than the answer are not shown any more.
            subject.news.clear();
            subject.known = (Life::On(pod), Arc::clone(&subject.run));
            self.repeat(at);
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
        if let Some(version) = self.subjects[at].news.pop_front() {
            self.subjects[at].known = version;
            self.repeat(at);
        }
        true
    }

    /// Shows once more what was shown last.
    fn repeat(&mut self, at: usize) {
        let seen = self.seen(&self.subjects[at].known);
        self.ledger.observe(&seen);
    }

    /// Shows the complete list of a namespace again, as it is known by now.
    fn relist(&mut self) {
        let space = spaces()[self.dice.at(2)].clone();
        let known = self.subjects.iter().filter(|subject| {
            // What is gone is in no list.
            subject.space == space && subject.known.0 != Life::Gone
        });
        let known: Vec<Observation> = known.map(|subject| self.seen(&subject.known)).collect();
        self.ledger.observe_all(&space, &known);
        // Another namespace's list touches nothing here (S-80).
        self.ledger.observe_all(&"another".into(), &[]);
    }

    fn end(&mut self, at: usize) {
        let subject = &mut self.subjects[at];
        if matches!(subject.life, Life::On(_)) {
            subject.turn(Life::Ended);
        }
    }

    /// A Run loses its Pod and waits again, for its next attempt.
    fn lose(&mut self, at: usize) {
        let subject = &mut self.subjects[at];
        if matches!(subject.life, Life::On(_)) {
            subject.run = Arc::new(Run {
                attempt: subject.run.attempt + 1,
                ..Run::clone(&subject.run)
            });
            subject.turn(Life::Pending);
        }
    }

    fn delete(&mut self, at: usize) {
        let subject = &mut self.subjects[at];
        if subject.life != Life::Gone {
            subject.turn(Life::Gone);
        }
    }

    /// A Run of the same name and another UID is made (S-133).
    fn make_again(&mut self, at: usize) {
        if self.subjects[at].life == Life::Gone {
            let (space, birth) = (
                self.subjects[at].space.clone(),
                self.subjects[at].births + 1,
            );
            let run = self.new_run(&space, at / 2, birth);
            let subject = &mut self.subjects[at];
            (subject.run, subject.births) = (run, birth);
            subject.turn(Life::Pending);
        }
    }

    /// A Pod goes, and another one of its name comes; its Runs are given up.
    fn replace_pod(&mut self) {
        let slot = self.dice.at(self.live.len());
        let (old, new) = (self.live[slot], self.pods.len());
        let name = self.pods[old].name.as_str();
        let pod = a_pod(name).uid(&format!("{name}-{new}"));
        let pod = pod.offers("runs", self.dice.amount(4)).build();
        self.pods.push(Arc::new(pod));
        self.live[slot] = new;
        for at in 0..self.subjects.len() {
            if self.subjects[at].life == Life::On(old) {
                self.lose(at);
            }
        }
    }

    fn seen(&self, (life, run): &Version) -> Observation {
        let run = Arc::clone(run);
        match life {
            Life::Pending => pending(run),
            Life::On(pod) => active(run, &self.pods[*pod]),
            Life::Ended | Life::Gone => elsewhere(run),
        }
    }

    fn check(&self) -> Result<(), (&'static str, String)> {
        for space in spaces() {
            for at in 0..self.pods.len() {
                self.check_pod(&space, at)?;
            }
        }
        Ok(())
    }

    fn check_pod(&self, space: &Namespace, at: usize) -> Result<(), (&'static str, String)> {
        let pod = &self.pods[at];
        let counted = self.ledger.used(space, pod);
        let mut really = Amounts::new();
        let mut neighbours = 0_usize;
        let mut exclusive = false;
        let here = self.subjects.iter().filter(|run| run.space == *space);
        for subject in here.filter(|run| run.life == Life::On(at)) {
            resources::add(&mut really, &subject.run.request);
            neighbours += 1;
            exclusive |= subject.run.exclusive;
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
        let quiet = self.workers.is_empty() && self.subjects.iter().all(|s| s.news.is_empty());
        if exceeds(&really, &counted) || (quiet && counted != really) {
            let detail = format!("{} holds {really:?}, counts {counted:?}", pod.name);
            return Err(("S-79", detail));
        }
        Ok(())
    }
}

fn exceeds(amounts: &Amounts, bounds: &Amounts) -> bool {
    let bound = |name: &String| bounds.get(name).copied().unwrap_or_default();
    amounts.iter().any(|(name, amount)| *amount > bound(name))
}
