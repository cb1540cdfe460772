//! Brings one derived object to its desired state.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Service, ServiceAccount};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kruntimes_core::crd::Runtime;
use kruntimes_core::{limits, message};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::ObjectMeta;
use kube::{Client, Resource as _};
use serde::Serialize;

use super::deployment;
use super::drift::repair;
use crate::cache::{Cache, Cached, ObjectKey};
use crate::chain;

/// Why one reconcile did not finish. All are repeated.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// Computed from an old version. No news for anybody, it is only repeated (S-107, N-13).
    #[error("the object has changed meanwhile")]
    Stale,
    #[error("the API refused a write")]
    Api(#[from] kube::Error),
    #[error("an object has no JSON form")]
    Json(#[from] serde_json::Error),
}

/// Why a derived object was not brought to its desired state.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    #[error(transparent)]
    Impossible(#[from] deployment::Error),
    #[error("{kind} {name} is controlled by another object")]
    Foreign { kind: String, name: String },
    #[error(transparent)]
    Api(#[from] Error),
}

impl From<kube::Error> for Refusal {
    fn from(error: kube::Error) -> Self {
        Self::Api(error.into())
    }
}

impl From<serde_json::Error> for Refusal {
    fn from(error: serde_json::Error) -> Self {
        Self::Api(error.into())
    }
}

impl Refusal {
    /// Reason and message of the `Ready` condition.
    pub(crate) fn to_fact(&self) -> (String, String) {
        let reason = match self {
            Self::Impossible(error) => error.reason(),
            Self::Foreign { .. } | Self::Api(_) => "ReconcileFailed",
        };
        let text = message::bounded(&chain(self), limits::MESSAGE_MAX_BYTES);
        (reason.to_owned(), text)
    }
}

/// A kind that Runtimes need objects of.
pub(crate) trait Child: Cached + Serialize {
    /// JSON pointers below which nothing may be that is not desired.
    const EXACT: &'static [&'static str] = &[];
    /// JSON pointer of what cannot be changed: an object with another value there is made anew.
    const FIXED: Option<&'static str> = None;
}

impl Child for Deployment {}
impl Child for ServiceAccount {}
impl Child for Service {
    const EXACT: &'static [&'static str] = &["/spec/selector"];
}
impl Child for NetworkPolicy {
    const EXACT: &'static [&'static str] = &["/spec"];
}
impl Child for Role {
    const EXACT: &'static [&'static str] = &["/rules"];
}
impl Child for RoleBinding {
    const EXACT: &'static [&'static str] = &["/subjects"];
    const FIXED: Option<&'static str> = Some("/roleRef");
}

/// Creates or repairs an object; two passes without a change write nothing (N-237).
///
/// An object that is to be owned and has another controller is left alone; one
/// that is to have no owner is used whoever made it. Returns whether anything was written.
pub(crate) async fn ensure<K: Child>(
    client: &Client,
    cache: &Cache<K>,
    desired: &K,
) -> Result<bool, Refusal> {
    let key = ObjectKey::of(desired);
    let api: Api<K> = Api::namespaced(client.clone(), &key.namespace);
    let existing = match cache.get(&key) {
        Some(known) => known,
        None => match api.create(&PostParams::default(), desired).await {
            Ok(object) => {
                cache.written(object);
                return Ok(true);
            }
            // The cache lags, or does not hold it; what is there may be as outdated as anything in the cache.
            Err(kube::Error::Api(status)) if status.is_already_exists() => {
                Arc::new(api.get(&key.name).await?)
            }
            Err(error) => return Err(error.into()),
        },
    };
    if is_foreign(existing.meta(), desired.meta()) {
        return Err(Refusal::Foreign {
            kind: K::kind(&()).to_lowercase(),
            name: key.name,
        });
    }
    let want = serde_json::to_value(desired)?;
    let have = serde_json::to_value(existing.as_ref())?;
    if let Some(fixed) = K::FIXED
        && have.pointer(fixed) != want.pointer(fixed)
    {
        replace(&api, cache, &existing, desired).await?;
        return Ok(true);
    }
    let Some(patch) = repair(&have, &want, K::EXACT) else {
        cache.written(Arc::unwrap_or_clone(existing));
        return Ok(false);
    };
    let object = api
        .patch(&key.name, &PatchParams::default(), &Patch::Merge(patch))
        .await?;
    cache.written(object);
    Ok(true)
}

async fn replace<K: Child>(
    api: &Api<K>,
    cache: &Cache<K>,
    existing: &K,
    desired: &K,
) -> Result<(), Refusal> {
    let key = ObjectKey::of(desired);
    let uid = existing.meta().uid.clone();
    let params = DeleteParams {
        preconditions: Some(Preconditions {
            uid: uid.clone(),
            resource_version: existing.meta().resource_version.clone(),
        }),
        ..DeleteParams::background()
    };
    api.delete(&key.name, &params).await?;
    cache.vanished(&key, uid.as_deref());
    let made = api.create(&PostParams::default(), desired).await?;
    cache.written(made);
    Ok(())
}

/// Tells whether an object that is to be owned belongs to something else.
fn is_foreign(existing: &ObjectMeta, desired: &ObjectMeta) -> bool {
    let Some(owner) = desired.owner_references.iter().flatten().next() else {
        return false;
    };
    let owners = existing.owner_references.iter().flatten();
    owners
        .filter(|found| found.controller == Some(true))
        .any(|found| found.kind != Runtime::kind(&()) || found.name != owner.name)
}
