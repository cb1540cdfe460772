//! Workspaces of jobs: there before the first Run that needs them (W-123).

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kruntimes_core::api::WorkflowRunStatus;
use kruntimes_core::keys::LABEL_WORKFLOW_RUN_UID;
use kruntimes_core::names::job_workspace;
use kruntimes_workflow::plan::{
    EnsureWorkspace, Outcome, StartStep, State, Verdict, judge_workspace,
};
use kube::ResourceExt as _;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;

use super::apply::{adoption, never_fits};
use super::child;
use super::controller::{Error, Shell};
use crate::cache::ObjectKey;

impl Shell {
    /// Starts the clock of workspaces whose jobs are settled, where the operator wants one (W-124).
    ///
    /// A turn that is lost in between is made up for by the next one.
    pub(super) async fn expire(
        &self,
        key: &ObjectKey,
        state: &State,
        desired: &WorkflowRunStatus,
    ) -> Result<(), Error> {
        let Some(seconds) = self.shared.ttl_seconds else {
            return Ok(());
        };
        let jobs = desired.jobs.iter().flatten();
        for (job, _) in jobs.filter(|(_, job)| job.phase.is_settled()) {
            let name = job_workspace(&state.name, job);
            let workspace = ObjectKey::new(&key.namespace, &name);
            let found = self.workspaces.get(&workspace);
            let Some(found) = found.filter(|found| found.spec.ttl_seconds_after_unused.is_none())
            else {
                continue;
            };
            let labelled = found.labels().get(LABEL_WORKFLOW_RUN_UID) == Some(&state.uid);
            if !labelled || found.metadata.deletion_timestamp.is_some() {
                continue;
            }
            let patch = Patch::Merge(json!({"spec": {"ttlSecondsAfterUnused": seconds}}));
            let api = self.workspace_api(key);
            match api.patch(&name, &PatchParams::default(), &patch).await {
                Ok(patched) => {
                    self.workspaces.written(patched);
                }
                Err(kube::Error::Api(status)) if status.is_not_found() => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Creates the workspace of a job, or takes the one that is there; an outcome ends the start.
    pub(super) async fn share(
        &self,
        key: &ObjectKey,
        state: &State,
        target: &StartStep,
        wanted: &EnsureWorkspace,
        owner: &OwnerReference,
    ) -> Result<Option<Outcome>, Error> {
        let api = self.workspace_api(key);
        let workspace = child::workspace(&key.namespace, wanted, self.shared, owner);
        let found = match api.create(&PostParams::default(), &workspace).await {
            Ok(created) => {
                self.workspaces.written(created);
                return Ok(None);
            }
            Err(kube::Error::Api(status)) if status.is_already_exists() => {
                api.get_opt(&wanted.name).await?
            }
            Err(kube::Error::Api(status)) if never_fits(&status) => {
                return Ok(Some(Outcome::Invalid {
                    key: target.key.clone(),
                    name: target.name.clone(),
                    cause: status.message.clone(),
                }));
            }
            Err(error) => return Err(error.into()),
        };
        let name = ObjectKey::new(&key.namespace, &wanted.name);
        let Some(found) = found else {
            return Err(Error::NameTaken(name));
        };
        match judge_workspace(state, wanted, &child::existing(&found.metadata)) {
            Verdict::Use => {
                self.workspaces.written(found);
            }
            Verdict::Adopt => {
                let patch = adoption(&found.metadata, owner);
                let params = PatchParams::default();
                let adopted = api.patch(&wanted.name, &params, &patch).await?;
                self.workspaces.written(adopted);
            }
            Verdict::Retry => return Err(Error::NameTaken(name)),
            Verdict::Foreign => {
                return Ok(Some(Outcome::ForeignWorkspace {
                    key: target.key.clone(),
                    workspace: name.to_string(),
                    owner: key.to_string(),
                }));
            }
        }
        Ok(None)
    }
}
