//! Numbers in the order of names, because numbers compare quickly.

use std::collections::BTreeMap;

use crate::identity::PodName;

/// Distance to a new smallest or largest name.
const STEP: u64 = 1 << 32;

/// The Pods of a pool by name, each with its slot and a number.
///
/// Numbers compare as the names do. A new name gets one between those of its
/// neighbours; where there is none left, all names are numbered anew.
#[derive(Debug, Default)]
pub(super) struct Names(BTreeMap<PodName, Entry>);

#[derive(Clone, Copy, Debug)]
struct Entry {
    slot: usize,
    number: u64,
}

impl Names {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn slot_of(&self, name: &PodName) -> Option<usize> {
        self.0.get(name).map(|entry| entry.slot)
    }

    pub(super) fn remove(&mut self, name: &PodName) -> Option<usize> {
        self.0.remove(name).map(|entry| entry.slot)
    }

    /// Adds a name that is not there; returns the slots with their numbers that are new.
    pub(super) fn insert(&mut self, name: &PodName, slot: usize) -> Vec<(usize, u64)> {
        let below = self.0.range(..name.clone()).next_back();
        let above = self.0.range(name.clone()..).next();
        let number = match (below.map(|(_, e)| e.number), above.map(|(_, e)| e.number)) {
            (None, None) => Some(u64::MAX / 2),
            (Some(below), None) => below.checked_add(STEP),
            (None, Some(above)) => above.checked_sub(STEP),
            (Some(below), Some(above)) => {
                let half = (above - below) / 2;
                (half > 0).then_some(below + half)
            }
        };
        let entry = Entry {
            slot,
            number: number.unwrap_or_default(),
        };
        self.0.insert(name.clone(), entry);
        if number.is_some() {
            return vec![(slot, entry.number)];
        }
        let count = u64::try_from(self.0.len()).unwrap_or(u64::MAX);
        let step = (u64::MAX / 2 / count).clamp(1, STEP);
        let mut next = u64::MAX / 4;
        let renumbered = self.0.values_mut().map(|entry| {
            next += step;
            entry.number = next;
            (entry.slot, next)
        });
        renumbered.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_follow_the_names_however_narrow_it_gets() {
        let mut names = Names::default();
        let mut numbers = BTreeMap::new();
        let mut renumbered = 0;
        // All but the first two go between the first and the one before.
        let narrow = (0..200).map(|at| format!("b{:03}", 999 - at));
        let all = ["a".to_owned(), "c".to_owned()].into_iter().chain(narrow);
        for (slot, name) in all.enumerate() {
            let changed = names.insert(&name.into(), slot);
            renumbered += usize::from(changed.len() > 1);
            numbers.extend(changed);
            let in_order: Vec<u64> = names.0.values().map(|e| numbers[&e.slot]).collect();
            assert!(in_order.is_sorted_by(|a, b| a < b), "after {slot}");
        }
        assert!(renumbered > 2, "the case is narrow enough: {renumbered}");
    }
}
