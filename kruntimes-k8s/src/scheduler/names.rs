//! What things are called in the cluster, for those who call them otherwise (S-157).

use k8s_openapi::api::core::v1::Pod;
use kruntimes_core::crd::{PersistentWorkspace, Run, Runtime};
use kruntimes_core::keys::{
    ANNOTATION_CAPACITY_PREFIX, CONDITION_SCHEDULED, LABEL_RUNTIME, POD_RUNTIMED_READY,
};
use kruntimes_core::resources::{self, Amounts};
use kube::core::ApiResource;
use kube::{Resource as _, ResourceExt as _};

/// Labels, annotations, conditions and kinds the scheduler looks at; ours by default.
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
}
