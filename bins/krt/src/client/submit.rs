//! `krt run`: creates a Run (C-22 to C-25).

use kruntimes_core::api::API_VERSION;
use kube::ResourceExt as _;
use kube::api::DynamicObject;
use serde_json::{Map, Value, json};

use super::connect::{Connect, Server};
use super::objects::{TOKEN, random};
use super::problem::Problem;
use super::{Kind, Reference, logs, runs, wait};
use crate::args::runs::{Run, WaitFor};
use crate::args::wait::{Goal, Logs};
use crate::exit::Exit;
use crate::file;

/// Creates a Run and does what else was asked for.
pub(super) async fn run(connect: &Connect, request: Run) -> Result<Exit, Problem> {
    let source = match &request.file {
        Some(path) => {
            let (_, text) = file::read(path).map_err(|error| {
                Problem::of(&error, "check the path, or use `-` for standard input")
            })?;
            Some(text)
        }
        None => None,
    };
    let server = connect.connect().await?;
    let object = object(&request, source.as_deref());
    let created = server.create(Kind::Run, object).await?;
    runs::print_made(&created, request.output);
    let exit = follow(&server, &request, &created).await?;
    if request.rm && exit != Exit::Late {
        server.delete(Kind::Run, &created.name_any()).await?;
    }
    Ok(exit)
}

async fn follow(server: &Server, request: &Run, created: &DynamicObject) -> Result<Exit, Problem> {
    let name = created.name_any();
    if request.logs {
        let logs = Logs {
            name,
            follow: true,
            tail: 0,
            exit_status: true,
        };
        return logs::show(server, &logs).await;
    }
    let Some(until) = request.wait.or(request.rm.then_some(WaitFor::Terminal)) else {
        return Ok(Exit::Done);
    };
    let is_task = request.handler.is_none();
    let goal = if is_task || until == WaitFor::Terminal {
        Goal::Terminal
    } else {
        Goal::Ready
    };
    let reference = Reference {
        kind: Kind::Run,
        name,
    };
    let exit = wait::reported(server, &reference, &goal);
    match request.wait_timeout {
        None => exit.await,
        Some(deadline) => match tokio::time::timeout(deadline, exit).await {
            Ok(end) => end,
            Err(_) => Err(wait::late(deadline)),
        },
    }
}

/// The Run that the flags describe; one mode is always set.
fn object(request: &Run, source: Option<&str>) -> Value {
    let mut spec = Map::new();
    spec.insert("runtime".to_owned(), json!(request.runtime));
    spec.insert("mode".to_owned(), mode(request));
    let from = from(request, source);
    if !from.is_empty() {
        spec.insert("source".to_owned(), Value::Object(from));
    }
    if !request.env.is_empty() {
        let env = request.env.iter().map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            json!({"name": name, "value": value})
        });
        spec.insert("env".to_owned(), env.collect());
    }
    if request.timeout.is_positive() {
        spec.insert("timeout".to_owned(), json!(request.timeout));
    }
    if request.retry_attempts > 0 {
        let policy = policy(request);
        spec.insert("retryPolicy".to_owned(), Value::Object(policy));
    }
    if !request.request.is_empty() {
        let requests: Map<String, Value> = pairs(&request.request);
        spec.insert("resources".to_owned(), json!({"requests": requests}));
    }
    if let Some(workspace) = &request.workspace {
        spec.insert("workspace".to_owned(), json!({"name": workspace}));
    }
    if let Some(ttl) = request.ttl {
        spec.insert("ttlSecondsAfterFinished".to_owned(), json!(ttl));
    }
    let name = request
        .name
        .clone()
        .unwrap_or_else(|| format!("run-{}", random(8)));
    let labels: Map<String, Value> = pairs(&request.label);
    json!({
        "apiVersion": API_VERSION,
        "kind": "Run",
        "metadata": {"name": name, "labels": labels, "annotations": {TOKEN: random(16)}},
        "spec": spec,
    })
}

/// Where the code comes from.
fn from(request: &Run, inline: Option<&str>) -> Map<String, Value> {
    let parts = [
        ("inline", inline),
        ("inlinePath", request.inline_path.as_deref()),
        ("repoURL", request.repo_url.as_deref()),
        ("commitSHA", request.commit_sha.as_deref()),
    ];
    let given = parts
        .into_iter()
        .filter_map(|(name, part)| Some((name.to_owned(), json!(part?))));
    given.collect()
}

fn policy(request: &Run) -> Map<String, Value> {
    let backoff = request
        .retry_backoff
        .filter(|backoff| backoff.is_positive());
    let backoff = backoff.unwrap_or(kruntimes_core::retry::BACKOFF_DEFAULT);
    let mut policy = Map::new();
    policy.insert("maxAttempts".to_owned(), json!(request.retry_attempts));
    policy.insert("backoff".to_owned(), json!(backoff));
    if !request.retry_on.is_empty() {
        policy.insert("retryableReasons".to_owned(), json!(request.retry_on));
    }
    policy
}

fn pairs(pairs: &[(String, String)]) -> Map<String, Value> {
    let pairs = pairs.iter().map(|(key, value)| (key.clone(), json!(value)));
    pairs.collect()
}

fn mode(request: &Run) -> Value {
    if let Some(handler) = &request.handler {
        let mut function = Map::new();
        function.insert("handler".to_owned(), json!(handler));
        if let Some(seconds) = request.idle_timeout {
            function.insert("idleTimeoutSeconds".to_owned(), json!(seconds));
        }
        return json!({ "function": function });
    }
    let mut task = Map::new();
    if let Some(entrypoint) = &request.entrypoint {
        task.insert("entrypoint".to_owned(), json!(entrypoint));
    }
    if !request.words.is_empty() {
        task.insert("args".to_owned(), json!(request.words));
    }
    json!({ "task": task })
}
