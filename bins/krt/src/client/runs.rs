//! `krt get`, `krt list`, `krt cancel`: Runs.

use futures::StreamExt as _;
use jiff::Timestamp;
use kruntimes_k8s::clock::Clock;
use serde_json::{Value, json};

use super::connect::{Connect, Server};
use super::objects::Selection;
use super::printer::{self, List, Output, age, between, condition, text};
use super::problem::Problem;
use super::table::{Table, fields};
use super::{Kind, wait};
use crate::args::runs::{Cancel, Get, ListRuns};
use crate::exit::Exit;
use crate::say;

/// Lines of an inline source that are shown unless all are asked for.
const SOURCE_LINES: usize = 20;

/// Phases that are not final.
const ACTIVE: [&str; 5] = ["Pending", "Scheduled", "Running", "Ready", "Finalizing"];

/// Prints one Run.
pub(super) async fn get(connect: &Connect, request: Get) -> Result<Exit, Problem> {
    let server = connect.connect().await?;
    if request.watch {
        return follow(&server, &request).await;
    }
    let run = server.get(Kind::Run, &request.name).await?;
    let now = Clock::system().now();
    printer::one(Kind::Run, &run, request.output, |run| {
        details(run, request.full, now)
    });
    Ok(Exit::Done)
}

/// Prints a Run whenever it changes, until it has ended or is gone (C-12).
async fn follow(server: &Server, request: &Get) -> Result<Exit, Problem> {
    // What does not exist, or may not be read, is told at once.
    let first = server.get(Kind::Run, &request.name).await?;
    let uid = first.metadata.uid.clone();
    let mut changes = std::pin::pin!(wait::changes(server, Kind::Run, &request.name));
    let mut headers = true;
    let mut last = None;
    let mut next = Some(first);
    loop {
        let object = match next.take() {
            Some(object) => object,
            None => match changes.next().await {
                Some(Ok(Some(object))) if object.metadata.uid == uid => object,
                Some(Ok(_)) | None => return Ok(Exit::Gone),
                Some(Err(error)) => {
                    tracing::debug!(%error, "the watch is resumed");
                    continue;
                }
            },
        };
        let version = object.metadata.resource_version.clone();
        if last == version {
            continue;
        }
        last = version;
        let (now, wide) = (Clock::system().now(), request.output == Output::Wide);
        printer::one(Kind::Run, &object, request.output, |run| {
            table(std::slice::from_ref(run), wide, now).render(headers)
        });
        headers = false;
        if !ACTIVE.contains(&phase(&object.data)) {
            return Ok(Exit::Done);
        }
    }
}

/// Prints Runs, newest first.
pub(super) async fn list(connect: &Connect, request: ListRuns) -> Result<Exit, Problem> {
    let server = connect.connect().await?;
    let selection = Selection {
        limit: None,
        ..request.list.selection()
    };
    let mut objects = server.list(Kind::Run, &selection).await?;
    objects.retain(|run| {
        let phase = phase(&run.data);
        let runtime = run.data["spec"]["runtime"].as_str();
        request
            .runtime
            .as_deref()
            .is_none_or(|wanted| runtime == Some(wanted))
            && (request.phases.is_empty()
                || request
                    .phases
                    .iter()
                    .any(|wanted| wanted.eq_ignore_ascii_case(phase)))
            && (!request.active || ACTIVE.contains(&phase))
            && (!request.failed || matches!(phase, "Failed" | "Timeout"))
    });
    objects.truncate(request.list.limit.unwrap_or(usize::MAX));
    let now = Clock::system().now();
    let list = List {
        kind: Kind::Run,
        objects,
        namespace: (!request.list.everywhere).then_some(server.namespace.as_str()),
        headers: !request.list.no_headers,
    };
    list.print(request.list.output, |runs, wide| table(runs, wide, now));
    Ok(Exit::Done)
}

/// Requests the end of Runs (C-30, C-31).
pub(super) async fn cancel(connect: &Connect, request: Cancel) -> Result<Exit, Problem> {
    let server = connect.connect().await?;
    let mut names = request.names;
    if let Some(labels) = request.labels {
        let selection = Selection {
            labels: Some(labels),
            ..Selection::default()
        };
        let found = server.list(Kind::Run, &selection).await?;
        names.extend(found.into_iter().filter_map(|run| run.metadata.name));
    }
    if names.is_empty() {
        say::notice("krt: no Run matches");
        return Ok(Exit::Done);
    }
    let mut active = Vec::new();
    for name in &names {
        let run = server.get(Kind::Run, name).await?;
        let phase = phase(&run.data);
        if !ACTIVE.contains(&phase) {
            say::notice(&format!("krt: Run {name} has ended already ({phase})"));
            continue;
        }
        let change = json!({"spec": {"cancelRequested": true}});
        server.patch(Kind::Run, name, &change).await?;
        say::data(&format!("run.kruntimes.io/{name} cancellation requested"));
        active.push(name.clone());
    }
    if request.wait {
        let exit = wait::until_ended(&server, Kind::Run, &active, request.wait_timeout).await?;
        // To end cancelled is what was asked for.
        return Ok(if exit == Exit::Cancelled {
            Exit::Done
        } else {
            exit
        });
    }
    Ok(Exit::Done)
}

/// Phase of a Run or WorkflowRun; one that was not looked at is pending.
pub(super) fn phase(object: &Value) -> &str {
    object["status"]["phase"].as_str().unwrap_or("Pending")
}

fn time(value: &Value) -> Option<Timestamp> {
    value.as_str()?.parse().ok()
}

fn attempt(run: &Value) -> String {
    let attempt = run["status"]["attempt"].as_i64().unwrap_or(1).max(1);
    let max = run["spec"]["retryPolicy"]["maxAttempts"]
        .as_i64()
        .unwrap_or(1)
        .max(1);
    format!("{attempt}/{max}")
}

/// Why a Run is in its phase, as its conditions say.
fn reason(run: &Value) -> String {
    let order = match phase(run) {
        "Pending" | "Scheduled" => ["Scheduled", "Running", "Completed"],
        "Running" | "Ready" | "Finalizing" => ["Running", "Scheduled", "Completed"],
        _ => ["Completed", "Running", "Scheduled"],
    };
    let found = order.iter().find_map(|kind| condition(run, kind));
    found.map_or_else(|| "-".to_owned(), |found| text(&found["reason"]))
}

/// Time before the start, and from the start to the end.
fn spans(run: &Value, now: Timestamp) -> (String, String) {
    let created = time(&run["metadata"]["creationTimestamp"]);
    let start = time(&run["status"]["startTime"]);
    let end = time(&run["status"]["completionTime"]);
    let queued = created.map_or_else(
        || "-".to_owned(),
        |created| between(created, start.or(end).unwrap_or(now)),
    );
    let ran = start.map_or_else(
        || "-".to_owned(),
        |start| between(start, end.unwrap_or(now)),
    );
    (queued, ran)
}

/// The WorkflowRun, job and step a Run belongs to.
fn owner(run: &Value) -> String {
    let owners = run["metadata"]["ownerReferences"].as_array();
    let mut owners = owners.into_iter().flatten();
    let Some(owner) = owners.find(|owner| owner["kind"] == "WorkflowRun") else {
        return String::new();
    };
    let labels = &run["metadata"]["labels"];
    let parts = ["workflow-job", "workflow-step", "workflow-action-step"];
    let parts = parts
        .iter()
        .filter_map(|part| labels[format!("kruntimes.io/{part}")].as_str());
    let path: Vec<&str> = owner["name"].as_str().into_iter().chain(parts).collect();
    format!("wfr/{}", path.join("/"))
}

fn table(runs: &[Value], wide: bool, now: Timestamp) -> Table {
    let mut headers = vec![
        "NAME",
        "NAMESPACE",
        "RUNTIME",
        "PHASE",
        "ASSIGNED POD",
        "AGE",
    ];
    if wide {
        headers.extend(["ATTEMPT", "REASON", "QUEUED", "RAN", "OWNER"]);
    }
    let mut table = Table::new(&headers);
    for run in runs {
        let metadata = &run["metadata"];
        let mut cells = vec![
            text(&metadata["name"]),
            text(&metadata["namespace"]),
            text(&run["spec"]["runtime"]),
            phase(run).to_owned(),
            text(&run["status"]["assignedPod"]),
            age(&metadata["creationTimestamp"], now),
        ];
        if wide {
            let (queued, ran) = spans(run, now);
            let owner = owner(run);
            let owner = if owner.is_empty() {
                "-".to_owned()
            } else {
                owner
            };
            cells.extend([attempt(run), reason(run), queued, ran, owner]);
        }
        table.row(cells);
    }
    table
}

/// Everything about one Run, for people (C-26, C-27).
fn details(run: &Value, full: bool, now: Timestamp) -> String {
    let (metadata, spec, status) = (&run["metadata"], &run["spec"], &run["status"]);
    let or_empty = |value: &Value| match text(value) {
        dash if dash == "-" => String::new(),
        text => text,
    };
    let args = spec["mode"]["task"]["args"].as_array();
    let args: Vec<String> = args.into_iter().flatten().map(text).collect();
    let (queued, ran) = spans(run, now);
    let mut pairs = vec![
        ("Name", text(&metadata["name"])),
        ("Namespace", text(&metadata["namespace"])),
        ("Runtime", text(&spec["runtime"])),
        ("Phase", phase(run).to_owned()),
        ("Assigned Pod", or_empty(&status["assignedPod"])),
        ("Message", or_empty(&status["message"])),
        ("Args", args.join(" ")),
        ("Entrypoint", or_empty(&spec["mode"]["task"]["entrypoint"])),
        ("Handler", or_empty(&spec["mode"]["function"]["handler"])),
        (
            "Source Inline",
            shortened(&or_empty(&spec["source"]["inline"]), full),
        ),
        ("Source Repo", or_empty(&spec["source"]["repoURL"])),
        ("Source Commit", or_empty(&spec["source"]["commitSHA"])),
        ("Start Time", or_empty(&status["startTime"])),
        ("Completion Time", or_empty(&status["completionTime"])),
        ("Attempt", attempt(run)),
        ("Queued", queued),
        ("Ran", if ran == "-" { String::new() } else { ran }),
        ("Owner", owner(run)),
    ];
    let outputs: Vec<String> = status["outputs"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={}", text(value)))
        .collect();
    pairs.push(("Outputs", outputs.join("\n")));
    let conditions: Vec<String> = status["conditions"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|one| {
            let age = age(&one["lastTransitionTime"], now);
            format!(
                "{}={} {} ({age})",
                text(&one["type"]),
                text(&one["status"]),
                text(&one["reason"])
            )
        })
        .collect();
    pairs.push(("Conditions", conditions.join("\n")));
    fields(&pairs)
}

fn shortened(source: &str, full: bool) -> String {
    let lines: Vec<&str> = source.lines().collect();
    if full || lines.len() <= SOURCE_LINES {
        return source.to_owned();
    }
    let more = lines.len() - SOURCE_LINES;
    format!(
        "{}\n... {more} more lines, see --full",
        lines[..SOURCE_LINES].join("\n")
    )
}

/// The columns, for whoever prints what it has made.
pub(super) fn print_made(run: &kube::api::DynamicObject, output: Output) {
    printer::one(Kind::Run, run, output, |run| text(&run["metadata"]["name"]));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run() -> Value {
        json!({
            "metadata": {
                "name": "demo-build-1", "namespace": "team", "creationTimestamp": "2026-01-01T00:00:00Z",
                "ownerReferences": [{"kind": "WorkflowRun", "name": "demo"}],
                "labels": {"kruntimes.io/workflow-job": "build", "kruntimes.io/workflow-step": "compile"},
            },
            "spec": {
                "runtime": "bash", "mode": {"task": {"args": ["a", "b c"]}},
                "retryPolicy": {"maxAttempts": 3},
                "source": {"inline": "echo 1\n".repeat(25)},
            },
            "status": {
                "phase": "Failed", "assignedPod": "bash-0", "attempt": 3, "message": "exit 3",
                "startTime": "2026-01-01T00:00:04Z", "completionTime": "2026-01-01T00:00:34Z",
                "outputs": {"tag": "v1"},
                "conditions": [
                    {"type": "Scheduled", "status": "True", "reason": "Assigned", "lastTransitionTime": "2026-01-01T00:00:01Z"},
                    {"type": "Completed", "status": "False", "reason": "RuntimeError", "lastTransitionTime": "2026-01-01T00:00:34Z"},
                ],
            },
        })
    }

    fn now() -> Timestamp {
        "2026-01-01T00:05:00Z".parse().unwrap()
    }

    #[test]
    fn c_28_c_29_the_table_has_its_columns_and_wide_has_more() {
        let fresh =
            json!({"metadata": {"name": "new", "namespace": "team"}, "spec": {"runtime": "bash"}});
        let runs = [run(), fresh];
        insta::assert_snapshot!(table(&runs, false, now()).render(true), @r"
        NAME           NAMESPACE   RUNTIME   PHASE     ASSIGNED POD   AGE
        demo-build-1   team        bash      Failed    bash-0         5m
        new            team        bash      Pending   -              -
        ");
        insta::assert_snapshot!(table(&runs, true, now()).render(true), @r"
        NAME           NAMESPACE   RUNTIME   PHASE     ASSIGNED POD   AGE   ATTEMPT   REASON         QUEUED   RAN   OWNER
        demo-build-1   team        bash      Failed    bash-0         5m    3/3       RuntimeError   4s       30s   wfr/demo/build/compile
        new            team        bash      Pending   -              -     1/1       -              -        -     -
        ");
    }

    #[test]
    fn c_26_c_27_one_run_is_told_field_by_field() {
        let told = details(&run(), false, now());
        for line in [
            "Name:            demo-build-1",
            "Assigned Pod:    bash-0",
            "Message:         exit 3",
            "Args:            a b c",
            "Attempt:         3/3",
            "Queued:          4s",
            "Ran:             30s",
            "Owner:           wfr/demo/build/compile",
            "Outputs:         tag=v1",
            "Conditions:      Scheduled=True Assigned (4m59s)",
            "... 5 more lines, see --full",
        ] {
            assert!(told.contains(line), "{line}: {told}");
        }
        assert!(!told.contains("Handler"), "{told}");
        assert_eq!(details(&run(), true, now()).matches("echo 1").count(), 25);
    }
}
