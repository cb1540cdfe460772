//! The columns of the built-in kinds, over the form in which they are stored.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Column, NAME, Printer, age, pod};

const AGE: Column = Column::text("Age", "Time since the object was created.");
const NONE: &str = "<none>";
/// Says that a moment is not known.
const UNKNOWN: &str = "<unknown>";

/// Returns the columns of a kind; a kind without columns of its own shows its name and when it was created.
pub(super) fn printer(kind: &str) -> &'static Printer {
    match kind {
        "Namespace" => &NAMESPACE,
        "Pod" => &pod::POD,
        "Service" => &SERVICE,
        "ConfigMap" => &CONFIG_MAP,
        "Secret" => &SECRET,
        "ServiceAccount" => &SERVICE_ACCOUNT,
        "Deployment" => &DEPLOYMENT,
        "ControllerRevision" => &CONTROLLER_REVISION,
        "RoleBinding" => &ROLE_BINDING,
        "NetworkPolicy" => &NETWORK_POLICY,
        "Lease" => &LEASE,
        "Event" => &EVENT,
        _ => &PLAIN,
    }
}

/// Marks the row of a Pod that has run to its end.
pub(super) fn condition(object: &Value) -> Option<Value> {
    if object["kind"] != "Pod" || object["apiVersion"] != "v1" {
        return None;
    }
    let phase = object["status"]["phase"].as_str()?;
    let ended = matches!(phase, "Succeeded" | "Failed");
    ended.then(|| json!({ "type": "Completed", "status": "True", "reason": phase }))
}

pub(super) fn name(object: &Value) -> Value {
    text(&object["metadata"]["name"])
}

/// Shows a text field, empty when it is absent.
pub(super) fn text(field: &Value) -> Value {
    Value::from(field.as_str().unwrap_or_default())
}

/// Shows a text field, or that there is none.
pub(super) fn or_none(field: &Value) -> Value {
    match field.as_str() {
        None | Some("") => Value::from(NONE),
        Some(text) => Value::from(text),
    }
}

/// Joins texts with commas.
fn joined(texts: impl Iterator<Item = String>) -> Value {
    let all: Vec<String> = texts.collect();
    Value::from(all.join(","))
}

fn size(field: &Value) -> usize {
    field.as_object().map_or(0, serde_json::Map::len)
}

pub(super) fn items(field: &Value) -> &[Value] {
    field.as_array().map_or(&[], Vec::as_slice)
}

/// Writes labels as `a=b,c=d`.
fn labels(field: &Value) -> String {
    let pairs = field.as_object().into_iter().flatten();
    let pairs = pairs.map(|(name, value)| format!("{name}={}", value.as_str().unwrap_or_default()));
    pairs.collect::<Vec<_>>().join(",")
}

/// Writes a label selector as it would be typed on a command line.
fn selector(field: &Value) -> Value {
    let mut parts: Vec<String> = Vec::new();
    if size(&field["matchLabels"]) > 0 {
        parts.push(labels(&field["matchLabels"]));
    }
    for one in items(&field["matchExpressions"]) {
        let key = one["key"].as_str().unwrap_or_default();
        let values: Vec<&str> = items(&one["values"])
            .iter()
            .filter_map(Value::as_str)
            .collect();
        let values = values.join(",");
        parts.push(match one["operator"].as_str() {
            Some("In") => format!("{key} in ({values})"),
            Some("NotIn") => format!("{key} notin ({values})"),
            Some("DoesNotExist") => format!("!{key}"),
            _ => key.to_owned(),
        });
    }
    or_none(&Value::from(parts.join(",")))
}

static PLAIN: Printer = Printer {
    columns: &[
        NAME,
        Column {
            type_name: "date",
            ..Column::text("Created At", "When the object was created.")
        },
    ],
    cells: |object, _| vec![name(object), text(&object["metadata"]["creationTimestamp"])],
};

static SERVICE_ACCOUNT: Printer = Printer {
    columns: &[NAME, AGE],
    cells: |object, now| vec![name(object), age::of_object(object, now)],
};

static NAMESPACE: Printer = Printer {
    columns: &[
        NAME,
        Column::text(
            "Status",
            "Whether the namespace is in use or on its way out.",
        ),
        AGE,
    ],
    cells: |object, now| {
        vec![
            name(object),
            text(&object["status"]["phase"]),
            age::of_object(object, now),
        ]
    },
};

static CONFIG_MAP: Printer = Printer {
    columns: &[NAME, Column::text("Data", "Number of entries."), AGE],
    cells: |object, now| {
        let entries = size(&object["data"]) + size(&object["binaryData"]);
        vec![
            name(object),
            Value::from(entries),
            age::of_object(object, now),
        ]
    },
};

static SECRET: Printer = Printer {
    columns: &[
        NAME,
        Column::text("Type", "What the secret is used for."),
        Column::text("Data", "Number of entries."),
        AGE,
    ],
    cells: |object, now| {
        vec![
            name(object),
            text(&object["type"]),
            Value::from(size(&object["data"])),
            age::of_object(object, now),
        ]
    },
};

static SERVICE: Printer = Printer {
    columns: &[
        NAME,
        Column::text("Type", "How the service is reached."),
        Column::text("Cluster-IP", "Address of the service within the cluster."),
        Column::text("External-IP", "Addresses from outside the cluster."),
        Column::text("Port(s)", "Ports and their protocols."),
        AGE,
        Column::wide("Selector", "Labels of the pods behind the service."),
    ],
    cells: |object, now| {
        let spec = &object["spec"];
        let ip = match items(&spec["clusterIPs"]) {
            [first, ..] => first,
            [] => &spec["clusterIP"],
        };
        let ports = items(&spec["ports"]).iter().map(port);
        vec![
            name(object),
            text(&spec["type"]),
            or_none(ip),
            external_ip(object),
            or_none(&joined(ports)),
            age::of_object(object, now),
            or_none(&Value::from(labels(&spec["selector"]))),
        ]
    },
};

fn port(port: &Value) -> String {
    let protocol = port["protocol"].as_str().unwrap_or("TCP");
    match port["nodePort"].as_i64().filter(|number| *number > 0) {
        Some(node) => format!("{}:{node}/{protocol}", port["port"]),
        None => format!("{}/{protocol}", port["port"]),
    }
}

fn external_ip(object: &Value) -> Value {
    let spec = &object["spec"];
    let outside = |field: &Value| {
        let all = items(field).iter().filter_map(Value::as_str);
        joined(all.map(str::to_owned))
    };
    match spec["type"].as_str() {
        Some("ExternalName") => text(&spec["externalName"]),
        Some("LoadBalancer") => {
            let given = items(&object["status"]["loadBalancer"]["ingress"]).iter();
            let given = given.filter_map(|at| at["ip"].as_str().or(at["hostname"].as_str()));
            let given = given.map(str::to_owned).chain(
                items(&spec["externalIPs"])
                    .iter()
                    .filter_map(|ip| ip.as_str().map(str::to_owned)),
            );
            match joined(given) {
                Value::String(all) if !all.is_empty() => Value::from(all),
                _ => Value::from("<pending>"),
            }
        }
        _ => or_none(&outside(&spec["externalIPs"])),
    }
}

static DEPLOYMENT: Printer = Printer {
    columns: &[
        NAME,
        Column::text("Ready", "Pods that are ready, of those wanted."),
        Column::text("Up-to-date", "Pods made from the present template."),
        Column::text("Available", "Pods that have been ready for long enough."),
        AGE,
        Column::wide("Containers", "Names of the containers of a pod."),
        Column::wide("Images", "Images of the containers of a pod."),
        Column::wide("Selector", "Which pods belong to the deployment."),
    ],
    cells: |object, now| {
        let (spec, status) = (&object["spec"], &object["status"]);
        let count = |field: &Value| field.as_i64().unwrap_or(0);
        let containers = items(&spec["template"]["spec"]["containers"]);
        let all = |field: &str| {
            let texts = containers
                .iter()
                .map(|one| one[field].as_str().unwrap_or_default());
            joined(texts.map(str::to_owned))
        };
        let ready = format!(
            "{}/{}",
            count(&status["readyReplicas"]),
            count(&spec["replicas"])
        );
        vec![
            name(object),
            Value::from(ready),
            Value::from(count(&status["updatedReplicas"])),
            Value::from(count(&status["availableReplicas"])),
            age::of_object(object, now),
            all("name"),
            all("image"),
            selector(&spec["selector"]),
        ]
    },
};

static CONTROLLER_REVISION: Printer = Printer {
    columns: &[
        NAME,
        Column::text("Controller", "What the revision is kept for."),
        Column::text("Revision", "Number of the revision."),
        AGE,
    ],
    cells: |object, now| {
        let owners = items(&object["metadata"]["ownerReferences"]).iter();
        let controller = owners
            .filter(|owner| owner["controller"] == Value::Bool(true))
            .map(owner)
            .next();
        vec![
            name(object),
            Value::from(controller.unwrap_or_else(|| NONE.to_owned())),
            Value::from(object["revision"].as_i64().unwrap_or(0)),
            age::of_object(object, now),
        ]
    },
};

/// Writes an owner as `deployment.apps/web`.
fn owner(owner: &Value) -> String {
    let field = |name: &str| owner[name].as_str().unwrap_or_default();
    let kind = field("kind").to_lowercase();
    match field("apiVersion").split_once('/') {
        Some((group, _)) => format!("{kind}.{group}/{}", field("name")),
        None => format!("{kind}/{}", field("name")),
    }
}

static ROLE_BINDING: Printer = Printer {
    columns: &[
        NAME,
        Column::text("Role", "The role that is granted."),
        AGE,
        Column::wide("Users", "Users it is granted to."),
        Column::wide("Groups", "Groups it is granted to."),
        Column::wide("ServiceAccounts", "Service accounts it is granted to."),
    ],
    cells: |object, now| {
        let role = &object["roleRef"];
        let part = |name: &str| role[name].as_str().unwrap_or_default();
        let of_kind = |kind: &str| {
            let subjects = items(&object["subjects"]).iter();
            let named = subjects.filter(|one| one["kind"] == kind).map(|one| {
                let name = one["name"].as_str().unwrap_or_default();
                match one["namespace"].as_str() {
                    Some(namespace) => format!("{namespace}/{name}"),
                    None => name.to_owned(),
                }
            });
            Value::from(named.collect::<Vec<_>>().join(", "))
        };
        vec![
            name(object),
            Value::from(format!("{}/{}", part("kind"), part("name"))),
            age::of_object(object, now),
            of_kind("User"),
            of_kind("Group"),
            of_kind("ServiceAccount"),
        ]
    },
};

static NETWORK_POLICY: Printer = Printer {
    columns: &[
        NAME,
        Column::text("Pod-Selector", "Which pods the policy is about."),
        AGE,
    ],
    cells: |object, now| {
        vec![
            name(object),
            selector(&object["spec"]["podSelector"]),
            age::of_object(object, now),
        ]
    },
};

static LEASE: Printer = Printer {
    columns: &[NAME, Column::text("Holder", "Who holds the lease."), AGE],
    cells: |object, now| {
        vec![
            name(object),
            text(&object["spec"]["holderIdentity"]),
            age::of_object(object, now),
        ]
    },
};

static EVENT: Printer = Printer {
    columns: &[
        Column::text("Last Seen", "Time since it happened last."),
        Column::text("Type", "Normal or Warning."),
        Column::text("Reason", "Why it was told, in one word."),
        Column::text("Object", "What it is about."),
        Column::wide("Subobject", "Which part of the object it is about."),
        Column::wide("Source", "Who told it."),
        Column::text("Message", "What happened."),
        Column::wide("First Seen", "Time since it happened first."),
        Column::wide("Count", "How often it happened."),
        Column {
            priority: 1,
            ..NAME
        },
    ],
    cells: event_cells,
};

/// Events are stored in their `events.k8s.io` form.
fn event_cells(event: &Value, now: Timestamp) -> Vec<Value> {
    let ago = |field: &Value| age::of_field(field, now);
    let first = ago(&event["deprecatedFirstTimestamp"])
        .or_else(|| ago(&event["eventTime"]))
        .unwrap_or_else(|| UNKNOWN.to_owned());
    let mut last = ago(&event["deprecatedLastTimestamp"]).unwrap_or_else(|| first.clone());
    let mut count = event["deprecatedCount"].as_i64().unwrap_or(1).max(1);
    if event["series"].is_object() {
        last = ago(&event["series"]["lastObservedTime"]).unwrap_or_else(|| UNKNOWN.to_owned());
        count = event["series"]["count"].as_i64().unwrap_or(0);
    }
    let regarding = &event["regarding"];
    let kind = regarding["kind"]
        .as_str()
        .unwrap_or_default()
        .to_lowercase();
    let target = match regarding["name"].as_str() {
        None | Some("") => kind,
        Some(name) => format!("{kind}/{name}"),
    };
    let told = |old: &str, new: &str| {
        let old = event["deprecatedSource"][old].as_str();
        let told = old.filter(|text| !text.is_empty()).or(event[new].as_str());
        told.unwrap_or_default().to_owned()
    };
    let mut source = told("component", "reportingController");
    let host = told("host", "reportingInstance");
    if !host.is_empty() {
        source = format!("{source}, {host}");
    }
    vec![
        Value::from(last),
        text(&event["type"]),
        text(&event["reason"]),
        Value::from(target),
        text(&regarding["fieldPath"]),
        Value::from(source),
        Value::from(event["note"].as_str().unwrap_or_default().trim()),
        Value::from(first),
        Value::from(count),
        name(event),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(kind: &str, object: &Value) -> Vec<Value> {
        let now: Timestamp = "2026-01-03T00:00:00Z".parse().unwrap();
        (printer(kind).cells)(object, now)
    }

    fn created(mut object: Value) -> Value {
        object["metadata"] = json!({ "name": "o", "creationTimestamp": "2026-01-02T23:59:00Z" });
        object
    }

    #[test]
    fn every_row_has_a_cell_for_every_column() {
        for kind in [
            "Namespace",
            "Pod",
            "Service",
            "ConfigMap",
            "Secret",
            "ServiceAccount",
            "Deployment",
            "ControllerRevision",
            "RoleBinding",
            "NetworkPolicy",
            "Lease",
            "Event",
            "Role",
        ] {
            assert_eq!(
                row(kind, &Value::Null).len(),
                printer(kind).columns.len(),
                "{kind}"
            );
        }
    }

    #[test]
    fn services_tell_where_they_are_reached() {
        let service = created(json!({
            "spec": {
                "type": "LoadBalancer", "clusterIPs": ["10.0.0.1"], "selector": { "a": "b", "c": "d" },
                "ports": [{ "port": 80, "nodePort": 30000, "protocol": "TCP" }, { "port": 53, "protocol": "UDP" }],
            },
        }));
        assert_eq!(
            row("Service", &service),
            [
                "o",
                "LoadBalancer",
                "10.0.0.1",
                "<pending>",
                "80:30000/TCP,53/UDP",
                "60s",
                "a=b,c=d"
            ]
        );
    }

    #[test]
    fn bindings_tell_who_is_bound() {
        let binding = created(json!({
            "roleRef": { "kind": "Role", "name": "r" },
            "subjects": [
                { "kind": "ServiceAccount", "name": "s", "namespace": "n" },
                { "kind": "User", "name": "u" }, { "kind": "User", "name": "v" },
            ],
        }));
        assert_eq!(
            row("RoleBinding", &binding),
            ["o", "Role/r", "60s", "u, v", "", "n/s"]
        );
    }

    #[test]
    fn events_tell_when_what_happened() {
        let event = created(json!({
            "deprecatedFirstTimestamp": "2026-01-02T23:00:00Z", "deprecatedLastTimestamp": "2026-01-02T23:50:00Z",
            "deprecatedCount": 3, "type": "Normal", "reason": "Started", "note": " hello ",
            "regarding": { "kind": "Pod", "name": "p" }, "deprecatedSource": { "component": "c", "host": "h" },
        }));
        assert_eq!(
            row("Event", &event),
            [
                json!("10m"),
                json!("Normal"),
                json!("Started"),
                json!("pod/p"),
                json!(""),
                json!("c, h"),
                json!("hello"),
                json!("60m"),
                json!(3),
                json!("o"),
            ]
        );
        let series =
            json!({ "series": { "count": 7, "lastObservedTime": "2026-01-02T23:59:59Z" } });
        assert_eq!(row("Event", &series)[0], "1s");
        assert_eq!(row("Event", &series)[8], 7);
    }

    #[test]
    fn selectors_are_written_as_on_a_command_line() {
        let wanted = json!({
            "matchLabels": { "a": "b" },
            "matchExpressions": [
                { "key": "c", "operator": "In", "values": ["d", "e"] }, { "key": "f", "operator": "NotIn", "values": ["g"] },
                { "key": "h", "operator": "Exists" }, { "key": "i", "operator": "DoesNotExist" },
            ],
        });
        assert_eq!(selector(&wanted), "a=b,c in (d,e),f notin (g),h,!i");
        assert_eq!(selector(&Value::Null), "<none>");
    }
}
