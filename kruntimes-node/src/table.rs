//! What this node holds: one entry per claimed Run, with its capacity (node, sections 5 and 9).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use kruntimes_core::life::{Failure, Hold, Local};
use kruntimes_core::resources::{self, Amounts};
use kruntimes_k8s::cache::ObjectKey;
use kruntimes_proto::{Execution, ExecutionState};
use tokio::sync::watch;

use crate::artifact::Collected;
use crate::logs::Cursor;

/// One held Run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Entry {
    pub(crate) key: ObjectKey,
    pub(crate) local: Local,
    /// What it holds, in every active state and until its process is gone (N-30).
    pub(crate) amounts: Amounts,
    /// The PersistentWorkspace it works in.
    pub(crate) workspace: Option<String>,
    /// Nothing else may be held beside it (N-32).
    pub(crate) exclusive: bool,
    /// Counts attempts seen here; a result of an earlier one is ignored.
    pub(crate) epoch: u64,
    /// Its files are in place and kept by a retry (N-109).
    pub(crate) prepared: bool,
    /// Its release has begun; only that is still to be done.
    pub(crate) releasing: bool,
    /// What the server reported by itself since it was last asked.
    pub(crate) pushed: Option<ExecutionState>,
    /// The last report of the present attempt.
    pub(crate) report: Option<Execution>,
    /// Exit code of the present attempt, when its process ended by itself.
    pub(crate) exit_code: Option<i32>,
    /// What is known of storing its artifacts.
    pub(crate) upload: Upload,
    pub(crate) stdout: Cursor,
    pub(crate) stderr: Cursor,
}

/// How far the artifacts of one attempt are.
#[derive(Clone, Debug, Default)]
pub(crate) struct Upload {
    /// A collection is on its way.
    pub(crate) busy: bool,
    /// How the last one ended, until somebody has seen it.
    pub(crate) result: Option<Collected>,
    /// How often the store has failed.
    pub(crate) failures: u32,
    /// When it is asked again.
    pub(crate) again: Option<Timestamp>,
}

#[derive(Debug, Default)]
struct Contents {
    entries: BTreeMap<String, Entry>,
    /// Deleting Runs that were released although their object stays for other finalizers.
    released: BTreeSet<String>,
}

/// All held Runs by UID.
#[derive(Debug)]
pub(crate) struct Table {
    contents: Mutex<Contents>,
    changed: watch::Sender<()>,
}

/// Why a Run is not taken now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// There is not enough room.
    NoRoom,
    /// It is held already.
    Held,
}

impl Table {
    pub(crate) fn new() -> Self {
        Self {
            contents: Mutex::default(),
            changed: watch::Sender::new(()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Contents> {
        // A panic elsewhere leaves plain collections behind, which stay usable.
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks capacity and takes the place in one step (N-29 to N-32).
    pub(crate) fn reserve(
        &self,
        uid: &str,
        entry: Entry,
        capacity: &Amounts,
    ) -> Result<(), Refused> {
        let mut contents = self.lock();
        if contents.entries.contains_key(uid) {
            return Err(Refused::Held);
        }
        let mut used = Amounts::new();
        for held in contents.entries.values() {
            resources::add(&mut used, &held.amounts);
        }
        let alone = contents.entries.is_empty();
        let blocked = contents.entries.values().any(|held| held.exclusive);
        if blocked
            || (entry.exclusive && !alone)
            || !resources::fits(&entry.amounts, &used, capacity)
        {
            return Err(Refused::NoRoom);
        }
        contents.entries.insert(uid.to_owned(), entry);
        Ok(())
    }

    /// Takes in work that exists already, whatever the capacity; an entry that is there stays.
    pub(crate) fn adopt(&self, uid: &str, entry: Entry) {
        self.lock().entries.entry(uid.to_owned()).or_insert(entry);
    }

    /// Lends what is held of a Run.
    pub(crate) fn look<T>(&self, uid: &str, see: impl FnOnce(Hold<'_>) -> T) -> T {
        let contents = self.lock();
        match contents.entries.get(uid) {
            Some(entry) if entry.releasing => see(Hold::Released),
            Some(entry) => see(Hold::Held(&entry.local)),
            None if contents.released.contains(uid) => see(Hold::Released),
            None => see(Hold::None),
        }
    }

    /// Changes an entry.
    pub(crate) fn update<T>(&self, uid: &str, change: impl FnOnce(&mut Entry) -> T) -> Option<T> {
        let changed = self.lock().entries.get_mut(uid).map(change);
        if changed.is_some() {
            self.changed.send_replace(());
        }
        changed
    }

    /// Gives a place back; returns the entry that held it.
    pub(crate) fn remove(&self, uid: &str) -> Option<Entry> {
        let entry = self.lock().entries.remove(uid);
        self.changed.send_replace(());
        entry
    }

    /// Remembers that a deleting Run needs nothing more.
    pub(crate) fn mark_released(&self, uid: &str) {
        self.lock().released.insert(uid.to_owned());
    }

    /// Forgets a Run whose object is gone.
    pub(crate) fn unmark_released(&self, uid: &str) {
        self.lock().released.remove(uid);
    }

    /// Returns the UIDs held under a name: more than one after a Run was replaced (N-121).
    pub(crate) fn held_as(&self, key: &ObjectKey) -> Vec<String> {
        let contents = self.lock();
        let held = contents
            .entries
            .iter()
            .filter(|(_, entry)| entry.key == *key);
        held.map(|(uid, _)| uid.clone()).collect()
    }

    /// Returns the names of all held Runs.
    pub(crate) fn keys(&self) -> Vec<ObjectKey> {
        let contents = self.lock();
        contents.entries.values().map(|e| e.key.clone()).collect()
    }

    /// Returns how many Runs are held, those included whose release is on its way (N-30).
    pub(crate) fn len(&self) -> usize {
        self.lock().entries.len()
    }

    /// Tells whether a Run is held, its release included.
    pub(crate) fn holds(&self, uid: &str) -> bool {
        self.lock().entries.contains_key(uid)
    }

    /// Tells whether the start of this attempt is still wanted (N-80).
    pub(crate) fn wants(&self, uid: &str, epoch: u64) -> bool {
        let contents = self.lock();
        let entry = contents.entries.get(uid);
        entry.is_some_and(|entry| entry.epoch == epoch && !entry.releasing)
    }

    /// Waits until the start of this attempt is wanted no more (N-36).
    pub(crate) async fn unwanted(&self, uid: &str, epoch: u64) {
        let mut changes = self.changed.subscribe();
        // The sender lives in `self`, so waiting cannot fail.
        while self.wants(uid, epoch) && changes.changed().await.is_ok() {}
    }

    /// Tells whether anything held works in this PersistentWorkspace.
    pub(crate) fn uses(&self, workspace: &str) -> bool {
        let contents = self.lock();
        let mut held = contents.entries.values();
        held.any(|entry| entry.workspace.as_deref() == Some(workspace))
    }

    /// Notes how a start ended.
    pub(crate) fn start_ended(&self, uid: &str, epoch: u64, failure: Option<Failure>) {
        self.update(uid, |entry| {
            entry.local.starting = false;
            if entry.epoch == epoch {
                entry.local.failure = failure;
            }
        });
    }

    /// Waits until neither a start nor a collection of this Run is on its way.
    pub(crate) async fn settled(&self, uid: &str) {
        let mut changes = self.changed.subscribe();
        loop {
            let starting = self
                .lock()
                .entries
                .get(uid)
                .is_some_and(|entry| entry.local.starting || entry.upload.busy);
            // The sender lives in `self`, so waiting cannot fail.
            if !starting || changes.changed().await.is_err() {
                return;
            }
        }
    }

    /// Waits until nothing is held.
    pub(crate) async fn empty(&self) {
        let mut changes = self.changed.subscribe();
        while !self.lock().entries.is_empty() {
            if changes.changed().await.is_err() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use kruntimes_core::quantity::Quantity;

    use super::*;

    fn amounts(list: &[(&str, i64)]) -> Amounts {
        list.iter()
            .map(|&(name, amount)| (name.to_owned(), Quantity::from_whole(amount)))
            .collect()
    }

    fn entry(list: &[(&str, i64)], exclusive: bool) -> Entry {
        Entry {
            amounts: amounts(list),
            exclusive,
            ..Entry::default()
        }
    }

    #[test]
    fn n_29_n_30_n_31_n_32_a_place_is_taken_in_one_step() {
        let capacity = amounts(&[("runs", 2), ("gpu", 1)]);
        let table = Table::new();
        let take = |uid, list, exclusive| table.reserve(uid, entry(list, exclusive), &capacity);
        let one: &[(&str, i64)] = &[("runs", 1)];
        let gpu: &[(&str, i64)] = &[("runs", 1), ("gpu", 1)];
        assert_eq!(take("a", gpu, false), Ok(()));
        assert_eq!(take("a", one, false), Err(Refused::Held));
        assert_eq!(take("b", gpu, false), Err(Refused::NoRoom));
        assert_eq!(
            take("b", &[("runs", 1), ("disk", 1)], false),
            Err(Refused::NoRoom)
        );
        assert_eq!(
            take("s", one, true),
            Err(Refused::NoRoom),
            "a session is alone"
        );
        assert_eq!(take("b", one, false), Ok(()));
        assert_eq!(take("c", one, false), Err(Refused::NoRoom));
        // N-30: what is being released counts until it is gone.
        table.update("a", |entry| entry.releasing = true);
        assert_eq!(take("c", one, false), Err(Refused::NoRoom));
        table.remove("a");
        table.remove("b");
        assert_eq!(take("s", one, true), Ok(()));
        assert_eq!(take("c", one, false), Err(Refused::NoRoom));
    }

    #[test]
    fn n_121_entries_are_found_by_name_and_kept_apart_by_uid() {
        let table = Table::new();
        let key = ObjectKey::new("ns", "r");
        for uid in ["old", "new"] {
            table.adopt(
                uid,
                Entry {
                    key: key.clone(),
                    ..Entry::default()
                },
            );
        }
        assert_eq!(table.held_as(&key), ["new", "old"]);
        assert!(table.held_as(&ObjectKey::new("other", "r")).is_empty());
    }

    #[test]
    fn n_190_what_was_taken_meanwhile_is_not_taken_up_again() {
        let table = Table::new();
        let mut taken = Entry::default();
        taken.local.attempt = 2;
        table.adopt("u", taken);
        let mut restored = Entry::default();
        restored.local.attempt = 1;
        table.adopt("u", restored);
        assert_eq!(table.update("u", |entry| entry.local.attempt), Some(2));
    }

    #[tokio::test]
    async fn waiting_for_a_start_ends_with_the_start_or_the_entry() {
        let table = std::sync::Arc::new(Table::new());
        table.settled("a").await;
        table.adopt("a", Entry::default());
        table.update("a", |entry| entry.local.starting = true);
        let waiting = tokio::spawn({
            let table = std::sync::Arc::clone(&table);
            async move { table.settled("a").await }
        });
        tokio::task::yield_now().await;
        table.start_ended("a", 0, None);
        waiting.await.unwrap();
        table.remove("a");
        table.empty().await;
    }
}
