//! Tables and laws for the whole of the schema module.

mod compile;
mod laws;
mod rules;
mod shape;
mod values;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

use super::{FieldError, KindSchema, SchemaError};

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).expect("the table holds JSON")
}

fn definition(schema: &Value) -> CustomResourceDefinition {
    let mut schema = schema.clone();
    if schema.get("type").is_none() {
        schema = json!({"type": "object", "properties": {"spec": schema}});
    }
    serde_json::from_value(json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com",
            "names": {"kind": "Thing", "plural": "things"},
            "scope": "Namespaced",
            "versions": [
                {"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}
            ]
        }
    }))
    .expect("the definition is well formed")
}

fn root(schema: &Value) -> Result<KindSchema, SchemaError> {
    KindSchema::compile(&definition(schema), "v1")
}

/// Compiles a schema of the one field `x` of the object.
fn of_x(schema: &Value) -> KindSchema {
    root(&json!({"type": "object", "properties": {"x": schema}})).expect("the schema compiles")
}

fn said(errors: &[FieldError]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

/// Returns what is said about `{"x": value}`.
fn about_x(schema: &Value, value: &Value) -> Vec<String> {
    said(&of_x(schema).validate(&json!({"x": value}), None))
}
