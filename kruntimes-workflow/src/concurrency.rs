//! Who may run: WorkflowRuns of one group, and jobs of one WorkflowRun (W-203).
//!
//! Nothing is counted and nothing is handed over: whoever decides looks at the
//! objects that live. One that is gone, or over, or being deleted holds nothing.

use std::collections::BTreeMap;

use kruntimes_core::api::{ConcurrencyPolicy, JobPhase, JobStatus};
use kruntimes_core::time::Time;

use crate::extend::Choose;

/// A live WorkflowRun of a group: neither over nor being deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contender {
    /// Its name.
    pub name: String,
    /// When it was created.
    pub created: Time,
    /// What it does to older ones.
    pub policy: ConcurrencyPolicy,
    /// Whether it was accepted, and so holds the group.
    pub holds: bool,
    /// Whether it was asked to cancel.
    pub cancelling: bool,
}

impl Contender {
    /// Age decides; equal ages are decided by name, so that everyone sees the same order.
    fn rank(&self) -> (Time, &str) {
        (self.created, &self.name)
    }
}

/// What a group says about one of its members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It may run.
    Run,
    /// It waits for this one.
    Behind(String),
    /// This one replaces it: it is to be cancelled.
    ReplacedBy(String),
}

/// Decides about a member of a group; `rivals` are the other live ones, in any order.
pub fn admit(own: &Contender, rivals: &[Contender]) -> Admission {
    let younger = rivals.iter().filter(|rival| rival.rank() > own.rank());
    let replaces = |rival: &&Contender| {
        !rival.cancelling
            && match rival.policy {
                ConcurrencyPolicy::Queue => false,
                ConcurrencyPolicy::CancelPending => !own.holds,
                ConcurrencyPolicy::CancelRunning => true,
            }
    };
    if let Some(by) = younger.filter(replaces).max_by_key(|rival| rival.rank()) {
        return Admission::ReplacedBy(by.name.clone());
    }
    if own.holds {
        return Admission::Run;
    }
    // Who waits and was asked to cancel never runs; who is older and replaced by us neither.
    let waits = |rival: &&Contender| {
        !rival.holds && !rival.cancelling && own.policy == ConcurrencyPolicy::Queue
    };
    let before = |rival: &&Contender| rival.rank() < own.rank();
    let holder = rivals.iter().filter(|rival| rival.holds);
    let first = holder.min_by_key(|rival| rival.rank()).or_else(|| {
        let waiting = rivals.iter().filter(waits).filter(before);
        waiting.min_by_key(|rival| rival.rank())
    });
    match first {
        Some(rival) => Admission::Behind(rival.name.clone()),
        None => Admission::Run,
    }
}

/// Picks the jobs that may start while at most `max` run; `ready` is sorted.
///
/// Jobs that have started always go on.
pub fn pick<'a>(
    jobs: &BTreeMap<String, JobStatus>,
    mut ready: Vec<&'a str>,
    max: Option<u32>,
    choose: Option<&dyn Choose>,
) -> Vec<&'a str> {
    let Some(max) = max else { return ready };
    let running = |job: &&JobStatus| job.phase == JobPhase::Running;
    let running = jobs.values().filter(running).count();
    let free = usize::try_from(max)
        .unwrap_or(usize::MAX)
        .saturating_sub(running);
    if let Some(choose) = choose {
        let known = ready.clone();
        choose.order(&mut ready);
        // An order adds nobody and repeats nobody.
        ready.retain(|name| known.contains(name));
        let mut seen = std::collections::BTreeSet::new();
        ready.retain(|name| seen.insert(*name));
    }
    ready.truncate(free);
    ready.sort_unstable();
    ready
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64, name: &str, policy: ConcurrencyPolicy) -> Contender {
        Contender {
            name: name.to_owned(),
            created: Time(jiff::Timestamp::from_second(second).unwrap()),
            policy,
            ..Contender::default()
        }
    }

    fn holding(contender: Contender) -> Contender {
        Contender {
            holds: true,
            ..contender
        }
    }

    fn cancelling(contender: Contender) -> Contender {
        Contender {
            cancelling: true,
            ..contender
        }
    }

    use ConcurrencyPolicy::{CancelPending, CancelRunning, Queue};

    fn decides(case: &str, own: &Contender, mut rivals: Vec<Contender>, want: &Admission) {
        assert_eq!(admit(own, &rivals), *want, "{case}");
        rivals.reverse();
        assert_eq!(admit(own, &rivals), *want, "{case}, in another order");
    }

    #[test]
    fn w_203_one_of_a_group_runs_at_a_time() {
        let run = || Admission::Run;
        let behind = |name: &str| Admission::Behind(name.to_owned());
        let b = |policy| at(2, "b", policy);
        for (case, own, rivals, want) in [
            ("alone", b(Queue), vec![], run()),
            (
                "behind the holder",
                b(Queue),
                vec![holding(at(1, "a", Queue))],
                behind("a"),
            ),
            // A younger one that was faster holds the group all the same.
            (
                "behind a younger holder",
                b(Queue),
                vec![holding(at(3, "c", Queue))],
                behind("c"),
            ),
            (
                "behind the oldest that waits",
                b(Queue),
                vec![at(1, "a", Queue)],
                behind("a"),
            ),
            (
                "before the younger",
                b(Queue),
                vec![at(3, "c", Queue)],
                run(),
            ),
            (
                "equal ages go by name",
                b(Queue),
                vec![at(2, "a", Queue)],
                behind("a"),
            ),
            (
                "the holder goes on",
                holding(b(Queue)),
                vec![at(1, "a", Queue)],
                run(),
            ),
            (
                "who is cancelled before it ran is not in the way",
                b(Queue),
                vec![cancelling(at(1, "a", Queue))],
                run(),
            ),
            (
                "who is cancelled while it runs holds to its end",
                b(Queue),
                vec![cancelling(holding(at(1, "a", Queue)))],
                behind("a"),
            ),
        ] {
            decides(case, &own, rivals, &want);
        }
    }

    #[test]
    fn w_203_younger_members_replace_older_ones_as_their_policy_says() {
        let run = || Admission::Run;
        let behind = |name: &str| Admission::Behind(name.to_owned());
        let replaced = |name: &str| Admission::ReplacedBy(name.to_owned());
        let b = |policy| at(2, "b", policy);
        for (case, own, rivals, want) in [
            (
                "newest wins",
                holding(b(Queue)),
                vec![at(3, "c", CancelRunning)],
                replaced("c"),
            ),
            (
                "the newest of several",
                b(Queue),
                vec![at(3, "c", CancelRunning), at(4, "d", CancelRunning)],
                replaced("d"),
            ),
            (
                "one that is cancelled itself replaces nobody",
                holding(b(Queue)),
                vec![cancelling(at(3, "c", CancelRunning))],
                run(),
            ),
            (
                "who runs is left alone",
                holding(b(Queue)),
                vec![at(3, "c", CancelPending)],
                run(),
            ),
            (
                "who waits is not",
                b(Queue),
                vec![at(3, "c", CancelPending)],
                replaced("c"),
            ),
            (
                "the newest waits until the old one is over",
                b(CancelRunning),
                vec![holding(at(1, "a", Queue))],
                behind("a"),
            ),
            (
                "the newest does not queue behind those it replaces",
                b(CancelRunning),
                vec![at(1, "a", Queue)],
                run(),
            ),
        ] {
            decides(case, &own, rivals, &want);
        }
    }

    #[test]
    fn case_145_exactly_the_newest_of_a_group_survives() {
        let mut five: Vec<Contender> = (1..=5)
            .map(|n| at(n, &format!("pr-1-{n}"), CancelRunning))
            .collect();
        // The first had begun; the group of another pull request is never among the rivals.
        five[0].holds = true;
        let decide = |five: &[Contender], at: usize| {
            let mut rivals = five.to_vec();
            let own = rivals.remove(at);
            admit(&own, &rivals)
        };
        for at in 0..4 {
            let replaced = Admission::ReplacedBy("pr-1-5".into());
            assert_eq!(decide(&five, at), replaced, "number {}", at + 1);
        }
        assert_eq!(decide(&five, 4), Admission::Behind("pr-1-1".into()));
        // Those that never began release nothing: only the end of the holder does.
        five.drain(1..4);
        assert_eq!(decide(&five, 1), Admission::Behind("pr-1-1".into()));
        five.remove(0);
        assert_eq!(decide(&five, 0), Admission::Run);
    }

    /// Case 143: whoever leaves, in any way, frees the group; nothing is counted.
    #[test]
    fn w_203_a_group_is_free_as_soon_as_its_holder_is_gone() {
        let mut live = vec![
            holding(at(1, "a", Queue)),
            at(2, "b", Queue),
            at(3, "c", Queue),
        ];
        let decide = |live: &[Contender], name: &str| {
            let own = live.iter().find(|one| one.name == name).unwrap().clone();
            let rivals: Vec<_> = live
                .iter()
                .filter(|one| one.name != name)
                .cloned()
                .collect();
            admit(&own, &rivals)
        };
        assert_eq!(decide(&live, "b"), Admission::Behind("a".into()));
        live.remove(0);
        assert_eq!(decide(&live, "b"), Admission::Run);
        assert_eq!(decide(&live, "c"), Admission::Behind("b".into()));
        live.remove(0);
        assert_eq!(decide(&live, "c"), Admission::Run);
    }

    #[test]
    fn w_203_at_most_so_many_jobs_run_and_an_order_may_be_plugged_in() {
        let running = JobStatus {
            phase: JobPhase::Running,
            ..JobStatus::default()
        };
        let jobs = [
            ("r".to_owned(), running),
            ("a".to_owned(), JobStatus::default()),
        ]
        .into();
        let ready = || vec!["a", "b", "c"];
        let backwards = |ready: &mut Vec<&str>| {
            ready.reverse();
            ready.push("ghost");
            ready.push("c");
        };
        let backwards: &dyn Choose = &backwards;
        for (max, choose, want) in [
            (None, None, vec!["a", "b", "c"]),
            (Some(1), None, vec![]),
            (Some(2), None, vec!["a"]),
            (Some(3), None, vec!["a", "b"]),
            (Some(2), Some(backwards), vec!["c"]),
            (Some(3), Some(backwards), vec!["b", "c"]),
            (Some(9), Some(backwards), vec!["a", "b", "c"]),
        ] {
            assert_eq!(pick(&jobs, ready(), max, choose), want, "{max:?}");
        }
    }
}
