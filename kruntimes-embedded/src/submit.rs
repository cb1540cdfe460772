//! Handing objects to the engine.

use kruntimes_core::api::{API_VERSION, GROUP, VERSION};
use kruntimes_core::crd::Runtime;
use kube::api::{Api, DynamicObject, PostParams};
#[cfg(feature = "testing")]
use kube::api::{Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};

use crate::progress::{Target, TargetKind};

/// Namespace of everything that runs locally.
pub const NAMESPACE: &str = "default";

/// Objects to create, in order of creation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Submission {
    /// Runtimes.
    pub runtimes: Vec<Value>,
    /// Workflows, Actions and PersistentWorkspaces.
    pub definitions: Vec<Value>,
    /// WorkflowRuns and Runs, which can be followed.
    pub targets: Vec<Value>,
}

/// Why a submission was not taken.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SubmitError {
    /// An object has no known kind.
    #[error("{0} is no kind of {API_VERSION}")]
    UnknownKind(String),
    /// An object is not shaped like one.
    #[error("{kind} cannot be read")]
    Shape {
        /// Kind of the object.
        kind: String,
        /// Why not.
        source: serde_json::Error,
    },
    /// The API refused an object.
    #[error("{kind} {name} was refused")]
    Refused {
        /// Kind of the object.
        kind: String,
        /// Name of the object.
        name: String,
        /// The answer.
        source: Box<kube::Error>,
    },
}

/// The kinds of kruntimes and their plurals.
const KINDS: &[(&str, &str)] = &[
    ("Run", "runs"),
    ("Runtime", "runtimes"),
    ("Workflow", "workflows"),
    ("WorkflowRun", "workflowruns"),
    ("Action", "actions"),
    ("PersistentWorkspace", "persistentworkspaces"),
];

/// Creates what targets need, a `bash` Runtime included when none is brought; returns the targets.
pub(crate) async fn provide(
    client: &Client,
    submission: Submission,
    slots: u32,
) -> Result<Vec<Value>, SubmitError> {
    for runtime in submission.runtimes {
        create(client, runtime).await?;
    }
    provide_bash(client, slots).await?;
    for definition in submission.definitions {
        create(client, definition).await?;
    }
    Ok(submission.targets)
}

/// Creates a target.
pub(crate) async fn target(client: &Client, object: Value) -> Result<Target, SubmitError> {
    let kind = match object["kind"].as_str() {
        Some("Run") => TargetKind::Run,
        _ => TargetKind::WorkflowRun,
    };
    let created = create(client, object).await?;
    Ok(Target {
        kind,
        namespace: created.namespace().unwrap_or_default(),
        name: created.name_any(),
        uid: created.uid().unwrap_or_default(),
    })
}

/// The Runtime that local runs get when they bring none.
pub fn bash_runtime(slots: u32) -> Value {
    json!({
        "apiVersion": API_VERSION,
        "kind": "Runtime",
        "metadata": {"name": "bash", "namespace": NAMESPACE},
        "spec": {
            "replicas": 1,
            "capacity": {"resources": {"runs": slots.to_string()}},
            "template": {"spec": {"containers": [{"name": "runtime", "image": "bash"}]}},
        },
    })
}

/// Creates the `bash` Runtime unless there is one.
pub(crate) async fn provide_bash(client: &Client, slots: u32) -> Result<(), SubmitError> {
    let api: Api<Runtime> = Api::namespaced(client.clone(), NAMESPACE);
    let refused = |source| SubmitError::Refused {
        kind: "Runtime".to_owned(),
        name: "bash".to_owned(),
        source: Box::new(source),
    };
    if api.get_opt("bash").await.map_err(refused)?.is_none() {
        create(client, bash_runtime(slots)).await?;
    }
    Ok(())
}

fn api(client: &Client, kind: &str, namespace: &str) -> Result<Api<DynamicObject>, SubmitError> {
    let Some((_, plural)) = KINDS.iter().find(|(known, _)| *known == kind) else {
        return Err(SubmitError::UnknownKind(kind.to_owned()));
    };
    let gvk = GroupVersionKind::gvk(GROUP, VERSION, kind);
    let resource = ApiResource::from_gvk_with_plural(&gvk, plural);
    Ok(Api::namespaced_with(client.clone(), namespace, &resource))
}

/// Creates one object of a known kind.
pub(crate) async fn create(client: &Client, object: Value) -> Result<DynamicObject, SubmitError> {
    let kind = object["kind"].as_str().unwrap_or_default().to_owned();
    let mut object: DynamicObject =
        serde_json::from_value(object).map_err(|source| SubmitError::Shape {
            kind: kind.clone(),
            source,
        })?;
    let namespace = object.namespace().unwrap_or_else(|| NAMESPACE.to_owned());
    object.metadata.namespace = Some(namespace.clone());
    let api = api(client, &kind, &namespace)?;
    let created = api.create(&PostParams::default(), &object).await;
    created.map_err(|source| SubmitError::Refused {
        kind,
        name: object.name_any(),
        source: Box::new(source),
    })
}

/// Patches one object of a known kind.
#[cfg(feature = "testing")]
pub(crate) async fn patch(
    client: &Client,
    kind: &str,
    name: &str,
    patch: Value,
) -> Result<(), SubmitError> {
    let api = api(client, kind, NAMESPACE)?;
    let patch = Patch::Merge(patch);
    let patched = api.patch(name, &PatchParams::default(), &patch).await;
    patched.map(drop).map_err(|source| SubmitError::Refused {
        kind: kind.to_owned(),
        name: name.to_owned(),
        source: Box::new(source),
    })
}
