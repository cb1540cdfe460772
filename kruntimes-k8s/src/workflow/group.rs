//! Concurrency groups: who else is in one, and who is woken when one of them changes (W-203).

use std::collections::BTreeSet;

use kruntimes_core::crd::WorkflowRun;
use kruntimes_core::keys::ANNOTATION_REPLACED_BY;
use kruntimes_core::limits::CALL_DEPTH_MAX;
use kruntimes_workflow::concurrency::Contender;
use kruntimes_workflow::extend::Extension;
use kube::api::{Patch, PatchParams};
use kube::{Resource as _, ResourceExt as _};
use serde_json::json;

use super::child::controller_of;
use super::controller::{BY_GROUP, Error, Shell, group};
use crate::cache::{Change, ObjectKey};

impl Shell {
    /// Names the live members of the group of a WorkflowRun that entered or left it.
    pub(super) fn rivals_of(&self, change: &Change<WorkflowRun>) -> Vec<ObjectKey> {
        let (old, object) = match change {
            Change::Applied { old, new } => (old.as_deref(), new.as_ref()),
            Change::Deleted(object) => (None, object.as_ref()),
            Change::Undecodable { .. } | Change::Synced => return Vec::new(),
        };
        let on = self.policy.extensions.has(Extension::Concurrency);
        let Some(group) = group(object).filter(|_| on) else {
            return Vec::new();
        };
        let moved = old.is_none_or(|old| standing(old) != standing(object));
        let members = if moved {
            self.workflow_runs.by_index(BY_GROUP, group)
        } else {
            Vec::new()
        };
        let others = members.iter().filter(|member| {
            member.namespace() == object.namespace() && member.name_any() != object.name_any()
        });
        others
            .map(|member| ObjectKey::of(member.as_ref()))
            .collect()
    }

    /// Returns the other live members of the group of a WorkflowRun.
    ///
    /// The WorkflowRuns that called it are none: they wait for it.
    pub(super) fn rivals(&self, object: &WorkflowRun) -> Vec<Contender> {
        let Some(group) = group(object) else {
            return Vec::new();
        };
        let callers = self.callers(object);
        let members = self.workflow_runs.by_index(BY_GROUP, group);
        let rivals = members.iter().filter(|member| {
            member.namespace() == object.namespace()
                && member.uid() != object.uid()
                && !member.uid().is_some_and(|uid| callers.contains(&uid))
        });
        rivals.map(|member| contender(member)).collect()
    }

    fn callers(&self, object: &WorkflowRun) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        let namespace = object.namespace().unwrap_or_default();
        let mut caller = controller_of(object.meta()).cloned();
        for _ in 0..CALL_DEPTH_MAX {
            let Some(owner) = caller.filter(|owner| owner.kind == WorkflowRun::kind(&())) else {
                break;
            };
            let key = ObjectKey::new(&namespace, &owner.name);
            found.insert(owner.uid);
            let above = self.workflow_runs.get(&key);
            caller = above.and_then(|above| controller_of(above.meta()).cloned());
        }
        found
    }

    /// Asks a WorkflowRun to cancel that a younger one of its group replaces.
    pub(super) async fn cancel_itself(&self, key: &ObjectKey, by: &str) -> Result<(), Error> {
        let patch = Patch::Merge(json!({
            "metadata": {"annotations": {ANNOTATION_REPLACED_BY: by}},
            "spec": {"cancelRequested": true},
        }));
        let params = PatchParams::default();
        let api = self.workflow_run_api(key);
        match api.patch(&key.name, &params, &patch).await {
            Ok(asked) => {
                self.noted(self.workflow_runs.written(asked).as_ref());
                Ok(())
            }
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// What others go by: whether it lives, holds the group, and is asked to cancel.
fn standing(object: &WorkflowRun) -> (bool, bool, bool) {
    let status = object.status.as_ref();
    let over = status.is_some_and(|status| status.phase.is_terminal());
    let member = contender(object);
    let gone = over || object.metadata.deletion_timestamp.is_some();
    (gone, member.holds, member.cancelling)
}

fn contender(object: &WorkflowRun) -> Contender {
    let status = object.status.as_ref();
    let strategy = object.spec.strategy.as_ref();
    let policy = strategy.and_then(|strategy| strategy.concurrency.as_ref());
    Contender {
        name: object.name_any(),
        created: created(object),
        policy: policy
            .map(|concurrency| concurrency.policy)
            .unwrap_or_default(),
        holds: status.is_some_and(|status| status.jobs.is_some()),
        cancelling: object.spec.cancel_requested,
    }
}

/// When an object was created.
pub(super) fn created(object: &WorkflowRun) -> kruntimes_core::time::Time {
    let created = object.metadata.creation_timestamp.as_ref();
    created.map(|created| created.0.into()).unwrap_or_default()
}
