//! What is written but not yet on disk: a queue in the order of versions, and the thread that empties it.
//!
//! One transaction takes everything that has queued up during the last one, so the price of reaching the disk is
//! shared by all who wait for it. After the first error the thread ends for good: what the disk did with the failed
//! transaction is unknown, and asking again could turn a lost write into an acknowledged one.

use std::{
    sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError},
    thread::{self, JoinHandle},
};

use tokio::sync::watch;

use super::{Disk, StoreError};
use crate::object::Object;

/// Most changes in one transaction, so that nobody waits for the whole of a mass deletion.
const TRANSACTION_MAX: usize = 4096;

/// One write on its way to the disk.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) shelf: usize,
    /// The object after the write, or its last state.
    pub(crate) object: Arc<Object>,
    pub(crate) gone: bool,
}

#[derive(Debug, Default)]
struct Queue {
    changes: Vec<Change>,
    closing: bool,
}

/// The queue of writes, and what has become of them.
#[derive(Debug)]
pub(crate) struct Journal {
    queue: Mutex<Queue>,
    arrival: Condvar,
    /// Everything up to this version is on disk.
    settled: watch::Sender<u64>,
    /// Per kind, the version up to which watchers may be told.
    tips: Vec<watch::Sender<u64>>,
    failure: OnceLock<StoreError>,
}

impl Journal {
    pub(crate) fn new(version: u64, tips: Vec<watch::Sender<u64>>) -> Self {
        Self {
            queue: Mutex::default(),
            arrival: Condvar::new(),
            settled: watch::Sender::new(version),
            tips,
            failure: OnceLock::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a write; the caller holds the lock of the store, so the queue is in the order of versions.
    pub(crate) fn push(&self, change: Change) {
        if self.failure.get().is_none() {
            self.lock().changes.push(change);
            self.arrival.notify_one();
        }
    }

    /// Returns the version up to which everything is on disk.
    pub(crate) fn settled(&self) -> u64 {
        *self.settled.borrow()
    }

    /// Why no more writes are taken, if so.
    pub(crate) fn failure(&self) -> Option<&StoreError> {
        self.failure.get()
    }

    /// Waits until everything up to `version` is on disk.
    pub(crate) async fn settle(&self, version: u64) -> Result<(), StoreError> {
        if self.settled() >= version {
            return Ok(());
        }
        let mut news = self.settled.subscribe();
        let over = |settled: &u64| *settled >= version || self.failure.get().is_some();
        let settled = news.wait_for(over).await.map_or(0, |settled| *settled);
        match self.failure.get() {
            Some(failure) if settled < version => Err(failure.clone()),
            _ => Ok(()),
        }
    }

    /// Waits until a write has failed.
    pub(crate) async fn failed(&self) -> StoreError {
        let mut news = self.settled.subscribe();
        loop {
            if let Some(failure) = self.failure.get() {
                return failure.clone();
            }
            if news.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Takes the oldest changes, waiting for some; none are left when it is time to end.
    fn take(&self) -> Vec<Change> {
        let waiting = |queue: &mut Queue| queue.changes.is_empty() && !queue.closing;
        let mut queue = self
            .arrival
            .wait_while(self.lock(), waiting)
            .unwrap_or_else(PoisonError::into_inner);
        if queue.changes.len() <= TRANSACTION_MAX {
            return std::mem::take(&mut queue.changes);
        }
        let rest = queue.changes.split_off(TRANSACTION_MAX);
        std::mem::replace(&mut queue.changes, rest)
    }

    /// Empties the queue onto the disk until it is closed or the disk fails.
    fn work(&self, disk: &Disk) {
        loop {
            let changes = self.take();
            let Some(newest) = changes.last() else {
                return;
            };
            if let Err(failure) = disk.commit(&changes) {
                // Only this thread sets it, and it ends here.
                let _first = self.failure.set(failure);
                self.lock().changes.clear();
                self.settled.send_modify(|_| {});
                return;
            }
            let version = newest.object.version;
            self.settled.send_replace(version);
            self.tell(&changes, version);
        }
    }

    /// Lets the watchers of every kind that was written to have a look.
    fn tell(&self, changes: &[Change], version: u64) {
        let mut told = vec![false; self.tips.len()];
        for change in changes {
            if !std::mem::replace(&mut told[change.shelf], true) {
                self.tips[change.shelf].send_replace(version);
            }
        }
    }
}

/// The thread that writes; it ends, with everything written, when this is dropped.
#[derive(Debug)]
pub(crate) struct Writer {
    pub(crate) journal: Arc<Journal>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// Starts the thread.
    pub(crate) fn start(disk: Disk, journal: Arc<Journal>) -> Result<Self, StoreError> {
        let file = disk.file.clone();
        let work = Arc::clone(&journal);
        let thread = thread::Builder::new()
            .name("kruntimes-store".to_owned())
            .spawn(move || work.work(&disk))
            .map_err(super::unusable("start the thread that writes", &file))?;
        Ok(Self {
            journal,
            thread: Some(thread),
        })
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.journal.lock().closing = true;
        self.journal.arrival.notify_one();
        if let Some(thread) = self.thread.take() {
            // Its panics are caught where they arise, and there is nobody left to tell.
            drop(thread.join());
        }
    }
}
