//! Merging lists, and the order of what comes out.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::{Mistake, PATCH, merge_map};
use crate::apply::keys::Record;

/// Reads the list of a `$setElementOrder` directive.
pub(super) fn wanted_order(order: &Value) -> Result<&[Value], Mistake> {
    order
        .as_array()
        .map(Vec::as_slice)
        .ok_or_else(|| Mistake::new(order.to_string(), "an order of elements must be a list"))
}

/// Adds the primitives that are missing.
pub(super) fn union(old: Vec<Value>, patch: &[Value], order: Option<&[Value]>) -> Vec<Value> {
    let before: Vec<String> = old.iter().map(Value::to_string).collect();
    let mut known = BTreeSet::new();
    let merged: Vec<(String, Value)> = old
        .into_iter()
        .chain(patch.iter().cloned())
        .map(|value| (value.to_string(), value))
        .filter(|(name, _)| known.insert(name.clone()))
        .collect();
    let order: Vec<String> = order
        .unwrap_or(patch)
        .iter()
        .map(Value::to_string)
        .collect();
    arrange(merged, &order, &before)
}

/// Merges the items of a list by the value of a field.
pub(super) fn items(
    record: &Record,
    key: &str,
    old: Vec<Value>,
    patch: &[Value],
    order: Option<&[Value]>,
) -> Result<Vec<Value>, Mistake> {
    let mut before = Vec::new();
    let mut merged: BTreeMap<String, Value> = BTreeMap::new();
    let mut replaced = false;
    for item in patch {
        replaced |= directive(item)? == Directive::Replace;
    }
    if !replaced {
        for item in old {
            let name = name_of(&item, key)?;
            before.push(name.clone());
            merged.insert(name, item);
        }
    }
    let mut touched = Vec::new();
    for item in patch {
        match directive(item)? {
            Directive::Replace => {}
            Directive::Delete => {
                merged.remove(&name_of(item, key)?);
            }
            Directive::Merge => {
                let Value::Object(change) = item else {
                    return Err(Mistake::new(item.to_string(), "an item must be an object"));
                };
                let name = name_of(item, key)?;
                let old = match merged.remove(&name) {
                    Some(Value::Object(old)) => old,
                    _ => Map::new(),
                };
                merged.insert(name.clone(), Value::Object(merge_map(record, old, change)?));
                touched.push(name);
            }
        }
    }
    let order = match order.filter(|order| !order.is_empty()) {
        None => touched,
        Some(order) => {
            let order = order
                .iter()
                .map(|item| name_of(item, key))
                .collect::<Result<Vec<_>, _>>()?;
            let listed: BTreeSet<&String> = order.iter().collect();
            if let Some(missing) = touched.iter().find(|name| !listed.contains(name)) {
                let why = "the order of elements must name every element of the patch";
                return Err(Mistake::new(missing.as_str(), why));
            }
            order
        }
    };
    let mut places: Vec<String> = before.clone();
    places.extend(order.iter().cloned());
    let mut found = Vec::new();
    for name in places {
        if let Some(item) = merged.remove(&name) {
            found.push((name, item));
        }
    }
    Ok(arrange(found, &order, &before))
}

/// Sorts what the patch names by the patch, the rest as it was, and weaves both together.
///
/// Elements that were there before keep their old order towards each other where the patch allows it; elements that
/// are new come before what the patch does not name, as soon as it is their turn.
fn arrange(merged: Vec<(String, Value)>, order: &[String], before: &[String]) -> Vec<Value> {
    let rank = |names: &[String]| -> BTreeMap<String, usize> {
        let ranks = names.iter().cloned().zip(0..);
        let mut first = BTreeMap::new();
        for (name, rank) in ranks {
            first.entry(name).or_insert(rank);
        }
        first
    };
    let (asked, old) = (rank(order), rank(before));
    let (mut named, mut rest): (Vec<_>, Vec<_>) = merged
        .into_iter()
        .partition(|(name, _)| asked.contains_key(name));
    named.sort_by_key(|(name, _)| asked.get(name).copied());
    rest.sort_by_key(|(name, _)| old.get(name).copied());
    let mut woven = Vec::with_capacity(named.len() + rest.len());
    let mut rest = rest.into_iter().peekable();
    for (name, item) in named {
        while let Some((other, _)) = rest.peek() {
            let earlier = match (old.get(other), old.get(&name)) {
                (Some(other), Some(name)) => other < name,
                _ => false,
            };
            if !earlier {
                break;
            }
            woven.extend(rest.next().map(|(_, item)| item));
        }
        woven.push(item);
    }
    woven.extend(rest.map(|(_, item)| item));
    woven
}

/// What an item of a patch asks for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Directive {
    Merge,
    /// The rest of the patch takes the place of the whole list.
    Replace,
    Delete,
}

fn directive(item: &Value) -> Result<Directive, Mistake> {
    match item.get(PATCH) {
        None => Ok(Directive::Merge),
        Some(Value::String(text)) if text == "replace" => Ok(Directive::Replace),
        Some(Value::String(text)) if text == "delete" => Ok(Directive::Delete),
        Some(other) => Err(Mistake::new(
            other.to_string(),
            format!("unknown patch type in a list: {other}"),
        )),
    }
}

fn name_of(item: &Value, key: &str) -> Result<String, Mistake> {
    match item.get(key) {
        Some(value) if !value.is_null() => Ok(value.to_string()),
        _ => Err(Mistake::new(
            item.to_string(),
            format!("the map does not contain its merge key {key}"),
        )),
    }
}
