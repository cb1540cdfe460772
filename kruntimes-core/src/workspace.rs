//! The life of a PersistentWorkspace: binding, loss, expiry and removal (node, section 19).
//!
//! [`calculate`] is the whole decision of one turn. It never touches a disk: the daemon of the bound Pod
//! makes and removes the directory, this only says to which Pod the data belongs.
//!
//! **Invariants:** the Pod of a workspace is chosen once; `Lost` and `Released` are never left.

#[cfg(test)]
mod tests;

use jiff::Timestamp;

use crate::api::{
    CleanupPolicy, PersistentWorkspaceSpec, PersistentWorkspaceStatus, WorkspacePhase,
};
use crate::condition::{self, ConditionStatus, Fact};
use crate::duration::Duration;
use crate::fnv;
use crate::keys::{CONDITION_ACCEPTED, CONDITION_BOUND, CONDITION_IN_USE, CONDITION_RUNTIME_READY};
use crate::message::quoted;
use crate::time::Time;

/// Directory of a Runtime Pod that holds the directories of workspaces.
pub const ROOT: &str = "/workspace/persistent";

/// When a workspace is given its Pod (S-105).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Binding {
    /// As soon as a Pod of the Runtime is ready.
    #[default]
    Immediate,
    /// When the first Run that references it is placed: the scheduler binds.
    WaitForFirstRun,
}

/// The Pod that bears the name of the bound one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Home<'a> {
    /// Its identity.
    pub uid: &'a str,
    /// It is on its way out.
    pub deleting: bool,
}

/// A Pod that an unbound workspace may be bound to: of its Runtime, running, ready, alive, not deleting.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Candidate {
    /// Its name.
    pub name: String,
    /// Its identity.
    pub uid: String,
}

/// Everything one turn looks at.
#[expect(
    clippy::struct_excessive_bools,
    reason = "four facts that have nothing to do with each other"
)]
#[derive(Clone, Debug)]
pub struct State<'a> {
    /// Namespace of the workspace.
    pub namespace: &'a str,
    /// Name of the workspace.
    pub name: &'a str,
    /// Its identity.
    pub uid: &'a str,
    /// Generation of the spec.
    pub generation: Option<i64>,
    /// The object carries a deletion timestamp.
    pub deleting: bool,
    /// The object carries the finalizer.
    pub held: bool,
    /// What is asked for.
    pub spec: &'a PersistentWorkspaceSpec,
    /// What has happened so far.
    pub status: &'a PersistentWorkspaceStatus,
    /// When it is bound.
    pub binding: Binding,
    /// The Runtime exists.
    pub runtime_exists: bool,
    /// The Pod that bears the name of the bound one, if there is one.
    pub home: Option<Home<'a>>,
    /// Pods it may be bound to, in any order.
    pub candidates: Vec<Candidate>,
    /// A Run that is not over references it.
    pub used: bool,
    /// The present moment.
    pub now: Timestamp,
}

/// What one turn does.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The complete next status.
    pub status: PersistentWorkspaceStatus,
    /// What is done to the object itself, before the status is written.
    pub action: Action,
    /// When the next turn is due without any event.
    pub again: Option<Timestamp>,
}

/// What is done to the object of a workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing.
    None,
    /// Adds the finalizer: there may be data from now on.
    Hold,
    /// Removes the finalizer: nobody is left who could remove data.
    LetGo,
    /// Deletes the object: nobody has used it for long.
    Delete,
}

/// Tells whether the Pod that holds the data is there, under this very identity, and stays (N-253).
pub fn is_home(status: &PersistentWorkspaceStatus, home: Option<Home<'_>>) -> bool {
    displaced(status, home).is_none()
}

/// Decides one turn. Equal states give equal steps, whatever the order of the candidates.
pub fn calculate(state: &State<'_>) -> Step {
    if state.deleting {
        return leave(state);
    }
    if state.status.phase == WorkspacePhase::Released {
        return delete(state);
    }
    let mut status = state.status.clone();
    record_use(state, &mut status);
    let due = expiry(state, &status);
    let over = due.is_some_and(|due| state.now >= due);
    // The phase of a lost one is final, so that nothing is to be recorded before it goes.
    if over && status.phase == WorkspacePhase::Lost && expiry(state, state.status) == due {
        return delete(state);
    }
    settle(state, &mut status);
    if over && status.phase != WorkspacePhase::Lost {
        status.phase = WorkspacePhase::Released;
        let text = "unused for longer than its time to live";
        record(
            state,
            &mut status,
            CONDITION_BOUND,
            Err("CleanupRequested"),
            text,
        );
    }
    record(state, &mut status, CONDITION_ACCEPTED, Ok("Accepted"), "");
    record_runtime(state, &mut status);
    let holds = matches!(
        status.phase,
        WorkspacePhase::Pending | WorkspacePhase::Bound
    );
    Step {
        action: if holds && !state.held {
            Action::Hold
        } else {
            Action::None
        },
        again: due.filter(|_| !over),
        status,
    }
}

/// A deleting workspace is held only for a Pod that can still remove the data (N-257, N-258).
fn leave(state: &State<'_>) -> Step {
    let waits = state.status.bound_pod.is_some() && is_home(state.status, state.home);
    Step {
        status: state.status.clone(),
        action: if state.held && !waits {
            Action::LetGo
        } else {
            Action::None
        },
        again: None,
    }
}

/// The status was written before: what is left to do is the deletion, with the finalizer if data is there.
fn delete(state: &State<'_>) -> Step {
    let data = state.status.bound_pod.is_some() && is_home(state.status, state.home);
    Step {
        status: state.status.clone(),
        action: if data && !state.held {
            Action::Hold
        } else {
            Action::Delete
        },
        again: None,
    }
}

/// Records whether it is used, and when it was last (N-255).
fn record_use(state: &State<'_>, status: &mut PersistentWorkspaceStatus) {
    if state.used {
        let text = "a run that is not over references it";
        record(state, status, CONDITION_IN_USE, Ok("ActiveRuns"), text);
        return;
    }
    let ended = condition::is_true(&status.conditions, CONDITION_IN_USE);
    if ended || status.last_used_time.is_none() {
        status.last_used_time = Some(Time(state.now).to_seconds());
    }
    record(state, status, CONDITION_IN_USE, Err("Unused"), "");
}

/// Returns when an unused workspace expires, if it ever does (N-256).
fn expiry(state: &State<'_>, status: &PersistentWorkspaceStatus) -> Option<Timestamp> {
    let expires = !state.used && state.spec.cleanup_policy == CleanupPolicy::DeleteAfterTTL;
    let ttl = state.spec.ttl_seconds_after_unused.filter(|_| expires)?;
    let since = status.last_used_time?;
    Some(Duration::from_secs(i64::from(ttl)).after(since.0))
}

/// Binds what is unbound, and finds out what is lost (N-250 to N-253).
fn settle(state: &State<'_>, status: &mut PersistentWorkspaceStatus) {
    match status.phase {
        WorkspacePhase::Pending if status.bound_pod.is_none() => bind(state, status),
        WorkspacePhase::Pending | WorkspacePhase::Bound => {
            let pod = status.bound_pod.clone().unwrap_or_default();
            if let Some((reason, what)) = displaced(status, state.home) {
                status.phase = WorkspacePhase::Lost;
                let text = format!("runtime pod {pod} {what}, and the data with it");
                record(state, status, CONDITION_BOUND, Err(reason), &text);
            } else {
                status.phase = WorkspacePhase::Bound;
                let text = format!("bound to runtime pod {pod}");
                record(state, status, CONDITION_BOUND, Ok("Bound"), &text);
            }
        }
        WorkspacePhase::Lost | WorkspacePhase::Released => {
            // The first reason stays.
            let told = condition::get(&status.conditions, CONDITION_BOUND).cloned();
            let (reason, text) = told
                .filter(|told| told.status == ConditionStatus::False)
                .map_or(("BoundPodDeleted".to_owned(), String::new()), |told| {
                    (told.reason, told.message)
                });
            record(state, status, CONDITION_BOUND, Err(&reason), &text);
        }
    }
}

fn bind(state: &State<'_>, status: &mut PersistentWorkspaceStatus) {
    if state.binding == Binding::WaitForFirstRun {
        let text = "bound when the first run that references it is placed";
        record(state, status, CONDITION_BOUND, Err("WaitForFirstRun"), text);
        return;
    }
    let Some(chosen) = choose(state) else {
        let text = format!("runtime {} has no ready pod", quoted(&state.spec.runtime));
        record(
            state,
            status,
            CONDITION_BOUND,
            Err("NoReadyRuntimePods"),
            &text,
        );
        return;
    };
    status.phase = WorkspacePhase::Bound;
    status.runtime = Some(state.spec.runtime.clone());
    status.bound_pod = Some(chosen.name.clone());
    status.bound_pod_uid = Some(chosen.uid.clone());
    status.path = Some(format!("{ROOT}/{}", state.name));
    let text = format!("bound to runtime pod {}", chosen.name);
    record(state, status, CONDITION_BOUND, Ok("Bound"), &text);
}

/// Chooses a candidate: always the same one of the same set, and different ones for different workspaces (N-251).
fn choose<'a>(state: &'a State<'_>) -> Option<&'a Candidate> {
    let mut sorted: Vec<&Candidate> = state.candidates.iter().collect();
    sorted.sort();
    let index = if state.uid.is_empty() {
        let place = format!("{}/{}", state.namespace, state.name);
        fnv::index(&place, sorted.len())
    } else {
        fnv::index(state.uid, sorted.len())
    };
    sorted.get(index).copied()
}

/// Says why the data is out of reach, if it is: reason, and what happened to the Pod.
fn displaced(
    status: &PersistentWorkspaceStatus,
    home: Option<Home<'_>>,
) -> Option<(&'static str, &'static str)> {
    let Some(home) = home else {
        return Some(("BoundPodDeleted", "was deleted"));
    };
    let same = match status.bound_pod_uid.as_deref() {
        None | Some("") => true,
        Some(uid) => uid == home.uid,
    };
    if !same {
        return Some(("BoundPodReplaced", "was replaced"));
    }
    home.deleting
        .then_some(("BoundPodDeleting", "is being deleted"))
}

fn record_runtime(state: &State<'_>, status: &mut PersistentWorkspaceStatus) {
    if state.runtime_exists {
        record(
            state,
            status,
            CONDITION_RUNTIME_READY,
            Ok("RuntimeFound"),
            "",
        );
    } else {
        let text = format!("Runtime {} does not exist", quoted(&state.spec.runtime));
        record(
            state,
            status,
            CONDITION_RUNTIME_READY,
            Err("RuntimeNotFound"),
            &text,
        );
    }
}

/// Records one fact: `Ok` holds, `Err` does not, either with its reason.
fn record(
    state: &State<'_>,
    status: &mut PersistentWorkspaceStatus,
    condition_type: &str,
    holds: Result<&str, &str>,
    text: &str,
) {
    let fact = match holds {
        Ok(reason) => Fact::new(condition_type, ConditionStatus::True, reason, text),
        Err(reason) => Fact::new(condition_type, ConditionStatus::False, reason, text),
    };
    let fact = fact.observed(state.generation);
    condition::set(&mut status.conditions, &fact, Time(state.now).to_seconds());
}
