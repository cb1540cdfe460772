//! Integration tests of the protocol crate.

mod golden;
mod scripted;
