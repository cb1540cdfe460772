//! What plugins do before a Run gets a cycle: order, hold back, share out among tenants.

use std::cmp::Ordering;
use std::sync::Arc;

use jiff::Timestamp;

use crate::event::{Event, EventKind, Hint};
use crate::plugin::Reason;
use crate::run::Run;

/// Orders waiting Runs. There is exactly one in a process.
pub trait QueueSort: Send + Sync {
    /// Names the plugin.
    fn name(&self) -> &'static str;

    /// Says which of two Runs goes first; equal ones go by creation, then by UID.
    ///
    /// The order must be total for one `now`, which is there so that waiting
    /// can count (S-159).
    fn compare(&self, a: &Run, b: &Run, now: Timestamp) -> Ordering;
}

/// Whether a Run is worth a place in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admittance {
    /// The Run may have a cycle.
    Admit,
    /// The Run gets no cycle until an event releases it, for a declared reason.
    Hold(&'static str),
}

/// Holds Runs back before they cost a cycle.
pub trait PreEnqueue: Send + Sync {
    /// Names the plugin.
    fn name(&self) -> &'static str;

    /// Declares every reason to hold a Run back.
    fn reasons(&self) -> &'static [Reason];

    /// Admits the Run or holds it back, by what the Run alone says.
    fn admit(&self, run: &Run, now: Timestamp) -> Admittance;

    /// Declares the kinds of events that can release a Run that this plugin holds back.
    ///
    /// An update of the Run itself always asks again.
    fn events(&self) -> &'static [EventKind] {
        &EventKind::ALL
    }

    /// Tells whether one event of a declared kind can release the Run.
    fn hint(&self, _event: &Event<'_>, _run: &Run) -> Hint {
        Hint::Wake
    }
}

/// Divides a batch among tenants, who take turns (S-175).
pub trait Splitter: Send + Sync {
    /// Names the plugin.
    fn name(&self) -> &'static str;

    /// Says whose Run it is.
    fn tenant(&self, run: &Run) -> Arc<str>;

    /// Says how many Runs the tenant may place per turn; zero counts as one.
    fn weight(&self, _tenant: &str) -> u32 {
        1
    }
}

/// A Run that is held back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// The plugin.
    pub plugin: &'static str,
    /// Its declared reason.
    pub reason: &'static str,
}

/// Ends ties: the older Run, then the smaller UID. A Run of unknown age is younger than all.
pub(crate) fn by_age(a: &Run, b: &Run) -> Ordering {
    let age = |run: &Run| (run.created.is_none(), run.created);
    age(a).cmp(&age(b)).then_with(|| a.uid.cmp(&b.uid))
}

/// The order where no plugin says otherwise: priority, age, UID (S-159).
pub(crate) fn by_priority(a: &Run, b: &Run) -> Ordering {
    b.priority.cmp(&a.priority).then_with(|| by_age(a, b))
}
