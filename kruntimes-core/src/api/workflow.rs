//! The `Workflow` kind and the jobs and steps it shares (API reference, section 6).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Condition, is_default};

/// A reusable definition. It never executes by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "crd",
    derive(kube::CustomResource, schemars::JsonSchema),
    kube(
        group = "kruntimes.io",
        version = "v1alpha1",
        kind = "Workflow",
        plural = "workflows",
        singular = "workflow",
        shortname = "wf",
        namespaced,
        status = "DefinitionStatus",
        derive = "PartialEq",
        doc = "A reusable graph of jobs. It never executes by itself.",
        printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].status"),
        printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
    ),
    schemars(transform = crate::crd::workflow::spec)
)]
#[serde(rename_all = "camelCase")]
pub struct WorkflowSpec {
    /// Parameters by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub inputs: BTreeMap<String, Input>,
    /// Values exposed to a caller, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub outputs: BTreeMap<String, Output>,
    /// Jobs by name.
    pub jobs: BTreeMap<String, Job>,
}

/// One parameter of a Workflow or an Action.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "crd",
    derive(schemars::JsonSchema),
    schemars(transform = crate::crd::workflow::input)
)]
#[serde(rename_all = "camelCase")]
pub struct Input {
    /// Type of the value.
    #[serde(default, rename = "type")]
    pub input_type: InputType,
    /// Whether a caller must give a value.
    #[serde(default, skip_serializing_if = "is_default")]
    pub required: bool,
    /// Value used when the caller gives none; empty means none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
}

/// Type of an input value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum InputType {
    /// Text.
    #[default]
    String,
}

/// One declared output.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "crd",
    derive(schemars::JsonSchema),
    schemars(transform = crate::crd::workflow::output)
)]
#[serde(rename_all = "camelCase")]
pub struct Output {
    /// Expression that yields the value.
    pub value: String,
}

/// One job: inline (`runs-on` and `steps`) or a call (`uses`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "crd",
    derive(schemars::JsonSchema),
    schemars(transform = crate::crd::workflow::job)
)]
#[serde(rename_all = "camelCase")]
pub struct Job {
    /// Runtime of every step; inline jobs only.
    #[serde(default, rename = "runs-on", skip_serializing_if = "Option::is_none")]
    pub runs_on: Option<String>,
    /// Predecessor jobs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<String>,
    /// Steps of an inline job, run one after another.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<Step>,
    /// Workflow to call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uses: Option<String>,
    /// Inputs of the called Workflow.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub with: BTreeMap<String, String>,
    /// Expressions evaluated after the steps.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub outputs: BTreeMap<String, String>,
}

/// One step: a script (`run`) or an Action call (`uses`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "crd",
    derive(schemars::JsonSchema),
    schemars(transform = crate::crd::workflow::step)
)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    /// Unique in its job or Action.
    pub name: String,
    /// Script.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// Stored on the child Run; never reaches the inline script.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Environment of the script.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Action to call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uses: Option<String>,
    /// Inputs of the Action.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub with: BTreeMap<String, String>,
    /// Artifacts of other jobs to stage.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<StepArtifact>,
}

/// One artifact of another job to stage.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "crd",
    derive(schemars::JsonSchema),
    schemars(transform = crate::crd::workflow::step_artifact)
)]
#[serde(rename_all = "camelCase")]
pub struct StepArtifact {
    /// `jobs.<job>.artifacts.<name>` of a direct dependency.
    pub from: String,
    /// Destination below the work directory.
    pub path: String,
}

/// Conditions of a definition. Workflow and Action share it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "crd",
    derive(schemars::JsonSchema),
    schemars(transform = crate::crd::workflow::status)
)]
#[serde(rename_all = "camelCase")]
pub struct DefinitionStatus {
    /// Conditions by type.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}
