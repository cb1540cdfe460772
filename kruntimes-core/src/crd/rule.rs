//! Validation rules in CEL, and the comparisons they are built from.

use serde_json::{Value, json};

/// One rule: an expression that must hold, and what to say when it does not.
pub(super) struct Rule(Value);

impl Rule {
    /// Makes a rule. The message starts with the name of the field at fault.
    pub(super) fn new(expression: impl Into<String>, message: &str) -> Self {
        Self(json!({ "rule": expression.into(), "message": message }))
    }

    /// Makes a rule for a field that may not change.
    pub(super) fn immutable(path: &str, expression: impl Into<String>) -> Self {
        Self::new(expression, &format!("{path} is immutable"))
            .forbidden()
            .at(&format!(".{path}"))
    }

    /// Names the field at fault, as a path below the object that holds the rule.
    pub(super) fn at(mut self, path: &str) -> Self {
        self.0["fieldPath"] = json!(path);
        self
    }

    /// Says that something is present, or changes, that may not.
    pub(super) fn forbidden(mut self) -> Self {
        self.0["reason"] = json!("FieldValueForbidden");
        self
    }

    /// Says that something is missing.
    pub(super) fn required(mut self) -> Self {
        self.0["reason"] = json!("FieldValueRequired");
        self
    }

    pub(super) fn into_value(self) -> Value {
        self.0
    }
}

/// The optional field at `path` is unchanged, presence included.
pub(super) fn same(path: &str) -> String {
    same_if(path, &format!("self.{path} == oldSelf.{path}"))
}

/// The optional duration at `path` is unchanged: compared by value, so that a respelling is no change.
pub(super) fn same_duration(path: &str) -> String {
    same_if(
        path,
        &format!(
            "(self.{path} == oldSelf.{path} || duration(self.{path}) == duration(oldSelf.{path}))"
        ),
    )
}

/// The optional object at `path` is unchanged in presence, and `inner` holds where it is present.
pub(super) fn same_if(path: &str, inner: &str) -> String {
    format!("has(self.{path}) == has(oldSelf.{path}) && (!has(self.{path}) || ({inner}))")
}

/// `cancelRequested` never goes back.
pub(super) fn cancel_is_final() -> Rule {
    Rule::new(
        "!has(oldSelf.cancelRequested) || !oldSelf.cancelRequested || (has(self.cancelRequested) && self.cancelRequested)",
        "cancelRequested may not be withdrawn once true",
    )
    .forbidden()
    .at(".cancelRequested")
}

/// A duration above zero. The micro sign is rewritten because not every evaluator reads it.
pub(super) fn positive_duration(name: &str) -> Rule {
    Rule::new(
        "duration(self.replace('\u{b5}s', 'us').replace('\u{3bc}s', 'us')) > duration('0s')",
        &format!("{name} must be a positive duration"),
    )
}

/// Every segment of the path in `value` is a plain name, which also makes the path relative.
pub(super) fn plain_segments(value: &str) -> String {
    format!("{value}.split('/').all(s, s != '' && s != '.' && s != '..')")
}
