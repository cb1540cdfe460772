//! One apply: a configuration, the object as it is and its ledger become the next object and the next ledger.

use serde_json::{Map, Value, json};

use super::{
    compare::{compare, owned, strip},
    fields::FieldSet,
    ledger::{Entry, Ledger, Manager, Operation},
    merge::{merge, prune},
    topology::Topology,
    upkeep::lose,
};

/// The manager of what an object held before it was first applied to.
const BEFORE: &str = "before-first-apply";

/// Who applies what, and how firmly.
pub(crate) struct Applied<'a> {
    /// The configuration in the stored form, without anything the applier has no say in.
    pub(crate) config: &'a Value,
    pub(crate) applier: &'a Manager,
    /// Whether to take fields from other managers.
    pub(crate) force: bool,
    /// The time of the write.
    pub(crate) now: &'a str,
}

/// Fields that another manager owns with another value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Conflict {
    pub(crate) owner: Manager,
    pub(crate) paths: Vec<String>,
}

/// Works out what becomes of an object, unless others own what would change.
pub(crate) fn turn(
    topology: Topology<'_>,
    live: &Value,
    mut ledger: Ledger,
    applied: &Applied<'_>,
) -> Result<(Value, Ledger), Vec<Conflict>> {
    let Applied {
        config,
        applier,
        force,
        now,
    } = *applied;
    if ledger.is_empty() {
        inherit(topology, live, &mut ledger, applied);
    }
    let mut set = owned(topology, config);
    let last = ledger.find(applier).map(Entry::set).unwrap_or_default();
    let mut managed = set.clone();
    for entry in ledger
        .entries()
        .iter()
        .filter(|entry| !entry.manager.is(applier))
    {
        managed.union(&entry.set());
    }
    let next = prune(topology, merge(topology, live, config), &last, &managed);
    let changes = compare(topology, live, &next);
    let mut conflicts = Vec::new();
    for entry in ledger.entries_mut() {
        if entry.manager.is(applier) {
            continue;
        }
        let contested = entry.set().intersection(&changes.set);
        if !contested.is_empty() {
            conflicts.push(Conflict {
                owner: entry.manager.clone(),
                paths: contested.paths(),
            });
        }
        lose(entry, &[&changes.set, &changes.removed]);
    }
    if !force && !conflicts.is_empty() {
        conflicts.sort_by(|one, other| one.owner.name.cmp(&other.owner.name));
        return Err(conflicts);
    }
    strip(&mut set);
    let place = ledger.place(applier);
    let own = &mut ledger.entries_mut()[place];
    own.manager = applier.clone();
    own.fields = set.to_json();
    if next != *live {
        own.time = Some(now.to_owned());
    }
    Ok((next, ledger))
}

/// Gives all that an object without a ledger holds to a manager of its own, so that the first applier does not take
/// it by accident.
fn inherit(topology: Topology<'_>, live: &Value, ledger: &mut Ledger, applied: &Applied<'_>) {
    let everything = compare(topology, &json!({}), live).set;
    let visible = visible(everything, &applied.applier.subresource);
    let manager = Manager {
        name: BEFORE.to_owned(),
        operation: Operation::Update,
        ..applied.applier.clone()
    };
    let place = ledger.place(&manager);
    let entry = &mut ledger.entries_mut()[place];
    entry.fields = visible.to_json();
    entry.time = Some(applied.now.to_owned());
}

/// Returns the part of a set that a writer of this subresource can have written.
fn visible(mut set: FieldSet, subresource: &str) -> FieldSet {
    if subresource.is_empty() {
        set.cut("f:status");
        return set;
    }
    let mut part = FieldSet::default();
    if let Some(branch) = set.get("f:status") {
        part.put("f:status".to_owned(), branch.clone());
    }
    part
}

/// Opens the ledger of an object that its applier creates.
pub(crate) fn first(topology: Topology<'_>, applied: &Applied<'_>) -> Ledger {
    let mut set = owned(topology, applied.config);
    strip(&mut set);
    let mut ledger = Ledger::default();
    let place = ledger.place(applied.applier);
    let own = &mut ledger.entries_mut()[place];
    own.fields = set.to_json();
    own.time = Some(applied.now.to_owned());
    ledger
}

/// Returns the part of a configuration that an applier of this subresource has a say in.
pub(crate) fn relevant(mut config: Value, subresource: &str, has_status: bool) -> Value {
    let Some(fields) = config.as_object_mut() else {
        return config;
    };
    if subresource.is_empty() {
        if has_status {
            fields.remove("status");
        }
        return config;
    }
    fields.retain(|name, _| ["apiVersion", "kind", "metadata", "status"].contains(&name.as_str()));
    if let Some(meta) = fields.get_mut("metadata").and_then(Value::as_object_mut) {
        let named = ["name", "namespace", "uid", "resourceVersion"];
        let kept: Map<String, Value> = std::mem::take(meta)
            .into_iter()
            .filter(|(name, _)| named.contains(&name.as_str()))
            .collect();
        *meta = kept;
    }
    config
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{super::keys, *};

    fn topology() -> Topology<'static> {
        Topology::Table(keys::root("Pod"))
    }

    fn applier(name: &str) -> Manager {
        Manager {
            name: name.to_owned(),
            operation: Operation::Apply,
            api_version: "v1".to_owned(),
            subresource: String::new(),
        }
    }

    type State = (Value, Ledger);

    fn apply(state: &State, name: &str, config: &Value) -> Result<State, Vec<Conflict>> {
        let applied = Applied {
            config,
            applier: &applier(name),
            force: false,
            now: "2026-01-01T00:00:00Z",
        };
        turn(topology(), &state.0, state.1.clone(), &applied)
    }

    /// What nobody applied, with somebody to own it.
    fn start() -> State {
        let live = json!({ "metadata": { "labels": { "z": "0" } }, "spec": { "priority": 0 } });
        let mut ledger = Ledger::default();
        let place = ledger.place(&applier("base"));
        let entry = &mut ledger.entries_mut()[place];
        entry.fields = owned(topology(), &live).to_json();
        (live, ledger)
    }

    /// A configuration whose labels, finalizers and containers all have names with this prefix.
    fn any_config(prefix: &'static str) -> impl Strategy<Value = Value> {
        let name = move |number: u8| format!("{prefix}{number}");
        let labels = prop::collection::btree_map(0..4_u8, "[ab]", 0..4);
        let finalizers = prop::collection::btree_set(0..4_u8, 0..3);
        let env = prop::collection::btree_map(0..3_u8, "[ab]", 0..3);
        let containers = prop::collection::btree_map(0..3_u8, env, 0..3);
        (labels, finalizers, containers).prop_map(move |(labels, finalizers, containers)| {
            let labels: Map<String, Value> = labels
                .into_iter()
                .map(|(number, text)| (name(number), Value::from(text)))
                .collect();
            let finalizers: Vec<String> = finalizers.into_iter().map(name).collect();
            let containers: Vec<Value> = containers
                .into_iter()
                .map(|(number, env)| {
                    let env: Vec<Value> = env
                        .into_iter()
                        .map(|(number, text)| json!({ "name": name(number), "value": text }))
                        .collect();
                    json!({ "name": name(number), "image": "i", "env": env })
                })
                .collect();
            json!({
                "metadata": { "labels": labels, "finalizers": finalizers },
                "spec": { "containers": containers },
            })
        })
    }

    /// Takes away what says nothing, in any depth, and the order of lists.
    fn essence(value: &Value) -> Value {
        match value {
            Value::Object(fields) => {
                let fields = fields
                    .iter()
                    .map(|(name, value)| (name.clone(), essence(value)));
                let said = |value: &Value| !super::super::compare::is_empty(Some(value));
                Value::Object(fields.filter(|(_, value)| said(value)).collect())
            }
            Value::Array(items) => {
                let mut items: Vec<Value> = items.iter().map(essence).collect();
                items.sort_by_key(ToString::to_string);
                Value::Array(items)
            }
            scalar => scalar.clone(),
        }
    }

    proptest! {
        /// But for empty lists, which nobody owns: they come and go, in Kubernetes too.
        #[test]
        fn applying_twice_is_applying_once(one in any_config("a"), other in any_config("a")) {
            let first = apply(&start(), "x", &other).unwrap();
            let once = apply(&first, "x", &one).unwrap();
            let twice = apply(&once, "x", &one).unwrap();
            prop_assert_eq!(essence(&once.0), essence(&twice.0));
            prop_assert!(once.1.agrees(&twice.1));
        }

        #[test]
        fn appliers_of_different_fields_commute(one in any_config("a"), other in any_config("b")) {
            let ab = apply(&apply(&start(), "x", &one).unwrap(), "y", &other).unwrap();
            let ba = apply(&apply(&start(), "y", &other).unwrap(), "x", &one).unwrap();
            prop_assert_eq!(essence(&ab.0), essence(&ba.0));
            prop_assert!(ab.1.agrees(&ba.1));
        }

        #[test]
        fn applying_nothing_takes_everything_back(one in any_config("a"), other in any_config("b")) {
            let before = apply(&start(), "y", &other).unwrap();
            let with = apply(&before, "x", &one).unwrap();
            let without = apply(&with, "x", &json!({})).unwrap();
            prop_assert_eq!(essence(&without.0), essence(&before.0));
            prop_assert!(without.1.agrees(&before.1));
        }

        /// Whatever two appliers say, the object is what the one that was heard last says of its fields.
        #[test]
        fn an_applier_gets_its_way_or_a_conflict(one in any_config("a"), other in any_config("a")) {
            let first = apply(&start(), "x", &one).unwrap();
            match apply(&first, "y", &other) {
                Ok((next, _)) => prop_assert_eq!(merge(topology(), &next, &other), next),
                Err(conflicts) => prop_assert_eq!(&conflicts[0].owner.name, "x"),
            }
        }
    }
}
