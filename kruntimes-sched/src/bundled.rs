//! The plugins of this crate as data.

use std::any::Any;

use serde::{Deserialize, Serialize};

use crate::plugins::{
    Gang, LeastLoaded, Preemption, PreferredRunAffinity, RunAffinity, RuntimePodAvailability,
    Workspace,
};
use crate::profile::Point;

/// A plugin that comes with this crate, with its arguments.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Bundled {
    /// Workspaces.
    Workspace(Workspace),
    /// Readiness, signs of life and room.
    RuntimePodAvailability(RuntimePodAvailability),
    /// Required affinity.
    RunAffinity,
    /// Preferred affinity.
    PreferredRunAffinity,
    /// The emptiest Pod first.
    LeastLoaded,
    /// Room by eviction.
    Preemption(Preemption),
    /// All or none.
    Gang(Gang),
}

impl Bundled {
    /// Recognizes a plugin of this crate.
    pub(crate) fn of(plugin: &dyn Any) -> Option<Self> {
        if let Some(found) = plugin.downcast_ref::<Workspace>() {
            return Some(Self::Workspace(*found));
        }
        if let Some(found) = plugin.downcast_ref::<RuntimePodAvailability>() {
            return Some(Self::RuntimePodAvailability(*found));
        }
        if let Some(found) = plugin.downcast_ref::<Preemption>() {
            return Some(Self::Preemption(*found));
        }
        if let Some(found) = plugin.downcast_ref::<Gang>() {
            return Some(Self::Gang(found.clone()));
        }
        if plugin.is::<RunAffinity>() {
            return Some(Self::RunAffinity);
        }
        if plugin.is::<PreferredRunAffinity>() {
            return Some(Self::PreferredRunAffinity);
        }
        plugin.is::<LeastLoaded>().then_some(Self::LeastLoaded)
    }
}

/// A bundled plugin at its extension point.
#[derive(Clone, Debug, PartialEq)]
pub struct BundledPlugin {
    /// Where it is asked.
    pub point: Point,
    /// Its weight; one where there is none.
    pub weight: i64,
    /// The plugin and its arguments.
    pub plugin: Bundled,
}
