//! The objects that clean up one artifact store in one namespace (node, section 12.7).
//!
//! None of them has an owner: they outlive the Runtime whose Runs they clean up after.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec, DeploymentStrategy};
use k8s_openapi::api::core::v1::{
    Container, LocalObjectReference, PodSecurityContext, PodSpec, PodTemplateSpec,
    ResourceRequirements, ServiceAccount,
};
use k8s_openapi::api::rbac::v1::{PolicyRule, Role, RoleBinding, RoleRef, Subject};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kruntimes_core::api::{ArtifactDriver, ArtifactStore};
use kruntimes_core::{keys, names};
use kube::core::ObjectMeta;

use crate::runtime::artifact_store;
use crate::runtime::pod_template::{amounts, restricted};

/// Name of account, Role and binding, one each per namespace.
pub const IDENTITY: &str = "kruntimes-runtime-maintainer";
/// Label selector of everything that belongs to maintainers.
pub(super) const SELECTOR: &str = "app.kubernetes.io/component=runtime-maintainer";
/// Value of the store label on what all maintainers of a namespace share.
const SHARED: &str = "rbac";

/// What a platform operator chooses for all maintainers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// Image with the program `/runtime-maintainer`.
    pub name: String,
    /// Secrets it is pulled with.
    pub pull_secrets: Vec<String>,
}

impl Default for Image {
    fn default() -> Self {
        Self {
            name: "kruntimes-controller:latest".to_owned(),
            pull_secrets: Vec::new(),
        }
    }
}

/// Everything one store needs in one namespace.
#[derive(Clone, Debug, PartialEq)]
pub struct Maintainer {
    /// Who it is.
    pub account: ServiceAccount,
    /// What it may do.
    pub role: Role,
    /// Gives the Role to the account.
    pub binding: RoleBinding,
    /// The one that cleans.
    pub deployment: Deployment,
}

/// Builds the objects for a store.
pub fn desired(namespace: &str, store: &ArtifactStore, image: &Image) -> Maintainer {
    Maintainer {
        account: ServiceAccount {
            metadata: meta(namespace, IDENTITY, SHARED),
            ..ServiceAccount::default()
        },
        role: Role {
            metadata: meta(namespace, IDENTITY, SHARED),
            rules: Some(rules()),
        },
        binding: RoleBinding {
            metadata: meta(namespace, IDENTITY, SHARED),
            role_ref: RoleRef {
                api_group: "rbac.authorization.k8s.io".to_owned(),
                kind: "Role".to_owned(),
                name: IDENTITY.to_owned(),
            },
            subjects: Some(vec![Subject {
                kind: "ServiceAccount".to_owned(),
                name: IDENTITY.to_owned(),
                namespace: Some(namespace.to_owned()),
                ..Subject::default()
            }]),
        },
        deployment: deployment(namespace, store, image),
    }
}

fn labels(hash: &str) -> BTreeMap<String, String> {
    [
        ("app.kubernetes.io/name", "kruntimes"),
        ("app.kubernetes.io/component", "runtime-maintainer"),
        (keys::LABEL_ARTIFACT_STORE_HASH, hash),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .into()
}

fn meta(namespace: &str, name: &str, hash: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        namespace: Some(namespace.to_owned()),
        labels: Some(labels(hash)),
        ..ObjectMeta::default()
    }
}

fn rules() -> Vec<PolicyRule> {
    let rule = |group: &str, resource: &str, verbs: &[&str]| PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(vec![resource.to_owned()]),
        verbs: verbs.iter().map(|verb| (*verb).to_owned()).collect(),
        ..PolicyRule::default()
    };
    let keeps = ["get", "list", "watch", "update", "patch"];
    vec![
        rule("kruntimes.io", "runs", &keeps),
        rule("kruntimes.io", "runs/status", &["get", "update", "patch"]),
        rule("", "events", &["create", "patch"]),
    ]
}

fn args(namespace: &str, hash: &str, store: &ArtifactStore) -> Vec<String> {
    let driver = match store.driver {
        ArtifactDriver::Filesystem => "filesystem",
        ArtifactDriver::S3 => "s3",
    };
    let mut args = vec![
        format!("--run-namespace={namespace}"),
        format!("--store-hash={hash}"),
        format!("--driver={driver}"),
    ];
    if let Some(volume) = &store.filesystem {
        args.push(format!("--filesystem-root={}", artifact_store::ROOT));
        let claim = &volume.volume_claim_name;
        args.push(format!("--filesystem-volume-claim={claim}"));
    }
    let s3 = store.s3.iter();
    args.extend(s3.flat_map(|s3| artifact_store::place_args("--s3", s3)));
    args
}

fn deployment(namespace: &str, store: &ArtifactStore, image: &Image) -> Deployment {
    let hash = names::artifact_store(store);
    let cleaner = Container {
        name: "cleaner".to_owned(),
        image: Some(image.name.clone()),
        image_pull_policy: Some("IfNotPresent".to_owned()),
        command: Some(vec!["/runtime-maintainer".to_owned()]),
        args: Some(args(namespace, &hash, store)),
        env_from: artifact_store::credentials(store),
        resources: Some(ResourceRequirements {
            requests: Some(amounts("25m", "32Mi")),
            limits: Some(amounts("250m", "128Mi")),
            ..ResourceRequirements::default()
        }),
        security_context: Some(restricted()),
        volume_mounts: artifact_store::mount(store).map(|mount| vec![mount]),
        ..Container::default()
    };
    let secrets = image.pull_secrets.iter();
    let secrets: Vec<_> = secrets
        .map(|name| LocalObjectReference { name: name.clone() })
        .collect();
    let pod = PodSpec {
        containers: vec![cleaner],
        service_account_name: Some(IDENTITY.to_owned()),
        image_pull_secrets: (!secrets.is_empty()).then_some(secrets),
        security_context: Some(PodSecurityContext {
            run_as_non_root: Some(true),
            fs_group: Some(65532),
            fs_group_change_policy: Some("OnRootMismatch".to_owned()),
            ..PodSecurityContext::default()
        }),
        volumes: artifact_store::volume(store).map(|volume| vec![volume]),
        ..PodSpec::default()
    };
    Deployment {
        metadata: meta(namespace, &names::maintainer(&hash), &hash),
        spec: Some(DeploymentSpec {
            replicas: Some(1),
            selector: LabelSelector {
                match_labels: Some(labels(&hash)),
                ..LabelSelector::default()
            },
            // Two at once would only be in each other's way.
            strategy: Some(DeploymentStrategy {
                type_: Some("Recreate".to_owned()),
                ..DeploymentStrategy::default()
            }),
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta {
                    labels: Some(labels(&hash)),
                    ..ObjectMeta::default()
                }),
                spec: Some(pod),
            },
            ..DeploymentSpec::default()
        }),
        status: None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn made(store: &Value) -> Value {
        let store = serde_json::from_value(store.clone()).unwrap();
        let image = Image {
            name: "controller:1".into(),
            pull_secrets: vec!["pull".into()],
        };
        let made = desired("ci", &store, &image);
        assert_eq!(made.deployment.metadata.owner_references, None);
        serde_json::to_value(made.deployment).unwrap()
    }

    #[test]
    fn n_170_n_171_a_volume_is_mounted_into_its_maintainer() {
        let store = json!({"driver": "filesystem", "filesystem": {"volumeClaimName": "artifacts"}});
        let made = made(&store);
        let name = "runtime-maintainer-8ec520a69bdef1d2";
        assert_eq!(made["metadata"]["name"], name);
        assert_eq!(made["spec"]["strategy"]["type"], "Recreate");
        assert_eq!(made["spec"]["replicas"], 1);
        let pod = &made["spec"]["template"]["spec"];
        assert_eq!(pod["serviceAccountName"], "kruntimes-runtime-maintainer");
        assert_eq!(pod["imagePullSecrets"], json!([{"name": "pull"}]));
        assert_eq!(pod["securityContext"]["fsGroup"], 65532);
        let cleaner = &pod["containers"][0];
        assert_eq!(cleaner["name"], "cleaner");
        assert_eq!(cleaner["command"], json!(["/runtime-maintainer"]));
        assert_eq!(
            cleaner["args"],
            json!([
                "--run-namespace=ci",
                "--store-hash=8ec520a69bdef1d2",
                "--driver=filesystem",
                "--filesystem-root=/var/lib/kruntimes/artifacts",
                "--filesystem-volume-claim=artifacts",
            ])
        );
        let mounts =
            json!([{"name": "artifact-store", "mountPath": "/var/lib/kruntimes/artifacts"}]);
        assert_eq!(cleaner["volumeMounts"], mounts);
        assert_eq!(cleaner.get("envFrom"), None);
        let context = &cleaner["securityContext"];
        assert_eq!(context["readOnlyRootFilesystem"], true);
        assert_eq!(context["capabilities"]["drop"], json!(["ALL"]));
        assert_eq!(
            cleaner["resources"]["limits"],
            json!({"cpu": "250m", "memory": "128Mi"})
        );
        let labels = &made["spec"]["template"]["metadata"]["labels"];
        assert_eq!(
            labels["kruntimes.io/artifact-store-hash"],
            "8ec520a69bdef1d2"
        );
        assert_eq!(labels["app.kubernetes.io/component"], "runtime-maintainer");
    }

    #[test]
    fn n_171_n_242_a_bucket_is_named_and_its_keys_come_from_the_secret_alone() {
        let store = json!({"driver": "s3", "s3": {
            "bucket": "builds", "prefix": "team-a", "region": "us-east-1",
            "endpoint": "http://s3:9000", "forcePathStyle": true,
            "credentialsSecretName": "keys", "uploadPartSize": 5_242_880,
        }});
        let made = made(&store);
        let pod = &made["spec"]["template"]["spec"];
        let cleaner = &pod["containers"][0];
        let args: Vec<_> = cleaner["args"].as_array().unwrap()[2..].to_vec();
        assert_eq!(
            args,
            [
                "--driver=s3",
                "--s3-bucket=builds",
                "--s3-prefix=team-a",
                "--s3-region=us-east-1",
                "--s3-endpoint=http://s3:9000",
                "--s3-force-path-style",
            ]
        );
        assert_eq!(cleaner["envFrom"], json!([{"secretRef": {"name": "keys"}}]));
        assert_eq!(pod.get("volumes"), None);
    }

    #[test]
    fn n_171_c_112_the_role_reaches_runs_and_events_only() {
        let store = json!({"driver": "filesystem", "filesystem": {"volumeClaimName": "a"}});
        let store = serde_json::from_value(store).unwrap();
        let made = desired("ci", &store, &Image::default());
        let resources = |rule: &PolicyRule| rule.resources.clone().unwrap().join(",");
        let rules: Vec<_> = made.role.rules.iter().flatten().map(resources).collect();
        assert_eq!(rules, ["runs", "runs/status", "events"]);
        for meta in [
            &made.account.metadata,
            &made.role.metadata,
            &made.binding.metadata,
        ] {
            assert_eq!(meta.name.as_deref(), Some(IDENTITY));
            let labels = meta.labels.as_ref().unwrap();
            assert_eq!(labels["kruntimes.io/artifact-store-hash"], "rbac");
        }
    }
}
