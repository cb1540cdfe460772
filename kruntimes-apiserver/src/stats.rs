//! Counters that tests and metrics read.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

/// What the service has done since it was built.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Requests by verb (`get`, `patch-status`, …) and resource (`runs.kruntimes.io`), refused ones included.
    pub requests: BTreeMap<(String, String), u64>,
    /// Writes refused because the object had changed.
    pub conflicts: u64,
    /// Events sent to watchers, bookmarks and errors not counted.
    pub watch_events: u64,
}

impl Stats {
    /// Counts the requests of one verb on one resource.
    pub fn requests(&self, verb: &str, resource: &str) -> u64 {
        self.requests
            .get(&(verb.to_owned(), resource.to_owned()))
            .copied()
            .unwrap_or(0)
    }
}

#[derive(Default)]
pub(crate) struct Counters {
    requests: Mutex<BTreeMap<&'static str, BTreeMap<String, u64>>>,
    conflicts: AtomicU64,
    watch_events: AtomicU64,
}

impl Counters {
    pub(crate) fn request(&self, verb: &'static str, resource: String) {
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        *requests
            .entry(verb)
            .or_default()
            .entry(resource)
            .or_default() += 1;
    }

    pub(crate) fn conflict(&self) {
        self.conflicts.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn watch_events(&self, count: usize) {
        self.watch_events
            .fetch_add(u64::try_from(count).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> Stats {
        let requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        Stats {
            requests: requests
                .iter()
                .flat_map(|(verb, counts)| {
                    counts
                        .iter()
                        .map(|(resource, count)| (((*verb).to_owned(), resource.clone()), *count))
                })
                .collect(),
            conflicts: self.conflicts.load(Ordering::Relaxed),
            watch_events: self.watch_events.load(Ordering::Relaxed),
        }
    }
}
