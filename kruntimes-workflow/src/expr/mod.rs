//! The expression language: `${{ inputs.x }}`, `${{ steps.s.outputs.k }}`,
//! `${{ jobs.j.outputs.k }}` and literals.
//!
//! Substitution only: no operators, no functions, no access to anything but
//! the [`Scope`] handed in. A substituted value is data and is never scanned
//! again (W-26).
//!
//! ```
//! use kruntimes_workflow::expr::{Scope, evaluate};
//!
//! let inputs = [("who".to_owned(), "${{ you }}".to_owned())].into();
//! let scope = Scope { inputs: Some(&inputs), ..Scope::default() };
//! assert_eq!(evaluate("hello ${{ inputs.who }}", &scope).unwrap(), "hello ${{ you }}");
//! ```

mod check;
mod error;
mod evaluate;
mod extra;
mod scan;

pub use check::{Known, Names, check};
pub use error::{Error, ErrorKind};
pub(crate) use evaluate::body as evaluate_body;
pub use evaluate::{Scope, Size, Source, evaluate, measure};
pub use extra::{Contexts, Function};
pub use scan::{Body, Segment, Segments, Target, segments};
