//! Kubernetes adapters of kruntimes: watches, controllers, the scheduler shell, CRD files.
//!
//! Everything that decides lives in the pure crates; here objects are loaded,
//! decisions asked for, carried out, and written back. No component reads a
//! clock, spawns or sleeps except through a handle it was given: waiting goes
//! through `tokio::time`, wall-clock time through [`clock::Clock`], and each
//! `run` function keeps all its work inside the future it returns.

pub mod cache;
pub mod cleanup;
pub mod clock;
pub mod crd_files;
pub mod definitions;
pub mod event;
pub mod explain;
pub mod lease;
pub mod patch;
pub mod pool;
pub mod queue;
mod reaper;
mod retention;
pub mod runtime;
pub mod scheduler;
pub mod serve;
pub mod workflow;
mod workspace;

/// Writes an error with its causes.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
