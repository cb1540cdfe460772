//! Judges an object whose name a new child would need.

use std::collections::BTreeMap;

use kruntimes_core::keys::LABEL_WORKFLOW_RUN_UID;

use super::{EnsureWorkspace, StartCall, StartStep, State};

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
    /// It is somebody else's: the step or job fails.
    Foreign,
}

/// Judges an existing Run that has the name of `target`.
pub fn judge(state: &State, target: &StartStep, existing: &Existing) -> Verdict {
    judge_labels(state, &target.labels, existing)
}

/// Judges an existing WorkflowRun that has the name of `target`.
pub fn judge_call(state: &State, target: &StartCall, existing: &Existing) -> Verdict {
    judge_labels(state, &target.labels, existing)
}

/// Judges an existing workspace that has the name of `target`.
pub fn judge_workspace(state: &State, target: &EnsureWorkspace, existing: &Existing) -> Verdict {
    judge_labels(state, &target.labels, existing)
}

fn judge_labels(state: &State, wanted: &BTreeMap<String, String>, existing: &Existing) -> Verdict {
    let carries = |(key, value): (&String, &String)| existing.labels.get(key) == Some(value);
    // The controller already proves the UID.
    let same_place = || {
        let told = |(key, _): &(&String, &String)| *key != LABEL_WORKFLOW_RUN_UID;
        wanted.iter().filter(told).all(carries)
    };
    let earlier = |controller: &Controller| {
        controller.kind == "WorkflowRun"
            && controller.name == state.name
            && controller.uid != state.uid
    };
    match &existing.controller {
        _ if existing.deleting => Verdict::Retry,
        Some(controller) if earlier(controller) => Verdict::Retry,
        Some(controller) if controller.uid == state.uid && same_place() => Verdict::Use,
        None if wanted.iter().all(carries) => Verdict::Adopt,
        Some(_) | None => Verdict::Foreign,
    }
}
