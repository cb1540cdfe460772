//! Manifest files on their way to a server.

use std::path::Path;

use kruntimes_core::api::API_VERSION;
use kruntimes_embedded::manifest::{self, Known, Manifest, Severity, has_errors};
use kruntimes_workflow::convert::{self, Converted};
use kruntimes_workflow::extend::Extensions;
use serde_json::{Value, json};

use super::Kind;
use super::connect::Server;
use super::objects::{Selection, random};
use super::problem::Problem;
use crate::args::files::Conversion;
use crate::exit::Exit;
use crate::paint::Paint;
use crate::{diagnostics, file, say, screen};

/// What a file holds for a server.
pub(super) struct Read {
    /// The objects, named.
    pub(super) objects: Vec<Value>,
    /// Whether they were made of a CI file.
    converted: bool,
}

/// Reads the objects of one kind from a file, everything that is wrong with them said.
pub(super) fn read(
    path: &Path,
    kind: Kind,
    prefix: &str,
    conversion: &Conversion,
) -> Result<Read, Problem> {
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
    if convert::is_ci_file(&text) {
        let options = convert::Options {
            kind: Some(match kind {
                Kind::Workflow => convert::Kind::Workflow,
                _ => convert::Kind::WorkflowRun,
            }),
            ..conversion.options()
        };
        let converted = convert::convert(&name, &text, &options);
        let converted = converted.map_err(|findings| refused(&findings))?;
        for finding in &converted.findings {
            let (line, column) = (finding.line, finding.column);
            say::notice(&format!("krt: {name}:{line}:{column}: {}", finding.message));
        }
        return Ok(Read {
            objects: vec![object(&converted, kind, prefix)],
            converted: true,
        });
    }
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
        return Err(mixed(&name, &manifest, kind, objects.is_empty()));
    }
    Ok(Read {
        objects,
        converted: false,
    })
}

/// Refuses a file with objects of other kinds than the one that is wanted.
fn mixed(name: &str, manifest: &Manifest, kind: Kind, none: bool) -> Problem {
    let kinds: Vec<&str> = manifest
        .objects()
        .filter_map(|object| object["kind"].as_str())
        .collect();
    // W-151
    let (small, text) = (kind.singular(), kind.as_str());
    let text = if none {
        let holds = kinds.join(", ");
        format!(
            "krt: {small} file must contain kind: {text} or GitHub Actions jobs; {name} holds {holds}"
        )
    } else {
        format!("krt: {name} holds {}, not only {text}", kinds.join(", "))
    };
    let next = match kind {
        Kind::WorkflowRun => {
            "run a Workflow with `krt wf create -f FILE` and `krt wf trigger NAME`, other kinds with kubectl"
        }
        _ => "split the file, or use `kubectl apply -f`",
    };
    Problem::new(text, next).exit(Exit::Refused)
}

/// The object that a CI file stands for (C-81).
fn object(converted: &Converted, kind: Kind, prefix: &str) -> Value {
    let spec = match kind {
        Kind::Workflow => json!(converted.workflow()),
        _ => json!(converted.workflow_run()),
    };
    json!({
        "apiVersion": API_VERSION,
        "kind": kind.as_str(),
        "metadata": {
            "name": format!("{prefix}{}", random(8)),
            "annotations": converted.annotations,
        },
        "spec": spec,
    })
}

/// Refuses a CI file that names Runtimes which are not there: its Runs would wait for ever (C-86).
pub(super) async fn check_runtimes(server: &Server, read: &Read) -> Result<(), Problem> {
    if !read.converted {
        return Ok(());
    }
    let there = match server.list(Kind::Runtime, &Selection::default()).await {
        Ok(there) => there,
        Err(problem) => {
            say::notice(&format!("{}\nkrt: Runtimes are not checked", problem.text));
            return Ok(());
        }
    };
    let there: Vec<String> = there
        .into_iter()
        .filter_map(|one| one.metadata.name)
        .collect();
    let jobs = read
        .objects
        .iter()
        .filter_map(|object| object["spec"]["jobs"].as_object());
    for (job, body) in jobs.flatten() {
        let wanted = body["runs-on"].as_str().unwrap_or_default();
        if !wanted.is_empty() && !there.iter().any(|name| name == wanted) {
            let said = format!(
                "krt: job {job} runs on {wanted}, and there is no such Runtime in namespace {}: there are {}",
                server.namespace,
                if there.is_empty() {
                    "none".to_owned()
                } else {
                    there.join(", ")
                },
            );
            let next = format!("map it to one that is there: --runtime-map {wanted}=NAME");
            return Err(Problem::new(said, &next).exit(Exit::Refused));
        }
    }
    Ok(())
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
