//! Placeholder of kruntimes-workflow; the room is being furnished.
