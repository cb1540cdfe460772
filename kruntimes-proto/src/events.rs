//! Notifications that wait for slow readers without growing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures::stream::{self, BoxStream, StreamExt};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::execution::Event;

/// Least distance between two events of one execution that tell of nothing but output.
pub const OUTPUT_INTERVAL: Duration = Duration::from_millis(100);

/// Hands events to any number of readers, at most one pending event per reader and execution.
///
/// Publishing never waits. A reader that is slow finds the newest state of each execution; what it
/// misses are the states in between. Publish the events of one execution in order.
#[derive(Debug, Default)]
pub struct EventHub {
    readers: Mutex<Readers>,
}

#[derive(Debug, Default)]
struct Readers {
    closed: bool,
    list: Vec<Weak<Reader>>,
}

#[derive(Debug)]
struct Reader {
    ids: BTreeSet<String>,
    pending: Mutex<Pending>,
    wake: Notify,
}

#[derive(Debug, Default)]
struct Pending {
    closed: bool,
    events: BTreeMap<String, Waiting>,
    /// When output of an execution was last told.
    told: BTreeMap<String, Instant>,
    /// Arrival number of the next event, which keeps reading fair.
    next: u64,
}

#[derive(Debug)]
struct Waiting {
    event: Event,
    /// The state changed, so the event does not wait for its interval.
    urgent: bool,
    arrival: u64,
}

impl EventHub {
    /// Makes a hub without readers.
    pub fn new() -> Self {
        Self::default()
    }

    /// Hands an event to every reader that asked for its id.
    ///
    /// `changed` tells that the state differs from the event before; other events, which tell of output
    /// only, reach a reader at most once per [`OUTPUT_INTERVAL`].
    pub fn publish(&self, event: &Event, changed: bool) {
        let mut readers = lock(&self.readers);
        readers.list.retain(|reader| match reader.upgrade() {
            Some(reader) => {
                reader.offer(event, changed);
                true
            }
            None => false,
        });
    }

    /// Opens a stream for `ids` (none means all) that starts with the events `known` returns.
    ///
    /// `known` is called when the reader is registered already, so nothing falls between.
    pub fn subscribe(
        &self,
        ids: &[String],
        known: impl FnOnce() -> Vec<Event>,
    ) -> BoxStream<'static, Event> {
        let reader = Arc::new(Reader {
            ids: ids.iter().cloned().collect(),
            pending: Mutex::default(),
            wake: Notify::new(),
        });
        {
            let mut readers = lock(&self.readers);
            lock(&reader.pending).closed = readers.closed;
            readers.list.push(Arc::downgrade(&reader));
        }
        for event in known() {
            reader.start_with(event);
        }
        stream::unfold(reader, |reader| async move {
            let event = reader.next().await?;
            Some((event, reader))
        })
        .boxed()
    }

    /// Ends all streams, now and later, once they have handed out what is pending.
    pub fn close(&self) {
        let mut readers = lock(&self.readers);
        readers.closed = true;
        for reader in readers.list.drain(..).filter_map(|reader| reader.upgrade()) {
            lock(&reader.pending).closed = true;
            reader.wake.notify_one();
        }
    }

    /// Ends the streams that are open now, as a restart of the server would.
    pub fn hang_up(&self) {
        self.close();
        lock(&self.readers).closed = false;
    }
}

impl Reader {
    fn wants(&self, id: &str) -> bool {
        self.ids.is_empty() || self.ids.contains(id)
    }

    fn offer(&self, event: &Event, changed: bool) {
        if !self.wants(&event.id) {
            return;
        }
        let mut pending = lock(&self.pending);
        if let Some(waiting) = pending.events.get_mut(&event.id) {
            waiting.event.state = event.state;
            waiting.event.output |= event.output;
            waiting.urgent |= changed;
        } else {
            pending.add(event.clone(), changed);
        }
        drop(pending);
        self.wake.notify_one();
    }

    fn start_with(&self, event: Event) {
        let mut pending = lock(&self.pending);
        if self.wants(&event.id) && !pending.events.contains_key(&event.id) {
            pending.add(event, true);
        }
    }

    async fn next(&self) -> Option<Event> {
        loop {
            let due = {
                let mut pending = lock(&self.pending);
                match pending.take(Instant::now()) {
                    Taken::Event(event) => return Some(event),
                    Taken::Nothing if pending.closed => return None,
                    Taken::Nothing => None,
                    Taken::Later(due) => Some(due),
                }
            };
            match due {
                None => self.wake.notified().await,
                Some(due) => {
                    // Whichever comes first: the interval ends or something urgent arrives.
                    let _ = tokio::time::timeout_at(due, self.wake.notified()).await;
                }
            }
        }
    }
}

enum Taken {
    Event(Event),
    Later(Instant),
    Nothing,
}

impl Pending {
    fn add(&mut self, event: Event, urgent: bool) {
        let arrival = self.next;
        self.next += 1;
        let waiting = Waiting {
            event,
            urgent,
            arrival,
        };
        self.events.insert(waiting.event.id.clone(), waiting);
    }

    fn take(&mut self, now: Instant) -> Taken {
        let closed = self.closed;
        let due = |waiting: &Waiting| match self.told.get(&waiting.event.id) {
            Some(told) if !waiting.urgent && !closed => *told + OUTPUT_INTERVAL,
            _ => now,
        };
        let first = self
            .events
            .values()
            .map(|waiting| (due(waiting).max(now), waiting.arrival, &waiting.event.id))
            .min();
        let Some((due, _, id)) = first else {
            return Taken::Nothing;
        };
        if due > now {
            return Taken::Later(due);
        }
        let id = id.clone();
        let Some(waiting) = self.events.remove(&id) else {
            return Taken::Nothing;
        };
        if waiting.event.state.is_final() || waiting.event.state == crate::ExecutionState::GONE {
            self.told.remove(&id);
        } else if waiting.event.output {
            self.told.insert(id, now);
        }
        Taken::Event(waiting.event)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::execution::ExecutionState;
    use futures::FutureExt;

    fn event(id: &str, state: ExecutionState, output: bool) -> Event {
        Event {
            id: id.to_owned(),
            state,
            output,
        }
    }

    #[tokio::test]
    async fn a_slow_reader_finds_the_newest_state_only() {
        let hub = EventHub::new();
        let mut all = hub.subscribe(&[], Vec::new);
        hub.publish(&event("a", ExecutionState::Pending, false), true);
        hub.publish(&event("a", ExecutionState::Running, true), true);
        hub.publish(&event("b", ExecutionState::Running, false), true);
        hub.publish(&event("a", ExecutionState::Succeeded, false), true);
        assert_eq!(
            all.next().await,
            Some(event("a", ExecutionState::Succeeded, true))
        );
        assert_eq!(
            all.next().await,
            Some(event("b", ExecutionState::Running, false))
        );
        assert!(all.next().now_or_never().is_none());
    }

    #[tokio::test]
    async fn a_stream_starts_with_what_is_known_and_prefers_what_is_newer() {
        let hub = EventHub::new();
        let ids = ["a".to_owned(), "b".to_owned()];
        let mut some = hub.subscribe(&ids, || {
            hub.publish(&event("a", ExecutionState::Succeeded, false), true);
            ["a", "b", "c"]
                .map(|id| event(id, ExecutionState::Running, false))
                .to_vec()
        });
        assert_eq!(
            some.next().await,
            Some(event("a", ExecutionState::Succeeded, false))
        );
        assert_eq!(
            some.next().await,
            Some(event("b", ExecutionState::Running, false))
        );
        assert!(some.next().now_or_never().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn output_is_told_once_per_interval_and_the_end_at_once() {
        let hub = EventHub::new();
        let mut all = hub.subscribe(&[], Vec::new);
        let output = event("a", ExecutionState::Running, true);
        let start = Instant::now();
        hub.publish(&output, false);
        assert_eq!(all.next().await, Some(output.clone()));
        assert_eq!(start.elapsed(), Duration::ZERO);
        hub.publish(&output, false);
        hub.publish(&output, false);
        assert_eq!(all.next().await, Some(output.clone()));
        assert!(start.elapsed() >= OUTPUT_INTERVAL);
        hub.publish(&output, false);
        let before = Instant::now();
        hub.publish(&event("a", ExecutionState::Failed, false), true);
        assert_eq!(
            all.next().await,
            Some(event("a", ExecutionState::Failed, true))
        );
        assert_eq!(before.elapsed(), Duration::ZERO);
    }

    #[tokio::test]
    async fn closing_hands_out_what_is_pending_and_ends() {
        let hub = EventHub::new();
        let mut early = hub.subscribe(&[], Vec::new);
        hub.publish(&event("a", ExecutionState::Running, false), true);
        hub.close();
        assert_eq!(
            early.next().await,
            Some(event("a", ExecutionState::Running, false))
        );
        assert_eq!(early.next().await, None);
        assert_eq!(hub.subscribe(&[], Vec::new).next().await, None);
        hub.hang_up();
        assert!(hub.subscribe(&[], Vec::new).next().now_or_never().is_none());
    }

    #[tokio::test]
    async fn readers_that_left_are_dropped() {
        let hub = EventHub::new();
        drop(hub.subscribe(&[], Vec::new));
        hub.publish(&event("a", ExecutionState::Running, false), true);
        assert!(lock(&hub.readers).list.is_empty());
    }
}
