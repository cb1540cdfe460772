//! The built binary, run on files as a person runs it.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod asking;
mod client;
mod crash;
mod diagnostics;
mod engine;
mod examples;
mod files;
mod kubectl;
mod process;
mod signals;
mod staying;
mod streams;
mod verdict;
