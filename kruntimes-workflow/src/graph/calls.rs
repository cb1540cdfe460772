//! Which Workflows call which: cycles, depth and size of the call graph.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use kruntimes_core::api::WorkflowSpec;
use kruntimes_core::limits::CALL_DEPTH_MAX;
use kruntimes_core::message::quoted;

use crate::definitions::{Definitions, Lookup};

/// Most distinct Workflows that are followed from one root (W-100).
pub const CALLED_WORKFLOWS_MAX: usize = 512;

/// Why a call graph may not be executed (W-98).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// A Workflow without a name is called.
    #[error("workflow name is required")]
    NameRequired,
    /// A Workflow does not exist.
    #[error("get workflow {}: not found", quoted(.0))]
    NotFound(String),
    /// Workflows call each other in a circle.
    #[error("workflow call cycle: {}", .0.join(" -> "))]
    Cycle(Vec<String>),
    /// A chain is too long.
    #[error("workflow call depth exceeds maximum {CALL_DEPTH_MAX}: {}", .0.join(" -> "))]
    TooDeep(Vec<String>),
    /// Too many Workflows are reachable.
    #[error("workflow call graph exceeds {CALLED_WORKFLOWS_MAX} workflows")]
    TooMany,
    /// Nothing is wrong so far, but these Workflows have to be read before more can be said.
    #[error("workflows are not read yet: {}", .0.iter().cloned().collect::<Vec<_>>().join(", "))]
    Unread(BTreeSet<String>),
}

/// Checks every Workflow reachable from `root`, itself included.
///
/// Equal graphs give equal texts, whoever asks (W-101). Missing reads are
/// reported for a whole level at once, before anything is judged.
///
/// # Errors
///
/// The first problem depth first, callees sorted; at one name cycle before
/// depth before lookup (W-99).
pub fn calls(root: &str, definitions: &Definitions) -> Result<(), CallError> {
    let unread = unread(root, definitions)?;
    if !unread.is_empty() {
        return Err(CallError::Unread(unread));
    }
    let mut walk = Walk {
        definitions,
        path: Vec::new(),
        deepest: BTreeMap::new(),
    };
    walk.visit(root)
}

/// Returns the Workflows that a spec calls, sorted and unique.
pub fn callees(spec: &WorkflowSpec) -> BTreeSet<&str> {
    spec.jobs
        .values()
        .filter_map(|job| job.uses.as_deref())
        .collect()
}

/// Finds what has to be read, level by level, so that few rounds of reading suffice.
fn unread(root: &str, definitions: &Definitions) -> Result<BTreeSet<String>, CallError> {
    let mut seen = BTreeSet::from([root]);
    let mut open = VecDeque::from([(root, 1)]);
    let mut unread = BTreeSet::new();
    while let Some((name, depth)) = open.pop_front() {
        match definitions.workflow(name) {
            Lookup::Unread if !name.is_empty() => {
                unread.insert(name.to_owned());
            }
            Lookup::Found(spec) if depth < CALL_DEPTH_MAX => {
                for callee in callees(spec) {
                    if seen.insert(callee) {
                        open.push_back((callee, depth + 1));
                    }
                }
                if seen.len() > CALLED_WORKFLOWS_MAX {
                    return Err(CallError::TooMany);
                }
            }
            Lookup::Unread | Lookup::Absent | Lookup::Found(_) => {}
        }
    }
    Ok(unread)
}

/// A depth-first walk; its recursion is as deep as a chain may be long.
struct Walk<'a> {
    definitions: &'a Definitions,
    path: Vec<&'a str>,
    /// Greatest depth at which a Workflow was found sound.
    deepest: BTreeMap<&'a str, usize>,
}

impl<'a> Walk<'a> {
    fn visit(&mut self, name: &'a str) -> Result<(), CallError> {
        if name.is_empty() {
            return Err(CallError::NameRequired);
        }
        let with = |path: &[&str]| {
            let names = path.iter().copied().chain([name]);
            names.map(str::to_owned).collect::<Vec<_>>()
        };
        if let Some(start) = self.path.iter().position(|earlier| *earlier == name) {
            return Err(CallError::Cycle(with(&self.path[start..])));
        }
        if self.path.len() >= CALL_DEPTH_MAX {
            return Err(CallError::TooDeep(with(&self.path)));
        }
        let Lookup::Found(spec) = self.definitions.workflow(name) else {
            return Err(CallError::NotFound(name.to_owned()));
        };
        let depth = self.path.len() + 1;
        // What was sound below a longer chain is sound below this one.
        if self.deepest.get(name).is_some_and(|seen| *seen >= depth) {
            return Ok(());
        }
        self.path.push(name);
        for callee in callees(spec) {
            self.visit(callee)?;
        }
        self.path.pop();
        self.deepest.insert(name, depth);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use kruntimes_core::api::Job;

    use super::*;

    fn workflow(callees: &[&str]) -> WorkflowSpec {
        let call = |(index, name): (usize, &&str)| {
            let job = Job {
                uses: Some((*name).to_owned()),
                ..Job::default()
            };
            (format!("j{index:02}"), job)
        };
        WorkflowSpec {
            jobs: callees.iter().enumerate().map(call).collect(),
            ..WorkflowSpec::default()
        }
    }

    fn graph(edges: &[(&str, &[&str])]) -> Definitions {
        edges
            .iter()
            .fold(Definitions::default(), |known, (name, callees)| {
                known.with_workflow(name, workflow(callees))
            })
    }

    fn text(root: &str, definitions: &Definitions) -> String {
        calls(root, definitions).map_or_else(|error| error.to_string(), |()| "sound".to_owned())
    }

    #[test]
    fn w_98_w_174_problems_have_stable_texts() {
        let mut missing = graph(&[("a", &["z", "b"]), ("b", &[])]);
        missing.workflows.insert("z".to_owned(), None);
        let mut no_root = Definitions::default();
        no_root.workflows.insert("a".to_owned(), None);
        for (definitions, want) in [
            (graph(&[("a", &["b", "b"]), ("b", &[])]), "sound"),
            (graph(&[("a", &["a"])]), "workflow call cycle: a -> a"),
            (
                graph(&[("a", &["b"]), ("b", &["a"])]),
                "workflow call cycle: a -> b -> a",
            ),
            (
                graph(&[("a", &["b"]), ("b", &["c"]), ("c", &["b"])]),
                "workflow call cycle: b -> c -> b",
            ),
            (missing, "get workflow \"z\": not found"),
            (no_root, "get workflow \"a\": not found"),
            (graph(&[("a", &[""])]), "workflow name is required"),
        ] {
            assert_eq!(text("a", &definitions), want);
        }
        assert_eq!(text("", &graph(&[])), "workflow name is required");
    }

    #[test]
    fn w_99_w_175_the_longest_chain_counts() {
        // The end of the chain is reached from the root at once and through the whole chain.
        let chain = |length: usize| {
            let name = |n: usize| format!("w{n}");
            let mut known = Definitions::default();
            for n in 1..=length {
                let next = name(n + 1);
                let last = name(length);
                let callees: Vec<&str> = match n {
                    n if n == length => vec![],
                    1 => vec!["a-detour", &next],
                    _ => vec![&next],
                };
                known = known.with_workflow(&name(n), workflow(&callees));
                known = known.with_workflow("a-detour", workflow(&[&last]));
            }
            known
        };
        assert_eq!(text("w1", &chain(8)), "sound");
        assert_eq!(
            text("w1", &chain(9)),
            "workflow call depth exceeds maximum 8: \
             w1 -> w2 -> w3 -> w4 -> w5 -> w6 -> w7 -> w8 -> w9"
        );
    }

    #[test]
    fn w_100_the_number_of_workflows_is_bounded() {
        let wide = |count: usize| {
            let names: Vec<String> = (0..count).map(|n| format!("w{n:03}")).collect();
            let mut known = Definitions::default();
            for (group, names) in names.chunks(64).enumerate() {
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                for name in &names {
                    known = known.with_workflow(name, workflow(&[]));
                }
                known = known.with_workflow(&format!("g{group}"), workflow(&names));
            }
            let groups: Vec<String> = (0..count.div_ceil(64)).map(|n| format!("g{n}")).collect();
            let groups: Vec<&str> = groups.iter().map(String::as_str).collect();
            known.with_workflow("root", workflow(&groups))
        };
        // The root and eight groups are Workflows too.
        assert_eq!(text("root", &wide(503)), "sound");
        assert_eq!(
            text("root", &wide(504)),
            "workflow call graph exceeds 512 workflows"
        );
    }

    #[test]
    fn w_99_a_dense_graph_is_checked_in_no_time() {
        // 63 callees each over seven levels would be 63^7 paths.
        let name = |level: usize, n: usize| format!("l{level}-{n:02}");
        let mut known = Definitions::default();
        for level in 1..8 {
            for n in 0..63 {
                let below: Vec<String> = (0..63).map(|n| name(level + 1, n)).collect();
                let below: Vec<&str> = below.iter().map(String::as_str).collect();
                let callees = if level == 7 { &[][..] } else { &below };
                known = known.with_workflow(&name(level, n), workflow(callees));
            }
        }
        assert_eq!(text("l1-00", &known), "sound");
    }

    #[test]
    fn w_183_what_is_not_read_is_named_level_by_level() {
        let known = graph(&[("a", &["b", "c"]), ("b", &["d"])]);
        let unread = |known: &Definitions| match calls("a", known) {
            Err(CallError::Unread(names)) => names.into_iter().collect::<Vec<_>>(),
            other => panic!("{other:?}"),
        };
        assert_eq!(unread(&Definitions::default()), ["a"]);
        assert_eq!(unread(&known), ["c", "d"]);
    }
}
