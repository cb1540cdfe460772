//! Letting go of executions: stop, forget, remove files, free capacity (node, section 10.5).

use std::sync::Arc;
use std::time::Duration;

use kruntimes_core::api::RunPhase;
use kruntimes_core::crd::Run;
use kruntimes_core::keys::FINALIZER_ARTIFACT;
use kruntimes_proto::ClientError;
use kube::ResourceExt as _;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::artifact;
use crate::node::Node;

/// Wait between two tries to forget, within one series (N-124).
const AGAIN: Duration = Duration::from_millis(100);
/// Length of a series.
const SERIES: Duration = Duration::from_secs(5);
/// First wait between series; doubles.
const PAUSE: Duration = Duration::from_secs(1);
/// Longest wait between series.
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// How often a finalizer is taken from a Run that changes meanwhile.
const CONFLICTS: usize = 5;

/// Begins the release of a held Run; a second one changes nothing.
///
/// With `stop` its work may still run. `run` is the object as last seen, for its logs.
pub(crate) fn spawn(node: &Arc<Node>, uid: &str, run: Option<Arc<Run>>, stop: bool) {
    let begun = node.table.update(uid, |entry| {
        let begun = entry.releasing;
        entry.releasing = true;
        begun
    });
    if begun != Some(false) {
        return;
    }
    let (shared, uid) = (Arc::clone(node), uid.to_owned());
    node.tasks
        .spawn(async move { release(&shared, &uid, run, stop).await });
}

async fn release(node: &Node, uid: &str, run: Option<Arc<Run>>, stop: bool) {
    // A start on its way must end first, or it could begin what was just stopped (N-80); a collection too.
    let starting = node.table.update(uid, |entry| entry.local.starting) == Some(true);
    node.table.settled(uid).await;
    if stop || starting {
        stop_work(node, uid, run.as_deref()).await;
        if let Some(run) = &run {
            node.flush_logs(run, uid);
        }
    }
    if let Some(run) = &run {
        node.tell_end(run, uid);
    }
    forget(node, uid, || true).await;
    if let (Some(artifacts), Some(run)) = (&node.artifacts, &run) {
        let status = run.status.clone().unwrap_or_default();
        let begun = status.artifact_store.is_some() && status.phase != RunPhase::Succeeded;
        if begun && artifact::discard(artifacts, run, uid).await {
            drop_finalizer(node, run, uid).await;
        }
    }
    let workspace = node.table.update(uid, |entry| entry.workspace.clone());
    if let Ok(dir) = node.files.run(uid, workspace.flatten().as_deref()) {
        dir.remove().await;
    }
    node.table.remove(uid);
    node.workspaces.look();
    node.wake_waiting();
}

/// Takes the finalizer for artifacts from a Run that has none (N-168). Where that fails, whoever removes
/// artifacts of deleted Runs finds nothing and takes it.
async fn drop_finalizer(node: &Node, run: &Run, uid: &str) {
    let name = run.name_any();
    for _ in 0..CONFLICTS {
        let current = match node.api.get_opt(&name).await {
            Ok(Some(current)) if current.uid().as_deref() == Some(uid) => current,
            Ok(_) => return,
            Err(error) => {
                tracing::debug!(run = name, %error, "the finalizer stays");
                return;
            }
        };
        if !current.finalizers().iter().any(|f| f == FINALIZER_ARTIFACT) {
            return;
        }
        let mut left = current.finalizers().to_vec();
        left.retain(|finalizer| finalizer != FINALIZER_ARTIFACT);
        let patch = json!({ "metadata": {
            "resourceVersion": current.metadata.resource_version,
            "finalizers": left,
        }});
        let params = PatchParams::default();
        match node.api.patch(&name, &params, &Patch::Merge(&patch)).await {
            Ok(_) => return,
            Err(kube::Error::Api(status)) if status.is_conflict() => {}
            Err(error) => {
                tracing::debug!(run = name, %error, "the finalizer stays");
                return;
            }
        }
    }
}

/// Stops the work at the server, best effort, and keeps what it has written (N-116, N-120, N-179).
pub(crate) async fn stop_work(node: &Node, uid: &str, run: Option<&Run>) {
    let take = async || {
        if let Ok(report) = node.server.status(uid).await
            && let Some(run) = run
        {
            node.take_report(run, uid, &report);
        }
    };
    take().await;
    match node.server.cancel(uid).await {
        Ok(()) => take().await,
        Err(error) if error.is_not_found() => {}
        Err(error) => tracing::warn!(uid, %error, "work cannot be stopped, it is tried again"),
    }
}

/// Stops and forgets an execution while nothing here holds it (N-195).
pub(crate) async fn stop_orphan(node: &Node, uid: &str) {
    if !node.table.holds(uid) {
        stop_and_forget(node, uid, || !node.table.holds(uid)).await;
    }
}

/// Stops and forgets an execution for as long as that is `wanted`.
pub(crate) async fn stop_and_forget(node: &Node, uid: &str, wanted: impl Fn() -> bool) {
    if let Err(error) = node.server.cancel(uid).await
        && !error.is_not_found()
    {
        tracing::warn!(uid, %error, "work cannot be stopped, it is tried again");
    }
    forget(node, uid, wanted).await;
}

/// Forgets an execution, however long it takes (N-124).
///
/// Returns when no process of it can live, or when this is `wanted` no more: a later execution under the
/// same UID must not be the one that is hit.
async fn forget(node: &Node, uid: &str, wanted: impl Fn() -> bool) {
    let mut pause = PAUSE;
    while wanted() {
        let end = Instant::now() + SERIES;
        while wanted() {
            match node.server.forget(uid).await {
                Ok(()) | Err(ClientError::NotFound { .. } | ClientError::Unimplemented { .. }) => {
                    return;
                }
                // N-125
                Err(ClientError::FailedPrecondition { .. }) => {
                    let _ = node.server.cancel(uid).await;
                }
                Err(error) => tracing::debug!(uid, %error, "execution cannot be forgotten yet"),
            }
            if Instant::now() + AGAIN >= end {
                break;
            }
            sleep(AGAIN).await;
        }
        tracing::warn!(
            uid,
            "execution cannot be forgotten, its capacity stays taken"
        );
        sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// Forgets the execution of a failed attempt, so that the next one may begin (N-106).
pub(crate) fn spawn_forget(node: &Arc<Node>, uid: &str) {
    let Some((key, epoch)) = node
        .table
        .update(uid, |entry| (entry.key.clone(), entry.epoch))
    else {
        return;
    };
    let (shared, uid) = (Arc::clone(node), uid.to_owned());
    node.tasks.spawn(async move {
        shared.table.settled(&uid).await;
        let wanted = || shared.table.wants(&uid, epoch);
        forget(&shared, &uid, wanted).await;
        if wanted() {
            shared
                .table
                .update(&uid, |entry| entry.local.unforgotten = false);
        }
        shared.queue.add(key);
    });
}
