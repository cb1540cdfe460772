//! What a file asks to run, and whether the given inputs fit it.

use std::collections::BTreeMap;

use kruntimes_core::api::Input;
use kruntimes_workflow::bind::BindError;

use super::Manifest;
use super::document::Document;
use kruntimes_core::nearest::meant;
use kruntimes_workflow::yaml::{Finding, Node, Place};

/// What a file asks to run.
pub(super) enum Chosen<'a> {
    /// Its WorkflowRuns and Runs.
    Objects(Vec<&'a Document>),
    /// Its only Workflow that no other one calls.
    Workflow(&'a Document),
}

/// Decides what to run.
pub(super) fn chosen(manifest: &Manifest) -> Result<Chosen<'_>, Box<Finding>> {
    let documents = &manifest.documents;
    let objects: Vec<&Document> = documents
        .iter()
        .filter(|document| matches!(document.kind(), "Run" | "WorkflowRun"))
        .collect();
    if !objects.is_empty() {
        return Ok(Chosen::Objects(objects));
    }
    let called: Vec<&str> = documents.iter().flat_map(calls).collect();
    let is_root = |document: &&Document| {
        document.kind() == "Workflow" && document.name().is_none_or(|name| !called.contains(&name))
    };
    let roots: Vec<&Document> = documents.iter().filter(is_root).collect();
    match roots[..] {
        [root] => Ok(Chosen::Workflow(root)),
        [] => {
            let said = "the file holds nothing to run";
            let place = documents.first().map_or(
                Place {
                    document: 0,
                    path: String::new(),
                    span: 0..0,
                },
                |first| first.place("kind"),
            );
            let finding = manifest.source.error("K000", said, place);
            Err(Box::new(finding.help(
                "add a document of kind WorkflowRun, Run or Workflow",
            )))
        }
        [_, second, ..] => {
            let said = "the file holds several Workflows and does not say which one to run";
            let finding = manifest.source.error("K000", said, second.place("kind"));
            Err(Box::new(finding.help(
                "keep one, call one from the other, or add a document of kind WorkflowRun",
            )))
        }
    }
}

fn calls(document: &Document) -> impl Iterator<Item = &str> {
    let jobs = document.value["spec"]["jobs"].as_object();
    jobs.into_iter()
        .flatten()
        .filter_map(|(_, job)| job["uses"].as_str())
}

/// Reports what cannot be run and every input that does not fit (W-20, all of them).
pub(super) fn check(manifest: &Manifest, given: &[(String, String)]) -> Vec<Finding> {
    // A file whose documents were refused would be blamed for what it does not hold.
    if manifest.documents.is_empty() && !manifest.findings.is_empty() {
        return Vec::new();
    }
    match chosen(manifest) {
        Err(finding) => vec![*finding],
        Ok(Chosen::Objects(objects)) => unusable(manifest, &objects, given),
        Ok(Chosen::Workflow(document)) => binding(manifest, document, given),
    }
}

fn unusable(
    manifest: &Manifest,
    objects: &[&Document],
    given: &[(String, String)],
) -> Vec<Finding> {
    let Some(first) = objects.first() else {
        return Vec::new();
    };
    let report = |(name, _): &(String, String)| {
        let said = BindError::Unknown(name.clone()).to_string();
        let help = format!(
            "a {} has no inputs; only a Workflow declares them",
            first.kind()
        );
        let finding = manifest.source.error("K043", said, first.place("kind"));
        finding.help(help)
    };
    given.iter().map(report).collect()
}

fn binding(manifest: &Manifest, document: &Document, given: &[(String, String)]) -> Vec<Finding> {
    let declared = declared(document);
    let given = values(given);
    let place = |path: &str| {
        let place = document.key_place(path);
        let missing = document.node.at(&["spec", "inputs"]).is_none();
        if missing {
            document.place("kind")
        } else {
            place
        }
    };
    let mut findings = Vec::new();
    for name in given.keys().filter(|name| !declared.contains_key(*name)) {
        let said = BindError::Unknown(name.clone()).to_string();
        let help = meant(name, declared.keys().map(String::as_str))
            .unwrap_or_else(|| "this Workflow declares no inputs".to_owned());
        let finding = manifest.source.error("K043", said, place("spec.inputs"));
        findings.push(finding.help(help));
    }
    for (name, input) in &declared {
        let has_default = input
            .default
            .as_deref()
            .is_some_and(|text| !text.is_empty());
        if input.required && !has_default && !given.contains_key(name) {
            let said = BindError::Missing(name.clone()).to_string();
            let at = place(&format!("spec.inputs.{name}"));
            let finding = manifest.source.error("K044", said, at);
            findings.push(finding.help(format!("give it with --input {name}=VALUE")));
        }
    }
    findings
}

/// Reads the declared inputs, leaving out what is not shaped like one.
fn declared(document: &Document) -> BTreeMap<String, Input> {
    let names = document.node.at(&["spec", "inputs"]);
    let names = names.map_or(&[][..], Node::members).iter();
    names
        .map(|(key, _)| {
            let written = document.value["spec"]["inputs"][&key.text].clone();
            let input = serde_json::from_value(written).unwrap_or_default();
            (key.text.clone(), input)
        })
        .collect()
}

/// Later values of one name win (W-146).
pub(super) fn values(given: &[(String, String)]) -> BTreeMap<String, String> {
    given.iter().cloned().collect()
}

/// Splits `key=value` at the first `=` (W-146).
///
/// # Errors
///
/// Fails with the text of W-146 when there is no `=` or no key.
pub fn parse_input(text: &str) -> Result<(String, String), InputSyntax> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err(InputSyntax),
    }
}

/// An input that is not `key=value`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("--input must be key=value")]
pub struct InputSyntax;
