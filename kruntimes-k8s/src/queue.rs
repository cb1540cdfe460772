//! A queue of keys to reconcile: no duplicates, no key at two workers, backoff per key.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// Wait after the first error of a key; doubles with each further one.
pub const BACKOFF_BASE: Duration = Duration::from_millis(5);
/// Longest wait after an error.
pub const BACKOFF_MAX: Duration = Duration::from_secs(60);

/// A queue of keys. Clones share one queue.
///
/// A key that is already queued is not added again; a key added while it is
/// being processed is processed once more afterwards (S-17).
#[derive(Debug)]
pub struct WorkQueue<T> {
    shared: Arc<Shared<T>>,
}

impl<T> Clone for WorkQueue<T> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

#[derive(Debug)]
struct Shared<T> {
    state: Mutex<State<T>>,
    changed: Notify,
}

#[derive(Debug)]
struct State<T> {
    ready: VecDeque<T>,
    /// Whether a key came after the ready ones were sorted.
    unsorted: bool,
    queued: BTreeSet<T>,
    processing: BTreeSet<T>,
    again: BTreeSet<T>,
    delayed: BinaryHeap<Reverse<(Instant, T)>>,
    due: BTreeMap<T, Instant>,
    failures: BTreeMap<T, u32>,
}

impl<T: Ord + Clone> State<T> {
    fn add(&mut self, key: T) -> bool {
        if self.processing.contains(&key) {
            self.again.insert(key);
            return false;
        }
        if !self.queued.insert(key.clone()) {
            return false;
        }
        self.ready.push_back(key);
        self.unsorted = true;
        true
    }

    /// Returns whether the key was not due by then anyway.
    fn add_at(&mut self, key: T, at: Instant) -> bool {
        if self.due.get(&key).is_some_and(|due| *due <= at) {
            return false;
        }
        self.due.insert(key.clone(), at);
        self.delayed.push(Reverse((at, key)));
        true
    }

    /// Moves keys that are due to the ready list.
    fn release(&mut self, now: Instant) {
        while let Some(Reverse((at, _))) = self.delayed.peek() {
            if *at > now {
                break;
            }
            let Some(Reverse((at, key))) = self.delayed.pop() else {
                break;
            };
            // An entry that a nearer one replaced is only skipped.
            if self.due.get(&key) == Some(&at) {
                self.due.remove(&key);
                self.add(key);
            }
        }
    }

    fn take(&mut self, sort: Option<&Sort<'_, T>>) -> Option<T> {
        if let Some(sort) = sort
            && self.unsorted
        {
            sort(self.ready.make_contiguous());
            self.unsorted = false;
        }
        let key = self.ready.pop_front()?;
        self.queued.remove(&key);
        self.processing.insert(key.clone());
        Some(key)
    }
}

impl<T: Ord + Clone> Default for WorkQueue<T> {
    fn default() -> Self {
        Self {
            shared: Arc::new(Shared {
                state: Mutex::new(State {
                    ready: VecDeque::new(),
                    unsorted: false,
                    queued: BTreeSet::new(),
                    processing: BTreeSet::new(),
                    again: BTreeSet::new(),
                    delayed: BinaryHeap::new(),
                    due: BTreeMap::new(),
                    failures: BTreeMap::new(),
                }),
                changed: Notify::new(),
            }),
        }
    }
}

impl<T: Ord + Clone> WorkQueue<T> {
    /// Makes an empty queue.
    pub fn new() -> Self {
        Self::default()
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        // A panic elsewhere leaves plain collections behind, which stay usable.
        self.shared
            .state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a key to be processed as soon as a worker is free.
    pub fn add(&self, key: T) {
        if self.state().add(key) {
            self.shared.changed.notify_one();
        }
    }

    /// Tells whether the last look at a key ended in an error.
    pub fn has_failed(&self, key: &T) -> bool {
        self.state().failures.contains_key(key)
    }

    /// Adds a key unless it waits out an error: then it is processed again soon, and not sooner than that.
    pub fn add_calm(&self, key: T) {
        let added = {
            let mut state = self.state();
            !state.failures.contains_key(&key) && state.add(key)
        };
        if added {
            self.shared.changed.notify_one();
        }
    }

    /// Adds a key to be processed after `delay`, unless it is due earlier anyway.
    pub fn add_after(&self, key: T, delay: Duration) {
        if delay.is_zero() {
            return self.add(key);
        }
        let added = self.state().add_at(key, Instant::now() + delay);
        if added {
            self.shared.changed.notify_one();
        }
    }

    /// Adds a key after its growing wait, counting one more error (S-20).
    pub fn add_backoff(&self, key: T) {
        let delay = {
            let mut state = self.state();
            let failures = state.failures.entry(key.clone()).or_insert(0);
            let delay = BACKOFF_BASE
                .saturating_mul(1_u32.checked_shl(*failures).unwrap_or(u32::MAX))
                .min(BACKOFF_MAX);
            *failures = (*failures + 1).min(31);
            delay
        };
        self.add_after(key, delay);
    }

    /// Forgets the errors of a key.
    pub fn forget(&self, key: &T) {
        self.state().failures.remove(key);
    }

    /// Returns how many keys wait to be processed now.
    pub fn len(&self) -> usize {
        self.state().ready.len()
    }

    /// Tells whether no key waits to be processed now.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Waits for a key. It counts as being processed until the lease is dropped.
    pub async fn next(&self) -> Lease<T> {
        self.next_sorted(None).await
    }

    /// Waits for the first key in an order, which is asked for anew when keys were added.
    pub async fn next_sorted(&self, sort: Option<&Sort<'_, T>>) -> Lease<T> {
        loop {
            let wake = {
                let mut state = self.state();
                state.release(Instant::now());
                if let Some(key) = state.take(sort) {
                    if !state.ready.is_empty() {
                        self.shared.changed.notify_one();
                    }
                    return Lease {
                        key,
                        queue: self.clone(),
                    };
                }
                state.delayed.peek().map(|Reverse((at, _))| *at)
            };
            match wake {
                Some(at) => {
                    tokio::select! {
                        () = self.shared.changed.notified() => {}
                        () = tokio::time::sleep_until(at) => {}
                    }
                }
                None => self.shared.changed.notified().await,
            }
        }
    }

    fn done(&self, key: &T) {
        let added = {
            let mut state = self.state();
            state.processing.remove(key);
            state.again.remove(key) && state.add(key.clone())
        };
        if added {
            self.shared.changed.notify_one();
        }
    }
}

/// A key that is being processed.
#[derive(Debug)]
pub struct Lease<T: Ord + Clone> {
    key: T,
    queue: WorkQueue<T>,
}

impl<T: Ord + Clone> Lease<T> {
    /// Returns the key.
    pub fn key(&self) -> &T {
        &self.key
    }
}

impl<T: Ord + Clone> Drop for Lease<T> {
    fn drop(&mut self) {
        self.queue.done(&self.key);
    }
}

/// How a reconcile ended, for the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing to do until something changes.
    Done,
    /// To be looked at again after this long, without counting an error.
    After(Duration),
    /// An error: to be repeated after the key's growing wait.
    Retry,
}

/// Puts keys that wait to be processed into the order they are to be processed in.
pub type Sort<'a, T> = dyn Fn(&mut [T]) + Send + Sync + 'a;

/// Processes keys with at most `workers` reconciles at once, for ever.
///
/// Everything runs inside the returned future: dropping it stops all of it.
pub async fn work<T, F, Fut>(queue: &WorkQueue<T>, workers: usize, reconcile: F)
where
    T: Ord + Clone,
    F: Fn(T) -> Fut,
    Fut: Future<Output = Outcome>,
{
    work_sorted(queue, workers, None, reconcile).await;
}

/// Processes keys like [`work`], those that wait in another order than that of their arrival.
pub async fn work_sorted<T, F, Fut>(
    queue: &WorkQueue<T>,
    workers: usize,
    sort: Option<&Sort<'_, T>>,
    reconcile: F,
) where
    T: Ord + Clone,
    F: Fn(T) -> Fut,
    Fut: Future<Output = Outcome>,
{
    let worker = || async {
        loop {
            let lease = queue.next_sorted(sort).await;
            let key = lease.key().clone();
            match reconcile(key.clone()).await {
                Outcome::Done => queue.forget(&key),
                Outcome::After(delay) => {
                    queue.forget(&key);
                    queue.add_after(key, delay);
                }
                Outcome::Retry => queue.add_backoff(key),
            }
            drop(lease);
        }
    };
    futures::future::join_all((0..workers.max(1)).map(|_| worker())).await;
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn s_17_case_092_a_queued_key_is_not_added_again_and_a_running_one_runs_once_more() {
        let queue = WorkQueue::new();
        queue.add(1);
        queue.add(1);
        let lease = queue.next().await;
        queue.add(1);
        queue.add(1);
        assert!(queue.is_empty(), "the key is being processed");
        drop(lease);
        assert_eq!(queue.len(), 1);
        drop(queue.next().await);
        assert!(queue.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn s_20_errors_double_the_wait_and_success_resets_it() {
        let queue = WorkQueue::new();
        let start = Instant::now();
        let mut waits = Vec::new();
        for _ in 0..3 {
            queue.add_backoff(1);
            let before = Instant::now();
            drop(queue.next().await);
            waits.push(before.elapsed());
        }
        assert_eq!(waits, [5, 10, 20].map(Duration::from_millis));
        queue.forget(&1);
        queue.add_backoff(1);
        drop(queue.next().await);
        assert_eq!(start.elapsed(), Duration::from_millis(40));
        for _ in 0..64 {
            queue.add_backoff(2);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn s_20_a_calm_add_does_not_cut_the_wait_after_an_error_short() {
        let queue = WorkQueue::new();
        let start = Instant::now();
        queue.add_backoff(1);
        queue.add_calm(1);
        queue.add_calm(2);
        assert_eq!(*queue.next().await.key(), 2);
        assert_eq!(*queue.next().await.key(), 1);
        assert_eq!(start.elapsed(), BACKOFF_BASE);
    }

    #[tokio::test(start_paused = true)]
    async fn the_nearest_of_several_delays_counts() {
        let queue = WorkQueue::new();
        let start = Instant::now();
        queue.add_after(1, Duration::from_secs(30));
        queue.add_after(1, Duration::from_secs(3));
        queue.add_after(1, Duration::from_secs(9));
        drop(queue.next().await);
        assert_eq!(start.elapsed(), Duration::from_secs(3));
        let later = tokio::time::timeout(Duration::from_secs(60), queue.next()).await;
        assert!(later.is_err(), "the replaced delays never fire");
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_is_never_at_two_workers() {
        let queue = WorkQueue::new();
        let busy = RefCell::new(BTreeSet::new());
        let seen = RefCell::new(0);
        for key in 0..50 {
            queue.add(key % 5);
        }
        let run = work(&queue, 8, |key: i32| {
            assert!(busy.borrow_mut().insert(key));
            if *seen.borrow() < 200 {
                queue.add((key + 1) % 5);
            }
            let (busy, seen) = (&busy, &seen);
            async move {
                tokio::task::yield_now().await;
                busy.borrow_mut().remove(&key);
                *seen.borrow_mut() += 1;
                Outcome::After(Duration::from_millis(1))
            }
        });
        let ended = tokio::time::timeout(Duration::from_millis(50), run).await;
        assert!(ended.is_err(), "workers never end");
        assert!(*seen.borrow() > 50);
    }
}
