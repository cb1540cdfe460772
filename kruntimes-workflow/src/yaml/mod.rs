//! Definitions as YAML: every mistake with its line and column.
//!
//! [`read`] turns a file of one or several documents into typed definitions
//! without any schema; [`compose`] is the layer below it, for readers that
//! know other kinds of objects. Scalars in text places are the text as
//! written, `needs: build` is a list of one, a name that stands twice is an
//! error.

mod compose;
mod decode;
mod definition;
mod extension;
mod finding;
mod node;
mod place;
mod source;

pub use compose::{Composed, compose};
pub use definition::{Definition, Named, read, read_with};
pub use finding::{Finding, Severity, has_errors};
pub use node::{Content, Key, Located, Node, Segment};
pub use place::{expression_at, expression_span, path};
pub use source::{Place, Source};
