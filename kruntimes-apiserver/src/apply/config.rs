//! What an applier sends: reading it, and refusing what no object can be.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    fields::{field, print},
    topology::{Form, Topology},
};
use crate::{error::ApiError, manifest::Manifest};

/// Most complaints about one configuration that are told.
const COMPLAINTS_MAX: usize = 20;

/// Reads a configuration, which is YAML and mostly JSON.
pub(crate) fn parse(body: &[u8]) -> Result<Manifest, ApiError> {
    let refuse = |why: &str| {
        let first = why.lines().next().unwrap_or_default();
        ApiError::bad_request(format!("error decoding YAML: {first}"))
    };
    let config = match Manifest::read_json(body) {
        Ok(config) => config,
        Err(_) => Manifest::read_yaml(body).map_err(|error| refuse(&error))?,
    };
    if !config.value.is_object() {
        return Err(refuse("a configuration must be a map"));
    }
    Ok(config)
}

/// Returns what is wrong with a configuration as such, each complaint with its path.
pub(crate) fn complaints(topology: Topology<'_>, config: &Value) -> Vec<String> {
    let mut found = Vec::new();
    check(topology, config, &mut String::new(), &mut found);
    found
}

fn check(topology: Topology<'_>, value: &Value, path: &mut String, found: &mut Vec<String>) {
    let length = path.len();
    if let Some(expected) = topology.expected(value) {
        found.push(format!("{path}: expected {expected}, got {value}"));
        return;
    }
    match (topology.form(value), value) {
        _ if found.len() >= COMPLAINTS_MAX => {}
        (Form::Map, Value::Object(fields)) => {
            for (name, value) in fields {
                print(&field(name), path);
                if topology.declares(name) {
                    check(topology.member(name).0, value, path, found);
                } else {
                    found.push(format!("{path}: field not declared in schema"));
                }
                path.truncate(length);
            }
        }
        (Form::Set | Form::Keyed, Value::Array(items)) => {
            let mut seen = BTreeSet::new();
            for (index, item) in items.iter().enumerate() {
                match topology.element(item) {
                    Err(error) => found.push(format!("{path}: element {index}: {error}")),
                    Ok(element) => {
                        print(&element, path);
                        check(topology.item(), item, path, found);
                        let printed = path.split_off(length);
                        if !seen.insert(element) {
                            found.push(format!("{path}: duplicate entries for key {printed}"));
                        }
                    }
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::keys, *};

    #[test]
    fn yaml_and_json_are_read_alike() {
        let yaml = parse(b"apiVersion: v1\ndata:\n  a: '1'\n  b: &b [x, *b2]\n");
        assert!(yaml.is_err(), "an alias without its anchor");
        let yaml = parse(b"# a comment\napiVersion: v1\ndata:\n  a: '1'\n  n: 5\n")
            .unwrap()
            .value;
        let want = json!({ "apiVersion": "v1", "data": { "a": "1", "n": 5 } });
        assert_eq!(yaml, want);
        assert_eq!(parse(want.to_string().as_bytes()).unwrap().value, want);
    }

    #[test]
    fn what_is_no_map_is_refused() {
        for body in ["", "hello", "[]", "{\"a\":", "a: 1\n---\nb: 2\n"] {
            let error = parse(body.as_bytes()).unwrap_err();
            assert_eq!(error.code, 400, "{body}");
            assert!(error.message.starts_with("error decoding YAML: "));
        }
    }

    #[test]
    fn two_items_under_one_key_are_refused() {
        let service = Topology::Table(keys::root("Service"));
        let config = json!({
            "metadata": { "finalizers": ["a", "a", null] },
            "spec": { "ports": [{ "port": 80 }, { "port": 80, "protocol": "TCP" }, { "name": "x" }, 5] },
        });
        assert_eq!(
            complaints(service, &config),
            [
                ".metadata.finalizers: duplicate entries for key [=\"a\"]",
                ".metadata.finalizers: element 2: associative list without keys has an element that's an explicit null",
                ".spec.ports: duplicate entries for key [port=80,protocol=\"TCP\"]",
                ".spec.ports: element 3: associative list with keys may not have non-map elements",
            ]
        );
    }
}
