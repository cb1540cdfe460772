//! Required affinity between Runs, with bootstrap of a cohort.

use crate::event::{Event, EventKind, Hint};
use crate::plugin::{Filter, Invalid, PrepareError, Prepared, Reason, Verdict};
use crate::run::Run;
use crate::snapshot::Snapshot;

use super::term::{Direction, Term, compile};

/// Reason of a Pod without the targets that a Run must be with.
pub const UNSATISFIED_RUN_AFFINITY: &str = "UnsatisfiedRunAffinity";
/// Reason of a Pod with targets that a Run must not be with.
pub const UNSATISFIED_RUN_ANTI_AFFINITY: &str = "UnsatisfiedRunAntiAffinity";

const REASONS: &[Reason] = &[
    Reason::new(UNSATISFIED_RUN_AFFINITY)
        .message(
            "waiting for available runtime pods satisfying required Run affinity for runtime {runtime}",
        )
        .condition(UNSATISFIED_RUN_AFFINITY),
    Reason::new(UNSATISFIED_RUN_ANTI_AFFINITY)
        .message(
            "waiting for available runtime pods satisfying required Run anti-affinity for runtime {runtime}",
        )
        .condition(UNSATISFIED_RUN_ANTI_AFFINITY),
];

/// Keeps Runs with the Runs they must be with, and away from those they must not be with (S-57, S-58).
///
/// Targets are Runs that hold capacity of the namespace, observed or assumed,
/// of any Runtime (S-55, S-61). A term without any target that the Run itself
/// satisfies is seeded by it: every Pod will do (S-100).
#[derive(Clone, Copy, Debug)]
pub struct RunAffinity;

impl RunAffinity {
    fn terms<'a>(
        direction: Direction,
        snapshot: &'a Snapshot,
        run: &Run,
    ) -> Result<Vec<Term<'a>>, Invalid> {
        let terms = direction.required(run).iter();
        terms
            .map(|term| Term::new(term, snapshot.view(), run))
            .collect()
    }
}

impl Filter for RunAffinity {
    fn name(&self) -> &'static str {
        "RunAffinity"
    }

    fn reasons(&self) -> &'static [Reason] {
        REASONS
    }

    fn prepare<'a>(
        &'a self,
        snapshot: &'a Snapshot,
        run: &'a Run,
    ) -> Result<Prepared<'a>, PrepareError> {
        let mut towards = Self::terms(Direction::Towards, snapshot, run)?;
        let away = Self::terms(Direction::Away, snapshot, run)?;
        // A seedable term accepts every Pod, each term on its own (S-99).
        towards.retain(|term| !term.is_seedable(run));
        if towards.is_empty() && away.is_empty() {
            return Ok(Prepared::Skip);
        }
        Ok(Prepared::Check(Box::new(move |state| {
            if !towards.iter().all(|term| term.is_on(&state.pod)) {
                Verdict::Rejects(UNSATISFIED_RUN_AFFINITY)
            } else if away.iter().any(|term| term.is_on(&state.pod)) {
                Verdict::Rejects(UNSATISFIED_RUN_ANTI_AFFINITY)
            } else {
                Verdict::Fits
            }
        })))
    }

    fn events(&self) -> &'static [EventKind] {
        &[
            EventKind::PodChanged,
            EventKind::CapacityReleased,
            EventKind::RunActive,
        ]
    }

    /// A new target helps those it attracts; one that ends helps those it kept away, or whose cohort it was.
    fn hint(&self, event: &Event<'_>, run: &Run) -> Hint {
        let matches = |direction: Direction, target: &Run| {
            let mut terms = direction.required(run).iter();
            terms.any(|term| compile(term).is_ok_and(|it| it.matches(&target.labels)))
        };
        let helps = match event {
            Event::RunActive { run: target } => matches(Direction::Towards, target),
            Event::CapacityReleased { run: target } => {
                matches(Direction::Towards, target) || matches(Direction::Away, target)
            }
            Event::PodChanged { .. } | Event::WorkspaceChanged { .. } => true,
        };
        if helps { Hint::Wake } else { Hint::Skip }
    }
}
