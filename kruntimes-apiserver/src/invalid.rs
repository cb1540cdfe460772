//! Complaints about single fields that do not come from a schema: metadata and the rules of built-in kinds.

use serde_json::Value;

use crate::schema::{FieldError, FieldErrorKind};

pub(crate) fn required(field: impl Into<String>, detail: &str) -> FieldError {
    build(field, FieldErrorKind::Required, "Required value", detail)
}

pub(crate) fn invalid(field: impl Into<String>, value: &Value, detail: &str) -> FieldError {
    let head = format!("Invalid value: {value}");
    build(field, FieldErrorKind::Invalid, &head, detail)
}

pub(crate) fn forbidden(field: impl Into<String>, detail: &str) -> FieldError {
    build(field, FieldErrorKind::Forbidden, "Forbidden", detail)
}

pub(crate) fn duplicate(field: impl Into<String>, value: &str) -> FieldError {
    duplicate_of(field, &Value::from(value))
}

pub(crate) fn duplicate_of(field: impl Into<String>, value: &Value) -> FieldError {
    let head = format!("Duplicate value: {value}");
    build(field, FieldErrorKind::Duplicate, &head, "")
}

pub(crate) fn not_supported(field: impl Into<String>, value: &str, allowed: &[&str]) -> FieldError {
    let allowed: Vec<String> = allowed
        .iter()
        .map(|one| Value::from(*one).to_string())
        .collect();
    let head = format!("Unsupported value: {}", Value::from(value));
    let detail = format!("supported values: {}", allowed.join(", "));
    build(field, FieldErrorKind::NotSupported, &head, &detail)
}

pub(crate) fn not_found(field: impl Into<String>, value: &str) -> FieldError {
    let head = format!("Not found: {}", Value::from(value));
    build(field, FieldErrorKind::NotFound, &head, "")
}

pub(crate) fn too_long(field: impl Into<String>, limit: usize) -> FieldError {
    let detail = format!("may not be more than {limit} bytes");
    build(field, FieldErrorKind::TooLong, "Too long", &detail)
}

fn build(field: impl Into<String>, kind: FieldErrorKind, head: &str, detail: &str) -> FieldError {
    let message = if detail.is_empty() {
        head.to_owned()
    } else {
        format!("{head}: {detail}")
    };
    FieldError {
        field: field.into(),
        kind,
        message,
    }
}
