//! What a batch takes from: the book of the fleet, with an index where that is quicker.

use std::sync::Arc;

use crate::book::{Book, Taken};
use crate::calculate::calculate;
use crate::decision::{Action, Decision};
use crate::index::Index;
use crate::pod::Pod;
use crate::profile::Profile;
use crate::run::Run;

use super::fleet::Fleet;

/// Runs from which on it is worth while to make an index.
const MANY: usize = 8;

/// The fleet as it is with the places of earlier Runs taken.
pub(super) struct World<'a> {
    fleet: &'a Fleet,
    profile: &'a Profile,
    held: Held,
    /// Whether the scores are those of the winner alone, however it was found.
    is_terse: bool,
}

enum Held {
    Plain(Book),
    Indexed(Box<Index>),
}

impl<'a> World<'a> {
    pub(super) fn new(fleet: &'a Fleet, profile: &'a Profile, runs: usize) -> Self {
        let is_terse = Index::for_profile(profile, Book::new()).is_quick(profile);
        let worth = is_terse && runs >= MANY;
        let index = worth.then(|| fleet.index(profile)).flatten();
        Self {
            fleet,
            profile,
            is_terse,
            held: index.map_or_else(
                || Held::Plain(fleet.book().clone()),
                |index| Held::Indexed(Box::new(index)),
            ),
        }
    }

    fn book(&self) -> &Book {
        match &self.held {
            Held::Plain(book) => book,
            Held::Indexed(index) => index.book(),
        }
    }

    fn book_mut(&mut self) -> &mut Book {
        match &mut self.held {
            Held::Plain(book) => book,
            Held::Indexed(index) => index.book_mut(),
        }
    }

    /// Decides where a Run goes, and finds the Pod.
    pub(super) fn decide(&mut self, run: &Run) -> (Decision, Option<Arc<Pod>>) {
        if let Held::Indexed(index) = &mut self.held
            && let Some(decision) = index.quick(run, self.profile, self.fleet.now())
        {
            let pod = match &decision.action {
                Action::Bind { pod, .. } => index.pod(&run.namespace, pod).cloned(),
                Action::Wait { .. } | Action::Fail { .. } | Action::Retry { .. } => None,
            };
            return (decision, pod);
        }
        let snapshot = self.fleet.snapshot(self.book(), run);
        let mut decision = calculate(&snapshot, run, self.profile);
        let pod = match &mut decision.action {
            Action::Bind { pod, scores, .. } => {
                if self.is_terse {
                    scores.retain(|name, _| name == pod);
                }
                snapshot.pod(pod).map(|state| Arc::clone(&state.pod))
            }
            Action::Wait { .. } | Action::Fail { .. } | Action::Retry { .. } => None,
        };
        (decision, pod)
    }

    pub(super) fn reserve(&mut self, run: &Arc<Run>, pod: &Pod) -> Result<(), Taken> {
        self.book_mut().reserve(run, pod)
    }

    pub(super) fn release(&mut self, run: &Run) {
        self.book_mut().release(&run.namespace, &run.uid);
    }
}
