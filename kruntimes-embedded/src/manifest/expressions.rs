//! Expressions in texts: their place in the file and the name that was probably meant.

use std::collections::BTreeMap;

use kruntimes_core::api::{Input, Job};
use kruntimes_workflow::expr::{Body, ErrorKind, Segment, Target, segments};
use kruntimes_workflow::graph::ancestors;
use kruntimes_workflow::lint;
use kruntimes_workflow::location::Location;

use super::document::Document;
use super::jobs::{path, place};
use kruntimes_core::nearest::{meant, nearest};
use kruntimes_workflow::yaml::{
    Finding, Node, Place, Severity, Source, expression_at, expression_span,
};

/// Turns findings of the engine into findings about the file.
pub(super) struct Judge<'a> {
    pub(super) source: &'a Source,
    pub(super) document: &'a Document,
    pub(super) jobs: &'a BTreeMap<String, Job>,
    /// Declared inputs; absent where there cannot be any.
    pub(super) inputs: Option<&'a BTreeMap<String, Input>>,
}

impl Judge<'_> {
    pub(super) fn finding(&self, found: &lint::Finding) -> Finding {
        let severity = match found.severity {
            lint::Severity::Error => Severity::Error,
            lint::Severity::Warning => Severity::Warning,
            lint::Severity::Advice => Severity::Advice,
        };
        let place = place(self.source, self.document, &found.location);
        let (code, help) = match severity {
            Severity::Error => self.explain(&found.location),
            Severity::Warning if found.message.contains("is required and has a default") => {
                ("K046", None)
            }
            Severity::Warning | Severity::Advice => ("K000", None),
        };
        let finding = self
            .source
            .finding(severity, code, found.message.as_str(), place);
        finding.maybe_help(help)
    }

    /// Returns the rule that an expression breaks, and what was probably meant.
    fn explain(&self, location: &Location) -> (&'static str, Option<String>) {
        let Some(offset) = location.offset else {
            return ("K005", None);
        };
        let path = path(self.document, location);
        let text = self.document.node.locate(&path).node.text();
        let Some((_, body)) = text.and_then(|text| expression_at(text, offset)) else {
            return ("K030", None);
        };
        match Body::parse(body) {
            Ok(Body::Input(name)) => ("K032", self.input_help(name)),
            Ok(Body::Steps(target)) => ("K033", self.step_help(target, location)),
            Ok(Body::Jobs(target)) => ("K034", self.job_help(target, location)),
            Err(ErrorKind::UnknownPrefix(prefix)) => {
                let contexts = ["inputs", "steps", "jobs"];
                let help = nearest(&prefix, contexts).map_or_else(
                    || {
                        "an expression is `inputs.<name>`, `steps.<name>.outputs.<key>` or \
                         `jobs.<name>.outputs.<key>`"
                            .to_owned()
                    },
                    |found| format!("did you mean `{found}`?"),
                );
                ("K031", Some(help))
            }
            Ok(Body::Literal(_)) | Err(_) => ("K030", None),
        }
    }

    fn input_help(&self, name: &str) -> Option<String> {
        let Some(inputs) = self.inputs else {
            let help = "a WorkflowRun has no inputs: write the value, or make this a Workflow that declares them";
            return Some(help.to_owned());
        };
        if inputs.is_empty() {
            return Some("no inputs are declared: add `spec.inputs`".to_owned());
        }
        meant(name, inputs.keys().map(String::as_str))
    }

    fn step_help(&self, target: Target<'_>, location: &Location) -> Option<String> {
        let job = self.jobs.get(location.job.as_deref()?)?;
        let names: Vec<&str> = job.steps.iter().map(|step| step.name.as_str()).collect();
        let (name, _) = target.split(|name| names.contains(&name));
        let own = location.step.as_deref();
        if own == Some(name) {
            return Some("a step cannot read its own outputs".to_owned());
        }
        if names.contains(&name) {
            return Some(format!("step `{name}` runs later in this job"));
        }
        let owner = self.jobs.iter().find(|(other, job)| {
            Some(other.as_str()) != location.job.as_deref()
                && job.steps.iter().any(|step| step.name == name)
        });
        let before = names.into_iter().take_while(|step| Some(*step) != own);
        let before: Vec<&str> = before.collect();
        match (nearest(name, before.iter().copied()), owner) {
            (None, Some((other, _))) => Some(format!(
                "step `{name}` is in job `{other}`: declare an output there and read `jobs.{other}.outputs.<key>`"
            )),
            _ if before.is_empty() => Some("no step runs before this one".to_owned()),
            _ => meant(name, before),
        }
    }

    fn job_help(&self, target: Target<'_>, location: &Location) -> Option<String> {
        let (name, _) = target.split(|name| self.jobs.contains_key(name));
        let Some(own) = location.job.as_deref() else {
            return meant(name, self.jobs.keys().map(String::as_str));
        };
        if name == own {
            return Some("a job cannot read its own outputs; use `steps`".to_owned());
        }
        if location.step.is_none() && self.jobs.get(own).is_some_and(|job| job.uses.is_none()) {
            return Some("outputs of a job are made of the outputs of its own steps".to_owned());
        }
        if self.jobs.contains_key(name) {
            return Some(format!("add `{name}` to `needs` of job `{own}`"));
        }
        let before = ancestors(self.jobs, own);
        if before.is_empty() {
            return meant(
                name,
                self.jobs.keys().map(String::as_str).filter(|j| *j != own),
            );
        }
        meant(name, before)
    }

    /// K035: outputs of a job that the job does not declare.
    pub(super) fn undeclared_outputs(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        for (name, job) in self.jobs {
            // Any other job is reported because it cannot be read at all.
            let before = ancestors(self.jobs, name);
            for (path, text) in texts(name, job) {
                findings.extend(self.undeclared(&path, text, |other| before.contains(other)));
            }
        }
        let outputs = self.document.node.at(&["spec", "outputs"]);
        for (key, output) in outputs.map_or(&[][..], Node::members) {
            if let Some(text) = output.at(&["value"]).and_then(Node::text) {
                let path = format!("spec.outputs.{}.value", key.text);
                findings.extend(self.undeclared(&path, text, |_| true));
            }
        }
        findings
    }

    fn undeclared(&self, path: &str, text: &str, readable: impl Fn(&str) -> bool) -> Vec<Finding> {
        let located = self.document.node.locate(path);
        let mut findings = Vec::new();
        for segment in segments(text) {
            let Ok(Segment::Expression { offset, body, .. }) = segment else {
                continue;
            };
            let Ok(Body::Jobs(target)) = Body::parse(body) else {
                continue;
            };
            let (name, key) = target.split(|name| self.jobs.contains_key(name));
            let Some(job) = self.jobs.get(name).filter(|_| readable(name)) else {
                continue;
            };
            // A call exposes what the called Workflow declares, which is not known here.
            if job.uses.is_some() || job.outputs.contains_key(key) || is_unread(job) {
                continue;
            }
            let said = format!("job `{name}` declares no output `{key}`");
            let help = if job.outputs.is_empty() {
                Some(format!("add `outputs` to job `{name}`"))
            } else {
                meant(key, job.outputs.keys().map(String::as_str))
            };
            let place = Place {
                document: self.document.index,
                path: path.to_owned(),
                span: expression_span(self.source, located.node, offset)
                    .unwrap_or_else(|| located.span()),
            };
            findings.push(self.source.error("K035", said, place).maybe_help(help));
        }
        findings
    }
}

/// A stand-in for a job that could not be read declares nothing that counts.
fn is_unread(job: &Job) -> bool {
    job.outputs.is_empty() && job.steps.iter().all(|step| step.name == "unread")
}

/// Returns the texts of a job that may read other jobs, with their paths.
fn texts<'a>(name: &str, job: &'a Job) -> Vec<(String, &'a str)> {
    let mut texts = Vec::new();
    let prefix = format!("spec.jobs.{name}");
    for (key, text) in &job.with {
        texts.push((format!("{prefix}.with.{key}"), text.as_str()));
    }
    for (index, step) in job.steps.iter().enumerate() {
        let prefix = format!("{prefix}.steps[{index}]");
        texts.extend(
            step.run
                .as_deref()
                .map(|run| (format!("{prefix}.run"), run)),
        );
        for (at, arg) in step.args.iter().enumerate() {
            texts.push((format!("{prefix}.args[{at}]"), arg.as_str()));
        }
        for (field, map) in [("env", &step.env), ("with", &step.with)] {
            for (key, text) in map {
                texts.push((format!("{prefix}.{field}.{key}"), text.as_str()));
            }
        }
    }
    texts
}
