//! The scheduler of a cluster: watches Runs and Runtime Pods, decides with
//! `kruntimes-sched`, and writes one status patch per bind.
//!
//! [`run`] is the whole scheduler with the default plugins; [`Scheduler`] takes
//! other plugins and a metrics [`Recorder`]. An operator that mounts scheduling
//! into its own process can also use the pieces: [`seen`] turns objects into
//! what the pure crate decides on, [`load`] makes the snapshot of a cycle of
//! them, [`events`] says which Runs an event wakes, [`status`] holds the status
//! writes as functions, and [`Writer`] binds and writes. What labels, conditions
//! and kinds are called is the value [`Names`] (S-157).
//!
//! Recorder, clock and logger come from outside (S-156): nobody listens to a
//! [`NoRecorder`], the [`Clock`] is an argument, and what is logged through
//! `tracing` goes to the subscriber of whoever polls the future, or nowhere.
//!
//! Runs of the API have neither priority nor group, so the shell places by age
//! and alone; a [`Profile`] can find both in labels.
//!
//! **Invariant:** exactly one planner is active per cluster (S-124). Leader
//! election is up to the caller: run it inside [`crate::lease::lead`].
//!
//! **Invariant:** nothing outlives the future of [`run`]. Dropping it stops
//! every watch and worker; a place that was reserved and not yet written down
//! is given up with it.

mod decide;
pub mod events;
mod intents;
mod line;
pub mod load;
mod metrics;
mod names;
mod permission;
mod pools;
mod recorder;
pub mod seen;
mod shell;
pub mod status;
mod turn;
mod wakes;
mod writer;

use std::sync::Arc;

use kruntimes_core::duration::Duration;
use kruntimes_sched::plugins::{RuntimePodAvailability, standard_with};
use kruntimes_sched::{HEARTBEAT_LIMIT, Profile, ProfileError};
use kube::Client;

pub use intents::{IntentError, NoPerformer, Performer};
pub use metrics::{Metrics, RUNTIMES_MAX};
pub use names::Names;
pub use recorder::{NoRecorder, Outcome, Recorder, Source, Stage};
pub use writer::{WriteError, Writer, Written};

use crate::clock::Clock;
use shell::Shell;

/// Wait before an unplaceable Run is looked at again without any event (S-28).
pub const REEXAMINE_AFTER: std::time::Duration = std::time::Duration::from_secs(30);

/// What the scheduler is told at start.
#[derive(Clone, Debug)]
pub struct Config {
    /// Namespace to serve; all when absent.
    pub namespace: Option<String>,
    /// Age from which the heartbeat of a Pod is stale; not positive means 15 s.
    pub heartbeat_staleness: Duration,
    /// Writes in flight at once.
    pub workers: usize,
    /// What things are called in the cluster.
    pub names: Names,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            namespace: None,
            heartbeat_staleness: HEARTBEAT_LIMIT,
            workers: 8,
            names: Names::default(),
        }
    }
}

impl Config {
    /// Returns the staleness limit in effect.
    fn heartbeat_limit(&self) -> Duration {
        if self.heartbeat_staleness.is_positive() {
            self.heartbeat_staleness
        } else {
            HEARTBEAT_LIMIT
        }
    }
}

/// Why the scheduler cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The plugins do not form a profile. Repeating will not help.
    #[error("the scheduling profile is invalid")]
    Profile(#[from] ProfileError),
}

/// Schedules with the default plugins, for ever.
///
/// # Errors
///
/// Returns an error when the scheduler cannot start; once it runs, it does not end.
pub async fn run(client: Client, config: Config, clock: Clock) -> Result<(), Error> {
    let scheduler = Scheduler::new(client, config, clock)?;
    Box::pin(scheduler.run()).await;
    Ok(())
}

/// A scheduler that is about to start.
pub struct Scheduler {
    shell: Shell,
}

impl Scheduler {
    /// Prepares a scheduler with the default plugins and without metrics.
    ///
    /// # Errors
    ///
    /// Returns an error when the default plugins do not form a profile with this configuration.
    pub fn new(client: Client, config: Config, clock: Clock) -> Result<Self, Error> {
        let availability = RuntimePodAvailability::new(config.heartbeat_staleness);
        let profile = standard_with(availability).explain(false).build()?;
        Ok(Self {
            shell: Shell::new(client, config, clock, profile),
        })
    }

    /// Uses other plugins.
    ///
    /// Every extension point is served. Runs wait in the order of QueueSort,
    /// where there is one, and in that of their arrival otherwise. Intents are
    /// left to a [`Performer`].
    pub fn profile(mut self, profile: Profile) -> Self {
        self.shell.use_profile(profile);
        self
    }

    /// Has the intents of plugins performed by `performer`; nobody performs them otherwise.
    pub fn performer(mut self, performer: Arc<dyn Performer>) -> Self {
        self.shell.performer = performer;
        self
    }

    /// Reports what happens to `recorder`.
    pub fn recorder(mut self, recorder: Arc<dyn Recorder>) -> Self {
        self.shell.recorder = recorder;
        self
    }

    /// Schedules for ever. Dropping the future stops everything.
    pub async fn run(self) {
        Box::pin(self.shell.run()).await;
    }
}
