//! Which jobs could run beside each other.

use std::collections::BTreeMap;

use super::{Graph, Invalid, Node};

/// Returns for each job how many others must end before it on the longest way to it.
///
/// Jobs sorted by layer stand in an order in which they could run. There is no
/// limit to their number, and the work grows with the number of edges.
///
/// # Errors
///
/// Fails on the first dependency that is no job, or on a cycle (W-14).
pub fn layers<J: Node>(jobs: &BTreeMap<String, J>) -> Result<BTreeMap<&str, usize>, Invalid> {
    let graph = Graph::compile(jobs)?;
    let mut layers = vec![0; graph.len()];
    for job in graph.order() {
        let needs = graph.needs(*job).iter();
        let before = needs.map(|need| layers[need.index()] + 1).max();
        layers[job.index()] = before.unwrap_or_default();
    }
    let names = jobs.keys().map(String::as_str);
    Ok(names.zip(layers).collect())
}

#[cfg(test)]
mod tests {
    use kruntimes_core::api::Job;

    use super::*;
    use crate::testing::{a_job, jobs};

    #[test]
    fn w_14_layers_are_longest_ways_and_mistakes_have_their_texts() {
        let graph = jobs([
            ("a", a_job()),
            ("b", a_job().needs(&["a", "a"])),
            ("c", a_job().needs(&["a", "b"])),
            ("free", a_job()),
        ]);
        let found = layers(&graph).unwrap();
        assert_eq!(found, [("a", 0), ("b", 1), ("c", 2), ("free", 0)].into());
        let said = |graph: &BTreeMap<String, Job>| layers(graph).unwrap_err().to_string();
        let circle = jobs([("a", a_job().needs(&["b"])), ("b", a_job().needs(&["a"]))]);
        assert_eq!(said(&circle), "workflow job dependency cycle: a -> b -> a");
        let unknown = jobs([("a", a_job().needs(&["x"]))]);
        assert_eq!(said(&unknown), "job \"a\" needs unknown job \"x\"");
    }
}
