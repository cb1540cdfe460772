//! The whole of kruntimes in one process: the same API, controllers, scheduler and daemon as in a cluster.
//!
//! An in-process API service, the controllers, the scheduler and a local node
//! whose Pods are made of processes of this machine. There is no isolation
//! between Runs, and none from this machine.

pub mod manifest;
mod progress;
mod submit;
mod supervisor;

pub use progress::{Ending, Failure, OutputStream, Progress, StepPath, Target, TargetKind};
pub use submit::{NAMESPACE, Submission, SubmitError, bash_runtime};
pub use supervisor::Supervisor;
