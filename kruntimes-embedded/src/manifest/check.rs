//! Everything that is wrong with a file, in one pass.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Container;
use kruntimes_core::nearest::{listed, meant};
use kruntimes_workflow::graph::is_label;
use kruntimes_workflow::yaml::{Finding, Source};
use serde_json::Value;

use super::document::Document;
use super::{Known, Manifest, inputs, jobs, rules};
use crate::node::{LOCAL_SERVERS, local_server};

pub(super) fn check(manifest: &Manifest, known: &Known) -> Vec<Finding> {
    let source = &manifest.source;
    let mut findings = manifest.findings.clone();
    for document in &manifest.documents {
        let broken = rules::check(source, document, &manifest.findings);
        let judged: Vec<Finding> = manifest.findings.iter().chain(&broken).cloned().collect();
        findings.extend(jobs::check((source, document), &judged, &known.extensions));
        findings.extend(broken);
    }
    findings.extend(duplicates(source, &manifest.documents));
    if let Some(runtimes) = &known.runtimes {
        findings.extend(unknown_runtimes(manifest, runtimes));
    }
    if known.local {
        findings.extend(unavailable_images(manifest));
    }
    if let Some(values) = &known.inputs {
        findings.extend(inputs::check(manifest, values));
    }
    let order = |finding: &Finding| (finding.span.start, finding.severity, finding.code);
    findings.sort_by(|a, b| {
        order(a)
            .cmp(&order(b))
            .then_with(|| a.message.cmp(&b.message))
    });
    findings.dedup_by(|a, b| a.span == b.span && a.message == b.message);
    findings
}

/// Reports objects that would be created twice.
fn duplicates(source: &Source, documents: &[Document]) -> Vec<Finding> {
    let mut seen: BTreeMap<(&str, &str), &Document> = BTreeMap::new();
    let mut findings = Vec::new();
    for document in documents {
        let Some(name) = document.name() else {
            continue;
        };
        let Some(first) = seen.insert((document.kind(), name), document) else {
            continue;
        };
        let (line, _) = source.position(first.place("metadata.name").span.start);
        let said = format!("{} `{name}` stands in this file twice", document.kind());
        let finding = source.error("K005", said, document.place("metadata.name"));
        findings.push(finding.help(format!("the first one is in line {line}")));
    }
    findings
}

/// C-73: a Runtime that does not exist here is reported before anything starts.
fn unknown_runtimes(manifest: &Manifest, existing: &[String]) -> Vec<Finding> {
    let mut names: Vec<&str> = existing.iter().map(String::as_str).collect();
    names.extend(manifest.runtimes());
    names.sort_unstable();
    names.dedup();
    let mut findings = Vec::new();
    for document in &manifest.documents {
        for (path, runtime) in wanted_runtimes(document) {
            // A name that no Runtime can have is reported as such.
            if names.contains(&runtime) || !is_label(runtime) {
                continue;
            }
            let said = format!("runtime `{runtime}` does not exist here");
            let help = match (meant(runtime, names.iter().copied()), listed(&names)) {
                (Some(meant), Some(list)) if meant.starts_with("did") => {
                    format!("{meant} available: {list}")
                }
                (_, Some(list)) => format!("available: {list}"),
                (_, None) => "the file may bring it as a document of kind Runtime".to_owned(),
            };
            let finding = manifest.source.error("K050", said, document.place(&path));
            findings.push(finding.help(help));
        }
    }
    findings
}

/// C-73: a Runtime whose Pods can never become ready here would keep its Runs waiting for ever.
fn unavailable_images(manifest: &Manifest) -> Vec<Finding> {
    let runtimes = manifest.documents.iter();
    let runtimes = runtimes.filter(|document| document.kind() == "Runtime");
    let mut findings = Vec::new();
    for document in runtimes {
        let first = &document.value["spec"]["template"]["spec"]["containers"][0];
        // What is no container is reported by the schema.
        let Ok(container) = serde_json::from_value::<Container>(first.clone()) else {
            continue;
        };
        if local_server(&container).is_none() {
            let image = container.image.unwrap_or_default();
            let said = format!("image `{image}` has no runtime server on this machine");
            let path = "spec.template.spec.containers[0].image";
            let finding = manifest.source.error("K050", said, document.place(path));
            let available = listed(LOCAL_SERVERS).unwrap_or_default();
            findings.push(finding.help(format!("available: {available}")));
        }
    }
    findings
}

/// Returns the paths and names of the Runtimes that an object asks for.
fn wanted_runtimes(document: &Document) -> Vec<(String, &str)> {
    let spec = &document.value["spec"];
    let filled = |value: &'_ Value| value.as_str().is_some_and(|name| !name.is_empty());
    let mut wanted = Vec::new();
    let own = &spec["runtime"];
    if matches!(document.kind(), "Run" | "PersistentWorkspace") && filled(own) {
        wanted.extend(own.as_str().map(|name| ("spec.runtime".to_owned(), name)));
    }
    for (job, body) in spec["jobs"].as_object().into_iter().flatten() {
        let runtime = &body["runs-on"];
        if filled(runtime) {
            let path = format!("spec.jobs.{job}.runs-on");
            wanted.extend(runtime.as_str().map(|name| (path, name)));
        }
    }
    wanted
}
