//! The plugins that come with the scheduler, one file each.

mod availability;
mod least_loaded;
mod unsupported;

pub use availability::{RUNTIME_POD_UNAVAILABLE, RuntimePodAvailability};
pub use least_loaded::LeastLoaded;
pub use unsupported::Unsupported;

use crate::profile::{Profile, ProfileBuilder};

/// Starts a profile from the default plugins in their default order (S-45).
///
/// Workspaces and affinity between Runs have no plugin yet; Runs that ask for
/// them wait (see [`Unsupported`]).
pub fn standard() -> ProfileBuilder {
    standard_with(RuntimePodAvailability::default())
}

/// As [`standard`], with a configured availability test.
pub fn standard_with(availability: RuntimePodAvailability) -> ProfileBuilder {
    Profile::builder()
        .filter(Unsupported)
        .filter(availability)
        .score(1, LeastLoaded)
        .reserve(availability)
}
