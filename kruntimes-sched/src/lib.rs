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
#![deny(clippy::float_arithmetic)]

pub mod batch;
mod book;
mod builder;
mod bundled;
mod calculate;
mod config;
#[cfg(feature = "conformance")]
pub mod conformance;
mod decision;
mod event;
mod exact;
mod explain;
mod filtering;
mod fnv;
mod gate;
mod identity;
mod occupancy;
mod placing;
mod plugin;
pub mod plugins;
mod pod;
mod post_filter;
mod profile;
mod profiles;
mod queueing;
mod record;
mod reserve;
mod room;
mod run;
mod scoring;
mod shared;
mod snapshot;
#[cfg(feature = "testing")]
pub mod testing;
mod waiting;
mod workspace;

pub use book::{Book, Observation, RunState, Taken, View, Violation};
pub use builder::{ProfileBuilder, ProfileError};
pub use bundled::{Bundled, BundledPlugin};
pub use calculate::calculate;
pub use config::{PluginSpec, ProfileSpec, Registry};
pub use decision::{Action, CycleError, Decision, Explanation, PluginScore, PodReport, Rejections};
pub use event::{Event, EventKind, Hint};
pub use explain::{Answer, explain};
pub use gate::{Gate, Waiting, gate};
pub use identity::{
    GroupKey, Namespace, PodName, PodUid, ProfileName, RunName, RunUid, RuntimeName, WorkspaceName,
};
pub use occupancy::{Hold, Occupancy, Origin};
pub use placing::{
    Bind, Binding, Intent, Permission, Permit, Placement, PostBind, PreBind, Question, bind,
    post_bind, pre_bind,
};
pub use plugin::{
    Admission, Attempt, Broken, Check, Filter, Invalid, PreFilter, PrepareError, Prepared, Reason,
    Refused, Reserve, Score, Scored, Scorer, Scoring, Verdict,
};
pub use pod::{HEARTBEAT_LIMIT, Heartbeat, Place, Pod};
pub use post_filter::{Nomination, PostFilter, Trial, Victim};
pub use profile::{Point, Profile};
pub use profiles::Profiles;
pub use queueing::{Admittance, Held, PreEnqueue, QueueSort, Splitter};
pub use record::{Differs, Recording};
pub use reserve::{ReserveError, reserve, unreserve};
pub use room::{Permitted, Waiter, WaitingRoom, permit};
pub use run::{Labels, Placeable, Run};
pub use snapshot::{Nominated, PodState, Snapshot};
pub use workspace::Workspace;
