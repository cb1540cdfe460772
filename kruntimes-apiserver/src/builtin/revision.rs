//! ControllerRevisions: data that never changes, and a number.

use serde_json::Value;

use super::unchangeable;
use crate::{invalid, schema::FieldError};

pub(super) fn check(object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if let Some(revision) = object["revision"].as_i64().filter(|number| *number < 0) {
        let detail = "must be greater than or equal to 0";
        errors.push(invalid::invalid("revision", &Value::from(revision), detail));
    }
    match old {
        Some(old) if old["data"] != object["data"] => {
            errors.push(unchangeable("data", &object["data"]));
        }
        None if object["data"].is_null() => {
            errors.push(invalid::required("data", "data is mandatory"));
        }
        None if !object["data"].is_object() => {
            errors.push(invalid::required(
                "data",
                "data must be a valid JSON object",
            ));
        }
        Some(_) | None => {}
    }
    errors
}
