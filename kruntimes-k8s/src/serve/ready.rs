//! Whether a component can do its work: it can if the API lists its main kind (C-132).

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use kube::api::{Api, ListParams};
use kube::{Client, Resource};
use tokio::time::timeout;

use crate::cache::Cached;

/// How long the API may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// Why a component is not ready.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NotReady {
    /// The API refuses or cannot be reached.
    #[error("cannot list {kind}")]
    List {
        /// The kind.
        kind: String,
        /// What the API says.
        source: kube::Error,
    },
    /// Something else that the component needs does not work.
    #[error("{what}: {why}")]
    Part {
        /// What it is.
        what: &'static str,
        /// What it says.
        why: String,
    },
    /// The API does not answer in time.
    #[error("no answer to a list of {kind} within {} s", ANSWER_WITHIN.as_secs())]
    Slow {
        /// The kind.
        kind: String,
    },
}

/// A question that is put each time somebody wants to know.
#[derive(Clone)]
pub struct Check(Arc<dyn Fn() -> BoxFuture<'static, Result<(), NotReady>> + Send + Sync>);

impl Check {
    /// Makes a check of a function.
    pub fn new<F, Fut>(ask: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), NotReady>> + Send + 'static,
    {
        Self(Arc::new(move || ask().boxed()))
    }

    /// Puts the question.
    ///
    /// # Errors
    ///
    /// Returns why the component is not ready.
    pub async fn ask(&self) -> Result<(), NotReady> {
        (self.0)().await
    }
}

/// Checks that at most one object of a kind can be listed, in one namespace or all of them.
pub fn can_list<K: Cached>(client: Client, namespace: Option<&str>) -> Check {
    let api: Api<K> = match namespace {
        Some(namespace) => Api::namespaced(client, namespace),
        None => Api::all(client),
    };
    Check::new(move || {
        let api = api.clone();
        async move {
            let kind = K::plural(&<K as Resource>::DynamicType::default()).into_owned();
            let params = ListParams::default().limit(1);
            match timeout(ANSWER_WITHIN, api.list_metadata(&params)).await {
                Ok(Ok(_)) => Ok(()),
                Ok(Err(source)) => Err(NotReady::List { kind, source }),
                Err(_) => Err(NotReady::Slow { kind }),
            }
        }
    })
}
