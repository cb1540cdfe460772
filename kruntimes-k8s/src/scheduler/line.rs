//! The line of the pure crate, under the keys of the cache.

use kruntimes_sched::{PoolKey, RunKey};

use super::recorder::Source;
use crate::cache::ObjectKey;

/// Everybody who waits for a change; wake-ups are counted as what a ticket says, or not at all.
pub(super) type Line = kruntimes_sched::Line<Option<Source>>;
/// What a Run was woken for.
pub(super) type Ticket = kruntimes_sched::Ticket<Option<Source>>;

impl From<&ObjectKey> for RunKey {
    fn from(key: &ObjectKey) -> Self {
        Self {
            namespace: key.namespace.as_str().into(),
            name: key.name.as_str().into(),
        }
    }
}

impl From<&RunKey> for ObjectKey {
    fn from(key: &RunKey) -> Self {
        Self::new(key.namespace.as_str(), key.name.as_str())
    }
}

impl From<&ObjectKey> for PoolKey {
    fn from(key: &ObjectKey) -> Self {
        Self {
            namespace: key.namespace.as_str().into(),
            runtime: key.name.as_str().into(),
        }
    }
}

impl From<&PoolKey> for ObjectKey {
    fn from(key: &PoolKey) -> Self {
        Self::new(key.namespace.as_str(), key.runtime.as_str())
    }
}
