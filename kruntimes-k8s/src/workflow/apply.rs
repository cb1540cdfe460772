//! Carries out the one action of a turn. It makes no choices.

use futures::future::{join_all, try_join_all};
use futures::{join, try_join};
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kruntimes_core::crd::{PersistentWorkspace, Run, WorkflowRun};
use kruntimes_workflow::plan::{
    Action, ChildNames, Initialize, Outcome, StartStep, State, Verdict, judge,
};
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::core::Status;
use kube::{Resource as _, ResourceExt as _};
use serde_json::{Value, json};

use super::child;
use super::controller::{Error, Shell};
use crate::cache::ObjectKey;

/// HTTP status of a request whose body is too large.
const TOO_LARGE: u16 = 413;

impl Shell {
    /// Makes this WorkflowRun the controller of children that have none (W-46).
    pub(super) async fn adopt(
        &self,
        key: &ObjectKey,
        object: &WorkflowRun,
        names: &ChildNames,
    ) -> Result<(), Error> {
        let owner = owner(key, object)?;
        let runs = names.runs.iter().map(async |name| {
            let run = ObjectKey::new(&key.namespace, name);
            match self.runs.get(&run) {
                Some(run) => self.adopt_run(key, &run, &owner).await,
                None => Err(Error::NameTaken(run)),
            }
        });
        let calls = names.workflow_runs.iter().map(async |name| {
            let child = ObjectKey::new(&key.namespace, name);
            match self.workflow_runs.get(&child) {
                Some(child) => self.adopt_call(key, &child, &owner).await,
                None => Err(Error::NameTaken(child)),
            }
        });
        try_join!(try_join_all(runs), try_join_all(calls))?;
        Ok(())
    }

    async fn adopt_run(
        &self,
        key: &ObjectKey,
        run: &Run,
        owner: &OwnerReference,
    ) -> Result<(), Error> {
        let patch = adoption(&run.metadata, owner);
        let params = PatchParams::default();
        let api = self.run_api(key);
        let adopted = api.patch(&run.name_any(), &params, &patch).await?;
        self.runs.written(adopted);
        Ok(())
    }

    /// Performs an action; an error means that nothing may be patched (W-61).
    pub(super) async fn apply(
        &self,
        key: &ObjectKey,
        object: &WorkflowRun,
        state: &State,
        action: Action,
    ) -> Result<Vec<Outcome>, Error> {
        match action {
            Action::Initialize(target) => {
                self.freeze(key, object, &target).await?;
                Ok(Vec::new())
            }
            Action::StartRunnableSteps(targets) => {
                let owner = owner(key, object)?;
                let steps = targets.steps.iter();
                let steps = steps.map(|target| self.start(key, state, target, &owner));
                let calls = targets.calls.iter();
                let calls = calls.map(|target| self.call(key, state, target, &owner));
                // Every target is tried, so that one failure leaves the others created.
                let (steps, calls) = join!(join_all(steps), join_all(calls));
                steps.into_iter().chain(calls).collect()
            }
            Action::CancelItself { replaced_by } => {
                self.cancel_itself(key, &replaced_by).await?;
                Ok(Vec::new())
            }
            Action::RequestChildCancellation(names) => {
                let runs = names.runs.iter().map(|name| self.cancel(key, name));
                let calls = names.workflow_runs.iter();
                let calls = calls.map(|name| self.cancel_call(key, name));
                let (runs, calls) = join!(join_all(runs), join_all(calls));
                let asked = runs.into_iter().chain(calls);
                asked.collect::<Result<(), _>>()?;
                Ok(Vec::new())
            }
            // `Action` may grow; a controller of this version is never given another one.
            _ => Ok(Vec::new()),
        }
    }

    async fn freeze(
        &self,
        key: &ObjectKey,
        object: &WorkflowRun,
        target: &Initialize,
    ) -> Result<(), Error> {
        let Some(snapshot) = &target.snapshot else {
            return Ok(());
        };
        let owner = owner(key, object)?;
        let revision = child::revision(&key.namespace, target, snapshot, &owner);
        let api: Api<ControllerRevision> = Api::namespaced(self.client.clone(), &key.namespace);
        match api.create(&PostParams::default(), &revision).await {
            Ok(created) => {
                self.revisions.written(created);
                Ok(())
            }
            // Written before a crash, or by another instance: the next turn continues from it (W-55).
            Err(kube::Error::Api(status)) if status.is_already_exists() => {
                let taken = ObjectKey::new(&key.namespace, &target.name);
                self.read_revision(&taken).await?;
                Err(Error::NameTaken(taken))
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn start(
        &self,
        key: &ObjectKey,
        state: &State,
        target: &StartStep,
        owner: &OwnerReference,
    ) -> Result<Outcome, Error> {
        if let Some(workspace) = &target.workspace
            && let Some(refused) = self.share(key, state, target, workspace, owner).await?
        {
            return Ok(refused);
        }
        let run = child::run(&key.namespace, target, owner);
        match self.run_api(key).create(&PostParams::default(), &run).await {
            Ok(created) => {
                self.runs.written(created);
                Ok(started(target))
            }
            Err(kube::Error::Api(status)) if status.is_already_exists() => {
                self.reuse(key, state, target, owner).await
            }
            Err(kube::Error::Api(status)) if never_fits(&status) => Ok(Outcome::Invalid {
                key: target.key.clone(),
                name: target.name.clone(),
                cause: status.message.clone(),
            }),
            Err(error) => Err(error.into()),
        }
    }

    /// Reads the object whose name is taken and does what is judged about it (W-49).
    async fn reuse(
        &self,
        key: &ObjectKey,
        state: &State,
        target: &StartStep,
        owner: &OwnerReference,
    ) -> Result<Outcome, Error> {
        let name = ObjectKey::new(&key.namespace, &target.name);
        let Some(found) = self.run_api(key).get_opt(&target.name).await? else {
            return Err(Error::NameTaken(name));
        };
        match judge(state, target, &child::existing(&found.metadata)) {
            Verdict::Use => {}
            Verdict::Adopt => self.adopt_run(key, &found, owner).await?,
            Verdict::Retry => return Err(Error::NameTaken(name)),
            Verdict::Foreign => {
                return Ok(Outcome::Foreign {
                    key: target.key.clone(),
                    run: name.to_string(),
                    owner: key.to_string(),
                });
            }
        }
        self.runs.written(found);
        Ok(started(target))
    }

    /// Asks one Run to cancel: one field, and no version, so that a busy status writer cannot win (W-88).
    async fn cancel(&self, key: &ObjectKey, name: &str) -> Result<(), Error> {
        let patch = Patch::Merge(json!({"spec": {"cancelRequested": true}}));
        let run = ObjectKey::new(&key.namespace, name);
        let known = self.runs.get(&run).and_then(|run| run.uid());
        match self
            .run_api(key)
            .patch(name, &PatchParams::default(), &patch)
            .await
        {
            Ok(asked) => {
                self.runs.written(asked);
                Ok(())
            }
            Err(kube::Error::Api(status)) if status.is_not_found() => {
                self.runs.vanished(&run, known.as_deref());
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    pub(super) fn run_api(&self, key: &ObjectKey) -> Api<Run> {
        Api::namespaced(self.client.clone(), &key.namespace)
    }

    pub(super) fn workspace_api(&self, key: &ObjectKey) -> Api<PersistentWorkspace> {
        Api::namespaced(self.client.clone(), &key.namespace)
    }

    pub(super) fn workflow_run_api(&self, key: &ObjectKey) -> Api<WorkflowRun> {
        Api::namespaced(self.client.clone(), &key.namespace)
    }
}

/// The patch that adds an owner to the version of the object that was seen.
pub(super) fn adoption(meta: &ObjectMeta, owner: &OwnerReference) -> Patch<Value> {
    let mut owners = meta.owner_references.clone().unwrap_or_default();
    owners.push(owner.clone());
    Patch::Merge(json!({"metadata": {
        "resourceVersion": meta.resource_version,
        "ownerReferences": owners,
    }}))
}

/// Tells whether the same object would be refused again and again: it is invalid, or too large (W-40).
pub(super) fn never_fits(status: &Status) -> bool {
    status.is_invalid() || status.code == TOO_LARGE
}

fn started(target: &StartStep) -> Outcome {
    Outcome::Started {
        key: target.key.clone(),
        name: target.name.clone(),
    }
}

/// Makes the reference of every child to its WorkflowRun (W-45).
fn owner(key: &ObjectKey, object: &WorkflowRun) -> Result<OwnerReference, Error> {
    let owner = object.controller_owner_ref(&());
    let owner = owner.ok_or_else(|| Error::NoUid(key.clone()))?;
    Ok(OwnerReference {
        block_owner_deletion: Some(true),
        ..owner
    })
}
