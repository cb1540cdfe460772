//! What a caller of a Runtime Server may ask, and how that can fail.

use async_trait::async_trait;
use futures::stream::BoxStream;

use crate::execution::{Event, ExecuteRequest, Execution, Health};

/// Carries notifications until the server or the connection ends.
pub type EventStream = BoxStream<'static, Result<Event, ClientError>>;

/// Says why a call failed, and with that what a caller may do about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The server does not know the id.
    #[error("not found: {message}")]
    NotFound {
        /// The server's words.
        message: String,
    },
    /// The id is taken.
    #[error("already exists: {message}")]
    AlreadyExists {
        /// The server's words.
        message: String,
    },
    /// The execution is in a state that does not allow the call.
    #[error("failed precondition: {message}")]
    FailedPrecondition {
        /// The server's words.
        message: String,
    },
    /// The request can never succeed as it is.
    #[error("invalid argument: {message}")]
    InvalidArgument {
        /// The server's words.
        message: String,
    },
    /// The server has no such call. Asking again will not help.
    #[error("unimplemented: {message}")]
    Unimplemented {
        /// The server's words.
        message: String,
    },
    /// No answer in time. The server may have acted.
    #[error("deadline exceeded: {message}")]
    DeadlineExceeded {
        /// The server's words.
        message: String,
    },
    /// The server cannot be reached, or stopped answering. It may have acted.
    #[error("unavailable: {message}")]
    Unavailable {
        /// What broke.
        message: String,
    },
    /// Any other gRPC status.
    #[error("{code:?}: {message}")]
    Other {
        /// The status code.
        code: tonic::Code,
        /// The server's words.
        message: String,
    },
}

impl ClientError {
    /// Tells whether the server may have acted although the call failed.
    pub fn is_ambiguous(&self) -> bool {
        match self {
            Self::DeadlineExceeded { .. } | Self::Unavailable { .. } | Self::Other { .. } => true,
            Self::NotFound { .. }
            | Self::AlreadyExists { .. }
            | Self::FailedPrecondition { .. }
            | Self::InvalidArgument { .. }
            | Self::Unimplemented { .. } => false,
        }
    }

    /// Tells whether the server does not know the id.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound { .. })
    }

    /// Tells whether the server has no such call.
    pub fn is_unimplemented(&self) -> bool {
        matches!(self, Self::Unimplemented { .. })
    }
}

/// Runs tasks on a Runtime Server.
///
/// Object safe, so that a caller holds an `Arc<dyn RuntimeClient>` and a test hands it a fake. Calls carry
/// no deadline of their own: a caller wraps them in `tokio::time::timeout`.
#[async_trait]
pub trait RuntimeClient: Send + Sync {
    /// Starts work and returns once it is accepted (N-210).
    ///
    /// # Errors
    ///
    /// [`ClientError::InvalidArgument`] for a request that can never run; [`ClientError::AlreadyExists`]
    /// from a server that does not replace executions (N-211).
    async fn execute(&self, request: ExecuteRequest) -> Result<(), ClientError>;

    /// Reads one retained execution (N-212).
    ///
    /// # Errors
    ///
    /// [`ClientError::NotFound`] for an unknown id.
    async fn status(&self, id: &str) -> Result<Execution, ClientError>;

    /// Reads all retained executions; long outputs may be shortened (N-8).
    ///
    /// # Errors
    ///
    /// Only when the server cannot be asked.
    async fn list(&self) -> Result<Vec<Execution>, ClientError>;

    /// Stops the work with all its descendants and returns when they are gone (N-214).
    ///
    /// # Errors
    ///
    /// [`ClientError::NotFound`] for an unknown id.
    async fn cancel(&self, id: &str) -> Result<(), ClientError>;

    /// Drops a finished execution (N-213).
    ///
    /// # Errors
    ///
    /// [`ClientError::NotFound`] for an unknown id, [`ClientError::FailedPrecondition`] for a live one.
    async fn forget(&self, id: &str) -> Result<(), ClientError>;

    /// Asks whether work can be accepted (N-215).
    ///
    /// # Errors
    ///
    /// Only when the server cannot be asked.
    async fn health(&self) -> Result<Health, ClientError>;

    /// Subscribes to changes of `ids`, or of everything when `ids` is empty.
    ///
    /// The stream begins with one event per execution that is known now, so nothing is lost between
    /// `list` and `watch`. Events are hints: read the content by [`status`](Self::status).
    ///
    /// # Errors
    ///
    /// [`ClientError::Unimplemented`] from a server without `RuntimeEvents`; poll such a server.
    async fn watch(&self, ids: &[String]) -> Result<EventStream, ClientError>;
}
