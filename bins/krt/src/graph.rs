//! `krt wf graph` and `krt wf convert`: what a file stands for.

use std::collections::BTreeMap;

use kruntimes_core::api::Job;
use kruntimes_embedded::manifest::{self, Finding, Known, Severity, has_errors};
use kruntimes_workflow::convert;
use kruntimes_workflow::export::{self, Body, Graph, JobNode};
use serde_json::{Value, json};

use crate::args::files::{Convert, Graph as Request, Picture};
use crate::exit::Exit;
use crate::paint::{Paint, Wishes};
use crate::{diagnostics, file, say};

/// Prints the jobs of a file and what needs what.
pub(crate) fn run(request: &Request) -> Exit {
    let file = request.file.as_deref().unwrap_or(std::path::Path::new("-"));
    let (name, text) = match read(file) {
        Ok(read) => read,
        Err(exit) => return exit,
    };
    let found = if convert::is_ci_file(&text) {
        convert::convert(&name, &text, &request.conversion())
            .map(|converted| vec![(String::new(), converted.jobs)])
    } else {
        graphs(&name, &text)
    };
    let found = match found {
        Ok(found) => found,
        Err(findings) => return refuse(&name, &text, &findings),
    };
    let fits = |graph: &(String, _)| request.name.as_ref().is_none_or(|name| *name == graph.0);
    let mut fitting = found.iter().filter(|graph| fits(graph));
    let (Some((_, jobs)), None) = (fitting.next(), fitting.next()) else {
        let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
        let said = match names.len() {
            0 => format!("krt: {name} holds no Workflow and no WorkflowRun"),
            _ => format!("krt: choose one with --name: {}", names.join(", ")),
        };
        say::notice(&said);
        return Exit::Refused;
    };
    match Graph::new(jobs) {
        Ok(graph) => {
            say::data(&picture(&graph, request.output));
            Exit::Done
        }
        Err(invalid) => {
            say::notice(&format!("krt: {name}: {invalid}"));
            Exit::Refused
        }
    }
}

/// Writes a graph in one of its forms.
pub(crate) fn picture(graph: &Graph, form: Picture) -> String {
    match form {
        Picture::Text => export::text(graph),
        Picture::Dot => export::dot(graph),
        Picture::Mermaid => export::mermaid(graph),
        Picture::Svg => export::svg(graph),
        Picture::Json => {
            let jobs: Vec<Value> = graph.jobs().iter().map(node).collect();
            format!("{:#}", json!({"jobs": jobs}))
        }
    }
}

fn node(job: &JobNode) -> Value {
    let mut node = json!({"name": job.name, "needs": job.needs, "layer": job.layer});
    match &job.body {
        Body::Steps { runs_on, steps } => {
            node["runsOn"] = json!(runs_on);
            node["steps"] = json!(steps);
        }
        Body::Call(workflow) => node["uses"] = json!(workflow),
    }
    if let Some(phase) = job.phase {
        node["phase"] = json!(phase);
    }
    node
}

type Graphs = Vec<(String, BTreeMap<String, Job>)>;

fn graphs(name: &str, text: &str) -> Result<Graphs, Vec<Finding>> {
    let manifest = manifest::read(name, text)?;
    let findings = manifest.check(&Known::default());
    if has_errors(&findings) {
        return Err(findings);
    }
    let graphs = manifest.graphs();
    Ok(graphs
        .map(|(_, name, jobs)| (name.to_owned(), jobs))
        .collect())
}

/// Prints a CI file as a manifest.
pub(crate) fn convert_file(request: &Convert) -> Exit {
    let (name, text) = match read(&request.file) {
        Ok(read) => read,
        Err(exit) => return exit,
    };
    match convert::convert(&name, &text, &request.options()) {
        Ok(converted) => {
            show(&name, &text, &converted.findings);
            say::data(&convert::to_yaml(&name, &converted));
            Exit::Done
        }
        Err(findings) => refuse(&name, &text, &findings),
    }
}

fn read(path: &std::path::Path) -> Result<(String, String), Exit> {
    file::read(path).map_err(|error| {
        let next = "check the path, or use `-` for standard input";
        say::notice(&say::problem(&error, next));
        Exit::NotCarriedOut
    })
}

fn refuse(name: &str, text: &str, findings: &[Finding]) -> Exit {
    show(name, text, findings);
    Exit::Refused
}

/// Shows findings on standard error, where they do not mix with data. Advice is left to `krt lint`.
fn show(name: &str, text: &str, findings: &[Finding]) {
    let wanted = findings
        .iter()
        .filter(|one| one.severity != Severity::Advice);
    let wanted: Vec<Finding> = wanted.cloned().collect();
    if wanted.is_empty() {
        return;
    }
    let terminal = std::io::IsTerminal::is_terminal(&std::io::stderr());
    let paint = Paint::decide(crate::paint::When::Auto, Wishes::read(), terminal, false);
    say::notice(&diagnostics::render(name, text, &wanted, paint, 100));
}
