//! What the whole crate promises about any input.
#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers too"
)]

mod contract;
mod mutation;
mod targets;
