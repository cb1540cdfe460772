//! Server-side apply.

#![expect(dead_code, reason = "the algorithms over this table follow")]

pub(crate) mod keys;
