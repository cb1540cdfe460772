//! Which jobs could run beside each other.

use std::collections::BTreeMap;

use kruntimes_core::api::Job;

use super::Invalid;

/// Returns for each job how many others must end before it on the longest way to it.
///
/// Jobs sorted by layer stand in an order in which they could run. There is no
/// limit to their number, and the work grows with the number of edges.
///
/// # Errors
///
/// Fails on the first dependency that is no job, or on a cycle (W-14).
pub fn layers(jobs: &BTreeMap<String, Job>) -> Result<BTreeMap<&str, usize>, Invalid> {
    if let Some(layers) = ordered(jobs) {
        let names = jobs.keys().map(String::as_str);
        return Ok(names.zip(layers).collect());
    }
    // Something is wrong; the search that is slower says what, always in the same words.
    super::cycle::check(jobs)?;
    Ok(BTreeMap::new())
}

/// Works on the places of the sorted names; `None` when a name is unknown or jobs need each other.
fn ordered(jobs: &BTreeMap<String, Job>) -> Option<Vec<usize>> {
    let names: Vec<&str> = jobs.keys().map(String::as_str).collect();
    let mut edges: Vec<(usize, usize)> = Vec::new();
    for (job, body) in jobs.values().enumerate() {
        for need in &body.needs {
            edges.push((names.binary_search(&need.as_str()).ok()?, job));
        }
    }
    edges.sort_unstable();
    edges.dedup();
    // Edges of job `n` lie between `first[n]` and `first[n + 1]`.
    let mut first = vec![0; names.len() + 1];
    let mut open = vec![0usize; names.len()];
    for (need, job) in &edges {
        first[need + 1] += 1;
        open[*job] += 1;
    }
    for job in 0..names.len() {
        first[job + 1] += first[job];
    }
    let mut layers = vec![0; names.len()];
    let mut ready: Vec<usize> = (0..names.len()).filter(|job| open[*job] == 0).collect();
    let mut done = 0;
    while let Some(job) = ready.pop() {
        done += 1;
        for (_, dependent) in &edges[first[job]..first[job + 1]] {
            layers[*dependent] = layers[*dependent].max(layers[job] + 1);
            open[*dependent] -= 1;
            if open[*dependent] == 0 {
                ready.push(*dependent);
            }
        }
    }
    (done == names.len()).then_some(layers)
}

#[cfg(test)]
mod tests {
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
