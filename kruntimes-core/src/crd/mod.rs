//! The custom resources of `kruntimes.io/v1alpha1` and their definitions (feature `crd`).
//!
//! Types and field descriptions come from [`crate::api`]. The modules below add
//! the bounds, defaults and CEL rules of the API reference to the derived
//! schemas, one function per type, so the data types stay readable without them.

pub(crate) mod artifact;
pub(crate) mod extension;
mod rule;
pub(crate) mod run;
pub(crate) mod runtime;
pub(crate) mod scalar;
mod schema;
pub(crate) mod workflow;
pub(crate) mod workflow_run;
pub(crate) mod workspace;

use std::collections::BTreeMap;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube::CustomResourceExt as _;

pub use crate::api::{Action, PersistentWorkspace, Run, Runtime, Workflow, WorkflowRun};

/// The kinds in the order of [`all`].
pub const KINDS: [&str; 6] = [
    "Run",
    "Runtime",
    "Workflow",
    "WorkflowRun",
    "Action",
    "PersistentWorkspace",
];

/// Returns every definition, in a fixed order.
///
/// These, not the `crd` functions of the types, are what gets installed: no
/// field accepts `null`, and the root is described once.
pub fn all() -> Vec<CustomResourceDefinition> {
    [
        Run::crd(),
        Runtime::crd(),
        Workflow::crd(),
        WorkflowRun::crd(),
        Action::crd(),
        PersistentWorkspace::crd(),
    ]
    .into_iter()
    .map(finished)
    .collect()
}

/// Names the list kind, and takes away the `null` that the derive allows in places.
fn finished(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    crd.spec.names.list_kind = Some(format!("{}List", crd.spec.names.kind));
    for version in &mut crd.spec.versions {
        let schema = version.schema.as_mut();
        if let Some(schema) = schema.and_then(|schema| schema.open_api_v3_schema.as_mut()) {
            without_null(schema);
        }
    }
    crd
}

fn without_null(schema: &mut JSONSchemaProps) {
    schema.nullable = None;
    for property in schema.properties.iter_mut().flat_map(BTreeMap::values_mut) {
        without_null(property);
    }
    if let Some(JSONSchemaPropsOrBool::Schema(inner)) = &mut schema.additional_properties {
        without_null(inner);
    }
    if let Some(JSONSchemaPropsOrArray::Schema(inner)) = &mut schema.items {
        without_null(inner);
    }
}
