//! The stale-Run reaper: moves or ends Runs whose Pod is lost.
//!
//! What becomes of a Run is [`kruntimes_core::loss::calculate`]. One timer per
//! Pod watches for silence; a Run costs nothing while its Pod is sound. Before
//! anything is written the Pod is read from the API itself: a watch may lag.

mod metrics;
mod sighting;
mod turn;

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use k8s_openapi::api::core::v1::Pod;
use kruntimes_core::crd::Run;
use kruntimes_core::duration::Duration;
use kruntimes_core::loss::{self, Health};
use kube::ResourceExt as _;
use tokio::time::Instant;

use crate::cache::{Change, ObjectKey};
use crate::pool::{BY_POD, Config, Shared};
use crate::queue::{self, Outcome, WorkQueue};
use metrics::Metrics;
use sighting::Sighting;

/// What is looked at again.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    /// A Pod with Runs on it.
    Pod(ObjectKey),
    /// One Run.
    Run(ObjectKey),
}

pub(crate) struct Controller {
    shared: Shared,
    threshold: Duration,
    sightings: Mutex<BTreeMap<ObjectKey, Sighting>>,
    queue: WorkQueue<Key>,
    metrics: Metrics,
}

impl Controller {
    pub(crate) fn new(shared: &Shared, config: &Config) -> Self {
        Self {
            shared: shared.clone(),
            threshold: config.stale_threshold(),
            sightings: Mutex::default(),
            queue: WorkQueue::new(),
            metrics: Metrics::new(&config.registry),
        }
    }

    pub(crate) async fn work(&self, workers: usize) {
        queue::work(&self.queue, workers, |key| self.reconcile(key)).await;
    }

    fn sightings(&self) -> MutexGuard<'_, BTreeMap<ObjectKey, Sighting>> {
        // A panic elsewhere leaves plain values behind, which stay usable.
        self.sightings
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note of a Run. One on a sound Pod only makes sure that the Pod is watched for silence.
    pub(crate) fn run_changed(&self, change: &Change<Run>) {
        let Change::Applied { new: run, .. } = change else {
            return;
        };
        let key = ObjectKey::of(run.as_ref());
        match watched_pod(run) {
            None if loss::is_registered(run.finalizers()) => self.queue.add(Key::Run(key)),
            None => {}
            Some(pod) => {
                let uid = (run.status.as_ref()).and_then(|s| s.assigned_pod_uid.as_deref());
                match self.health(&pod, uid) {
                    Health::Sound(left) => self.arm(pod, left),
                    Health::Lost(_) => self.queue.add(Key::Run(key)),
                }
            }
        }
    }

    /// Takes note of a Pod. Heartbeats only move the moment from which it is silent.
    pub(crate) fn pod_changed(&self, change: &Change<Pod>) {
        let now = Instant::now();
        let key = match change {
            Change::Applied { new, .. } => {
                let key = ObjectKey::of(new.as_ref());
                let mut sightings = self.sightings();
                let news = if let Some(sighting) = sightings.get_mut(&key) {
                    sighting.update(new, now)
                } else {
                    sightings.insert(key.clone(), Sighting::first(new, now));
                    true
                };
                if !news {
                    return;
                }
                key
            }
            Change::Deleted(old) => {
                let key = ObjectKey::of(old.as_ref());
                self.sightings().remove(&key);
                key
            }
            Change::Undecodable { .. } | Change::Synced => return,
        };
        self.wake_runs(&key);
    }

    fn wake_runs(&self, pod: &ObjectKey) {
        for run in self.shared.runs.by_index(BY_POD, &pod.to_string()) {
            self.queue.add(Key::Run(ObjectKey::of(run.as_ref())));
        }
    }

    /// Sees to it that the Pod is looked at when it would be silent for too long.
    fn arm(&self, pod: ObjectKey, left: Duration) {
        self.queue.add_after(Key::Pod(pod), left.to_std());
    }

    fn health(&self, pod: &ObjectKey, uid: Option<&str>) -> Health {
        let view = self.sightings().get(pod).map(|s| s.view(Instant::now()));
        loss::examine(uid, view.as_ref(), self.threshold)
    }

    async fn reconcile(&self, key: Key) -> Outcome {
        match key {
            Key::Run(run) => self.reconcile_run(run).await,
            Key::Pod(pod) => {
                let runs = self.shared.runs.by_index(BY_POD, &pod.to_string());
                if runs.is_empty() {
                    return Outcome::Done;
                }
                match self.health(&pod, None) {
                    Health::Sound(left) => Outcome::After(left.to_std()),
                    Health::Lost(_) => {
                        self.wake_runs(&pod);
                        Outcome::Done
                    }
                }
            }
        }
    }
}

/// Returns the Pod whose loss would concern a Run: one that holds it, or a registration of it.
pub(crate) fn watched_pod(run: &Run) -> Option<ObjectKey> {
    let status = run.status.as_ref()?;
    let pod = status.assigned_pod.as_deref().filter(|p| !p.is_empty())?;
    let concerned = status.phase.is_active() || loss::is_registered(run.finalizers());
    concerned.then(|| ObjectKey::new(run.namespace().unwrap_or_default(), pod))
}
