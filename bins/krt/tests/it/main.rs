//! The built binary, run on files as a person runs it.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod diagnostics;
mod examples;
mod process;
mod signals;
mod streams;
