//! Letting go of executions: stop, forget, remove files, free capacity (node, section 10.5).

use std::sync::Arc;
use std::time::Duration;

use kruntimes_core::crd::Run;
use kruntimes_k8s::cache::ObjectKey;
use kruntimes_proto::ClientError;
use tokio::time::{Instant, sleep};

use crate::node::Node;

/// Wait between two tries to forget, within one series (N-124).
const AGAIN: Duration = Duration::from_millis(100);
/// Length of a series.
const SERIES: Duration = Duration::from_secs(5);
/// First wait between series; doubles.
const PAUSE: Duration = Duration::from_secs(1);
/// Longest wait between series.
const PAUSE_MAX: Duration = Duration::from_secs(30);

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
    // A start on its way must end first, or it could begin what was just stopped (N-80).
    let starting = node.table.update(uid, |entry| entry.local.starting) == Some(true);
    node.table.no_start(uid).await;
    if stop || starting {
        stop_work(node, uid, run.as_deref()).await;
    }
    forget(node, uid).await;
    if let Ok(dir) = node.files.run(uid) {
        dir.remove().await;
    }
    node.table.remove(uid);
    node.wake_waiting();
}

/// Stops the work at the server, best effort, and emits what it has written (N-116, N-120, N-179).
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
    if let Some(run) = run {
        node.flush_logs(run, uid);
    }
}

/// Stops and forgets an execution that nothing here holds (N-195).
pub(crate) async fn stop_and_forget(node: &Node, uid: &str) {
    if let Err(error) = node.server.cancel(uid).await
        && !error.is_not_found()
    {
        tracing::warn!(uid, %error, "work cannot be stopped, it is tried again");
    }
    forget(node, uid).await;
}

/// Forgets an execution, however long it takes: returns only when no process of it can live (N-124).
async fn forget(node: &Node, uid: &str) {
    let mut pause = PAUSE;
    loop {
        let end = Instant::now() + SERIES;
        loop {
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
        tracing::warn!(uid, "execution cannot be forgotten, its capacity stays taken");
        sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// Forgets the execution of a failed attempt, so that the next one may begin (N-106).
pub(crate) fn spawn_forget(node: &Arc<Node>, uid: &str, key: ObjectKey) {
    let (shared, uid) = (Arc::clone(node), uid.to_owned());
    node.tasks.spawn(async move {
        shared.table.no_start(&uid).await;
        forget(&shared, &uid).await;
        shared
            .table
            .update(&uid, |entry| entry.local.unforgotten = false);
        shared.queue.add(key);
    });
}
