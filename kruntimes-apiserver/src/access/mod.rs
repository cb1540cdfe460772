//! Who is calling, and what they may do.
//!
//! Whoever holds the server in the same process is `system:admin`. Callers from the network prove who they are with a
//! bearer token of the [`Policy`]; nothing is allowed that no rule of it allows.

mod asked;
mod gate;
mod identity;
mod policy;
mod token;

pub(crate) use asked::Asked;
pub(crate) use gate::{Access, Caller};
pub use identity::Identity;
pub use policy::{Policy, Rule};
