//! Runs that start together or not at all, by permission alone.

use std::collections::BTreeSet;

use kruntimes_core::duration::Duration;
use serde::{Deserialize, Serialize};

use crate::placing::{Permission, Permit, Question};
use crate::run::Run;

/// Longest wait of a group for its last member, unless configured otherwise.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Makes the members of a group wait, each holding its place, until the last one has a place too (S-161).
///
/// A Run belongs to its group key; how many members there are is the value of
/// a label. Runs without a group, or without a size that can be read, do not
/// wait. All members of a group share the deadline of the first one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Gang {
    size_label: String,
    #[serde(default = "timeout")]
    timeout: Duration,
}

fn timeout() -> Duration {
    TIMEOUT
}

impl Gang {
    /// Reads the number of members from this label.
    pub fn new(size_label: impl Into<String>) -> Self {
        Self {
            size_label: size_label.into(),
            timeout: TIMEOUT,
        }
    }

    /// Gives up after this long.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    fn size(&self, run: &Run) -> Option<usize> {
        run.group.as_ref()?;
        run.labels.get(&self.size_label)?.parse().ok()
    }
}

impl Permit for Gang {
    fn name(&self) -> &'static str {
        "Gang"
    }

    fn permit(&self, question: &Question<'_>) -> Permission {
        let run = question.run;
        let Some(size) = self.size(run) else {
            return Permission::Allow;
        };
        let is_member = |other: &Run| other.namespace == run.namespace && other.group == run.group;
        let placed: BTreeSet<_> = (question.view.holds())
            .filter(|hold| is_member(&hold.run))
            .map(|hold| &hold.run.uid)
            .chain([&run.uid])
            .collect();
        let waiting = question.room.waiting();
        let waiting = waiting.filter(|waiter| is_member(&waiter.placement.run));
        if placed.len() >= size {
            let others = waiting.map(|waiter| waiter.placement.run.uid.clone());
            return Permission::AllowAlso(others.collect());
        }
        let shared = waiting
            .filter_map(|waiter| waiter.deadlines.get("Gang"))
            .min();
        let until = shared.copied();
        Permission::Wait {
            until: until.unwrap_or_else(|| self.timeout.after(question.now)),
        }
    }
}
