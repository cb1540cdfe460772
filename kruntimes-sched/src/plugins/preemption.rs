//! Who would have to go for an important Run.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::identity::RunUid;
use crate::plugin::Broken;
use crate::post_filter::{Nomination, PostFilter, Trial, Victim};
use crate::run::Run;
use crate::snapshot::PodState;

/// Sets of victims tried per Pod unless configured otherwise.
const TRIALS: u32 = 1_000;

/// Nominates the Pod from which the fewest and least important active Runs would have to go (S-160).
///
/// Only Runs of strictly lower priority are considered, and on every Pod the
/// smallest set whose removal satisfies all filters. Sets are compared by
/// their size, then by the highest priority in them, then the youngest go
/// first, then the Pod's name decides. Off unless added to a profile.
///
/// The work is bounded: after a number of tries a Pod's set is no longer
/// searched for but found by sparing the most important Runs one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Preemption {
    /// Sets of victims tried per Pod before the search ends.
    pub trials: u32,
}

impl Default for Preemption {
    fn default() -> Self {
        Self { trials: TRIALS }
    }
}

/// What is compared between sets of victims; smaller is better.
type Cost = (usize, i32, Reverse<Option<Timestamp>>);

/// A question asked again and again with another set of Runs gone, a limited number of times.
struct Search<'a> {
    trial: &'a Trial<'a>,
    state: &'a PodState,
    left: u32,
}

impl Search<'_> {
    fn fits_without(&mut self, gone: &[Arc<Run>]) -> bool {
        let uids: BTreeSet<RunUid> = gone.iter().map(|run| run.uid.clone()).collect();
        self.trial.fits_without(&self.state.pod.name, &uids)
    }

    /// Returns the best set of `size` victims, or nothing; `Err` when the tries are used up.
    fn smallest(&mut self, from: &[Arc<Run>], size: usize) -> Result<Option<Vec<Arc<Run>>>, ()> {
        let mut best: Option<(Cost, Vec<Arc<Run>>)> = None;
        let mut chosen: Vec<usize> = (0..size).collect();
        loop {
            self.left = self.left.checked_sub(1).ok_or(())?;
            let set: Vec<Arc<Run>> = chosen.iter().map(|at| Arc::clone(&from[*at])).collect();
            let cost = cost(&set);
            if best.as_ref().is_none_or(|(least, _)| cost < *least) && self.fits_without(&set) {
                best = Some((cost, set));
            }
            if !advance(&mut chosen, from.len()) {
                return Ok(best.map(|(_, set)| set));
            }
        }
    }

    /// Spares the most important Runs as long as the rest makes room.
    fn spared(&mut self, from: &[Arc<Run>]) -> Vec<Arc<Run>> {
        let mut gone = from.to_vec();
        for run in from.iter().rev() {
            let without: Vec<_> = gone.iter().filter(|g| g.uid != run.uid).cloned().collect();
            if self.fits_without(&without) {
                gone = without;
            }
        }
        gone
    }
}

/// Moves to the next combination of positions below `count`, in lexical order.
fn advance(chosen: &mut [usize], count: usize) -> bool {
    let size = chosen.len();
    let Some(at) = (0..size).rev().find(|at| chosen[*at] < count - size + at) else {
        return false;
    };
    chosen[at] += 1;
    for next in at + 1..size {
        chosen[next] = chosen[next - 1] + 1;
    }
    true
}

fn cost(set: &[Arc<Run>]) -> Cost {
    let highest = set.iter().map(|run| run.priority).max().unwrap_or(i32::MIN);
    let oldest = set.iter().map(|run| run.created).min().flatten();
    (set.len(), highest, Reverse(oldest))
}

impl Preemption {
    /// Returns the smallest set of victims on one Pod, if any makes room.
    fn victims(self, trial: &Trial<'_>, state: &PodState) -> Option<Vec<Arc<Run>>> {
        let run = trial.run();
        let mut lower: Vec<Arc<Run>> = (state.occupancy.others(&run.uid))
            .filter(|hold| hold.run.priority < run.priority)
            .map(|hold| Arc::clone(&hold.run))
            .collect();
        lower.sort_by_key(|run| (run.priority, Reverse(run.created), run.uid.clone()));
        let mut search = Search {
            trial,
            state,
            left: self.trials,
        };
        for size in 1..=lower.len() {
            match search.smallest(&lower, size) {
                Ok(Some(found)) => return Some(found),
                Ok(None) => {}
                Err(()) if search.fits_without(&lower) => return Some(search.spared(&lower)),
                Err(()) => return None,
            }
        }
        None
    }
}

impl PostFilter for Preemption {
    fn name(&self) -> &'static str {
        "Preemption"
    }

    fn nominate(&self, trial: &Trial<'_>) -> Result<Option<Nomination>, Broken> {
        let pods = trial.snapshot().pods().iter();
        let found = pods.filter_map(|state| Some((state, self.victims(trial, state)?)));
        // Pods come in name order and the first of equals is taken.
        let best = found.min_by_key(|(_, victims)| cost(victims));
        Ok(best.map(|(state, mut victims)| {
            victims.sort_by(|a, b| a.uid.cmp(&b.uid));
            Nomination {
                pod: state.pod.name.clone(),
                pod_uid: state.pod.uid.clone(),
                victims: (victims.iter())
                    .map(|run| Victim {
                        name: run.name.clone(),
                        uid: run.uid.clone(),
                    })
                    .collect(),
            }
        }))
    }
}
