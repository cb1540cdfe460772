//! The `Runtime` kind: a pool of warm Pods (API reference, section 4).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{ArtifactStore, Condition};
use crate::quantity::Quantity;

/// A pool of warm Pods that share one template.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "crd",
    derive(kube::CustomResource, schemars::JsonSchema),
    kube(
        group = "kruntimes.io",
        version = "v1alpha1",
        kind = "Runtime",
        plural = "runtimes",
        singular = "runtime",
        shortname = "rt",
        namespaced,
        status = "RuntimeStatus",
        derive = "PartialEq",
        doc = "A pool of warm Pods that share one Pod template.",
        printcolumn(name = "Image", type_ = "string", json_path = ".spec.template.spec.containers[0].image"),
        printcolumn(name = "Replicas", type_ = "integer", json_path = ".spec.replicas"),
        printcolumn(name = "Ready", type_ = "integer", json_path = ".status.readyReplicas"),
        printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
    ),
    schemars(transform = crate::crd::runtime::spec)
)]
#[serde(rename_all = "camelCase")]
pub struct RuntimeSpec {
    /// The Runtime Pod; its first container is named `runtime`.
    pub template: PodTemplate,
    /// gRPC port of the Runtime Server; 9091 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<i32>,
    /// Pods wanted; 1 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Overrides the image of the sidecar.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub daemon_image: Option<String>,
    /// Logical capacity of each Pod; absent means `runs: 2`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<RuntimeCapacity>,
    /// Durable artifact storage; absent means no artifacts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact_store: Option<ArtifactStore>,
    /// Volume source mounted at `/workspace`; `emptyDir` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<VolumeSource>,
}

/// A Pod template. Its `spec` is kept as written; the Runtime controller reads it as a Pod spec.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "crd",
    derive(schemars::JsonSchema),
    schemars(transform = crate::crd::runtime::template)
)]
#[serde(rename_all = "camelCase")]
pub struct PodTemplate {
    /// Labels and annotations of the Pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<PodTemplateMetadata>,
    /// The Pod spec in the shape of the core API.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec: Option<serde_json::Map<String, serde_json::Value>>,
}

/// Labels and annotations of a Pod template.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct PodTemplateMetadata {
    /// Labels of the Pods; selector labels win on conflict.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations of the Pods; capacity annotations win on conflict.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// An inlined volume source of the core API: at most one member.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct VolumeSource(pub serde_json::Map<String, serde_json::Value>);

/// Logical capacity of each Pod of a Runtime.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct RuntimeCapacity {
    /// Quantities by resource name; entries that are not positive are not advertised.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub resources: BTreeMap<String, Quantity>,
}

/// What was last observed of the pool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "crd",
    derive(schemars::JsonSchema),
    schemars(transform = crate::crd::runtime::status)
)]
#[serde(rename_all = "camelCase")]
pub struct RuntimeStatus {
    /// Ready replicas last reported by the Deployment. Zero is written explicitly.
    #[serde(default)]
    pub ready_replicas: i32,
    /// Conditions by type.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}
