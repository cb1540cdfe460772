//! Placeholder of kruntimes-apiserver; the room is being furnished.

pub mod schema;
