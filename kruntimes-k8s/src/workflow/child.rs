//! Children and snapshots as objects, and what the engine sees of them.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
use kruntimes_core::api::{
    PersistentWorkspaceSpec, TerminationMode, WorkflowRunPhase, WorkflowRunStatus,
};
use kruntimes_core::condition;
use kruntimes_core::crd::{PersistentWorkspace, Run, WorkflowRun};
use kruntimes_core::keys::{
    CONDITION_COMPLETED, LABEL_WORKFLOW_ACTION_STEP, LABEL_WORKFLOW_JOB, LABEL_WORKFLOW_STEP,
};
use kruntimes_workflow::plan::{
    Called, Child, Controller, EnsureWorkspace, Existing, Initialize, Ownership, StartCall,
    StartStep, Workspace,
};
use kruntimes_workflow::snapshot::Snapshot;
use kube::ResourceExt as _;

use super::controller::Shared;

/// Returns the owner reference that makes an object the child of its controller.
pub(super) fn controller_of(meta: &ObjectMeta) -> Option<&OwnerReference> {
    let owners = meta.owner_references.as_ref()?;
    owners.iter().find(|owner| owner.controller == Some(true))
}

/// Reduces a Run to what a turn is decided from.
pub(super) fn observe(run: &Run, owner_uid: &str) -> Child {
    let label = |key: &str| run.labels().get(key).cloned();
    let status = run.status.clone().unwrap_or_default();
    let terminated = run.spec.termination.as_ref();
    let immediate = terminated.is_some_and(|asked| asked.mode == TerminationMode::Immediate);
    let completed = condition::get(&status.conditions, CONDITION_COMPLETED);
    Child {
        name: run.name_any(),
        uid: run.uid().unwrap_or_default(),
        job: label(LABEL_WORKFLOW_JOB).unwrap_or_default(),
        step: label(LABEL_WORKFLOW_STEP).unwrap_or_default(),
        action_step: label(LABEL_WORKFLOW_ACTION_STEP),
        ownership: ownership(&run.metadata, owner_uid),
        phase: status.phase,
        cancel_asked: run.spec.cancel_requested || immediate,
        deleting: run.metadata.deletion_timestamp.is_some(),
        reason: completed
            .map(|found| found.reason.clone())
            .unwrap_or_default(),
        message: status.message.unwrap_or_default(),
        workspace: run.spec.workspace.as_ref().map(|used| used.name.clone()),
        outputs: status.outputs,
        artifacts: status.artifact_refs,
    }
}

/// Reduces a child WorkflowRun to what a turn is decided from.
///
/// Its jobs matter once it succeeded, and are left out before.
pub(super) fn observe_call(child: &WorkflowRun, owner_uid: &str) -> Called {
    let status = match &child.status {
        Some(status) if status.phase == WorkflowRunPhase::Succeeded => status.clone(),
        Some(status) => WorkflowRunStatus {
            phase: status.phase,
            message: status.message.clone(),
            ..WorkflowRunStatus::default()
        },
        None => WorkflowRunStatus::default(),
    };
    Called {
        name: child.name_any(),
        uid: child.uid().unwrap_or_default(),
        ownership: ownership(&child.metadata, owner_uid),
        annotations: child.annotations().clone(),
        status,
        cancel_asked: child.spec.cancel_requested,
    }
}

/// Reduces a job workspace to what a turn is decided from.
pub(super) fn observe_workspace(workspace: &PersistentWorkspace) -> Workspace {
    let status = workspace.status.as_ref();
    Workspace {
        name: workspace.name_any(),
        phase: status.map(|status| status.phase).unwrap_or_default(),
        deleting: workspace.metadata.deletion_timestamp.is_some(),
    }
}

fn ownership(meta: &ObjectMeta, owner_uid: &str) -> Ownership {
    match controller_of(meta) {
        Some(owner) if owner.uid == owner_uid => Ownership::Controlled,
        Some(_) => Ownership::Foreign,
        None => Ownership::Orphan,
    }
}

/// Reduces an object in the way of a create to what decides about it.
pub(super) fn existing(meta: &ObjectMeta) -> Existing {
    let controller = controller_of(meta).map(|owner| Controller {
        kind: owner.kind.clone(),
        name: owner.name.clone(),
        uid: owner.uid.clone(),
    });
    Existing {
        controller,
        labels: meta.labels.clone().unwrap_or_default(),
        deleting: meta.deletion_timestamp.is_some(),
    }
}

fn owned(
    namespace: &str,
    name: &str,
    labels: &BTreeMap<String, String>,
    owner: &OwnerReference,
) -> ObjectMeta {
    ObjectMeta {
        namespace: Some(namespace.to_owned()),
        name: Some(name.to_owned()),
        labels: Some(labels.clone()),
        owner_references: Some(vec![owner.clone()]),
        ..ObjectMeta::default()
    }
}

/// Builds the child Run of a target (W-45).
pub(super) fn run(namespace: &str, target: &StartStep, owner: &OwnerReference) -> Run {
    Run {
        metadata: owned(namespace, &target.name, &target.labels, owner),
        spec: target.spec.clone(),
        status: None,
    }
}

/// Builds the child WorkflowRun of a call (W-45, W-103).
pub(super) fn workflow_run(
    namespace: &str,
    target: &StartCall,
    owner: &OwnerReference,
) -> WorkflowRun {
    let mut metadata = owned(namespace, &target.name, &target.labels, owner);
    metadata.annotations = Some(target.annotations.clone());
    WorkflowRun {
        metadata,
        spec: target.spec.clone(),
        status: None,
    }
}

/// Builds the workspace of a job, without expiry while the job is not settled (W-124).
pub(super) fn workspace(
    namespace: &str,
    target: &EnsureWorkspace,
    shared: Shared,
    owner: &OwnerReference,
) -> PersistentWorkspace {
    PersistentWorkspace {
        metadata: owned(namespace, &target.name, &target.labels, owner),
        spec: PersistentWorkspaceSpec {
            runtime: target.runtime.clone(),
            mode: shared.mode,
            ttl_seconds_after_unused: None,
            cleanup_policy: shared.cleanup_policy,
        },
        status: None,
    }
}

/// Builds the object that holds a snapshot (W-50).
pub(super) fn revision(
    namespace: &str,
    target: &Initialize,
    snapshot: &Snapshot,
    owner: &OwnerReference,
) -> ControllerRevision {
    ControllerRevision {
        metadata: owned(namespace, &target.name, &target.labels, owner),
        data: Some(RawExtension(snapshot.to_value())),
        revision: 1,
    }
}
