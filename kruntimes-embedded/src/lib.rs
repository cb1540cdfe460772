//! The whole of kruntimes in one process: the same API, controllers, scheduler and daemon as in a cluster.
//!
//! [`Embedded::start`] brings up an in-process API service, the controllers,
//! the scheduler and a local node whose Pods are made of processes of this
//! machine. There is no isolation between Runs, and none from this machine.
//!
//! With [`Options::data_dir`] objects are stored on disk, and the next start on the directory goes on
//! where this one ended, even if it was killed; with [`Options::listen`] kubectl and client libraries
//! work on it. [`home`] tells who lives in such a directory.

mod directory;
mod engine;
mod follow;
mod front;
pub mod home;
mod logs;
pub mod manifest;
pub mod node;
mod pod_log;
mod progress;
mod submit;
mod supervisor;
#[cfg(feature = "testing")]
pub mod world;

pub use directory::ShutdownReport;
pub use engine::{Embedded, Options, StartError};
pub use follow::Following;
pub use logs::{LogHub, LogNews};
pub use progress::{
    DELETED, Ending, Failure, OutputStream, Progress, StepPath, Target, TargetKind,
};
pub use submit::{NAMESPACE, Submission, SubmitError, bash_runtime};
pub use supervisor::{Life, Supervisor};
