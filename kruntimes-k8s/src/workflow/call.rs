//! Child WorkflowRuns: created, adopted, asked to cancel.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kruntimes_core::crd::WorkflowRun;
use kruntimes_workflow::plan::{Outcome, StartCall, State, Verdict, judge_call};
use kube::ResourceExt as _;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;

use super::apply::{adoption, never_fits};
use super::child;
use super::controller::{Error, Shell};
use crate::cache::ObjectKey;

impl Shell {
    /// Makes this WorkflowRun the controller of a child that has none (W-46).
    pub(super) async fn adopt_call(
        &self,
        key: &ObjectKey,
        child: &WorkflowRun,
        owner: &OwnerReference,
    ) -> Result<(), Error> {
        let patch = adoption(&child.metadata, owner);
        let params = PatchParams::default();
        let api = self.workflow_run_api(key);
        let adopted = api.patch(&child.name_any(), &params, &patch).await?;
        self.noted(self.workflow_runs.written(adopted).as_ref());
        Ok(())
    }

    /// Creates the child WorkflowRun of a call, or takes the one that is there.
    pub(super) async fn call(
        &self,
        key: &ObjectKey,
        state: &State,
        target: &StartCall,
        owner: &OwnerReference,
    ) -> Result<Outcome, Error> {
        let child = child::workflow_run(&key.namespace, target, owner);
        let api = self.workflow_run_api(key);
        match api.create(&PostParams::default(), &child).await {
            Ok(created) => {
                self.noted(self.workflow_runs.written(created).as_ref());
                Ok(called(target))
            }
            Err(kube::Error::Api(status)) if status.is_already_exists() => {
                self.reuse_call(key, state, target, owner).await
            }
            Err(kube::Error::Api(status)) if never_fits(&status) => Ok(Outcome::InvalidCall {
                job: target.job.clone(),
                name: target.name.clone(),
                cause: status.message.clone(),
            }),
            Err(error) => Err(error.into()),
        }
    }

    async fn reuse_call(
        &self,
        key: &ObjectKey,
        state: &State,
        target: &StartCall,
        owner: &OwnerReference,
    ) -> Result<Outcome, Error> {
        let name = ObjectKey::new(&key.namespace, &target.name);
        let Some(found) = self.workflow_run_api(key).get_opt(&target.name).await? else {
            return Err(Error::NameTaken(name));
        };
        match judge_call(state, target, &child::existing(&found.metadata)) {
            Verdict::Use => {}
            Verdict::Adopt => self.adopt_call(key, &found, owner).await?,
            Verdict::Retry => return Err(Error::NameTaken(name)),
            Verdict::Foreign => {
                return Ok(Outcome::ForeignCall {
                    job: target.job.clone(),
                    child: name.to_string(),
                    owner: key.to_string(),
                });
            }
        }
        self.noted(self.workflow_runs.written(found).as_ref());
        Ok(called(target))
    }

    /// Asks one child WorkflowRun to cancel; its own turn asks its children (W-88).
    pub(super) async fn cancel_call(&self, key: &ObjectKey, name: &str) -> Result<(), Error> {
        let patch = Patch::Merge(json!({"spec": {"cancelRequested": true}}));
        let child = ObjectKey::new(&key.namespace, name);
        let known = self.workflow_runs.get(&child).and_then(|child| child.uid());
        let api = self.workflow_run_api(key);
        match api.patch(name, &PatchParams::default(), &patch).await {
            Ok(asked) => {
                self.noted(self.workflow_runs.written(asked).as_ref());
                Ok(())
            }
            Err(kube::Error::Api(status)) if status.is_not_found() => {
                self.noted(
                    self.workflow_runs
                        .vanished(&child, known.as_deref())
                        .as_ref(),
                );
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }
}

fn called(target: &StartCall) -> Outcome {
    Outcome::Called {
        job: target.job.clone(),
        name: target.name.clone(),
    }
}
