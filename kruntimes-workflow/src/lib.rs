//! The kruntimes workflow engine: expressions, job graph, inputs, snapshots and the turn.
//!
//! The crate is pure: no clock, no I/O, no randomness, no Kubernetes. A caller
//! loads a [`plan::State`], asks [`plan::calculate`] what to do, carries out the
//! [`plan::Action`] it gets, folds what happened in with [`plan::merge`] and
//! stores the status once. Each module is usable alone:
//!
//! - [`expr`]: the `${{ … }}` language, its evaluator and its static checker;
//! - [`graph`]: shape rules, dependency cycles, the job DAG, the graph of calls;
//! - [`definitions`]: reusable Workflows and Actions, as far as they were read;
//! - [`bind`]: inputs, template rendering, frozen output contracts;
//! - [`trigger`]: a WorkflowRun from a Workflow and inputs;
//! - [`snapshot`]: the immutable definition an execution reads;
//! - [`plan`]: the turn of a WorkflowRun;
//! - [`mod@convert`]: small CI workflow files as definitions;
//! - [`driver`]: a ready-made loop around the turn, for programs without Kubernetes;
//! - [`explain`]: what happened, and why the rest waits;
//! - [`export`]: a definition as picture, text or list of steps;
//! - [`extend`]: what an engine may accept beyond that, off by default: [`condition`], [`expansion`],
//!   [`concurrency`], [`rerun`], and what embedders plug in;
//! - [`hooks`]: transitions handed to whoever wants them;
//! - [`lint`]: everything that can be said about a definition before it runs.
//!
//! # Features
//!
//! - `testing`: builders, a scripted executor and the explorer of interleavings, for tests of embedders;
//! - `directory`: a store of states with one file each;
//! - `yaml`: definitions as YAML files.
#![warn(clippy::wildcard_enum_match_arm)]

pub mod bind;
pub mod concurrency;
pub mod condition;
#[cfg(feature = "yaml")]
pub mod convert;
pub mod definitions;
pub mod driver;
pub mod expansion;
pub mod explain;
pub mod export;
pub mod expr;
pub mod extend;
pub mod graph;
pub mod hooks;
pub mod lint;
pub mod location;
pub mod plan;
pub mod rerun;
pub mod snapshot;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(any(test, feature = "testing"))]
pub mod testkit;
pub mod trigger;
#[cfg(feature = "yaml")]
pub mod yaml;

/// The data types of definitions and states, so that a program needs no second crate.
pub use kruntimes_core::api as model;
