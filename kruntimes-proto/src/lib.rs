//! Placeholder of kruntimes-proto; the room is being furnished.
