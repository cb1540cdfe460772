//! Drops fields that a schema does not declare.

use serde_json::{Map, Value};

use super::field_error::Path;
use super::structural::Node;

/// Fields that belong to every resource, whatever its schema says.
const RESOURCE_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

pub(super) fn prune(root: &Node, object: &mut Value) -> Vec<String> {
    let mut dropped = Vec::new();
    prune_value(root, object, &Path::ROOT, &mut dropped);
    dropped
}

fn prune_value(node: &Node, value: &mut Value, path: &Path<'_>, dropped: &mut Vec<String>) {
    match value {
        Value::Object(members) => prune_members(node, members, path, dropped),
        Value::Array(elements) => {
            // A list that nothing describes stays only where unknown fields do.
            let Some(items) = &node.items else { return };
            for (index, element) in elements.iter_mut().enumerate() {
                prune_value(items, element, &path.index(index), dropped);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn prune_members(
    node: &Node,
    members: &mut Map<String, Value>,
    path: &Path<'_>,
    dropped: &mut Vec<String>,
) {
    let mut unknown = Vec::new();
    for (name, value) in members.iter_mut() {
        if node.embedded && RESOURCE_FIELDS.contains(&name.as_str()) {
            continue;
        }
        match node.member(name) {
            Some(child) => prune_value(child, value, &path.field(name), dropped),
            None if node.preserve_unknown => {}
            None => {
                dropped.push(path.field(name).to_string());
                unknown.push(name.clone());
            }
        }
    }
    for name in unknown {
        members.remove(&name);
    }
}
