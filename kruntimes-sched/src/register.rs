//! Values that are found by a text, or by whatever else they carry.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher as _};

/// What a value is found by.
pub(crate) trait Keyed {
    type Key: ?Sized + Eq + Hash;

    fn key(&self) -> &Self::Key;
}

/// Values by their keys, found through a number that stands for the key.
///
/// Numbers compare much more quickly than texts that begin alike and lie
/// somewhere else in memory. The order of the values means nothing. Keys with
/// the same number do not come up by chance, and nobody can calculate many.
#[derive(Clone, Debug)]
pub(crate) struct Register<V> {
    by_number: BTreeMap<u64, V>,
    /// Those whose number was taken.
    rest: Vec<V>,
}

/// Returns a number that stands for a key, the same in every process.
pub(crate) fn number(key: &(impl Hash + ?Sized)) -> u64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish()
}

impl<V> Default for Register<V> {
    fn default() -> Self {
        Self {
            by_number: BTreeMap::new(),
            rest: Vec::new(),
        }
    }
}

impl<V: Keyed> Register<V> {
    pub(crate) fn is_empty(&self) -> bool {
        self.by_number.is_empty() && self.rest.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.by_number.len() + self.rest.len()
    }

    /// Drops the values that are not to be kept.
    pub(crate) fn retain(&mut self, is_kept: impl Fn(&V) -> bool) {
        self.by_number.retain(|_, value| is_kept(value));
        self.rest.retain(is_kept);
    }

    pub(crate) fn get(&self, key: &V::Key) -> Option<&V> {
        self.at(number(key), key)
    }

    /// As [`Register::get`], where the number of the key is known.
    pub(crate) fn at(&self, number: u64, key: &V::Key) -> Option<&V> {
        let found = self.by_number.get(&number);
        let found = found.filter(|value| value.key() == key);
        found.or_else(|| self.rest.iter().find(|value| value.key() == key))
    }

    pub(crate) fn get_mut(&mut self, key: &V::Key) -> Option<&mut V> {
        self.at_mut(number(key), key)
    }

    /// As [`Register::get_mut`], where the number of the key is known.
    pub(crate) fn at_mut(&mut self, number: u64, key: &V::Key) -> Option<&mut V> {
        let found = self.by_number.get_mut(&number);
        match found.filter(|value| value.key() == key) {
            Some(value) => Some(value),
            None => self.rest.iter_mut().find(|value| value.key() == key),
        }
    }

    /// Adds a value in place of the one with the same key.
    pub(crate) fn insert(&mut self, value: V) {
        self.insert_at(number(value.key()), value);
    }

    /// As [`Register::insert`], where the number of the key is known.
    pub(crate) fn insert_at(&mut self, number: u64, value: V) {
        if let Some(same) = (self.rest.iter_mut()).find(|other| other.key() == value.key()) {
            *same = value;
            return;
        }
        let Some(before) = self.by_number.insert(number, value) else {
            return;
        };
        if self.by_number[&number].key() != before.key() {
            self.rest.push(before);
        }
    }

    pub(crate) fn remove(&mut self, key: &V::Key) -> Option<V> {
        self.remove_at(number(key), key)
    }

    fn remove_at(&mut self, number: u64, key: &V::Key) -> Option<V> {
        if let Some(at) = self.rest.iter().position(|value| value.key() == key) {
            return Some(self.rest.swap_remove(at));
        }
        let found = self.by_number.get(&number);
        found.filter(|value| value.key() == key)?;
        self.by_number.remove(&number)
    }

    /// Returns all values, in an order that means nothing.
    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.by_number.values().chain(&self.rest)
    }
}

#[cfg(test)]
mod tests {
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

    #[test]
    fn a_value_is_replaced_changed_and_removed_by_its_key() {
        let mut register = Register::default();
        register.insert(Word("a", 1));
        register.insert(Word("b", 2));
        register.insert(Word("a", 3));
        register.get_mut("b").unwrap().1 += 10;
        let found = ["a", "b", "c"].map(|key| register.get(key).map(|word| word.1));
        assert_eq!(found, [Some(3), Some(12), None]);
        assert_eq!(register.remove("a"), Some(Word("a", 3)));
        assert_eq!(register.remove("a"), None);
    }
}
