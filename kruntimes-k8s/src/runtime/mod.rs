//! The Runtime controller: keeps the objects of each Runtime and reports its ready replicas.
//!
//! What the objects look like is decided by [`deployment::desired`] and
//! [`children::desired`], pure functions; the shell in `controller` loads,
//! compares and writes.

pub(crate) mod artifact_store;
pub mod children;
mod controller;
pub mod deployment;
pub mod drift;
pub(crate) mod ensure;
pub(crate) mod pod_template;

pub use controller::{Config, run};
pub use deployment::{Defaults, Error as DeploymentError};
