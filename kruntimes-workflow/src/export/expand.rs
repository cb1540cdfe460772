//! The steps a definition stands for, before anything runs.

use std::collections::BTreeMap;

use kruntimes_core::api::{Job, Step};

use super::Graph;
use crate::expr::{Body, Segment, segments};
use crate::graph::Invalid;
use crate::location;

/// One step that would run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedStep {
    /// Its stable path (W-44); that of the job for a call.
    pub path: String,
    /// What would run: the script, or what is called.
    pub what: String,
    /// The runtime; empty for a call.
    pub runs_on: String,
    /// Expressions whose value only an execution knows, as they are written, without repetition.
    pub unresolved: Vec<String>,
}

/// Lists every step in an order in which it could run (W-193).
///
/// Fill inputs in first, see [`crate::bind::render_workflow`]; what is left
/// depends on outputs of earlier steps and is marked as unresolved.
///
/// # Errors
///
/// Fails when the jobs are invalid.
pub fn expand(jobs: &BTreeMap<String, Job>) -> Result<Vec<PlannedStep>, Invalid> {
    let graph = Graph::new(jobs)?;
    let mut steps = Vec::new();
    for node in graph.jobs() {
        let job = &jobs[&node.name];
        if let Some(workflow) = &job.uses {
            steps.push(PlannedStep {
                path: format!("jobs.{}", node.name),
                what: format!("workflow {workflow}"),
                runs_on: String::new(),
                unresolved: unresolved(job.with.values()),
            });
        }
        for step in &job.steps {
            steps.push(PlannedStep {
                path: location::path(&node.name, &step.name, None),
                what: what(step),
                runs_on: job.runs_on.clone().unwrap_or_default(),
                unresolved: unresolved(
                    step.run
                        .iter()
                        .chain(&step.args)
                        .chain(step.env.values())
                        .chain(step.with.values()),
                ),
            });
        }
    }
    Ok(steps)
}

fn what(step: &Step) -> String {
    match (&step.run, &step.uses) {
        (Some(script), _) => script.clone(),
        (None, Some(action)) => format!("action {action}"),
        (None, None) => String::new(),
    }
}

fn unresolved<'a>(texts: impl Iterator<Item = &'a String>) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for segment in texts.flat_map(|text| segments(text)) {
        let Ok(Segment::Expression { source, body, .. }) = segment else {
            continue;
        };
        let is_known = matches!(Body::parse(body), Ok(Body::Literal(_)));
        if !is_known && !found.iter().any(|one| one == source) {
            found.push(source.to_owned());
        }
    }
    found
}
