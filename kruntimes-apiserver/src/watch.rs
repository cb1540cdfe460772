//! Watches: each follows the log of its kind at its own pace, sharing the text of events with the others.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::{Stream, stream};
use serde_json::{Value, json};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

use crate::{
    answer::BoxError,
    commit::Core,
    error::ApiError,
    event::{Event, Happening, line},
    kind::Served,
    object::{Key, Object},
    query::Query,
    selector::Selector,
    shape::{Form, View, metadata_of},
    store::Expired,
};

/// How often a quiet watch tells its version.
const BOOKMARK_EVERY: Duration = Duration::from_mins(1);
/// How long a watch lasts when the caller does not say.
const DEFAULT_TIMEOUT_SECONDS: u64 = 1800;
/// Longest time a watch lasts, whatever the caller says.
const MAX_TIMEOUT_SECONDS: u64 = 24 * 60 * 60;
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// What a watch request asks for.
pub(crate) struct WatchRequest {
    selector: Selector,
    version: u64,
    /// Starts with the objects that exist.
    initial: bool,
    /// Marks the end of the initial events with a bookmark.
    marked: bool,
    bookmarks: bool,
    timeout: Duration,
}

impl WatchRequest {
    pub(crate) fn of_query(query: &Query, served: &Served) -> Result<Self, ApiError> {
        let version = query.number::<u64>("resourceVersion")?.unwrap_or(0);
        let asked = query.text("sendInitialEvents").map(|text| text == "true");
        let timeout = query
            .number::<u64>("timeoutSeconds")?
            .filter(|seconds| *seconds > 0)
            .unwrap_or(DEFAULT_TIMEOUT_SECONDS)
            .min(MAX_TIMEOUT_SECONDS);
        Ok(Self {
            selector: Selector::of_query(query, served)?,
            version,
            initial: asked.unwrap_or(version == 0),
            marked: asked == Some(true),
            bookmarks: query.flag("allowWatchBookmarks"),
            timeout: Duration::from_secs(timeout),
        })
    }
}

/// A running watch.
struct Watch {
    core: Arc<Core>,
    served: Arc<Served>,
    view: View,
    namespace: Option<String>,
    selector: Selector,
    /// Everything up to this version has been sent or did not concern the watcher.
    position: u64,
    tip: watch::Receiver<u64>,
    pending: VecDeque<Bytes>,
    bookmarks: bool,
    next_bookmark: Instant,
    deadline: Instant,
    ended: bool,
}

/// Starts a watch; its position is taken before this returns, so nothing that follows is missed.
pub(crate) fn start(
    core: &Arc<Core>,
    served: Arc<Served>,
    namespace: Option<String>,
    request: WatchRequest,
    view: View,
) -> Result<impl Stream<Item = Result<Bytes, BoxError>> + Send + use<>, ApiError> {
    let now = Instant::now();
    let shelf = served.kind.shelf;
    let (tip, existing, current) = {
        let store = core.lock();
        let existing = if request.initial && served.kind.fixed {
            core.registry.definitions.list(None)
        } else if request.initial {
            store.list(shelf, namespace.as_deref(), None)
        } else {
            Vec::new()
        };
        (store.tip(shelf), existing, store.version())
    };
    if request.initial && request.version > current {
        return Err(ApiError::too_new(request.version, current));
    }
    let from_now = request.initial || request.version == 0;
    let mut watch = Watch {
        core: Arc::clone(core),
        served,
        view,
        namespace,
        selector: request.selector,
        position: if from_now { current } else { request.version },
        tip,
        pending: VecDeque::new(),
        bookmarks: request.bookmarks,
        next_bookmark: now + BOOKMARK_EVERY,
        deadline: now + request.timeout,
        ended: false,
    };
    watch.push_existing(&existing);
    if request.marked && request.bookmarks {
        watch.push_bookmark(true);
    }
    if watch.position > current {
        // A version from another life of this server: only a new list can help.
        watch.fail(&ApiError::too_old(watch.position, current));
    }
    Ok(stream::unfold(watch, |mut watch| async move {
        watch.next().await.map(|line| (Ok(line), watch))
    }))
}

impl Watch {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(line) = self.pending.pop_front() {
                return Some(line);
            }
            if self.ended {
                return None;
            }
            self.catch_up();
            if !self.ended {
                self.keep_time(Instant::now());
            }
            if self.pending.is_empty() && !self.ended {
                self.wait().await;
            }
        }
    }

    /// Returns when something is due even if nothing is written.
    fn alarm(&self) -> Instant {
        if self.bookmarks {
            self.deadline.min(self.next_bookmark)
        } else {
            self.deadline
        }
    }

    /// Sends the bookmark that is due, behind what it covers, and ends the watch when its time is over.
    fn keep_time(&mut self, now: Instant) {
        if now < self.alarm() {
            return;
        }
        if self.bookmarks {
            self.push_bookmark(false);
        }
        self.next_bookmark = now + BOOKMARK_EVERY;
        self.ended = now >= self.deadline;
    }

    /// Waits for a write to the kind or for the time when something is due.
    async fn wait(&mut self) {
        let alarm = self.alarm();
        tokio::select! {
            biased;
            changed = self.tip.changed() => self.ended |= changed.is_err(),
            () = sleep_until(alarm) => {}
        }
    }

    /// Turns everything that has happened since the last time into lines.
    fn catch_up(&mut self) {
        self.tip.mark_unchanged();
        let (happened, settled) = {
            let store = self.core.lock();
            let settled = store.settled();
            let events = store
                .events_after(self.served.kind.shelf, self.position)
                .map(|events| {
                    let told = events.take_while(|event| event.object.version <= settled);
                    told.cloned().collect::<Vec<Arc<Event>>>()
                });
            (events, settled)
        };
        match happened {
            Ok(events) => {
                self.position = self.position.max(settled);
                let before = self.pending.len();
                for event in &events {
                    let line = self.told(event);
                    self.pending.extend(line);
                }
                self.core.counters.watch_events(self.pending.len() - before);
            }
            Err(Expired(oldest)) => self.fail(&ApiError::too_old(self.position, oldest)),
        }
    }

    /// Returns how the watcher sees an event: objects that begin or cease to match come and go.
    fn told(&mut self, event: &Event) -> Option<Bytes> {
        let here = |wanted: &str| event.object.key.namespace == wanted;
        if !self.namespace.as_deref().is_none_or(here) {
            return None;
        }
        let before = event.before.as_deref();
        // The trees are kept with the event: the next watcher will want them, too.
        let chosen =
            |object: &Object| self.selector.is_everything() || self.selector.matches(&object.value);
        let matched = before.is_some_and(chosen);
        let matches = event.happening != Happening::Deleted && chosen(&event.object);
        let happening = match (matched, matches) {
            (false, false) => return None,
            (false, true) => Happening::Added,
            (true, true) => Happening::Modified,
            (true, false) => Happening::Deleted,
        };
        if happening == event.happening {
            return Some(if self.view.is_stored() {
                event.line()
            } else {
                self.line(happening, &event.object)
            });
        }
        if happening != Happening::Deleted {
            return Some(self.line(happening, &event.object));
        }
        // The last state that matched, under the version of the write that ended it.
        let last = before?;
        let mut value = (*last.value).clone();
        value["metadata"]["resourceVersion"] = Value::from(event.object.version.to_string());
        let last = Object::new(Arc::clone(&last.key), event.object.version, value);
        Some(self.line(happening, &last))
    }

    /// Writes an event; only the first table of a watch describes its columns.
    fn line(&mut self, happening: Happening, object: &Object) -> Bytes {
        let text = line(happening, &self.view.bytes(object));
        if let Form::Table(table) = &mut self.view.form {
            table.continue_below();
        }
        text
    }

    fn push_existing(&mut self, existing: &[Arc<Object>]) {
        let before = self.pending.len();
        for object in existing {
            if self.selector.admits(object) {
                let text = self.line(Happening::Added, object);
                self.pending.push_back(text);
            }
        }
        self.core.counters.watch_events(self.pending.len() - before);
    }

    fn push_bookmark(&mut self, initial_events_end: bool) {
        let mut metadata = json!({ "resourceVersion": self.position.to_string() });
        if initial_events_end {
            metadata["annotations"] = json!({ INITIAL_EVENTS_END: "true" });
        }
        let mark = json!({
            "apiVersion": self.view.api_version, "kind": self.served.kind.name, "metadata": metadata,
        });
        let object = match &self.view.form {
            Form::Whole => mark,
            Form::Metadata => metadata_of(&mark),
            Form::Table(_) => {
                let mark = Object::new(Key::default(), self.position, mark);
                self.view.value(&mark)
            }
        };
        self.push(&json!({ "type": "BOOKMARK", "object": object }));
        if let Form::Table(table) = &mut self.view.form {
            table.continue_below();
        }
    }

    /// Ends the watch with an error inside the stream, the only form clients relist on.
    fn fail(&mut self, error: &ApiError) {
        self.push(&json!({ "type": "ERROR", "object": error.to_status() }));
        self.ended = true;
    }

    fn push(&mut self, event: &Value) {
        self.pending.push_back(Bytes::from(format!("{event}\n")));
    }
}
