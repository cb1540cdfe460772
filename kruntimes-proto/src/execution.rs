//! Executions as a caller sees them, free of generated types.

use std::collections::BTreeMap;
use std::time::Duration;

/// Describes one piece of work for a Runtime Server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExecuteRequest {
    /// Names the execution in every later call; chosen by the caller, not empty.
    pub id: String,
    /// Arguments, or a command where there is no file to start.
    pub args: Vec<String>,
    /// Laid over the environment of the server; a value here wins (N-71).
    pub env: BTreeMap<String, String>,
    /// Time limit. Travels in whole seconds, rounded up, so it never turns into "no limit" (N-72).
    pub timeout: Option<Duration>,
    /// Absolute directory in which the process starts.
    pub working_dir: String,
    /// File to start, relative to `working_dir`; empty means `script`.
    pub entrypoint: String,
    /// Function to call, in languages that have such a thing; empty for tasks (N-66).
    pub handler: String,
}

/// Tells where an execution stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ExecutionState {
    /// Accepted; no process yet.
    Pending,
    /// The process lives.
    Running,
    /// Ended with exit code 0. Final.
    Succeeded,
    /// Ended in any other way. Final.
    Failed,
    /// A number this build has no name for; 0 in an [`Event`] says that the execution is gone.
    Unknown(i32),
}

impl ExecutionState {
    /// Marks, in an [`Event`], an execution that the server no longer knows.
    pub const GONE: Self = Self::Unknown(0);

    /// Tells whether nothing can follow this state.
    pub fn is_final(self) -> bool {
        match self {
            Self::Succeeded | Self::Failed => true,
            Self::Pending | Self::Running | Self::Unknown(_) => false,
        }
    }
}

/// Holds one retained execution as the server reported it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Execution {
    /// The caller's name for it.
    pub id: String,
    /// Where it stands; with a final state, everything below is final too (N-212).
    pub state: ExecutionState,
    /// Of the main process; -1 when a signal ended it (N-223).
    pub exit_code: i32,
    /// Kept part of standard output (N-222).
    pub stdout: String,
    /// Kept part of standard error (N-222).
    pub stderr: String,
    /// Why it failed, where the exit code does not say it: `timeout`, `cancelled`, a signal, …
    pub error_message: String,
}

/// Answers whether a server can accept work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// False when new work would be refused.
    pub healthy: bool,
    /// Short reason when it is false.
    pub message: String,
}

/// Hints that one execution changed; the content is read by `status`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The execution.
    pub id: String,
    /// Its state when the event was made; [`ExecutionState::GONE`] when it is no longer known.
    pub state: ExecutionState,
    /// Output arrived since the last event of this execution.
    pub output: bool,
}
