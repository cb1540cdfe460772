//! Values that are found by a text, or by whatever else they carry.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::{iter, mem};

/// What a value is found by.
pub(crate) trait Keyed {
    type Key: ?Sized + Eq + Hash;

    fn key(&self) -> &Self::Key;
}

/// Places that are looked at before a value goes to the rest.
const REACH: usize = 32;
/// Places of the smallest table.
const LEAST: usize = 8;
/// Stands in the table for a free place.
const FREE: u32 = 0;

/// Values by their keys, found through a number that stands for the key.
///
/// A table with free places between: whatever the number of values, few
/// places are looked at, and most without a look at the value, which lies
/// somewhere else in memory. Whoever chooses keys that belong in the same place
/// gets them into an ordered rest, so that a search stays short. The order of
/// the values means nothing.
#[derive(Clone, Debug)]
pub(crate) struct Register<V> {
    /// Halves of the numbers, by place.
    tags: Vec<u32>,
    values: Vec<Option<V>>,
    /// How many places are taken.
    taken: usize,
    /// Values that found no free place near their own, by tag.
    rest: BTreeMap<u32, Vec<V>>,
}

/// Returns a number that stands for a key, the same in every process.
pub(crate) fn number(key: &(impl Hash + ?Sized)) -> u64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish()
}

/// Returns the half of a number that stands in the table.
fn tag(number: u64) -> u32 {
    let [.., a, b, c, d] = number.to_be_bytes();
    u32::from_be_bytes([a, b, c, d]).max(FREE + 1)
}

/// Returns the place where a tag belongs in a table of any size; the order of places is that of the tags.
fn home(tag: u32, size: usize) -> usize {
    let size = u64::try_from(size).unwrap_or(u64::MAX);
    let place = u64::from(tag).saturating_mul(size) >> 32;
    usize::try_from(place).unwrap_or_default()
}

/// Returns the next place of a table; after the last comes the first.
fn after(place: usize, size: usize) -> usize {
    if place + 1 == size { 0 } else { place + 1 }
}

/// Returns how far one place is behind another.
fn distance(from: usize, to: usize, size: usize) -> usize {
    if to >= from {
        to - from
    } else {
        to + size - from
    }
}

impl<V> Default for Register<V> {
    fn default() -> Self {
        Self {
            tags: Vec::new(),
            values: Vec::new(),
            taken: 0,
            rest: BTreeMap::new(),
        }
    }
}

impl<V: Keyed> Register<V> {
    pub(crate) fn is_empty(&self) -> bool {
        self.taken == 0 && self.rest.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.taken + self.rest.values().map(Vec::len).sum::<usize>()
    }

    /// Drops the values that are not to be kept.
    pub(crate) fn retain(&mut self, is_kept: impl Fn(&V) -> bool) {
        let before = mem::take(self);
        let values = before.values.into_iter().flatten();
        for value in values.chain(before.rest.into_values().flatten()) {
            if is_kept(&value) {
                self.insert(value);
            }
        }
    }

    pub(crate) fn get(&self, key: &V::Key) -> Option<&V> {
        self.at(number(key), key)
    }

    /// As [`Register::get`], where the number of the key is known.
    pub(crate) fn at(&self, number: u64, key: &V::Key) -> Option<&V> {
        match self.place(number, key) {
            Some(place) => self.values[place].as_ref(),
            None if self.rest.is_empty() => None,
            None => (self.rest.get(&tag(number))?.iter()).find(|value| value.key() == key),
        }
    }

    /// As [`Register::at`], to be changed.
    pub(crate) fn at_mut(&mut self, number: u64, key: &V::Key) -> Option<&mut V> {
        match self.place(number, key) {
            Some(place) => self.values[place].as_mut(),
            None => (self.rest.get_mut(&tag(number))?.iter_mut()).find(|value| value.key() == key),
        }
    }

    /// Returns the place of a key in the table.
    fn place(&self, number: u64, key: &V::Key) -> Option<usize> {
        let (tag, size) = (tag(number), self.tags.len());
        if size == 0 {
            return None;
        }
        let mut place = home(tag, size);
        for _ in 0..REACH {
            let found = self.tags[place];
            if found == FREE {
                return None;
            }
            if found == tag && (self.values[place].as_ref()).is_some_and(|v| v.key() == key) {
                return Some(place);
            }
            place = after(place, size);
        }
        None
    }

    /// Adds a value in place of the one with the same key.
    pub(crate) fn insert(&mut self, value: V) {
        self.insert_at(number(value.key()), value);
    }

    /// As [`Register::insert`], where the number of the key is known.
    pub(crate) fn insert_at(&mut self, number: u64, value: V) {
        if let Some(same) = self.at_mut(number, value.key()) {
            *same = value;
            return;
        }
        if self.taken * 4 >= self.tags.len() * 3 {
            self.grow();
        }
        self.settle(tag(number), value);
    }

    /// Puts a value into the first free place near its own, or into the rest.
    fn settle(&mut self, tag: u32, value: V) {
        let size = self.tags.len();
        let mut place = home(tag, size);
        for _ in 0..REACH {
            if self.tags[place] == FREE {
                self.tags[place] = tag;
                self.values[place] = Some(value);
                self.taken += 1;
                return;
            }
            place = after(place, size);
        }
        self.rest.entry(tag).or_default().push(value);
    }

    /// Makes the table half as large again.
    fn grow(&mut self) {
        let size = (self.tags.len() / 2 * 3).max(LEAST);
        let tags = mem::replace(&mut self.tags, vec![FREE; size]);
        let fresh = iter::repeat_with(|| None).take(size).collect();
        let values = mem::replace(&mut self.values, fresh);
        self.taken = 0;
        for (tag, value) in tags.into_iter().zip(values) {
            if let Some(value) = value {
                self.settle(tag, value);
            }
        }
    }

    pub(crate) fn remove(&mut self, key: &V::Key) -> Option<V> {
        self.remove_at(number(key), key)
    }

    /// As [`Register::remove`], where the number of the key is known.
    pub(crate) fn remove_at(&mut self, number: u64, key: &V::Key) -> Option<V> {
        if let Some(place) = self.place(number, key) {
            let gone = self.values[place].take();
            self.close(place);
            return gone;
        }
        let tag = tag(number);
        let alike = self.rest.get_mut(&tag)?;
        let at = alike.iter().position(|value| value.key() == key)?;
        let gone = alike.swap_remove(at);
        if alike.is_empty() {
            self.rest.remove(&tag);
        }
        Some(gone)
    }

    /// Moves those behind an emptied place nearer to where they belong, up to the next free place.
    fn close(&mut self, emptied: usize) {
        let size = self.tags.len();
        let (mut gap, mut place) = (emptied, emptied);
        self.taken -= 1;
        loop {
            place = after(place, size);
            let tag = self.tags[place];
            if tag == FREE || place == emptied {
                break;
            }
            if distance(home(tag, size), place, size) >= distance(gap, place, size) {
                self.tags[gap] = tag;
                self.values[gap] = self.values[place].take();
                gap = place;
            }
        }
        self.tags[gap] = FREE;
    }

    /// Returns all values, in an order that means nothing.
    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        let rest = self.rest.values().flatten();
        self.values.iter().flatten().chain(rest)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, PartialEq)]
    struct Word(&'static str, u32);

    impl Keyed for Word {
        type Key = str;

        fn key(&self) -> &str {
            self.0
        }
    }

    #[test]
    fn keys_with_the_same_number_are_told_apart() {
        let mut register = Register::default();
        for (version, text) in ["a", "b", "c", "a", "b"].into_iter().enumerate() {
            register.insert_at(7, Word(text, u32::try_from(version).unwrap()));
        }
        let found = ["a", "b", "c", "d"].map(|key| register.at(7, key).map(|word| word.1));
        assert_eq!(found, [Some(3), Some(4), Some(2), None]);
        assert_eq!(register.values().count(), 3);
        assert_eq!(register.remove_at(7, "d"), None);
        for (key, version) in [("b", 4), ("c", 2), ("a", 3)] {
            assert_eq!(register.remove_at(7, key).map(|word| word.1), Some(version));
            assert!(register.at(7, key).is_none(), "{key}");
        }
        assert!(register.is_empty());
    }

    #[derive(Clone, Debug, PartialEq)]
    struct Entry(u64, u32);

    impl Keyed for Entry {
        type Key = u64;

        fn key(&self) -> &u64 {
            &self.0
        }
    }

    proptest! {
        #[test]
        fn a_register_answers_like_an_ordered_map(
            steps in prop::collection::vec((0..200_u64, prop::option::weighted(0.7, 0..9_u32)), 0..800),
            crowd in prop::sample::select(vec![1_u64, 7, 64, 200]),
        ) {
            // The fewer different numbers there are, the more values get into each other's way.
            let number = |key: u64| key % crowd * 50_000_000;
            let mut register = Register::default();
            let mut plain = BTreeMap::new();
            for (key, value) in steps {
                if let Some(value) = value {
                    register.insert_at(number(key), Entry(key, value));
                    plain.insert(key, value);
                } else {
                    let gone = register.remove_at(number(key), &key).map(|entry| entry.1);
                    prop_assert_eq!(gone, plain.remove(&key));
                }
                prop_assert_eq!(register.len(), plain.len());
                prop_assert_eq!(register.is_empty(), plain.is_empty());
            }
            for key in 0..200 {
                let found = register.at(number(key), &key).map(|entry| entry.1);
                prop_assert_eq!(found, plain.get(&key).copied());
            }
            let mut all: Vec<_> = register.values().map(|entry| (entry.0, entry.1)).collect();
            all.sort_unstable();
            prop_assert_eq!(all, plain.into_iter().collect::<Vec<_>>());
        }
    }

    #[test]
    fn keys_that_belong_in_one_place_do_not_make_the_search_long() {
        let mut register = Register::default();
        for key in 0..1_000 {
            register.insert_at(key << 32 | 5, Entry(key, 0));
        }
        assert_eq!(register.len(), 1_000);
        assert!(register.taken <= REACH);
        assert!((0..1_000).all(|key| register.at(key << 32 | 5, &key).is_some()));
    }

    #[test]
    fn what_is_retained_is_found() {
        let mut register = Register::default();
        (0..1_000).for_each(|key| register.insert(Entry(key, 0)));
        register.retain(|entry| entry.0 % 3 == 0);
        assert_eq!(register.len(), 334);
        assert!((0..1_000).all(|key| register.get(&key).is_some() == (key % 3 == 0)));
    }

    #[test]
    fn a_value_is_replaced_changed_and_removed_by_its_key() {
        let mut register = Register::default();
        register.insert(Word("a", 1));
        register.insert(Word("b", 2));
        register.insert(Word("a", 3));
        register.at_mut(number("b"), "b").unwrap().1 += 10;
        let found = ["a", "b", "c"].map(|key| register.get(key).map(|word| word.1));
        assert_eq!(found, [Some(3), Some(12), None]);
        assert_eq!(register.remove("a"), Some(Word("a", 3)));
        assert_eq!(register.remove("a"), None);
    }
}
