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
//! # Extension points
//!
//! A [`Profile`] lists plugins per point. Start from [`plugins::standard`] or
//! from nothing; every point does nothing unless a plugin is there. A panic of
//! a plugin is contained at every one of them.
//!
//! | Point | Trait | Asked | Answers | By default |
//! | --- | --- | --- | --- | --- |
//! | QueueSort | [`QueueSort`] | when waiting Runs are ordered | which of two goes first | priority, age, UID |
//! | Splitter | [`Splitter`] | before a batch is ordered | whose Run it is, and the tenant's share | one tenant |
//! | PreEnqueue | [`PreEnqueue`] | before a Run enters the queue | admit, or hold for a reason | admit |
//! | EventHint | `events` and `hint` of [`PreEnqueue`], [`PreFilter`], [`Filter`] | on each event | whether a Run it rejected is worth a cycle | every event is |
//! | PreFilter | [`PreFilter`] | once per cycle | all Pods, some, skip, or invalid | all |
//! | Filter | [`Filter`] | prepared once, asked per Pod | fits, or a declared reason | `Workspace`, `RuntimePodAvailability`, `RunAffinity` |
//! | PostFilter | [`PostFilter`] | when nothing fits | a nomination, or nothing | nothing; [`plugins::Preemption`] |
//! | PreScore | [`Scorer::pre_score`] | once, with the candidates | each, or skip | each |
//! | Score, Normalize | [`Score`], [`Scorer`] | per candidate, then all at once | integers; 0 to 100 after normalization | `PreferredRunAffinity`, `LeastLoaded` |
//! | Reserve | [`Reserve`] | after the choice | taken, or refused; undone in reverse order | `RuntimePodAvailability` again |
//! | Permit | [`Permit`] | after the reserve | allow, deny, or wait until | allow; [`plugins::Gang`] |
//! | PreBind | [`PreBind`] | before the write | intents for the adapter | `Workspace` |
//! | Bind | [`Bind`] | the write | skip, done, write, or other intents | write |
//! | PostBind | [`PostBind`] | after success | nothing | nothing |
//!
//! [`calculate`] covers PreFilter to Score, [`reserve`] and [`unreserve`] the
//! reservation, [`permit`] with a [`WaitingRoom`] the permission, [`pre_bind`],
//! [`bind`] and [`post_bind`] the rest. [`batch`] plans many Runs at once,
//! [`explain`] puts a decision into words, [`Recording`] replays it, and
//! [`Registry`] builds profiles out of configuration.
//!
//! # Features
//!
//! - `testing`: fluent builders of runs, pods and snapshots for plugin tests.
//! - `conformance`: checks of the specification for profiles and books of one's own.
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
mod funnel;
mod gate;
mod identity;
mod index;
mod line;
mod load;
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
mod register;
mod reserve;
mod room;
mod run;
mod scoring;
mod shared;
mod sites;
mod snapshot;
mod space;
#[cfg(feature = "testing")]
pub mod testing;
mod trail;
mod vocabulary;
mod waiting;
mod workspace;

/// The guide's code is compiled and run with the documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../../docs/guides/custom-scheduler-plugin.md")]
struct Guide;

pub use book::{Book, Observation, RunState, Taken, View, Violation};
pub use builder::{ProfileBuilder, ProfileError};
pub use bundled::{Bundled, BundledPlugin};
pub use calculate::calculate;
pub use config::{PluginSpec, ProfileSpec, Registry};
pub use decision::{Action, CycleError, Decision, Explanation, PluginScore, PodReport, Rejections};
pub use event::{Event, EventKind, Hint};
pub use explain::{Answer, explain};
pub use funnel::{Stage, Supply, TermOutlook, funnel, supplies, term_outlooks};
pub use gate::{Gate, Waiting, gate};
pub use identity::{
    GroupKey, Namespace, PodName, PodUid, PoolKey, ProfileName, RunKey, RunName, RunUid,
    RuntimeName, WorkspaceName,
};
pub use index::Index;
pub use line::{Handout, Line, Precedence, Ticket};
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
pub use run::{Labels, Placeable, Run, RunKind};
pub use snapshot::{Nominated, PodState, Snapshot};
pub use vocabulary::Vocabulary;
pub use workspace::Workspace;
