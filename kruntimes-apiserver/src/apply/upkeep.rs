//! What a write does to the ledger of its object.

use serde_json::{Value, json};

use super::{
    compare::compare,
    fields::{FieldSet, covers, touches},
    ledger::{Entry, Ledger, Manager},
    topology::Topology,
};
use crate::{admit::Scope, kind::Served, object::meta_mut};

/// How the ledger of an object is kept through one write.
#[derive(Clone, Debug)]
pub(crate) enum Upkeep {
    /// The writer comes to own what it changes.
    Track {
        writer: Manager,
        /// The time of the write.
        now: String,
    },
    /// The ledger has been worked out already.
    Given(Ledger),
    /// Nobody comes to own anything.
    Off,
}

impl Upkeep {
    /// Opens the ledger of a new object.
    pub(crate) fn open(&self, served: &Served, object: &mut Value) {
        match self {
            Self::Track { writer, now } => track(served, None, object, writer, now),
            Self::Given(ledger) => ledger.clone().put(object),
            Self::Off => {}
        }
    }

    /// Whether it brings a ledger other than the stored one.
    pub(crate) fn differs(&self, old: &Value) -> bool {
        match self {
            Self::Given(ledger) => !ledger.agrees(&Ledger::of_object(old)),
            Self::Track { .. } | Self::Off => false,
        }
    }

    /// Brings the ledger of a changed object up to date.
    pub(crate) fn keep(&self, served: &Served, old: &Value, next: &mut Value) {
        match self {
            Self::Track { writer, now } => track(served, Some(old), next, writer, now),
            Self::Given(ledger) => ledger.clone().put(next),
            Self::Off => {}
        }
    }
}

/// Settles which ledger an update starts from, and leaves it in `sent`.
///
/// A client may restore a ledger, or clear it with a list of one empty entry. One that sends none, or something that
/// is none, has not meant to change it.
pub(crate) fn settle(scope: Scope, old: &Value, sent: &mut Value) {
    let stored = old["metadata"].get("managedFields");
    let given = meta_mut(sent).remove("managedFields");
    if scope == Scope::Status {
        // Nothing of `sent` but its status will be looked at.
        return;
    }
    let settled = match given {
        Some(given) if Some(&given) == stored => Some(given),
        Some(given) if given == json!([{}]) => None,
        Some(given) => match Ledger::parse(given) {
            Some(ledger) if !ledger.is_empty() => {
                ledger.put(sent);
                return;
            }
            _ => stored.cloned(),
        },
        None => stored.cloned(),
    };
    if let Some(settled) = settled {
        meta_mut(sent).insert("managedFields".to_owned(), settled);
    }
}

/// Brings the ledger in `after` up to date with what was changed.
fn track(served: &Served, before: Option<&Value>, after: &mut Value, writer: &Manager, now: &str) {
    let untracked = after["metadata"]["managedFields"].is_null();
    if before.is_some() && untracked {
        // A ledger that was cleared is opened again by the next applier.
        return;
    }
    let changes = compare(Topology::of(served), before.unwrap_or(&json!({})), after);
    if changes.is_empty() {
        return;
    }
    let mut ledger = Ledger::take(after);
    for entry in ledger.entries_mut() {
        if entry.manager.is(writer) {
            lose(entry, &[&changes.removed]);
        } else {
            lose(entry, &[&changes.set, &changes.removed]);
        }
    }
    if !changes.set.is_empty() {
        let own = ledger.place(writer);
        let own = &mut ledger.entries_mut()[own];
        if !covers(&own.fields, &changes.set) {
            let mut set = own.set();
            set.union(&changes.set);
            own.fields = set.to_json();
        }
        own.time = Some(now.to_owned());
    }
    ledger.put(after);
}

/// Takes paths out of what an entry owns; an entry that has nothing to do with them is not even read.
pub(super) fn lose(entry: &mut Entry, paths: &[&FieldSet]) {
    if !paths.iter().any(|paths| touches(&entry.fields, paths)) {
        return;
    }
    let mut set = entry.set();
    for lost in paths {
        set.subtract(lost);
    }
    entry.fields = set.to_json();
}
