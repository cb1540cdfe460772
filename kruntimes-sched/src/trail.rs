//! What came and went in a book, for whoever follows it.

use std::sync::Arc;

use crate::occupancy::Hold;

/// A hold that came or went.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) hold: Arc<Hold>,
    /// Stands for the name of its Pod.
    pub(crate) pod: u64,
    pub(crate) came: bool,
}

/// Changes for which memory is kept.
const KEPT: usize = 256;

/// The changes since they were last taken, in order; none are kept before somebody follows.
#[derive(Debug, Default)]
pub(crate) struct Trail(Option<Vec<Change>>);

impl Clone for Trail {
    /// Nobody follows a copy.
    fn clone(&self) -> Self {
        Self(None)
    }
}

impl Trail {
    pub(crate) fn start(&mut self) {
        self.0 = Some(Vec::new());
    }

    pub(crate) fn note(&mut self, hold: &Arc<Hold>, pod: u64, came: bool) {
        if let Some(changes) = &mut self.0 {
            changes.push(Change {
                hold: Arc::clone(hold),
                pod,
                came,
            });
        }
    }

    /// Takes an emptied list back, so that the next change finds its memory.
    pub(crate) fn keep(&mut self, emptied: Vec<Change>) {
        if let Some(changes) = &mut self.0
            && changes.is_empty()
            && emptied.capacity() <= KEPT
        {
            *changes = emptied;
        }
    }

    pub(crate) fn take(&mut self) -> Option<Vec<Change>> {
        self.0.as_mut().map(std::mem::take)
    }
}
