//! Placeholder of kruntimes-node; the room is being furnished.
