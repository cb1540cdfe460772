//! The life of one Run: which status each event leads to, as pure functions.
