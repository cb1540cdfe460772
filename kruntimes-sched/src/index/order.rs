//! Pods by load, then by name, with counting; kept only for Runs with wishes.

use std::cmp::Ordering;

use super::lead::Filed;
use super::weight::Weight;

/// Entries of a full chunk.
const FULL: usize = 32;

#[derive(Clone, Debug)]
struct Entry {
    filed: Filed,
    slot: usize,
}

/// Neighbours, at least one.
#[derive(Clone, Debug)]
struct Chunk {
    /// What the first entry is filed under.
    first: Filed,
    entries: Vec<Entry>,
    /// The smallest name with its slot.
    least: (u64, usize),
}

impl Chunk {
    fn of(entries: Vec<Entry>) -> Option<Self> {
        Some(Self {
            first: entries.first()?.filed.clone(),
            least: least(&entries)?,
            entries,
        })
    }

    /// Takes in that an entry came or went.
    fn adjust(&mut self, place: usize) {
        if place == 0
            && let Some(first) = self.entries.first()
        {
            self.first = first.filed.clone();
        }
    }
}

/// Returns the smallest name with its slot.
fn least(entries: &[Entry]) -> Option<(u64, usize)> {
    let names = entries.iter().map(|entry| (entry.filed.name, entry.slot));
    names.min()
}

/// An ordered set of slots that knows the position of each, and the smallest name between two positions.
///
/// The entries lie side by side in chunks of limited size, so that most of a
/// search stays within few lines of memory.
#[derive(Clone, Debug, Default)]
pub(super) struct Order {
    chunks: Vec<Chunk>,
    filed: Vec<Option<Filed>>,
    len: usize,
}

impl Order {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Returns the weight under which a slot is filed.
    pub(super) fn weight(&self, slot: usize) -> Option<&Weight> {
        self.filed(slot).map(|filed| &filed.weight)
    }

    fn filed(&self, slot: usize) -> Option<&Filed> {
        self.filed.get(slot)?.as_ref()
    }

    fn known(&self, slot: usize) -> &Filed {
        self.filed(slot).expect("only filed slots are asked about")
    }

    /// Files a slot, in place of an earlier weight.
    pub(super) fn insert(&mut self, slot: usize, filed: Filed) {
        if (self.filed(slot)).is_some_and(|before| before.cmp(&filed) == Ordering::Equal) {
            return;
        }
        self.remove(slot);
        if self.filed.len() <= slot {
            self.filed.resize(slot + 1, None);
        }
        let (at, position) = self.seek(|other| other.cmp(&filed) == Ordering::Less);
        self.filed[slot] = Some(filed.clone());
        self.len += 1;
        let entry = Entry { filed, slot };
        let Some(chunk) = self.chunks.get_mut(at) else {
            self.chunks.extend(Chunk::of(vec![entry]));
            return;
        };
        chunk.least = chunk.least.min((entry.filed.name, slot));
        chunk.entries.insert(position, entry);
        chunk.adjust(position);
        if chunk.entries.len() >= FULL {
            let upper = Chunk::of(chunk.entries.split_off(FULL / 2));
            chunk.least = least(&chunk.entries).unwrap_or(chunk.least);
            let next = at + 1;
            self.chunks.splice(next..next, upper);
        }
    }

    pub(super) fn remove(&mut self, slot: usize) {
        let Some(filed) = self.filed.get_mut(slot).and_then(Option::take) else {
            return;
        };
        self.len -= 1;
        // What comes before the entry's successor ends with the entry.
        let (at, position) = self.seek(|other| other.cmp(&filed) != Ordering::Greater);
        let chunk = &mut self.chunks[at];
        chunk.entries.remove(position - 1);
        chunk.adjust(position - 1);
        if chunk.entries.is_empty() {
            self.chunks.remove(at);
            return;
        }
        if chunk.least.1 == slot {
            chunk.least = least(&chunk.entries).unwrap_or(chunk.least);
        }
        if chunk.entries.len() < FULL / 4 {
            self.join(at);
        }
    }

    /// Joins a small chunk with the next one, if that does not make it a large one.
    fn join(&mut self, at: usize) {
        let Some(next) = self.chunks.get(at + 1) else {
            return;
        };
        if next.entries.len() > FULL / 2 {
            return;
        }
        let next = self.chunks.remove(at + 1);
        let chunk = &mut self.chunks[at];
        chunk.entries.extend(next.entries);
        chunk.least = chunk.least.min(next.least);
    }

    /// Finds the chunk and the place in it behind everything that is `before`.
    fn seek(&self, before: impl Fn(&Filed) -> bool) -> (usize, usize) {
        let chunks = self.chunks.partition_point(|chunk| before(&chunk.first));
        let at = chunks.saturating_sub(1);
        let place = (self.chunks.get(at)).map_or(0, |chunk| {
            chunk.entries.partition_point(|entry| before(&entry.filed))
        });
        (at, place)
    }

    /// Counts what is `before`.
    fn count(&self, before: impl Fn(&Filed) -> bool) -> usize {
        let (at, place) = self.seek(before);
        let chunks = self.chunks[..at].iter();
        chunks.map(|chunk| chunk.entries.len()).sum::<usize>() + place
    }

    /// Returns the number that stands for the name of a filed slot.
    pub(super) fn name(&self, slot: usize) -> u64 {
        self.known(slot).name
    }

    /// Gives filed slots other numbers, by which the names compare as before.
    pub(super) fn rename(&mut self, names: &[(usize, u64)]) {
        for (slot, name) in names {
            if let Some(Some(filed)) = self.filed.get_mut(*slot) {
                filed.name = *name;
            }
        }
        for chunk in &mut self.chunks {
            for entry in &mut chunk.entries {
                if let Some(filed) = &self.filed[entry.slot] {
                    entry.filed.name = filed.name;
                }
            }
            chunk.least = least(&chunk.entries).unwrap_or(chunk.least);
            chunk.adjust(0);
        }
    }

    /// Returns how many entries come before a filed slot.
    pub(super) fn position(&self, slot: usize) -> usize {
        let filed = self.known(slot);
        self.count(|other| other.cmp(filed) == Ordering::Less)
    }

    /// Returns the slot at a position.
    pub(super) fn select(&self, position: usize) -> Option<usize> {
        let mut left = position;
        for chunk in &self.chunks {
            if let Some(entry) = chunk.entries.get(left) {
                return Some(entry.slot);
            }
            left -= chunk.entries.len();
        }
        None
    }

    /// Returns how many entries have a smaller weight.
    pub(super) fn below(&self, weight: &Weight) -> usize {
        self.count(|other| other.weight < *weight)
    }

    /// Returns how many entries have this weight or a smaller one.
    pub(super) fn through(&self, weight: &Weight) -> usize {
        self.count(|other| other.weight <= *weight)
    }

    /// Returns the slot with the smallest name among the positions from `start` up to but not including `end`.
    pub(super) fn least(&self, start: usize, end: usize) -> Option<usize> {
        let mut found: Option<(u64, usize)> = None;
        let mut first = 0;
        for chunk in &self.chunks {
            let count = chunk.entries.len();
            let (from, to) = (start.max(first) - first, end.min(first + count));
            first += count;
            if from >= count {
                continue;
            }
            let to = (to + count).saturating_sub(first);
            let here = if from == 0 && to == count {
                Some(chunk.least)
            } else {
                chunk.entries.get(from..to).and_then(least)
            };
            found = found.into_iter().chain(here).min();
            if first >= end {
                break;
            }
        }
        found.map(|(_, slot)| slot)
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use proptest::prelude::*;

    use super::super::weight::Parts;
    use super::*;

    fn filed(used: u64, name: u64) -> Filed {
        let weight = weight(used);
        Filed { weight, name }
    }

    fn weight(used: u64) -> Weight {
        Weight::Even(Parts {
            fullest: used,
            sum: used,
            whole: NonZeroU64::new(7).unwrap(),
        })
    }

    fn name(slot: usize) -> u64 {
        // Names in another order than slots.
        (slot * 7 % 400) as u64
    }

    proptest! {
        #[test]
        fn an_order_answers_like_a_sorted_list(
            steps in prop::collection::vec((0..400_usize, prop::option::weighted(0.8, 0..4_u64)), 0..600),
            start in 0..400_usize,
            length in 0..400_usize,
        ) {
            let mut order = Order::default();
            let mut plain: Vec<(u64, u64, usize)> = Vec::new();
            for (slot, used) in steps {
                plain.retain(|(_, _, other)| *other != slot);
                match used {
                    Some(used) => {
                        order.insert(slot, filed(used, name(slot)));
                        plain.push((used, name(slot), slot));
                    }
                    None => order.remove(slot),
                }
                prop_assert_eq!(order.len(), plain.len());
            }
            plain.sort_unstable();
            for (position, (used, _, slot)) in plain.iter().enumerate() {
                prop_assert_eq!(order.select(position), Some(*slot));
                prop_assert_eq!(order.position(*slot), position);
                prop_assert_eq!(order.weight(*slot), Some(&weight(*used)));
            }
            prop_assert_eq!(order.select(plain.len()), None);
            for used in 0..4 {
                let below = plain.iter().filter(|(other, ..)| *other < used).count();
                let through = plain.iter().filter(|(other, ..)| *other <= used).count();
                prop_assert_eq!(order.below(&weight(used)), below);
                prop_assert_eq!(order.through(&weight(used)), through);
            }
            let end = start + length;
            let range = plain.iter().skip(start).take(length);
            let least = range.min_by_key(|(_, name, _)| name).map(|(.., slot)| *slot);
            prop_assert_eq!(order.least(start, end), least);
        }
    }

    #[test]
    fn chunks_stay_within_bounds_while_what_is_filed_wanders() {
        let mut order = Order::default();
        for step in 0..40_000_u64 {
            let slot = usize::try_from(step % 4_000).unwrap();
            order.insert(slot, filed(step, step % 4_000));
        }
        assert_eq!(order.len(), 4_000);
        assert!(
            order.chunks.len() < 4_000 * 4 / FULL,
            "{}",
            order.chunks.len()
        );
        assert!(order.chunks.iter().all(|chunk| chunk.entries.len() < FULL));
        for slot in 0..3_990 {
            order.remove(slot);
        }
        let left: Vec<_> = (0..20).map_while(|at| order.select(at)).collect();
        assert_eq!(left, (3_990..4_000).collect::<Vec<_>>());
    }

    #[test]
    fn names_may_be_numbered_anew() {
        let mut order = Order::default();
        for slot in 0..200 {
            order.insert(slot, filed(1, 2 * slot as u64));
        }
        let names: Vec<_> = (0..200).map(|slot| (slot, 5 + slot as u64)).collect();
        order.rename(&names);
        assert_eq!((order.name(7), order.position(7)), (12, 7));
        order.remove(7);
        assert_eq!(order.least(7, 200), Some(8));
    }
}
