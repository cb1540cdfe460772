//! Reads everything a turn is decided from; most of it is in the caches.

use std::sync::{Arc, MutexGuard, PoisonError};

use k8s_openapi::api::apps::v1::ControllerRevision;
use kruntimes_core::crd::{Run, WorkflowRun};
use kruntimes_core::keys::LABEL_WORKFLOW_RUN_UID;
use kruntimes_core::names;
use kruntimes_workflow::plan::{Need, State};
use kruntimes_workflow::snapshot::{Snapshot, SnapshotError};
use kube::ResourceExt as _;
use kube::api::Api;

use super::child::observe;
use super::controller::{BY_OWNER, Error, Shell};
use crate::cache::ObjectKey;

type Decoded = std::collections::BTreeMap<String, Arc<Snapshot>>;

impl Shell {
    /// Loads one WorkflowRun with its snapshot and its direct children, and checks the picture.
    pub(super) async fn load(&self, key: &ObjectKey, object: &WorkflowRun) -> Result<State, Error> {
        let uid = object.uid().ok_or_else(|| Error::NoUid(key.clone()))?;
        let children = self.runs.by_index(BY_OWNER, &uid);
        let here = children
            .iter()
            .filter(|run| run.namespace().as_ref() == Some(&key.namespace));
        let mut state = State {
            now: self.clock.now().into(),
            namespace: key.namespace.clone(),
            name: key.name.clone(),
            generation: object.metadata.generation,
            deleting: object.metadata.deletion_timestamp.is_some(),
            annotations: object.annotations().clone(),
            spec: object.spec.clone(),
            status: object.status.clone().unwrap_or_default(),
            snapshot: None,
            children: here.map(|run| observe(run, &uid)).collect(),
            absent: std::collections::BTreeSet::default(),
            policy: self.policy.clone(),
            uid,
        };
        if !state.deleting && !state.status.phase.is_terminal() {
            state.snapshot = self.snapshot(key, &state).await?;
        }
        state.check()?;
        Ok(state)
    }

    /// Finds the snapshot with the recorded or else the derived name (W-51, W-55).
    async fn snapshot(
        &self,
        key: &ObjectKey,
        state: &State,
    ) -> Result<Option<Arc<Snapshot>>, Error> {
        if let Some(found) = self.memory().get(&state.uid) {
            return Ok(Some(Arc::clone(found)));
        }
        let recorded = state.status.snapshot_name.clone();
        let derived = || names::snapshot(&state.name, &state.uid);
        let object = ObjectKey::new(&key.namespace, recorded.clone().unwrap_or_else(derived));
        let mut found = self.revisions.get(&object);
        if found.is_none() && recorded.is_some() {
            found = self.read_revision(&object).await?;
        }
        let Some(revision) = found else {
            return Ok(None);
        };
        let name = object.to_string();
        if revision.labels().get(LABEL_WORKFLOW_RUN_UID) != Some(&state.uid) {
            return Err(SnapshotError::Foreign(name).into());
        }
        let nothing = serde_json::Value::Null;
        let data = revision.data.as_ref().map_or(&nothing, |data| &data.0);
        let snapshot = Arc::new(Snapshot::from_value(&name, data)?);
        self.memory()
            .insert(state.uid.clone(), Arc::clone(&snapshot));
        Ok(Some(snapshot))
    }

    /// Reads a snapshot past the cache.
    pub(super) async fn read_revision(
        &self,
        key: &ObjectKey,
    ) -> Result<Option<Arc<ControllerRevision>>, Error> {
        let api: Api<ControllerRevision> = Api::namespaced(self.client.clone(), &key.namespace);
        let Some(found) = api.get_opt(&key.name).await? else {
            return Ok(None);
        };
        self.revisions.written(found.clone());
        Ok(Some(Arc::new(found)))
    }

    /// Drops what was decoded for a WorkflowRun that needs it no more.
    pub(super) fn forget(&self, object: &WorkflowRun) {
        if let Some(uid) = &object.metadata.uid {
            self.memory().remove(uid);
        }
    }

    fn memory(&self) -> MutexGuard<'_, Decoded> {
        self.decoded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers what a calculation asked for, past the cache (W-82).
    pub(super) async fn confirm(
        &self,
        key: &ObjectKey,
        state: &mut State,
        needs: &[Need],
    ) -> Result<(), Error> {
        let api: Api<Run> = Api::namespaced(self.client.clone(), &key.namespace);
        for need in needs {
            let Need::ConfirmRun(name) = need else {
                continue;
            };
            let run = ObjectKey::new(&key.namespace, name);
            let known = self.runs.get(&run).and_then(|run| run.uid());
            let found = api.get_opt(name).await?;
            if let Some(run) = found {
                let labelled = run.labels().get(LABEL_WORKFLOW_RUN_UID) == Some(&state.uid);
                let seen = state.children.iter().any(|child| child.name == *name);
                if labelled && !seen {
                    state.children.push(observe(&run, &state.uid));
                    self.runs.written(run);
                    continue;
                }
            } else {
                self.runs.vanished(&run, known.as_deref());
            }
            // Gone, or no longer the child that status names.
            state.absent.insert(name.clone());
        }
        Ok(())
    }
}
