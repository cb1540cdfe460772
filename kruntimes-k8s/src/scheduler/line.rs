//! The Runs that a cycle turned away, and to which of them a change is offered (S-163).
//!
//! Runs that ask for the same and were turned away by the same plugins form a
//! group: what does not help one of them does not help the others. Room on a
//! Pod is offered to as many Runs as it holds. Each that was woken for it
//! comes back with its [`Ticket`]: what it did not take goes to the next, and
//! a group that was turned away is not asked again before something changes.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use kruntimes_core::resources;
use kruntimes_sched::{EventKind, Occupancy, Pod, PodName, Run, RunUid, WorkspaceName};
use serde_json::json;

use super::recorder::Source;
use crate::cache::ObjectKey;

/// What a Run asks for, as text.
type Needs = Arc<str>;
/// What makes Runs of one pool alike: their needs, and who turned them away.
type Shape = (Needs, Vec<&'static str>);
/// The older Run first; one of unknown age is younger than all.
type Rank = (bool, Option<Timestamp>, RunUid);

/// A Pod on which there may be room, and how that became known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ticket {
    /// Namespace and name of the Runtime.
    pub(super) pool: ObjectKey,
    pub(super) pod: PodName,
    pub(super) kind: EventKind,
    /// What the wake-ups are counted as; not at all when absent.
    pub(super) source: Option<Source>,
}

/// Runs that are alike, in their order.
type Group = BTreeMap<Rank, Arc<Run>>;

/// Which of two Runs goes first.
pub(super) type Order<'a> = dyn Fn(&Run, &Run) -> Ordering + 'a;

/// How room is handed out.
pub(super) struct Rules<'a> {
    /// Whether room can help Runs that these plugins turned away.
    pub(super) helps: &'a dyn Fn(&[&'static str]) -> bool,
    /// The order of the queue, where it is another than age.
    pub(super) order: Option<&'a Order<'a>>,
    /// Whether a Run is to be left out.
    pub(super) skip: &'a dyn Fn(&ObjectKey) -> bool,
}

/// Everybody who waits for a change.
#[derive(Debug, Default)]
pub(super) struct Line {
    pools: BTreeMap<ObjectKey, BTreeMap<Shape, Group>>,
    places: BTreeMap<ObjectKey, (Shape, Arc<Run>)>,
    offered: BTreeMap<ObjectKey, (Ticket, Arc<Run>)>,
    tried: BTreeMap<(ObjectKey, PodName), BTreeSet<Needs>>,
}

impl Line {
    /// Takes in a Run that was turned away; `alike` says whether others with the same needs would be too.
    pub(super) fn wait(
        &mut self,
        run: &Arc<Run>,
        rejected_by: Vec<&'static str>,
        alike: bool,
        ticket: Option<&Ticket>,
    ) {
        let key = key_of(run);
        self.leave(&key);
        let needs = needs_of(run, alike);
        if let Some(ticket) = ticket {
            let offer = (ticket.pool.clone(), ticket.pod.clone());
            let tried = self.tried.entry(offer).or_default();
            tried.insert(Arc::clone(&needs));
        }
        let pool = self.pools.entry(pool_of(run)).or_default();
        let shape = (needs, rejected_by);
        let group = pool.entry(shape.clone()).or_default();
        group.insert(rank_of(run), Arc::clone(run));
        self.places.insert(key, (shape, Arc::clone(run)));
    }

    /// Takes a Run out, and returns what it was woken for.
    pub(super) fn leave(&mut self, key: &ObjectKey) -> Option<Ticket> {
        self.remove(key);
        self.offered.remove(key).map(|(ticket, _)| ticket)
    }

    /// Takes a Run out that waits no longer; what it was woken for stays promised until its turn.
    pub(super) fn dismiss(&mut self, key: &ObjectKey) {
        self.remove(key);
    }

    fn remove(&mut self, key: &ObjectKey) -> Option<Arc<Run>> {
        let (shape, run) = self.places.remove(key)?;
        let pool = pool_of(&run);
        if let Some(groups) = self.pools.get_mut(&pool) {
            if let Some(group) = groups.get_mut(&shape) {
                group.remove(&rank_of(&run));
                if group.is_empty() {
                    groups.remove(&shape);
                }
            }
            if groups.is_empty() {
                self.pools.remove(&pool);
            }
        }
        Some(run)
    }

    /// Returns who turned a Run away, if it waits.
    pub(super) fn rejected_by(&self, key: &ObjectKey) -> Option<(&Arc<Run>, &[&'static str])> {
        let ((_, rejected_by), run) = self.places.get(key)?;
        Some((run, rejected_by))
    }

    /// Takes out every Run of a pool that a change helps, asking once for those that are alike.
    pub(super) fn take(
        &mut self,
        pool: &ObjectKey,
        helps: impl Fn(&Run, &[&'static str]) -> bool,
    ) -> Vec<ObjectKey> {
        let groups = self.pools.get(pool);
        let helped: Vec<ObjectKey> = groups
            .into_iter()
            .flatten()
            .filter(|((_, rejected_by), group)| {
                let first = group.values().next();
                first.is_some_and(|run| helps(run, rejected_by))
            })
            .flat_map(|(_, group)| group.values().map(|run| key_of(run)))
            .collect();
        for key in &helped {
            self.remove(key);
        }
        helped
    }

    /// Forgets who was turned away since the Pod last changed.
    pub(super) fn reopen(&mut self, ticket: &Ticket) {
        let offer = (ticket.pool.clone(), ticket.pod.clone());
        self.tried.remove(&offer);
    }

    /// Takes out as many Runs as a Pod has room for.
    pub(super) fn offer(
        &mut self,
        ticket: &Ticket,
        pod: &Pod,
        occupancy: &Occupancy,
        rules: &Rules<'_>,
    ) -> Vec<ObjectKey> {
        let mut usage = occupancy.usage().clone();
        let mut exclusive = occupancy.holds().any(|hold| hold.run.exclusive);
        let mut empty = occupancy.holds().next().is_none();
        for (promised, run) in self.offered.values() {
            if promised.pool == ticket.pool && promised.pod == ticket.pod {
                resources::add(&mut usage, &run.request);
                exclusive |= run.exclusive;
                empty = false;
            }
        }
        let mut woken = Vec::new();
        while let Some(run) = self.first(ticket, rules, |run| {
            (empty || !(run.exclusive || exclusive))
                && resources::fits(&run.request, &usage, &pod.capacity)
        }) {
            let key = key_of(&run);
            self.remove(&key);
            resources::add(&mut usage, &run.request);
            exclusive |= run.exclusive;
            empty = false;
            self.offered.insert(key.clone(), (ticket.clone(), run));
            woken.push(key);
        }
        woken
    }

    /// Returns the Run that the room is offered to first.
    fn first(
        &self,
        ticket: &Ticket,
        rules: &Rules<'_>,
        fits: impl Fn(&Run) -> bool,
    ) -> Option<Arc<Run>> {
        let tried = self.tried.get(&(ticket.pool.clone(), ticket.pod.clone()));
        let order = |a: &Run, b: &Run| match rules.order {
            Some(order) => order(a, b),
            None => rank_of(a).cmp(&rank_of(b)),
        };
        let groups = self.pools.get(&ticket.pool)?.iter();
        let open = groups.filter(|((needs, rejected_by), _)| {
            tried.is_none_or(|tried| !tried.contains(needs)) && (rules.helps)(rejected_by)
        });
        let heads = open.filter_map(|(_, group)| {
            let mut members = group.values();
            let mut willing = members.clone().filter(|run| !(rules.skip)(&key_of(run)));
            // All members ask for the same: one that does not fit speaks for all.
            members.next().filter(|run| fits(run))?;
            match rules.order {
                Some(_) => willing.min_by(|a, b| order(a, b)),
                None => willing.next(),
            }
        });
        heads.min_by(|a, b| order(a, b)).map(Arc::clone)
    }
}

fn key_of(run: &Run) -> ObjectKey {
    ObjectKey::new(run.namespace.as_str(), run.name.as_str())
}

fn pool_of(run: &Run) -> ObjectKey {
    ObjectKey::new(run.namespace.as_str(), run.runtime.as_str())
}

fn rank_of(run: &Run) -> Rank {
    (run.created.is_none(), run.created, run.uid.clone())
}

/// Names what the Run asks for; the labels count where affinity may look at them.
fn needs_of(run: &Run, alike: bool) -> Needs {
    let labels = run.affinity.is_some().then_some(&*run.labels);
    let needs = json!({
        "request": *run.request,
        "affinity": run.affinity.as_deref(),
        "labels": labels,
        "workspace": run.workspace.as_ref().map(WorkspaceName::as_str),
        "exclusive": run.exclusive,
        "uid": (!alike).then_some(run.uid.as_str()),
    });
    needs.to_string().into()
}

#[cfg(test)]
mod tests {
    use kruntimes_core::quantity::Quantity;

    use super::*;

    const AWAY: &str = "RuntimePodAvailability";

    fn amount(runs: u32) -> Quantity {
        runs.to_string().parse().unwrap()
    }

    fn run(name: &str, second: i64, runs: u32) -> Arc<Run> {
        let request = [("runs".to_owned(), amount(runs))].into();
        let mut run = Run::new("ns", name, name);
        run.runtime = "python".into();
        run.created = Some(Timestamp::from_second(second).unwrap());
        run.request = Arc::new(request);
        Arc::new(run)
    }

    fn pod(runs: u32) -> Pod {
        let capacity = [("runs".to_owned(), amount(runs))].into();
        Pod {
            capacity: Arc::new(capacity),
            ..Pod::new("p", "p1")
        }
    }

    fn ticket() -> Ticket {
        Ticket {
            pool: ObjectKey::new("ns", "python"),
            pod: "p".into(),
            kind: EventKind::CapacityReleased,
            source: None,
        }
    }

    fn offered(line: &mut Line, pod: &Pod) -> Vec<String> {
        let rules = Rules {
            helps: &|_| true,
            order: None,
            skip: &|_| false,
        };
        let woken = line.offer(&ticket(), pod, &Occupancy::default(), &rules);
        woken.into_iter().map(|key| key.name).collect()
    }

    #[test]
    fn s_163_room_is_offered_to_as_many_as_it_holds_the_oldest_first() {
        let mut line = Line::default();
        for (name, second) in [("c", 3), ("a", 2), ("b", 1), ("d", 4)] {
            line.wait(&run(name, second, 1), vec![AWAY], true, None);
        }
        assert_eq!(offered(&mut line, &pod(2)), ["b", "a"]);
        assert!(offered(&mut line, &pod(2)).is_empty(), "it is promised");
        let ticket = line.leave(&ObjectKey::new("ns", "b"));
        assert_eq!(ticket, Some(self::ticket()));
        assert_eq!(offered(&mut line, &pod(2)), ["c"]);
    }

    #[test]
    fn s_163_what_one_did_not_take_goes_to_others_that_are_not_alike() {
        let mut line = Line::default();
        for (name, second, runs) in [("a", 1, 1), ("b", 2, 1), ("big", 3, 9), ("x", 4, 2)] {
            line.wait(&run(name, second, runs), vec![AWAY], true, None);
        }
        assert_eq!(offered(&mut line, &pod(1)), ["a"]);
        let ticket = line.leave(&ObjectKey::new("ns", "a"));
        line.wait(&run("a", 1, 1), vec![AWAY], true, ticket.as_ref());
        assert_eq!(
            offered(&mut line, &pod(2)),
            ["x"],
            "b is like a, big is too big"
        );
        line.leave(&ObjectKey::new("ns", "x"));
        line.reopen(&self::ticket());
        assert_eq!(offered(&mut line, &pod(2)), ["a", "b"]);
    }

    #[test]
    fn s_163_a_run_that_was_turned_away_for_reasons_of_its_own_speaks_for_itself_alone() {
        let mut line = Line::default();
        for name in ["a", "b"] {
            line.wait(&run(name, 1, 1), vec!["Custom"], false, None);
        }
        let helps = |run: &Run, by: &[&'static str]| by == ["Custom"] && run.name.as_str() == "b";
        let pool = ObjectKey::new("ns", "python");
        assert_eq!(line.take(&pool, helps), [ObjectKey::new("ns", "b")]);
        assert_eq!(line.take(&pool, helps), []);
        let (_, by) = line.rejected_by(&ObjectKey::new("ns", "a")).unwrap();
        assert_eq!(by, ["Custom"]);
    }

    #[test]
    fn s_54_an_exclusive_run_is_offered_an_empty_pod_and_all_of_it() {
        let mut line = Line::default();
        for (name, second) in [("a", 1), ("b", 2)] {
            let mut session = Run::clone(&run(name, second, 1));
            session.exclusive = true;
            line.wait(&Arc::new(session), vec![AWAY], true, None);
        }
        line.wait(&run("task", 3, 1), vec![AWAY], true, None);
        assert_eq!(offered(&mut line, &pod(9)), ["a"]);
    }
}
