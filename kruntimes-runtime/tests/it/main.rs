//! Integration tests: real processes, real sockets.

mod bash;
mod conformance;
mod life;
mod python;
