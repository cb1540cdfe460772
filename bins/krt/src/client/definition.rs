//! Manifest files on their way to a server.

use std::path::Path;

use kruntimes_embedded::manifest::{self, Known, Manifest, Severity, has_errors};
use kruntimes_workflow::extend::Extensions;
use serde_json::{Value, json};

use super::Kind;
use super::objects::random;
use super::problem::Problem;
use crate::exit::Exit;
use crate::paint::Paint;
use crate::{diagnostics, file, say, screen};

/// Reads the objects of one kind from a file, everything that is wrong with them said.
pub(super) fn read(path: &Path, kind: Kind, prefix: &str) -> Result<Vec<Value>, Problem> {
    let (name, text) = file::read(path)
        .map_err(|error| Problem::of(&error, "check the path, or use `-` for standard input"))?;
    let refused = |findings: &[manifest::Finding]| {
        let width = screen::room().columns.clamp(40, 120);
        let shown = diagnostics::render(&name, &text, findings, Paint::default(), width);
        say::notice(&shown);
        Problem {
            text: diagnostics::verdict(&name, findings),
            exit: Exit::Refused,
        }
    };
    let manifest = manifest::read(&name, &text).map_err(|findings| refused(&findings))?;
    let mut findings = manifest.check(&Known {
        // What the server accepts it says itself.
        extensions: Extensions::all(),
        ..Known::default()
    });
    findings.retain(|finding| finding.severity != Severity::Advice);
    if has_errors(&findings) {
        return Err(refused(&findings));
    }
    let objects: Vec<Value> = wanted(&manifest, kind, prefix);
    if objects.is_empty() || manifest.objects().count() > objects.len() {
        let kinds: Vec<&str> = manifest
            .objects()
            .filter_map(|object| object["kind"].as_str())
            .collect();
        let text = format!(
            "krt: {name} holds {}, not only {}",
            kinds.join(", "),
            kind.as_str()
        );
        let next = match kind {
            Kind::WorkflowRun => {
                "run a Workflow with `krt wf create -f FILE` and `krt wf trigger NAME`, other kinds with kubectl"
            }
            _ => "split the file, or use `kubectl apply -f`",
        };
        return Err(Problem::new(text, next).exit(Exit::Refused));
    }
    Ok(objects)
}

/// The objects of a kind; one without a name gets the prefix and random characters.
fn wanted(manifest: &Manifest, kind: Kind, prefix: &str) -> Vec<Value> {
    let objects = manifest
        .objects()
        .filter(|object| object["kind"] == kind.as_str());
    let named = objects.map(|object| {
        let mut object = object.clone();
        if object["metadata"]["name"]
            .as_str()
            .is_none_or(str::is_empty)
        {
            let written = object["metadata"]["generateName"].as_str();
            let name = format!("{}{}", written.unwrap_or(prefix), random(8));
            if !object["metadata"].is_object() {
                object["metadata"] = json!({});
            }
            object["metadata"]["name"] = json!(name);
        }
        if let Some(members) = object.as_object_mut() {
            members.remove("status");
        }
        object
    });
    named.collect()
}
