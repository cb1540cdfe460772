//! The `Action` kind: a reusable, flat step group (API reference, section 8).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

#[cfg(feature = "crd")]
use super::DefinitionStatus;
use super::{Input, Output, Step};

/// A reusable group of run steps, expanded inside the calling job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "crd",
    derive(kube::CustomResource, schemars::JsonSchema),
    kube(
        group = "kruntimes.io",
        version = "v1alpha1",
        kind = "Action",
        plural = "actions",
        singular = "action",
        namespaced,
        status = "DefinitionStatus",
        derive = "PartialEq",
        doc = "A reusable, flat group of steps, expanded inside the calling job.",
        printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].status"),
        printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
    ),
    schemars(transform = crate::crd::workflow::action_spec)
)]
#[serde(rename_all = "camelCase")]
pub struct ActionSpec {
    /// Parameters by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub inputs: BTreeMap<String, Input>,
    /// Values exposed to the calling step, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub outputs: BTreeMap<String, Output>,
    /// Run steps, one after another.
    pub steps: Vec<Step>,
}
