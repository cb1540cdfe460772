//! ConfigMaps and Secrets: the names of their entries, what types of Secrets need, and what cannot change.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use super::{set_default, text, unchangeable};
use crate::{invalid, schema::FieldError};

/// Bytes that the entries of one object may hold together.
const DATA_MAX_BYTES: usize = 1024 * 1024;
const KEY_MAX_BYTES: usize = 253;
const KEY: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  \
    or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";

/// Entries that Secrets of some types must have.
const NEEDED: [(&str, &[&str]); 5] = [
    ("kubernetes.io/tls", &["tls.crt", "tls.key"]),
    ("kubernetes.io/dockerconfigjson", &[".dockerconfigjson"]),
    ("kubernetes.io/dockercfg", &[".dockercfg"]),
    ("kubernetes.io/ssh-auth", &["ssh-privatekey"]),
    ("kubernetes.io/basic-auth", &[]),
];

pub(super) fn default_secret(object: &mut Value) {
    set_default(object, "type", "Opaque");
}

/// Moves the write-only `stringData` of a Secret into `data`.
pub(crate) fn merge_string_data(object: &mut Value) {
    let Some(fields) = object.as_object_mut() else {
        return;
    };
    let Some(Value::Object(plain)) = fields.remove("stringData") else {
        return;
    };
    set_default(object, "data", json!({}));
    for (name, text) in plain {
        if let Some(text) = text.as_str() {
            object["data"][name] = Value::from(STANDARD.encode(text));
        }
    }
}

pub(super) fn check_map(object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = check_keys(object, "data");
    errors.extend(check_keys(object, "binaryData"));
    for (name, _) in object["data"].as_object().into_iter().flatten() {
        if object["binaryData"].get(name).is_some() {
            errors.push(invalid::invalid(
                format!("data[{name}]"),
                &Value::from(name.as_str()),
                "duplicate of key present in binaryData",
            ));
        }
    }
    check_size(object, &mut errors);
    errors.extend(check_immutable(object, old));
    errors
}

pub(super) fn check_secret(object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = check_keys(object, "data");
    check_size(object, &mut errors);
    let needed = NEEDED.iter().find(|row| row.0 == text(object, "type"));
    for name in needed.into_iter().flat_map(|row| row.1) {
        if object["data"].get(*name).is_none() {
            errors.push(invalid::required(format!("data[{name}]"), ""));
        }
    }
    errors.extend(check_immutable(object, old));
    if old.is_some_and(|old| old["type"] != object["type"]) {
        errors.push(unchangeable("type", &object["type"]));
    }
    errors
}

fn check_keys(object: &Value, field: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (name, _) in object[field].as_object().into_iter().flatten() {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        let mut refuse = |detail: &str| {
            let value = Value::from(name.as_str());
            errors.push(invalid::invalid(format!("{field}[{name}]"), &value, detail));
        };
        if name.len() > KEY_MAX_BYTES {
            refuse("must be no more than 253 bytes");
        }
        if name.is_empty() || !name.bytes().all(plain) {
            refuse(KEY);
        } else if name == "." {
            refuse("must not be '.'");
        } else if name.starts_with("..") {
            refuse("must not start with '..'");
        }
    }
    errors
}

fn check_size(object: &Value, errors: &mut Vec<FieldError>) {
    let bytes = |field: &str, decoded: fn(usize) -> usize| -> usize {
        let entries = object[field].as_object().into_iter().flatten();
        entries
            .map(|(_, value)| decoded(value.as_str().map_or(0, str::len)))
            .sum()
    };
    let plain = object["kind"] == "ConfigMap";
    let total = if plain {
        bytes("data", |length| length) + bytes("binaryData", |length| length / 4 * 3)
    } else {
        bytes("data", |length| length / 4 * 3)
    };
    if total > DATA_MAX_BYTES {
        let field = if plain { "" } else { "data" };
        errors.push(invalid::too_long(field, DATA_MAX_BYTES));
    }
}

fn check_immutable(object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let Some(old) = old.filter(|old| old["immutable"] == Value::Bool(true)) else {
        return Vec::new();
    };
    ["immutable", "data", "binaryData"]
        .into_iter()
        .filter(|field| old[*field] != object[*field])
        .map(|field| invalid::forbidden(field, "field is immutable when `immutable` is set"))
        .collect()
}
