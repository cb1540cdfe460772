//! Tests for embedders: every order of completions and every crash of one definition.
//!
//! A [`Script`] says how each step ends. [`Explorer`] tries every order in which
//! that can happen, with a controller that may die after any single write, and
//! reports the first [`Violation`] with the way that leads to it:
//!
//! ```
//! use kruntimes_workflow::testing::{a_job, jobs};
//! use kruntimes_workflow::testkit::{Explorer, Script};
//!
//! let diamond = jobs([
//!     ("a", a_job()),
//!     ("l", a_job().needs(&["a"])),
//!     ("r", a_job().needs(&["a"])),
//!     ("z", a_job().needs(&["l", "r"])),
//! ]);
//! let script = Script::default().fails("l/s");
//! let explored = Explorer::new(diamond, script).explore().unwrap();
//! assert_eq!(explored.status.phase.as_str(), "Failed");
//! assert!(explored.worlds > 20);
//! ```

pub mod conformance;
mod explorer;
mod script;
#[cfg(test)]
mod tests;
mod violation;
mod world;

pub use explorer::{Explored, Explorer};
pub use script::Script;
pub use violation::{Rule, Violation};
