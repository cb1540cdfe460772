//! What a plugin implements.
//!
//! A plugin is an ordinary type that implements one or more of the traits of
//! the table in the crate documentation; those of a cycle are here. What it
//! learns about one Run it puts into the value its prepare step returns; that
//! value is asked once per Pod and dropped at the end of the cycle (S-151).
//! Plugins see the snapshot by shared reference only.

use std::collections::BTreeSet;

use jiff::Timestamp;

use crate::event::{Event, EventKind, Hint};
use crate::identity::PodName;
use crate::run::Run;
use crate::snapshot::{PodState, Snapshot};

/// A declared cause of rejection, and what waiting Runs are told about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reason {
    pub(crate) name: &'static str,
    pub(crate) message: Option<&'static str>,
    pub(crate) condition: Option<&'static str>,
    pub(crate) first: bool,
}

impl Reason {
    /// Declares a reason without words of its own: Runs are told that they wait for Pods.
    pub const fn new(name: &'static str) -> Self {
        Self {
            name,
            message: None,
            condition: None,
            first: false,
        }
    }

    /// Sets the waiting message; `{runtime}` and `{workspace}` become the Run's own names, quoted (S-113).
    pub const fn message(mut self, template: &'static str) -> Self {
        self.message = Some(template);
        self
    }

    /// Sets the condition reason that is shown when nothing is wrong with the pool itself (S-111).
    pub const fn condition(mut self, reason: &'static str) -> Self {
        self.condition = Some(reason);
        self.first = false;
        self
    }

    /// Sets the condition reason that is shown before anything that is wrong with the pool (S-111).
    pub const fn first_condition(mut self, reason: &'static str) -> Self {
        self.condition = Some(reason);
        self.first = true;
        self
    }

    /// Returns the name, which verdicts and metrics use.
    pub const fn name(&self) -> &'static str {
        self.name
    }
}

/// Data of the Run itself that no Pod can ever satisfy (S-40).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Invalid {
    /// Failure reason of the Run.
    pub reason: &'static str,
    /// What is wrong, for the author of the Run.
    pub message: String,
}

/// A fault of the plugin, not of the Run. The cycle is repeated and the Run is not touched (S-40).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Broken(
    /// What went wrong, for the operator.
    pub String,
);

/// Why a plugin cannot prepare for a Run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PrepareError {
    /// The Run can never be placed.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The plugin is at fault.
    #[error(transparent)]
    Broken(#[from] Broken),
}

/// What a [`PreFilter`] says about the pool as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Admission {
    /// Every Pod may be asked.
    All,
    /// Every Pod may be asked, and the filter of the same plugin has nothing to say about the Run.
    Skip,
    /// Only these Pods; the others are rejected for the reason. Several plugins intersect.
    Only {
        /// Pods that may be asked.
        pods: BTreeSet<PodName>,
        /// Declared reason of the others.
        reason: &'static str,
    },
}

/// Judges a Run once per cycle, before any Pod is looked at.
pub trait PreFilter: Send + Sync {
    /// Names the plugin in metrics and explanations.
    fn name(&self) -> &'static str;

    /// Declares every reason [`PreFilter::admit`] may give.
    fn reasons(&self) -> &'static [Reason] {
        &[]
    }

    /// Judges the Run's own data and narrows the pool.
    ///
    /// # Errors
    ///
    /// Returns an error when the Run can never be placed or the plugin is broken.
    fn admit(&self, snapshot: &Snapshot, run: &Run) -> Result<Admission, PrepareError>;

    /// Declares the kinds of events that can make a Run schedulable that this plugin rejected (S-163).
    fn events(&self) -> &'static [EventKind] {
        &EventKind::ALL
    }

    /// Tells whether one event of a declared kind can help a Run that this plugin rejected.
    ///
    /// Asked only about events of the Run's own pool or workspace.
    fn hint(&self, _event: &Event<'_>, _run: &Run) -> Hint {
        Hint::Wake
    }
}

/// What a filter says about one Pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The Pod will do.
    Fits,
    /// The Pod will not do, for a declared reason.
    Rejects(&'static str),
}

/// Asked once per Pod.
pub type Check<'a> = Box<dyn Fn(&PodState) -> Verdict + 'a>;

/// What a filter knows about a Run before it sees a Pod.
#[non_exhaustive]
pub enum Prepared<'a> {
    /// It depends on the Pod.
    Check(Check<'a>),
    /// No Pod will do, for a declared reason; said even when the pool is empty (S-50).
    Rejects(&'static str),
    /// The filter has nothing to say about this Run.
    Skip,
}

/// Removes Pods that will not do.
pub trait Filter: Send + Sync {
    /// Names the plugin in metrics and explanations.
    fn name(&self) -> &'static str;

    /// Declares every reason the filter may give, the most telling first.
    fn reasons(&self) -> &'static [Reason];

    /// Compiles what the filter needs to know about the Run, once per cycle (S-38).
    ///
    /// # Errors
    ///
    /// Returns an error when the Run can never be placed or the plugin is broken.
    fn prepare<'a>(
        &'a self,
        snapshot: &'a Snapshot,
        run: &'a Run,
    ) -> Result<Prepared<'a>, PrepareError>;

    /// Explains with a condition reason why the whole pool is of no use, if the filter knows (S-111).
    fn explain(&self, _snapshot: &Snapshot, _run: &Run) -> Option<&'static str> {
        None
    }

    /// Declares the kinds of events that can make a Run schedulable that this plugin rejected (S-163).
    fn events(&self) -> &'static [EventKind] {
        &EventKind::ALL
    }

    /// Tells whether one event of a declared kind can help a Run that this plugin rejected.
    ///
    /// Asked only about events of the Run's own pool or workspace.
    fn hint(&self, _event: &Event<'_>, _run: &Run) -> Hint {
        Hint::Wake
    }
}

/// A candidate and its score.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scored {
    /// The candidate.
    pub pod: PodName,
    /// Raw before, 0 to 100 after normalization.
    pub score: i64,
}

/// Whether a score plugin has anything to say about a Run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scoring {
    /// Every candidate is scored.
    Each,
    /// The plugin adds nothing to any total.
    Skip,
}

/// A score plugin prepared for one cycle.
pub trait Scorer {
    /// Looks at the candidates once, after all filters and before any score (PreScore).
    ///
    /// # Errors
    ///
    /// Returns an error when the plugin is broken; the cycle is repeated.
    fn pre_score(&mut self, _candidates: &[&PodState]) -> Result<Scoring, Broken> {
        Ok(Scoring::Each)
    }

    /// Scores one candidate.
    ///
    /// # Errors
    ///
    /// Returns an error when the plugin is broken; the cycle is repeated.
    fn score(&self, pod: &PodState) -> Result<i64, Broken>;

    /// Rewrites all raw scores at once, so that each is 0 to 100 (S-63).
    ///
    /// # Errors
    ///
    /// Returns an error when the plugin is broken; the cycle is repeated.
    fn normalize(&self, _scores: &mut [Scored]) -> Result<(), Broken> {
        Ok(())
    }
}

/// Ranks the candidates that are left.
pub trait Score: Send + Sync {
    /// Names the plugin in explanations.
    fn name(&self) -> &'static str;

    /// Compiles what the plugin needs to know about the Run, once per cycle and before any Pod is filtered.
    ///
    /// # Errors
    ///
    /// Returns an error when the Run can never be placed or the plugin is broken.
    fn prepare<'a>(
        &'a self,
        snapshot: &'a Snapshot,
        run: &'a Run,
    ) -> Result<Box<dyn Scorer + 'a>, PrepareError>;
}

/// A choice about to be reserved.
#[derive(Clone, Copy, Debug)]
pub struct Attempt<'a> {
    /// The Run.
    pub run: &'a Run,
    /// The chosen Pod as it is now, with what it holds now.
    pub pod: &'a PodState,
    /// The present instant.
    pub now: Timestamp,
}

/// A reserve that was refused. Waiting may help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused(
    /// Cause, in CamelCase.
    pub &'static str,
);

/// Takes something along with the place, or refuses.
pub trait Reserve: Send + Sync {
    /// Names the plugin in errors.
    fn name(&self) -> &'static str;

    /// Repeats the plugin's test against the present, or takes what goes with the place (S-77).
    ///
    /// # Errors
    ///
    /// Returns a refusal; what earlier plugins took is given back.
    fn reserve(&self, attempt: &Attempt<'_>) -> Result<(), Refused>;

    /// Gives back what [`Reserve::reserve`] took; called at most once per success (S-88).
    fn unreserve(&self, _run: &Run) {}
}
