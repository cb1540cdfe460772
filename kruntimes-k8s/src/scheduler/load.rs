//! The snapshot of one cycle out of objects, for whoever keeps a cache of their own (S-32, S-157).

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kruntimes_core::crd::{PersistentWorkspace, Run};
use kruntimes_sched::{Book, Namespace, Observation, Snapshot};
use std::sync::Arc;

use super::names::Names;
use super::seen;

/// Objects of one namespace, read at one instant; those of other namespaces are passed over (S-3).
#[derive(Clone, Copy, Debug)]
pub struct Objects<'a> {
    /// Pods; those of other Runtimes are passed over.
    pub pods: &'a [Pod],
    /// Runs, all of the namespace.
    pub runs: &'a [Run],
    /// Whether the Runtime of the Run exists.
    pub runtime_exists: bool,
    /// The workspace that the Run references, if it exists.
    pub workspace: Option<&'a PersistentWorkspace>,
}

/// Shows the Runs to the book, as a complete list of their namespace, and takes the snapshot for one of them.
///
/// What the book assumes beyond that stays counted, so that the next cycle
/// need not wait for its own writes to be seen.
pub fn snapshot(
    names: &Names,
    run: &Run,
    objects: &Objects<'_>,
    book: &mut Book,
    now: Timestamp,
) -> Snapshot {
    let namespace: Namespace = seen::namespace(run);
    let here =
        |of: Option<&String>| of.map(String::as_str).unwrap_or_default() == namespace.as_str();
    let observed: Vec<Observation> = (objects.runs.iter())
        .filter(|run| here(run.metadata.namespace.as_ref()))
        .map(seen::observation)
        .collect();
    book.observe_all(&namespace, &observed);
    let pods = objects.pods.iter().filter(|pod| {
        here(pod.metadata.namespace.as_ref())
            && names.runtime_of(pod) == Some(run.spec.runtime.as_str())
    });
    let workspace = objects
        .workspace
        .filter(|workspace| here(workspace.metadata.namespace.as_ref()));
    Snapshot::new(
        now,
        pods.map(|pod| seen::pod(names, pod)),
        book.view(namespace.as_str()),
    )
    .runtime_exists(objects.runtime_exists)
    .with_workspace(workspace.map(|workspace| Arc::new(seen::workspace(workspace))))
}
