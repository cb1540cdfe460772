//! Which jobs could run beside each other.

use std::collections::BTreeMap;

use kruntimes_core::api::Job;

use super::{Invalid, needs};

/// Returns for each job how many others must end before it on the longest way to it.
///
/// Jobs sorted by layer stand in an order in which they could run. There is no
/// limit to their number, and the work grows with the number of edges.
///
/// # Errors
///
/// Fails on the first dependency that is no job, or on a cycle (W-14).
pub fn layers(jobs: &BTreeMap<String, Job>) -> Result<BTreeMap<&str, usize>, Invalid> {
    super::cycle::check(jobs)?;
    let mut layers: BTreeMap<&str, usize> = BTreeMap::new();
    let mut dependents: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut open: BTreeMap<&str, usize> = BTreeMap::new();
    let mut ready = Vec::new();
    for (name, job) in jobs {
        let before = needs(job);
        for need in &before {
            if let Some((need, _)) = jobs.get_key_value(need) {
                dependents.entry(need).or_default().push(name);
            }
        }
        if before.is_empty() {
            ready.push(name.as_str());
        }
        open.insert(name, before.len());
        layers.insert(name, 0);
    }
    while let Some(name) = ready.pop() {
        let next = layers[name] + 1;
        for dependent in dependents.get(name).into_iter().flatten() {
            let layer = layers.entry(dependent).or_default();
            *layer = next.max(*layer);
            let left = open.entry(dependent).or_default();
            *left = left.saturating_sub(1);
            if *left == 0 {
                ready.push(dependent);
            }
        }
    }
    Ok(layers)
}
