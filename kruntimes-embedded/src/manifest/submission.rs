//! Turns a checked file into objects to create.

use std::collections::BTreeMap;

use kruntimes_core::api::{API_VERSION, WorkflowSpec};
use kruntimes_core::names;
use kruntimes_workflow::bind::render_workflow;
use kruntimes_workflow::extend::Extensions;
use kruntimes_workflow::yaml::{Finding, has_errors};
use serde_json::{Value, json};

use super::document::Document;
use super::inputs::{Chosen, chosen, values};
use super::{Known, Manifest};
use crate::{NAMESPACE, Submission};

/// Characters that make a generated name differ from its neighbours.
const SUFFIX: usize = 8;

pub(super) fn submission(
    manifest: &Manifest,
    inputs: &[(String, String)],
    extensions: &Extensions,
) -> Result<Submission, Vec<Finding>> {
    let known = Known {
        inputs: Some(inputs.to_vec()),
        extensions: extensions.clone(),
        ..Known::default()
    };
    let findings = manifest.check(&known);
    if has_errors(&findings) {
        return Err(findings);
    }
    let mut submission = Submission::default();
    let suffix = |document: &Document| suffix(manifest, document, inputs);
    for document in &manifest.documents {
        let object = || object(document, &suffix(document));
        match document.kind() {
            "Runtime" => submission.runtimes.push(object()),
            "Run" | "WorkflowRun" => submission.targets.push(object()),
            _ => submission.definitions.push(object()),
        }
    }
    match chosen(manifest) {
        Err(finding) => Err(vec![*finding]),
        Ok(Chosen::Objects(_)) => Ok(submission),
        Ok(Chosen::Workflow(document)) => {
            let rendered = rendered(manifest, document, inputs, &suffix(document));
            submission.targets.push(rendered.map_err(|one| vec![*one])?);
            Ok(submission)
        }
    }
}

/// Renders a Workflow into the WorkflowRun that executes it (W-144, W-148).
fn rendered(
    manifest: &Manifest,
    document: &Document,
    inputs: &[(String, String)],
    suffix: &str,
) -> Result<Value, Box<Finding>> {
    let workflow = document.name().unwrap_or_default();
    let refused = |message: String, path: &str| {
        let place = document.key_place(path);
        Box::new(manifest.source.error("K000", message, place))
    };
    let spec: WorkflowSpec = serde_json::from_value(document.value["spec"].clone())
        .map_err(|error| refused(error.to_string(), "spec"))?;
    let rendered = render_workflow(&spec, &values(inputs))
        .map_err(|error| refused(error.for_trigger(workflow), "spec"))?;
    let metadata = &document.value["metadata"];
    let mut object = json!({
        "apiVersion": API_VERSION,
        "kind": "WorkflowRun",
        "metadata": {
            "name": joined(&format!("{workflow}-"), suffix),
            "namespace": NAMESPACE,
        },
        "spec": rendered.spec,
    });
    let mut annotations: BTreeMap<String, String> =
        serde_json::from_value(metadata["annotations"].clone()).unwrap_or_default();
    annotations.extend(rendered.annotations);
    if !annotations.is_empty() {
        object["metadata"]["annotations"] = json!(annotations);
    }
    if metadata["labels"].is_object() {
        object["metadata"]["labels"] = metadata["labels"].clone();
    }
    Ok(object)
}

/// The object as it is created: name and namespace set, nothing that the system writes.
fn object(document: &Document, suffix: &str) -> Value {
    let written = &document.value["metadata"];
    let text = |name: &str| written[name].as_str().filter(|text| !text.is_empty());
    let name = match (text("name"), text("generateName")) {
        (Some(name), _) => name.to_owned(),
        (None, Some(prefix)) => joined(prefix, suffix),
        (None, None) if document.kind() == "Run" => joined("run-", suffix),
        (None, None) => joined("wfr-", suffix),
    };
    let mut metadata = json!({ "name": name, "namespace": NAMESPACE });
    for map in ["labels", "annotations"] {
        if written[map].is_object() {
            metadata[map] = written[map].clone();
        }
    }
    let mut object = document.value.clone();
    if let Some(members) = object.as_object_mut() {
        members.remove("status");
        members.insert("metadata".to_owned(), metadata);
    }
    object
}

fn joined(prefix: &str, suffix: &str) -> String {
    let max = kruntimes_core::limits::NAME_MAX - suffix.len();
    let kept = &prefix[..prefix.floor_char_boundary(max)];
    format!("{kept}{suffix}")
}

/// Tells apart objects of one file and runs with other inputs; equal files give equal names.
fn suffix(manifest: &Manifest, document: &Document, inputs: &[(String, String)]) -> String {
    let seed = format!("{}\n{inputs:?}\n{}", document.index, manifest.source.text);
    names::hash(&seed, SUFFIX)
}
