//! The schemas of custom kinds: those of their definitions, completed by what all objects have.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinitionVersion;
use serde_json::{Value, json};

use super::{META, described, gvk, type_fields};
use crate::kind::Served;

/// Returns the name of the schema of a kind: its group backwards, its version and its name.
pub(super) fn name(served: &Served) -> String {
    let mut parts: Vec<&str> = served.group.split('.').rev().collect();
    parts.extend([served.version.as_str(), served.kind.name.as_str()]);
    parts.join(".")
}

/// Returns the schema that a definition gives to one of its versions.
pub(super) fn schema(served: &Served, version: &CustomResourceDefinitionVersion) -> Value {
    let given = version.schema.as_ref();
    let given = given.and_then(|given| given.open_api_v3_schema.as_ref());
    let mut schema = match given {
        Some(given) => json!(given),
        None => json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true }),
    };
    if !schema["properties"].is_object() {
        schema["properties"] = json!({});
    }
    for (name, field) in type_fields() {
        schema["properties"][name] = field;
    }
    let metadata = format!("{META}.ObjectMeta");
    schema["properties"]["metadata"] = described(&metadata, "Name, labels and the like.");
    schema["x-kubernetes-group-version-kind"] = json!([gvk(served, &served.kind.name)]);
    schema
}
