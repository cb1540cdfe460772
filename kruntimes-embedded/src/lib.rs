//! Placeholder of kruntimes-embedded; the room is being furnished.
