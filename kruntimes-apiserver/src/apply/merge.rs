//! Merging a configuration into an object, and taking out of it what its applier no longer speaks of.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::{Map, Value};

use super::{
    compare::{is_empty, owned},
    fields::{Branch, FieldSet, field},
    topology::{Form, Topology},
};

/// Merges `config` into `live`; where both have a value, that of `config` counts.
pub(crate) fn merge(topology: Topology<'_>, live: &Value, config: &Value) -> Value {
    if is_empty(Some(live)) && is_empty(Some(config)) {
        return config.clone();
    }
    let form = if config.is_null() {
        topology.form(live)
    } else {
        topology.form(config)
    };
    match (form, live, config) {
        (Form::Map | Form::Set | Form::Keyed, live, Value::Null) => live.clone(),
        (Form::Map, Value::Object(live), Value::Object(config)) => {
            Value::Object(merge_members(topology, live, config))
        }
        (Form::Set | Form::Keyed, Value::Array(live), Value::Array(config)) => {
            Value::Array(merge_items(topology, live, config))
        }
        _ => config.clone(),
    }
}

fn merge_members(
    topology: Topology<'_>,
    live: &Map<String, Value>,
    config: &Map<String, Value>,
) -> Map<String, Value> {
    let mut merged = live.clone();
    for (name, value) in config {
        let value = match live.get(name) {
            Some(old) => merge(topology.member(name).0, old, value),
            None => value.clone(),
        };
        merged.insert(name.clone(), value);
    }
    merged
}

/// Merges lists: items keep the order of the configuration, and other items their place among those.
fn merge_items(topology: Topology<'_>, live: &[Value], config: &[Value]) -> Vec<Value> {
    let (Some(old), Some(new)) = (topology.elements(live), topology.elements(config)) else {
        return config.to_vec();
    };
    let in_live: BTreeMap<&str, usize> = old
        .iter()
        .enumerate()
        .rev()
        .map(|(index, element)| (element.as_str(), index))
        .collect();
    let in_config: BTreeSet<&str> = new.iter().map(String::as_str).collect();
    let mut shared: VecDeque<&str> = new
        .iter()
        .map(String::as_str)
        .filter(|element| in_live.contains_key(element))
        .collect();
    let take = |index: usize| match in_live.get(new[index].as_str()) {
        Some(place) => merge(topology.item(), &live[*place], &config[index]),
        None => config[index].clone(),
    };
    let mut merged = Vec::with_capacity(live.len().max(config.len()));
    let mut done: BTreeSet<&str> = BTreeSet::new();
    let (mut left, mut right) = (0, 0);
    while left < old.len() || right < new.len() {
        if left < old.len() {
            let element = old[left].as_str();
            if !in_config.contains(element) {
                merged.push(live[left].clone());
                left += 1;
                continue;
            }
            // Its turn comes with the configuration: at once, or it has been already, or others come first.
            let expected = shared.front().copied();
            if done.contains(element) || (right < new.len() && expected != Some(element)) {
                left += 1;
                continue;
            }
        }
        if right < new.len() {
            let element = new[right].as_str();
            merged.push(take(right));
            done.insert(element);
            right += 1;
            if shared.front().copied() == Some(element) {
                shared.pop_front();
                if left < old.len() && old[left] == element {
                    left += 1;
                }
            }
        } else {
            left += 1;
        }
    }
    merged
}

/// Takes fields out of an object; what becomes empty by that becomes null.
fn without(topology: Topology<'_>, value: &Value, gone: &FieldSet) -> Value {
    match (topology.form(value), value) {
        (Form::Map, Value::Object(fields)) => {
            let kept: Map<String, Value> = fields
                .iter()
                .filter_map(|(name, value)| {
                    let below = topology.member(name).0;
                    Some((name.clone(), kept(below, value, gone.get(&field(name)))?))
                })
                .collect();
            if kept.is_empty() {
                Value::Null
            } else {
                Value::Object(kept)
            }
        }
        (Form::Set | Form::Keyed, Value::Array(items)) => {
            let kept: Vec<Value> = items
                .iter()
                .filter_map(|item| {
                    let branch = topology
                        .element(item)
                        .ok()
                        .and_then(|element| gone.get(&element));
                    kept(topology.item(), item, branch)
                })
                .collect();
            if kept.is_empty() {
                Value::Null
            } else {
                Value::Array(kept)
            }
        }
        _ => value.clone(),
    }
}

/// Returns what stays of one member or item.
fn kept(topology: Topology<'_>, value: &Value, gone: Option<&Branch>) -> Option<Value> {
    match gone {
        Some(branch) if branch.member => None,
        Some(branch) => Some(without(topology, value, &branch.below)),
        None => Some(value.clone()),
    }
}

/// Adds the declared fields on the way to members, which a set does not name by itself.
fn with_parents(topology: Topology<'_>, set: &FieldSet) -> FieldSet {
    let mut whole = FieldSet::default();
    for (element, branch) in set.iter() {
        let (below, declared) = match element.strip_prefix("f:") {
            Some(name) => topology.member(name),
            None => (topology.item(), false),
        };
        let parent = declared && !branch.below.is_empty();
        whole.put(
            element.clone(),
            Branch {
                member: branch.member || parent,
                below: with_parents(below, &branch.below),
            },
        );
    }
    whole
}

/// Removes from a merged object what `last` names and nobody in `managed` owns any more.
///
/// `last` is what the applier owned until now, `managed` what all managers own from now on, the applier included.
pub(crate) fn prune(
    topology: Topology<'_>,
    merged: Value,
    last: &FieldSet,
    managed: &FieldSet,
) -> Value {
    if last.is_empty() {
        return merged;
    }
    let full = |value: &Value| with_parents(topology, &owned(topology, value));
    let last = with_parents(topology, last);
    let everything = full(&merged);
    // What is left without the fields of the applier, and with what somebody owns put back.
    let mut wanted = full(&without(topology, &merged, &last));
    wanted.union(&with_parents(topology, managed));
    let mut gone = everything.clone();
    gone.subtract(&wanted);
    let wanted = full(&without(topology, &merged, &gone));
    // Only what the applier owned may go: what nobody owns stays.
    let mut gone = everything;
    gone.subtract(&wanted);
    let gone = gone.intersection(&last);
    if gone.is_empty() {
        return merged;
    }
    without(topology, &merged, &gone)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::keys, *};

    fn finalizers(names: &[&str]) -> Value {
        json!({ "metadata": { "finalizers": names } })
    }

    #[test]
    fn the_configuration_gives_its_items_their_order() {
        for (live, config, want) in [
            (vec!["a", "b"], vec!["c"], vec!["a", "b", "c"]),
            (vec!["a", "b", "c"], vec!["c", "a"], vec!["b", "c", "a"]),
            (vec!["a"], vec!["b", "a"], vec!["b", "a"]),
            (vec!["a", "x", "b"], vec!["a", "b"], vec!["a", "x", "b"]),
            (
                vec!["x", "a", "y"],
                vec!["n", "a", "m"],
                vec!["x", "n", "a", "y", "m"],
            ),
        ] {
            let topology = Topology::Table(keys::root("Pod"));
            let merged = merge(topology, &finalizers(&live), &finalizers(&config));
            assert_eq!(merged, finalizers(&want), "{live:?} with {config:?}");
        }
    }

    #[test]
    fn null_empties_scalars_and_leaves_objects() {
        let live = json!({ "a": 1, "b": { "c": 1 } });
        let merged = merge(
            Topology::Deduced,
            &live,
            &json!({ "a": null, "b": null, "d": {} }),
        );
        assert_eq!(merged, json!({ "a": null, "b": { "c": 1 }, "d": {} }));
    }

    fn pruned(merged: &Value, last: &Value, managed: &Value) -> Value {
        use super::super::fields::tests::set;
        prune(
            Topology::Table(keys::root("Pod")),
            merged.clone(),
            &set(last),
            &set(managed),
        )
    }

    #[test]
    fn what_nobody_else_owns_goes_with_its_applier() {
        let merged =
            json!({ "metadata": { "labels": { "a": "1", "b": "2" } }, "spec": { "priority": 1 } });
        let last = json!({ "f:metadata": { "f:labels": { "f:a": {}, "f:b": {} } } });
        let other = json!({ "f:metadata": { "f:labels": { "f:b": {} } } });
        assert_eq!(
            pruned(&merged, &last, &other),
            json!({ "metadata": { "labels": { "b": "2" } }, "spec": { "priority": 1 } })
        );
        let nobody = pruned(&merged, &last, &json!({}));
        assert_eq!(nobody["metadata"]["labels"]["a"], Value::Null);
        assert_eq!(nobody["metadata"]["labels"]["b"], Value::Null);
        assert_eq!(nobody["spec"], json!({ "priority": 1 }));
    }

    #[test]
    fn an_item_stays_while_somebody_owns_a_part_of_it() {
        let merged =
            json!({ "spec": { "containers": [{ "name": "c", "image": "i", "tty": true }] } });
        let last = json!({ "f:spec": { "f:containers": { "k:{\"name\":\"c\"}": {
            ".": {}, "f:name": {}, "f:image": {} } } } });
        let other = json!({ "f:spec": { "f:containers": { "k:{\"name\":\"c\"}": {
            ".": {}, "f:name": {}, "f:tty": {} } } } });
        assert_eq!(
            pruned(&merged, &last, &other),
            json!({ "spec": { "containers": [{ "name": "c", "tty": true }] } })
        );
    }
}
