//! Edges: unknown dependencies and cycles, found depth first in a stable order (W-14).

use std::collections::{BTreeMap, BTreeSet};

use super::{Invalid, Node, Problem};
use crate::location::Location;

/// One job on the current path and the dependencies still to visit.
struct Frame<'a> {
    job: &'a str,
    open: std::vec::IntoIter<&'a str>,
}

/// Checks that every dependency exists and that no job needs itself in the end.
pub(super) fn check<J: Node>(jobs: &BTreeMap<String, J>) -> Result<(), Invalid> {
    let mut done = BTreeSet::new();
    for name in jobs.keys() {
        visit(jobs, name, &mut done)?;
    }
    Ok(())
}

/// Walks without recursion, so that no input can exhaust the stack.
fn visit<'a, J: Node>(
    jobs: &'a BTreeMap<String, J>,
    root: &'a str,
    done: &mut BTreeSet<&'a str>,
) -> Result<(), Invalid> {
    let mut path: Vec<Frame<'a>> = Vec::new();
    let mut on_path = BTreeSet::new();
    let mut enter = Some(root);
    loop {
        if let Some(job) = enter.take()
            && !done.contains(job)
        {
            if !on_path.insert(job) {
                return Err(cycle(&path, job));
            }
            path.push(Frame {
                job,
                open: edges(jobs, job).into_iter(),
            });
        }
        let Some(frame) = path.last_mut() else {
            return Ok(());
        };
        if let Some(need) = frame.open.next() {
            if !jobs.contains_key(need) {
                let problem = Problem::UnknownNeed {
                    job: frame.job.to_owned(),
                    need: need.to_owned(),
                };
                return Err(problem.at(Location::job(frame.job).field("needs")));
            }
            enter = Some(need);
        } else {
            on_path.remove(frame.job);
            done.insert(frame.job);
            path.pop();
        }
    }
}

fn edges<'a, J: Node>(jobs: &'a BTreeMap<String, J>, job: &str) -> Vec<&'a str> {
    let needs = jobs.get(job).into_iter().flat_map(Node::needs);
    let unique: BTreeSet<_> = needs.collect();
    unique.into_iter().collect()
}

fn cycle(path: &[Frame<'_>], again: &str) -> Invalid {
    let round = path
        .iter()
        .map(|frame| frame.job)
        .skip_while(|job| *job != again);
    let names: Vec<_> = round.chain([again]).map(str::to_owned).collect();
    Problem::Cycle(names).at(Location::job(again).field("needs"))
}

#[cfg(test)]
mod tests {
    use kruntimes_core::api::Job;

    use super::*;

    fn graph(edges: &[(&str, &[&str])]) -> Result<(), String> {
        let jobs = edges
            .iter()
            .map(|(name, needs)| {
                let needs = needs.iter().map(|&need| need.to_owned()).collect();
                let job = Job {
                    needs,
                    ..Job::default()
                };
                ((*name).to_owned(), job)
            })
            .collect();
        check(&jobs).map_err(|invalid| invalid.to_string())
    }

    #[test]
    fn w_14_case_031_the_path_of_a_cycle_is_stable() {
        let cycle = |path: &str| Err(format!("workflow job dependency cycle: {path}"));
        for (edges, want) in [
            (&[("a", &["a"][..])][..], cycle("a -> a")),
            (
                &[("build", &["test"]), ("test", &["build"])],
                cycle("build -> test -> build"),
            ),
            (
                &[("a", &["b"]), ("b", &["c"]), ("c", &["a"])],
                cycle("a -> b -> c -> a"),
            ),
            // The path starts at the first repeated job, not at the first visited one.
            (
                &[("a", &["c"]), ("c", &["d"]), ("d", &["c"])],
                cycle("c -> d -> c"),
            ),
            (
                &[("a", &["ghost"])],
                Err("job \"a\" needs unknown job \"ghost\"".to_owned()),
            ),
            // An unknown name is reported when it is reached, before deeper cycles.
            (
                &[("a", &["aa", "b"]), ("b", &["a"])],
                Err("job \"a\" needs unknown job \"aa\"".to_owned()),
            ),
            (&[("a", &["b", "zz"]), ("b", &["a"])], cycle("a -> b -> a")),
        ] {
            assert_eq!(graph(edges), want, "{edges:?}");
        }
    }

    #[test]
    fn w_15_diamonds_and_double_edges_are_legal() {
        let diamond: &[(&str, &[&str])] = &[
            ("a", &[]),
            ("b", &["a", "a"]),
            ("c", &["a"]),
            ("d", &["c", "b", "a"]),
        ];
        assert_eq!(graph(diamond), Ok(()));
    }

    #[test]
    fn w_168_a_chain_of_any_length_needs_no_stack() {
        let names: Vec<_> = (0..20_000).map(|n| format!("{n:05}")).collect();
        let mut jobs = BTreeMap::new();
        for pair in names.windows(2) {
            let job = Job {
                needs: vec![pair[1].clone()],
                ..Job::default()
            };
            jobs.insert(pair[0].clone(), job);
        }
        jobs.insert(names[names.len() - 1].clone(), Job::default());
        assert!(check(&jobs).is_ok());
    }
}
