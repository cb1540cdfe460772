//! Manifest files: from YAML to objects the engine takes, with the place of every mistake.
//!
//! [`read`] parses a file of one or several documents, [`Manifest::check`] says
//! everything that is wrong with it in one pass, and [`Manifest::submission`]
//! turns it into what [`crate::Submission`] holds. Nothing here reads a file,
//! a clock or a terminal; equal text and inputs give equal objects, names
//! included.
//!
//! Schemas and CEL rules are those of the server, graph and expression rules
//! those of the engine. Beyond them a file is read the way people write it:
//! scalars in text places are the text as written, `needs: build` is a list of
//! one, a name that stands twice is an error.

mod check;
mod document;
mod expressions;
mod inputs;
mod jobs;
mod references;
mod rules;
mod schema;
mod shape;
mod submission;

use std::collections::BTreeMap;

use document::Document;
pub use inputs::{InputSyntax, parse_input};
use kruntimes_core::api::Job;
use kruntimes_workflow::extend::Extensions;
pub use kruntimes_workflow::yaml::{Finding, Severity, has_errors};
use kruntimes_workflow::yaml::{Source, compose};
pub use references::references;

/// A manifest file that could be parsed.
pub struct Manifest {
    source: Source,
    documents: Vec<Document>,
    /// What was wrong while reading.
    findings: Vec<Finding>,
}

/// What is known about the place where the objects are going to run.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// Runtimes that exist beside those of the file; absent means that nothing is known about them.
    pub runtimes: Option<Vec<String>>,
    /// Whether the objects run in this process, which has Runtime Servers only for some images.
    pub local: bool,
    /// Values for the inputs of the Workflow that is to be run; absent while nothing is to be run.
    pub inputs: Option<Vec<(String, String)>>,
    /// What the engine that is going to run them accepts beyond the built-in API.
    pub extensions: Extensions,
}

/// Parses a file of one or several documents.
///
/// `name` is only kept for [`Manifest::name`]; nothing is read from a file.
///
/// # Errors
///
/// Fails when the text is not YAML, with the place where parsing stopped and
/// whatever was found before it. Mistakes in well-formed YAML are left to
/// [`Manifest::check`].
pub fn read(name: &str, text: &str) -> Result<Manifest, Vec<Finding>> {
    let source = Source::new(name, text);
    let composed = compose(&source);
    let mut findings = composed.findings;
    if composed.broken {
        return Err(findings);
    }
    let documents = composed.documents.into_iter();
    let documents: Vec<Document> = documents
        .filter_map(|(index, node)| Document::read(index, node, &source, &mut findings))
        .collect();
    Ok(Manifest {
        source,
        documents,
        findings,
    })
}

impl Manifest {
    /// Name of the file, as given to [`read`].
    pub fn name(&self) -> &str {
        &self.source.name
    }

    /// Text of the file, which the spans of findings refer to.
    pub fn text(&self) -> &str {
        &self.source.text
    }

    /// Names the Runtimes that the file brings.
    pub fn runtimes(&self) -> impl Iterator<Item = &str> {
        let runtimes = self.documents.iter();
        runtimes
            .filter(|document| document.kind() == "Runtime")
            .filter_map(Document::name)
    }

    /// Returns the objects of known kinds as they were written, in the types of their schemas.
    pub fn objects(&self) -> impl Iterator<Item = &serde_json::Value> {
        self.documents.iter().map(|document| &document.value)
    }

    /// Returns everything that is wrong with the file, in reading order.
    pub fn check(&self, known: &Known) -> Vec<Finding> {
        check::check(self, known)
    }

    /// Returns kind, name and jobs of every Workflow and WorkflowRun that can be read.
    pub fn graphs(&self) -> impl Iterator<Item = (&'static str, &str, BTreeMap<String, Job>)> {
        let documents = self.documents.iter();
        documents
            .filter(|document| matches!(document.kind(), "Workflow" | "WorkflowRun"))
            .filter_map(|document| {
                let jobs = document.value["spec"]["jobs"].clone();
                let jobs = serde_json::from_value(jobs).ok()?;
                Some((document.kind(), document.name().unwrap_or_default(), jobs))
            })
    }

    /// Builds the objects to submit, a Workflow rendered into an inline WorkflowRun.
    ///
    /// # Errors
    ///
    /// Fails when the file has errors, or when the inputs do not fit; nothing
    /// else is left to refuse afterwards than what only the server can know.
    pub fn submission(
        &self,
        inputs: &[(String, String)],
    ) -> Result<crate::Submission, Vec<Finding>> {
        self.submission_with(inputs, &Extensions::none())
    }

    /// Does what [`Manifest::submission`] does, for an engine that accepts extensions.
    ///
    /// # Errors
    ///
    /// Those of [`Manifest::submission`].
    pub fn submission_with(
        &self,
        inputs: &[(String, String)],
        extensions: &Extensions,
    ) -> Result<crate::Submission, Vec<Finding>> {
        submission::submission(self, inputs, extensions)
    }
}

#[cfg(test)]
mod tests;
