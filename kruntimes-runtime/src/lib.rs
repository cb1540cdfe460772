//! Runtime Servers: processes behind the protocol of `kruntimes-proto`.
//!
//! From the bottom up:
//!
//! - [`process`] starts a program in its own process group, notices its end without polling, and ends
//!   it so that no descendant is left.
//! - [`Supervisor`] keeps executions by id: start, read, stop, forget, tell. It asks an [`Adapter`]
//!   what to start, and is itself a [`RuntimeClient`](kruntimes_proto::RuntimeClient) for use in process.
//! - [`bash`] is the adapter for shell scripts, [`python`] that for Python; [`kit`] is for servers of one's own
//!   that do the work in their own process.
//! - [`server`] puts anything that is a `RuntimeClient` on a unix socket or a TCP port.
//!
//! The feature `testing` adds `testing`, the conformance suite for authors of other servers.
//!
//! This crate makes its process a child subreaper, so that orphans of an execution come back to it. It
//! reaps only what it can prove to be its own; see [`process`].

mod adapter;
pub mod bash;
mod capture;
mod directory;
pub mod kit;
pub mod process;
pub mod python;
mod run;
mod search;
pub mod server;
mod supervisor;
#[cfg(feature = "testing")]
pub mod testing;
mod work;

pub use adapter::{Adapter, Manners, Plan, Program, Refusal};
pub use capture::{OUTPUT_MAX_BYTES, TRUNCATION_MARK};
pub use directory::WorkRoot;
pub use supervisor::{Options, Supervisor};
