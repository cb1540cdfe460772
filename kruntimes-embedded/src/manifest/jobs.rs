//! Jobs and their edges: the checks of the engine, repeated until nothing new is found.
//!
//! The engine reports the first problem of a graph. Here a job with a problem is
//! replaced by a sound one of the same name and the rest is judged again.

use std::collections::BTreeMap;

use kruntimes_core::api::{ActionSpec, Input, Job, Output, Step, WorkflowRunSpec, WorkflowSpec};
use kruntimes_core::nearest::meant;
use kruntimes_workflow::expansion::expand;
use kruntimes_workflow::extend::{Extensions, refuse};
use kruntimes_workflow::graph::{self, Invalid, Problem};
use kruntimes_workflow::lint;
use kruntimes_workflow::location::Location;
use kruntimes_workflow::yaml::{self, Finding, Place, Severity, Source};
use serde_json::Value;

use super::document::Document;
use super::expressions::Judge;

/// Judges the jobs of one object; `judged` holds what is already reported.
pub(super) fn check(
    (source, document): (&Source, &Document),
    judged: &[Finding],
    extensions: &Extensions,
) -> Vec<Finding> {
    match document.kind() {
        "Workflow" | "WorkflowRun" => Graph::new((source, document), judged, extensions).check(),
        "Action" => action(source, document, extensions),
        _ => Vec::new(),
    }
}

fn action(source: &Source, document: &Document, extensions: &Extensions) -> Vec<Finding> {
    let Ok(spec) = serde_json::from_value::<ActionSpec>(document.value["spec"].clone()) else {
        return Vec::new();
    };
    let judge = Judge {
        source,
        document,
        jobs: &BTreeMap::new(),
        inputs: Some(&spec.inputs),
    };
    let found = lint::action_with(&spec, extensions);
    found.iter().map(|finding| judge.finding(finding)).collect()
}

fn first_problem(jobs: &BTreeMap<String, Job>, extensions: &Extensions) -> Result<(), Invalid> {
    refuse(jobs, extensions)?;
    let jobs = &expand(jobs)?.jobs;
    graph::validate_with(jobs, extensions)?;
    graph::artifact_edges(jobs)
}

/// The graph of one object, with sound jobs in the place of broken ones.
struct Graph<'a> {
    source: &'a Source,
    document: &'a Document,
    jobs: BTreeMap<String, Job>,
    extensions: &'a Extensions,
    findings: Vec<Finding>,
}

impl<'a> Graph<'a> {
    fn new(
        (source, document): (&'a Source, &'a Document),
        judged: &[Finding],
        extensions: &'a Extensions,
    ) -> Self {
        let mut jobs = BTreeMap::new();
        let written = document.value["spec"]["jobs"].as_object();
        for (name, body) in written.into_iter().flatten() {
            let parsed = if is_broken(document, name, judged) {
                None
            } else {
                serde_json::from_value(body.clone()).ok()
            };
            let job = parsed.unwrap_or_else(|| sound(texts(&body["needs"])));
            jobs.insert(name.clone(), job);
        }
        Self {
            source,
            document,
            jobs,
            extensions,
            findings: Vec::new(),
        }
    }

    fn check(mut self) -> Vec<Finding> {
        self.edges();
        self.problems();
        let (lint, inputs) = self.lint();
        let judge = Judge {
            source: self.source,
            document: self.document,
            jobs: &self.jobs,
            inputs: inputs.as_ref(),
        };
        for finding in &lint {
            // A problem of the graph that was reported has been replaced; what is left is new.
            self.findings.push(judge.finding(finding));
        }
        self.findings.extend(judge.undeclared_outputs());
        self.findings
    }

    /// Reports and removes edges that lead nowhere or back to the job itself.
    fn edges(&mut self) {
        let names: Vec<String> = self.jobs.keys().cloned().collect();
        let (source, document) = (self.source, self.document);
        for (name, job) in &mut self.jobs {
            let mut index = 0;
            job.needs.retain(|need| {
                let path = format!("spec.jobs.{name}.needs[{index}]");
                index += 1;
                let (code, problem) = if need == name {
                    let cycle = vec![name.clone(), name.clone()];
                    ("K021", Problem::Cycle(cycle))
                } else if names.contains(need) {
                    return true;
                } else {
                    let (job, need) = (name.clone(), need.clone());
                    ("K020", Problem::UnknownNeed { job, need })
                };
                let others = names
                    .iter()
                    .map(String::as_str)
                    .filter(|other| other != name);
                let help = if code == "K020" {
                    meant(need, others)
                } else {
                    None
                };
                let finding = source.error(code, problem.to_string(), document.place(&path));
                self.findings.push(finding.maybe_help(help));
                false
            });
        }
    }

    /// Reports one problem after the other, replacing the job that has it.
    fn problems(&mut self) {
        while let Err(invalid) = first_problem(&self.jobs, self.extensions) {
            let code = code(&invalid.problem);
            let path = path(self.document, &invalid.location);
            let place = self.document.place(&path);
            let finding = self.source.error(code, invalid.problem.to_string(), place);
            self.findings.push(finding);
            if !self.replace(&invalid) {
                return;
            }
        }
    }

    /// Replaces the job with a problem; whether that can lead to another result.
    fn replace(&mut self, invalid: &Invalid) -> bool {
        let job = invalid.location.job.as_deref().unwrap_or_default();
        let Some(found) = self.jobs.get_mut(job) else {
            return false;
        };
        let needs = match invalid.problem {
            Problem::Cycle(_) => Vec::new(),
            _ => found.needs.clone(),
        };
        // The outputs stay declared, but what they say is not judged in a job whose steps are unknown.
        let outputs = found.outputs.keys();
        let replaced = Job {
            outputs: outputs.map(|name| (name.clone(), String::new())).collect(),
            ..sound(needs)
        };
        let changed = *found != replaced;
        *found = replaced;
        changed
    }

    fn lint(&self) -> (Vec<lint::Finding>, Option<BTreeMap<String, Input>>) {
        let spec = &self.document.value["spec"];
        let jobs = self.jobs.clone();
        if self.document.kind() == "WorkflowRun" {
            let written: WorkflowRunSpec = serde_json::from_value(spec.clone()).unwrap_or_default();
            let spec = WorkflowRunSpec { jobs, ..written };
            return (lint::workflow_run_with(&spec, self.extensions), None);
        }
        let inputs: BTreeMap<String, Input> = members(&spec["inputs"]);
        let outputs: BTreeMap<String, Output> = members(&spec["outputs"]);
        let spec = WorkflowSpec {
            inputs,
            outputs,
            jobs,
            strategy: serde_json::from_value(spec["strategy"].clone()).unwrap_or_default(),
        };
        (
            lint::workflow_with(&spec, self.extensions),
            Some(spec.inputs),
        )
    }
}

/// Tells whether something is wrong with a job that the engine would only repeat.
fn is_broken(document: &Document, job: &str, judged: &[Finding]) -> bool {
    let prefix = format!("spec.jobs.{job}");
    judged.iter().any(|finding| {
        let inside = finding
            .path
            .strip_prefix(&prefix)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']));
        let harmless = finding.code == "K002" || finding.severity != Severity::Error;
        finding.document == document.index && inside && !harmless
    })
}

/// A job without problems of its own.
fn sound(needs: Vec<String>) -> Job {
    Job {
        runs_on: Some("bash".to_owned()),
        needs,
        steps: vec![Step {
            name: "unread".to_owned(),
            run: Some(String::new()),
            ..Step::default()
        }],
        ..Job::default()
    }
}

fn texts(list: &Value) -> Vec<String> {
    let all = list.as_array().into_iter().flatten();
    all.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Reads the members of a map, keeping the names of those that cannot be read.
fn members<T: Default + serde::de::DeserializeOwned>(map: &Value) -> BTreeMap<String, T> {
    let all = map.as_object().into_iter().flatten();
    all.map(|(name, value)| {
        let read = serde_json::from_value(value.clone()).unwrap_or_default();
        (name.clone(), read)
    })
    .collect()
}

/// The rule of C-66 that a problem of the graph breaks.
pub(super) fn code(problem: &Problem) -> &'static str {
    match problem {
        Problem::CallWithSteps { .. } => "K010",
        Problem::NoRuntime { .. } | Problem::NoSteps { .. } | Problem::ActionWithoutSteps => "K004",
        Problem::DuplicateStep { .. } | Problem::DuplicateActionStep(_) => "K062",
        Problem::UnknownNeed { .. } | Problem::ArtifactEdge { .. } => "K020",
        Problem::Cycle(_) => "K022",
        Problem::ActionStepNotRun(_) => "K045",
        Problem::Shape { rule, .. } if rule.contains("steps and uses") => "K010",
        Problem::Shape { rule, .. } if rule.contains("run and uses") => "K011",
        Problem::Shape { rule, .. } if rule.contains("with only together") => "K012",
        Problem::Shape { rule, .. } if rule.contains("args, env or artifacts") => "K013",
        Problem::Name { .. }
        | Problem::Shape { .. }
        | Problem::Limit { .. }
        | Problem::ArtifactSource(_)
        | Problem::ArtifactPath { .. } => "K005",
        Problem::Expression { .. } => "K036",
        Problem::OutputName(_) => "K063",
        Problem::SnapshotTooLarge { .. } | Problem::StatusTooLarge { .. } => "K064",
        _ => "K000",
    }
}

/// Translates a place of the engine into a path of the object.
pub(super) fn path(document: &Document, location: &Location) -> String {
    yaml::path(&document.node, location)
}

/// The place of a location, down to the expression its offset points at.
pub(super) fn place(source: &Source, document: &Document, location: &Location) -> Place {
    let path = path(document, location);
    let mut place = document.place(&path);
    let node = document.node.locate(&path).node;
    let span = location
        .offset
        .and_then(|offset| yaml::expression_span(source, node, offset));
    if let Some(span) = span {
        place.span = span;
    }
    place
}
