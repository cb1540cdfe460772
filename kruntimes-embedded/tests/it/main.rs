//! Tests of the embedded engine.

mod local;
mod simulation;
