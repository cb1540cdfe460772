//! Tests of the embedded engine.

mod following;
mod local;
#[cfg(test)]
mod real;
#[cfg(test)]
mod scenarios;
mod simulation;
