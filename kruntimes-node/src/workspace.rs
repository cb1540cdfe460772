//! PersistentWorkspaces of this Pod: who may use one, and the removal of what was deleted (node, section 19).

use std::io;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::StreamExt as _;
use kruntimes_core::api::WorkspacePhase;
use kruntimes_core::crd::{PersistentWorkspace, Run};
use kruntimes_core::keys::FINALIZER_WORKSPACE;
use kruntimes_core::life::Failure;
use kruntimes_core::message::quoted;
use kruntimes_core::retry::reason;
use kruntimes_k8s::cache::{Cache, Change, ObjectKey};
use kube::api::{Patch, PatchParams};
use kube::runtime::watcher;
use kube::{Api, Client, ResourceExt as _};
use serde_json::json;
use tokio::sync::Notify;
use tokio::time::sleep;

use crate::node::Node;

/// Index of deleted workspaces by the Pod that holds their data.
const DELETED_ON: &str = "deleted-on";
/// First wait before something that failed is tried again; doubles.
const AGAIN: Duration = Duration::from_secs(1);
/// Longest such wait.
const AGAIN_MAX: Duration = Duration::from_secs(60);

/// What this node knows of the workspaces of its namespace.
pub(crate) struct Workspaces {
    api: Api<PersistentWorkspace>,
    cache: Cache<PersistentWorkspace>,
    wake: Notify,
}

impl Workspaces {
    pub(crate) fn new(client: Client, namespace: &str) -> Self {
        Self {
            api: Api::namespaced(client, namespace),
            cache: Cache::new(&[(DELETED_ON, |workspace: &PersistentWorkspace| {
                let status = workspace.status.as_ref();
                status
                    .filter(|_| workspace.metadata.deletion_timestamp.is_some())
                    .and_then(|status| status.bound_pod.clone())
                    .into_iter()
                    .collect()
            })]),
            wake: Notify::new(),
        }
    }

    /// Has deleted workspaces looked at again: a Run may have left one.
    pub(crate) fn look(&self) {
        self.wake.notify_one();
    }
}

fn refused(text: &str) -> Failure {
    Failure::new(reason::PREPARE_SOURCE, &format!("prepare source: {text}"))
}

/// Tells why a Run may not use a workspace here, if so (N-254).
fn objection(node: &Node, run: &Run, workspace: &PersistentWorkspace) -> Option<String> {
    let status = workspace.status.clone().unwrap_or_default();
    let here = status.bound_pod.as_deref() == Some(&node.config.pod_name)
        && status.bound_pod_uid.as_deref() == Some(&node.pod_uid);
    let why = match status.phase {
        _ if workspace.metadata.deletion_timestamp.is_some() => "is being deleted",
        _ if workspace.spec.runtime != run.spec.runtime => "belongs to another runtime",
        WorkspacePhase::Pending => "is not bound",
        WorkspacePhase::Lost => "is lost with its pod",
        WorkspacePhase::Released => "is released",
        WorkspacePhase::Bound if here => return None,
        WorkspacePhase::Bound => "is bound to another pod",
    };
    Some(format!(
        "persistent workspace {} {why}",
        quoted(&workspace.name_any())
    ))
}

/// Checks that the workspace of a Run is bound to this very Pod; waits while that cannot be asked (N-254).
pub(crate) async fn check(node: &Node, run: &Run) -> Result<(), Failure> {
    let Some(reference) = &run.spec.workspace else {
        return Ok(());
    };
    let Workspaces { api, cache, .. } = &node.workspaces;
    let key = ObjectKey::new(&node.config.namespace, &reference.name);
    let usable = |found: &PersistentWorkspace| objection(node, run, found).is_none();
    if cache.get(&key).is_some_and(|found| usable(&found)) {
        return Ok(());
    }
    // The local copy may be behind, so an objection counts only when the API shares it.
    let mut wait = AGAIN;
    loop {
        match api.get_opt(&reference.name).await {
            Ok(Some(found)) => {
                let objection = objection(node, run, &found);
                cache.written(found);
                return objection.map_or(Ok(()), |text| Err(refused(&text)));
            }
            Ok(None) => {
                let name = quoted(&reference.name);
                return Err(refused(&format!(
                    "persistent workspace {name} does not exist"
                )));
            }
            Err(kube::Error::Api(status)) if (400..429).contains(&status.code) => {
                return Err(refused(&format!(
                    "persistent workspace cannot be read: {}",
                    status.message
                )));
            }
            Err(error) => tracing::warn!(%error, "persistent workspace cannot be read yet"),
        }
        sleep(wait).await;
        wait = (wait * 2).min(AGAIN_MAX);
    }
}

/// Follows the workspaces and removes what was deleted, for ever (N-257).
pub(crate) async fn tend(node: &Node, client: Client) {
    let namespace = node.config.namespace.as_str();
    let workspaces = &node.workspaces;
    let changes = workspaces
        .cache
        .follow(client, Some(namespace), watcher::Config::default());
    let mut changes = std::pin::pin!(changes);
    let mut wait = None;
    loop {
        let again = async {
            match wait {
                Some(wait) => sleep(wait).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            change = changes.next() => match change {
                Some(Change::Undecodable { key, error }) => {
                    tracing::warn!(workspace = %key, error, "workspace cannot be decoded");
                }
                Some(Change::Applied { .. } | Change::Deleted(_) | Change::Synced) => {}
                None => return,
            },
            () = workspaces.wake.notified() => {}
            () = again => {}
        }
        wait = if remove_deleted(node).await {
            None
        } else {
            Some(wait.map_or(AGAIN, |wait| (wait * 2).min(AGAIN_MAX)))
        };
    }
}

/// Removes the data of deleted workspaces that nobody uses; tells whether nothing is left to repeat.
async fn remove_deleted(node: &Node) -> bool {
    // What the Runs are is not known yet, or the Pod goes with everything in it (N-258).
    if !node.runs.is_synced() || node.leaving.load(Ordering::Relaxed) {
        return true;
    }
    let mut done = true;
    let workspaces = &node.workspaces;
    for workspace in workspaces.cache.by_index(DELETED_ON, &node.config.pod_name) {
        let mine = workspace
            .status
            .as_ref()
            .is_some_and(|status| status.bound_pod_uid.as_deref() == Some(&node.pod_uid));
        let finalizers = workspace.finalizers();
        if !mine || !finalizers.iter().any(|name| name == FINALIZER_WORKSPACE) {
            continue;
        }
        let name = workspace.name_any();
        if in_use(node, &name) {
            continue;
        }
        let removed = match remove(node, &name).await {
            Ok(()) => let_go(node, &workspace).await.map_err(|e| e.to_string()),
            Err(error) => Err(error.to_string()),
        };
        if let Err(error) = removed {
            tracing::warn!(
                workspace = name,
                error,
                "persistent workspace cannot be removed yet"
            );
            done = false;
        }
    }
    done
}

/// Tells whether a Run of this Pod that is not over, or not released, names the workspace.
fn in_use(node: &Node, name: &str) -> bool {
    let names = |run: &Run| {
        let reference = run.spec.workspace.as_ref();
        reference.is_some_and(|workspace| workspace.name == name)
    };
    node.table.uses(name) || node.my_runs().iter().any(|run| names(run))
}

async fn remove(node: &Node, name: &str) -> io::Result<()> {
    let (files, name) = (node.files.clone(), name.to_owned());
    tokio::task::spawn_blocking(move || files.remove_workspace(&name))
        .await
        .unwrap_or_else(|error| Err(io::Error::other(error)))
}

/// Takes the finalizer away. The status is the controller's alone.
async fn let_go(node: &Node, workspace: &PersistentWorkspace) -> Result<(), kube::Error> {
    let left: Vec<&String> = workspace
        .finalizers()
        .iter()
        .filter(|name| *name != FINALIZER_WORKSPACE)
        .collect();
    let patch = json!({ "metadata": {
        "resourceVersion": workspace.resource_version(),
        "uid": workspace.uid(),
        "finalizers": left,
    }});
    let (name, params) = (workspace.name_any(), PatchParams::default());
    let api = &node.workspaces.api;
    match api.patch(&name, &params, &Patch::Merge(&patch)).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        Err(error) => Err(error),
    }
}
