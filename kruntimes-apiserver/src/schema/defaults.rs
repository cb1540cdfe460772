//! Fills in structural defaults, and checks them when a schema is compiled.

use serde_json::{Map, Value};

use super::cel::Engine;
use super::field_error::Path;
use super::structural::{Node, SchemaError};
use super::{prune, validate};

/// Applies the defaults below `node` to `value`.
///
/// A null that is not allowed takes the default of its field; without one it is dropped from an object, and left to
/// validation in a list.
pub(super) fn apply(node: &Node, value: &mut Value) {
    match value {
        Value::Object(members) => apply_to_members(node, members),
        Value::Array(elements) => {
            let Some(items) = node.items.as_deref() else {
                return;
            };
            for element in elements {
                replace_null(items, element);
                apply(items, element);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn apply_to_members(node: &Node, members: &mut Map<String, Value>) {
    members.retain(|name, value| {
        let schema = node.member(name);
        !(value.is_null()
            && schema.is_some_and(|schema| refuses_null(schema) && schema.default.is_none()))
    });
    for (name, child) in &node.properties {
        if let Some(default) = &child.default
            && !members.contains_key(name)
        {
            members.insert(name.clone(), default.clone());
        }
    }
    for (name, value) in members.iter_mut() {
        let Some(child) = node.member(name) else {
            continue;
        };
        replace_null(child, value);
        apply(child, value);
    }
}

fn replace_null(node: &Node, value: &mut Value) {
    if let Some(default) = node
        .default
        .as_ref()
        .filter(|_| value.is_null() && refuses_null(node))
    {
        *value = default.clone();
    }
}

/// Whether null is no value of this schema; a schema without any type says nothing about null.
fn refuses_null(node: &Node) -> bool {
    !node.nullable && (node.json_type.is_some() || node.int_or_string)
}

/// Refuses a schema whose own defaults it would prune or find invalid.
pub(super) fn check(root: &Node, engine: &Engine) -> Result<(), SchemaError> {
    check_below(root, engine, &Path::ROOT)
}

fn check_below(node: &Node, engine: &Engine, path: &Path<'_>) -> Result<(), SchemaError> {
    if let Some(default) = &node.default {
        check_one(node, default, engine, path)?;
    }
    for (name, child) in &node.properties {
        check_below(child, engine, &path.field(name))?;
    }
    if let Some(child) = &node.additional {
        check_below(child, engine, &path.key("*"))?;
    }
    if let Some(child) = &node.items {
        check_below(child, engine, &path.key("*"))?;
    }
    Ok(())
}

fn check_one(
    node: &Node,
    default: &Value,
    engine: &Engine,
    path: &Path<'_>,
) -> Result<(), SchemaError> {
    let refuse = |reason: String| SchemaError::Default {
        path: path.to_string(),
        reason,
    };
    let mut value = default.clone();
    if let Some(unknown) = prune::prune(node, &mut value).first() {
        return Err(refuse(format!("it holds the undeclared field {unknown}")));
    }
    apply(node, &mut value);
    match validate::validate(node, engine, &value, None).first() {
        Some(error) => Err(refuse(error.to_string())),
        None => Ok(()),
    }
}
