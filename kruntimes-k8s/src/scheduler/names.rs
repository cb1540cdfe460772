//! What things are called in the cluster, for those who call them otherwise (S-157).

use std::borrow::Cow;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kruntimes_core::api::{Affinity, RunStatus};
use kruntimes_core::crd::{PersistentWorkspace, Run, Runtime};
use kruntimes_core::keys::{
    ANNOTATION_CAPACITY_PREFIX, CONDITION_COMPLETED, CONDITION_RUNNING, CONDITION_SCHEDULED,
    LABEL_RUNTIME, POD_RUNTIMED_READY, TOPOLOGY_RUNTIME_POD,
};
use kruntimes_core::resources::{self, Amounts};
use kube::core::ApiResource;
use kube::{Resource as _, ResourceExt as _};

/// Labels, annotations, conditions, topology key and kinds the scheduler looks at; ours by default.
///
/// Kinds of one's own need our schema, or more than it. Whoever has another
/// schema turns objects into [`kruntimes_sched::Run`] and
/// [`kruntimes_sched::Pod`] and uses the pure crate, and the pieces of this
/// module that fit.
#[derive(Clone, Debug, PartialEq)]
pub struct Names {
    /// Label of Pods that names their Runtime.
    pub runtime_label: String,
    /// What the annotations begin with that tell the capacity of a Pod.
    pub capacity_prefix: String,
    /// Pod condition that is refreshed as a sign of life.
    pub heartbeat_condition: String,
    /// Run condition that tells whether a Pod is assigned.
    pub scheduled_condition: String,
    /// Run condition that tells whether an attempt executes, from whose end the retry delay counts (S-114).
    pub running_condition: String,
    /// Run condition that tells how it ended (S-106).
    pub completed_condition: String,
    /// The one topology key of affinity terms (S-39).
    pub topology_key: String,
    /// The kind that is placed.
    pub runs: ApiResource,
    /// The kind that stands for a pool.
    pub runtimes: ApiResource,
    /// The kind that binds Runs to one Pod.
    pub workspaces: ApiResource,
}

impl Default for Names {
    fn default() -> Self {
        Self {
            runtime_label: LABEL_RUNTIME.to_owned(),
            capacity_prefix: ANNOTATION_CAPACITY_PREFIX.to_owned(),
            heartbeat_condition: POD_RUNTIMED_READY.to_owned(),
            scheduled_condition: CONDITION_SCHEDULED.to_owned(),
            running_condition: CONDITION_RUNNING.to_owned(),
            completed_condition: CONDITION_COMPLETED.to_owned(),
            topology_key: TOPOLOGY_RUNTIME_POD.to_owned(),
            runs: ApiResource::erase::<Run>(&()),
            runtimes: ApiResource::erase::<Runtime>(&()),
            workspaces: ApiResource::erase::<PersistentWorkspace>(&()),
        }
    }
}

impl Names {
    /// Reads which Runtime a Pod belongs to.
    pub fn runtime_of<'a>(&self, pod: &'a Pod) -> Option<&'a str> {
        let label = pod.meta().labels.as_ref()?.get(&self.runtime_label)?;
        Some(label.as_str()).filter(|label| !label.is_empty())
    }

    /// Reads the capacity annotations of a Pod (S-9, S-10).
    pub fn capacity_of(&self, pod: &Pod) -> Amounts {
        if self.capacity_prefix == ANNOTATION_CAPACITY_PREFIX {
            return resources::capacity(pod.annotations().iter());
        }
        let ours: Vec<(String, String)> = (pod.annotations().iter())
            .filter_map(|(key, value)| {
                let resource = key.strip_prefix(&self.capacity_prefix)?;
                let key = format!("{ANNOTATION_CAPACITY_PREFIX}{resource}");
                Some((key, value.clone()))
            })
            .collect();
        resources::capacity(ours.iter().map(|(key, value)| (key, value)))
    }

    /// Puts the topology key that plugins know in place of the one of the cluster.
    ///
    /// A term that states ours where another is agreed upon stays
    /// meaningless, and the message of the Run says which key it had to be.
    pub fn adopt(&self, run: &mut kruntimes_sched::Run) {
        if self.topology_key == TOPOLOGY_RUNTIME_POD {
            return;
        }
        let Some(stated) = run.affinity.as_deref() else {
            return;
        };
        let mut affinity = Affinity::clone(stated);
        let both = [&mut affinity.run_affinity, &mut affinity.run_anti_affinity];
        for lists in both.into_iter().flatten() {
            let preferred = lists.preferred.iter_mut();
            let preferred = preferred.map(|weighted| &mut weighted.run_affinity_term);
            for term in lists.required.iter_mut().chain(preferred) {
                if term.topology_key == self.topology_key {
                    TOPOLOGY_RUNTIME_POD.clone_into(&mut term.topology_key);
                } else if term.topology_key == TOPOLOGY_RUNTIME_POD {
                    term.topology_key =
                        format!("{TOPOLOGY_RUNTIME_POD}, here {}", self.topology_key);
                }
            }
        }
        run.affinity = Some(Arc::new(affinity));
    }

    /// Shows a status as the gates read it, with our name of the condition that an attempt executes.
    pub(super) fn gated<'a>(&self, status: &'a RunStatus) -> Cow<'a, RunStatus> {
        if self.running_condition == CONDITION_RUNNING {
            return Cow::Borrowed(status);
        }
        let mut seen = status.clone();
        (seen.conditions).retain(|found| found.condition_type == self.running_condition);
        for found in &mut seen.conditions {
            CONDITION_RUNNING.clone_into(&mut found.condition_type);
        }
        Cow::Owned(seen)
    }
}
