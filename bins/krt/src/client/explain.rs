//! `krt explain`: why a Run or WorkflowRun is in its state (C-59, C-60).

use std::path::PathBuf;

use kruntimes_k8s::clock::Clock;
use kruntimes_k8s::explain::{Explanation, LoadError, Options, Picture, registry, workflow_run};
use serde_json::Value;

use super::problem::{Asked, Problem};
use super::{Connect, Kind, Reference, replay};
use crate::args::Format;
use crate::args::client::{Explain, Explained};
use crate::exit::Exit;
use crate::say;

/// Explains a Run, a reason, or all reasons.
pub(super) async fn run(connect: &Connect, request: Explain) -> Result<Exit, Problem> {
    let options = Options {
        heartbeat_limit: request.heartbeat_staleness,
    };
    match request.what {
        Explained::Registry => {
            say::data(&registry_text(request.format));
            Ok(Exit::Done)
        }
        Explained::Reason(reason) => {
            let entry = registry::entry(&reason).ok_or_else(|| {
                let names = registry::ENTRIES.iter().map(|entry| entry.reason);
                let meant = kruntimes_core::nearest::nearest(&reason, names);
                let meant =
                    meant.map_or_else(String::new, |meant| format!("; did you mean {meant}?"));
                let text = format!("krt: the reason {reason:?} is not known{meant}");
                Problem::new(text, "see `krt explain --list`")
            })?;
            say::data(&match request.format {
                Format::Table => registry::text(entry),
                Format::Json => format!("{:#}", serde_json::json!(entry)),
            });
            Ok(Exit::Done)
        }
        Explained::Recording { file, expect } => replay::run(&file, expect.as_deref(), &options),
        Explained::Object(reference) => {
            object(
                connect,
                &reference,
                &options,
                request.format,
                request.record,
            )
            .await
        }
    }
}

fn registry_text(format: Format) -> String {
    match format {
        Format::Table => {
            let entries: Vec<String> = registry::ENTRIES.iter().map(registry::text).collect();
            entries.join("\n")
        }
        Format::Json => format!("{:#}", serde_json::json!(registry::ENTRIES)),
    }
}

async fn object(
    connect: &Connect,
    reference: &Reference,
    options: &Options,
    format: Format,
    record: Option<PathBuf>,
) -> Result<Exit, Problem> {
    let server = connect.connect().await?;
    let now = Clock::system().now();
    if reference.kind == Kind::WorkflowRun {
        let found = server.get(Kind::WorkflowRun, &reference.name).await?;
        let run = serde_json::to_value(found).and_then(serde_json::from_value);
        let run = run.map_err(|error| {
            Problem::of(&error, "see `krt wf run get NAME -o yaml`").exit(Exit::Refused)
        })?;
        print(&workflow_run(&run, now), format);
        return Ok(Exit::Done);
    }
    let picture = Picture::load(&server.client, &server.namespace, &reference.name, now);
    let picture = Box::pin(picture).await.map_err(|error| refused(&error))?;
    if let Some(path) = record {
        let recording = picture.record(options).map_err(|error| refused(&error))?;
        let text = format!("{:#}", value(&recording));
        std::fs::write(&path, text + "\n").map_err(|error| {
            Problem::new(
                format!("krt: cannot write {}: {error}", path.display()),
                "name another file",
            )
        })?;
        say::notice(&format!(
            "krt: wrote {0}; replay it with `krt explain replay {0}`. It holds names and labels of Runs and Pods",
            path.display()
        ));
        return Ok(Exit::Done);
    }
    let told: Explanation = picture.explain(options).map_err(|error| refused(&error))?;
    print(&told, format);
    Ok(Exit::Done)
}

fn print(told: &Explanation, format: Format) {
    say::data(&match format {
        Format::Table => told.to_string(),
        Format::Json => format!("{:#}", value(told)),
    });
}

fn value(of: &impl serde::Serialize) -> Value {
    serde_json::to_value(of).expect("texts and numbers have a JSON form")
}

fn refused(error: &LoadError) -> Problem {
    match error {
        LoadError::NotFound { namespace, .. } => {
            Problem::of(error, &format!("see `krt ls -n {namespace}`"))
        }
        LoadError::Read {
            resource,
            namespace,
            source,
        } => {
            let asked = if *resource == "pods" {
                Asked::core("list", resource, namespace)
            } else {
                Asked::new("list", resource, namespace)
            };
            asked.failed(&format!("read {resource} in namespace {namespace}"), source)
        }
        LoadError::Decided { .. } => Problem::of(error, "explain it without --record"),
        _ => Problem::of(error, "this is a defect of krt"),
    }
}
