//! Pod logs come from outside: whoever runs the Pods hands in a source.

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use thiserror::Error;

use crate::{answer::BoxError, error::ApiError, query::Query};

/// The pieces of a log as they become available; the end of the stream is the end of the log.
pub type LogStream = BoxStream<'static, Result<Bytes, BoxError>>;

/// Which part of whose log is wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogRequest {
    /// Namespace of the Pod, which exists.
    pub namespace: String,
    /// Name of the Pod.
    pub pod: String,
    /// Container, absent when the caller leaves the choice to the source.
    pub container: Option<String>,
    /// Keeps the stream open for what is yet to be written.
    pub follow: bool,
    /// Asks for the container instance before the present one.
    pub previous: bool,
    /// Prefixes lines with the time they were written.
    pub timestamps: bool,
    /// Only this many lines from the end.
    pub tail_lines: Option<u64>,
    /// Only lines written within this many seconds.
    pub since_seconds: Option<u64>,
    /// Only this many bytes.
    pub limit_bytes: Option<u64>,
}

/// Why there is no log to show.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LogError {
    /// The Pod has no such container, or the container has not started. Waiting may help.
    #[error("container {0:?} is not available")]
    Container(String),
    /// The source cannot be read now.
    #[error("log source failed")]
    Source(#[source] BoxError),
}

/// Reads the logs of containers for the `log` subresource of Pods.
#[async_trait]
pub trait PodLogs: Send + Sync {
    /// Opens a log; the caller has checked that the Pod exists.
    ///
    /// # Errors
    ///
    /// Fails when the container is not known or its log cannot be read.
    async fn open(&self, request: LogRequest) -> Result<LogStream, LogError>;
}

impl LogRequest {
    pub(crate) fn of_query(namespace: &str, pod: &str, query: &Query) -> Result<Self, ApiError> {
        Ok(Self {
            namespace: namespace.to_owned(),
            pod: pod.to_owned(),
            container: query.text("container").map(str::to_owned),
            follow: query.flag("follow"),
            previous: query.flag("previous"),
            timestamps: query.flag("timestamps"),
            tail_lines: query.number("tailLines")?,
            since_seconds: query.number("sinceSeconds")?,
            limit_bytes: query.number("limitBytes")?,
        })
    }
}

impl From<LogError> for ApiError {
    fn from(error: LogError) -> Self {
        match error {
            LogError::Container(_) => Self::bad_request(error.to_string()),
            LogError::Source(cause) => Self::unavailable(format!("log source failed: {cause}")),
        }
    }
}
