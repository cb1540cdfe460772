//! Deletes Runs that are over for longer than they are to be kept (N-209).
//!
//! When that is, is [`kruntimes_core::retention::expiry`]; here Runs are
//! watched, timers kept, and deletions sent that name the very version they
//! were decided on.

use kruntimes_core::crd::Run;
use kruntimes_core::retention::expiry;
use kube::api::{Api, DeleteParams, Preconditions};

use crate::cache::{Change, ObjectKey};
use crate::chain;
use crate::pool::Shared;
use crate::queue::{self, Outcome, WorkQueue};

pub(crate) struct Controller {
    shared: Shared,
    queue: WorkQueue<ObjectKey>,
}

impl Controller {
    pub(crate) fn new(shared: &Shared) -> Self {
        Self {
            shared: shared.clone(),
            queue: WorkQueue::new(),
        }
    }

    /// Takes note of a Run; one that never expires costs nothing.
    pub(crate) fn run_changed(&self, change: &Change<Run>) {
        if let Change::Applied { new, .. } = change
            && due(new).is_some()
        {
            self.queue.add(ObjectKey::of(new.as_ref()));
        }
    }

    pub(crate) async fn work(&self, workers: usize) {
        queue::work(&self.queue, workers, |key| self.reconcile(key)).await;
    }

    async fn reconcile(&self, key: ObjectKey) -> Outcome {
        let Some(run) = self.shared.runs.get(&key) else {
            return Outcome::Done;
        };
        let Some(due) = due(&run) else {
            return Outcome::Done;
        };
        let left = due.duration_since(self.shared.clock.now());
        if left.is_positive() {
            return Outcome::After(left.unsigned_abs());
        }
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                uid: run.metadata.uid.clone(),
                resource_version: run.metadata.resource_version.clone(),
            }),
            ..DeleteParams::background()
        };
        let api: Api<Run> = Api::namespaced(self.shared.client.clone(), &key.namespace);
        match api.delete(&key.name, &params).await {
            Ok(_) => Outcome::Done,
            Err(kube::Error::Api(status)) if status.is_not_found() => Outcome::Done,
            // The version that was changed meanwhile decides; it usually arrives before the wait is over.
            Err(kube::Error::Api(status)) if status.is_conflict() => Outcome::Retry,
            Err(error) => {
                tracing::warn!(run = %key, error = %chain(&error), "a Run cannot be deleted, it is tried again");
                Outcome::Retry
            }
        }
    }
}

fn due(run: &Run) -> Option<jiff::Timestamp> {
    if run.metadata.deletion_timestamp.is_some() {
        return None;
    }
    expiry(&run.spec, run.status.as_ref()?)
}
