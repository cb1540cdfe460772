//! Small CI workflow files as definitions (C-80 to C-89).
//!
//! A narrow shape is accepted, so that existing short files can be tried.
//! Nothing is dropped without a message: what has no equivalent is refused by
//! name, with its place and the nearest way that works here.

mod emit;
mod expression;
mod reader;
mod refused;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use kruntimes_core::api::{Input, Job, Output, WorkflowRunSpec, WorkflowSpec};

use crate::lint;
use crate::yaml::{Composed, Finding, Node, Place, Severity, Source, compose, has_errors};

pub use emit::to_yaml;

/// What a CI file becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One execution.
    WorkflowRun,
    /// A reusable definition; the only kind with inputs and outputs.
    Workflow,
}

/// Choices of whoever converts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// What the file becomes; by default a Workflow when it declares inputs or outputs.
    pub kind: Option<Kind>,
    /// Names of Runtimes by what the file calls them.
    pub runtimes: BTreeMap<String, String>,
    /// Keys that may be lost. Keys that change what runs cannot be.
    pub droppable: BTreeSet<String>,
    /// Whether `GITHUB_OUTPUT` in scripts becomes `KRUNTIME_OUTPUTS`.
    pub rewrite_output_variable: bool,
}

/// A converted file.
#[derive(Clone, Debug, PartialEq)]
pub struct Converted {
    /// What it became.
    pub kind: Kind,
    /// Titles and what was dropped.
    pub annotations: BTreeMap<String, String>,
    /// Declared inputs; a Workflow's only.
    pub inputs: BTreeMap<String, Input>,
    /// Declared outputs; a Workflow's only.
    pub outputs: BTreeMap<String, Output>,
    /// The jobs.
    pub jobs: BTreeMap<String, Job>,
    /// Line of each job in the file, counted from one.
    pub lines: BTreeMap<String, usize>,
    /// What does not stop the conversion but should be known.
    pub findings: Vec<Finding>,
}

impl Converted {
    /// Returns the jobs as one execution; inputs and outputs are left out.
    pub fn workflow_run(&self) -> WorkflowRunSpec {
        WorkflowRunSpec {
            jobs: self.jobs.clone(),
            ..WorkflowRunSpec::default()
        }
    }

    /// Returns the whole as a reusable definition.
    pub fn workflow(&self) -> WorkflowSpec {
        WorkflowSpec {
            inputs: self.inputs.clone(),
            outputs: self.outputs.clone(),
            jobs: self.jobs.clone(),
            strategy: None,
        }
    }
}

/// Tells whether a file is to be converted: it has `jobs` and names no kind (C-80).
pub fn is_ci_file(text: &str) -> bool {
    let composed = compose(&Source::new("", text));
    let mut documents = composed.documents.iter().map(|(_, root)| root);
    documents.any(|root| root.member("kind").is_none() && root.member("jobs").is_some())
}

/// Tells whether any document of a file says what it is.
///
/// A file that is no YAML does not; whoever reads it says why.
pub fn names_a_kind(text: &str) -> bool {
    let composed = compose(&Source::new("", text));
    let mut documents = composed.documents.iter().map(|(_, root)| root);
    composed.broken || documents.any(|root| root.member("kind").is_some())
}

/// Converts a file; `name` is only used in messages.
///
/// # Errors
///
/// Everything that cannot be converted, in reading order.
pub fn convert(name: &str, text: &str, options: &Options) -> Result<Converted, Vec<Finding>> {
    let source = Source::new(name, text);
    let Composed {
        documents,
        findings,
        broken,
    } = compose(&source);
    if broken || has_errors(&findings) {
        return Err(findings);
    }
    let at = |span| Place {
        document: 0,
        path: String::new(),
        span,
    };
    let [(_, root)] = &documents[..] else {
        let second = documents.get(1).map_or(0..0, |(_, root)| root.span.clone());
        let said = "a CI file is one document";
        let help = "write several files, or documents with a kind";
        return Err(vec![source.error("K003", said, at(second)).help(help)]);
    };
    let mut reader = reader::Reader::new(&source, root, options);
    let mut converted = reader.read();
    let mut findings = reader.findings;
    if !has_errors(&findings) {
        findings.extend(judge(&source, root, &converted));
    }
    findings.sort_by_key(|finding| finding.span.start);
    if has_errors(&findings) {
        return Err(findings);
    }
    converted.findings = findings;
    Ok(converted)
}

/// Judges what came out, with the places of what went in.
fn judge(source: &Source, root: &Node, converted: &Converted) -> Vec<Finding> {
    let found = match converted.kind {
        Kind::Workflow => lint::workflow(&converted.workflow()),
        Kind::WorkflowRun => lint::workflow_run(&converted.workflow_run()),
    };
    let placed = found.iter().map(|one| {
        let (severity, code) = match one.severity {
            lint::Severity::Error => (Severity::Error, "K005"),
            lint::Severity::Warning => (Severity::Warning, "K000"),
            lint::Severity::Advice => (Severity::Advice, "K000"),
        };
        let place = place(root, converted, &one.location);
        source.finding(severity, code, one.message.as_str(), place)
    });
    placed.collect()
}

fn place(root: &Node, converted: &Converted, location: &crate::location::Location) -> Place {
    let mut path = location
        .job
        .as_ref()
        .map_or_else(String::new, |job| format!("jobs.{job}"));
    let job = location
        .job
        .as_ref()
        .and_then(|job| converted.jobs.get(job));
    if let (Some(job), Some(step)) = (job, &location.step) {
        let index = job.steps.iter().position(|one| one.name == *step);
        path = format!("{path}.steps[{}]", index.unwrap_or_default());
    }
    if let Some(field) = &location.field {
        let field = field.split('[').next().unwrap_or_default();
        path = format!("{path}.{field}");
    }
    let span = root.locate(&path).span();
    Place {
        document: 0,
        path,
        span,
    }
}
