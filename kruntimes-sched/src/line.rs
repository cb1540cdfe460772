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

use kruntimes_core::resources;
use serde_json::json;

use crate::event::EventKind;
use crate::identity::{Namespace, PodName, PoolKey, RunKey, WorkspaceName};
use crate::occupancy::Occupancy;
use crate::pod::Pod;
use crate::register::{Keyed, Register};
use crate::run::Run;

/// What a Run asks for, as text.
type Needs = Arc<str>;

/// What makes Runs of one pool alike.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Shape {
    needs: Needs,
    rejected_by: Vec<&'static str>,
}

/// A Pod on which there may be room, and how that became known.
///
/// `S` is whatever the caller wants to know when Runs are woken for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ticket<S> {
    /// The pool of the Pod.
    pub pool: PoolKey,
    /// The Pod.
    pub pod: PodName,
    /// What happened.
    pub kind: EventKind,
    /// Anything the caller adds.
    pub source: S,
}

/// A Run in its group. The older one first; one of unknown age is younger than all.
#[derive(Clone, Debug)]
struct Member(Arc<Run>);

impl Ord for Member {
    fn cmp(&self, other: &Self) -> Ordering {
        by_age(&self.0, &other.0)
    }
}

impl PartialOrd for Member {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Member {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Member {}

fn by_age(a: &Run, b: &Run) -> Ordering {
    let age = |run: &Run| (run.created.is_none(), run.created);
    age(a).cmp(&age(b)).then_with(|| a.uid.cmp(&b.uid))
}

/// Runs that are alike, in their order.
type Group = BTreeSet<Member>;

/// Where a Run stands in the line.
#[derive(Debug)]
struct Standing {
    shape: Arc<Shape>,
    run: Arc<Run>,
}

impl Keyed for Standing {
    type Key = str;

    fn key(&self) -> &str {
        self.run.name.as_str()
    }
}

/// Which of two Runs goes first.
pub type Precedence<'a> = dyn Fn(&Run, &Run) -> Ordering + 'a;

/// How room is handed out.
pub struct Handout<'a> {
    /// Whether room can help Runs that these plugins turned away.
    pub helps: &'a dyn Fn(&[&'static str]) -> bool,
    /// The order of the queue, where it is another than age.
    pub order: Option<&'a Precedence<'a>>,
    /// Whether a Run is to be left out.
    pub skip: &'a dyn Fn(&RunKey) -> bool,
}

/// A Pod of a pool.
type Spot = (PoolKey, PodName);

/// Everybody who waits for a change.
#[derive(Debug)]
pub struct Line<S> {
    pools: BTreeMap<PoolKey, BTreeMap<Arc<Shape>, Group>>,
    standing: BTreeMap<Namespace, Register<Standing>>,
    offered: BTreeMap<RunKey, Ticket<S>>,
    /// To whom room of a Pod is promised.
    promised: BTreeMap<Spot, BTreeMap<RunKey, Arc<Run>>>,
    tried: BTreeMap<Spot, BTreeSet<Needs>>,
}

impl<S> Default for Line<S> {
    fn default() -> Self {
        Self {
            pools: BTreeMap::new(),
            standing: BTreeMap::new(),
            offered: BTreeMap::new(),
            promised: BTreeMap::new(),
            tried: BTreeMap::new(),
        }
    }
}

impl<S: Clone> Line<S> {
    /// Takes in a Run that was turned away; `alike` says whether others with the same needs would be too.
    pub fn wait(
        &mut self,
        run: &Arc<Run>,
        rejected_by: Vec<&'static str>,
        alike: bool,
        ticket: Option<&Ticket<S>>,
    ) {
        self.leave(&RunKey::of(run));
        let needs = needs_of(run, alike);
        if let Some(ticket) = ticket {
            let tried = self.tried.entry(spot_of(ticket)).or_default();
            tried.insert(Arc::clone(&needs));
        }
        let pool = self.pools.entry(PoolKey::of(run)).or_default();
        let shape = Shape { needs, rejected_by };
        let shape = match pool.get_key_value(&shape) {
            Some((known, _)) => Arc::clone(known),
            None => Arc::new(shape),
        };
        let group = pool.entry(Arc::clone(&shape)).or_default();
        group.insert(Member(Arc::clone(run)));
        let names = self.standing.entry(run.namespace.clone()).or_default();
        let run = Arc::clone(run);
        names.insert(Standing { shape, run });
    }

    /// Takes a Run out, and returns what it was woken for.
    pub fn leave(&mut self, key: &RunKey) -> Option<Ticket<S>> {
        self.remove(key);
        let ticket = self.offered.remove(key)?;
        let spot = spot_of(&ticket);
        if let Some(promised) = self.promised.get_mut(&spot) {
            promised.remove(key);
            if promised.is_empty() {
                self.promised.remove(&spot);
            }
        }
        Some(ticket)
    }

    /// Takes a Run out that waits no longer; what it was woken for stays promised until its turn.
    pub fn dismiss(&mut self, key: &RunKey) {
        self.remove(key);
    }

    fn remove(&mut self, key: &RunKey) {
        let Some(names) = self.standing.get_mut(&key.namespace) else {
            return;
        };
        let Some(Standing { shape, run }) = names.remove(key.name.as_str()) else {
            return;
        };
        if names.is_empty() {
            self.standing.remove(&key.namespace);
        }
        let pool = PoolKey::of(&run);
        if let Some(groups) = self.pools.get_mut(&pool) {
            if let Some(group) = groups.get_mut(&shape) {
                group.remove(&Member(run));
                if group.is_empty() {
                    groups.remove(&shape);
                }
            }
            if groups.is_empty() {
                self.pools.remove(&pool);
            }
        }
    }

    /// Returns who turned a Run away, if it waits.
    pub fn rejected_by(&self, key: &RunKey) -> Option<(&Arc<Run>, &[&'static str])> {
        let names = self.standing.get(&key.namespace)?;
        let Standing { shape, run } = names.get(key.name.as_str())?;
        Some((run, &shape.rejected_by))
    }

    /// Takes out every Run of a pool that a change helps, asking once for those that are alike.
    pub fn take(
        &mut self,
        pool: &PoolKey,
        helps: impl Fn(&Run, &[&'static str]) -> bool,
    ) -> Vec<RunKey> {
        let groups = self.pools.get(pool);
        let helped: Vec<RunKey> = groups
            .into_iter()
            .flatten()
            .filter(|(shape, group)| {
                let first = group.first();
                first.is_some_and(|Member(run)| helps(run, &shape.rejected_by))
            })
            .flat_map(|(_, group)| group.iter().map(|Member(run)| RunKey::of(run)))
            .collect();
        for key in &helped {
            self.remove(key);
        }
        helped
    }

    /// Forgets who was turned away since the Pod last changed.
    pub fn reopen(&mut self, ticket: &Ticket<S>) {
        self.tried.remove(&spot_of(ticket));
    }

    /// Takes out as many Runs as a Pod has room for, beside those it is promised to.
    pub fn offer(
        &mut self,
        ticket: &Ticket<S>,
        pod: &Pod,
        occupancy: &Occupancy,
        handout: &Handout<'_>,
    ) -> Vec<RunKey> {
        let mut usage = occupancy.usage().clone();
        let (held, exclusive) = occupancy.counts();
        let (mut empty, mut exclusive) = (held == 0, exclusive > 0);
        let promised = self.promised.get(&spot_of(ticket));
        for run in promised.into_iter().flat_map(BTreeMap::values) {
            resources::add(&mut usage, &run.request);
            exclusive |= run.exclusive;
            empty = false;
        }
        let mut woken = Vec::new();
        while let Some(run) = self.first(ticket, handout, |run| {
            (empty || !(run.exclusive || exclusive))
                && resources::fits(&run.request, &usage, &pod.capacity)
        }) {
            let key = RunKey::of(&run);
            self.remove(&key);
            resources::add(&mut usage, &run.request);
            exclusive |= run.exclusive;
            empty = false;
            let promised = self.promised.entry(spot_of(ticket)).or_default();
            promised.insert(key.clone(), run);
            self.offered.insert(key.clone(), ticket.clone());
            woken.push(key);
        }
        woken
    }

    /// Returns the Run that the room is offered to first.
    fn first(
        &self,
        ticket: &Ticket<S>,
        handout: &Handout<'_>,
        fits: impl Fn(&Run) -> bool,
    ) -> Option<Arc<Run>> {
        let tried = self.tried.get(&spot_of(ticket));
        let order = |a: &Run, b: &Run| match handout.order {
            Some(order) => order(a, b),
            None => by_age(a, b),
        };
        let groups = self.pools.get(&ticket.pool)?.iter();
        let open = groups.filter(|(shape, _)| {
            tried.is_none_or(|tried| !tried.contains(&shape.needs))
                && (handout.helps)(&shape.rejected_by)
        });
        let heads = open.filter_map(|(_, group)| {
            let mut members = group.iter().map(|Member(run)| run);
            let mut willing = members
                .clone()
                .filter(|run| !(handout.skip)(&RunKey::of(run)));
            // All members ask for the same: one that does not fit speaks for all.
            members.next().filter(|run| fits(run))?;
            match handout.order {
                Some(_) => willing.min_by(|a, b| order(a, b)),
                None => willing.next(),
            }
        });
        heads.min_by(|a, b| order(a, b)).map(Arc::clone)
    }
}

fn spot_of<S>(ticket: &Ticket<S>) -> Spot {
    (ticket.pool.clone(), ticket.pod.clone())
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
    use jiff::Timestamp;
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

    fn pool() -> PoolKey {
        PoolKey::of(&run("any", 1, 1))
    }

    fn key(name: &str) -> RunKey {
        RunKey::of(&run(name, 1, 1))
    }

    fn ticket() -> Ticket<()> {
        Ticket {
            pool: pool(),
            pod: "p".into(),
            kind: EventKind::CapacityReleased,
            source: (),
        }
    }

    fn offered(line: &mut Line<()>, pod: &Pod) -> Vec<String> {
        let handout = Handout {
            helps: &|_| true,
            order: None,
            skip: &|_| false,
        };
        let woken = line.offer(&ticket(), pod, &Occupancy::default(), &handout);
        woken.iter().map(|key| key.name.to_string()).collect()
    }

    #[test]
    fn s_163_room_is_offered_to_as_many_as_it_holds_the_oldest_first() {
        let mut line = Line::default();
        for (name, second) in [("c", 3), ("a", 2), ("b", 1), ("d", 4)] {
            line.wait(&run(name, second, 1), vec![AWAY], true, None);
        }
        assert_eq!(offered(&mut line, &pod(2)), ["b", "a"]);
        assert!(offered(&mut line, &pod(2)).is_empty(), "it is promised");
        let ticket = line.leave(&key("b"));
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
        let ticket = line.leave(&key("a"));
        line.wait(&run("a", 1, 1), vec![AWAY], true, ticket.as_ref());
        assert_eq!(
            offered(&mut line, &pod(2)),
            ["x"],
            "b is like a, big is too big"
        );
        line.leave(&key("x"));
        line.reopen(&self::ticket());
        assert_eq!(offered(&mut line, &pod(2)), ["a", "b"]);
    }

    #[test]
    fn s_163_a_run_that_was_turned_away_for_reasons_of_its_own_speaks_for_itself_alone() {
        let mut line = Line::<()>::default();
        for name in ["a", "b"] {
            line.wait(&run(name, 1, 1), vec!["Custom"], false, None);
        }
        let helps = |run: &Run, by: &[&'static str]| by == ["Custom"] && run.name.as_str() == "b";
        assert_eq!(line.take(&pool(), helps), [key("b")]);
        assert_eq!(line.take(&pool(), helps), []);
        let (_, by) = line.rejected_by(&key("a")).unwrap();
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
