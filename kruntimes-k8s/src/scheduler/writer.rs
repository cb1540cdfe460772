//! Status writes of Runs against the version that was read, and the bind among them (S-83, S-157).

use jiff::Timestamp;
use kruntimes_core::api::RunStatus;
use kruntimes_core::crd::Run;
use kruntimes_sched::Pod;
use kube::Client;
use kube::api::{Api, Patch, PatchParams};

use super::names::Names;
use super::status;
use crate::cache::{Named, ObjectKey, api};
use crate::patch::status_patch;

/// How a write ended that changed the world or found it changed.
#[derive(Clone, Debug)]
pub enum Written {
    /// The status was the same already; nothing was sent.
    Unchanged,
    /// The API took it, and has this Run now.
    Done(Box<Run>),
    /// The Run changed since it was read (S-107).
    Conflict,
    /// There is no such Run any more.
    Gone,
}

/// Why it is not known that a status was written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The API refuses, or does not answer: then the write may have taken place.
    #[error("the status was not written")]
    Api(#[from] kube::Error),
    /// The status cannot be sent.
    #[error("the status has no JSON form")]
    Json(#[from] serde_json::Error),
}

/// Writes the status of Runs.
#[derive(Clone)]
pub struct Writer {
    client: Client,
    names: Names,
}

impl Writer {
    /// Writes through this client, to the kind these names give.
    pub fn new(client: Client, names: Names) -> Self {
        Self { client, names }
    }

    fn api(&self, key: &ObjectKey) -> Api<Named<Run>> {
        api(self.client.clone(), Some(&key.namespace), &self.names.runs)
    }

    /// Reads a Run from the API.
    ///
    /// # Errors
    ///
    /// Fails as the API does; that there is no such Run is no error.
    pub async fn read(&self, key: &ObjectKey) -> Result<Option<Run>, kube::Error> {
        let found = self.api(key).get_opt(&key.name).await?;
        Ok(found.map(|Named(run)| run))
    }

    /// Assigns a Run to a Pod, with one write that fails if the Run changed since it was read.
    ///
    /// # Errors
    ///
    /// As [`Self::write`].
    pub async fn bind(
        &self,
        object: &Run,
        pod: &Pod,
        now: Timestamp,
    ) -> Result<Written, WriteError> {
        let current = object.status.clone().unwrap_or_default();
        let next = status::bound(&self.names, &current, pod, now);
        self.write(object, &next).await
    }

    /// Patches the status from what was read to what is to be.
    ///
    /// # Errors
    ///
    /// Fails when the API refuses for any other reason than that the Run
    /// changed or is gone, and when it does not answer.
    pub async fn write(&self, object: &Run, next: &RunStatus) -> Result<Written, WriteError> {
        let version = object.metadata.resource_version.as_deref();
        let next = Some(next.clone());
        let Some(patch) = status_patch(version, &object.status, &next)? else {
            return Ok(Written::Unchanged);
        };
        let key = ObjectKey::of(object);
        let params = PatchParams::default();
        let patch = Patch::Merge(patch);
        match self
            .api(&key)
            .patch_status(&key.name, &params, &patch)
            .await
        {
            Ok(Named(object)) => Ok(Written::Done(Box::new(object))),
            Err(kube::Error::Api(answer)) if answer.is_conflict() => Ok(Written::Conflict),
            Err(kube::Error::Api(answer)) if answer.is_not_found() => Ok(Written::Gone),
            Err(error) => Err(error.into()),
        }
    }
}
