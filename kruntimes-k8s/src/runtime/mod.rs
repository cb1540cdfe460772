//! The Runtime controller: keeps the Deployment of each Runtime and reports its ready replicas.
//!
//! What the Deployment looks like is decided by [`deployment::desired`], a pure
//! function; the shell in `controller` loads, compares and writes. Service,
//! NetworkPolicy and the daemon's RBAC objects are not made yet.

mod controller;
pub mod deployment;
mod pod_template;

pub use controller::{Config, run};
pub use deployment::{Defaults, Error as DeploymentError};
