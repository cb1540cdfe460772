//! Ready, alive, and room for the whole request.

use jiff::Timestamp;
use kruntimes_core::duration::Duration;

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
#[derive(Clone, Copy, Debug)]
pub struct RuntimePodAvailability {
    limit: Duration,
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
        }
    }

    /// Tells whether a Pod is ready and gives fresh signs of life, whatever it holds.
    pub fn is_alive(&self, pod: &Pod, now: Timestamp) -> bool {
        pod.ready && pod.heartbeat.is_fresh(now, self.limit)
    }

    fn is_available(self, run: &Run, state: &PodState, now: Timestamp) -> bool {
        self.is_alive(&state.pod, now) && state.occupancy.admits(run, &state.pod.capacity)
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
            if self.is_available(run, state, snapshot.now()) {
                Verdict::Fits
            } else {
                Verdict::Rejects(RUNTIME_POD_UNAVAILABLE)
            }
        })))
    }

    fn explain(&self, snapshot: &Snapshot, run: &Run) -> Option<&'static str> {
        if !snapshot.has_runtime() {
            return Some("RuntimeNotFound");
        }
        let pods = snapshot.pods().iter().map(|state| &state.pod);
        if !pods.clone().any(|pod| pod.ready) {
            return Some("NoReadyPods");
        }
        pods.clone()
            .find(|pod| self.is_alive(pod, snapshot.now()))
            .map_or(Some("HeartbeatStale"), |_| {
                let exceeds_every_pod = run.request.iter().any(|(resource, asked)| {
                    pods.clone()
                        .filter(|pod| self.is_alive(pod, snapshot.now()))
                        .all(|pod| pod.capacity.get(resource).is_none_or(|has| has < asked))
                });
                exceeds_every_pod.then_some("RequestExceedsCapacity")
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
