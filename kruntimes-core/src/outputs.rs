//! The grammar of the outputs file (node, section 11; API reference, section 14).
