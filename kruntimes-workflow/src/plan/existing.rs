//! Judges an object whose name a new child would need.

use std::collections::BTreeMap;

use kruntimes_core::keys::LABEL_WORKFLOW_RUN_UID;

use super::{StartStep, State};

/// What matters of an object that a create found in its way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Existing {
    /// Its controller owner.
    pub controller: Option<Controller>,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Whether its deletion has begun.
    pub deleting: bool,
}

/// A controller owner reference.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Controller {
    /// Kind of the owner.
    pub kind: String,
    /// Name of the owner.
    pub name: String,
    /// UID of the owner.
    pub uid: String,
}

/// What to do about an existing object (W-49).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is the child itself.
    Use,
    /// It is the child, and nobody controls it: add the owner reference, then use it.
    Adopt,
    /// The name will become free: try again later.
    Retry,
    /// It is somebody else's: the step fails.
    Foreign,
}

/// Judges an existing object that has the name of `target`.
pub fn judge(state: &State, target: &StartStep, existing: &Existing) -> Verdict {
    let ours = target
        .labels
        .iter()
        .all(|(key, value)| existing.labels.get(key) == Some(value));
    let earlier = |controller: &Controller| {
        controller.kind == "WorkflowRun"
            && controller.name == state.name
            && controller.uid != state.uid
    };
    match &existing.controller {
        _ if existing.deleting => Verdict::Retry,
        Some(controller) if earlier(controller) => Verdict::Retry,
        Some(controller) if controller.uid == state.uid && same_step(target, existing) => {
            Verdict::Use
        }
        None if ours => Verdict::Adopt,
        Some(_) | None => Verdict::Foreign,
    }
}

/// Compares what names the step; the controller already proves the UID.
fn same_step(target: &StartStep, existing: &Existing) -> bool {
    let told = |(key, _): &(&String, &String)| *key != LABEL_WORKFLOW_RUN_UID;
    target
        .labels
        .iter()
        .filter(told)
        .all(|(key, value)| existing.labels.get(key) == Some(value))
}
