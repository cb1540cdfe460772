//! `krt runtime`: pools of warm Pods (C-37, C-38).

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kruntimes_core::keys::LABEL_RUNTIME;
use kruntimes_core::resources::Amounts;
use kruntimes_k8s::clock::Clock;
use kruntimes_k8s::scheduler::{Names, seen};
use kruntimes_sched::{Book, Heartbeat};
use kube::api::{Api, ListParams};
use serde_json::{Value, json};

use super::Kind;
use super::connect::{Connect, Server};
use super::objects::Selection;
use super::printer::{self, List, age, between, text};
use super::problem::{Asked, Problem};
use super::table::{Table, fields};
use crate::args::runtimes::RuntimeVerb;
use crate::exit::Exit;
use crate::say;

/// Does what a verb about Runtimes asks for.
pub(super) async fn run(connect: &Connect, verb: RuntimeVerb) -> Result<Exit, Problem> {
    let server = connect.connect().await?;
    let now = Clock::system().now();
    match verb {
        RuntimeVerb::List(list) => {
            let objects = server.list(Kind::Runtime, &list.selection()).await?;
            let printed = List {
                kind: Kind::Runtime,
                objects,
                namespace: (!list.everywhere).then_some(server.namespace.as_str()),
                headers: !list.no_headers,
            };
            printed.print(list.output, |runtimes, _| table(runtimes, now));
        }
        RuntimeVerb::Get { name, output } => {
            let runtime = server.get(Kind::Runtime, &name).await?;
            let pods = if output == printer::Output::Table || output == printer::Output::Wide {
                pods(&server, &name, now).await?
            } else {
                String::new()
            };
            printer::one(Kind::Runtime, &runtime, output, |runtime| {
                format!("{}\n\n{pods}", details(runtime, now))
            });
        }
        RuntimeVerb::Scale { name, replicas } => {
            let change = json!({"spec": {"replicas": replicas}});
            server.patch(Kind::Runtime, &name, &change).await?;
            say::data(&format!("runtime.kruntimes.io/{name} scaled to {replicas}"));
        }
    }
    Ok(Exit::Done)
}

fn image(runtime: &Value) -> String {
    match text(&runtime["spec"]["template"]["spec"]["containers"][0]["image"]) {
        none if none == "-" => "<missing>".to_owned(),
        image => image,
    }
}

fn number(value: &Value, default: i64) -> String {
    value.as_i64().unwrap_or(default).to_string()
}

fn table(runtimes: &[Value], now: Timestamp) -> Table {
    let headers = [
        "NAME",
        "NAMESPACE",
        "IMAGE",
        "REPLICAS",
        "READY",
        "PORT",
        "AGE",
    ];
    let mut table = Table::new(&headers);
    for runtime in runtimes {
        let (metadata, spec) = (&runtime["metadata"], &runtime["spec"]);
        table.row(vec![
            text(&metadata["name"]),
            text(&metadata["namespace"]),
            image(runtime),
            number(&spec["replicas"], 1),
            number(&runtime["status"]["readyReplicas"], 0),
            number(&spec["port"], 9091),
            age(&metadata["creationTimestamp"], now),
        ]);
    }
    table
}

fn details(runtime: &Value, now: Timestamp) -> String {
    let (metadata, spec) = (&runtime["metadata"], &runtime["spec"]);
    let pod = &spec["template"]["spec"];
    let container = &pod["containers"][0];
    let words = |list: &Value| {
        let words = list.as_array().into_iter().flatten().map(text);
        words.collect::<Vec<String>>().join(" ")
    };
    let or_empty = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let conditions = runtime["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten();
    let conditions: Vec<String> = conditions
        .map(|one| {
            let (kind, status) = (text(&one["type"]), text(&one["status"]));
            format!(
                "{kind}={status} {}: {}",
                text(&one["reason"]),
                text(&one["message"])
            )
        })
        .collect();
    fields(&[
        ("Name", text(&metadata["name"])),
        ("Namespace", text(&metadata["namespace"])),
        ("Image", image(runtime)),
        ("Port", number(&spec["port"], 9091)),
        ("Replicas", number(&spec["replicas"], 1)),
        ("Ready", number(&runtime["status"]["readyReplicas"], 0)),
        ("Daemon Image", or_empty(&spec["daemonImage"])),
        ("ServiceAccount", or_empty(&pod["serviceAccountName"])),
        ("Command", words(&container["command"])),
        ("Args", words(&container["args"])),
        ("Age", age(&metadata["creationTimestamp"], now)),
        ("Conditions", conditions.join("\n")),
    ])
}

/// The Pods of a Runtime and what they hold, as the scheduler counts it.
async fn pods(server: &Server, runtime: &str, now: Timestamp) -> Result<String, Problem> {
    let api: Api<Pod> = Api::namespaced(server.client.clone(), &server.namespace);
    let of_runtime = ListParams::default().labels(&format!("{LABEL_RUNTIME}={runtime}"));
    let pods = api.list(&of_runtime).await.map_err(|error| {
        let asked = Asked::core("list", "pods", &server.namespace);
        asked.failed("list the pods of the Runtime", &error)
    })?;
    if pods.items.is_empty() {
        return Ok("There are no pods.".to_owned());
    }
    let mut book = Book::new();
    for run in server.list(Kind::Run, &Selection::default()).await? {
        let run = serde_json::to_value(run).and_then(serde_json::from_value);
        if let Ok(run) = run {
            book.observe(&seen::observation(&run));
        }
    }
    let (names, namespace) = (Names::default(), server.namespace.as_str().into());
    let headers = [
        "POD",
        "READY",
        "HEARTBEAT",
        "RUNS",
        "USED/CAPACITY",
        "RESTARTS",
        "NODE",
    ];
    let mut table = Table::new(&headers);
    for object in &pods.items {
        let pod = seen::pod(&names, object);
        let held = book.occupancy(&namespace, &pod);
        let status = object.status.as_ref();
        let containers = status.and_then(|status| status.container_statuses.as_ref());
        let restarts: i32 = containers
            .into_iter()
            .flatten()
            .map(|one| one.restart_count)
            .sum();
        let node = object.spec.as_ref().and_then(|spec| spec.node_name.clone());
        table.row(vec![
            pod.name.to_string(),
            pod.ready.to_string(),
            match pod.heartbeat {
                Heartbeat::At(probe) => format!("{} ago", between(probe, now)),
                Heartbeat::Unneeded | Heartbeat::Missing => "none".to_owned(),
            },
            held.holds().count().to_string(),
            used(held.usage(), &pod.capacity),
            restarts.to_string(),
            node.unwrap_or_else(|| "-".to_owned()),
        ]);
    }
    Ok(table.render(true))
}

fn used(usage: &Amounts, capacity: &Amounts) -> String {
    let parts = capacity.iter().map(|(name, offered)| {
        let used = usage.get(name).copied().unwrap_or_default();
        format!("{name} {used}/{offered}")
    });
    parts.collect::<Vec<String>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c_37_runtimes_have_their_columns_and_fields() {
        let now: Timestamp = "2026-01-01T02:00:00Z".parse().unwrap();
        let bash = json!({
            "metadata": {"name": "bash", "namespace": "default", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"replicas": 2, "template": {"spec": {
                "serviceAccountName": "runner",
                "containers": [{"name": "runtime", "image": "bash:5", "args": ["-v", "x"]}]}}},
            "status": {"readyReplicas": 1, "conditions": [
                {"type": "Ready", "status": "False", "reason": "ReplicasNotReady", "message": "1 of 2"}]},
        });
        let bare = json!({"metadata": {"name": "bare", "namespace": "default"}, "spec": {}});
        insta::assert_snapshot!(table(&[bash.clone(), bare], now).render(true), @r"
        NAME   NAMESPACE   IMAGE       REPLICAS   READY   PORT   AGE
        bash   default     bash:5      2          1       9091   2h
        bare   default     <missing>   1          0       9091   -
        ");
        insta::assert_snapshot!(details(&bash, now), @r"
        Name:            bash
        Namespace:       default
        Image:           bash:5
        Port:            9091
        Replicas:        2
        Ready:           1
        ServiceAccount:  runner
        Args:            -v x
        Age:             2h
        Conditions:      Ready=False ReplicasNotReady: 1 of 2
        ");
    }
}
