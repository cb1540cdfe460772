//! Many waiting Runs planned against one picture of the world.

mod apply;
mod fleet;
mod order;
mod plan;
mod world;

pub use apply::{Applied, reserve_plan};
pub use fleet::Fleet;
pub use plan::{BatchPlan, Candidate, Limits, Outcome, Planned, plan_batch};
