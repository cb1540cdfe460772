//! The frozen input of one cycle.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::book::View;
use crate::identity::{PodName, RunUid};
use crate::occupancy::Occupancy;
use crate::pod::Pod;
use crate::record::Written;
use crate::run::Run;
use crate::shared;
use crate::workspace::Workspace;

/// One Pod of the pool and what it holds.
#[derive(Clone, Debug)]
pub struct PodState {
    /// The Pod.
    pub pod: Arc<Pod>,
    /// Observed and assumed Runs on it (S-34).
    pub occupancy: Arc<Occupancy>,
}

/// A waiting Run for which a place is being freed (S-165).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Nominated {
    /// The Run.
    #[serde(with = "shared")]
    pub run: Arc<Run>,
    /// The Pod it was nominated for.
    pub pod: PodName,
}

/// Everything a cycle may look at (S-32). Nothing in it changes (S-37).
///
/// It can be written down and read back; see [`crate::Recording`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(from = "Written", into = "Written")]
pub struct Snapshot {
    now: Timestamp,
    pods: Vec<PodState>,
    view: View,
    runtime_exists: bool,
    workspace: Option<Arc<Workspace>>,
    nominated: Arc<[Nominated]>,
}

impl Snapshot {
    /// Freezes the Pods of one pool at `now`, with what the namespace's view says they hold.
    ///
    /// The order of the Pods does not matter (S-65).
    pub fn new<P: Into<Arc<Pod>>>(
        now: Timestamp,
        pods: impl IntoIterator<Item = P>,
        view: View,
    ) -> Self {
        let mut pods: Vec<PodState> = pods
            .into_iter()
            .map(Into::into)
            .map(|pod: Arc<Pod>| PodState {
                occupancy: view.occupancy(&pod),
                pod,
            })
            .collect();
        pods.sort_by(|a, b| (&a.pod.name, &a.pod.uid).cmp(&(&b.pod.name, &b.pod.uid)));
        pods.dedup_by(|a, b| a.pod.name == b.pod.name);
        Self {
            now,
            pods,
            view,
            runtime_exists: true,
            workspace: None,
            nominated: Arc::default(),
        }
    }

    /// Says whether the pool's own object exists; without it the reason for waiting is that.
    pub fn runtime_exists(mut self, exists: bool) -> Self {
        self.runtime_exists = exists;
        self
    }

    /// Adds the workspace that the Run references; without it, the workspace does not exist (S-32).
    pub fn with_workspace(mut self, workspace: impl Into<Option<Arc<Workspace>>>) -> Self {
        self.workspace = workspace.into();
        self
    }

    /// Adds the waiting Runs for which places are being freed.
    pub fn with_nominated(mut self, nominated: impl Into<Arc<[Nominated]>>) -> Self {
        self.nominated = nominated.into();
        self
    }

    /// Returns the snapshot as it would be without some Runs.
    pub(crate) fn without(&self, runs: &BTreeSet<RunUid>) -> Self {
        let pods = self.pods.iter().map(|state| Arc::clone(&state.pod));
        Self {
            workspace: self.workspace.clone(),
            nominated: Arc::clone(&self.nominated),
            runtime_exists: self.runtime_exists,
            ..Self::new(self.now, pods, self.view.without(runs))
        }
    }

    /// Returns the instant of the snapshot.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Returns the Pods of the pool by name.
    pub fn pods(&self) -> &[PodState] {
        &self.pods
    }

    /// Finds a Pod of the pool.
    pub fn pod(&self, name: &PodName) -> Option<&PodState> {
        self.pods
            .binary_search_by(|state| state.pod.name.cmp(name))
            .ok()
            .map(|found| &self.pods[found])
    }

    /// Returns everything that holds capacity of the namespace, whatever its pool.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// Tells whether the pool's own object exists.
    pub fn has_runtime(&self) -> bool {
        self.runtime_exists
    }

    /// Returns the referenced workspace, if it exists.
    pub fn workspace(&self) -> Option<&Workspace> {
        self.workspace.as_deref()
    }

    /// Returns the waiting Runs for which places are being freed.
    pub fn nominated(&self) -> &[Nominated] {
        &self.nominated
    }
}
