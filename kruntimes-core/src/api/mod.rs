//! Data types of the API group `kruntimes.io`, version `v1alpha1`.
//!
//! These are the shapes on the wire: optional fields, absent and zero read
//! alike, unknown fields ignored. What a value means is judged elsewhere.
#![cfg_attr(
    feature = "crd",
    allow(
        clippy::duplicated_attributes,
        reason = "printer columns share their type, and the lint compares attribute arguments alone"
    )
)]

mod action;
mod artifact;
mod extension;
mod run;
mod run_status;
mod runtime;
mod workflow;
mod workflow_run;
mod workspace;

pub use action::*;
pub use artifact::*;
pub use extension::*;
pub use run::*;
pub use run_status::*;
pub use runtime::*;
pub use workflow::*;
pub use workflow_run::*;
pub use workspace::*;

/// API group of every kind.
pub const GROUP: &str = "kruntimes.io";
/// The one served and stored version.
pub const VERSION: &str = "v1alpha1";
/// Value of `apiVersion` in manifests.
pub const API_VERSION: &str = "kruntimes.io/v1alpha1";

pub use crate::condition::Condition;

/// Tells whether a value equals its default, for fields that absent and zero share.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
