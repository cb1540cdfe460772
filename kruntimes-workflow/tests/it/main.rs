//! What the whole crate promises about any input.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod mutation;
mod targets;
