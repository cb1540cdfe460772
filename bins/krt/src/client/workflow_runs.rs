//! `krt workflow run`: executions (C-43, C-44).

use std::time::Duration;

use jiff::Timestamp;
use kruntimes_k8s::clock::Clock;
use kube::ResourceExt as _;
use serde_json::{Value, json};

use super::connect::{Connect, Server};
use super::objects::{TOKEN, random};
use super::printer::{self, List, age, text};
use super::problem::Problem;
use super::runs::phase;
use super::table::{Table, fields};
use super::wait::until_ended;
use super::{Kind, Reference, definition, jobs, wait, workflows};
use crate::args::wait::Goal;
use crate::args::workflows::{RunVerb, WorkflowRuns};
use crate::exit::Exit;
use crate::say;

/// Does what a verb about WorkflowRuns asks for.
pub(super) async fn run(connect: &Connect, request: WorkflowRuns) -> Result<Exit, Problem> {
    let now = Clock::system().now();
    match request.verb {
        None => {
            let file = request.file.unwrap_or_else(|| "-".into());
            let conversion = &request.conversion;
            let read = definition::read(&file, Kind::WorkflowRun, "wfr-", conversion)?;
            let server = connect.connect().await?;
            definition::check_runtimes(&server, &read).await?;
            let mut names = Vec::new();
            for mut object in read.objects {
                object["metadata"]["annotations"][TOKEN] = json!(random(16));
                let made = server.create(Kind::WorkflowRun, object).await?;
                workflows::print_made(Kind::WorkflowRun, &made, request.output);
                names.push(made.name_any());
            }
            return waited(&server, &names, request.wait, request.wait_timeout).await;
        }
        Some(RunVerb::List(list)) => {
            let server = connect.connect().await?;
            let printed = List {
                kind: Kind::WorkflowRun,
                objects: server.list(Kind::WorkflowRun, &list.selection()).await?,
                namespace: (!list.everywhere).then_some(server.namespace.as_str()),
                headers: !list.no_headers,
            };
            printed.print(list.output, |runs, _| table(runs, now));
        }
        Some(RunVerb::Get { name, output }) => {
            let server = connect.connect().await?;
            let found = server.get(Kind::WorkflowRun, &name).await?;
            printer::one(Kind::WorkflowRun, &found, output, |run| details(run, now));
        }
        Some(RunVerb::Retry(retry)) => {
            let server = connect.connect().await?;
            return super::rerun::retry(&server, retry).await;
        }
        Some(RunVerb::Cancel { names, wait }) => {
            let server = connect.connect().await?;
            return cancel(&server, &names, wait).await;
        }
        Some(RunVerb::Delete { names }) => {
            let server = connect.connect().await?;
            for name in names {
                server.delete(Kind::WorkflowRun, &name).await?;
                say::data(&format!("workflowrun.kruntimes.io/{name} deleted"));
            }
        }
    }
    Ok(Exit::Done)
}

/// Waits for what was created, when that was asked for; one is reported as it goes.
pub(super) async fn waited(
    server: &Server,
    names: &[String],
    wait: bool,
    deadline: Option<Duration>,
) -> Result<Exit, Problem> {
    if !wait {
        return Ok(Exit::Done);
    }
    let [name] = names else {
        return until_ended(server, Kind::WorkflowRun, names, deadline).await;
    };
    let object = Reference {
        kind: Kind::WorkflowRun,
        name: name.clone(),
    };
    let end = wait::reported(server, &object, &Goal::Terminal);
    match deadline {
        None => end.await,
        Some(deadline) => match tokio::time::timeout(deadline, end).await {
            Ok(end) => end,
            Err(_) => Err(wait::late(deadline)),
        },
    }
}

/// Asks for the end of WorkflowRuns; a second call is harmless.
async fn cancel(server: &Server, names: &[String], wait: bool) -> Result<Exit, Problem> {
    let mut active = Vec::new();
    for name in names {
        let found = server.get(Kind::WorkflowRun, name).await?;
        let phase = phase(&found.data);
        if !matches!(phase, "Pending" | "Running") {
            say::notice(&format!(
                "krt: WorkflowRun {name} has ended already ({phase})"
            ));
            continue;
        }
        let change = json!({"spec": {"cancelRequested": true}});
        server.patch(Kind::WorkflowRun, name, &change).await?;
        say::data(&format!(
            "workflowrun.kruntimes.io/{name} cancellation requested"
        ));
        active.push(name.clone());
    }
    if !wait {
        return Ok(Exit::Done);
    }
    let exit = until_ended(server, Kind::WorkflowRun, &active, None).await?;
    Ok(if exit == Exit::Cancelled {
        Exit::Done
    } else {
        exit
    })
}

fn table(runs: &[Value], now: Timestamp) -> Table {
    let mut table = Table::new(&["NAME", "NAMESPACE", "PHASE", "JOBS", "AGE"]);
    for run in runs {
        let metadata = &run["metadata"];
        let all = run["spec"]["jobs"]
            .as_object()
            .map_or(0, serde_json::Map::len);
        let jobs = run["status"]["jobs"].as_object();
        let done = jobs
            .into_iter()
            .flatten()
            .filter(|(_, job)| job["phase"] == "Succeeded");
        table.row(vec![
            text(&metadata["name"]),
            text(&metadata["namespace"]),
            phase(run).to_owned(),
            format!("{}/{all}", done.count()),
            age(&metadata["creationTimestamp"], now),
        ]);
    }
    table
}

fn details(run: &Value, now: Timestamp) -> String {
    let (metadata, status) = (&run["metadata"], &run["status"]);
    let message = status["message"].as_str().unwrap_or_default().to_owned();
    let outputs = status["outputs"].as_object().into_iter().flatten();
    let outputs: Vec<String> = outputs
        .map(|(key, value)| format!("{key}={}", text(value)))
        .collect();
    let head = fields(&[
        ("Name", text(&metadata["name"])),
        ("Namespace", text(&metadata["namespace"])),
        ("Phase", phase(run).to_owned()),
        ("Message", message),
        ("Age", age(&metadata["creationTimestamp"], now)),
        ("Outputs", outputs.join("\n")),
    ]);
    let mut rows = Table::new(&["JOB", "PHASE", "WHAT", "NEEDS", "STEPS"]);
    for job in jobs::ordered(&run["spec"]) {
        let of_job = &status["jobs"][&job.name];
        let steps = of_job["steps"].as_array().into_iter().flatten();
        let steps: Vec<String> = steps
            .map(|step| format!("{} {}", text(&step["name"]), text(&step["phase"])))
            .collect();
        rows.row(vec![
            job.name,
            text(&of_job["phase"]),
            job.what,
            job.needs.join(", "),
            steps.join(", "),
        ]);
    }
    format!("{head}\n\n{}", rows.render(true))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c_43_workflow_runs_have_their_columns_and_jobs() {
        let run = json!({
            "metadata": {"name": "ci-1", "namespace": "team"},
            "spec": {"jobs": {
                "build": {"runs-on": "bash", "steps": [{"name": "compile"}]},
                "test": {"runs-on": "bash", "needs": ["build"], "steps": [{"name": "unit"}]},
            }},
            "status": {"phase": "Running", "jobs": {
                "build": {"phase": "Succeeded", "steps": [{"name": "compile", "phase": "Succeeded"}]},
                "test": {"phase": "Running", "steps": [{"name": "unit", "phase": "Running"}]},
            }},
        });
        let now = Timestamp::UNIX_EPOCH;
        insta::assert_snapshot!(table(std::slice::from_ref(&run), now).render(true), @r"
        NAME   NAMESPACE   PHASE     JOBS   AGE
        ci-1   team        Running   1/2    -
        ");
        insta::assert_snapshot!(details(&run, now), @r"
        Name:            ci-1
        Namespace:       team
        Phase:           Running
        Age:             -

        JOB     PHASE       WHAT                   NEEDS   STEPS
        build   Succeeded   runs-on bash, 1 step           compile Succeeded
        test    Running     runs-on bash, 1 step   build   unit Running
        ");
    }
}
