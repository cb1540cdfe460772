//! The scheduler's decisions and its book, item by item.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot set its stage may stop"
)]

mod availability;
mod book;
mod cycle;
mod laws;
mod least_loaded;
mod profile;
mod waiting;
