//! Strategic merge patch of built-in kinds: lists that have a merge key are merged item by item, and directives
//! (`$patch`, `$retainKeys`, `$deleteFromPrimitiveList/…`, `$setElementOrder/…`) say what merging alone cannot.

mod lists;

use serde_json::{Map, Value};

use crate::{
    apply::keys::{self, Member, Record, Strategy},
    error::ApiError,
    kind::Served,
};

const PATCH: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_PRIMITIVES: &str = "$deleteFromPrimitiveList/";
const SET_ORDER: &str = "$setElementOrder/";

/// Applies a patch to an object of a built-in kind.
pub(crate) fn merge(served: &Served, object: Value, patch: &Value) -> Result<Value, ApiError> {
    let (Value::Object(object), Value::Object(patch)) = (object, patch) else {
        return Err(ApiError::bad_request(
            "error decoding patch: a merge patch must be an object",
        ));
    };
    let record = keys::root(&served.kind.name).below();
    let merged = merge_map(record, object, patch);
    merged
        .map(Value::Object)
        .map_err(|mistake| ApiError::bad_patch(&mistake.at, &mistake.why))
}

/// What makes a patch senseless, and the part of it that does.
#[derive(Debug)]
struct Mistake {
    at: String,
    why: String,
}

impl Mistake {
    fn new(at: impl Into<String>, why: impl Into<String>) -> Self {
        Self {
            at: at.into(),
            why: why.into(),
        }
    }
}

/// Merges a patch into a map.
fn merge_map(
    record: &Record,
    mut target: Map<String, Value>,
    patch: &Map<String, Value>,
) -> Result<Map<String, Value>, Mistake> {
    match patch.get(PATCH).map(Value::as_str) {
        None | Some(Some("merge")) => {}
        Some(Some("replace")) => {
            let rest = patch.iter().filter(|(name, _)| *name != PATCH);
            return Ok(rest
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect());
        }
        Some(Some("delete")) => return Ok(Map::new()),
        Some(other) => {
            let at = other.unwrap_or_default();
            return Err(Mistake::new(at, format!("unknown patch type: {at}")));
        }
    }
    retain_keys(&mut target, patch)?;
    for (name, value) in patch {
        if let Some(list) = name.strip_prefix(DELETE_PRIMITIVES) {
            delete_primitives(&mut target, list, value)?;
        }
    }
    for (name, value) in patch.iter().filter(|(name, _)| !is_directive(name)) {
        let order = patch.get(&format!("{SET_ORDER}{name}"));
        let old = target.remove(name);
        if let Some(merged) = merge_value(record.member(name), old, value, order)? {
            target.insert(name.clone(), merged);
        }
    }
    for (name, order) in patch {
        if let Some(list) = name.strip_prefix(SET_ORDER)
            && !patch.contains_key(list)
            && let Some(Value::Array(old)) = target.get(list)
        {
            let arranged = merge_list(record.member(list), old.clone(), &[], Some(order))?;
            target.insert(list.to_owned(), Value::Array(arranged));
        }
    }
    Ok(target)
}

/// Merges one field of a patch; nothing is left of it after a null.
fn merge_value(
    member: &Member,
    old: Option<Value>,
    patch: &Value,
    order: Option<&Value>,
) -> Result<Option<Value>, Mistake> {
    Ok(match patch {
        Value::Null => None,
        Value::Object(change) => {
            let old = match old {
                Some(Value::Object(old)) => old,
                _ => Map::new(),
            };
            let deleted = change.get(PATCH).and_then(Value::as_str) == Some("delete");
            let merged = merge_map(member.below(), old, change)?;
            (!deleted).then_some(Value::Object(merged))
        }
        Value::Array(change) => {
            let old = match old {
                Some(Value::Array(old)) => old,
                _ => Vec::new(),
            };
            Some(Value::Array(merge_list(member, old, change, order)?))
        }
        Value::Bool(_) | Value::Number(_) | Value::String(_) => Some(patch.clone()),
    })
}

/// Merges a list in the way its field asks for, in the order that the patch or its own items ask for.
fn merge_list(
    member: &Member,
    old: Vec<Value>,
    patch: &[Value],
    order: Option<&Value>,
) -> Result<Vec<Value>, Mistake> {
    let order = order.map(lists::wanted_order).transpose()?;
    match member.strategy {
        Strategy::Replace => Ok(patch.iter().map(without_directives).collect()),
        Strategy::Union => Ok(lists::union(old, patch, order)),
        Strategy::By(key) => lists::items(member.below(), key, old, patch, order),
    }
}

fn is_directive(name: &str) -> bool {
    name == PATCH
        || name == RETAIN_KEYS
        || name.starts_with(DELETE_PRIMITIVES)
        || name.starts_with(SET_ORDER)
}

/// Drops the fields that `$retainKeys` does not list; the patch itself may only set listed ones.
fn retain_keys(target: &mut Map<String, Value>, patch: &Map<String, Value>) -> Result<(), Mistake> {
    let Some(listed) = patch.get(RETAIN_KEYS) else {
        return Ok(());
    };
    let Some(listed) = listed.as_array() else {
        return Err(Mistake::new(RETAIN_KEYS, "the directive must be a list"));
    };
    let keeps = |name: &str| listed.iter().any(|entry| entry.as_str() == Some(name));
    let set = patch.iter().filter(|(_, value)| !value.is_null());
    for (name, _) in set.filter(|(name, _)| !is_directive(name)) {
        if !keeps(name) {
            let why = "the list of retained keys must contain every field that the patch sets";
            return Err(Mistake::new(name.as_str(), why));
        }
    }
    target.retain(|name, _| keeps(name));
    Ok(())
}

fn delete_primitives(
    target: &mut Map<String, Value>,
    list: &str,
    gone: &Value,
) -> Result<(), Mistake> {
    let Some(gone) = gone.as_array() else {
        return Err(Mistake::new(
            list,
            "the list of what to delete must be a list",
        ));
    };
    if let Some(Value::Array(entries)) = target.get_mut(list) {
        let gone: std::collections::BTreeSet<String> = gone.iter().map(Value::to_string).collect();
        entries.retain(|entry| !gone.contains(&entry.to_string()));
    }
    Ok(())
}

/// Copies a value that replaces another, leaving out what was meant for merging.
fn without_directives(value: &Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .iter()
            .filter(|(name, _)| !is_directive(name))
            .map(|(name, field)| (name.clone(), without_directives(field)))
            .collect(),
        Value::Array(elements) => elements.iter().map(without_directives).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

#[cfg(test)]
mod tests;
