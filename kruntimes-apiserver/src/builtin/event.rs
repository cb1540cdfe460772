//! Events: where they belong, and what those of the newer API must say.

use serde_json::Value;

use super::text;
use crate::{invalid, schema::FieldError};

/// Judges the stored form, that of `events.k8s.io/v1`; without `eventTime` it came through core `v1`.
pub(super) fn check(object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let about = text(&object["regarding"], "namespace");
    let home = text(&object["metadata"], "namespace");
    let fits = if about.is_empty() {
        home == "default" || old.is_some() || object["regarding"]["kind"].is_null()
    } else {
        about == home
    };
    if !fits {
        errors.push(invalid::invalid(
            "involvedObject.namespace",
            &Value::from(about),
            "does not match event.namespace",
        ));
    }
    if old.is_some() || object["eventTime"].is_null() {
        return errors;
    }
    for field in [
        "reportingController",
        "reportingInstance",
        "action",
        "reason",
    ] {
        if text(object, field).is_empty() {
            errors.push(invalid::required(field, ""));
        }
    }
    if !matches!(text(object, "type"), "Normal" | "Warning") {
        let detail = format!("has invalid value: {}", text(object, "type"));
        errors.push(invalid::invalid("type", &object["type"], &detail));
    }
    errors
}
