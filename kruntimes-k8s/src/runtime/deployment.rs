//! The Deployment that a Runtime stands for (API reference, section 4.5; node, section 18).

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, OwnerReference};
use kruntimes_core::api::RuntimeSpec;
use kruntimes_core::message::quoted;
use kruntimes_core::{keys, limits, names, resources};
use kube::core::ObjectMeta;

use super::pod_template;

/// What a platform operator chooses for all Runtimes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Defaults {
    /// Image of the sidecar when a Runtime names none.
    pub daemon_image: String,
    /// ServiceAccount of the Pods when a template names none.
    pub service_account: String,
    /// Namespace of the gateway that may reach Runtime Pods; nobody may when absent.
    pub gateway_namespace: Option<String>,
}

impl Default for Defaults {
    fn default() -> Self {
        Self {
            daemon_image: "kruntimes-runtimed:latest".to_owned(),
            service_account: "kruntimes-runtimed".to_owned(),
            gateway_namespace: None,
        }
    }
}

/// Why a Runtime has no Deployment.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The name does not fit a derived label. Rename the Runtime.
    #[error("runtime name {} is longer than {max} characters, which the label app=kruntimes-<name> cannot hold", quoted(.name))]
    InvalidName {
        /// The name.
        name: String,
        /// Longest possible name.
        max: usize,
    },
    /// The template is no Pod spec.
    #[error("spec.template.spec is not a pod spec: {0}")]
    Template(String),
    /// The workspace is no volume source.
    #[error("spec.workspace is not a volume source: {0}")]
    Workspace(String),
    /// A capacity cannot be advertised.
    #[error("spec.capacity.resources[{}] {problem}", quoted(.resource))]
    Capacity {
        /// The resource.
        resource: String,
        /// What is wrong with it.
        problem: &'static str,
    },
}

impl Error {
    /// Returns the reason of the `Ready` condition this error leads to.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::InvalidName { .. } => "InvalidName",
            Self::Template(_) | Self::Workspace(_) | Self::Capacity { .. } => "ReconcileFailed",
        }
    }
}

/// Longest Runtime name whose `app` label fits.
pub const RUNTIME_NAME_MAX: usize = limits::LABEL_MAX - "kruntimes-".len();

/// Returns the labels that select the Pods of a Runtime.
pub fn selector_labels(runtime: &str) -> BTreeMap<String, String> {
    BTreeMap::from([
        (keys::LABEL_RUNTIME.to_owned(), runtime.to_owned()),
        (keys::LABEL_APP.to_owned(), format!("kruntimes-{runtime}")),
    ])
}

/// Builds the Deployment of a Runtime. The Runtime itself is never modified (N-238).
///
/// # Errors
///
/// Returns why the Runtime can have no Deployment; nothing is guessed.
pub fn desired(
    name: &str,
    namespace: &str,
    owner: OwnerReference,
    spec: &RuntimeSpec,
    defaults: &Defaults,
) -> Result<Deployment, Error> {
    if name.len() > RUNTIME_NAME_MAX {
        return Err(Error::InvalidName {
            name: name.to_owned(),
            max: RUNTIME_NAME_MAX,
        });
    }
    let labels = selector_labels(name);
    let capacity = capacity_annotations(spec)?;
    Ok(Deployment {
        metadata: ObjectMeta {
            name: Some(names::runtime_objects(name)),
            namespace: Some(namespace.to_owned()),
            labels: Some(labels.clone()),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        },
        spec: Some(DeploymentSpec {
            replicas: Some(spec.replicas.unwrap_or(1).max(1)),
            selector: LabelSelector {
                match_labels: Some(labels.clone()),
                ..LabelSelector::default()
            },
            template: pod_template::build(name, spec, labels, capacity, defaults)?,
            ..DeploymentSpec::default()
        }),
        status: None,
    })
}

/// Writes the capacity of a Runtime as annotations; entries that are not positive are not advertised.
fn capacity_annotations(spec: &RuntimeSpec) -> Result<BTreeMap<String, String>, Error> {
    let refused = |resource: &str, problem| Error::Capacity {
        resource: resource.to_owned(),
        problem,
    };
    let mut annotations = BTreeMap::new();
    for (resource, amount) in spec.capacity.iter().flat_map(|c| &c.resources) {
        let Some(whole) = amount.to_whole() else {
            return Err(refused(resource, "must be a whole number"));
        };
        if whole < 0 {
            return Err(refused(resource, "must not be negative"));
        }
        let suffix = resources::annotation_suffix(resource);
        if resource.contains("__") || suffix.is_empty() || suffix.len() + "capacity.".len() > 63 {
            return Err(refused(resource, "does not fit an annotation key"));
        }
        if whole > 0 {
            annotations.insert(
                format!("{}{suffix}", keys::ANNOTATION_CAPACITY_PREFIX),
                amount.to_string(),
            );
        }
    }
    Ok(annotations)
}

/// Returns how many Runs one Pod takes at once, for `--workers`.
pub(super) fn workers(spec: &RuntimeSpec) -> i64 {
    spec.capacity
        .as_ref()
        .and_then(|capacity| capacity.resources.get(resources::RUNS))
        .and_then(|amount| amount.to_whole())
        .filter(|whole| (1..=i64::from(i32::MAX)).contains(whole))
        .unwrap_or(resources::DEFAULT_RUNS_CAPACITY)
}

/// Returns the account that the Pods of a Deployment run as.
pub(super) fn account(deployment: &Deployment, defaults: &Defaults) -> String {
    let template = deployment.spec.as_ref().map(|spec| &spec.template);
    template
        .and_then(|template| template.spec.as_ref()?.service_account_name.clone())
        .unwrap_or_else(|| defaults.service_account.clone())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{Container, PodSpec};
    use kruntimes_core::api::{PodTemplate, RuntimeCapacity};
    use serde_json::{Value, json};

    use super::*;

    fn runtime(spec: &Value) -> RuntimeSpec {
        RuntimeSpec {
            template: PodTemplate {
                spec: spec.as_object().cloned(),
                ..PodTemplate::default()
            },
            ..RuntimeSpec::default()
        }
    }

    fn bash() -> RuntimeSpec {
        runtime(&json!({"containers": [{"name": "runtime", "image": "bash:1"}]}))
    }

    fn owner() -> OwnerReference {
        OwnerReference {
            kind: "Runtime".into(),
            name: "bash".into(),
            ..OwnerReference::default()
        }
    }

    fn build(spec: &RuntimeSpec) -> Result<Deployment, Error> {
        desired("bash", "ns", owner(), spec, &Defaults::default())
    }

    fn pod(deployment: &Deployment) -> PodSpec {
        let template = &deployment.spec.as_ref().unwrap().template;
        template.spec.clone().unwrap()
    }

    fn container(deployment: &Deployment, name: &str) -> Container {
        let found = pod(deployment)
            .containers
            .into_iter()
            .find(|c| c.name == name);
        found.unwrap_or_else(|| panic!("no container {name}"))
    }

    #[test]
    fn a_minimal_runtime_becomes_a_complete_deployment() {
        let made = build(&bash()).unwrap();
        assert_eq!(made.metadata.name.as_deref(), Some("runtime-bash"));
        let names: Vec<_> = pod(&made).containers.into_iter().map(|c| c.name).collect();
        assert_eq!(names, ["runtime", "runtimed"]);
        let daemon = container(&made, "runtimed");
        let args = daemon.args.unwrap();
        assert!(args.contains(&"--runtime-endpoint=127.0.0.1:9091".to_owned()));
        assert!(args.contains(&"--workers=2".to_owned()));
        assert!(args.contains(&"--runtime-name=bash".to_owned()));
        assert_eq!(
            pod(&made).service_account_name.as_deref(),
            Some("kruntimes-runtimed")
        );
    }

    #[test]
    fn n_239_capacity_sets_annotation_and_workers_together() {
        let mut spec = bash();
        spec.capacity = Some(RuntimeCapacity {
            resources: [("runs", "1000"), ("example.com/gpu", "2"), ("none", "0")]
                .map(|(name, amount)| (name.to_owned(), amount.parse().unwrap()))
                .into(),
        });
        let made = build(&spec).unwrap();
        let template = made
            .spec
            .as_ref()
            .unwrap()
            .template
            .metadata
            .clone()
            .unwrap();
        let annotations = template.annotations.unwrap();
        assert_eq!(annotations["kruntimes.io/capacity.runs"], "1k");
        assert_eq!(annotations["kruntimes.io/capacity.example.com__gpu"], "2");
        assert!(!annotations.contains_key("kruntimes.io/capacity.none"));
        assert!(
            container(&made, "runtimed")
                .args
                .unwrap()
                .contains(&"--workers=1000".to_owned())
        );
        for bad in ["500m", "-1"] {
            let amount = [("runs".to_owned(), bad.parse().unwrap())];
            spec.capacity = Some(RuntimeCapacity {
                resources: amount.into(),
            });
            assert_eq!(
                build(&spec).unwrap_err().reason(),
                "ReconcileFailed",
                "{bad}"
            );
        }
    }

    #[test]
    fn n_236_a_template_without_runtime_first_is_refused() {
        for spec in [
            json!({}),
            json!({"containers": []}),
            json!({"containers": [{"name": "other", "image": "x"}]}),
            json!({"containers": [{"name": "runtime", "image": "x", "ports": 5}]}),
        ] {
            assert_eq!(
                build(&runtime(&spec)).unwrap_err().reason(),
                "ReconcileFailed",
                "{spec}"
            );
        }
    }

    #[test]
    fn n_243_a_long_name_is_refused() {
        let long = "r".repeat(54);
        let made = desired(&long, "ns", owner(), &bash(), &Defaults::default());
        assert_eq!(made.unwrap_err().reason(), "InvalidName");
        let fits = "r".repeat(53);
        assert!(desired(&fits, "ns", owner(), &bash(), &Defaults::default()).is_ok());
    }

    #[test]
    fn user_parts_are_kept_and_reserved_ones_replaced() {
        let spec = runtime(&json!({
            "serviceAccountName": "mine",
            "containers": [
                {"name": "runtime", "image": "x", "resources": {"limits": {"cpu": "4000m"}},
                 "volumeMounts": [{"name": "artifact-store", "mountPath": "/a"}, {"name": "data", "mountPath": "/d"}]},
                {"name": "runtimed", "image": "evil"},
                {"name": "helper", "image": "y"}],
            "volumes": [{"name": "workspace", "emptyDir": {}}, {"name": "data", "emptyDir": {}}],
        }));
        let made = build(&spec).unwrap();
        let names: Vec<_> = pod(&made).containers.into_iter().map(|c| c.name).collect();
        assert_eq!(names, ["runtime", "helper", "runtimed"]);
        assert_eq!(
            container(&made, "runtimed").image.as_deref(),
            Some("kruntimes-runtimed:latest")
        );
        let runtime = container(&made, "runtime");
        let mounts: Vec<_> = runtime
            .volume_mounts
            .unwrap()
            .into_iter()
            .map(|m| m.name)
            .collect();
        assert_eq!(mounts, ["data", "workspace", "tmp"]);
        let resources = runtime.resources.unwrap();
        assert_eq!(resources.limits.unwrap()["cpu"].0, "4");
        assert_eq!(resources.requests.unwrap()["cpu"].0, "250m");
        let volumes: Vec<_> = pod(&made)
            .volumes
            .unwrap()
            .into_iter()
            .map(|v| v.name)
            .collect();
        assert_eq!(
            volumes.iter().filter(|name| *name == "workspace").count(),
            1
        );
        assert_eq!(pod(&made).service_account_name.as_deref(), Some("mine"));
    }

    #[test]
    fn n_241_the_token_reaches_only_the_daemon() {
        let made = build(&bash()).unwrap();
        assert_eq!(pod(&made).automount_service_account_token, Some(false));
        let mounts = |name| container(&made, name).volume_mounts.unwrap_or_default();
        assert!(
            mounts("runtimed")
                .iter()
                .any(|m| m.name == "runtimed-token")
        );
        assert!(!mounts("runtime").iter().any(|m| m.name == "runtimed-token"));
    }

    #[test]
    fn n_242_a_volume_reaches_the_daemon_alone() {
        let mut spec = runtime(&json!({
            "containers": [
                {"name": "runtime", "image": "x", "volumeMounts": [{"name": "artifact-store", "mountPath": "/a"}]},
                {"name": "helper", "image": "y", "volumeMounts": [{"name": "artifact-store", "mountPath": "/a"}]}],
            "initContainers": [
                {"name": "init", "image": "z", "volumeMounts": [{"name": "artifact-store", "mountPath": "/a"}]}],
            "volumes": [{"name": "artifact-store", "emptyDir": {}}],
        }));
        let store = json!({"driver": "filesystem", "filesystem": {"volumeClaimName": "artifacts"}});
        spec.artifact_store = serde_json::from_value(store).unwrap();
        let made = build(&spec).unwrap();
        let args = container(&made, "runtimed").args.unwrap();
        assert_eq!(
            args[4..],
            [
                "--artifact-store-driver=filesystem",
                "--artifact-store-root=/var/lib/kruntimes/artifacts",
                "--artifact-volume-claim=artifacts",
            ]
        );
        let has = |container: &Container| {
            let mounts = container.volume_mounts.iter().flatten();
            { mounts }.any(|mount| mount.name == "artifact-store")
        };
        let made = pod(&made);
        let mounted: Vec<_> = made.containers.iter().map(has).collect();
        assert_eq!(mounted, [false, false, true]);
        assert!(!made.init_containers.iter().flatten().any(has));
        let volumes = made.volumes.iter().flatten();
        let stores: Vec<_> = volumes.filter(|v| v.name == "artifact-store").collect();
        let claim = stores[0].persistent_volume_claim.as_ref().unwrap();
        assert_eq!((stores.len(), &*claim.claim_name), (1, "artifacts"));
        let context = made.security_context.unwrap();
        assert_eq!(context.fs_group, Some(65532));
        assert_eq!(
            context.fs_group_change_policy.as_deref(),
            Some("OnRootMismatch")
        );
        spec.template.spec.as_mut().unwrap().insert(
            "securityContext".to_owned(),
            json!({"fsGroup": 7, "runAsUser": 8}),
        );
        let kept = pod(&build(&spec).unwrap()).security_context.unwrap();
        assert_eq!((kept.fs_group, kept.run_as_user), (Some(7), Some(8)));
        assert_eq!(kept.fs_group_change_policy, None);
    }

    #[test]
    fn n_238_n_242_the_keys_of_a_bucket_are_in_no_argument_and_no_other_container() {
        let mut spec = bash();
        let store = json!({"driver": "s3", "s3": {
            "bucket": "builds", "prefix": "team", "region": "eu", "endpoint": "https://s3:9000",
            "forcePathStyle": true, "credentialsSecretName": "keys",
            "uploadPartSize": 5_242_880, "uploadConcurrency": 2,
        }});
        spec.artifact_store = serde_json::from_value(store).unwrap();
        let made = build(&spec).unwrap();
        let daemon = container(&made, "runtimed");
        assert_eq!(
            daemon.args.unwrap()[4..],
            [
                "--artifact-store-driver=s3",
                "--artifact-s3-bucket=builds",
                "--artifact-s3-prefix=team",
                "--artifact-s3-region=eu",
                "--artifact-s3-endpoint=https://s3:9000",
                "--artifact-s3-force-path-style",
                "--artifact-s3-credentials-secret-name=keys",
                "--artifact-s3-upload-part-size=5242880",
                "--artifact-s3-upload-concurrency=2",
            ]
        );
        let from = daemon.env_from.unwrap();
        assert_eq!(from[0].secret_ref.as_ref().unwrap().name, "keys");
        assert_eq!(container(&made, "runtime").env_from, None);
        assert_eq!(pod(&made).security_context, None, "no files to share");
        assert_eq!(build(&spec).unwrap(), made, "N-238: the same again");
    }
}
