//! The whole of kruntimes in one process: the same API, controllers, scheduler and daemon as in a cluster.
//!
//! [`Embedded::start`] brings up an in-process API service, the controllers,
//! the scheduler and a local node whose Pods are made of processes of this
//! machine. There is no isolation between Runs, and none from this machine.

mod engine;
mod follow;
mod logs;
pub mod manifest;
pub mod node;
mod progress;
mod submit;
mod supervisor;
#[cfg(feature = "testing")]
pub mod world;

pub use engine::{Embedded, Options, ShutdownReport, StartError};
pub use follow::Following;
pub use logs::{LogHub, LogNews};
pub use progress::{
    DELETED, Ending, Failure, OutputStream, Progress, StepPath, Target, TargetKind,
};
pub use submit::{NAMESPACE, Submission, SubmitError, bash_runtime};
pub use supervisor::{Life, Supervisor};
