//! What a language adds to the supervision of processes.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kruntimes_proto::ExecuteRequest;

use crate::process::Warm;
use crate::work::Work;

/// Turns requests into programs; one implementation per language.
pub trait Adapter: Send + Sync + 'static {
    /// Decides what to start in `directory`, which exists and lies inside the work root.
    ///
    /// Called once per `Execute` and expected to be quick: it may look at files, not run anything.
    ///
    /// # Errors
    ///
    /// [`Refusal`] for a request that can never run.
    fn plan(&self, request: &ExecuteRequest, directory: &Path) -> Result<Plan, Refusal>;

    /// Tells how this server treats repeated and cancelled ids.
    fn manners(&self) -> Manners;
}

/// Says what becomes of an accepted request.
#[derive(Debug)]
pub enum Plan {
    /// This program is started.
    Start(Program),
    /// This program is forked from a process that is warm already, or started when that cannot be.
    Fork(Arc<Warm>, Program),
    /// This is done inside the process of the server.
    Work(Work),
    /// Nothing is started; the execution is `FAILED` with this message.
    Fail(String),
}

/// Names a program by its absolute path, with its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Absolute, so that the request's `PATH` cannot choose another interpreter.
    pub path: PathBuf,
    /// Arguments after the program's name.
    pub args: Vec<OsString>,
}

/// Refuses a request as an invalid argument.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// Tells the caller what is wrong.
    pub message: String,
}

impl Refusal {
    /// Makes a refusal with these words.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
        }
    }
}

/// Chooses between the two documented behaviours of servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manners {
    /// A repeated `Execute` stops the old execution and takes its place (N-228); `Cancel` removes the
    /// entry (N-229).
    Replace,
    /// A repeated `Execute` is refused until `Forget` (N-232); a cancelled execution stays as `FAILED`.
    Keep,
}
