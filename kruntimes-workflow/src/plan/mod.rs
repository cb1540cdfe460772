//! The turn of a WorkflowRun: load → [`calculate`] → apply → [`merge`] → patch.
//!
//! [`calculate`] derives the status from what is observed and picks one action;
//! [`merge`] folds in what the action brought about. Both are pure and total.
//!
//! ```text
//! let step = calculate(&state);         // again with what `step.needs` asks for
//! let outcomes = shell.apply(&step.action)?; // an error patches nothing (W-61)
//! shell.patch(merge(step.desired, &outcomes))?;
//! ```
//!
//! Calls of Workflows, Actions, artifact imports and job workspaces are refused
//! by name at initialization; keys, snapshot and action values have room for them.

mod action;
mod budget;
mod cancel;
mod children;
mod derive;
mod environment;
mod existing;
mod initialize;
pub mod message;
mod outputs;
mod scopes;
mod start;
mod state;
mod turn;

#[cfg(test)]
mod tests;

pub use action::{Action, Initialize, Need, Outcome, Stage, StartStep, Step, StepKey};
pub use existing::{Controller, Existing, Verdict, judge};
pub use message::Reason;
pub use state::{Child, JobWorkspace, Ownership, Policy, State};
pub use turn::{calculate, merge};
