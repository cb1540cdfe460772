//! Placeholder of kruntimes-sched; the room is being furnished.
