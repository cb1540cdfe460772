//! What the scheduler counts (scheduler, section 14).

use std::fmt::Debug;
use std::time::Duration;

/// Which event woke waiting Runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// A Runtime Pod came, went or changed its scheduling state.
    RuntimePod,
    /// A Run gave up capacity.
    CapacityReleased,
    /// A PersistentWorkspace came, went or changed.
    Workspace,
    /// A Run became active that waiting Runs must be with.
    AffinityTarget,
}

impl Source {
    /// Returns the label value of the metric.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RuntimePod => "runtime_pod",
            Self::CapacityReleased => "capacity_released",
            Self::Workspace => "workspace",
            Self::AffinityTarget => "affinity_target",
        }
    }
}

/// Where a reservation was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// The place was taken between choice and reserve.
    Reserve,
    /// The Run changed between read and write.
    Bind,
}

impl Stage {
    /// Returns the label value of the metric.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Reserve => "reserve",
            Self::Bind => "bind",
        }
    }
}

/// How a dequeue ended, for `sync_total`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// The Run was bound.
    Scheduled,
    /// The Run waits.
    NoPods,
    /// The Run was ended because its selectors are invalid.
    SelectionError,
}

impl Outcome {
    /// Returns the label value of the metric.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Scheduled => "scheduled",
            Self::NoPods => "no_pods",
            Self::SelectionError => "selection_error",
        }
    }
}

/// Takes in what happens. Every method does nothing unless implemented (S-123, S-156).
pub trait Recorder: Debug + Send + Sync {
    /// A cycle of a Run of `runtime` ended like this.
    fn synced(&self, _runtime: &str, _outcome: Outcome) {}

    /// A dequeue that passed the gates took this long, whatever its end.
    fn sync_duration(&self, _runtime: &str, _took: Duration) {}

    /// A Run waited this long from creation to assignment.
    fn queue_duration(&self, _runtime: &str, _waited: Duration) {}

    /// A plugin rejected this many Pods for a declared reason.
    fn filter_rejections(&self, _plugin: &'static str, _reason: &'static str, _pods: u64) {}

    /// A reservation was lost.
    fn reservation_conflict(&self, _stage: Stage) {}

    /// An event woke this many Runs, before the queue drops repeated keys; never zero (S-120).
    fn wakeups(&self, _source: Source, _runs: usize) {}
}

/// Records nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoRecorder;

impl Recorder for NoRecorder {}
