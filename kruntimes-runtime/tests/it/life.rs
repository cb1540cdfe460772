//! Life.
