//! Which observed Run stands for which step.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use super::{Called, Child, Ownership, State, StepKey, Workspace};
use crate::graph::Places;

/// A step and, within it, an Action step.
pub(super) type Place<'a> = (&'a str, Option<&'a str>);

/// Observed children, found by job and step whatever their order was.
///
/// Foreign objects do not exist (W-46).
pub(super) struct Children<'a> {
    known: Known<'a>,
    absent: &'a BTreeSet<String>,
}

enum Known<'a> {
    /// All children of a WorkflowRun.
    All {
        runs: Lists<'a>,
        calls: BTreeMap<&'a str, &'a Called>,
        workspaces: BTreeMap<&'a str, &'a Workspace>,
    },
    /// The Runs of one job, and everything that is found by its name.
    Job {
        runs: &'a Family,
        calls: &'a BTreeMap<String, Called>,
        workspaces: &'a BTreeMap<String, Workspace>,
    },
}

impl<'a> Children<'a> {
    /// Sorts what was observed.
    pub(super) fn index(state: &'a State) -> Self {
        let runs = Lists::of(state);
        let mut calls = BTreeMap::new();
        let ours = |called: &&Called| called.ownership != Ownership::Foreign;
        for called in state.calls.iter().filter(ours) {
            calls.entry(called.name.as_str()).or_insert(called);
        }
        let mut workspaces = BTreeMap::new();
        for workspace in &state.workspaces {
            workspaces
                .entry(workspace.name.as_str())
                .or_insert(workspace);
        }
        Self {
            known: Known::All {
                runs,
                calls,
                workspaces,
            },
            absent: &state.absent,
        }
    }

    /// Knows the Runs of one job.
    pub(super) fn of_one(
        runs: &'a Family,
        calls: &'a BTreeMap<String, Called>,
        workspaces: &'a BTreeMap<String, Workspace>,
        absent: &'a BTreeSet<String>,
    ) -> Self {
        let known = Known::Job {
            runs,
            calls,
            workspaces,
        };
        Self { known, absent }
    }

    /// Returns the Run of a step: the recorded one, else the smallest name (W-47, W-48).
    pub(super) fn of(
        &self,
        job: &str,
        place: Place<'_>,
        recorded: Option<&str>,
    ) -> Option<&'a Child> {
        match &self.known {
            Known::All { runs, .. } => {
                let runs = runs.of_job(job);
                chosen(runs.len(), |at| runs[at], place, recorded)
            }
            Known::Job { runs, .. } => {
                let runs = &runs.sorted;
                chosen(runs.len(), |at| &runs[at], place, recorded)
            }
        }
    }

    /// Iterates over all Runs of a job.
    pub(super) fn runs(&self, job: &str) -> impl Iterator<Item = &'a Child> + use<'a, '_> {
        let (all, one) = match &self.known {
            Known::All { runs, .. } => (runs.of_job(job), &[][..]),
            Known::Job { runs, .. } => (&[][..], runs.sorted.as_slice()),
        };
        all.iter().copied().chain(one)
    }

    /// Finds a child WorkflowRun.
    pub(super) fn call(&self, name: &str) -> Option<&'a Called> {
        match &self.known {
            Known::All { calls, .. } => calls.get(name).copied(),
            Known::Job { calls, .. } => {
                let found = calls.get(name);
                found.filter(|called| called.ownership != Ownership::Foreign)
            }
        }
    }

    /// Finds a job workspace.
    pub(super) fn workspace(&self, name: &str) -> Option<&'a Workspace> {
        match &self.known {
            Known::All { workspaces, .. } => workspaces.get(name).copied(),
            Known::Job { workspaces, .. } => workspaces.get(name),
        }
    }

    /// Tells whether an uncached read did not find the Run.
    pub(super) fn is_absent(&self, name: &str) -> bool {
        self.absent.contains(name)
    }
}

/// Runs by job, sorted by step where somebody may look for one.
struct Lists<'a> {
    jobs: Vec<&'a str>,
    places: Places,
    runs: Vec<Vec<&'a Child>>,
}

impl<'a> Lists<'a> {
    fn of(state: &'a State) -> Self {
        let known = || state.status.jobs.iter().flatten();
        let jobs: Vec<&str> = known().map(|(name, _)| name.as_str()).collect();
        let places = Places::of(&jobs);
        let mut runs: Vec<Vec<&Child>> = vec![Vec::new(); jobs.len()];
        let ours = |child: &&Child| child.ownership != Ownership::Foreign;
        for child in state.children.iter().filter(ours) {
            if let Some(at) = places.find(&jobs, &child.job) {
                runs[at].push(child);
            }
        }
        for ((_, job), runs) in known().zip(&mut runs) {
            // What settled is not looked at again.
            if !job.phase.is_settled() {
                runs.sort_unstable_by(|a, b| compare(a, place_of(b), &b.name));
            }
        }
        Self { jobs, places, runs }
    }

    fn of_job(&self, job: &str) -> &[&'a Child] {
        let place = self.places.find(&self.jobs, job);
        place.map_or(&[][..], |at| &self.runs[at])
    }
}

fn place_of(child: &Child) -> Place<'_> {
    (&child.step, child.action_step.as_deref())
}

fn compare(child: &Child, place: Place<'_>, name: &str) -> Ordering {
    let by_name = || child.name.as_str().cmp(name);
    place_of(child).cmp(&place).then_with(by_name)
}

/// Picks among sorted Runs.
fn chosen<'a>(
    count: usize,
    run: impl Fn(usize) -> &'a Child,
    place: Place<'_>,
    recorded: Option<&str>,
) -> Option<&'a Child> {
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = low.midpoint(high);
        match compare(run(middle), place, recorded.unwrap_or_default()) {
            Ordering::Less => low = middle + 1,
            Ordering::Equal | Ordering::Greater => high = middle,
        }
    }
    let found = (low < count).then(|| run(low))?;
    let is_it = recorded.is_none_or(|name| found.name == name);
    (place_of(found) == place && is_it).then_some(found)
}

/// The Runs of one job, sorted by step.
#[derive(Clone, Debug, Default)]
pub(super) struct Family {
    sorted: Vec<Child>,
}

impl Family {
    /// Takes in what a Run looks like now.
    pub(super) fn put(&mut self, child: Child) {
        let search = |known: &Child| compare(known, place_of(&child), &child.name);
        let found = self.sorted.binary_search_by(search);
        match found {
            Ok(at) if child.ownership == Ownership::Foreign => {
                self.sorted.remove(at);
            }
            Ok(at) => self.sorted[at] = child,
            Err(_) if child.ownership == Ownership::Foreign => {}
            Err(at) => {
                // Most jobs have one Run; room for more is made when there are more.
                if self.sorted.is_empty() {
                    self.sorted.reserve_exact(1);
                }
                self.sorted.insert(at, child);
            }
        }
    }

    /// Forgets a Run.
    pub(super) fn remove(&mut self, name: &str) {
        self.sorted.retain(|child| child.name != name);
    }

    /// Gives the Runs back.
    pub(super) fn into_runs(self) -> Vec<Child> {
        self.sorted
    }
}

/// Returns the direct children that are not terminal, sorted by name.
///
/// An object without controller counts only if its labels name a step (W-48).
pub(super) fn unfinished(state: &State, is_step: impl Fn(&StepKey) -> bool) -> Vec<&Child> {
    let counts = |child: &&Child| match child.ownership {
        Ownership::Controlled => true,
        Ownership::Orphan => is_step(&StepKey {
            job: child.job.clone(),
            step: child.step.clone(),
            action_step: child.action_step.clone(),
        }),
        Ownership::Foreign => false,
    };
    let mut found: Vec<_> = state
        .children
        .iter()
        .filter(|child| !child.phase.is_terminal())
        .filter(counts)
        .collect();
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}
