//! The WorkflowRun controller: carries out the turns that `kruntimes_workflow::plan` decides.
//!
//! One reconcile is load → calculate → apply → patch. A terminal Run wakes its
//! WorkflowRun through its owner reference, and the create of the next Run
//! follows in the same reconcile: there is no timer on that path. Nothing
//! needed for progress lives only in memory; a new instance continues from
//! labels and status.

mod apply;
mod call;
mod child;
mod controller;
mod events;
mod group;
mod load;
mod share;

pub use controller::{Config, Shared, run};
pub use events::REASON_SNAPSHOT_INVALID;
pub use kruntimes_workflow::extend::Extensions;
pub use kruntimes_workflow::plan::Policy;
