//! Removing what deleted Runs have in a store (node, section 12.7).

use std::sync::Arc;

use futures::StreamExt as _;
use kruntimes_core::crd::Run;
use kruntimes_core::keys::FINALIZER_ARTIFACT;
use kruntimes_k8s::cache::{Cache, Change, ObjectKey};
use kruntimes_k8s::queue::{self, Outcome, WorkQueue};
use kube::api::{Patch, PatchParams};
use kube::runtime::watcher;
use kube::{Api, Client, ResourceExt as _};
use serde_json::json;

use super::Store;
use super::collect::remove_run;

/// Runs that are cleaned at once.
const WORKERS: usize = 4;

/// Removes the artifacts of deleted Runs from one store and lets the Runs go, for ever and in all namespaces.
///
/// Runs of other stores are left alone (N-173). One whose data cannot be removed is tried again and again and
/// holds up no other (N-174).
pub async fn maintain(client: Client, store: Arc<dyn Store>) {
    let runs: Cache<Run> = Cache::new(&[]);
    let queue = WorkQueue::new();
    let changes = runs.follow(client.clone(), None, watcher::Config::default());
    let feed = changes.for_each(|change| {
        if let Change::Applied { new, .. } = change
            && is_ours(&new, store.as_ref())
        {
            queue.add(ObjectKey::of(new.as_ref()));
        }
        std::future::ready(())
    });
    let work = queue::work(&queue, WORKERS, |key| {
        let (runs, store, client) = (&runs, &store, &client);
        async move {
            match runs.get(&key) {
                Some(run) if is_ours(&run, store.as_ref()) => clean(client, store, &run).await,
                Some(_) | None => Outcome::Done,
            }
        }
    });
    futures::join!(feed, work);
}

fn is_ours(run: &Run, store: &dyn Store) -> bool {
    let settings = run.status.as_ref().and_then(|s| s.artifact_store.as_ref());
    run.metadata.deletion_timestamp.is_some()
        && run.finalizers().iter().any(|f| f == FINALIZER_ARTIFACT)
        && settings == Some(&store.settings())
}

async fn clean(client: &Client, store: &Arc<dyn Store>, run: &Run) -> Outcome {
    let (name, namespace) = (run.name_any(), run.namespace().unwrap_or_default());
    let uid = run.uid().unwrap_or_default();
    if let Err(error) = remove_run(Arc::clone(store), &namespace, &uid).await {
        tracing::warn!(run = name, %error, "artifacts of a deleted run cannot be removed yet");
        return Outcome::Retry;
    }
    let mut left = run.finalizers().to_vec();
    left.retain(|finalizer| finalizer != FINALIZER_ARTIFACT);
    let patch = Patch::Merge(json!({ "metadata": {
        "uid": uid,
        "resourceVersion": run.metadata.resource_version,
        "finalizers": left,
    }}));
    let api: Api<Run> = Api::namespaced(client.clone(), &namespace);
    match api.patch(&name, &PatchParams::default(), &patch).await {
        Ok(_) => Outcome::Done,
        Err(kube::Error::Api(status)) if status.is_not_found() => Outcome::Done,
        Err(error) => {
            tracing::debug!(run = name, %error, "finalizer cannot be removed yet");
            Outcome::Retry
        }
    }
}
