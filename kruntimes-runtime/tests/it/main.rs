//! Integration tests: real processes, real sockets.

mod bash;
mod conformance;
mod kit;
mod life;
mod peers;
mod python;
