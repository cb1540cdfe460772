//! Objects passed through the types of built-in kinds: wrong types are refused, unknown fields found and dropped.

use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use crate::strict::{Findings, Place, bounded};

/// Bytes of a decoder's complaint that are passed on.
const COMPLAINT_MAX_BYTES: usize = 256;

/// Reads a value as some type and writes it back, with what the type knows and nothing else.
pub(crate) type Through = fn(&Value) -> Result<Value, serde_json::Error>;

/// Passes a value through `K`.
pub(crate) fn through<K: DeserializeOwned + Serialize>(
    value: &Value,
) -> Result<Value, serde_json::Error> {
    serde_json::to_value(K::deserialize(value)?)
}

/// Returns what the type keeps of `sent`, noting the fields that it does not know.
///
/// # Errors
///
/// Fails with the path of a value that has the wrong type, and what is wrong with it.
pub(crate) fn decode(
    through: Through,
    sent: &Value,
    place: &Place<'_>,
    findings: &mut Findings,
) -> Result<Value, String> {
    match through(sent) {
        Ok(kept) => {
            find_unknown(sent, &kept, place, findings);
            Ok(kept)
        }
        Err(error) => Err(locate(through, sent, place).unwrap_or_else(|| complaint(place, &error))),
    }
}

/// Notes what was sent and not kept. A null says nothing: known fields that are null are not kept either.
fn find_unknown(sent: &Value, kept: &Value, place: &Place<'_>, findings: &mut Findings) {
    match (sent, kept) {
        (Value::Object(sent), Value::Object(kept)) => {
            for (name, value) in sent.iter().filter(|(_, value)| !value.is_null()) {
                let place = Place::Field(place, name);
                match kept.get(name) {
                    Some(kept) => find_unknown(value, kept, &place, findings),
                    None => findings.unknown(&place),
                }
            }
        }
        (Value::Array(sent), Value::Array(kept)) => {
            for (index, (sent, kept)) in sent.iter().zip(kept).enumerate() {
                find_unknown(sent, kept, &Place::Index(place, index), findings);
            }
        }
        _ => {}
    }
}

/// One step from a value to a part of it.
enum Step<'a> {
    Field(&'a str),
    Index(usize),
}

/// Finds the innermost value that the type refuses, by offering it one part at a time: every field may be absent.
fn locate(through: Through, sent: &Value, place: &Place<'_>) -> Option<String> {
    let mut steps = Vec::new();
    let mut at = sent;
    let mut found = None;
    loop {
        let offer = |step: Step<'_>, part: &Value| through(&alone(&steps, &step, part)).err();
        let culprit = match at {
            Value::Object(fields) => fields.iter().find_map(|(name, part)| {
                offer(Step::Field(name), part).map(|error| (Step::Field(name), part, error))
            }),
            Value::Array(elements) => elements.iter().enumerate().find_map(|(index, part)| {
                offer(Step::Index(index), part).map(|error| (Step::Index(index), part, error))
            }),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
        };
        let Some((step, part, error)) = culprit else {
            let path = found.map(|error| named(&steps, place, &error));
            return path;
        };
        steps.push(step);
        at = part;
        found = Some(error);
    }
}

/// Builds the smallest value that has `part` at the end of the steps.
fn alone(steps: &[Step<'_>], last: &Step<'_>, part: &Value) -> Value {
    let wrap = |inner: Value, step: &Step<'_>| match step {
        Step::Field(name) => Value::Object(Map::from_iter([((*name).to_owned(), inner)])),
        Step::Index(_) => Value::Array(vec![inner]),
    };
    let inner = wrap(part.clone(), last);
    steps.iter().rev().fold(inner, wrap)
}

fn named(steps: &[Step<'_>], place: &Place<'_>, error: &serde_json::Error) -> String {
    match steps {
        [] => complaint(place, error),
        [Step::Field(name), rest @ ..] => named(rest, &Place::Field(place, name), error),
        [Step::Index(index), rest @ ..] => named(rest, &Place::Index(place, *index), error),
    }
}

fn complaint(place: &Place<'_>, error: &serde_json::Error) -> String {
    let error = bounded(error.to_string(), COMPLAINT_MAX_BYTES);
    match place {
        Place::Root => error,
        Place::Field(..) | Place::Index(..) => format!("{place}: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
    use serde_json::json;

    use super::*;

    fn read(through: Through, sent: &Value) -> Result<(Value, Vec<String>), String> {
        let mut findings = Findings::default();
        let kept = decode(through, sent, &Place::Root, &mut findings)?;
        Ok((kept, findings.into_texts()))
    }

    #[test]
    fn unknown_fields_are_named_by_path_and_dropped() {
        let sent = json!({
            "metadata": { "name": "p", "colour": 1 },
            "spec": { "containers": [{ "name": "c", "imagePullPolicy": null, "shape": {} }] },
            "zeta": true,
        });
        let (kept, unknown) = read(through::<Pod>, &sent).unwrap();
        assert_eq!(
            unknown,
            [
                "unknown field \"metadata.colour\"",
                "unknown field \"spec.containers[0].shape\"",
                "unknown field \"zeta\""
            ]
        );
        assert_eq!(kept["spec"], json!({ "containers": [{ "name": "c" }] }));
    }

    #[test]
    fn the_value_with_the_wrong_type_is_named() {
        for (sent, want) in [
            (
                json!({ "spec": { "containers": [{ "name": "c" }, { "name": 3 }] } }),
                "spec.containers[1].name: invalid type: integer `3`",
            ),
            (
                json!({ "spec": { "containers": "x" } }),
                "spec.containers: invalid type: string \"x\"",
            ),
            (json!({ "spec": [] }), "spec: invalid type: sequence"),
            (
                json!({ "metadata": { "labels": { "a": 1 } } }),
                "metadata.labels.a: invalid type: integer `1`",
            ),
        ] {
            let told = read(through::<Pod>, &sent).unwrap_err();
            assert!(told.starts_with(want), "{told}");
        }
        let told = read(through::<Secret>, &json!({ "data": { "k": "#" } })).unwrap_err();
        assert!(told.starts_with("data.k: "), "{told}");
    }

    #[test]
    fn numbers_become_quantities_and_long_complaints_are_cut() {
        let sent = json!({ "spec": { "containers": [{ "name": "c",
            "resources": { "limits": { "cpu": 1, "memory": "1Gi" } } }] } });
        let (kept, unknown) = read(through::<Pod>, &sent).unwrap();
        assert_eq!(
            kept["spec"]["containers"][0]["resources"]["limits"],
            json!({ "cpu": "1", "memory": "1Gi" })
        );
        assert!(unknown.is_empty());
        let long =
            json!({ "data": { "a": ["x".repeat(10_000)] }, "immutable": "y".repeat(10_000) });
        assert!(read(through::<ConfigMap>, &long).unwrap_err().len() < 400);
    }
}
