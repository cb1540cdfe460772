//! The `Workflow` kind and the jobs and steps it shares (API reference, section 6).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::extension::{Matrix, Strategy};
use super::{Condition, RetryPolicy, is_default};
use crate::duration::Duration;

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
    /// Rules for the whole execution. Extension; refused unless the controller allows its members.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy: Option<Box<Strategy>>,
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

/// Type of an input value, whose bound value is text whatever the type.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum InputType {
    /// Text.
    #[default]
    String,
    /// A type that an embedder of the engine defines; the API accepts none.
    Named(String),
}

impl InputType {
    /// Returns the word a definition uses.
    pub fn as_str(&self) -> &str {
        match self {
            Self::String => "string",
            Self::Named(name) => name,
        }
    }
}

impl From<String> for InputType {
    fn from(name: String) -> Self {
        match name.as_str() {
            "string" => Self::String,
            _ => Self::Named(name),
        }
    }
}

impl From<InputType> for String {
    fn from(input_type: InputType) -> Self {
        input_type.as_str().to_owned()
    }
}

#[cfg(feature = "crd")]
impl schemars::JsonSchema for InputType {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "InputType".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "enum": ["string"] })
    }
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
    /// Condition to start. Extension `conditions`.
    #[serde(default, rename = "if", skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
    /// Counts as a success for other jobs when it fails. Extension `continue-on-error`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub continue_on_error: bool,
    /// Longest time from its start to its end. Extension `timeouts`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
    /// Makes one job per combination of values. Extension `matrix`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matrix: Option<Box<Matrix>>,
    /// Decision to wait for before it starts. Extension `gates`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate: Option<String>,
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
    /// Condition to start. Extension `conditions`.
    #[serde(default, rename = "if", skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
    /// Counts as a success for the job when it fails. Extension `continue-on-error`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub continue_on_error: bool,
    /// Timeout of its child Run. Extension `timeouts`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
    /// Retry policy of its child Run. Extension `step-retry`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Box<RetryPolicy>>,
    /// Decision to wait for before it starts. Extension `gates`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate: Option<String>,
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
