//! Uniqueness in lists that are sets or maps (`x-kubernetes-list-type`), and the pairing of their members.

use serde_json::{Map, Value};

use super::checks::equal;
use super::field_error::{FieldError, Path};
use super::structural::{ListType, Node};

/// Appends an error for each member that repeats an earlier one, here and below.
pub(super) fn check(node: &Node, value: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                if let Some(child) = node.properties.get(name) {
                    check(child, member, &path.field(name), errors);
                } else if let Some(child) = &node.additional {
                    check(child, member, &path.key(name), errors);
                }
            }
        }
        Value::Array(elements) => {
            check_members(node, elements, path, errors);
            let Some(items) = &node.items else { return };
            for (index, element) in elements.iter().enumerate() {
                check(items, element, &path.index(index), errors);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn check_members(node: &Node, elements: &[Value], path: &Path<'_>, errors: &mut Vec<FieldError>) {
    match &node.list {
        ListType::Atomic => {}
        ListType::Set => {
            for (index, element) in elements.iter().enumerate() {
                if elements[..index].iter().any(|seen| equal(seen, element)) {
                    errors.push(FieldError::duplicate(&path.index(index), element));
                }
            }
        }
        ListType::Map(keys) => {
            let found: Vec<_> = elements
                .iter()
                .map(|element| key_of(keys, element))
                .collect();
            for (index, key) in found.iter().enumerate() {
                if found[..index].contains(key) {
                    errors.push(FieldError::duplicate(
                        &path.index(index),
                        &Value::Object(key.clone()),
                    ));
                }
            }
        }
    }
}

/// Finds the member of an older list that is the same member, or none where members have no identity.
pub(super) fn counterpart<'v>(
    node: &Node,
    element: &Value,
    old: Option<&'v Value>,
) -> Option<&'v Value> {
    let ListType::Map(keys) = &node.list else {
        return None;
    };
    let key = key_of(keys, element);
    old?.as_array()?
        .iter()
        .find(|candidate| key_of(keys, candidate) == key)
}

fn key_of(keys: &[String], element: &Value) -> Map<String, Value> {
    let entry = |key: &String| element.get(key).map(|value| (key.clone(), value.clone()));
    keys.iter().filter_map(entry).collect()
}
