//! Which Pods a Deployment should have, and what it reports, as pure functions.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentStatus};
use k8s_openapi::api::core::v1::Pod;
use kruntimes_k8s::cache::ObjectKey;
use kube::core::ObjectMeta;
use kube::{Resource as _, ResourceExt as _};
use serde_json::{Value, json};

/// What one pass over a Deployment does.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// Pods to make.
    pub(super) create: Vec<Pod>,
    /// Names of Pods to delete.
    pub(super) delete: Vec<String>,
    /// Pods that stay.
    pub(super) keep: Vec<Arc<Pod>>,
}

/// Compares the Pods of a Deployment with what it asks for.
///
/// Pods are numbered from zero; a Pod whose template is no longer the
/// Deployment's is replaced.
pub(super) fn plan(key: &ObjectKey, deployment: Option<&Deployment>, pods: &[Arc<Pod>]) -> Plan {
    let mut plan = Plan::default();
    let wanted = deployment
        .filter(|d| d.metadata.deletion_timestamp.is_none())
        .and_then(|d| d.spec.as_ref().map(|spec| (d, spec)));
    let Some((deployment, spec)) = wanted else {
        plan.delete = pods.iter().map(|pod| pod.name_any()).collect();
        return plan;
    };
    let replicas = spec.replicas.unwrap_or(1).max(0);
    let revision = revision(deployment);
    for ordinal in 0..replicas {
        let name = format!("{}-{ordinal}", key.name);
        match pods.iter().find(|pod| pod.name_any() == name) {
            None => plan.create.extend(new_pod(deployment, &name, &revision)),
            Some(pod) if pod.annotations().get(REVISION) != Some(&revision) => {
                plan.delete.push(name);
            }
            // On its way out; its successor comes when it is gone.
            Some(pod) if pod.metadata.deletion_timestamp.is_some() => {}
            Some(pod) => plan.keep.push(Arc::clone(pod)),
        }
    }
    let kept = |pod: &Arc<Pod>| {
        plan.keep
            .iter()
            .any(|keep| keep.name_any() == pod.name_any())
    };
    let surplus: Vec<String> = pods
        .iter()
        .filter(|pod| pod.metadata.deletion_timestamp.is_none())
        .filter(|pod| !kept(pod) && !plan.delete.contains(&pod.name_any()))
        .map(|pod| pod.name_any())
        .collect();
    plan.delete.extend(surplus);
    plan
}

const REVISION: &str = "kruntimes.io/local-template-hash";

/// Identifies the template a Pod was made from.
fn revision(deployment: &Deployment) -> String {
    let template = deployment.spec.as_ref().map(|spec| &spec.template);
    let text = serde_json::to_string(&template).unwrap_or_default();
    kruntimes_core::names::hex10(&text)
}

fn new_pod(deployment: &Deployment, name: &str, revision: &str) -> Option<Pod> {
    let template = deployment.spec.as_ref()?.template.clone();
    let meta = template.metadata.unwrap_or_default();
    let mut annotations = meta.annotations.unwrap_or_default();
    annotations.insert(REVISION.to_owned(), revision.to_owned());
    Some(Pod {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: deployment.namespace(),
            labels: meta.labels,
            annotations: Some(annotations),
            owner_references: Some(vec![deployment.controller_owner_ref(&())?]),
            ..ObjectMeta::default()
        },
        spec: template.spec,
        status: None,
    })
}

/// Tells whether a Pod reports itself ready.
pub(super) fn is_ready(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_none()
        && pod
            .status
            .iter()
            .flat_map(|status| status.conditions.iter().flatten())
            .any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// Builds the status patch of a Deployment, or nothing when it is up to date.
pub(super) fn status_patch(deployment: &Deployment, pods: &[Arc<Pod>]) -> Option<Value> {
    let count = |n: usize| i32::try_from(n).unwrap_or(i32::MAX);
    let ready = count(pods.iter().filter(|pod| is_ready(pod)).count());
    let total = count(pods.len());
    let default = DeploymentStatus::default();
    let status = deployment.status.as_ref().unwrap_or(&default);
    let generation = deployment.metadata.generation;
    let current = (
        status.replicas.unwrap_or(0),
        status.ready_replicas.unwrap_or(0),
        status.observed_generation,
    );
    (current != (total, ready, generation)).then(|| {
        json!({"status": {
            "observedGeneration": generation,
            "replicas": total,
            "updatedReplicas": total,
            "readyReplicas": ready,
            "availableReplicas": ready,
        }})
    })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::DeploymentSpec;

    use super::*;

    fn deployment(replicas: i32, image: &str) -> Deployment {
        let template = json!({
            "metadata": {"labels": {"runtime": "bash"}},
            "spec": {"containers": [{"name": "runtime", "image": image}]},
        });
        Deployment {
            metadata: ObjectMeta {
                name: Some("runtime-bash".into()),
                namespace: Some("default".into()),
                uid: Some("d".into()),
                generation: Some(1),
                ..ObjectMeta::default()
            },
            spec: Some(DeploymentSpec {
                replicas: Some(replicas),
                template: serde_json::from_value(template).unwrap(),
                ..DeploymentSpec::default()
            }),
            status: None,
        }
    }

    fn key() -> ObjectKey {
        ObjectKey::new("default", "runtime-bash")
    }

    fn made(deployment: &Deployment) -> Vec<Arc<Pod>> {
        let plan = plan(&key(), Some(deployment), &[]);
        plan.create.into_iter().map(Arc::new).collect()
    }

    #[test]
    fn a_deployment_gets_as_many_pods_as_it_asks_for() {
        let three = deployment(3, "bash");
        let pods = made(&three);
        assert_eq!(pods.len(), 3);
        assert_eq!(pods[2].name_any(), "runtime-bash-2");
        let settled = plan(&key(), Some(&three), &pods);
        assert_eq!(
            (
                settled.create.len(),
                settled.delete.len(),
                settled.keep.len()
            ),
            (0, 0, 3)
        );
        let fewer = plan(&key(), Some(&deployment(1, "bash")), &pods);
        assert_eq!(fewer.delete, ["runtime-bash-1", "runtime-bash-2"]);
        let gone = plan(&key(), None, &pods);
        assert_eq!(gone.delete.len(), 3);
    }

    #[test]
    fn a_changed_template_replaces_the_pods() {
        let pods = made(&deployment(2, "bash:1"));
        let rolled = plan(&key(), Some(&deployment(2, "bash:2")), &pods);
        assert_eq!(rolled.delete.len(), 2);
        assert!(rolled.keep.is_empty());
    }

    #[test]
    fn a_pod_on_its_way_out_is_neither_kept_nor_deleted_again() {
        let one = deployment(1, "bash");
        let mut pods = made(&one);
        Arc::make_mut(&mut pods[0]).metadata.deletion_timestamp =
            serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
        let waiting = plan(&key(), Some(&one), &pods);
        assert!(waiting.keep.is_empty() && waiting.delete.is_empty());
        assert!(waiting.create.is_empty(), "the name is not free yet");
    }

    #[test]
    fn the_status_is_written_only_when_it_changes() {
        let mut one = deployment(1, "bash");
        let pods = made(&one);
        let patch = status_patch(&one, &pods).unwrap();
        assert_eq!(patch["status"]["readyReplicas"], 0);
        one.status = serde_json::from_value(patch["status"].clone()).unwrap();
        assert!(status_patch(&one, &pods).is_none());
    }
}
