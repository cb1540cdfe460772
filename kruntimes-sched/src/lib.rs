//! Which place a Run goes to, decided as a value.
//!
//! This crate is pure: no clock, no I/O, no randomness, no Kubernetes, no
//! async runtime. A scheduler built on it has three steps:
//!
//! 1. load: keep a [`Book`] of what holds capacity and build a [`Snapshot`];
//! 2. calculate: [`calculate`] asks the plugins of a [`Profile`] and returns a [`Decision`];
//! 3. apply: [`reserve`] takes the place in the book, the caller writes it down
//!    wherever placements live, and shows every change to the book.
//!
//! Own types are scheduled by implementing [`Placeable`] and [`Place`].
//!
//! ```
//! use jiff::Timestamp;
//! use kruntimes_sched::{Action, Book, Pod, Profile, Run, Snapshot, calculate, plugins};
//!
//! let run = Run::new("default", "job", "uid-1");
//! let pods = [Pod::new("small", "p1"), Pod::new("tall", "p2")];
//! let snapshot = Snapshot::new(Timestamp::UNIX_EPOCH, pods, Book::new().view("default"));
//! let profile = plugins::standard().build()?;
//! let decision = calculate(&snapshot, &run, &profile);
//! assert!(matches!(decision.action, Action::Bind { pod, .. } if pod.as_str() == "small"));
//! # Ok::<(), kruntimes_sched::ProfileError>(())
//! ```
//!
//! # Features
//!
//! - `testing`: fluent builders of runs, pods and snapshots for plugin tests.
#![warn(clippy::wildcard_enum_match_arm)]

mod book;
mod calculate;
mod decision;
mod exact;
mod gate;
mod identity;
mod occupancy;
mod plugin;
pub mod plugins;
mod pod;
mod profile;
mod reserve;
mod run;
mod snapshot;
#[cfg(feature = "testing")]
pub mod testing;
mod waiting;

pub use book::{Book, Observation, RunState, Taken, View, Violation};
pub use calculate::calculate;
pub use decision::{Action, CycleError, Decision, Explanation, PluginScore, PodReport, Rejections};
pub use gate::{Gate, Waiting, gate};
pub use identity::{Namespace, PodName, PodUid, RunName, RunUid, RuntimeName, WorkspaceName};
pub use occupancy::{Hold, Occupancy, Origin};
pub use plugin::{
    Admission, Attempt, Broken, Check, Filter, Invalid, PreFilter, PrepareError, Prepared, Reason,
    Refused, Reserve, Score, Scored, Scorer, Verdict,
};
pub use pod::{HEARTBEAT_LIMIT, Heartbeat, Place, Pod};
pub use profile::{Profile, ProfileBuilder, ProfileError};
pub use reserve::{ReserveError, reserve, unreserve};
pub use run::{Labels, Placeable, Run};
pub use snapshot::{PodState, Snapshot};
