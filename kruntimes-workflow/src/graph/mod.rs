//! The job graph: shape rules, dependency edges, cycles, ancestors, and who calls whom.
//!
//! [`validate`] visits job names sorted, shapes first and edges second, and
//! returns the first problem, so the same object always yields the same text
//! (W-13).

mod artifact;
mod calls;
mod compiled;
mod conditions;
mod cycle;
mod layers;
mod places;
mod problem;
mod progress;
mod rules;
mod shape;
#[cfg(test)]
mod shape_tests;

use std::collections::{BTreeMap, BTreeSet};

use kruntimes_core::api::Job;

pub use artifact::{ArtifactSource, artifact_edges, destination, imports};
pub use calls::{CALLED_WORKFLOWS_MAX, CallError, callees, calls};
pub use compiled::{Graph, JobId, Node};
pub use conditions::{Reference, StepResult, reference};
pub use layers::layers;
pub(crate) use places::Places;
pub use problem::{Invalid, Problem, Subject};
pub use progress::{Ending, Handle, Next, Progress, Task};
pub use rules::{References, is_definition_name, is_input_name, is_label, is_output_name};
pub use shape::{action, action_with, inputs, inputs_with, outputs};

use crate::extend::Extensions;
use crate::location::Location;

/// Checks all jobs of one object and their edges.
///
/// # Errors
///
/// The first problem found.
pub fn validate(jobs: &BTreeMap<String, Job>) -> Result<(), Invalid> {
    validate_with(jobs, &Extensions::none())
}

/// Does what [`validate`] does, for an engine that accepts extensions.
///
/// Jobs with a matrix have to be expanded before.
///
/// # Errors
///
/// The first problem found.
pub fn validate_with(jobs: &BTreeMap<String, Job>, extensions: &Extensions) -> Result<(), Invalid> {
    crate::extend::refuse(jobs, extensions)?;
    shape::jobs(jobs, extensions)?;
    for (name, job) in jobs {
        if let Some(step) = duplicate(job.steps.iter().map(|step| step.name.as_str())) {
            let problem = Problem::DuplicateStep {
                job: name.clone(),
                step: step.to_owned(),
            };
            return Err(problem.at(Location::job(name).step(step).field("name")));
        }
    }
    cycle::check(jobs)?;
    conditions::check(jobs, extensions)
}

/// Returns the first name that occurs twice.
pub(crate) fn duplicate<'a>(names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let mut seen = BTreeSet::new();
    names.into_iter().find(|name| !seen.insert(*name))
}

/// Returns the dependencies of a job, sorted and unique (W-15).
pub fn needs(job: &Job) -> Vec<String> {
    let unique: BTreeSet<_> = job.needs.iter().cloned().collect();
    unique.into_iter().collect()
}

/// Returns every job reachable from `job` through `needs`, itself excluded (W-34).
///
/// Names that are no job are left out, and a cycle ends the walk.
pub fn ancestors<'a>(jobs: &'a BTreeMap<String, Job>, job: &str) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    let direct = |name: &str| jobs.get(name).map_or(&[][..], |job| &job.needs);
    let mut open: Vec<&str> = direct(job).iter().map(String::as_str).collect();
    while let Some(name) = open.pop() {
        if let Some((name, job)) = jobs.get_key_value(name)
            && found.insert(name.as_str())
        {
            open.extend(job.needs.iter().map(String::as_str));
        }
    }
    found.remove(job);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain() -> BTreeMap<String, Job> {
        let job = |needs: &[&str]| Job {
            needs: needs.iter().map(|&n| n.to_owned()).collect(),
            ..Job::default()
        };
        [
            ("a", job(&[])),
            ("b", job(&["a"])),
            ("c", job(&["b", "b", "a"])),
            ("other", job(&[])),
        ]
        .into_iter()
        .map(|(name, job)| (name.to_owned(), job))
        .collect()
    }

    #[test]
    fn w_34_ancestors_are_transitive() {
        let jobs = chain();
        assert_eq!(ancestors(&jobs, "c"), ["a", "b"].into());
        assert_eq!(ancestors(&jobs, "a"), BTreeSet::new());
        assert_eq!(ancestors(&jobs, "ghost"), BTreeSet::new());
    }

    #[test]
    fn w_15_duplicate_edges_are_one() {
        assert_eq!(needs(&chain()["c"]), ["a", "b"]);
    }
}
