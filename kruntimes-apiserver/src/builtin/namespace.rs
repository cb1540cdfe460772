//! Namespaces: the label with their name, the finalizer that waits for their content, their phase.

use serde_json::{Value, json};

use super::{elements, set_default};

/// Finalizer that holds a namespace until it is empty.
pub(crate) const CONTENT: &str = "kubernetes";

pub(super) fn prepare(object: &mut Value) {
    set_default(object, "spec", json!({}));
    let mut finalizers: Vec<Value> = elements(&object["spec"], "finalizers").cloned().collect();
    if !finalizers.contains(&Value::from(CONTENT)) {
        finalizers.push(Value::from(CONTENT));
    }
    object["spec"]["finalizers"] = Value::from(finalizers);
    object["status"] = json!({ "phase": "Active" });
}

pub(super) fn default(object: &mut Value) {
    let name = object["metadata"]["name"].clone();
    set_default(&mut object["metadata"], "labels", json!({}));
    object["metadata"]["labels"]["kubernetes.io/metadata.name"] = name;
}
