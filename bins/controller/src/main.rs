//! Placeholder; the binary is being written.

fn main() {}
