//! Who is planned when.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use jiff::Timestamp;

use crate::calculate::guarded;
use crate::identity::{GroupKey, Namespace, RunUid};
use crate::profile::Profile;
use crate::run::Run;

/// Runs that are placed all or none; most are alone.
pub(super) type Unit = Vec<Arc<Run>>;

/// Puts Runs into the order in which they are planned: QueueSort within each tenant, tenants in turn.
///
/// A group is where its first member is.
pub(super) fn units(profile: &Profile, runs: Vec<Arc<Run>>, now: Timestamp) -> Vec<Unit> {
    let mut groups: BTreeMap<(Namespace, GroupKey), usize> = BTreeMap::new();
    let mut units: Vec<Unit> = Vec::new();
    for run in turns(profile, runs, now) {
        let group = run.group.clone();
        let Some(group) = group.map(|group| (run.namespace.clone(), group)) else {
            units.push(vec![run]);
            continue;
        };
        let at = *groups.entry(group).or_insert(units.len());
        match units.get_mut(at) {
            Some(unit) => unit.push(run),
            None => units.push(vec![run]),
        }
    }
    units
}

fn turns(profile: &Profile, mut runs: Vec<Arc<Run>>, now: Timestamp) -> Vec<Arc<Run>> {
    profile.sort(&mut runs, now);
    let Some(entry) = profile.splitter.first() else {
        return runs;
    };
    let mut tenants: BTreeMap<Arc<str>, VecDeque<Arc<Run>>> = BTreeMap::new();
    for run in runs {
        // Whoever cannot be told apart shares one turn.
        let tenant = guarded(entry.name, || entry.plugin.tenant(&run)).unwrap_or_default();
        tenants.entry(tenant).or_default().push_back(run);
    }
    let mut order = Vec::new();
    while !tenants.is_empty() {
        for (tenant, waiting) in &mut tenants {
            let weight = guarded(entry.name, || entry.plugin.weight(tenant)).unwrap_or(1);
            let turn = usize::try_from(weight.max(1)).unwrap_or(usize::MAX);
            order.extend(waiting.drain(..turn.min(waiting.len())));
        }
        tenants.retain(|_, waiting| !waiting.is_empty());
    }
    order
}

/// Keeps the first of several Runs with the same identity.
pub(super) fn deduplicated<T>(items: Vec<T>, run: impl Fn(&T) -> &Run) -> Vec<T> {
    let mut seen: BTreeSet<(Namespace, RunUid)> = BTreeSet::new();
    let mut kept = Vec::with_capacity(items.len());
    for item in items {
        let key = (run(&item).namespace.clone(), run(&item).uid.clone());
        if seen.insert(key) {
            kept.push(item);
        }
    }
    kept
}
