//! The rules of `metadata`: names, labels, annotations, owners, finalizers.

use serde_json::{Map, Value};

use crate::{
    invalid,
    kind::Kind,
    object::{finalizers, is_ending},
    schema::FieldError,
};

/// Bytes that the annotations of one object may hold together.
const ANNOTATIONS_MAX_BYTES: usize = 256 * 1024;
const NAME_MAX_BYTES: usize = 253;
const LABEL_MAX_BYTES: usize = 63;

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
    and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const DNS_LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', \
    and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation \
    is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const QUALIFIED: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end \
    with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
    '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or \
    '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex \
    used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

/// Judges the metadata of an object that is about to be stored.
pub(crate) fn check(kind: &Kind, object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let empty = Map::new();
    let metadata = object["metadata"].as_object().unwrap_or(&empty);
    check_name(kind, metadata, &mut errors);
    check_labels(metadata, &mut errors);
    check_annotations(metadata, &mut errors);
    check_finalizers(metadata, &mut errors);
    check_owners(metadata, &mut errors);
    errors
}

/// Judges a change of metadata: what has been set once stays, and a dying object gains no finalizer.
pub(crate) fn check_change(object: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for field in [
        "name",
        "namespace",
        "uid",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ] {
        if object["metadata"][field] != old["metadata"][field] {
            let value = &object["metadata"][field];
            errors.push(invalid::invalid(
                format!("metadata.{field}"),
                value,
                "field is immutable",
            ));
        }
    }
    if is_ending(old) {
        let added: Vec<String> = finalizers(object)
            .filter(|name| finalizers(old).all(|known| known != *name))
            .map(|name| format!("{name:?}"))
            .collect();
        if !added.is_empty() {
            let detail = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                added.join(", ")
            );
            errors.push(invalid::forbidden("metadata.finalizers", &detail));
        }
    }
    errors
}

fn check_name(kind: &Kind, metadata: &Map<String, Value>, errors: &mut Vec<FieldError>) {
    let given = metadata
        .get("name")
        .and_then(Value::as_str)
        .unwrap_or_default();
    if given.is_empty() {
        errors.push(invalid::required(
            "metadata.name",
            "name or generateName is required",
        ));
        return;
    }
    let value = Value::from(given);
    let mut refuse = |detail: &str| errors.push(invalid::invalid("metadata.name", &value, detail));
    if kind.api_version.starts_with("rbac.") {
        if given == "." || given == ".." || given.contains(['/', '%']) {
            refuse("may not contain '/' or '%'");
        }
        return;
    }
    let short = kind.is_core("Namespace") || kind.is_core("Service");
    if short && given.len() > LABEL_MAX_BYTES {
        refuse("must be no more than 63 bytes");
    } else if given.len() > NAME_MAX_BYTES {
        refuse("must be no more than 253 bytes");
    }
    if short && !is_dns_label(given) {
        refuse(DNS_LABEL);
    } else if !short && !given.split('.').all(is_dns_label) {
        refuse(SUBDOMAIN);
    }
}

/// Complains about a name that is not a DNS label.
pub(crate) fn check_dns_label(name: &str, field: &str, errors: &mut Vec<FieldError>) {
    let value = Value::from(name);
    if name.len() > LABEL_MAX_BYTES {
        errors.push(invalid::invalid(
            field,
            &value,
            "must be no more than 63 bytes",
        ));
    }
    if !is_dns_label(name) {
        errors.push(invalid::invalid(field, &value, DNS_LABEL));
    }
}

fn check_labels(metadata: &Map<String, Value>, errors: &mut Vec<FieldError>) {
    let field = "metadata.labels";
    for (name, value) in text_map(metadata, "labels", errors) {
        check_qualified(field, &name, errors);
        if value.len() > LABEL_MAX_BYTES {
            let detail = "must be no more than 63 bytes";
            errors.push(invalid::invalid(field, &Value::from(value), detail));
        } else if !value.is_empty() && !is_label_text(&value) {
            errors.push(invalid::invalid(field, &Value::from(value), LABEL_VALUE));
        }
    }
}

fn check_annotations(metadata: &Map<String, Value>, errors: &mut Vec<FieldError>) {
    let mut total = 0;
    for (name, value) in text_map(metadata, "annotations", errors) {
        check_qualified("metadata.annotations", &name.to_ascii_lowercase(), errors);
        total += name.len() + value.len();
    }
    if total > ANNOTATIONS_MAX_BYTES {
        errors.push(invalid::too_long(
            "metadata.annotations",
            ANNOTATIONS_MAX_BYTES,
        ));
    }
}

fn check_finalizers(metadata: &Map<String, Value>, errors: &mut Vec<FieldError>) {
    let listed = metadata.get("finalizers").and_then(Value::as_array);
    for entry in listed.into_iter().flatten() {
        match entry.as_str() {
            Some(name) => check_qualified("metadata.finalizers", name, errors),
            None => errors.push(invalid::invalid(
                "metadata.finalizers",
                entry,
                "must be a string",
            )),
        }
    }
}

fn check_owners(metadata: &Map<String, Value>, errors: &mut Vec<FieldError>) {
    let listed = metadata.get("ownerReferences").and_then(Value::as_array);
    let mut controllers = 0;
    for (index, owner) in listed.into_iter().flatten().enumerate() {
        for part in ["apiVersion", "kind", "name", "uid"] {
            if owner[part].as_str().unwrap_or_default().is_empty() {
                let field = format!("metadata.ownerReferences[{index}].{part}");
                errors.push(invalid::invalid(
                    field,
                    &Value::from(""),
                    "must not be empty",
                ));
            }
        }
        controllers += usize::from(owner["controller"] == Value::Bool(true));
    }
    if controllers > 1 {
        errors.push(invalid::invalid(
            "metadata.ownerReferences",
            &metadata["ownerReferences"],
            "Only one reference can have Controller set to true",
        ));
    }
}

/// Returns the entries of a map of strings, complaining about those that are not.
fn text_map(
    metadata: &Map<String, Value>,
    field: &str,
    errors: &mut Vec<FieldError>,
) -> Vec<(String, String)> {
    let mut entries = Vec::new();
    for (name, value) in metadata
        .get(field)
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        match value.as_str() {
            Some(text) => entries.push((name.clone(), text.to_owned())),
            None => errors.push(invalid::invalid(
                format!("metadata.{field}"),
                value,
                "must be a string",
            )),
        }
    }
    entries
}

fn check_qualified(field: &str, name: &str, errors: &mut Vec<FieldError>) {
    let (prefix, part) = match name.split_once('/') {
        Some((prefix, part)) => (Some(prefix), part),
        None => (None, name),
    };
    let value = Value::from(name);
    if let Some(prefix) = prefix
        && (prefix.is_empty()
            || prefix.len() > NAME_MAX_BYTES
            || !prefix.split('.').all(is_dns_label))
    {
        let detail = format!("prefix part {SUBDOMAIN}");
        errors.push(invalid::invalid(field, &value, &detail));
    }
    if part.is_empty() {
        errors.push(invalid::invalid(
            field,
            &value,
            "name part must be non-empty",
        ));
    } else if part.len() > LABEL_MAX_BYTES {
        let detail = "name part must be no more than 63 bytes";
        errors.push(invalid::invalid(field, &value, detail));
    } else if !is_label_text(part) {
        errors.push(invalid::invalid(field, &value, QUALIFIED));
    }
}

fn is_dns_label(text: &str) -> bool {
    let plain = |letter: u8| letter.is_ascii_lowercase() || letter.is_ascii_digit();
    framed(text, plain) && text.bytes().all(|letter| plain(letter) || letter == b'-')
}

fn is_label_text(text: &str) -> bool {
    let plain = |letter: u8| letter.is_ascii_alphanumeric();
    framed(text, plain)
        && text
            .bytes()
            .all(|letter| plain(letter) || b"-_.".contains(&letter))
}

/// Whether the first and the last letter are plain.
fn framed(text: &str, plain: impl Fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    bytes.first().copied().is_some_and(&plain) && bytes.last().copied().is_some_and(&plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_rfc_1123() {
        for (name, want) in [
            ("a", true),
            ("a-b", true),
            ("0a", true),
            ("", false),
            ("-a", false),
            ("a-", false),
            ("A", false),
            ("a_b", false),
        ] {
            assert_eq!(is_dns_label(name), want, "{name}");
        }
    }

    #[test]
    fn qualified_names_have_a_domain_and_a_part() {
        for (name, want) in [
            ("app", 0),
            ("x.io/App_1", 0),
            ("/app", 1),
            ("x.io/", 1),
            ("X.io/app", 1),
            ("a b", 1),
        ] {
            let mut errors = Vec::new();
            check_qualified("f", name, &mut errors);
            assert_eq!(errors.len(), want, "{name}");
        }
    }
}
