//! Bash.
