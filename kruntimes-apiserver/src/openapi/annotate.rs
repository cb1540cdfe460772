//! How the lists of built-in kinds merge, written into their schemas.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::{META, SCHEMAS};
use crate::apply::keys::{self, Member, Merge, Record, Strategy};

/// Marks the lists and maps of a kind and of everything it consists of.
pub(super) fn lists(schemas: &mut Map<String, Value>, root: &str, kind: &str) {
    visit(
        schemas,
        root,
        keys::root(kind).below(),
        &mut BTreeSet::new(),
    );
}

/// Marks the lists that all objects have.
pub(super) fn metadata(schemas: &mut Map<String, Value>) {
    let name = format!("{META}.ObjectMeta");
    visit(
        schemas,
        &name,
        keys::OBJECT_META.below(),
        &mut BTreeSet::new(),
    );
}

/// Visits a type once for each thing that is known about it; what one visit knows, a later one does not take back.
fn visit(
    schemas: &mut Map<String, Value>,
    name: &str,
    known: &'static Record,
    seen: &mut BTreeSet<(String, usize)>,
) {
    if !seen.insert((name.to_owned(), std::ptr::from_ref(known).addr())) {
        return;
    }
    let Some(fields) = schemas
        .get_mut(name)
        .and_then(|schema| schema.get_mut("properties")?.as_object_mut())
    else {
        return;
    };
    let mut below = Vec::new();
    for (field, schema) in fields.iter_mut() {
        let member = known.member(field);
        mark(schema, member);
        if let Some(target) = target(schema) {
            below.push((target, member, schema["type"].is_null()));
        }
    }
    for (target, member, single) in below {
        // An object that is one value is so wherever it stands.
        if single
            && member.merge == Merge::Atomic
            && let Some(schema) = schemas.get_mut(&target)
        {
            schema["x-kubernetes-map-type"] = Value::from("atomic");
        }
        visit(schemas, &target, member.below(), seen);
    }
}

/// Returns the type that a field, its items or its entries refer to.
fn target(schema: &Value) -> Option<String> {
    let inner = ["items", "additionalProperties"]
        .into_iter()
        .map(|part| &schema[part])
        .find(|part| part.is_object())
        .unwrap_or(schema);
    let reference = inner["$ref"]
        .as_str()
        .or(inner["allOf"][0]["$ref"].as_str())?;
    reference.strip_prefix(SCHEMAS).map(str::to_owned)
}

fn put(schema: &mut Value, name: &str, value: Value) {
    schema[format!("x-kubernetes-{name}")] = value;
}

fn mark(schema: &mut Value, member: &Member) {
    let strategy = match (member.strategy, member.retain_keys) {
        (Strategy::Replace, false) => "",
        (Strategy::Replace, true) => "retainKeys",
        (Strategy::Union | Strategy::By(_), false) => "merge",
        (Strategy::Union | Strategy::By(_), true) => "merge,retainKeys",
    };
    if !strategy.is_empty() {
        put(schema, "patch-strategy", Value::from(strategy));
    }
    if let Strategy::By(key) = member.strategy {
        put(schema, "patch-merge-key", Value::from(key));
    }
    match member.merge {
        Merge::Keys(keys) => {
            let names: Vec<&str> = keys.iter().map(|key| key.name).collect();
            put(schema, "list-map-keys", json!(names));
            put(schema, "list-type", Value::from("map"));
        }
        Merge::Set => put(schema, "list-type", Value::from("set")),
        Merge::Atomic | Merge::Default => match schema["type"].as_str() {
            Some("array") if schema["x-kubernetes-list-type"].is_null() => {
                put(schema, "list-type", Value::from("atomic"));
            }
            Some("object") if member.merge == Merge::Atomic => {
                put(schema, "map-type", Value::from("atomic"));
            }
            _ => {}
        },
    }
}
