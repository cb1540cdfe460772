//! The core that every verb works on, and the one loop through which existing objects change.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use crate::{
    access::Access,
    clock::{Clock, whole_seconds},
    disk::Writer,
    error::ApiError,
    ids::IdSource,
    kind::Served,
    logs::PodLogs,
    object::{Key, Object},
    registry::Registry,
    stats::Counters,
    store::Store,
};

/// Everything a request needs, shared by all clones of the service.
pub(crate) struct Core {
    pub(crate) registry: Arc<Registry>,
    pub(crate) store: Mutex<Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ids: Arc<dyn IdSource>,
    pub(crate) logs: Option<Arc<dyn PodLogs>>,
    /// Whether writes are recorded in the ledgers of objects.
    pub(crate) ledger: bool,
    pub(crate) counters: Counters,
    pub(crate) access: Access,
    /// Writes to disk, when there is one.
    pub(crate) writer: Option<Writer>,
}

/// What shall become of an object.
pub(crate) enum Next {
    Keep,
    Write(Value),
    Remove,
}

/// What became of an object.
pub(crate) enum Outcome {
    /// It exists, in this state.
    Exists(Arc<Object>),
    /// It is gone; this was its last state.
    Removed(Arc<Object>),
}

impl Outcome {
    pub(crate) fn object(&self) -> &Arc<Object> {
        match self {
            Self::Exists(object) | Self::Removed(object) => object,
        }
    }
}

impl Core {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn now(&self) -> String {
        whole_seconds(self.clock.now())
    }

    /// Waits until everything an answer at `version` may depend on cannot be lost any more.
    pub(crate) async fn settle(&self, version: u64) -> Result<(), ApiError> {
        match &self.writer {
            None => Ok(()),
            Some(writer) => Ok(writer.journal.settle(version).await?),
        }
    }

    /// Refuses when a write has failed: what is in memory is then no longer what is on disk.
    pub(crate) fn check_writable(&self) -> Result<(), ApiError> {
        let journal = self.writer.as_ref().map(|writer| &writer.journal);
        match journal.and_then(|journal| journal.failure()) {
            None => Ok(()),
            Some(failure) => Err(failure.clone().into()),
        }
    }

    pub(crate) fn get(&self, served: &Served, key: &Key) -> Result<Arc<Object>, ApiError> {
        let found = if served.kind.fixed {
            self.registry.definitions.get(key).cloned()
        } else {
            self.lock().get(served.kind.shelf, key).cloned()
        };
        found.ok_or_else(|| ApiError::not_found(served, &key.name))
    }

    /// Changes an object by a decision that is made outside the lock and repeated when somebody else was faster.
    ///
    /// Each repetition means that another write went through, so there is no limit to them.
    pub(crate) fn change(
        &self,
        served: &Served,
        key: &Key,
        dry_run: bool,
        decide: impl Fn(&Arc<Object>) -> Result<Next, ApiError>,
    ) -> Result<Outcome, ApiError> {
        let shelf = served.kind.shelf;
        let mut current = self.get(served, key)?;
        loop {
            let next = decide(&current)?;
            if dry_run {
                return Ok(rehearse(next, &current));
            }
            let mut store = self.lock();
            match store.get(shelf, key) {
                Some(latest) if latest.version == current.version => {}
                Some(latest) => {
                    current = Arc::clone(latest);
                    continue;
                }
                None => return Err(ApiError::not_found(served, &key.name)),
            }
            return Ok(match next {
                Next::Keep => Outcome::Exists(current),
                Next::Write(value) => Outcome::Exists(store.put(shelf, key, value)),
                Next::Remove => Outcome::Removed(store.remove(shelf, key).unwrap_or(current)),
            });
        }
    }
}

/// Shows what a change would lead to; the version stays that of the object as it is.
fn rehearse(next: Next, current: &Arc<Object>) -> Outcome {
    match next {
        Next::Keep => Outcome::Exists(Arc::clone(current)),
        Next::Write(value) => Outcome::Exists(Arc::new(Object::new(
            Arc::clone(&current.key),
            current.version,
            value,
        ))),
        Next::Remove => Outcome::Removed(Arc::clone(current)),
    }
}
