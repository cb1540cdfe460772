//! runtimed: the sidecar that claims Runs of its Pod and has the local Runtime Server execute them.
//!
//! [`Runtimed::run`] is the whole component. It follows the Runs assigned to its Pod, asks
//! [`kruntimes_core::life::next`] what to do with each, and carries the answer out: claim, prepare, execute,
//! collect, retry, stop, release. What happens at the Runtime Server arrives by its event stream; only a
//! server without one is polled. Nothing outlives the future that `run` returns.
//!
//! One Run is reconciled by one worker at a time, and only its reconcile writes its status (N-74). Slow
//! steps that decide nothing (preparing and starting, forgetting, releasing) are tasks of their own; they
//! leave their result in the entry of the Run and put it back into the queue.
//!
//! Today this executes tasks: with an inline source, out of a git repository or with arguments, in a directory
//! of their own or in a PersistentWorkspace, with artifacts of earlier Runs as inputs and a store for their own.
//! Functions and sessions are refused with a reason, never ignored.

mod artifact;
mod config;
mod events;
mod files;
mod finish;
mod folder;
mod git;
mod heartbeat;
mod logs;
mod metrics;
mod node;
mod outputs;
mod plan;
mod push;
mod readiness;
mod reconcile;
mod recovery;
mod release;
mod runtimed;
mod server;
mod start;
mod status;
mod table;
mod tasks;
mod tool_cache;
mod workspace;

pub use artifact::{
    ARTIFACT_MAX_BYTES, ARTIFACTS_MAX_BYTES, About, ArtifactSettings, Artifacts, Content,
    FilesystemStore, Item, MaintainError, Maintainer, S3Store, SettingsError, Store, StoreError,
    Stored, maintain,
};
pub use config::{Config, ConfigError};
pub use files::NodeDirs;
pub use git::GitTool;
pub use logs::{Audit, JsonLines, LogRecord, LogSink, LogStream, RunEnd};
pub use runtimed::Runtimed;
