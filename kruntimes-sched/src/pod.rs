//! The place.

use std::sync::Arc;

use jiff::Timestamp;
use kruntimes_core::duration::Duration;
use kruntimes_core::resources::{self, Amounts};
use serde::{Deserialize, Serialize};

use crate::identity::{PodName, PodUid};
use crate::run::Labels;
use crate::shared;

/// Age from which a heartbeat is stale unless configured otherwise.
pub const HEARTBEAT_LIMIT: Duration = Duration::from_secs(15);

/// Sign of life of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Heartbeat {
    /// The place gives no signs of life and needs none.
    Unneeded,
    /// A sign of life is expected, and there is none or a bad one.
    Missing,
    /// Last good sign of life.
    At(Timestamp),
}

impl Heartbeat {
    /// Tells whether the sign of life counts at `now`: exactly at the limit, and in the future, it does (S-52).
    pub fn is_fresh(self, now: Timestamp, limit: Duration) -> bool {
        match self {
            Self::Unneeded => true,
            Self::Missing => false,
            Self::At(probe) => limit.after(probe) >= now,
        }
    }
}

/// What a caller's own type must say to be a place (S-145).
///
/// Only identity is required.
pub trait Place {
    /// Name within the namespace; breaks ties.
    fn name(&self) -> &str;
    /// Identity that is never used again.
    fn uid(&self) -> &str;

    /// Labels.
    fn labels(&self) -> Labels {
        Labels::new()
    }

    /// What it offers; two `runs` unless said otherwise.
    fn capacity(&self) -> Amounts {
        resources::capacity(std::iter::empty())
    }

    /// Whether it runs, is ready and is not on its way out.
    fn ready(&self) -> bool {
        true
    }

    /// Its last sign of life.
    fn heartbeat(&self) -> Heartbeat {
        Heartbeat::Unneeded
    }
}

/// A Runtime Pod as plugins see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pod {
    /// Name within the namespace.
    pub name: PodName,
    /// Identity that is never used again.
    pub uid: PodUid,
    /// Labels.
    #[serde(with = "shared")]
    pub labels: Arc<Labels>,
    /// What it offers.
    #[serde(with = "shared")]
    pub capacity: Arc<Amounts>,
    /// Whether it runs, is ready and is not being deleted.
    pub ready: bool,
    /// Its last sign of life.
    pub heartbeat: Heartbeat,
}

impl Pod {
    /// Makes a ready Pod that offers two `runs` and needs no heartbeat.
    pub fn new(name: impl Into<PodName>, uid: impl Into<PodUid>) -> Self {
        Self {
            name: name.into(),
            uid: uid.into(),
            labels: Arc::default(),
            capacity: Arc::new(resources::capacity(std::iter::empty())),
            ready: true,
            heartbeat: Heartbeat::Unneeded,
        }
    }

    /// Reads a caller's own type.
    pub fn of(place: &impl Place) -> Self {
        Self {
            name: place.name().into(),
            uid: place.uid().into(),
            labels: Arc::new(place.labels()),
            capacity: Arc::new(place.capacity()),
            ready: place.ready(),
            heartbeat: place.heartbeat(),
        }
    }
}
