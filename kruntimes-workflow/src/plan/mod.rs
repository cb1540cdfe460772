//! The turn of a WorkflowRun: load → [`calculate`] → apply → [`merge`] → patch.
//!
//! [`calculate`] derives the status from what is observed and picks one action;
//! [`merge`] folds in what the action brought about. Both are pure and total.
//!
//! ```text
//! let step = calculate(&state); // again with what `step.needs` asks for
//! let outcomes = shell.apply(&step.action)?; // an error patches nothing (W-61)
//! shell.patch(merge(step.desired, &outcomes))?;
//! ```
//!
//! What a calculation could not do without is in `step.needs`; the caller adds it
//! to the state and calculates again, until nothing is needed (W-183).

mod action;
mod action_call;
mod artifacts;
mod budget;
mod call;
mod cancel;
mod children;
mod conditions;
mod derive;
mod engine;
mod environment;
mod existing;
mod initialize;
pub mod message;
mod observe;
mod outputs;
mod rules;
mod run_spec;
mod scopes;
mod start;
mod state;
mod turn;
mod workspace;

#[cfg(test)]
mod tests;

pub use action::{
    Action, ChildNames, Initialize, Need, Outcome, Stage, StartCall, StartStep, Step, StepKey,
    Targets,
};
pub use engine::{Compiled, Engine, Observation, Turn, Unfit};
pub use existing::{Controller, Existing, Verdict, judge, judge_call, judge_workspace};
pub use message::Reason;
pub use state::{CallValidation, Called, Child, JobWorkspace, Ownership, Policy, State, Workspace};
pub use turn::{calculate, merge};
pub use workspace::EnsureWorkspace;
