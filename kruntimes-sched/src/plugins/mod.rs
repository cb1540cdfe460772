//! The plugins that come with the scheduler, one file each.

mod availability;
mod condition;
mod expression;
mod gang;
mod least_loaded;
mod preemption;
mod preferred_run_affinity;
mod run_affinity;
mod term;
mod workspace;

pub(crate) use availability::Outlook;
pub use availability::{RUNTIME_POD_UNAVAILABLE, RuntimePodAvailability};
pub use condition::ExpressionError;
pub use expression::Expression;
pub use gang::Gang;
pub use least_loaded::LeastLoaded;
pub use preemption::Preemption;
pub use preferred_run_affinity::{PreferredRunAffinity, by_maximum};
pub use run_affinity::{RunAffinity, UNSATISFIED_RUN_AFFINITY, UNSATISFIED_RUN_ANTI_AFFINITY};
pub(crate) use term::{Direction, Term, compile};
pub use workspace::Workspace;
pub(crate) use workspace::{BOUND_POD_MISMATCH, Rule};

use crate::builder::ProfileBuilder;
use crate::profile::Profile;

/// Starts a profile from the default plugins in their default order (S-45).
pub fn standard() -> ProfileBuilder {
    standard_with(RuntimePodAvailability::default())
}

/// As [`standard`], with a configured availability test.
pub fn standard_with(availability: RuntimePodAvailability) -> ProfileBuilder {
    Profile::builder()
        .filter(Workspace::default())
        .filter(availability)
        .filter(RunAffinity)
        .score(1, PreferredRunAffinity)
        .score(1, LeastLoaded)
        .reserve(availability)
        .pre_bind(Workspace::default())
}
