//! The objects of all kinds, in memory, with a bounded log of what happened to each kind.
//!
//! One lock guards everything and is never held while waiting. A list at an older version is the present state with
//! the log undone backwards, so a page of a list costs no copy of the others. With a journal, every write is also
//! queued for the disk, and watchers are told when it has got there.

use std::{
    collections::{BTreeMap, VecDeque},
    ops::Bound,
    sync::Arc,
};

use serde_json::Value;
use tokio::sync::{mpsc, watch};

use crate::{
    disk::{Change, Contents, Journal},
    event::{Event, Happening},
    garbage::Chore,
    index::{Index, Place},
    object::{Key, Object, meta_mut},
};

/// How many of the latest events of a kind keep the trees of their objects; of the others the text is enough.
const WARM_EVENTS: usize = 1024;

/// The objects of one kind.
struct Shelf {
    objects: BTreeMap<Arc<Key>, Arc<Object>>,
    log: VecDeque<Arc<Event>>,
    /// Newest version that the log no longer tells about.
    floor: u64,
    tip: watch::Sender<u64>,
}

impl Shelf {
    fn new() -> Self {
        Self {
            objects: BTreeMap::new(),
            log: VecDeque::new(),
            floor: 0,
            tip: watch::Sender::new(0),
        }
    }

    /// Logs what happened, dropping the trees and in the end the events that are old enough.
    fn record(&mut self, event: Event, window: usize) {
        self.log.push_back(Arc::new(event));
        if let Some(index) = self.log.len().checked_sub(window.min(WARM_EVENTS) + 1) {
            let cold = Arc::new(self.log[index].cold());
            if let Some(current) = self.objects.get_mut(&cold.object.key)
                && current.version == cold.object.version
            {
                *current = Arc::clone(&cold.object);
            }
            self.log[index] = cold;
        }
        while self.log.len() > window {
            if let Some(event) = self.log.pop_front() {
                self.floor = event.object.version;
            }
        }
    }
}

/// Says that a version has left the log; holds the oldest version that is still told about.
#[derive(Debug)]
pub(crate) struct Expired(pub(crate) u64);

/// All shelves and the one counter of versions.
pub(crate) struct Store {
    shelves: Vec<Shelf>,
    version: u64,
    window: usize,
    index: Index,
    chores: Option<mpsc::UnboundedSender<Chore>>,
    journal: Option<Arc<Journal>>,
}

impl Store {
    pub(crate) fn new(shelves: usize, window: usize) -> Self {
        Self {
            shelves: (0..shelves).map(|_| Shelf::new()).collect(),
            version: 0,
            window: window.max(1),
            index: Index::default(),
            chores: None,
            journal: None,
        }
    }

    /// Takes up what an earlier life left behind; what happened in it is not told.
    pub(crate) fn restore(&mut self, contents: Contents) {
        self.version = contents.version;
        self.index
            .reserve(contents.objects.iter().map(Vec::len).sum());
        for (shelf, objects) in contents.objects.into_iter().enumerate() {
            for object in &objects {
                self.index.insert(shelf, object);
            }
            self.shelves[shelf].objects = objects
                .into_iter()
                .map(|object| (Arc::clone(&object.key), Arc::new(object)))
                .collect();
        }
        self.compact();
    }

    /// Queues every write for the disk from now on.
    pub(crate) fn keep_journal(&mut self) -> Arc<Journal> {
        let tips = self.shelves.iter().map(|shelf| shelf.tip.clone()).collect();
        let journal = Arc::new(Journal::new(self.version, tips));
        self.journal = Some(Arc::clone(&journal));
        journal
    }

    /// Returns the version of the latest write of any kind.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// Returns the version up to which everything may be told: nothing that a crash could take back.
    pub(crate) fn settled(&self) -> u64 {
        let journal = self.journal.as_ref();
        journal.map_or(self.version, |journal| journal.settled())
    }

    pub(crate) fn get(&self, shelf: usize, key: &Key) -> Option<&Arc<Object>> {
        self.shelves[shelf].objects.get(key)
    }

    pub(crate) fn by_uid(&self, uid: &str) -> Option<(usize, &Arc<Object>)> {
        let (shelf, key) = self.index.by_uid(uid)?;
        Some((*shelf, self.get(*shelf, key)?))
    }

    /// Lists the objects that name `uid` as an owner.
    pub(crate) fn dependents(&self, uid: &str) -> Vec<Place> {
        self.index.dependents(uid)
    }

    /// Subscribes to the version of the latest write to a kind that may be told.
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
        let objects = &mut self.shelves[shelf].objects;
        let key = match objects.get(key) {
            Some(before) => Arc::clone(&before.key),
            None => Arc::new(key.clone()),
        };
        let object = Arc::new(Object::new(Arc::clone(&key), self.version, value));
        let before = objects.insert(key, Arc::clone(&object));
        self.index.replace(shelf, before.as_deref(), Some(&object));
        let happening = match before {
            Some(_) => Happening::Modified,
            None => Happening::Added,
        };
        self.record(shelf, happening, &object, before);
        object
    }

    /// Removes an object and returns its last state, stamped with the version of the removal.
    pub(crate) fn remove(&mut self, shelf: usize, key: &Key) -> Option<Arc<Object>> {
        let before = self.shelves[shelf].objects.remove(key)?;
        self.version += 1;
        let mut value = (*before.value).clone();
        stamp(&mut value, self.version);
        let object = Arc::new(Object::new(Arc::clone(&before.key), self.version, value));
        self.index.replace(shelf, Some(&before), None);
        self.record(shelf, Happening::Deleted, &object, Some(before));
        Some(object)
    }

    fn record(
        &mut self,
        shelf: usize,
        happening: Happening,
        object: &Arc<Object>,
        before: Option<Arc<Object>>,
    ) {
        self.report(shelf, happening, object, before.as_deref());
        if let Some(journal) = &self.journal {
            journal.push(Change {
                shelf,
                object: Arc::clone(object),
                gone: happening == Happening::Deleted,
            });
        }
        let event = Event::new(happening, Arc::clone(object), before);
        let shelf = &mut self.shelves[shelf];
        shelf.record(event, self.window);
        if self.journal.is_none() {
            shelf.tip.send_replace(self.version);
        }
    }

    /// Tells the garbage collector what it may have to look at.
    fn report(&self, shelf: usize, happening: Happening, object: &Object, before: Option<&Object>) {
        let Some(chores) = &self.chores else {
            return;
        };
        let owners = &object.facts.owners;
        let reowned = || before.is_none_or(|before| before.facts.owners != *owners);
        // A collector that has ended no longer listens; its successor starts with a full look around.
        let tell = |chore| drop(chores.send(chore));
        if happening == Happening::Deleted {
            tell(Chore::Gone {
                uid: Arc::clone(&object.facts.uid),
                owners: Arc::clone(owners),
                namespace: object.key.namespace.clone(),
            });
        } else if object.is_ending() || (object.is_owned() && reowned()) {
            tell(Chore::Look(shelf, Arc::clone(&object.key)));
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
        let mut past: BTreeMap<Arc<Key>, Option<Arc<Object>>> =
            range(&self.shelves[shelf].objects, namespace, start)
                .map(|(key, object)| (Arc::clone(key), Some(Arc::clone(object))))
                .collect();
        for event in log.rev() {
            past.insert(Arc::clone(&event.object.key), event.before.clone());
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
    objects: &'a BTreeMap<Arc<Key>, V>,
    namespace: Option<&'a str>,
    start: Option<&Key>,
) -> impl Iterator<Item = (&'a Arc<Key>, &'a V)> {
    let from = match (start, namespace) {
        (Some(start), _) => Bound::Excluded(start.clone()),
        (None, Some(namespace)) => Bound::Included(Key::new(namespace, "")),
        (None, None) => Bound::Unbounded,
    };
    objects
        .range::<Key, _>((from, Bound::Unbounded))
        .take_while(move |(key, _)| namespace.is_none_or(|wanted| key.namespace == wanted))
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
                let mut known: BTreeMap<Arc<Key>, Arc<Object>> = store
                    .list_at(0, None, None, version)
                    .map_err(|expired| TestCaseError::fail(format!("{expired:?}")))?
                    .into_iter()
                    .map(|object| (Arc::clone(&object.key), object))
                    .collect();
                for event in store.events_after(0, version).into_iter().flatten() {
                    let key = Arc::clone(&event.object.key);
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
