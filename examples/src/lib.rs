//! The examples of kruntimes.
