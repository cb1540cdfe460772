//! Tests of the embedded engine.

mod following;
mod local;
mod real;
mod scenarios;
mod simulation;
