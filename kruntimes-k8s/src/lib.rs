//! Placeholder of kruntimes-k8s; the room is being furnished.
