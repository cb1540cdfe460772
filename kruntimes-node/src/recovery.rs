//! Taking up work after a restart (node, section 15).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use kruntimes_core::api::RunPhase;
use kruntimes_core::condition;
use kruntimes_core::crd::Run;
use kruntimes_core::keys::CONDITION_RUNTIME_ACCEPTED;
use kruntimes_core::life::{self, Local};
use kruntimes_core::retry;
use kruntimes_k8s::cache::ObjectKey;
use kruntimes_proto::Execution;
use kube::ResourceExt as _;
use tokio::time::sleep;

use crate::node::{self, Node, phase};
use crate::release;
use crate::table::Entry;

/// Wait between two tries to list executions (N-189).
const AGAIN: Duration = Duration::from_millis(500);

/// Restores what an earlier process held. Nothing may be claimed before this has returned.
pub(crate) async fn recover(node: &Arc<Node>) {
    let known = list(node).await;
    node.runs.synced().await;
    let runs = node.my_runs();
    // What has begun comes first: it is held whatever the capacity, and counts for the others.
    for begun in [true, false] {
        for run in &runs {
            if phase(run) != RunPhase::Scheduled && has_begun(run, &known) == begun {
                restore(node, run, begun);
            }
        }
    }
    for run in &runs {
        node.queue.add(ObjectKey::of(run.as_ref()));
    }
    let active: BTreeSet<String> = runs.iter().filter_map(|run| run.uid()).collect();
    for orphan in known.iter().filter(|found| !active.contains(&found.id)) {
        tracing::info!(uid = orphan.id, "stopping an execution without a run");
        let (shared, uid) = (Arc::clone(node), orphan.id.clone());
        node.tasks
            .spawn(async move { release::stop_orphan(&shared, &uid).await });
    }
    let files = node.files.clone();
    let swept = tokio::task::spawn_blocking(move || {
        if let Err(error) = files.make_shared() {
            tracing::warn!(%error, "tool cache cannot be made");
        }
        files.sweep(&active);
    });
    if let Err(error) = swept.await {
        tracing::warn!(%error, "workspace cannot be swept");
    }
}

/// Tells whether more came of a claim than the claim itself.
fn has_begun(run: &Run, known: &[Execution]) -> bool {
    let accepted = run.status.as_ref().is_some_and(|status| {
        condition::is_true(&status.conditions, CONDITION_RUNTIME_ACCEPTED)
            || life::is_in_backoff(status)
    });
    accepted
        || known
            .iter()
            .any(|found| run.uid().as_ref() == Some(&found.id))
}

/// Restores the entry of one Run. What has not begun has to fit, or waits for room.
fn restore(node: &Arc<Node>, run: &Run, begun: bool) {
    let Some(uid) = run.uid() else { return };
    if begun {
        node.table.adopt(&uid, entry(run));
        resume(node, &uid);
    } else {
        // Refused, it is taken up like a claim whose answer was lost.
        let _ = node.table.reserve(&uid, entry(run), &node.capacity());
    }
}

async fn list(node: &Node) -> Vec<Execution> {
    loop {
        match node.server.list().await {
            Ok(known) => return known,
            Err(error) => tracing::info!(%error, "waiting for the runtime server"),
        }
        sleep(AGAIN).await;
    }
}

/// Makes the entry of work that an earlier process claimed (N-191 to N-193).
pub(crate) fn entry(run: &Run) -> Entry {
    let status = run.status.as_ref();
    let local = Local {
        attempt: retry::current_attempt(status.and_then(|status| status.attempt)),
        recovered: true,
        unforgotten: status.is_some_and(life::is_in_backoff),
        ..Local::default()
    };
    match node::entry(run) {
        Ok(entry) => Entry { local, ..entry },
        Err(error) => {
            tracing::warn!(run = %run.name_any(), %error, "held without capacity");
            Entry {
                key: ObjectKey::of(run),
                workspace: node::workspace_of(run),
                local,
                ..Entry::default()
            }
        }
    }
}

/// Takes up what a restored entry still has to do before its Run goes on.
pub(crate) fn resume(node: &Arc<Node>, uid: &str) {
    if node.table.update(uid, |entry| entry.local.unforgotten) == Some(true) {
        release::spawn_forget(node, uid);
    }
}
