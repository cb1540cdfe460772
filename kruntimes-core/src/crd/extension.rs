//! Bounds of the fields of extensions (API reference, additive fields).

use schemars::Schema;
use serde_json::{Value, json};

use super::rule::positive_duration;
use super::schema::{at_least, filled, label63, list, map, object, text};

pub(crate) fn strategy(schema: &mut Schema) {
    object(schema)
        .field("maxParallel", &at_least(1))
        .field("maxParallel", &json!({ "format": "int32" }))
        .field_rule("timeout", positive_duration("timeout"));
}

pub(crate) fn concurrency(schema: &mut Schema) {
    object(schema)
        .field("group", &filled(253))
        .field("policy", &json!({ "default": "Queue" }));
}

pub(crate) fn matrix(schema: &mut Schema) {
    let keyed = |value: Value| json!({ "maxProperties": 16, "additionalProperties": value });
    let entry = keyed(text(1024));
    object(schema)
        .field("axes", &keyed(list(64, &text(1024))))
        .field("exclude", &list(64, &entry))
        .field("include", &list(64, &entry));
}

pub(crate) fn reused(schema: &mut Schema) {
    object(schema)
        .field("outputs", &map(64))
        .field("artifacts", &map(32))
        .field("steps", &list(128, &json!({})));
}

pub(crate) fn reused_step(schema: &mut Schema) {
    object(schema)
        .field("name", &label63())
        .field("outputs", &map(64));
}
