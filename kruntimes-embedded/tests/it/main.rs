//! Tests of the embedded engine.

mod following;
mod local;
mod simulation;
