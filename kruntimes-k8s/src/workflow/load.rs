//! Reads everything a turn is decided from; most of it is in the caches.

use std::collections::BTreeSet;
use std::sync::{Arc, MutexGuard, PoisonError};

use k8s_openapi::api::apps::v1::ControllerRevision;
use kruntimes_core::crd::{Action as ActionObject, Workflow, WorkflowRun};
use kruntimes_core::keys::LABEL_WORKFLOW_RUN_UID;
use kruntimes_core::names;
use kruntimes_workflow::definitions::Definitions;
use kruntimes_workflow::plan::{Called, Need, State, Workspace};
use kruntimes_workflow::snapshot::{Snapshot, SnapshotError};
use kube::ResourceExt as _;
use kube::api::Api;

use super::child::{observe, observe_call, observe_workspace};
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
            calls: self.calls(key, &uid),
            workspaces: self.workspaces_of(key, &uid),
            absent: BTreeSet::new(),
            absent_workspaces: BTreeSet::new(),
            absent_calls: BTreeSet::new(),
            definitions: Definitions::default(),
            policy: self.policy.clone(),
            created: super::group::created(object),
            rivals: self.rivals(object),
            decisions: std::collections::BTreeMap::new(),
            uid,
        };
        if !state.deleting && !state.status.phase.is_terminal() {
            state.snapshot = self.snapshot(key, &state).await?;
        }
        state.check()?;
        Ok(state)
    }

    fn calls(&self, key: &ObjectKey, uid: &str) -> Vec<Called> {
        let children = self.workflow_runs.by_index(BY_OWNER, uid);
        let here = children
            .iter()
            .filter(|child| child.namespace().as_ref() == Some(&key.namespace));
        here.map(|child| observe_call(child, uid)).collect()
    }

    fn workspaces_of(&self, key: &ObjectKey, uid: &str) -> Vec<Workspace> {
        let found = self.workspaces.by_index(BY_OWNER, uid);
        let here = found
            .iter()
            .filter(|found| found.namespace().as_ref() == Some(&key.namespace));
        here.map(|found| observe_workspace(found)).collect()
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

    /// Answers what a calculation asked for, past the cache (W-17, W-82).
    pub(super) async fn supply(
        &self,
        key: &ObjectKey,
        state: &mut State,
        needs: Vec<Need>,
    ) -> Result<(), Error> {
        for need in needs {
            match need {
                Need::ConfirmRun(name) => self.confirm_run(key, state, name).await?,
                Need::ConfirmWorkflowRun(name) => {
                    self.confirm_workflow_run(key, state, name).await?;
                }
                Need::ConfirmWorkspace(name) => {
                    match self.workspace_api(key).get_opt(&name).await? {
                        Some(found) => {
                            state.workspaces.push(observe_workspace(&found));
                            self.workspaces.written(found);
                        }
                        None => {
                            state.absent_workspaces.insert(name);
                        }
                    }
                }
                Need::Action(name) => {
                    let api: Api<ActionObject> =
                        Api::namespaced(self.client.clone(), &key.namespace);
                    let found = api.get_opt(&name).await?;
                    let spec = found.map(|action| Arc::new(action.spec));
                    state.definitions.actions.insert(name, spec);
                }
                Need::Workflow(name) => {
                    let api: Api<Workflow> = Api::namespaced(self.client.clone(), &key.namespace);
                    let found = api.get_opt(&name).await?;
                    let spec = found.map(|workflow| Arc::new(workflow.spec));
                    state.definitions.workflows.insert(name, spec);
                }
                // `Need` may grow; a controller of this version is never asked anything else.
                _ => {}
            }
        }
        Ok(())
    }

    async fn confirm_run(
        &self,
        key: &ObjectKey,
        state: &mut State,
        name: String,
    ) -> Result<(), Error> {
        let run = ObjectKey::new(&key.namespace, &name);
        let known = self.runs.get(&run).and_then(|run| run.uid());
        let found = self.run_api(key).get_opt(&name).await?;
        if let Some(run) = found {
            let labelled = run.labels().get(LABEL_WORKFLOW_RUN_UID) == Some(&state.uid);
            let seen = state.children.iter().any(|child| child.name == *name);
            if labelled && !seen {
                state.children.push(observe(&run, &state.uid));
                self.runs.written(run);
                return Ok(());
            }
        } else {
            self.runs.vanished(&run, known.as_deref());
        }
        // Gone, or no longer the child that status names.
        state.absent.insert(name);
        Ok(())
    }

    async fn confirm_workflow_run(
        &self,
        key: &ObjectKey,
        state: &mut State,
        name: String,
    ) -> Result<(), Error> {
        let child = ObjectKey::new(&key.namespace, &name);
        let known = self.workflow_runs.get(&child).and_then(|child| child.uid());
        let found = self.workflow_run_api(key).get_opt(&name).await?;
        if let Some(child) = found {
            let labelled = child.labels().get(LABEL_WORKFLOW_RUN_UID) == Some(&state.uid);
            let seen = state.calls.iter().any(|child| child.name == *name);
            if labelled && !seen {
                state.calls.push(observe_call(&child, &state.uid));
                self.noted(self.workflow_runs.written(child).as_ref());
                return Ok(());
            }
        } else {
            self.noted(
                self.workflow_runs
                    .vanished(&child, known.as_deref())
                    .as_ref(),
            );
        }
        state.absent_calls.insert(name);
        Ok(())
    }
}
