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
