//! What happened to the objects of a kind, as its watchers are told.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use crate::object::Object;

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
    pub(crate) fn new(
        happening: Happening,
        object: Arc<Object>,
        before: Option<Arc<Object>>,
    ) -> Self {
        Self {
            happening,
            object,
            before,
            line: OnceLock::new(),
        }
    }

    /// Returns the same event with nothing but the texts of its objects.
    pub(crate) fn cold(&self) -> Self {
        let before = self.before.as_deref();
        Self::new(
            self.happening,
            Arc::new(self.object.cold()),
            before.map(|before| Arc::new(before.cold())),
        )
    }

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
