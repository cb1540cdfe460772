//! Which fields differ between two states of an object, and which fields an applied configuration speaks of.

use std::{collections::BTreeMap, sync::LazyLock};

use serde_json::{Map, Value};

use super::{
    fields::{Branch, FieldSet, field},
    topology::{Form, Topology},
};

/// Fields of `metadata` that belong to the server or name the object, so that nobody owns them.
const UNOWNED: [&str; 8] = [
    "creationTimestamp",
    "generation",
    "managedFields",
    "name",
    "namespace",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// The difference between two states of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    /// Fields that were added or have another value.
    pub(crate) set: FieldSet,
    /// Fields that are gone.
    pub(crate) removed: FieldSet,
}

impl Changes {
    pub(crate) fn is_empty(&self) -> bool {
        self.set.is_empty() && self.removed.is_empty()
    }

    fn put(&mut self, element: String, change: Change) {
        self.removed.put(element.clone(), change.removed);
        self.set.put(element, change.set);
    }

    /// Leaves out what nobody owns.
    fn strip(&mut self) {
        strip(&mut self.set);
        strip(&mut self.removed);
    }
}

/// Leaves what nobody owns out of a set of fields of a whole object.
pub(crate) fn strip(set: &mut FieldSet) {
    set.remove("f:apiVersion");
    set.remove("f:kind");
    let names = UNOWNED.map(field);
    set.remove_below("f:metadata", &names.each_ref().map(String::as_str));
}

/// What differs at one path and below.
#[derive(Default)]
struct Change {
    set: Branch,
    removed: Branch,
}

impl Change {
    fn of(changes: Changes) -> Self {
        let whole = |below| Branch {
            member: false,
            below,
        };
        Self {
            set: whole(changes.set),
            removed: whole(changes.removed),
        }
    }

    /// Records that the path itself appeared, went or has another value.
    fn mark(&mut self, before: Option<&Value>, after: Option<&Value>) {
        match (before, after) {
            (Some(_), None) => self.removed.member = true,
            (_, Some(_)) => self.set.member = true,
            (None, None) => {}
        }
    }
}

/// Compares two states of a whole object; what is equal costs no more than its comparison.
pub(crate) fn compare(topology: Topology<'_>, before: &Value, after: &Value) -> Changes {
    let mut changes = match (before, after) {
        (Value::Object(before), Value::Object(after)) => members(topology, before, after),
        _ => Changes::default(),
    };
    changes.strip();
    changes
}

fn members(
    topology: Topology<'_>,
    before: &Map<String, Value>,
    after: &Map<String, Value>,
) -> Changes {
    let mut changes = Changes::default();
    let gone = before
        .keys()
        .filter(|name| !after.contains_key(name.as_str()));
    for name in after.keys().chain(gone) {
        let pair = (before.get(name), after.get(name));
        if pair.0 != pair.1 {
            let (below, _) = topology.member(name);
            changes.put(field(name), walk(below, pair.0, pair.1));
        }
    }
    changes
}

/// Compares two values of one part that are not equal.
fn walk(topology: Topology<'_>, before: Option<&Value>, after: Option<&Value>) -> Change {
    let (mut shown_before, mut shown_after) = (before, after);
    if topology.is_inherent() {
        let blank = blank(after.or(before));
        shown_before = before.or(blank);
        shown_after = after.or(blank);
        if shown_before == shown_after {
            return Change::default();
        }
    }
    let (before, after) = (shown_before, shown_after);
    let mut change = contents(topology, before, after);
    if before.is_none() || after.is_none() {
        change.mark(before, after);
    }
    change
}

fn contents(topology: Topology<'_>, before: Option<&Value>, after: Option<&Value>) -> Change {
    let form = |value: Option<&Value>| {
        value
            .filter(|value| !value.is_null())
            .map(|value| topology.form(value))
    };
    let (old, new) = (form(before), form(after));
    if let (Some(old), Some(new)) = (old, new)
        && old != new
    {
        // The part has become something else: all of the old is gone, all of the new is there.
        let mut change = contents(topology, before, None);
        change.set = contents(topology, None, after).set;
        change.mark(before, after);
        return change;
    }
    let form = old.or(new).unwrap_or(Form::Leaf);
    let changes = match form {
        _ if is_empty(before) && is_empty(after) => None,
        Form::Leaf => None,
        Form::Map => Some(members(topology, object(before), object(after))),
        Form::Set | Form::Keyed => items(topology, list(before), list(after)),
    };
    if let Some(changes) = changes {
        return Change::of(changes);
    }
    let mut change = Change::default();
    change.mark(before, after);
    change
}

/// Compares lists item by item; `None` if some item cannot be told apart.
fn items(topology: Topology<'_>, before: &[Value], after: &[Value]) -> Option<Changes> {
    let mut paired: BTreeMap<String, (Vec<&Value>, Vec<&Value>)> = BTreeMap::new();
    for (element, item) in topology.elements(before)?.into_iter().zip(before) {
        paired.entry(element).or_default().0.push(item);
    }
    for (element, item) in topology.elements(after)?.into_iter().zip(after) {
        paired.entry(element).or_default().1.push(item);
    }
    let mut changes = Changes::default();
    for (element, (old, new)) in paired {
        if old == new {
            continue;
        }
        let (first_old, first_new) = (old.first().copied(), new.first().copied());
        let change = if old.len() > 1 || new.len() > 1 {
            let mut change = Change::default();
            change.mark(first_old, first_new);
            change
        } else {
            walk(topology.item(), first_old, first_new)
        };
        changes.put(element, change);
    }
    Some(changes)
}

/// Returns the fields that a configuration speaks of.
pub(crate) fn owned(topology: Topology<'_>, config: &Value) -> FieldSet {
    branch(topology, config).below
}

fn branch(topology: Topology<'_>, value: &Value) -> Branch {
    let mut found = Branch::default();
    match (topology.form(value), value) {
        (Form::Map, Value::Object(fields)) => {
            for (name, value) in fields {
                let (below, declared) = topology.member(name);
                let mut child = branch(below, value);
                child.member |= !declared || value.as_object().is_some_and(Map::is_empty);
                found.below.put(field(name), child);
            }
        }
        (Form::Set | Form::Keyed, Value::Array(items)) => match topology.elements(items) {
            Some(elements) => {
                for (element, item) in elements.into_iter().zip(items) {
                    let mut child = branch(topology.item(), item);
                    child.member = true;
                    found.below.put(element, child);
                }
            }
            None => found.member = true,
        },
        _ => found.member = true,
    }
    found
}

static NO_FIELDS: LazyLock<Value> = LazyLock::new(|| Value::Object(Map::new()));
static NO_ITEMS: Value = Value::Array(Vec::new());
static NOTHING: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);

fn object(value: Option<&Value>) -> &Map<String, Value> {
    value.and_then(Value::as_object).unwrap_or(&NOTHING)
}

fn list(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Whether there is nothing in a value: absent, null, or an object or list without content.
pub(crate) fn is_empty(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => true,
        Some(Value::Object(fields)) => fields.is_empty(),
        Some(Value::Array(items)) => items.is_empty(),
        Some(Value::Bool(_) | Value::Number(_) | Value::String(_)) => false,
    }
}

/// Returns what a part looks like that is always shown and holds nothing.
fn blank(like: Option<&Value>) -> Option<&'static Value> {
    match like {
        Some(Value::Object(_)) => Some(&NO_FIELDS),
        Some(Value::Array(_)) => Some(&NO_ITEMS),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::keys, *};

    fn told(changes: &Changes) -> (Value, Value) {
        (
            Value::Object(changes.set.to_json()),
            Value::Object(changes.removed.to_json()),
        )
    }

    fn deployment() -> Topology<'static> {
        Topology::Table(keys::root("Deployment"))
    }

    #[test]
    fn a_new_object_is_owned_as_kubernetes_says() {
        let made = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": { "name": "d", "uid": "u", "labels": { "a": "b" }, "ownerReferences": [{ "uid": "1", "name": "x" }] },
            "spec": {
                "selector": { "matchLabels": { "a": "b" } },
                "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxSurge": 1 } },
                "template": {
                    "metadata": { "labels": { "a": "b" } },
                    "spec": { "containers": [{ "name": "c", "image": "i", "ports": [{ "containerPort": 80 }] }] },
                },
            },
            "status": {},
        });
        let (set, removed) = told(&compare(deployment(), &json!({}), &made));
        assert_eq!(
            set,
            json!({
                "f:metadata": {
                    "f:labels": { ".": {}, "f:a": {} },
                    "f:ownerReferences": { ".": {}, "k:{\"uid\":\"1\"}": {} },
                },
                "f:spec": {
                    "f:selector": {},
                    "f:strategy": { "f:type": {}, "f:rollingUpdate": { ".": {}, "f:maxSurge": {} } },
                    "f:template": {
                        "f:metadata": { "f:labels": { ".": {}, "f:a": {} } },
                        "f:spec": { "f:containers": { "k:{\"name\":\"c\"}": {
                            ".": {}, "f:name": {}, "f:image": {},
                            "f:ports": { ".": {}, "k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {
                                ".": {}, "f:containerPort": {} } },
                        } } },
                    },
                },
            })
        );
        assert_eq!(removed, json!({}));
    }

    #[test]
    fn only_what_differs_is_told() {
        let object = |image: &str, env: Value| {
            json!({ "spec": { "replicas": 1, "template": { "spec": { "containers": [
                { "name": "a", "image": "x" }, { "name": "b", "image": image, "env": env },
            ] } } } })
        };
        let before = object(
            "x",
            json!([{ "name": "K", "value": "1" }, { "name": "L", "value": "1" }]),
        );
        let after = object(
            "y",
            json!([{ "name": "L", "value": "1" }, { "name": "M", "value": "2" }]),
        );
        let (set, removed) = told(&compare(deployment(), &before, &after));
        let at = |below: Value| json!({ "f:spec": { "f:template": { "f:spec": { "f:containers": { "k:{\"name\":\"b\"}": below } } } } });
        assert_eq!(
            set,
            at(
                json!({ "f:image": {}, "f:env": { "k:{\"name\":\"M\"}": { ".": {}, "f:name": {}, "f:value": {} } } })
            )
        );
        assert_eq!(
            removed,
            at(
                json!({ "f:env": { "k:{\"name\":\"K\"}": { ".": {}, "f:name": {}, "f:value": {} } } })
            )
        );
    }

    #[test]
    fn a_value_that_changes_its_kind_is_set_and_its_content_removed() {
        let changes = compare(
            Topology::Deduced,
            &json!({ "a": { "b": 1 } }),
            &json!({ "a": 5 }),
        );
        assert_eq!(
            told(&changes),
            (json!({ "f:a": {} }), json!({ "f:a": { "f:b": {} } }))
        );
    }

    #[test]
    fn a_configuration_speaks_of_leaves_items_and_empty_objects() {
        let config = json!({
            "metadata": { "finalizers": ["x.io/a"], "labels": {} },
            "spec": { "selector": { "a": "b" }, "ports": [{ "port": 80, "name": "web" }], "externalName": null },
        });
        let set = owned(Topology::Table(keys::root("Service")), &config);
        assert_eq!(
            Value::Object(set.to_json()),
            json!({
                "f:metadata": { "f:finalizers": { "v:\"x.io/a\"": {} }, "f:labels": {} },
                "f:spec": {
                    "f:externalName": {}, "f:selector": {},
                    "f:ports": { "k:{\"port\":80,\"protocol\":\"TCP\"}": { ".": {}, "f:port": {}, "f:name": {} } },
                },
            })
        );
    }
}
