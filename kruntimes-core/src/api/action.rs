//! The `Action` kind: a reusable, flat step group (API reference, section 8).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Input, Output, Step};

/// A reusable group of run steps, expanded inside the calling job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
