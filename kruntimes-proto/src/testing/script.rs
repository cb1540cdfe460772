//! What a scripted server is told to do, and what it notes down.

use std::fmt;
use std::time::Duration;

use crate::client::ClientError;
use crate::execution::ExecuteRequest;

/// Decides how one execution goes.
pub struct Script {
    pub(super) duration: Option<Duration>,
    pub(super) exit_code: i32,
    pub(super) stdout: String,
    pub(super) stderr: String,
    pub(super) error_message: String,
    pub(super) cancel_takes: Duration,
    pub(super) refusal: Option<ClientError>,
    pub(super) on_finish: Option<Box<dyn FnOnce() + Send>>,
}

impl Script {
    /// Ends at once with this exit code; 0 succeeds, anything else fails.
    pub fn exits(exit_code: i32) -> Self {
        Self {
            duration: Some(Duration::ZERO),
            exit_code,
            stdout: String::new(),
            stderr: String::new(),
            error_message: String::new(),
            cancel_takes: Duration::ZERO,
            refusal: None,
            on_finish: None,
        }
    }

    /// Runs until it is cancelled, times out or is lost.
    pub fn never_ends() -> Self {
        Self {
            duration: None,
            ..Self::exits(0)
        }
    }

    /// Makes `execute` answer this error; no execution comes to be.
    pub fn refused(error: ClientError) -> Self {
        Self {
            refusal: Some(error),
            ..Self::exits(-1)
        }
    }

    /// Takes this long, on the tokio clock.
    pub fn after(mut self, duration: Duration) -> Self {
        self.duration = Some(duration);
        self
    }

    /// Shows this standard output, from the start.
    pub fn stdout(mut self, text: impl Into<String>) -> Self {
        self.stdout = text.into();
        self
    }

    /// Shows this standard error, from the start.
    pub fn stderr(mut self, text: impl Into<String>) -> Self {
        self.stderr = text.into();
        self
    }

    /// Reports this message beside the exit code.
    pub fn message(mut self, text: impl Into<String>) -> Self {
        self.error_message = text.into();
        self
    }

    /// Needs this long to stop when it is cancelled.
    pub fn slow_to_cancel(mut self, grace: Duration) -> Self {
        self.cancel_takes = grace;
        self
    }

    /// Calls this when the work ends by itself, just before the end can be seen.
    ///
    /// The place to write an outputs file. Not called for work that is cancelled, times out or is lost.
    pub fn on_finish(mut self, act: impl FnOnce() + Send + 'static) -> Self {
        self.on_finish = Some(Box::new(act));
        self
    }
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Script")
            .field("duration", &self.duration)
            .field("exit_code", &self.exit_code)
            .finish_non_exhaustive()
    }
}

/// Names the calls of the trait, for records and faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Method {
    /// `execute`
    Execute,
    /// `status`
    Status,
    /// `list`
    List,
    /// `cancel`
    Cancel,
    /// `forget`
    Forget,
    /// `health`
    Health,
    /// `watch`
    Watch,
}

/// Records one call as it arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// A request to start work, complete.
    Execute(ExecuteRequest),
    /// Any other call with its id, empty where it has none.
    Other(Method, String),
}

impl Call {
    /// Returns which call it was.
    pub fn method(&self) -> Method {
        match self {
            Self::Execute(_) => Method::Execute,
            Self::Other(method, _) => *method,
        }
    }

    /// Returns the id it was about, empty for `list`, `health` and `watch`.
    pub fn id(&self) -> &str {
        match self {
            Self::Execute(request) => &request.id,
            Self::Other(_, id) => id,
        }
    }
}

/// Breaks one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing is done; the caller gets the error.
    Refuse(ClientError),
    /// Everything is done; the caller is told that the server is unavailable.
    LoseAnswer,
    /// Waits this long on the tokio clock, then goes on as usual.
    Delay(Duration),
    /// The server restarts instead of answering; all executions are lost.
    Crash,
}

/// Chooses between the manners of the two built-in servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    /// A repeated `execute` replaces (N-228), `cancel` removes the entry (N-229).
    #[default]
    Bash,
    /// A repeated `execute` is refused (N-232), a cancelled execution stays as failed (N-234).
    Python,
}
