//! Ready, alive, and room for the whole request.

use jiff::Timestamp;
use kruntimes_core::duration::Duration;
use kruntimes_core::resources;
use serde::{Deserialize, Serialize};

use crate::event::EventKind;
use crate::plugin::{Attempt, Filter, PrepareError, Prepared, Reason, Refused, Reserve, Verdict};
use crate::pod::{HEARTBEAT_LIMIT, Pod};
use crate::run::Run;
use crate::snapshot::{PodState, Snapshot};

/// Reason of every rejection by [`RuntimePodAvailability`].
pub const RUNTIME_POD_UNAVAILABLE: &str = "RuntimePodUnavailable";

const REASONS: &[Reason] = &[Reason::new(RUNTIME_POD_UNAVAILABLE)];

/// Rejects Pods that are not ready, give no fresh sign of life, or have no room (S-52, S-54).
///
/// The same test is repeated when the place is reserved (S-77).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct RuntimePodAvailability {
    #[serde(rename = "heartbeatLimit")]
    limit: Duration,
    count_nominated: bool,
}

impl Default for RuntimePodAvailability {
    fn default() -> Self {
        Self::new(HEARTBEAT_LIMIT)
    }
}

impl RuntimePodAvailability {
    /// Sets the age from which a heartbeat is stale; a limit that is not positive means 15 s.
    pub fn new(heartbeat_limit: Duration) -> Self {
        Self {
            limit: if heartbeat_limit.is_positive() {
                heartbeat_limit
            } else {
                HEARTBEAT_LIMIT
            },
            count_nominated: false,
        }
    }

    /// Keeps the room free that is nominated to waiting Runs of higher priority (S-165).
    pub fn counting_nominated(mut self) -> Self {
        self.count_nominated = true;
        self
    }

    /// Returns the age from which a heartbeat is stale.
    pub fn heartbeat_limit(&self) -> Duration {
        // A limit that was read from a file may say anything.
        if self.limit.is_positive() {
            self.limit
        } else {
            HEARTBEAT_LIMIT
        }
    }

    /// Tells whether nominated room is kept free.
    pub(crate) fn counts_nominated(self) -> bool {
        self.count_nominated
    }

    /// Tells whether whoever is nominated for the Pod leaves room for the Run.
    fn leaves_room(self, snapshot: &Snapshot, run: &Run, state: &PodState) -> bool {
        if !self.count_nominated {
            return true;
        }
        let ahead = snapshot.nominated().iter().filter(|nominated| {
            nominated.pod == state.pod.name
                && nominated.run.uid != run.uid
                && nominated.run.priority > run.priority
                && !state.occupancy.has(&nominated.run.uid)
        });
        let mut usage = state.occupancy.usage_without(&run.uid).into_owned();
        for nominated in ahead {
            if run.exclusive || nominated.run.exclusive {
                return false;
            }
            resources::add(&mut usage, &nominated.run.request);
        }
        resources::fits(&run.request, &usage, &state.pod.capacity)
    }

    /// Tells whether a Pod is ready and gives fresh signs of life, whatever it holds.
    pub fn is_alive(&self, pod: &Pod, now: Timestamp) -> bool {
        pod.ready && pod.heartbeat.is_fresh(now, self.heartbeat_limit())
    }

    fn is_available(self, run: &Run, state: &PodState, now: Timestamp) -> bool {
        self.is_alive(&state.pod, now) && state.occupancy.admits(run, &state.pod.capacity)
    }
}

/// What is to be said about a pool as a whole.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outlook {
    /// Whether the pool's own object exists.
    pub(crate) runtime_exists: bool,
    /// Whether any Pod is ready.
    pub(crate) is_ready: bool,
    /// Whether any Pod is ready and gives fresh signs of life.
    pub(crate) is_alive: bool,
}

impl Outlook {
    /// Returns the condition reason; `exceeds` tells whether a resource exceeds every Pod that is alive (S-111).
    pub(crate) fn reason(self, exceeds: impl FnOnce() -> bool) -> Option<&'static str> {
        if !self.runtime_exists {
            Some("RuntimeNotFound")
        } else if !self.is_ready {
            Some("NoReadyPods")
        } else if !self.is_alive {
            Some("HeartbeatStale")
        } else {
            exceeds().then_some("RequestExceedsCapacity")
        }
    }
}

impl Filter for RuntimePodAvailability {
    fn name(&self) -> &'static str {
        "RuntimePodAvailability"
    }

    fn reasons(&self) -> &'static [Reason] {
        REASONS
    }

    fn prepare<'a>(
        &'a self,
        snapshot: &'a Snapshot,
        run: &'a Run,
    ) -> Result<Prepared<'a>, PrepareError> {
        Ok(Prepared::Check(Box::new(move |state| {
            if self.is_available(run, state, snapshot.now())
                && self.leaves_room(snapshot, run, state)
            {
                Verdict::Fits
            } else {
                Verdict::Rejects(RUNTIME_POD_UNAVAILABLE)
            }
        })))
    }

    fn events(&self) -> &'static [EventKind] {
        &[EventKind::PodChanged, EventKind::CapacityReleased]
    }

    fn explain(&self, snapshot: &Snapshot, run: &Run) -> Option<&'static str> {
        let pods = snapshot.pods().iter().map(|state| &state.pod);
        let alive = pods
            .clone()
            .filter(|pod| self.is_alive(pod, snapshot.now()));
        Outlook {
            runtime_exists: snapshot.has_runtime(),
            is_ready: pods.clone().any(|pod| pod.ready),
            is_alive: alive.clone().next().is_some(),
        }
        .reason(|| {
            run.request.iter().any(|(resource, asked)| {
                alive
                    .clone()
                    .all(|pod| pod.capacity.get(resource).is_none_or(|has| has < asked))
            })
        })
    }
}

impl Reserve for RuntimePodAvailability {
    fn name(&self) -> &'static str {
        "RuntimePodAvailability"
    }

    fn reserve(&self, attempt: &Attempt<'_>) -> Result<(), Refused> {
        if self.is_available(attempt.run, attempt.pod, attempt.now) {
            return Ok(());
        }
        Err(Refused(RUNTIME_POD_UNAVAILABLE))
    }
}
