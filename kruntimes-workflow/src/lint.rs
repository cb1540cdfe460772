//! Everything that can be said about a definition before it runs.
//!
//! Errors make the definition not `Ready` (W-154); warnings execute but
//! surprise; advice is for the linter alone. Readiness is advice too: the engine
//! validates again at execution (W-155).

#[cfg(test)]
mod tests;
mod texts;

use std::collections::BTreeMap;

use kruntimes_core::api::{ActionSpec, Input, Job, WorkflowRunSpec, WorkflowSpec};
use kruntimes_core::message::quoted;

use crate::expansion::{Expanded, Legs, expand};
use crate::extend::{Extensions, refuse, refuse_spec, refuse_strategy};
use crate::graph::{self, Invalid};
use crate::location::Location;
use texts::{Inputs, Texts};

/// One remark about a definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// Where it is.
    pub location: Location,
    /// What it is.
    pub message: String,
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The definition cannot work.
    Error,
    /// It works, differently from what its text suggests.
    Warning,
    /// It works; there is a safer way.
    Advice,
}

impl Finding {
    fn new(severity: Severity, location: Location, message: String) -> Self {
        Self {
            severity,
            location,
            message,
        }
    }
}

impl From<Invalid> for Finding {
    fn from(invalid: Invalid) -> Self {
        let message = invalid.problem.to_string();
        Self::new(Severity::Error, *invalid.location, message)
    }
}

/// Returns the first error, which is what `Ready` reports (W-153).
pub fn first_error(findings: &[Finding]) -> Option<&Finding> {
    findings
        .iter()
        .find(|finding| finding.severity == Severity::Error)
}

/// Checks a Workflow.
///
/// A broken shape or graph is the only finding: texts are judged on sound jobs.
pub fn workflow(spec: &WorkflowSpec) -> Vec<Finding> {
    workflow_with(spec, &Extensions::none())
}

/// Does what [`workflow`] does, for an engine that accepts extensions.
pub fn workflow_with(spec: &WorkflowSpec, extensions: &Extensions) -> Vec<Finding> {
    let sound = graph::inputs_with(&spec.inputs, extensions)
        .and_then(|()| graph::outputs(&spec.outputs))
        .and_then(|()| refuse_strategy(spec.strategy.as_deref(), extensions))
        .and_then(|()| concrete(&spec.jobs, extensions));
    let expanded = match sound {
        Ok(expanded) => expanded,
        Err(invalid) => return vec![invalid.into()],
    };
    let mut texts = Texts::new(Inputs::Declared(&spec.inputs), extensions, &expanded.legs);
    texts.jobs(&expanded.jobs);
    texts.contract(&spec.outputs, &expanded.jobs);
    let mut findings = texts.findings;
    findings.extend(ambiguous_inputs(&spec.inputs));
    findings.extend(idle_outputs(&spec.jobs));
    findings
}

/// Checks a WorkflowRun as written by hand: it has no inputs (W-33).
pub fn workflow_run(spec: &WorkflowRunSpec) -> Vec<Finding> {
    workflow_run_with(spec, &Extensions::none())
}

/// Does what [`workflow_run`] does, for an engine that accepts extensions.
pub fn workflow_run_with(spec: &WorkflowRunSpec, extensions: &Extensions) -> Vec<Finding> {
    let sound = refuse_spec(spec, extensions).and_then(|()| concrete(&spec.jobs, extensions));
    let expanded = match sound {
        Ok(expanded) => expanded,
        Err(invalid) => return vec![invalid.into()],
    };
    let mut texts = Texts::new(Inputs::None, extensions, &expanded.legs);
    texts.jobs(&expanded.jobs);
    let mut findings = texts.findings;
    findings.extend(idle_outputs(&spec.jobs));
    findings
}

/// Checks an Action. Which jobs its caller depends on is not known here.
pub fn action(spec: &ActionSpec) -> Vec<Finding> {
    action_with(spec, &Extensions::none())
}

/// Does what [`action`] does, for an engine that accepts extensions.
pub fn action_with(spec: &ActionSpec, extensions: &Extensions) -> Vec<Finding> {
    if let Err(invalid) = graph::action_with(spec, extensions) {
        return vec![invalid.into()];
    }
    let legs = Legs::new();
    let mut texts = Texts::new(Inputs::Declared(&spec.inputs), extensions, &legs);
    texts.action(spec);
    let mut findings = texts.findings;
    findings.extend(ambiguous_inputs(&spec.inputs));
    findings
}

/// Returns the jobs as they run, once they are sound.
fn concrete(jobs: &BTreeMap<String, Job>, extensions: &Extensions) -> Result<Expanded, Invalid> {
    refuse(jobs, extensions)?;
    let expanded = expand(jobs)?;
    graph::validate_with(&expanded.jobs, extensions)?;
    graph::artifact_edges(&expanded.jobs)?;
    Ok(expanded)
}

/// Reports inputs that are required and have a default (W-12).
fn ambiguous_inputs(inputs: &BTreeMap<String, Input>) -> impl Iterator<Item = Finding> {
    let both =
        |input: &Input| input.required && input.default.as_deref().is_some_and(|d| !d.is_empty());
    let found = inputs.iter().filter(move |(_, input)| both(input));
    found.map(|(name, _)| {
        let message = format!(
            "input {} is required and has a default, so nobody has to give it",
            quoted(name)
        );
        let location = Location::default().field(format!("inputs.{name}"));
        Finding::new(Severity::Warning, location, message)
    })
}

/// Reports outputs of call jobs, which have no effect (W-7).
fn idle_outputs(jobs: &BTreeMap<String, Job>) -> impl Iterator<Item = Finding> {
    let idle = jobs
        .iter()
        .filter(|(_, job)| job.uses.is_some() && !job.outputs.is_empty());
    idle.map(|(name, _)| {
        let message = format!(
            "outputs of job {} have no effect: a call exposes the outputs of the called Workflow",
            quoted(name)
        );
        Finding::new(
            Severity::Warning,
            Location::job(name).field("outputs"),
            message,
        )
    })
}
