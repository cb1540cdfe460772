//! Workspaces of jobs: there before the first Run that needs them (W-123).

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kruntimes_workflow::plan::{
    EnsureWorkspace, Outcome, StartStep, State, Verdict, judge_workspace,
};
use kube::api::{PatchParams, PostParams};

use super::apply::{adoption, never_fits};
use super::child;
use super::controller::{Error, Shell};
use crate::cache::ObjectKey;

impl Shell {
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
        let workspace = child::workspace(&key.namespace, wanted, owner);
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
