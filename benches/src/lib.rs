//! The benches of kruntimes.
