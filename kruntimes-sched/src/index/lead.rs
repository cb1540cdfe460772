//! The first Pod by load, then by name, found by a tournament.

use std::cmp::Ordering;

use super::weight::Weight;

/// What a slot is filed under.
#[derive(Clone, Debug)]
pub(super) struct Filed {
    pub(super) weight: Weight,
    /// Stands for the name of the Pod: numbers compare as names do.
    pub(super) name: u64,
}

impl Filed {
    #[inline]
    pub(super) fn cmp(&self, other: &Self) -> Ordering {
        (self.weight.cmp(&other.weight)).then_with(|| self.name.cmp(&other.name))
    }
}

/// Stands for no slot.
const NOBODY: u32 = u32::MAX;

/// A set of slots that knows which comes before all others.
///
/// The slots are the leaves of a binary tree in which the lesser of two goes
/// on. A change is played up to the root, or to the first game that it does not
/// touch: much less work than to keep all slots in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Lead {
    filed: Vec<Option<Filed>>,
    /// The winner of every game, the root at 1; the leaves are the second half.
    games: Vec<u32>,
    len: usize,
}

impl Lead {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn contains(&self, slot: usize) -> bool {
        self.filed(slot).is_some()
    }

    /// Returns what a slot is filed under.
    #[inline]
    pub(super) fn filed(&self, slot: usize) -> Option<&Filed> {
        self.filed.get(slot)?.as_ref()
    }

    fn known(&self, slot: usize) -> &Filed {
        self.filed(slot).expect("only filed slots are asked about")
    }

    /// Compares two filed slots by weight, then by name.
    pub(super) fn compare(&self, a: usize, b: usize) -> Ordering {
        self.known(a).cmp(self.known(b))
    }

    /// Returns the weight under which a slot is filed.
    pub(super) fn weight(&self, slot: usize) -> Option<&Weight> {
        self.filed(slot).map(|filed| &filed.weight)
    }

    /// Returns the number that stands for the name of a filed slot.
    pub(super) fn name(&self, slot: usize) -> u64 {
        self.known(slot).name
    }

    /// Returns the slot that comes before all others.
    pub(super) fn first(&self) -> Option<usize> {
        let first = *self.games.get(1)?;
        (first != NOBODY).then(|| long(first))
    }

    /// Returns all slots, in an order that means nothing.
    pub(super) fn slots(&self) -> impl Iterator<Item = usize> {
        let filed = self.filed.iter().enumerate();
        filed.filter_map(|(slot, filed)| filed.is_some().then_some(slot))
    }

    /// Files a slot, in place of an earlier weight; tells whether that changes anything.
    pub(super) fn insert(&mut self, slot: usize, filed: Filed) -> bool {
        self.make_room(slot);
        match &self.filed[slot] {
            Some(before) if before.cmp(&filed) == Ordering::Equal => return false,
            Some(_) => {}
            None => self.len += 1,
        }
        self.filed[slot] = Some(filed);
        self.play(slot, short(slot));
        true
    }

    /// Takes a slot out; tells whether it was there.
    pub(super) fn remove(&mut self, slot: usize) -> bool {
        let before = self.filed.get_mut(slot).and_then(Option::take);
        if before.is_some() {
            self.len -= 1;
            self.play(slot, NOBODY);
        }
        before.is_some()
    }

    /// Gives filed slots other numbers, by which the names compare as before.
    pub(super) fn rename(&mut self, names: &[(usize, u64)]) {
        for (slot, name) in names {
            if let Some(Some(filed)) = self.filed.get_mut(*slot) {
                filed.name = *name;
            }
        }
    }

    /// Doubles the tree until it has a leaf for the slot.
    fn make_room(&mut self, slot: usize) {
        if self.filed.len() <= slot {
            self.filed.resize(slot + 1, None);
        }
        if self.games.len() >= 2 * (slot + 1) {
            return;
        }
        let leaves = (slot + 1).next_power_of_two();
        self.games = vec![NOBODY; 2 * leaves];
        for (slot, filed) in self.filed.iter().enumerate() {
            if filed.is_some() {
                self.games[leaves + slot] = short(slot);
            }
        }
        for game in (1..leaves).rev() {
            self.games[game] = self.winner(game);
        }
    }

    fn winner(&self, game: usize) -> u32 {
        let (one, other) = (self.games[2 * game], self.games[2 * game + 1]);
        let first = match (self.filed(long(one)), self.filed(long(other))) {
            (Some(a), Some(b)) => a.cmp(b) != Ordering::Greater,
            (_, None) => true,
            (None, Some(_)) => false,
        };
        if first { one } else { other }
    }

    /// Plays all games again that a slot has a part in.
    fn play(&mut self, slot: usize, leaf: u32) {
        let Self { filed, games, .. } = self;
        let of = |player: u32| filed.get(long(player)).and_then(Option::as_ref);
        let own = short(slot);
        let mut place = games.len() / 2 + slot;
        games[place] = leaf;
        let (mut ahead, mut best) = (leaf, of(leaf));
        while place > 1 {
            let other = games[place ^ 1];
            let rival = of(other);
            let loses = match (best, rival) {
                (Some(best), Some(rival)) => rival.cmp(best) == Ordering::Less,
                (None, Some(_)) => true,
                (_, None) => false,
            };
            if loses {
                (ahead, best) = (other, rival);
            }
            place /= 2;
            let before = std::mem::replace(&mut games[place], ahead);
            if ahead == before && ahead != own {
                return;
            }
        }
    }
}

/// Slots are counted in 32 bits to save memory; no pool has that many Pods.
fn short(slot: usize) -> u32 {
    u32::try_from(slot).unwrap_or(NOBODY)
}

fn long(slot: u32) -> usize {
    usize::try_from(slot).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use proptest::prelude::*;

    use super::super::weight::Parts;
    use super::*;

    fn filed(used: u64, name: u64) -> Filed {
        let weight = Weight::Even(Parts {
            fullest: used,
            sum: used,
            whole: NonZeroU64::new(7).unwrap(),
        });
        Filed { weight, name }
    }

    proptest! {
        #[test]
        fn the_first_is_the_least_of_all_whatever_comes_and_goes(
            steps in prop::collection::vec((0..70_usize, prop::option::weighted(0.7, 0..4_u64)), 0..300),
        ) {
            let mut lead = Lead::default();
            let mut plain: Vec<(u64, u64, usize)> = Vec::new();
            for (slot, used) in steps {
                // Names in another order than slots.
                let name = (slot * 7 % 71) as u64;
                let before = plain.len();
                let same = used.is_some_and(|used| plain.contains(&(used, name, slot)));
                plain.retain(|(_, _, other)| *other != slot);
                let was_there = plain.len() < before;
                if let Some(used) = used {
                    prop_assert_eq!(lead.insert(slot, filed(used, name)), !same);
                    plain.push((used, name, slot));
                } else {
                    prop_assert_eq!(lead.remove(slot), was_there);
                }
                let least = plain.iter().min().map(|(_, _, slot)| *slot);
                prop_assert_eq!(lead.first(), least);
                prop_assert_eq!(lead.len(), plain.len());
                prop_assert_eq!(lead.slots().count(), plain.len());
            }
        }
    }
}
