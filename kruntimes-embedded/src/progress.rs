//! What a follower of a WorkflowRun or a Run sees.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

/// What is followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Kind of the object.
    pub kind: TargetKind,
    /// Namespace of the object.
    pub namespace: String,
    /// Name of the object.
    pub name: String,
    /// UID of the object; a later object of the same name is another target.
    pub uid: String,
}

/// Kind of what is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetKind {
    /// A WorkflowRun with its steps.
    WorkflowRun,
    /// One Run.
    Run,
}

/// A place inside a target. All absent: the target itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StepPath {
    /// Job.
    pub job: Option<String>,
    /// Step of the job.
    pub step: Option<String>,
    /// Step of the Action that the step calls.
    pub action_step: Option<String>,
}

impl StepPath {
    /// The path of a job.
    pub fn job(job: &str) -> Self {
        Self {
            job: Some(job.to_owned()),
            ..Self::default()
        }
    }

    /// The path of a step.
    pub fn step(job: &str, step: &str) -> Self {
        Self {
            job: Some(job.to_owned()),
            step: Some(step.to_owned()),
            ..Self::default()
        }
    }
}

impl fmt::Display for StepPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [&self.job, &self.step, &self.action_step];
        let parts: Vec<&str> = parts.into_iter().flatten().map(String::as_str).collect();
        f.write_str(&parts.join("/"))
    }
}

/// Which stream a line of output came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// One thing a follower sees.
#[derive(Clone, Debug)]
pub enum Progress {
    /// A phase changed.
    Transition {
        /// Where.
        path: StepPath,
        /// Phase before; absent when the thing is new.
        from: Option<&'static str>,
        /// Phase now.
        to: &'static str,
        /// When it was seen.
        at: Timestamp,
        /// How long the phase before lasted, as far as it was seen.
        took: Option<Duration>,
        /// Machine-readable cause.
        reason: Option<String>,
        /// The same for people.
        message: Option<String>,
    },
    /// A line of output.
    Output {
        /// Which step wrote it.
        path: StepPath,
        /// Which stream it came from.
        stream: OutputStream,
        /// The line without its end.
        line: String,
    },
    /// The target is terminal, or was deleted, and all output was seen. Nothing follows.
    Ended(Box<Ending>),
}

/// Phase of an [`Ending`] whose target was deleted before it ended.
pub const DELETED: &str = "Deleted";

/// How a target ended.
#[derive(Clone, Debug)]
pub struct Ending {
    /// Final phase, or [`DELETED`].
    pub phase: &'static str,
    /// Message of the status.
    pub message: Option<String>,
    /// Time from the creation of the target to its end, as seen by the follower.
    pub wall: Duration,
    /// The object as last seen; null when it was never seen.
    pub object: Value,
    /// Steps that did not succeed, in path order.
    pub failures: Vec<Failure>,
}

/// A step that did not succeed.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Which step.
    pub path: StepPath,
    /// Final phase of its Run.
    pub phase: &'static str,
    /// Machine-readable cause.
    pub reason: Option<String>,
    /// The same for people.
    pub message: Option<String>,
    /// Exit code of the process, when one ended by itself.
    pub exit_code: Option<i32>,
    /// Last lines of its standard error.
    pub stderr_tail: Vec<String>,
}
