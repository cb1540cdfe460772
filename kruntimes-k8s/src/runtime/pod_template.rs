//! The Pod template of a Runtime: the user's template, completed.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Capabilities, Container, ContainerPort, EmptyDirVolumeSource, EnvVar, EnvVarSource,
    HTTPGetAction, ObjectFieldSelector, PodSpec, PodTemplateSpec, Probe, ProjectedVolumeSource,
    ResourceRequirements, SeccompProfile, SecurityContext, TCPSocketAction, Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kruntimes_core::api::RuntimeSpec;
use kube::core::ObjectMeta;
use serde_json::{Value, json};

use super::artifact_store;
use super::deployment::{Defaults, Error, workers};

const RUNTIME: &str = "runtime";
const RUNTIMED: &str = "runtimed";
const WORKSPACE: &str = "workspace";
const TOKEN: &str = "runtimed-token";
const TMP: &str = "tmp";
const TOKEN_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const DEFAULT_PORT: i32 = 9091;

/// Builds the template; `labels` and `capacity` win over the user's on conflict.
pub(super) fn build(
    name: &str,
    spec: &RuntimeSpec,
    labels: BTreeMap<String, String>,
    capacity: BTreeMap<String, String>,
    defaults: &Defaults,
) -> Result<PodTemplateSpec, Error> {
    let mut pod = user_pod(spec)?;
    let port = spec.port.unwrap_or(DEFAULT_PORT);
    pod.containers
        .retain(|container| container.name != RUNTIMED);
    for container in pod
        .containers
        .iter_mut()
        .chain(pod.init_containers.iter_mut().flatten())
    {
        if let Some(mounts) = &mut container.volume_mounts {
            mounts.retain(|mount| mount.name != artifact_store::VOLUME);
        }
        canonicalize(container);
    }
    let mounts_tmp = complete_runtime(&mut pod.containers[0], port);
    pod.containers.push(daemon(name, spec, port, defaults));
    complete_volumes(&mut pod, spec, mounts_tmp)?;
    if let Some(store) = &spec.artifact_store {
        artifact_store::secure(&mut pod, store);
    }
    pod.service_account_name
        .get_or_insert_with(|| defaults.service_account.clone());
    // The daemon gets its token from a projected volume; the workload gets none (N-241).
    pod.automount_service_account_token.get_or_insert(false);
    let user = spec.template.metadata.clone().unwrap_or_default();
    let mut all_labels = user.labels;
    all_labels.extend(labels);
    let mut annotations = user.annotations;
    annotations.extend(capacity);
    Ok(PodTemplateSpec {
        metadata: Some(ObjectMeta {
            labels: Some(all_labels),
            annotations: (!annotations.is_empty()).then_some(annotations),
            ..ObjectMeta::default()
        }),
        spec: Some(pod),
    })
}

/// Reads the user's Pod spec; its first container must be named `runtime` (N-236).
fn user_pod(spec: &RuntimeSpec) -> Result<PodSpec, Error> {
    let refused = |problem: &str| Error::Template(problem.to_owned());
    let written = spec
        .template
        .spec
        .clone()
        .ok_or_else(|| refused("it is missing"))?;
    let pod: PodSpec = serde_json::from_value(Value::Object(written))
        .map_err(|error| Error::Template(error.to_string()))?;
    match pod.containers.first() {
        Some(first) if first.name == RUNTIME => Ok(pod),
        Some(_) => Err(refused("the first container must be named runtime")),
        None => Err(refused("containers must not be empty")),
    }
}

/// Completes the user's `runtime` container; tells whether `/tmp` needs a volume.
fn complete_runtime(container: &mut Container, port: i32) -> bool {
    let ports = container.ports.get_or_insert_default();
    ports.retain(|p| p.name.as_deref() != Some("grpc"));
    ports.push(named_port("grpc", port));
    let probe = |delay, period| Probe {
        tcp_socket: Some(TCPSocketAction {
            port: IntOrString::Int(port),
            ..TCPSocketAction::default()
        }),
        initial_delay_seconds: Some(delay),
        period_seconds: Some(period),
        ..Probe::default()
    };
    container.liveness_probe.get_or_insert_with(|| probe(5, 10));
    container.readiness_probe.get_or_insert_with(|| probe(1, 5));
    let resources = container.resources.get_or_insert_default();
    resources
        .requests
        .get_or_insert_with(|| amounts("250m", "256Mi"));
    resources.limits.get_or_insert_with(|| amounts("2", "2Gi"));
    container.security_context.get_or_insert_with(restricted);
    let mounts = container.volume_mounts.get_or_insert_default();
    mounts.retain(|m| m.name != WORKSPACE && m.mount_path != "/workspace");
    mounts.push(mount(WORKSPACE, "/workspace"));
    let needs_tmp = !mounts.iter().any(|m| m.mount_path == "/tmp");
    if needs_tmp {
        mounts.push(mount(TMP, "/tmp"));
    }
    needs_tmp
}

/// Writes amounts as the API server stores them, so that an unchanged template makes no difference.
fn canonicalize(container: &mut Container) {
    let resources = container.resources.iter_mut();
    for amount in resources
        .flat_map(|r| [r.requests.as_mut(), r.limits.as_mut()])
        .flatten()
        .flat_map(BTreeMap::values_mut)
    {
        if let Ok(exact) = amount.0.parse::<kruntimes_core::quantity::Quantity>() {
            amount.0 = exact.to_string();
        }
    }
}

fn mount(name: &str, path: &str) -> VolumeMount {
    VolumeMount {
        name: name.to_owned(),
        mount_path: path.to_owned(),
        ..VolumeMount::default()
    }
}

pub(crate) fn amounts(cpu: &str, memory: &str) -> BTreeMap<String, Quantity> {
    BTreeMap::from([
        ("cpu".to_owned(), Quantity(cpu.to_owned())),
        ("memory".to_owned(), Quantity(memory.to_owned())),
    ])
}

pub(crate) fn restricted() -> SecurityContext {
    SecurityContext {
        read_only_root_filesystem: Some(true),
        run_as_non_root: Some(true),
        allow_privilege_escalation: Some(false),
        capabilities: Some(Capabilities {
            drop: Some(vec!["ALL".to_owned()]),
            ..Capabilities::default()
        }),
        seccomp_profile: Some(SeccompProfile {
            type_: "RuntimeDefault".to_owned(),
            ..SeccompProfile::default()
        }),
        ..SecurityContext::default()
    }
}

fn named_port(name: &str, port: i32) -> ContainerPort {
    ContainerPort {
        name: Some(name.to_owned()),
        container_port: port,
        protocol: Some("TCP".to_owned()),
        ..ContainerPort::default()
    }
}

/// A variable read from a field of the Pod.
fn field(name: &str, path: &str) -> EnvVar {
    EnvVar {
        name: name.to_owned(),
        value_from: Some(EnvVarSource {
            field_ref: Some(ObjectFieldSelector {
                field_path: path.to_owned(),
                ..ObjectFieldSelector::default()
            }),
            ..EnvVarSource::default()
        }),
        ..EnvVar::default()
    }
}

fn daemon(name: &str, spec: &RuntimeSpec, port: i32, defaults: &Defaults) -> Container {
    let probe = |path: &str| Probe {
        http_get: Some(HTTPGetAction {
            path: Some(path.to_owned()),
            port: IntOrString::String("health".to_owned()),
            ..HTTPGetAction::default()
        }),
        ..Probe::default()
    };
    let store = spec.artifact_store.as_ref();
    let mut args = vec![
        format!("--runtime-endpoint=127.0.0.1:{port}"),
        "--status-addr=:9093".to_owned(),
        format!("--runtime-name={name}"),
        format!("--workers={}", workers(spec)),
    ];
    args.extend(store.into_iter().flat_map(artifact_store::daemon_args));
    let mut mounts = vec![mount(WORKSPACE, "/workspace"), mount(TOKEN, TOKEN_PATH)];
    mounts.extend(store.and_then(artifact_store::mount));
    Container {
        name: RUNTIMED.to_owned(),
        image: Some(
            spec.daemon_image
                .clone()
                .unwrap_or_else(|| defaults.daemon_image.clone()),
        ),
        image_pull_policy: Some("IfNotPresent".to_owned()),
        args: Some(args),
        env_from: store.and_then(artifact_store::credentials),
        env: Some(vec![
            field("HOSTNAME", "metadata.name"),
            field("POD_NAME", "metadata.name"),
            field("POD_NAMESPACE", "metadata.namespace"),
            field("POD_UID", "metadata.uid"),
        ]),
        ports: Some(vec![
            named_port("session-runtime", 9093),
            named_port("health", 9094),
        ]),
        liveness_probe: Some(probe("/healthz")),
        readiness_probe: Some(probe("/readyz")),
        resources: Some(ResourceRequirements {
            requests: Some(amounts("100m", "128Mi")),
            limits: Some(amounts("500m", "256Mi")),
            ..ResourceRequirements::default()
        }),
        security_context: Some(restricted()),
        volume_mounts: Some(mounts),
        ..Container::default()
    }
}

fn complete_volumes(pod: &mut PodSpec, spec: &RuntimeSpec, tmp: bool) -> Result<(), Error> {
    let volumes = pod.volumes.get_or_insert_default();
    volumes.retain(|v| ![WORKSPACE, artifact_store::VOLUME, TOKEN].contains(&v.name.as_str()));
    volumes.push(workspace_volume(spec)?);
    volumes.extend(
        spec.artifact_store
            .as_ref()
            .and_then(artifact_store::volume),
    );
    volumes.push(Volume {
        name: TOKEN.to_owned(),
        projected: Some(token_projection()),
        ..Volume::default()
    });
    if tmp && !volumes.iter().any(|v| v.name == TMP) {
        volumes.push(Volume {
            name: TMP.to_owned(),
            empty_dir: Some(EmptyDirVolumeSource::default()),
            ..Volume::default()
        });
    }
    Ok(())
}

fn workspace_volume(spec: &RuntimeSpec) -> Result<Volume, Error> {
    let mut written = spec.workspace.clone().unwrap_or_default().0;
    if written.is_empty() {
        written.insert("emptyDir".to_owned(), json!({}));
    }
    written.insert("name".to_owned(), json!(WORKSPACE));
    serde_json::from_value(Value::Object(written)).map_err(|e| Error::Workspace(e.to_string()))
}

/// The token, trust bundle and namespace that a client in the Pod expects.
fn token_projection() -> ProjectedVolumeSource {
    let sources = json!({
        "defaultMode": 420,
        "sources": [
            {"serviceAccountToken": {"path": "token", "expirationSeconds": 3600}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]}},
        ],
    });
    serde_json::from_value(sources).expect("the projection is a constant of the right shape")
}
