//! The greedy pass over many Runs.

use std::sync::Arc;

use crate::book::Taken;
use crate::decision::{Action, CycleError, Decision};
use crate::event::Event;
use crate::gate::Gate;
use crate::pod::Pod;
use crate::profile::Profile;
use crate::queueing::Held;
use crate::run::Run;
use crate::waiting;

use super::fleet::Fleet;
use super::order::{Unit, deduplicated, units};
use super::world::World;

/// Condition and reason of the members of a group that is not complete (S-171).
const GROUP_INCOMPLETE: &str = "GroupIncomplete";

/// A Run that may be planned.
#[derive(Clone, Debug)]
pub struct Candidate {
    run: Arc<Run>,
    closed: Option<Gate>,
}

impl Candidate {
    /// Makes a Run that passed all gates.
    pub fn new(run: impl Into<Arc<Run>>) -> Self {
        Self {
            run: run.into(),
            closed: None,
        }
    }

    /// Makes a Run about which a gate has spoken; only [`Gate::Cycle`] lets it pass (S-167).
    pub fn gated(run: impl Into<Arc<Run>>, gate: Gate) -> Self {
        let closed = match gate {
            Gate::Cycle(_) => None,
            Gate::Ignore | Gate::Cancel | Gate::Invalid(_) | Gate::Backoff(_) => Some(gate),
        };
        Self {
            run: run.into(),
            closed,
        }
    }
}

/// How far one batch goes (S-172).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Runs to decide. A group is not cut; if it does not fit, it is deferred, unless it is the first.
    pub runs: usize,
    /// Pods to look at, all cycles together. The first cycle takes place in any case.
    pub evaluations: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            runs: 256,
            evaluations: u64::MAX,
        }
    }
}

/// What became of one Run of a batch.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// A cycle decided; for a bind the place is counted for the Runs that follow.
    Decided(Decision),
    /// A cycle chose a Pod on which the Run has no room, as only a profile without the test for room does.
    Taken(Decision, Taken),
    /// A limit was reached before the Run's turn.
    Deferred,
    /// A plugin holds the Run back from the queue.
    Held(Held),
    /// The plugin that was to say so failed.
    Failed(CycleError),
    /// A gate is closed.
    Gated(Gate),
}

/// A Run and what became of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Planned {
    /// The Run.
    pub run: Arc<Run>,
    /// What became of it.
    pub outcome: Outcome,
    /// The Pod, for a bind.
    pub pod: Option<Arc<Pod>>,
}

/// What becomes of every Run of a batch (S-167).
#[derive(Clone, Debug, PartialEq)]
pub struct BatchPlan {
    /// Decided Runs in the order of their decisions, then deferred ones, then those that were not considered.
    pub planned: Vec<Planned>,
    /// Pods that were looked at.
    pub evaluations: u64,
}

impl BatchPlan {
    /// Returns the Runs that are to be bound, in order.
    pub fn binds(&self) -> impl Iterator<Item = (&Arc<Run>, &Arc<Pod>)> {
        let planned = self.planned.iter();
        planned.filter_map(|planned| Some((&planned.run, planned.pod.as_ref()?)))
    }
}

/// Plans many Runs one after the other, each with the places of the earlier ones taken (S-167).
///
/// No decision is revised because of a later Run, with two exceptions: a Run
/// that waits for a target is looked at again when the batch places one
/// (S-170), and a group is placed completely or not at all (S-171). What a
/// Reserve or Permit plugin would say is not asked: that is for the apply,
/// where every reserve checks again (S-174).
///
/// With a profile for which an [`Index`](crate::Index) is quick, the scores of
/// a bind are those of the winner alone.
pub fn plan_batch(
    fleet: &Fleet,
    candidates: impl IntoIterator<Item = Candidate>,
    profile: &Profile,
    limits: Limits,
) -> BatchPlan {
    let candidates = deduplicated(candidates.into_iter().collect(), |c: &Candidate| &c.run);
    let mut apart = Vec::new();
    let mut runs = Vec::new();
    for Candidate { run, closed } in candidates {
        let outcome = match (closed, profile.held(&run, fleet.now())) {
            (Some(gate), _) => Outcome::Gated(gate),
            (None, Ok(None)) => {
                runs.push(run);
                continue;
            }
            (None, Ok(Some(held))) => Outcome::Held(held),
            (None, Err(error)) => Outcome::Failed(error),
        };
        apart.push(Planned::without_pod(run, outcome));
    }
    let mut planner = Planner {
        fleet,
        profile,
        limits,
        world: World::new(fleet, profile, runs.len()),
        decided: Vec::new(),
        waiting: Vec::new(),
        decisions: 0,
        evaluations: 0,
    };
    let deferred = planner.pass(units(profile, runs, fleet.now()));
    planner.settle();
    let waiting = planner.waiting.into_iter().map(|unit| unit.decided);
    let mut decided: Vec<Sequenced> = planner.decided;
    decided.extend(waiting.flatten());
    decided.sort_by_key(|sequenced| sequenced.at);
    let planned = decided.into_iter().map(|sequenced| sequenced.planned);
    let deferred = deferred.into_iter();
    let deferred = deferred.map(|run| Planned::without_pod(run, Outcome::Deferred));
    BatchPlan {
        planned: planned.chain(deferred).chain(apart).collect(),
        evaluations: planner.evaluations,
    }
}

impl Planned {
    fn without_pod(run: Arc<Run>, outcome: Outcome) -> Self {
        Self {
            run,
            outcome,
            pod: None,
        }
    }

    /// Returns the plugins that rejected the Run, if it waits.
    fn rejected_by(&self) -> Option<Vec<&'static str>> {
        let Outcome::Decided(decision) = &self.outcome else {
            return None;
        };
        if !matches!(decision.action, Action::Wait { .. }) {
            return None;
        }
        let by = decision.rejections.iter().map(|seen| seen.plugin);
        Some(by.collect())
    }
}

/// A decision and when it was made.
#[derive(Clone)]
struct Sequenced {
    at: u64,
    planned: Planned,
}

/// A unit that was not placed.
struct Waiting {
    unit: Unit,
    decided: Vec<Sequenced>,
    rejected_by: Vec<(Arc<Run>, Vec<&'static str>)>,
    /// Whether a placement since then can help.
    hopeful: bool,
}

struct Planner<'a> {
    fleet: &'a Fleet,
    profile: &'a Profile,
    limits: Limits,
    world: World<'a>,
    decided: Vec<Sequenced>,
    waiting: Vec<Waiting>,
    decisions: u64,
    evaluations: u64,
}

impl Planner<'_> {
    /// Plans every unit once and returns the Runs that a limit cut off.
    fn pass(&mut self, units: Vec<Unit>) -> Vec<Arc<Run>> {
        let mut count = 0_usize;
        let mut units = units.into_iter();
        while let Some(unit) = units.next() {
            let next = count.saturating_add(unit.len());
            let cut = count > 0 && next > self.limits.runs;
            if cut || !self.plan(unit.clone()) {
                return unit.into_iter().chain(units.flatten()).collect();
            }
            count = next;
        }
        Vec::new()
    }

    /// Looks again at units that a placement can have helped, until nothing changes (S-170).
    fn settle(&mut self) {
        let most = self.waiting.iter().map(|waiting| waiting.unit.len()).sum();
        for _ in 0..most {
            let (again, rest): (Vec<_>, Vec<_>) = std::mem::take(&mut self.waiting)
                .into_iter()
                .partition(|waiting| waiting.hopeful);
            self.waiting = rest;
            if again.is_empty() {
                return;
            }
            for waiting in again {
                if !self.plan(waiting.unit.clone()) {
                    // The budget is used up: what was decided before stands.
                    self.waiting.push(Waiting {
                        hopeful: false,
                        ..waiting
                    });
                }
            }
        }
    }

    /// Plans one unit; tells whether the budget allowed it.
    fn plan(&mut self, unit: Unit) -> bool {
        let Some(tried) = self.attempt(&unit) else {
            return false;
        };
        if tried
            .iter()
            .all(|sequenced| sequenced.planned.pod.is_some())
        {
            for sequenced in &tried {
                self.encourage(&sequenced.planned.run);
            }
            self.decided.extend(tried);
            return true;
        }
        let rejected_by = tried.iter().filter_map(|sequenced| {
            let by = sequenced.planned.rejected_by()?;
            Some((Arc::clone(&sequenced.planned.run), by))
        });
        let rejected_by = rejected_by.collect();
        let decided = if unit[0].group.is_some() {
            self.withdraw(tried)
        } else {
            tried
        };
        self.waiting.push(Waiting {
            unit,
            decided,
            rejected_by,
            hopeful: false,
        });
        true
    }

    /// Decides every member of a unit, those that attract one another as often as it helps.
    ///
    /// Whatever was placed is in the book afterwards. Nothing, when the budget does not allow it.
    fn attempt(&mut self, unit: &Unit) -> Option<Vec<Sequenced>> {
        let mut tried: Vec<Sequenced> = Vec::with_capacity(unit.len());
        let mut open: Vec<Arc<Run>> = unit.clone();
        while !open.is_empty() {
            let mut placed = Vec::new();
            for run in &open {
                let Some(planned) = self.decide(run) else {
                    for sequenced in &tried {
                        self.give_up(&sequenced.planned);
                    }
                    return None;
                };
                placed.extend(planned.pod.as_ref().map(|_| Arc::clone(run)));
                tried.retain(|earlier| earlier.planned.run.uid != run.uid);
                self.decisions += 1;
                tried.push(Sequenced {
                    at: self.decisions,
                    planned,
                });
            }
            open = (tried.iter())
                .filter(|sequenced| self.is_helped(&sequenced.planned, &placed))
                .map(|sequenced| Arc::clone(&sequenced.planned.run))
                .collect();
        }
        Some(tried)
    }

    /// Runs one cycle and takes the place in the planner's own book.
    fn decide(&mut self, run: &Arc<Run>) -> Option<Planned> {
        let pods = u64::try_from(self.fleet.pods_for(run)).unwrap_or(u64::MAX);
        let budget = self.limits.evaluations;
        if self.evaluations > 0 && self.evaluations.saturating_add(pods) > budget {
            return None;
        }
        let (decision, pod) = self.world.decide(run);
        self.evaluations = self.evaluations.saturating_add(decision.evaluated);
        let run = Arc::clone(run);
        let Some(pod) = pod else {
            return Some(Planned::without_pod(run, Outcome::Decided(decision)));
        };
        Some(match self.world.reserve(&run, &pod) {
            Ok(()) => Planned {
                run,
                outcome: Outcome::Decided(decision),
                pod: Some(pod),
            },
            Err(taken) => Planned::without_pod(run, Outcome::Taken(decision, taken)),
        })
    }

    fn give_up(&mut self, planned: &Planned) {
        if planned.pod.is_some() {
            self.world.release(&planned.run);
        }
    }

    /// Gives the places of an incomplete group back, and tells its members (S-171).
    fn withdraw(&mut self, tried: Vec<Sequenced>) -> Vec<Sequenced> {
        let mut withdrawn = Vec::with_capacity(tried.len());
        for Sequenced { at, mut planned } in tried {
            self.give_up(&planned);
            planned.pod = None;
            if let Outcome::Decided(decision) = &mut planned.outcome
                && matches!(decision.action, Action::Bind { .. } | Action::Wait { .. })
            {
                decision.action = Action::Wait {
                    message: waiting::for_pods(&planned.run),
                    condition: GROUP_INCOMPLETE,
                    reasons: vec![GROUP_INCOMPLETE],
                };
            }
            withdrawn.push(Sequenced { at, planned });
        }
        withdrawn
    }

    /// Tells whether one of `targets` can help a Run that waits.
    fn is_helped(&self, planned: &Planned, targets: &[Arc<Run>]) -> bool {
        let Some(by) = planned.rejected_by() else {
            return false;
        };
        targets.iter().any(|target| {
            let event = Event::RunActive { run: target };
            self.profile.wakes(&event, &planned.run, &by)
        })
    }

    /// Marks every waiting unit that a new target can help.
    fn encourage(&mut self, target: &Arc<Run>) {
        let event = Event::RunActive { run: target };
        for waiting in self.waiting.iter_mut().filter(|waiting| !waiting.hopeful) {
            let mut rejected = waiting.rejected_by.iter();
            waiting.hopeful = rejected.any(|(run, by)| self.profile.wakes(&event, run, by));
        }
    }
}
