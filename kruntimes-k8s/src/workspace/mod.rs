//! The PersistentWorkspace controller: binds workspaces to Pods, notices loss, removes what is unused.
//!
//! What a turn does is [`kruntimes_core::workspace::calculate`]; here objects
//! are watched, loaded, and written. The directory itself belongs to the daemon
//! of the bound Pod.

mod turn;
mod wakes;

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kruntimes_core::api::WorkspacePhase;
use kruntimes_core::crd::{PersistentWorkspace, Run, Runtime};
use kruntimes_core::duration::Duration;
use kruntimes_core::workspace::Binding;
use kube::ResourceExt as _;

use crate::cache::{Cache, Change, ObjectKey};
use crate::pool::{Config, Shared};
use crate::queue::{self, WorkQueue};

/// Index of workspaces by their Runtime.
const BY_RUNTIME: &str = "runtime";
/// Index of workspaces without a Pod by their Runtime.
const UNBOUND: &str = "unbound";
/// Index of workspaces by the Pod they are bound to.
const BY_POD: &str = "pod";

pub(crate) struct Controller {
    shared: Shared,
    pub(crate) workspaces: Cache<PersistentWorkspace>,
    pub(crate) runtimes: Cache<Runtime>,
    binding: Binding,
    heartbeat_limit: Duration,
    queue: WorkQueue<ObjectKey>,
}

impl Controller {
    pub(crate) fn new(shared: &Shared, config: &Config) -> Self {
        Self {
            shared: shared.clone(),
            workspaces: Cache::new(&[
                (BY_RUNTIME, |object| vec![runtime_key(object)]),
                (UNBOUND, |object| {
                    is_unbound(object)
                        .then(|| runtime_key(object))
                        .into_iter()
                        .collect()
                }),
                (BY_POD, |object| {
                    bound_pod(object)
                        .map(|key| key.to_string())
                        .into_iter()
                        .collect()
                }),
            ]),
            runtimes: Cache::default(),
            binding: config.binding,
            heartbeat_limit: config.heartbeat_staleness,
            queue: WorkQueue::new(),
        }
    }

    pub(crate) async fn work(&self, workers: usize) {
        queue::work(&self.queue, workers, |key| self.reconcile(key)).await;
    }

    pub(crate) fn workspace_changed(&self, change: &Change<PersistentWorkspace>) {
        match change {
            Change::Applied { new, .. } => self.queue.add(ObjectKey::of(new.as_ref())),
            Change::Undecodable { key, error } => {
                tracing::warn!(workspace = %key, error, "a workspace cannot be decoded and is left alone");
            }
            Change::Deleted(_) | Change::Synced => {}
        }
    }

    pub(crate) fn run_changed(&self, change: &Change<Run>) {
        for key in wakes::by_run(change) {
            self.queue.add(key);
        }
    }

    pub(crate) fn pod_changed(&self, change: &Change<Pod>) {
        if let Some(pod) = wakes::moved_pod(change) {
            self.wake(&self.workspaces.by_index(BY_POD, &pod.to_string()));
        }
        if let Some(runtime) = wakes::offered_runtime(change) {
            self.wake(&self.workspaces.by_index(UNBOUND, &runtime.to_string()));
        }
    }

    pub(crate) fn runtime_changed(&self, change: &Change<Runtime>) {
        if let Some(runtime) = wakes::runtime_that_came_or_went(change) {
            self.wake(&self.workspaces.by_index(BY_RUNTIME, &runtime.to_string()));
        }
    }

    fn wake(&self, workspaces: &[Arc<PersistentWorkspace>]) {
        for workspace in workspaces {
            self.queue.add(ObjectKey::of(workspace.as_ref()));
        }
    }
}

fn runtime_key(object: &PersistentWorkspace) -> String {
    ObjectKey::new(object.namespace().unwrap_or_default(), &object.spec.runtime).to_string()
}

fn is_unbound(object: &PersistentWorkspace) -> bool {
    let status = object.status.as_ref();
    object.metadata.deletion_timestamp.is_none()
        && status.is_none_or(|s| s.phase == WorkspacePhase::Pending && s.bound_pod.is_none())
}

/// Returns the Pod a workspace is bound to, also after it was lost.
fn bound_pod(object: &PersistentWorkspace) -> Option<ObjectKey> {
    let pod = object.status.as_ref()?.bound_pod.as_deref()?;
    (!pod.is_empty()).then(|| ObjectKey::new(object.namespace().unwrap_or_default(), pod))
}
