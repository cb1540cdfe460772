//! Leases: their numbers.

use serde_json::Value;

use super::check_least;
use crate::schema::FieldError;

pub(super) fn check(object: &Value, _: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let spec = &object["spec"];
    check_least(spec, "spec", "leaseDurationSeconds", 1, &mut errors);
    check_least(spec, "spec", "leaseTransitions", 0, &mut errors);
    errors
}
