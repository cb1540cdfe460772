//! Nouns of kruntimes and their laws.
//!
//! This crate is pure: no clock, no I/O, no randomness, no Kubernetes. It holds
//! the data types of the API (`kruntimes.io/v1alpha1`), quantities, durations,
//! selectors, conditions, the life of one Run attempt and of a workspace, retry
//! and backoff, the grammar of the outputs file, names derived from other names,
//! and limits.
//!
//! # Features
//!
//! - `crd`: adds kube and schemars derives to the API types. Without it no
//!   Kubernetes crate is compiled.
//! - `testing`: builders for tests of other crates.
#![warn(clippy::wildcard_enum_match_arm)]

pub mod api;
pub mod condition;
#[cfg(feature = "crd")]
pub mod crd;
pub mod duration;
pub mod fnv;
pub mod keys;
pub mod label;
pub mod life;
pub mod limits;
pub mod loss;
pub mod message;
pub mod names;
pub mod nearest;
pub mod outputs;
pub mod quantity;
pub mod resources;
pub mod retention;
pub mod retry;
#[cfg(feature = "testing")]
pub mod testing;
pub mod time;
pub mod workspace;
