//! Fields that only an engine with the extension of their name accepts (API reference, additive fields).
//!
//! An engine without it refuses the field by name; it never ignores one.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{ArtifactRef, is_default};
use crate::duration::Duration;

/// Rules for a whole execution.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "crd",
    derive(schemars::JsonSchema),
    schemars(transform = crate::crd::extension::strategy)
)]
#[serde(rename_all = "camelCase")]
pub struct Strategy {
    /// Longest time from acceptance to the end. Extension `timeouts`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
    /// Jobs that may run at once. Extension `max-parallel`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_parallel: Option<u32>,
    /// Ends the other jobs when the first one fails. Extension `fail-fast`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub fail_fast: bool,
    /// Excludes other WorkflowRuns of the namespace. Extension `concurrency`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<Concurrency>,
}

/// A group of WorkflowRuns of which one runs at a time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "crd",
    derive(schemars::JsonSchema),
    schemars(transform = crate::crd::extension::concurrency)
)]
#[serde(rename_all = "camelCase")]
pub struct Concurrency {
    /// Name of the group.
    pub group: String,
    /// What becomes of older members.
    #[serde(default)]
    pub policy: ConcurrencyPolicy,
}

/// What a WorkflowRun does to the older ones of its group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
pub enum ConcurrencyPolicy {
    /// It waits for all of them.
    #[default]
    Queue,
    /// It waits for the one that runs; those that wait are cancelled.
    CancelPending,
    /// All of them are cancelled.
    CancelRunning,
}

/// Combinations of values for which a job is repeated.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "crd",
    derive(schemars::JsonSchema),
    schemars(transform = crate::crd::extension::matrix)
)]
#[serde(rename_all = "camelCase")]
pub struct Matrix {
    /// Values by axis; every combination is a leg.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub axes: BTreeMap<String, Vec<String>>,
    /// Combinations to leave out: a leg goes when it has all values of an entry.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<BTreeMap<String, String>>,
    /// Values to add to the legs they fit; an entry that fits none is a leg of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub include: Vec<BTreeMap<String, String>>,
}

/// An external decision about a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
pub enum Decision {
    /// What waits may start.
    Approved,
    /// What waits fails.
    Denied,
}

/// What a job of an earlier execution left.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "crd",
    derive(schemars::JsonSchema),
    schemars(transform = crate::crd::extension::reused)
)]
#[serde(rename_all = "camelCase")]
pub struct Reused {
    /// Outputs of the job; absent when only the steps below are reused.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub outputs: BTreeMap<String, String>,
    /// Artifacts of the job.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub artifacts: BTreeMap<String, ArtifactRef>,
    /// The first steps of the job, in order, where the job itself is repeated from a later one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<ReusedStep>,
}

/// What a step of an earlier execution left.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "crd",
    derive(schemars::JsonSchema),
    schemars(transform = crate::crd::extension::reused_step)
)]
#[serde(rename_all = "camelCase")]
pub struct ReusedStep {
    /// Name of the step.
    pub name: String,
    /// Outputs of the step.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub outputs: BTreeMap<String, String>,
}
