//! A Run goes to the Pod that holds its workspace, or waits for it.

use jiff::Timestamp;
use kruntimes_core::api::WorkspacePhase;
use serde::{Deserialize, Serialize};

use crate::event::EventKind;
use crate::identity::{PodName, PodUid};
use crate::placing::{Intent, Placement, PreBind};
use crate::plugin::{Broken, Filter, PrepareError, Prepared, Reason, Verdict};
use crate::run::Run;
use crate::snapshot::Snapshot;

const NOT_FOUND: &str = "WorkspaceNotFound";
const RUNTIME_MISMATCH: &str = "WorkspaceRuntimeMismatch";
const UNBOUND: &str = "WorkspaceUnbound";
const LOST: &str = "WorkspaceLost";
const RELEASED: &str = "WorkspaceReleased";
pub(crate) const BOUND_POD_MISMATCH: &str = "WorkspaceBoundPodMismatch";

/// Condition of every rejection but that of a lost workspace (S-111).
const NOT_BOUND: &str = "WorkspaceNotBound";

const REASONS: &[Reason] = &[
    Reason::new(NOT_FOUND)
        .message("waiting for referenced PersistentWorkspace {workspace} to exist")
        .first_condition(NOT_BOUND),
    Reason::new(RUNTIME_MISMATCH)
        .message(
            "waiting for referenced PersistentWorkspace {workspace} to match runtime {runtime}",
        )
        .first_condition(NOT_BOUND),
    Reason::new(UNBOUND)
        .message("waiting for referenced PersistentWorkspace {workspace} to bind")
        .first_condition(NOT_BOUND),
    Reason::new(LOST)
        .message(
            "waiting for referenced PersistentWorkspace {workspace} to be replaced after it was lost",
        )
        .first_condition("WorkspaceLost"),
    Reason::new(RELEASED)
        .message("referenced PersistentWorkspace {workspace} is being deleted")
        .first_condition(NOT_BOUND),
    Reason::new(BOUND_POD_MISMATCH)
        .message("waiting for bound Runtime Pod of PersistentWorkspace {workspace}")
        .first_condition(NOT_BOUND),
];

/// Admits the Pod that the referenced PersistentWorkspace is bound to, and no other (S-48).
///
/// Nothing it says is final: the Run waits until the workspace changes (S-49).
///
/// By default a workspace is bound before its first Run is placed. The other
/// strategy leaves it unbound until a Run that references it is placed by
/// score, and asks the adapter to bind it to that Pod before the write (S-105).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Workspace {
    /// Whether the first Run decides where an unbound workspace is bound.
    pub wait_for_first_run: bool,
}

/// What the workspace of a Run says about every Pod.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Rule<'a> {
    /// Any will do.
    Any,
    /// None will do, for a reason.
    Rejects(&'static str),
    /// One will do; [`BOUND_POD_MISMATCH`] keeps the others away.
    Only(&'a PodName, &'a PodUid),
}

impl Workspace {
    /// Applies the table of section 8.1, top to bottom (S-48).
    pub(crate) fn rule<'a>(
        self,
        workspace: Option<&'a crate::workspace::Workspace>,
        run: &Run,
    ) -> Rule<'a> {
        let Some(wanted) = &run.workspace else {
            return Rule::Any;
        };
        let Some(workspace) = workspace.filter(|found| found.name == *wanted) else {
            return Rule::Rejects(NOT_FOUND);
        };
        if workspace.runtime != run.runtime {
            return Rule::Rejects(RUNTIME_MISMATCH);
        }
        match workspace.phase {
            WorkspacePhase::Lost => return Rule::Rejects(LOST),
            WorkspacePhase::Released => return Rule::Rejects(RELEASED),
            WorkspacePhase::Pending | WorkspacePhase::Bound if workspace.deleting => {
                return Rule::Rejects(RELEASED);
            }
            WorkspacePhase::Pending if self.wait_for_first_run => return Rule::Any,
            WorkspacePhase::Pending => return Rule::Rejects(UNBOUND),
            WorkspacePhase::Bound => {}
        }
        let name = workspace.bound_pod.as_ref().filter(|name| !name.is_empty());
        let uid = (workspace.bound_pod_uid.as_ref()).filter(|uid| !uid.is_empty());
        match (name, uid) {
            (Some(name), Some(uid)) => Rule::Only(name, uid),
            (Some(_) | None, _) => Rule::Rejects(UNBOUND),
        }
    }
}

impl Filter for Workspace {
    fn name(&self) -> &'static str {
        "Workspace"
    }

    fn reasons(&self) -> &'static [Reason] {
        REASONS
    }

    fn prepare<'a>(
        &'a self,
        snapshot: &'a Snapshot,
        run: &'a Run,
    ) -> Result<Prepared<'a>, PrepareError> {
        Ok(match self.rule(snapshot.workspace(), run) {
            Rule::Any => Prepared::Skip,
            Rule::Rejects(reason) => Prepared::Rejects(reason),
            Rule::Only(name, uid) => Prepared::Check(Box::new(move |state| {
                if state.pod.name == *name && state.pod.uid == *uid {
                    Verdict::Fits
                } else {
                    Verdict::Rejects(BOUND_POD_MISMATCH)
                }
            })),
        })
    }

    fn events(&self) -> &'static [EventKind] {
        &[EventKind::WorkspaceChanged, EventKind::PodChanged]
    }
}

impl PreBind for Workspace {
    fn name(&self) -> &'static str {
        "Workspace"
    }

    fn intents(&self, placement: &Placement, _now: Timestamp) -> Result<Vec<Intent>, Broken> {
        let first = placement.run.workspace.as_ref();
        let first = first.filter(|_| self.wait_for_first_run);
        let bind = first.map(|workspace| Intent::BindWorkspace {
            workspace: workspace.clone(),
            pod: placement.pod.name.clone(),
            pod_uid: placement.pod.uid.clone(),
        });
        Ok(bind.into_iter().collect())
    }
}
