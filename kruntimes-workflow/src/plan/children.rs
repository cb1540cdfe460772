//! Which observed Run stands for which step.

use std::collections::{BTreeMap, BTreeSet};

use super::{Child, Ownership, State, StepKey};

type Place<'a> = (&'a str, &'a str, Option<&'a str>);

/// Observed children by step, whatever their order was.
pub(super) struct Children<'a> {
    by_step: BTreeMap<Place<'a>, Vec<&'a Child>>,
    absent: &'a BTreeSet<String>,
}

impl<'a> Children<'a> {
    /// Sorts what was observed. Foreign objects do not exist (W-46).
    pub(super) fn index(state: &'a State) -> Self {
        let mut by_step: BTreeMap<Place<'a>, Vec<&'a Child>> = BTreeMap::new();
        for child in &state.children {
            if child.ownership != Ownership::Foreign {
                let place = (
                    child.job.as_str(),
                    child.step.as_str(),
                    child.action_step.as_deref(),
                );
                by_step.entry(place).or_default().push(child);
            }
        }
        Self {
            by_step,
            absent: &state.absent,
        }
    }

    /// Returns the Run of a step: the recorded one, else the smallest name (W-47, W-48).
    pub(super) fn of(&self, place: Place<'_>, recorded: Option<&str>) -> Option<&'a Child> {
        let candidates = self.by_step.get(&place)?.iter().copied();
        match recorded {
            Some(name) => candidates.into_iter().find(|child| child.name == name),
            None => candidates.min_by(|a, b| a.name.cmp(&b.name)),
        }
    }

    /// Tells whether an uncached read did not find the Run.
    pub(super) fn is_absent(&self, name: &str) -> bool {
        self.absent.contains(name)
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
