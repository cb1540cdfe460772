//! One store, two APIs: core `v1` and `events.k8s.io/v1` Events are the same objects under different field names.

use serde_json::{Map, Value};

/// Field names: core `v1` on the left, `events.k8s.io/v1` on the right.
const FIELDS: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
];

/// Rewrites an `events.k8s.io/v1` Event as a core `v1` Event.
pub(crate) fn to_core(value: Value) -> Value {
    rename(value, "v1", |name| {
        FIELDS.iter().find(|pair| pair.1 == name).map(|pair| pair.0)
    })
}

/// Rewrites a core `v1` Event as an `events.k8s.io/v1` Event.
pub(crate) fn from_core(value: Value) -> Value {
    rename(value, "events.k8s.io/v1", |name| {
        FIELDS.iter().find(|pair| pair.0 == name).map(|pair| pair.1)
    })
}

/// Translates the first part of a field selector path from core `v1` to the stored form.
pub(crate) fn stored_path(path: &str) -> String {
    let (head, tail) = match path.split_once('.') {
        Some((head, tail)) => (head, Some(tail)),
        None => (path, None),
    };
    let head = FIELDS
        .iter()
        .find(|pair| pair.0 == head)
        .map_or(head, |pair| pair.1);
    match tail {
        Some(tail) => format!("{head}.{tail}"),
        None => head.to_owned(),
    }
}

fn rename(value: Value, api_version: &str, map: impl Fn(&str) -> Option<&'static str>) -> Value {
    let Value::Object(fields) = value else {
        return value;
    };
    let mut renamed: Map<String, Value> = fields
        .into_iter()
        .map(|(name, field)| match map(&name) {
            Some(other) => (other.to_owned(), field),
            None => (name, field),
        })
        .collect();
    renamed.insert("apiVersion".to_owned(), Value::from(api_version));
    Value::Object(renamed)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn there_and_back_is_the_same_event() {
        let core = json!({
            "apiVersion": "v1", "kind": "Event", "metadata": { "name": "e" },
            "involvedObject": { "kind": "Pod", "name": "p" }, "message": "hello",
            "reason": "Started", "count": 3, "source": { "component": "c" },
        });
        let stored = from_core(core.clone());
        assert_eq!(stored["regarding"]["name"], "p");
        assert_eq!(stored["note"], "hello");
        assert_eq!(stored["deprecatedCount"], 3);
        assert_eq!(to_core(stored), core);
    }

    #[test]
    fn selector_paths_follow_the_fields() {
        assert_eq!(stored_path("involvedObject.name"), "regarding.name");
        assert_eq!(stored_path("reason"), "reason");
    }
}
