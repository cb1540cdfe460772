//! What a Pod of the local node is made of.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Pod;
use kruntimes_node::Artifacts;
use kruntimes_proto::RuntimeClient;

/// Why a Pod cannot be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackendError {
    /// No local Runtime Server fits the `runtime` container. Use a Runtime that exists locally.
    #[error("image {image} has no local runtime server, available are: {available}")]
    UnknownImage {
        /// Image of the `runtime` container.
        image: String,
        /// Names of the servers that exist.
        available: String,
    },
    /// A directory or socket could not be made.
    #[error("cannot prepare {path}")]
    Directory {
        /// What was to be made.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The Runtime Server did not start.
    #[error("the runtime server did not start: {0}")]
    Server(String),
}

/// The started parts of a Pod except its daemon.
#[async_trait]
pub trait PodSandbox: Send + Sync {
    /// Returns the client of the Pod's Runtime Server.
    fn runtime(&self) -> Arc<dyn RuntimeClient>;

    /// Returns the directory that stands for the volume at `/workspace`.
    fn workspace(&self) -> PathBuf;

    /// Ends the Runtime Server and every process it started, and returns when they are gone.
    async fn stop(&self);
}

/// Starts what a Pod is made of.
#[async_trait]
pub trait PodBackend: Send + Sync {
    /// Starts the Runtime Server of a Pod.
    ///
    /// # Errors
    ///
    /// Returns why the Pod stays not ready; the start is tried again.
    async fn start(&self, pod: &Pod) -> Result<Arc<dyn PodSandbox>, BackendError>;

    /// Returns where the Runs of all Pods keep their artifacts; nowhere by default.
    fn artifacts(&self) -> Option<Artifacts> {
        None
    }
}
