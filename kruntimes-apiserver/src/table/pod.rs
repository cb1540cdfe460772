//! The columns of Pods: one word that tells what a Pod is doing, out of everything its status says.

use jiff::Timestamp;
use serde_json::Value;

use super::{
    Column, NAME, Printer, age,
    builtin::{items, name, or_none},
};

pub(super) static POD: Printer = Printer {
    columns: &[
        NAME,
        Column::text("Ready", "Containers that are ready, of all."),
        Column::text("Status", "What the pod is doing."),
        Column::text(
            "Restarts",
            "How often its containers were restarted, and when last.",
        ),
        Column::text("Age", "Time since the object was created."),
        Column::wide("IP", "Address of the pod."),
        Column::wide("Node", "Node the pod is placed on."),
        Column::wide("Nominated Node", "Node that is being cleared for the pod."),
        Column::wide("Readiness Gates", "Extra conditions that hold, of all."),
    ],
    cells,
};

/// What a look at all containers has found.
#[derive(Default)]
struct Count {
    total: usize,
    ready: usize,
    restarts: i64,
    last_restart: Option<Timestamp>,
}

impl Count {
    fn restarted(&mut self, container: &Value) {
        self.restarts += container["restartCount"].as_i64().unwrap_or(0);
        let ended = container["lastState"]["terminated"]["finishedAt"].as_str();
        let ended = ended.and_then(|text| text.parse().ok());
        self.last_restart = self.last_restart.max(ended);
    }

    fn told(&self, now: Timestamp) -> String {
        match self.last_restart.filter(|_| self.restarts > 0) {
            Some(last) => format!("{} ({} ago)", self.restarts, age::since(last, now)),
            None => self.restarts.to_string(),
        }
    }
}

fn cells(pod: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&pod["spec"], &pod["status"]);
    let mut count = Count {
        total: items(&spec["containers"]).len(),
        ..Count::default()
    };
    let doing = doing(pod, &mut count);
    let ip = match items(&status["podIPs"]) {
        [first, ..] => &first["ip"],
        [] => &status["podIP"],
    };
    vec![
        name(pod),
        Value::from(format!("{}/{}", count.ready, count.total)),
        Value::from(doing),
        Value::from(count.told(now)),
        age::of_object(pod, now),
        or_none(ip),
        or_none(&spec["nodeName"]),
        or_none(&status["nominatedNodeName"]),
        Value::from(gates(pod)),
    ]
}

/// Finds the word for the state of a Pod, counting its containers on the way.
fn doing(pod: &Value, count: &mut Count) -> String {
    let (spec, status) = (&pod["spec"], &pod["status"]);
    let said = status["reason"].as_str().filter(|text| !text.is_empty());
    let phase = status["phase"].as_str().unwrap_or_default();
    let mut word = said.unwrap_or(phase).to_owned();
    if condition(pod, "PodScheduled")["reason"] == "SchedulingGated" {
        "SchedulingGated".clone_into(&mut word);
    }
    let sidecars: Vec<&Value> = items(&spec["initContainers"])
        .iter()
        .filter(|container| container["restartPolicy"] == "Always")
        .map(|container| &container["name"])
        .collect();
    count.total += sidecars.len();
    let first_steps = initializing(pod, &sidecars, count);
    match first_steps {
        Some(step) => {
            for container in items(&status["containerStatuses"]) {
                count.restarted(container);
            }
            word = step;
        }
        None => working(pod, &mut word, count),
    }
    if pod["metadata"]["deletionTimestamp"].is_string() {
        if status["reason"] == "NodeLost" {
            return "Unknown".to_owned();
        }
        if !matches!(phase, "Succeeded" | "Failed") {
            return "Terminating".to_owned();
        }
    }
    word
}

/// Tells which init container is being waited for; `None` once all have done their part.
fn initializing(pod: &Value, sidecars: &[&Value], count: &mut Count) -> Option<String> {
    let all = items(&pod["spec"]["initContainers"]).len();
    let mut waiting = None;
    for (done, container) in items(&pod["status"]["initContainerStatuses"])
        .iter()
        .enumerate()
    {
        let sidecar = sidecars.contains(&&container["name"]);
        if sidecar || waiting.is_none() {
            count.restarted(container);
        }
        if sidecar && container["ready"] == Value::Bool(true) {
            count.ready += 1;
        }
        if waiting.is_some() {
            continue;
        }
        let state = &container["state"];
        let ended = &state["terminated"];
        if ended["exitCode"] == 0 || (sidecar && container["started"] == Value::Bool(true)) {
            continue;
        }
        waiting = Some(if ended.is_object() {
            format!("Init:{}", ending(ended))
        } else {
            match state["waiting"]["reason"].as_str() {
                Some(reason) if !reason.is_empty() && reason != "PodInitializing" => {
                    format!("Init:{reason}")
                }
                _ => format!("Init:{done}/{all}"),
            }
        });
    }
    let initialized = condition(pod, "Initialized")["status"] == "True";
    waiting.filter(|_| !initialized)
}

/// Looks at the containers proper; the first one with something to say has the last word.
fn working(pod: &Value, word: &mut String, count: &mut Count) {
    let mut running = false;
    for container in items(&pod["status"]["containerStatuses"]).iter().rev() {
        count.restarted(container);
        let state = &container["state"];
        let waiting = state["waiting"]["reason"]
            .as_str()
            .filter(|reason| !reason.is_empty());
        if let Some(reason) = waiting {
            reason.clone_into(word);
        } else if state["terminated"].is_object() {
            *word = ending(&state["terminated"]);
        } else if container["ready"] == Value::Bool(true) && state["running"].is_object() {
            running = true;
            count.ready += 1;
        }
    }
    if word == "Completed" && running {
        let ready = condition(pod, "Ready")["status"] == "True";
        (if ready { "Running" } else { "NotReady" }).clone_into(word);
    }
}

fn ending(terminated: &Value) -> String {
    if let Some(reason) = terminated["reason"]
        .as_str()
        .filter(|text| !text.is_empty())
    {
        return reason.to_owned();
    }
    match terminated["signal"].as_i64().filter(|signal| *signal != 0) {
        Some(signal) => format!("Signal:{signal}"),
        None => format!("ExitCode:{}", terminated["exitCode"].as_i64().unwrap_or(0)),
    }
}

fn condition<'a>(pod: &'a Value, type_name: &str) -> &'a Value {
    let conditions = items(&pod["status"]["conditions"]).iter();
    let mut found = conditions.filter(|condition| condition["type"] == type_name);
    found.next().unwrap_or(&Value::Null)
}

fn gates(pod: &Value) -> String {
    let gates = items(&pod["spec"]["readinessGates"]);
    if gates.is_empty() {
        return "<none>".to_owned();
    }
    let holds = |gate: &&Value| {
        let wanted = gate["conditionType"].as_str().unwrap_or_default();
        condition(pod, wanted)["status"] == "True"
    };
    format!("{}/{}", gates.iter().filter(holds).count(), gates.len())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(pod: &Value) -> [String; 3] {
        let now: Timestamp = "2026-01-03T00:00:00Z".parse().unwrap();
        let row = cells(pod, now);
        [1, 2, 3].map(|cell| row[cell].as_str().unwrap().to_owned())
    }

    #[test]
    fn a_pod_is_told_in_one_word() {
        let two = json!([{ "name": "a" }, { "name": "b" }]);
        let running = json!({ "ready": true, "state": { "running": {} } });
        let back_off = json!({
            "restartCount": 4, "state": { "waiting": { "reason": "CrashLoopBackOff" } },
            "lastState": { "terminated": { "finishedAt": "2026-01-02T23:59:00Z" } },
        });
        let killed = json!({ "state": { "terminated": { "signal": 9, "exitCode": 137 } } });
        let completed =
            json!({ "state": { "terminated": { "reason": "Completed", "exitCode": 0 } } });
        for (case, pod, want) in [
            (
                "new",
                json!({ "status": { "phase": "Pending" } }),
                ["0/2", "Pending", "0"],
            ),
            (
                "one of two crashes",
                json!({ "status": { "phase": "Running", "containerStatuses": [running, back_off] } }),
                ["1/2", "CrashLoopBackOff", "4 (60s ago)"],
            ),
            (
                "killed",
                json!({ "status": { "phase": "Failed", "containerStatuses": [killed] } }),
                ["0/2", "Signal:9", "0"],
            ),
            (
                "one of two has completed",
                json!({ "status": {
                    "phase": "Running", "containerStatuses": [completed, running],
                    "conditions": [{ "type": "Ready", "status": "True" }],
                } }),
                ["1/2", "Running", "0"],
            ),
            (
                "on its way out",
                json!({
                    "metadata": { "deletionTimestamp": "2026-01-02T23:59:59Z" },
                    "status": { "phase": "Running", "containerStatuses": [running, running] },
                }),
                ["2/2", "Terminating", "0"],
            ),
            (
                "evicted",
                json!({ "status": { "phase": "Failed", "reason": "Evicted" } }),
                ["0/2", "Evicted", "0"],
            ),
        ] {
            let mut pod = pod;
            pod["spec"]["containers"] = two.clone();
            assert_eq!(told(&pod), want, "{case}");
        }
    }

    #[test]
    fn init_containers_come_first() {
        let mut pod = json!({
            "spec": {
                "containers": [{ "name": "main" }],
                "initContainers": [{ "name": "side", "restartPolicy": "Always" }, { "name": "init" }],
            },
            "status": {
                "phase": "Pending",
                "initContainerStatuses": [
                    { "name": "side", "started": true, "ready": true, "state": { "running": {} } },
                    { "name": "init", "state": { "waiting": { "reason": "PodInitializing" } } },
                ],
            },
        });
        assert_eq!(told(&pod), ["1/2", "Init:1/2", "0"]);
        pod["status"]["initContainerStatuses"][1]["state"] =
            json!({ "terminated": { "exitCode": 2, "reason": "Error" } });
        assert_eq!(told(&pod)[1], "Init:Error");
        pod["status"]["initContainerStatuses"][1]["state"]["terminated"]["exitCode"] = json!(0);
        assert_eq!(told(&pod)[1], "Pending");
    }
}
