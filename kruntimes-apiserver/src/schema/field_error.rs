//! Errors about one field, with the wording that Kubernetes gives them.

use std::fmt::{self, Write as _};

use serde_json::Value;

/// Says what is wrong with one field of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// Path of the field, such as `spec.jobs[build].steps[0].name`; empty for the object itself.
    pub field: String,
    /// Class of the error, which decides the machine-readable cause.
    pub kind: FieldErrorKind,
    /// Text without the field, such as `Required value`.
    pub message: String,
}

/// Classifies field errors the way Kubernetes does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FieldErrorKind {
    /// A field that must be present is absent.
    Required,
    /// The value breaks a rule.
    Invalid,
    /// The value has the wrong JSON type or format.
    TypeInvalid,
    /// The value is not in the enumeration.
    NotSupported,
    /// A key of a list or set occurs twice.
    Duplicate,
    /// The value may not be given here.
    Forbidden,
    /// The value names something that does not exist.
    NotFound,
    /// A string is longer than allowed.
    TooLong,
    /// A list or map has more members than allowed.
    TooMany,
}

impl FieldErrorKind {
    /// Names the error class as `status.details.causes[].reason` does.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Required => "FieldValueRequired",
            Self::Invalid => "FieldValueInvalid",
            Self::TypeInvalid => "FieldValueTypeInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Forbidden => "FieldValueForbidden",
            Self::NotFound => "FieldValueNotFound",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
        }
    }

    /// Tells whether CEL rules cannot be evaluated on an object that has such an error.
    pub(super) fn blocks_rules(self) -> bool {
        match self {
            Self::Required
            | Self::TypeInvalid
            | Self::NotSupported
            | Self::TooLong
            | Self::TooMany => true,
            Self::Invalid | Self::Duplicate | Self::Forbidden | Self::NotFound => false,
        }
    }
}

impl fmt::Display for FieldError {
    /// Writes `field: message`, with `<nil>` for an error about no field in particular.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let field = if self.field.is_empty() {
            "<nil>"
        } else {
            &self.field
        };
        write!(f, "{field}: {}", self.message)
    }
}

impl FieldError {
    fn new(path: &Path<'_>, kind: FieldErrorKind, message: String) -> Self {
        Self {
            field: path.to_string(),
            kind,
            message,
        }
    }

    pub(super) fn required(path: &Path<'_>, detail: &str) -> Self {
        Self::new(
            path,
            FieldErrorKind::Required,
            with_detail("Required value".to_owned(), detail),
        )
    }

    pub(super) fn forbidden(path: &Path<'_>, detail: &str) -> Self {
        Self::new(
            path,
            FieldErrorKind::Forbidden,
            with_detail("Forbidden".to_owned(), detail),
        )
    }

    pub(super) fn invalid(path: &Path<'_>, value: &Value, detail: &str) -> Self {
        let head = format!("Invalid value: {}", shown(value));
        Self::new(path, FieldErrorKind::Invalid, with_detail(head, detail))
    }

    pub(super) fn type_invalid(path: &Path<'_>, value: &Value, detail: &str) -> Self {
        Self {
            kind: FieldErrorKind::TypeInvalid,
            ..Self::invalid(path, value, detail)
        }
    }

    pub(super) fn duplicate(path: &Path<'_>, value: &Value) -> Self {
        Self::new(
            path,
            FieldErrorKind::Duplicate,
            format!("Duplicate value: {}", shown(value)),
        )
    }

    pub(super) fn not_supported(path: &Path<'_>, value: &Value, allowed: &[Value]) -> Self {
        let mut message = format!("Unsupported value: {}: supported values: ", shown(value));
        for (index, one) in allowed.iter().enumerate() {
            let text = one.as_str().map_or_else(|| one.to_string(), str::to_owned);
            let separator = if index == 0 { "" } else { ", " };
            let _ = write!(message, "{separator}{}", quoted(&text));
        }
        Self::new(path, FieldErrorKind::NotSupported, message)
    }

    pub(super) fn too_long(path: &Path<'_>, limit: u64) -> Self {
        let unit = if limit == 1 { "byte" } else { "bytes" };
        Self::new(
            path,
            FieldErrorKind::TooLong,
            format!("Too long: may not be more than {limit} {unit}"),
        )
    }

    pub(super) fn too_many(path: &Path<'_>, actual: usize, limit: u64) -> Self {
        let unit = if limit == 1 { "item" } else { "items" };
        let message = format!("Too many: {actual}: must have at most {limit} {unit}");
        Self::new(path, FieldErrorKind::TooMany, message)
    }
}

fn with_detail(mut head: String, detail: &str) -> String {
    if !detail.is_empty() {
        head.push_str(": ");
        head.push_str(detail);
    }
    head
}

/// Prints a value as Kubernetes prints the bad value of a field error.
fn shown(value: &Value) -> String {
    match value {
        Value::Null => "\"null\"".to_owned(),
        Value::String(text) => quoted(text),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    }
}

pub(super) fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// Names a place in an object; a link per step, so that walking allocates nothing until an error is found.
#[derive(Clone, Copy)]
pub(super) struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    step: Step<'a>,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Root,
    Field(&'a str),
    Key(&'a str),
    Index(usize),
}

impl<'a> Path<'a> {
    pub(super) const ROOT: Path<'static> = Path {
        parent: None,
        step: Step::Root,
    };

    /// Goes on to a declared field, or to a map key where Kubernetes prints keys like fields.
    pub(super) fn field(&'a self, name: &'a str) -> Path<'a> {
        Path {
            parent: Some(self),
            step: Step::Field(name),
        }
    }

    /// Goes on to a map key, printed in brackets.
    pub(super) fn key(&'a self, name: &'a str) -> Path<'a> {
        Path {
            parent: Some(self),
            step: Step::Key(name),
        }
    }

    pub(super) fn index(&'a self, index: usize) -> Path<'a> {
        Path {
            parent: Some(self),
            step: Step::Index(index),
        }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(parent) = self.parent else {
            return Ok(());
        };
        write!(f, "{parent}")?;
        let dot = if parent.parent.is_some() { "." } else { "" };
        match self.step {
            Step::Root => Ok(()),
            Step::Field(name) => write!(f, "{dot}{name}"),
            Step::Key(name) => write!(f, "[{name}]"),
            Step::Index(index) => write!(f, "[{index}]"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_path_prints_fields_keys_and_indexes() {
        let spec = Path::ROOT.field("spec");
        let jobs = spec.field("jobs");
        let build = jobs.key("build");
        let steps = build.field("steps");
        let first = steps.index(0);
        assert_eq!(
            first.field("name").to_string(),
            "spec.jobs[build].steps[0].name"
        );
        assert_eq!(Path::ROOT.to_string(), "");
    }

    #[test]
    fn messages_read_as_kubernetes_writes_them() {
        let spec = Path::ROOT.field("spec");
        for (error, want) in [
            (FieldError::required(&spec, ""), "spec: Required value"),
            (
                FieldError::required(&spec, "why"),
                "spec: Required value: why",
            ),
            (FieldError::forbidden(&spec, "no"), "spec: Forbidden: no"),
            (
                FieldError::invalid(&spec, &json!("a\"b"), "bad"),
                r#"spec: Invalid value: "a\"b": bad"#,
            ),
            (
                FieldError::invalid(&spec, &json!(3), "bad"),
                "spec: Invalid value: 3: bad",
            ),
            (
                FieldError::invalid(&Path::ROOT, &json!(null), "bad"),
                r#"<nil>: Invalid value: "null": bad"#,
            ),
            (
                FieldError::duplicate(&spec, &json!({"name": "a"})),
                r#"spec: Duplicate value: {"name":"a"}"#,
            ),
            (
                FieldError::not_supported(&spec, &json!("x"), &[json!("a"), json!(1)]),
                r#"spec: Unsupported value: "x": supported values: "a", "1""#,
            ),
            (
                FieldError::too_long(&spec, 63),
                "spec: Too long: may not be more than 63 bytes",
            ),
            (
                FieldError::too_many(&spec, 4, 1),
                "spec: Too many: 4: must have at most 1 item",
            ),
        ] {
            assert_eq!(error.to_string(), want);
        }
    }
}
