//! The objects of all kinds, in memory, with a bounded log of what happened to each kind.
//!
//! One lock guards everything and is never held while waiting. A list at an older version is the present state with
//! the log undone backwards, so a page of a list costs no copy of the others.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    ops::Bound,
    sync::{Arc, OnceLock},
};

use bytes::Bytes;
use serde_json::Value;
use tokio::sync::{mpsc, watch};

use crate::{
    garbage::Chore,
    object::{Key, Object, is_ending, meta_mut},
};

/// What a write did to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Happening {
    Added,
    Modified,
    Deleted,
}

impl Happening {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

/// One entry of the log of a kind.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) happening: Happening,
    /// The object after the write; for a deletion its last state under the version of the deletion.
    pub(crate) object: Arc<Object>,
    /// The object before the write.
    pub(crate) before: Option<Arc<Object>>,
    /// The line sent to watchers that see the event as it happened.
    line: OnceLock<Bytes>,
}

impl Event {
    /// Returns the watch line of the event as it happened, made once for all watchers.
    pub(crate) fn line(&self) -> Bytes {
        self.line
            .get_or_init(|| line(self.happening, &self.object.json()))
            .clone()
    }
}

/// Writes one line of a watch stream.
pub(crate) fn line(happening: Happening, object: &[u8]) -> Bytes {
    let mut text = Vec::with_capacity(object.len() + 40);
    text.extend_from_slice(b"{\"type\":\"");
    text.extend_from_slice(happening.word().as_bytes());
    text.extend_from_slice(b"\",\"object\":");
    text.extend_from_slice(object);
    text.extend_from_slice(b"}\n");
    Bytes::from(text)
}

/// The objects of one kind.
struct Shelf {
    objects: BTreeMap<Key, Arc<Object>>,
    log: VecDeque<Arc<Event>>,
    /// Newest version that the log no longer tells about.
    floor: u64,
    tip: watch::Sender<u64>,
}

/// Says that a version has left the log; holds the oldest version that is still told about.
#[derive(Debug)]
pub(crate) struct Expired(pub(crate) u64);

/// All shelves and the one counter of versions.
pub(crate) struct Store {
    shelves: Vec<Shelf>,
    version: u64,
    window: usize,
    by_uid: BTreeMap<String, (usize, Key)>,
    dependents: BTreeMap<String, BTreeSet<(usize, Key)>>,
    chores: Option<mpsc::UnboundedSender<Chore>>,
}

impl Store {
    pub(crate) fn new(shelves: usize, window: usize) -> Self {
        let shelf = || Shelf {
            objects: BTreeMap::new(),
            log: VecDeque::new(),
            floor: 0,
            tip: watch::Sender::new(0),
        };
        Self {
            shelves: (0..shelves).map(|_| shelf()).collect(),
            version: 0,
            window: window.max(1),
            by_uid: BTreeMap::new(),
            dependents: BTreeMap::new(),
            chores: None,
        }
    }

    /// Returns the version of the latest write of any kind.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    pub(crate) fn get(&self, shelf: usize, key: &Key) -> Option<&Arc<Object>> {
        self.shelves[shelf].objects.get(key)
    }

    pub(crate) fn by_uid(&self, uid: &str) -> Option<(usize, &Arc<Object>)> {
        let (shelf, key) = self.by_uid.get(uid)?;
        Some((*shelf, self.get(*shelf, key)?))
    }

    /// Lists the objects that name `uid` as an owner.
    pub(crate) fn dependents(&self, uid: &str) -> Vec<(usize, Key)> {
        self.dependents
            .get(uid)
            .map(|set| set.iter().cloned().collect())
            .unwrap_or_default()
    }

    /// Subscribes to the version of the latest write to a kind.
    pub(crate) fn tip(&self, shelf: usize) -> watch::Receiver<u64> {
        self.shelves[shelf].tip.subscribe()
    }

    /// Sends work for the garbage collector to `chores` from now on.
    pub(crate) fn report_chores(&mut self, chores: mpsc::UnboundedSender<Chore>) {
        self.chores = Some(chores);
    }

    /// Writes a complete object as the next version; the key is new or that of `metadata`.
    pub(crate) fn put(&mut self, shelf: usize, key: &Key, mut value: Value) -> Arc<Object> {
        self.version += 1;
        stamp(&mut value, self.version);
        let object = Arc::new(Object::new(key.clone(), self.version, value));
        let before = self.shelves[shelf]
            .objects
            .insert(key.clone(), Arc::clone(&object));
        self.index(shelf, before.as_deref(), Some(&object));
        let happening = match before {
            Some(_) => Happening::Modified,
            None => Happening::Added,
        };
        self.record(shelf, happening, Arc::clone(&object), before);
        object
    }

    /// Removes an object and returns its last state, stamped with the version of the removal.
    pub(crate) fn remove(&mut self, shelf: usize, key: &Key) -> Option<Arc<Object>> {
        let before = self.shelves[shelf].objects.remove(key)?;
        self.version += 1;
        let mut value = (*before.value).clone();
        stamp(&mut value, self.version);
        let object = Arc::new(Object::new(key.clone(), self.version, value));
        self.index(shelf, Some(&before), None);
        self.record(shelf, Happening::Deleted, Arc::clone(&object), Some(before));
        Some(object)
    }

    fn record(
        &mut self,
        shelf: usize,
        happening: Happening,
        object: Arc<Object>,
        before: Option<Arc<Object>>,
    ) {
        self.report(shelf, happening, &object, before.as_deref());
        let window = self.window;
        let shelf = &mut self.shelves[shelf];
        shelf.log.push_back(Arc::new(Event {
            happening,
            object,
            before,
            line: OnceLock::new(),
        }));
        while shelf.log.len() > window {
            if let Some(event) = shelf.log.pop_front() {
                shelf.floor = event.object.version;
            }
        }
        shelf.tip.send_replace(self.version);
    }

    /// Tells the garbage collector what it may have to look at.
    fn report(&self, shelf: usize, happening: Happening, object: &Object, before: Option<&Object>) {
        let Some(chores) = &self.chores else {
            return;
        };
        // A collector that has ended no longer listens; its successor starts with a full look around.
        let reowned = || before.is_none_or(|before| before.owners() != object.owners());
        let tell = |chore| drop(chores.send(chore));
        if happening == Happening::Deleted {
            tell(Chore::Gone {
                uid: object.uid().to_owned(),
                owners: owner_uids(object).map(str::to_owned).collect(),
                namespace: object.key.namespace.clone(),
            });
        } else if is_ending(&object.value) || (!object.owners().is_empty() && reowned()) {
            tell(Chore::Look(shelf, object.key.clone()));
        }
    }

    fn index(&mut self, shelf: usize, before: Option<&Object>, after: Option<&Object>) {
        if let (Some(before), Some(after)) = (before, after)
            && before.uid() == after.uid()
            && before.owners() == after.owners()
        {
            return;
        }
        if let Some(before) = before {
            self.by_uid.remove(before.uid());
            for owner in owner_uids(before) {
                if let Some(set) = self.dependents.get_mut(owner) {
                    set.remove(&(shelf, before.key.clone()));
                    if set.is_empty() {
                        self.dependents.remove(owner);
                    }
                }
            }
        }
        if let Some(after) = after {
            let place = (shelf, after.key.clone());
            self.by_uid.insert(after.uid().to_owned(), place.clone());
            for owner in owner_uids(after) {
                self.dependents
                    .entry(owner.to_owned())
                    .or_default()
                    .insert(place.clone());
            }
        }
    }

    /// Lists a kind as it is now, in key order, after `start`.
    pub(crate) fn list(
        &self,
        shelf: usize,
        namespace: Option<&str>,
        start: Option<&Key>,
    ) -> Vec<Arc<Object>> {
        range(&self.shelves[shelf].objects, namespace, start)
            .map(|(_, object)| Arc::clone(object))
            .collect()
    }

    /// Lists a kind as it was at `version`.
    pub(crate) fn list_at(
        &self,
        shelf: usize,
        namespace: Option<&str>,
        start: Option<&Key>,
        version: u64,
    ) -> Result<Vec<Arc<Object>>, Expired> {
        let log = self.events_after(shelf, version)?;
        if log.clone().next().is_none() {
            return Ok(self.list(shelf, namespace, start));
        }
        let mut past: BTreeMap<Key, Option<Arc<Object>>> =
            range(&self.shelves[shelf].objects, namespace, start)
                .map(|(key, object)| (key.clone(), Some(Arc::clone(object))))
                .collect();
        for event in log.rev() {
            past.insert(event.object.key.clone(), event.before.clone());
        }
        Ok(range(&past, namespace, start)
            .filter_map(|(_, object)| object.clone())
            .collect())
    }

    /// Iterates over what happened to a kind after `version`, oldest first.
    pub(crate) fn events_after(
        &self,
        shelf: usize,
        version: u64,
    ) -> Result<impl DoubleEndedIterator<Item = &Arc<Event>> + Clone, Expired> {
        let shelf = &self.shelves[shelf];
        if version < shelf.floor {
            return Err(Expired(shelf.floor));
        }
        let first = shelf
            .log
            .partition_point(|event| event.object.version <= version);
        Ok(shelf.log.range(first..))
    }

    /// Forgets the log, so that every older version has expired.
    pub(crate) fn compact(&mut self) {
        for shelf in &mut self.shelves {
            shelf.log.clear();
            shelf.floor = self.version;
            shelf.tip.send_replace(self.version);
        }
    }
}

/// Iterates over the entries of one namespace, or of all, after `start`.
fn range<'a, V>(
    objects: &'a BTreeMap<Key, V>,
    namespace: Option<&'a str>,
    start: Option<&Key>,
) -> impl Iterator<Item = (&'a Key, &'a V)> {
    let from = match (start, namespace) {
        (Some(start), _) => Bound::Excluded(start.clone()),
        (None, Some(namespace)) => Bound::Included(Key::new(namespace, "")),
        (None, None) => Bound::Unbounded,
    };
    objects
        .range((from, Bound::Unbounded))
        .take_while(move |(key, _)| namespace.is_none_or(|wanted| key.namespace == wanted))
}

/// Lists the UIDs of an object's owners.
pub(crate) fn owner_uids(object: &Object) -> impl Iterator<Item = &str> {
    object
        .owners()
        .iter()
        .filter_map(|owner| owner["uid"].as_str())
}

fn stamp(value: &mut Value, version: u64) {
    meta_mut(value).insert(
        "resourceVersion".to_owned(),
        Value::from(version.to_string()),
    );
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn put(store: &mut Store, name: &str, n: i64) -> u64 {
        let value = json!({ "metadata": { "name": name, "uid": name }, "n": n });
        store.put(0, &Key::new("a", name), value).version
    }

    fn told(objects: &[Arc<Object>]) -> Vec<String> {
        objects
            .iter()
            .map(|object| format!("{}={}", object.key.name, object.value["n"]))
            .collect()
    }

    #[test]
    fn an_older_version_is_the_present_undone() {
        let mut store = Store::new(1, 10);
        put(&mut store, "x", 1);
        let version = put(&mut store, "y", 1);
        put(&mut store, "x", 2);
        store.remove(0, &Key::new("a", "y"));
        put(&mut store, "z", 1);
        let past = store.list_at(0, None, None, version).unwrap();
        assert_eq!(told(&past), ["x=1", "y=1"]);
        let start = Key::new("a", "x");
        let rest = store.list_at(0, Some("a"), Some(&start), version).unwrap();
        assert_eq!(told(&rest), ["y=1"]);
        assert_eq!(told(&store.list(0, Some("a"), None)), ["x=2", "z=1"]);
    }

    #[test]
    fn versions_below_the_window_have_expired() {
        let mut store = Store::new(1, 2);
        for n in 0..4 {
            put(&mut store, "x", n);
        }
        assert!(store.events_after(0, 1).is_err());
        assert_eq!(store.events_after(0, 2).map(Iterator::count).ok(), Some(2));
        store.compact();
        assert!(store.events_after(0, 3).is_err());
        assert_eq!(store.events_after(0, 4).map(Iterator::count).ok(), Some(0));
    }

    /// A write to one of three names: with a number, or a removal.
    fn any_writes() -> impl Strategy<Value = Vec<(usize, Option<i64>)>> {
        prop::collection::vec((0..3_usize, prop::option::of(0..100_i64)), 1..40)
    }

    /// Carries out writes and returns what each version looked like.
    fn history(store: &mut Store, writes: &[(usize, Option<i64>)]) -> Vec<(u64, Vec<String>)> {
        let mut states = vec![(store.version(), told(&store.list(0, None, None)))];
        for (name, number) in writes {
            let name = ["x", "y", "z"][*name];
            match number {
                Some(number) => drop(put(store, name, *number)),
                None => drop(store.remove(0, &Key::new("a", name))),
            }
            states.push((store.version(), told(&store.list(0, None, None))));
        }
        states
    }

    proptest! {
        /// Within the window, any version can be listed as it was.
        #[test]
        fn every_version_in_the_window_can_be_listed(writes in any_writes(), window in 1..50_usize) {
            let mut store = Store::new(1, window);
            for (version, state) in history(&mut store, &writes) {
                match store.list_at(0, None, None, version) {
                    Ok(past) => prop_assert_eq!(told(&past), state),
                    Err(Expired(oldest)) => prop_assert!(version < oldest),
                }
            }
        }

        /// The events after a version lead from its state to the present one.
        #[test]
        fn events_lead_from_any_version_to_the_present(writes in any_writes()) {
            let mut store = Store::new(1, 1000);
            for (version, _) in history(&mut store, &writes) {
                let mut known: BTreeMap<Key, Arc<Object>> = store
                    .list_at(0, None, None, version)
                    .map_err(|expired| TestCaseError::fail(format!("{expired:?}")))?
                    .into_iter()
                    .map(|object| (object.key.clone(), object))
                    .collect();
                for event in store.events_after(0, version).into_iter().flatten() {
                    let key = event.object.key.clone();
                    let before = match event.happening {
                        Happening::Deleted => known.remove(&key),
                        Happening::Added | Happening::Modified => {
                            known.insert(key, Arc::clone(&event.object))
                        }
                    };
                    prop_assert_eq!(before.is_none(), event.happening == Happening::Added);
                }
                let known: Vec<_> = known.into_values().collect();
                prop_assert_eq!(told(&known), told(&store.list(0, None, None)));
            }
        }
    }
}
