//! What has to be written to bring an object to its desired state, if anything (N-237).

use serde_json::{Map, Value};

use crate::patch::merge_diff;

/// Tells whether `existing` has everything `desired` asks for.
///
/// Members that only `existing` has were defaulted by the API server or set by
/// others and cause no write.
pub fn covers(existing: &Value, desired: &Value) -> bool {
    match (existing, desired) {
        (Value::Object(existing), Value::Object(desired)) => desired.iter().all(|(key, want)| {
            existing
                .get(key)
                .is_some_and(|present| covers(present, want))
        }),
        (Value::Array(existing), Value::Array(desired)) => {
            existing.len() == desired.len()
                && existing.iter().zip(desired).all(|(e, d)| covers(e, d))
        }
        (existing, desired) => existing == desired,
    }
}

/// Builds the merge patch that repairs `existing`, or nothing when there is nothing to repair.
///
/// Below the JSON pointers in `exact` whatever is not desired is removed: what others add there would change
/// the meaning.
pub fn repair(existing: &Value, desired: &Value, exact: &[&str]) -> Option<Value> {
    let mut patch = desired.clone();
    let mut drifted = !covers(existing, desired);
    for path in exact {
        let want = desired.pointer(path).unwrap_or(&Value::Null);
        let have = existing.pointer(path).unwrap_or(&Value::Null);
        let Some(difference) = merge_diff(have, want) else {
            continue;
        };
        drifted = true;
        if let Some(place) = patch.pointer_mut(path) {
            remove_strangers(place, &difference);
        }
    }
    drifted.then_some(patch)
}

/// Takes over what a difference removes.
fn remove_strangers(patch: &mut Value, difference: &Value) {
    let (Value::Object(patch), Value::Object(difference)) = (patch, difference) else {
        return;
    };
    for (key, change) in difference {
        match change {
            Value::Null => drop(patch.insert(key.clone(), Value::Null)),
            Value::Object(_) => {
                let below = patch
                    .entry(key.clone())
                    .or_insert_with(|| Value::Object(Map::new()));
                remove_strangers(below, change);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn n_237_what_others_added_is_no_difference() {
        let desired = json!({"a": {"b": 1}, "l": [{"name": "x"}]});
        assert!(covers(
            &json!({"a": {"b": 1, "c": 2}, "l": [{"name": "x", "d": 1}], "z": 0}),
            &desired
        ));
        assert!(!covers(
            &json!({"a": {"b": 2}, "l": [{"name": "x"}]}),
            &desired
        ));
        assert!(!covers(
            &json!({"a": {"b": 1}, "l": [{"name": "x"}, {"name": "y"}]}),
            &desired
        ));
    }

    #[test]
    fn n_237_where_only_the_desired_may_be_the_rest_is_removed() {
        let desired = json!({"spec": {"selector": {"app": "a"}, "type": "x"}});
        let exact = ["/spec/selector"];
        let same =
            json!({"spec": {"selector": {"app": "a"}, "type": "x", "more": 1}, "status": {}});
        assert_eq!(repair(&same, &desired, &exact), None);
        let narrowed = json!({"spec": {"selector": {"app": "a", "evil": "b"}, "type": "x"}});
        assert_eq!(
            repair(&narrowed, &desired, &exact),
            Some(json!({"spec": {"selector": {"app": "a", "evil": null}, "type": "x"}}))
        );
        let opened = json!({"spec": {"selector": {"app": "a"}, "type": "x", "ingress": [{}]}});
        assert_eq!(
            repair(&opened, &desired, &["/spec"]),
            Some(json!({"spec": {"selector": {"app": "a"}, "type": "x", "ingress": null}}))
        );
        let rules = json!({"rules": [{"verbs": ["get"]}]});
        let narrowed = json!({"rules": [{"verbs": ["get"], "resourceNames": ["x"]}]});
        assert_eq!(repair(&narrowed, &rules, &["/rules"]), Some(rules.clone()));
    }
}
