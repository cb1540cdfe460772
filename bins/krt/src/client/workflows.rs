//! `krt workflow`: definitions, and what is made of them (C-41, C-42).

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use kruntimes_core::api::{Job, WorkflowRunStatus, WorkflowSpec};
use kruntimes_k8s::clock::Clock;
use kruntimes_workflow::definitions::Definitions;
use kruntimes_workflow::export::Graph;
use kruntimes_workflow::trigger::{self, Naming, TriggerError, Triggered};
use kube::ResourceExt as _;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::connect::{Connect, Server};
use super::objects::{TOKEN, random};
use super::printer::{self, List, Output, age, condition, text};
use super::problem::Problem;
use super::table::{Table, fields};
use super::{Kind, definition, jobs, workflow_runs};
use crate::args::files::Graph as Draw;
use crate::args::workflows::{Trigger, WorkflowVerb};
use crate::exit::Exit;
use crate::say;

/// Does what a verb about Workflows asks for.
pub(super) async fn run(connect: &Connect, verb: WorkflowVerb) -> Result<Exit, Problem> {
    let now = Clock::system().now();
    match verb {
        WorkflowVerb::Create {
            file,
            output,
            conversion,
        } => {
            let read = definition::read(&file, Kind::Workflow, "wf-", &conversion)?;
            let server = connect.connect().await?;
            definition::check_runtimes(&server, &read).await?;
            for object in read.objects {
                let made = server.create(Kind::Workflow, object).await?;
                printer::one(Kind::Workflow, &made, output, name);
            }
        }
        WorkflowVerb::List(list) => {
            let server = connect.connect().await?;
            let printed = List {
                kind: Kind::Workflow,
                objects: server.list(Kind::Workflow, &list.selection()).await?,
                namespace: (!list.everywhere).then_some(server.namespace.as_str()),
                headers: !list.no_headers,
            };
            printed.print(list.output, |workflows, _| table(workflows, now));
        }
        WorkflowVerb::Get { name, output } => {
            let server = connect.connect().await?;
            let workflow = server.get(Kind::Workflow, &name).await?;
            printer::one(Kind::Workflow, &workflow, output, details);
        }
        WorkflowVerb::Delete { names } => {
            let server = connect.connect().await?;
            for name in names {
                server.delete(Kind::Workflow, &name).await?;
                say::data(&format!("workflow.kruntimes.io/{name} deleted"));
            }
        }
        WorkflowVerb::Trigger(trigger) => {
            let server = connect.connect().await?;
            return self::trigger(&server, trigger).await;
        }
        WorkflowVerb::Run(run) => return workflow_runs::run(connect, *run).await,
    }
    Ok(Exit::Done)
}

/// What is printed of a new object.
pub(super) fn name(object: &Value) -> String {
    text(&object["metadata"]["name"])
}

fn table(workflows: &[Value], now: Timestamp) -> Table {
    let mut table = Table::new(&["NAME", "NAMESPACE", "READY", "AGE"]);
    for workflow in workflows {
        let metadata = &workflow["metadata"];
        table.row(vec![
            text(&metadata["name"]),
            text(&metadata["namespace"]),
            ready(workflow, "status"),
            age(&metadata["creationTimestamp"], now),
        ]);
    }
    table
}

fn ready(workflow: &Value, part: &str) -> String {
    condition(workflow, "Ready").map_or_else(|| "-".to_owned(), |found| text(&found[part]))
}

fn details(workflow: &Value) -> String {
    let (metadata, spec) = (&workflow["metadata"], &workflow["spec"]);
    let count = |part: &str| {
        spec[part]
            .as_object()
            .map_or(0, serde_json::Map::len)
            .to_string()
    };
    let head = fields(&[
        ("Name", text(&metadata["name"])),
        ("Namespace", text(&metadata["namespace"])),
        ("Ready", ready(workflow, "status")),
        ("Reason", ready(workflow, "reason")),
        ("Inputs", count("inputs")),
        ("Outputs", count("outputs")),
        ("Jobs", count("jobs")),
    ]);
    let mut jobs_table = Table::new(&["JOB", "WHAT", "NEEDS", "STEPS"]);
    for job in jobs::ordered(spec) {
        let steps = spec["jobs"][&job.name]["steps"]
            .as_array()
            .into_iter()
            .flatten();
        let steps: Vec<String> = steps.map(|step| text(&step["name"])).collect();
        jobs_table.row(vec![
            job.name,
            job.what,
            job.needs.join(", "),
            steps.join(", "),
        ]);
    }
    format!("{head}\n\n{}", jobs_table.render(true))
}

/// Binds inputs and creates an inline WorkflowRun that never refers back to the template (C-42).
async fn trigger(server: &Server, request: Trigger) -> Result<Exit, Problem> {
    let workflow = &request.workflow;
    let template = server.get(Kind::Workflow, workflow).await;
    // W-145
    let template = template.map_err(|problem| Problem {
        text: problem.text.replacen(
            &format!("cannot get Workflow {workflow}: "),
            &format!("get workflow {workflow}: "),
            1,
        ),
        ..problem
    })?;
    let values: BTreeMap<String, String> = request.inputs.into_iter().collect();
    let generated = || format!("{}-{}", request.workflow, random(8));
    let naming = Naming::Named(request.name.unwrap_or_else(generated));
    let triggered = rendered(server, &request.workflow, &template, &values, &naming).await?;
    let mut annotations = template.annotations().clone();
    annotations.retain(|key, _| !key.starts_with("kubectl.kubernetes.io/"));
    annotations.extend(triggered.annotations.clone());
    annotations.insert(TOKEN.to_owned(), random(16));
    let mut object = triggered.to_value();
    object["metadata"]["annotations"] = json!(annotations);
    object["metadata"]["labels"] = json!(template.labels());
    let made = server.create(Kind::WorkflowRun, object).await?;
    // W-144
    printer::one(Kind::WorkflowRun, &made, request.output, |made| {
        format!(
            "WorkflowRun {} triggered from Workflow {}",
            name(made),
            request.workflow
        )
    });
    let names = [made.name_any()];
    workflow_runs::waited(server, &names, request.wait, request.wait_timeout).await
}

/// Draws a stored Workflow, or an execution with the phases of its jobs (C-68).
pub(super) async fn graph(connect: &Connect, request: Draw) -> Result<Exit, Problem> {
    let object = request
        .object
        .filter(|object| matches!(object.kind, Kind::Workflow | Kind::WorkflowRun));
    let Some(object) = object else {
        let said = "krt: only a Workflow or a WorkflowRun has a graph".to_owned();
        return Err(Problem::new(said, "write wf/NAME or wfr/NAME").exit(Exit::Usage));
    };
    let server = connect.connect().await?;
    let found = server.get(object.kind, &object.name).await?;
    let unreadable = |error: &dyn std::error::Error| {
        let said = format!(
            "krt: {} {} cannot be drawn: {error}",
            object.kind.as_str(),
            object.name
        );
        Problem::new(said, "see the object with -o yaml").exit(Exit::Refused)
    };
    let jobs: BTreeMap<String, Job> = serde_json::from_value(found.data["spec"]["jobs"].clone())
        .map_err(|error| unreadable(&error))?;
    let mut graph = Graph::new(&jobs).map_err(|error| unreadable(&error))?;
    if object.kind == Kind::WorkflowRun && found.data["status"].is_object() {
        let status: WorkflowRunStatus = serde_json::from_value(found.data["status"].clone())
            .map_err(|error| unreadable(&error))?;
        graph = graph.with_status(&status);
    }
    say::data(&crate::graph::picture(&graph, request.output));
    Ok(Exit::Done)
}

/// Renders a Workflow, reading every Workflow that it reaches through calls.
async fn rendered(
    server: &Server,
    workflow: &str,
    template: &DynamicObject,
    values: &BTreeMap<String, String>,
    naming: &Naming,
) -> Result<Triggered, Problem> {
    let mut known = Definitions::default().with_workflow(workflow, spec(workflow, template)?);
    loop {
        let unread = match trigger::trigger(workflow, &known, values, naming) {
            Ok(triggered) => return Ok(triggered),
            Err(TriggerError::Unread(unread)) => unread,
            Err(error) => {
                let next = format!("see the definition: `krt wf get {workflow} -o yaml`");
                let problem = Problem::of(&error, &next).exit(Exit::Refused);
                // W-145
                let said = problem.text.strip_prefix("krt: ").unwrap_or(&problem.text);
                let text = if said.starts_with("workflow call cycle: ") {
                    format!("krt: {said}")
                } else {
                    format!("krt: materialize workflow {workflow}: {said}")
                };
                return Err(Problem { text, ..problem });
            }
        };
        for called in unread {
            let found = server.find(Kind::Workflow, &called).await?;
            let found = found.map(|found| spec(&called, &found)).transpose()?;
            known.workflows.insert(called, found.map(Arc::new));
        }
    }
}

fn spec(name: &str, workflow: &DynamicObject) -> Result<WorkflowSpec, Problem> {
    serde_json::from_value(workflow.data["spec"].clone()).map_err(|error| {
        let text = format!("krt: Workflow {name} cannot be read: {error}");
        Problem::new(text, "see `krt wf get NAME -o yaml`").exit(Exit::Refused)
    })
}

/// The form in which new objects are printed.
pub(super) fn print_made(kind: Kind, object: &DynamicObject, output: Output) {
    printer::one(kind, object, output, name);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c_41_workflows_have_their_columns_and_jobs() {
        let workflow = json!({
            "metadata": {"name": "ci", "namespace": "team"},
            "spec": {
                "inputs": {"who": {}},
                "jobs": {
                    "test": {"runs-on": "bash", "needs": ["build"], "steps": [{"name": "unit"}, {"name": "lint"}]},
                    "build": {"uses": "builder"},
                },
            },
            "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "Valid"}]},
        });
        let now = Timestamp::UNIX_EPOCH;
        insta::assert_snapshot!(table(std::slice::from_ref(&workflow), now).render(true), @r"
        NAME   NAMESPACE   READY   AGE
        ci     team        True    -
        ");
        insta::assert_snapshot!(details(&workflow), @r"
        Name:            ci
        Namespace:       team
        Ready:           True
        Reason:          Valid
        Inputs:          1
        Outputs:         0
        Jobs:            2

        JOB     WHAT                    NEEDS   STEPS
        build   uses builder
        test    runs-on bash, 2 steps   build   unit, lint
        ");
    }
}
