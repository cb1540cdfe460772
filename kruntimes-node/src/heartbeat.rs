//! The heartbeat: one condition of the own Pod (node, section 14).

use std::sync::atomic::Ordering;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, PodCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kruntimes_core::keys::POD_RUNTIMED_READY;
use kruntimes_core::limits::MESSAGE_MAX_BYTES;
use kruntimes_core::message::bounded;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::node::Node;

/// Distance of two heartbeats (N-183).
const EVERY: Duration = Duration::from_secs(5);
/// How long the Runtime Server may fail before the condition says so (N-185).
const PATIENCE: Duration = Duration::from_secs(15);

/// What the condition is to say now.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Beat {
    status: &'static str,
    reason: &'static str,
    message: String,
}

/// Sends heartbeats for ever, the first one at once.
pub(crate) async fn beat(node: &Node, client: Client) {
    let api: Api<Pod> = Api::namespaced(client, &node.config.namespace);
    let mut good_at = Instant::now();
    let mut known: Option<Pod> = None;
    loop {
        let health = node.server.ask_health().await;
        if health.is_ok() {
            good_at = Instant::now();
        }
        if let Some(beat) = word(health, good_at.elapsed()) {
            match send(node, &api, known.take(), &beat).await {
                Ok(pod) => {
                    node.pulse.beat();
                    node.set_capacity(pod.annotations().iter());
                    let leaving = pod.metadata.deletion_timestamp.is_some();
                    node.leaving.store(leaving, Ordering::Relaxed);
                    known = Some(pod);
                }
                Err(error) => tracing::warn!(%error, "heartbeat cannot be sent"),
            }
        }
        sleep(EVERY).await;
    }
}

/// Words the condition; nothing while the server fails for a short time only.
fn word(health: Result<(), String>, failing: Duration) -> Option<Beat> {
    match health {
        Ok(()) => Some(Beat {
            status: "True",
            reason: "Heartbeat",
            message: "runtimed heartbeat is fresh".to_owned(),
        }),
        Err(_) if failing <= PATIENCE => None,
        Err(text) => Some(Beat {
            status: "False",
            reason: "RuntimeServerUnhealthy",
            message: bounded(&text, MESSAGE_MAX_BYTES),
        }),
    }
}

/// Patches the condition, from the Pod as last answered, else as read now.
async fn send(
    node: &Node,
    api: &Api<Pod>,
    known: Option<Pod>,
    beat: &Beat,
) -> Result<Pod, kube::Error> {
    let name = &node.config.pod_name;
    let now = Time(node.clock.now());
    if let Some(pod) = known
        && let Ok(pod) = patch(api, name, &pod, beat, &now).await
    {
        return Ok(pod);
    }
    // The list has moved under the patch: its tests failed, so look again.
    let pod = api.get(name).await?;
    patch(api, name, &pod, beat, &now).await
}

async fn patch(
    api: &Api<Pod>,
    name: &str,
    pod: &Pod,
    beat: &Beat,
    now: &Time,
) -> Result<Pod, kube::Error> {
    let operations = operations(pod, beat, now);
    let patch: json_patch::Patch =
        serde_json::from_value(operations).map_err(kube::Error::SerdeError)?;
    let params = PatchParams::default();
    api.patch_status(name, &params, &Patch::<()>::Json(patch))
        .await
}

/// Builds a JSON patch that touches this one condition and fails when it is not where it was (N-184).
fn operations(pod: &Pod, beat: &Beat, now: &Time) -> Value {
    let conditions = pod.status.as_ref().and_then(|s| s.conditions.as_deref());
    let place = conditions.and_then(|list| list.iter().position(|c| c.type_ == POD_RUNTIMED_READY));
    let old = place.and_then(|place| conditions?.get(place));
    let since = old
        .filter(|old| old.status == beat.status)
        .and_then(|old| old.last_transition_time.clone());
    let condition = PodCondition {
        type_: POD_RUNTIMED_READY.to_owned(),
        status: beat.status.to_owned(),
        reason: Some(beat.reason.to_owned()),
        message: Some(beat.message.clone()),
        last_probe_time: Some(now.clone()),
        last_transition_time: Some(since.unwrap_or_else(|| now.clone())),
        ..PodCondition::default()
    };
    match (conditions, place) {
        (Some(_), Some(place)) => json!([
            { "op": "test", "path": format!("/status/conditions/{place}/type"), "value": POD_RUNTIMED_READY },
            { "op": "replace", "path": format!("/status/conditions/{place}"), "value": condition },
        ]),
        // Kubelets write members that are null, which a typed list does not give back: test the version.
        (Some(_), None) => json!([
            { "op": "test", "path": "/metadata/resourceVersion", "value": pod.resource_version() },
            { "op": "add", "path": "/status/conditions/-", "value": condition },
        ]),
        (None, _) if pod.status.is_none() => json!([
            { "op": "test", "path": "/status", "value": null },
            { "op": "add", "path": "/status", "value": { "conditions": [condition] } },
        ]),
        (None, _) => json!([
            { "op": "test", "path": "/status/conditions", "value": null },
            { "op": "add", "path": "/status/conditions", "value": [condition] },
        ]),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::PodStatus;

    use super::*;

    fn at(second: i64) -> Time {
        Time(jiff::Timestamp::from_second(second).unwrap())
    }

    #[test]
    fn n_185_a_failing_server_is_told_after_a_while() {
        let failed = || Err("no room".to_owned());
        assert_eq!(word(Ok(()), Duration::ZERO).unwrap().reason, "Heartbeat");
        assert_eq!(word(failed(), Duration::from_secs(15)), None);
        let beat = word(failed(), Duration::from_secs(16)).unwrap();
        assert_eq!(
            (beat.status, beat.reason),
            ("False", "RuntimeServerUnhealthy")
        );
    }

    #[test]
    fn n_183_n_184_the_patch_touches_one_condition() {
        let beat = word(Ok(()), Duration::ZERO).unwrap();
        let ready = PodCondition {
            type_: "Ready".into(),
            status: "True".into(),
            ..PodCondition::default()
        };
        let mut pod = Pod::default();
        assert_eq!(operations(&pod, &beat, &at(1))[1]["path"], "/status");
        pod.status = Some(PodStatus::default());
        assert_eq!(
            operations(&pod, &beat, &at(1))[1]["path"],
            "/status/conditions"
        );
        let own = PodCondition {
            type_: POD_RUNTIMED_READY.into(),
            status: "True".into(),
            last_transition_time: Some(at(1)),
            ..PodCondition::default()
        };
        let conditions = |list: &[PodCondition]| {
            Some(PodStatus {
                conditions: Some(list.to_vec()),
                ..PodStatus::default()
            })
        };
        pod.status = conditions(std::slice::from_ref(&ready));
        assert_eq!(
            operations(&pod, &beat, &at(1))[1]["path"],
            "/status/conditions/-"
        );
        pod.status = conditions(&[ready, own]);
        let patch = operations(&pod, &beat, &at(9));
        assert_eq!(patch[1]["path"], "/status/conditions/1");
        assert_eq!(
            patch[1]["value"]["lastTransitionTime"],
            "1970-01-01T00:00:01Z"
        );
        assert_eq!(patch[1]["value"]["lastProbeTime"], "1970-01-01T00:00:09Z");
    }
}
