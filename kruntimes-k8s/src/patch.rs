//! Merge patches that carry the version they were computed from.

use serde::Serialize;
use serde_json::{Map, Value, json};

/// Computes the JSON merge patch (RFC 7396) that turns `old` into `new`, or nothing when they are equal.
///
/// Members that disappear become `null`; lists are replaced whole.
pub fn merge_diff(old: &Value, new: &Value) -> Option<Value> {
    if old == new {
        return None;
    }
    let (Value::Object(old), Value::Object(new)) = (old, new) else {
        return Some(new.clone());
    };
    let mut patch = Map::new();
    for key in old.keys() {
        if !new.contains_key(key) {
            patch.insert(key.clone(), Value::Null);
        }
    }
    for (key, value) in new {
        match old.get(key) {
            Some(before) => {
                if let Some(change) = merge_diff(before, value) {
                    patch.insert(key.clone(), change);
                }
            }
            None => {
                patch.insert(key.clone(), value.clone());
            }
        }
    }
    Some(Value::Object(patch))
}

/// Builds the patch of a status subresource from `old` to `new`, or nothing when they are equal.
///
/// The patch carries `resource_version`, so that a write computed from an old
/// version is refused with a conflict instead of undoing a newer one (N-13, S-83).
///
/// # Errors
///
/// Returns the error of a value that has no JSON form.
pub fn status_patch<S: Serialize>(
    resource_version: Option<&str>,
    old: &S,
    new: &S,
) -> Result<Option<Value>, serde_json::Error> {
    let (old, new) = (serde_json::to_value(old)?, serde_json::to_value(new)?);
    Ok(merge_diff(&old, &new).map(|status| {
        json!({
            "metadata": { "resourceVersion": resource_version },
            "status": status,
        })
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_differences_are_written_and_losses_become_null() {
        for (case, old, new, want) in [
            ("equal", json!({"a": 1}), json!({"a": 1}), None),
            (
                "changed",
                json!({"a": 1, "b": 2}),
                json!({"a": 1, "b": 3}),
                Some(json!({"b": 3})),
            ),
            (
                "lost",
                json!({"a": 1, "b": 2}),
                json!({"a": 1}),
                Some(json!({"b": null})),
            ),
            (
                "nested",
                json!({"m": {"x": 1}}),
                json!({"m": {"y": 2}}),
                Some(json!({"m": {"x": null, "y": 2}})),
            ),
            (
                "list",
                json!({"l": [1, 2]}),
                json!({"l": [1]}),
                Some(json!({"l": [1]})),
            ),
            (
                "absent before",
                json!(null),
                json!({"a": 1}),
                Some(json!({"a": 1})),
            ),
        ] {
            assert_eq!(merge_diff(&old, &new), want, "{case}");
        }
    }

    #[test]
    fn s_83_the_patch_carries_its_version() {
        let patch = status_patch(
            Some("7"),
            &json!({"phase": "Pending"}),
            &json!({"phase": "Scheduled"}),
        );
        assert_eq!(
            patch.unwrap(),
            Some(json!({"metadata": {"resourceVersion": "7"}, "status": {"phase": "Scheduled"}}))
        );
    }
}
