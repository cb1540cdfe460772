//! Placeholder of kruntimes-runtime; the room is being furnished.
