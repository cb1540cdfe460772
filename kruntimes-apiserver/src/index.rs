//! Who is who, and who belongs to whom: objects by UID, dependents by the UID of their owner.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use crate::object::{Facts, Key, Object};

/// Number of a kind and key of an object.
pub(crate) type Place = (usize, Arc<Key>);

/// The index over all kinds. Its maps are only ever asked for one key, so their order does not matter.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Index {
    by_uid: HashMap<Arc<str>, Place>,
    dependents: HashMap<Arc<str>, BTreeSet<Place>>,
}

impl Index {
    pub(crate) fn by_uid(&self, uid: &str) -> Option<&Place> {
        self.by_uid.get(uid)
    }

    /// Lists the objects that name `uid` as an owner, in order.
    pub(crate) fn dependents(&self, uid: &str) -> Vec<Place> {
        let found = self.dependents.get(uid).into_iter().flatten();
        found.cloned().collect()
    }

    /// Makes room for as many more objects.
    pub(crate) fn reserve(&mut self, objects: usize) {
        self.by_uid.reserve(objects);
    }

    /// Follows a write to one object.
    pub(crate) fn replace(
        &mut self,
        shelf: usize,
        before: Option<&Object>,
        after: Option<&Object>,
    ) {
        let belongs = |facts: &Facts| (Arc::clone(&facts.uid), Arc::clone(&facts.owners));
        if let (Some(before), Some(after)) = (before, after)
            && belongs(&before.facts) == belongs(&after.facts)
        {
            return;
        }
        if let Some(before) = before {
            self.remove(shelf, before);
        }
        if let Some(after) = after {
            self.insert(shelf, after);
        }
    }

    pub(crate) fn insert(&mut self, shelf: usize, object: &Object) {
        let place = (shelf, Arc::clone(&object.key));
        for owner in &*object.facts.owners {
            let set = self.dependents.entry(Arc::clone(owner)).or_default();
            set.insert(place.clone());
        }
        self.by_uid.insert(Arc::clone(&object.facts.uid), place);
    }

    fn remove(&mut self, shelf: usize, object: &Object) {
        self.by_uid.remove(&object.facts.uid);
        let place = (shelf, Arc::clone(&object.key));
        for owner in &*object.facts.owners {
            if let Some(set) = self.dependents.get_mut(owner) {
                set.remove(&place);
                if set.is_empty() {
                    self.dependents.remove(owner);
                }
            }
        }
    }
}
