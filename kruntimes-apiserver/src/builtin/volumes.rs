//! Volumes of Pods: their default modes, and that each has a name of its own.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::{check_present, elements, elements_mut, set_default, text};
use crate::{invalid, schema::FieldError};

const MODE: i64 = 0o644;

pub(super) fn default(spec: &mut Value) {
    for volume in elements_mut(spec, "volumes") {
        let sources = volume.as_object().map_or(0, Map::len);
        if sources == 1 {
            set_default(volume, "emptyDir", json!({}));
        }
        for kind in ["configMap", "secret", "projected", "downwardAPI"] {
            if let Some(source) = volume.get_mut(kind) {
                set_default(source, "defaultMode", MODE);
            }
        }
        if let Some(source) = volume.get_mut("hostPath") {
            set_default(source, "type", "");
        }
        if let Some(source) = volume.get_mut("downwardAPI") {
            default_fields(source);
        }
        if let Some(projected) = volume.get_mut("projected") {
            for source in elements_mut(projected, "sources") {
                if let Some(token) = source.get_mut("serviceAccountToken") {
                    set_default(token, "expirationSeconds", 3600);
                }
                if let Some(fields) = source.get_mut("downwardAPI") {
                    default_fields(fields);
                }
            }
        }
    }
}

fn default_fields(source: &mut Value) {
    for item in elements_mut(source, "items") {
        if let Some(field) = item.get_mut("fieldRef") {
            set_default(field, "apiVersion", "v1");
        }
    }
}

/// Judges the volumes of a spec and returns their names.
pub(super) fn check<'a>(
    spec: &'a Value,
    path: &str,
    errors: &mut Vec<FieldError>,
) -> BTreeSet<&'a str> {
    let mut names = BTreeSet::new();
    for (index, volume) in elements(spec, "volumes").enumerate() {
        let path = format!("{path}.volumes[{index}]");
        if check_present(volume, &path, "name", errors) && !names.insert(text(volume, "name")) {
            let name = text(volume, "name");
            errors.push(invalid::duplicate(format!("{path}.name"), name));
        }
        if volume.as_object().map_or(0, Map::len) > 2 {
            let detail = "may not specify more than 1 volume type";
            errors.push(invalid::forbidden(path, detail));
        }
    }
    names
}
