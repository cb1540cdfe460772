//! Validation of a whole object: structure and values first, then lists, then CEL rules.

use serde_json::Value;

use super::cel::Engine;
use super::field_error::{FieldError, Path};
use super::lists;
use super::structural::{JsonType, Node};

/// Said once, without a field, when rules could not be evaluated.
const RULES_SKIPPED: &str = "some validation rules were not checked because the object was invalid; \
                             correct the existing errors to complete validation";

pub(super) fn validate(
    root: &Node,
    engine: &Engine,
    object: &Value,
    old: Option<&Value>,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    check_value(root, object, &Path::ROOT, &mut errors);
    lists::check(root, object, &Path::ROOT, &mut errors);
    if !root.has_rules {
        return errors;
    }
    if errors.iter().any(|error| error.kind.blocks_rules()) {
        errors.push(FieldError::invalid(
            &Path::ROOT,
            &Value::Null,
            RULES_SKIPPED,
        ));
    } else {
        engine.check(root, object, old, &mut errors);
    }
    errors
}

/// Appends what is wrong with the structure and the values of `value`, members included.
pub(super) fn check_value(
    node: &Node,
    value: &Value,
    path: &Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    if value.is_null() {
        if node.nullable {
            node.checks.check_enumeration(value, path, errors);
            return;
        }
        if node.json_type.is_none() && !node.int_or_string {
            return;
        }
    }
    if let Some(expected) = wrong_type(node, value) {
        let found = Value::from(type_name(value));
        let detail = format!("{path} in body must be of type {expected}: {found}");
        errors.push(FieldError::type_invalid(path, &found, &detail));
        return;
    }
    node.checks.check(value, path, errors);
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                if let Some(child) = node.member(name) {
                    check_value(child, member, &path.field(name), errors);
                }
            }
        }
        Value::Array(elements) => {
            let Some(items) = &node.items else { return };
            for (index, element) in elements.iter().enumerate() {
                check_value(items, element, &path.index(index), errors);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Names the type that `value` ought to have, if it has another one.
fn wrong_type(node: &Node, value: &Value) -> Option<&'static str> {
    if node.int_or_string {
        let fits = value.is_string() || is_integer(value);
        return (!fits).then_some("integer,string");
    }
    let expected = node.json_type?;
    let fits = match expected {
        JsonType::Object => value.is_object(),
        JsonType::Array => value.is_array(),
        JsonType::String => value.is_string(),
        JsonType::Integer => is_integer(value),
        JsonType::Number => value.is_number(),
        JsonType::Boolean => value.is_boolean(),
    };
    (!fits).then_some(expected.name())
}

/// A number without a fraction counts as an integer however it is written.
fn is_integer(value: &Value) -> bool {
    value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|number| number.fract() == 0.0)
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) if is_integer(value) => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
