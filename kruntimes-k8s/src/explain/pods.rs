//! What is wrong with a Runtime Pod, in words.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kruntimes_core::duration::Duration;
use kruntimes_sched::Heartbeat;
use kube::ResourceExt as _;

use super::words::{age, seconds};
use crate::scheduler::{Names, seen};

/// A Pod as the scheduler sees it.
pub(super) fn seen(pod: &Pod) -> kruntimes_sched::Pod {
    seen::pod(&Names::default(), pod)
}

/// Says why a Pod is not ready, or nothing when it is.
pub(super) fn problem(pod: &Pod) -> Option<String> {
    if seen(pod).ready {
        return None;
    }
    let name = pod.name_any();
    if pod.metadata.deletion_timestamp.is_some() {
        return Some(format!("pod {name} is being deleted"));
    }
    let status = pod.status.as_ref();
    let condition = |kind: &str| {
        let conditions = status.and_then(|status| status.conditions.as_ref());
        let mut found = conditions.into_iter().flatten();
        found.find(|one| one.type_ == kind && one.status != "True")
    };
    if let Some(unplaced) = condition("PodScheduled") {
        let reason = unplaced.reason.as_deref().unwrap_or("Unschedulable");
        let text = unplaced.message.as_deref().unwrap_or_default();
        return Some(format!("pod {name} has no node ({reason}): {text}"));
    }
    if let Some(waits) = containers(pod).find_map(waiting) {
        return Some(format!("pod {name}: {waits}"));
    }
    let phase = status
        .and_then(|status| status.phase.as_deref())
        .unwrap_or("Pending");
    if phase != "Running" {
        let text = status.and_then(|status| status.message.as_deref());
        let text = text.map_or_else(String::new, |text| format!(": {text}"));
        return Some(format!("pod {name} is {phase}{text}"));
    }
    let unready = condition("Ready");
    let reason = unready.and_then(|ready| ready.reason.as_deref());
    let text = unready
        .and_then(|ready| ready.message.as_deref())
        .unwrap_or("its probe fails");
    Some(format!(
        "pod {name} is not ready ({}): {text}",
        reason.unwrap_or("NotReady")
    ))
}

fn containers(pod: &Pod) -> impl Iterator<Item = &ContainerStatus> {
    let status = pod.status.iter();
    let lists = status.flat_map(|s| [&s.init_container_statuses, &s.container_statuses]);
    lists.flatten().flatten()
}

/// Says what a container waits for.
fn waiting(container: &ContainerStatus) -> Option<String> {
    let waiting = container.state.as_ref()?.waiting.as_ref()?;
    let reason = waiting
        .reason
        .as_deref()
        .filter(|reason| !is_ordinary(reason))?;
    let text = waiting.message.as_deref().unwrap_or_default();
    let said = format!("container {} waits ({reason}): {text}", container.name);
    Some(said.trim_end_matches(": ").to_owned())
}

/// Reasons that every Pod passes through.
fn is_ordinary(reason: &str) -> bool {
    matches!(reason, "ContainerCreating" | "PodInitializing")
}

/// Says how often containers were started again, when any was.
pub(super) fn restarts(pod: &Pod) -> Option<String> {
    let restarted = containers(pod).filter(|container| container.restart_count > 0);
    let words: Vec<String> = restarted
        .map(|container| format!("{} {} times", container.name, container.restart_count))
        .collect();
    (!words.is_empty()).then(|| format!("pod {} restarted: {}", pod.name_any(), words.join(", ")))
}

/// What is known of the heartbeats of Pods that are ready and silent.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Silence {
    /// Names of the Pods.
    pub(super) pods: Vec<String>,
    /// Age of the newest heartbeat among them; nothing when none ever came.
    pub(super) newest: Option<i64>,
}

/// Finds the Pods that are ready and give no fresh sign of life.
pub(super) fn silence(pods: &[Pod], limit: Duration, now: Timestamp) -> Silence {
    let all = pods.iter().map(seen);
    let silent: Vec<kruntimes_sched::Pod> = all
        .filter(|pod| pod.ready && !pod.heartbeat.is_fresh(now, limit))
        .collect();
    let last = silent.iter().filter_map(|pod| match pod.heartbeat {
        Heartbeat::At(probe) => Some(age(probe, now)),
        Heartbeat::Unneeded | Heartbeat::Missing => None,
    });
    Silence {
        newest: last.min(),
        pods: silent.iter().map(|pod| pod.name.to_string()).collect(),
    }
}

/// Writes a limit as people do.
pub(super) fn limit(limit: Duration) -> String {
    seconds(limit.as_nanos() / 1_000_000_000)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(status: &Value) -> Pod {
        let object = json!({"metadata": {"name": "p"}, "status": status});
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn c_160_the_first_problem_of_a_pod_is_quoted() {
        let waits = |reason: &str, text: &str| {
            json!([{
                "name": "runtime", "image": "", "imageID": "", "ready": false, "restartCount": 3,
                "state": {"waiting": {"reason": reason, "message": text}},
            }])
        };
        let ready = json!([{"type": "Ready", "status": "True"}]);
        for (status, want) in [
            (
                json!({"phase": "Pending", "conditions": [{
                    "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                    "message": "0/3 nodes are available"}]}),
                Some("pod p has no node (Unschedulable): 0/3 nodes are available"),
            ),
            (
                json!({"phase": "Pending", "containerStatuses": waits("ImagePullBackOff", "no such image")}),
                Some("pod p: container runtime waits (ImagePullBackOff): no such image"),
            ),
            (
                json!({"phase": "Pending", "containerStatuses": waits("ContainerCreating", "")}),
                Some("pod p is Pending"),
            ),
            (
                json!({"phase": "Running", "conditions": [{
                    "type": "Ready", "status": "False", "reason": "ContainersNotReady",
                    "message": "containers with unready status: [runtime]"}]}),
                Some(
                    "pod p is not ready (ContainersNotReady): containers with unready status: [runtime]",
                ),
            ),
            (json!({"phase": "Running", "conditions": ready}), None),
        ] {
            assert_eq!(problem(&pod(&status)).as_deref(), want, "{status}");
        }
        let restarted = pod(&json!({"containerStatuses": waits("CrashLoopBackOff", "")}));
        assert_eq!(
            restarts(&restarted).as_deref(),
            Some("pod p restarted: runtime 3 times")
        );
        assert_eq!(restarts(&pod(&json!({}))), None);
    }
}
