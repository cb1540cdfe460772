//! One turn of one workspace: load, calculate, apply, patch.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kruntimes_core::api::PersistentWorkspaceStatus;
use kruntimes_core::crd::PersistentWorkspace;
use kruntimes_core::keys::FINALIZER_WORKSPACE;
use kruntimes_core::workspace::{Action, Candidate, Home, State, Step, calculate, is_home};
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, Patch, PatchParams, Preconditions};
use serde_json::{Value, json};

use super::{Controller, bound_pod};
use crate::cache::ObjectKey;
use crate::chain;
use crate::patch::status_patch;
use crate::pool::BY_WORKSPACE;
use crate::queue::Outcome;
use crate::scheduler::{Names, seen};

/// Why one turn did not finish. All are repeated.
#[derive(Debug, thiserror::Error)]
enum Error {
    /// Computed from an old version. No news for anybody.
    #[error("the object has changed meanwhile")]
    Stale,
    #[error("the API refused a request")]
    Api(kube::Error),
    #[error("an object has no JSON form")]
    Json(#[from] serde_json::Error),
}

impl From<kube::Error> for Error {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) if status.is_conflict() => Self::Stale,
            other => Self::Api(other),
        }
    }
}

impl Controller {
    pub(super) async fn reconcile(&self, key: ObjectKey) -> Outcome {
        let Some(object) = self.workspaces.get(&key) else {
            return Outcome::Done;
        };
        match self.turn(&key, &object).await {
            Ok(outcome) => outcome,
            Err(Error::Stale) => Outcome::Retry,
            Err(Error::Api(kube::Error::Api(status))) if status.is_not_found() => Outcome::Done,
            Err(error) => {
                tracing::warn!(workspace = %key, error = %chain(&error), "reconcile failed, it is repeated");
                Outcome::Retry
            }
        }
    }

    async fn turn(&self, key: &ObjectKey, object: &PersistentWorkspace) -> Result<Outcome, Error> {
        let nothing = PersistentWorkspaceStatus::default();
        let status = object.status.as_ref().unwrap_or(&nothing);
        let home = self.home(object, status).await?;
        let now = self.shared.clock.now();
        let step = calculate(&State {
            namespace: &key.namespace,
            name: &key.name,
            uid: object.metadata.uid.as_deref().unwrap_or_default(),
            generation: object.metadata.generation,
            deleting: object.metadata.deletion_timestamp.is_some(),
            held: is_held(object),
            spec: &object.spec,
            status,
            binding: self.binding,
            runtime_exists: self
                .runtimes
                .get(&ObjectKey::new(&key.namespace, &object.spec.runtime))
                .is_some(),
            home: home.as_deref().map(as_home),
            candidates: self.candidates(key, object),
            used: !(self.shared.runs)
                .by_index(BY_WORKSPACE, &key.to_string())
                .is_empty(),
            now,
        });
        let acted = self.apply(key, object, step.action).await?;
        if self.patch(key, object, acted.as_ref(), &step).await? || acted.is_some() {
            // The watch does not report the controller's own write once more.
            self.queue.add(key.clone());
            return Ok(Outcome::Done);
        }
        Ok(step.again.map_or(Outcome::Done, |again| {
            Outcome::After(again.duration_since(now).unsigned_abs())
        }))
    }

    /// Finds the bound Pod; that it is gone is believed only when the API says so itself.
    async fn home(
        &self,
        object: &PersistentWorkspace,
        status: &PersistentWorkspaceStatus,
    ) -> Result<Option<Arc<Pod>>, Error> {
        let Some(key) = bound_pod(object) else {
            return Ok(None);
        };
        let known = self.shared.pods.get(&key);
        if is_home(status, known.as_deref().map(as_home)) {
            return Ok(known);
        }
        let api: Api<Pod> = Api::namespaced(self.shared.client.clone(), &key.namespace);
        Ok(api.get_opt(&key.name).await?.map(Arc::new))
    }

    /// Lists the Pods that the workspace may be bound to (N-250).
    fn candidates(&self, key: &ObjectKey, object: &PersistentWorkspace) -> Vec<Candidate> {
        if bound_pod(object).is_some() {
            return Vec::new();
        }
        let (now, names) = (self.shared.clock.now(), Names::default());
        let fits = |pod: &&Arc<Pod>| {
            let view = seen::pod(&names, pod);
            pod.namespace().as_deref() == Some(&key.namespace)
                && names.runtime_of(pod) == Some(&object.spec.runtime)
                && view.ready
                && view.heartbeat.is_fresh(now, self.heartbeat_limit)
        };
        let pods = self.shared.pods.list();
        pods.iter()
            .filter(fits)
            .map(|pod| Candidate {
                name: pod.name_any(),
                uid: pod.uid().unwrap_or_default(),
            })
            .collect()
    }

    /// Carries out what is to be done to the object itself; returns it when it was changed.
    async fn apply(
        &self,
        key: &ObjectKey,
        object: &PersistentWorkspace,
        action: Action,
    ) -> Result<Option<PersistentWorkspace>, Error> {
        let api: Api<PersistentWorkspace> =
            Api::namespaced(self.shared.client.clone(), &key.namespace);
        let others = object
            .finalizers()
            .iter()
            .filter(|name| *name != FINALIZER_WORKSPACE)
            .cloned();
        let finalizers: Vec<String> = match action {
            Action::None => return Ok(None),
            Action::Hold => others.chain([FINALIZER_WORKSPACE.to_owned()]).collect(),
            Action::LetGo => others.collect(),
            Action::Delete => {
                let params = DeleteParams {
                    preconditions: Some(Preconditions {
                        uid: object.metadata.uid.clone(),
                        resource_version: object.metadata.resource_version.clone(),
                    }),
                    ..DeleteParams::background()
                };
                // What became of it, the watch tells.
                api.delete(&key.name, &params).await?;
                return Ok(None);
            }
        };
        let patch = json!({"metadata": {
            "resourceVersion": object.metadata.resource_version,
            "finalizers": finalizers,
        }});
        let written = api
            .patch(&key.name, &PatchParams::default(), &Patch::Merge(patch))
            .await?;
        self.workspaces.written(written.clone());
        Ok(Some(written))
    }

    /// Writes the status once, only if it differs, and only onto the version it was computed from (N-260).
    async fn patch(
        &self,
        key: &ObjectKey,
        object: &PersistentWorkspace,
        acted: Option<&PersistentWorkspace>,
        step: &Step,
    ) -> Result<bool, Error> {
        let old = match &object.status {
            Some(status) => serde_json::to_value(status)?,
            None => Value::Null,
        };
        if object.status.as_ref() == Some(&step.status) {
            return Ok(false);
        }
        let new = serde_json::to_value(&step.status)?;
        let version = acted.unwrap_or(object).resource_version();
        if object.status.is_none() && step.status == PersistentWorkspaceStatus::default() {
            return Ok(false);
        }
        let Some(patch) = status_patch(version.as_deref(), &old, &new)? else {
            return Ok(false);
        };
        let api: Api<PersistentWorkspace> =
            Api::namespaced(self.shared.client.clone(), &key.namespace);
        let written = api
            .patch_status(&key.name, &PatchParams::default(), &Patch::Merge(patch))
            .await?;
        self.workspaces.written(written);
        Ok(true)
    }
}

fn is_held(object: &PersistentWorkspace) -> bool {
    object
        .finalizers()
        .iter()
        .any(|name| name == FINALIZER_WORKSPACE)
}

fn as_home(pod: &Pod) -> Home<'_> {
    Home {
        uid: pod.metadata.uid.as_deref().unwrap_or_default(),
        deleting: pod.metadata.deletion_timestamp.is_some(),
    }
}
