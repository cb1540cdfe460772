//! Taking the places of a plan in the real book.

use std::sync::Arc;

use jiff::Timestamp;

use crate::book::Book;
use crate::placing::Placement;
use crate::profile::Profile;
use crate::reserve::{ReserveError, reserve, unreserve};

use super::plan::BatchPlan;

/// What became of the binds of a plan.
#[derive(Clone, Debug, Default)]
pub struct Applied {
    /// Places that are held; the caller binds them, and unreserves what it cannot bind.
    pub reserved: Vec<Placement>,
    /// Runs that were refused; the others are not affected, except the rest of their group.
    pub refused: Vec<(Placement, ReserveError)>,
}

/// Reserves the binds of a plan one after the other (S-174).
///
/// The book may have moved on since the plan was made: each reserve checks
/// again. Where one member of a group is refused, none of it is held.
pub fn reserve_plan(
    plan: &BatchPlan,
    profile: &Profile,
    book: &mut Book,
    now: Timestamp,
) -> Applied {
    let mut applied = Applied::default();
    for (run, pod) in plan.binds() {
        let placement = Placement {
            run: Arc::clone(run),
            pod: Arc::clone(pod),
        };
        let same_group = |other: &Placement| {
            run.group.is_some()
                && other.run.group == run.group
                && other.run.namespace == run.namespace
        };
        let refused = applied.refused.iter();
        let result = if refused.into_iter().any(|(other, _)| same_group(other)) {
            Err(ReserveError::Group)
        } else {
            reserve(profile, book, run, pod, now)
        };
        let Err(error) = result else {
            applied.reserved.push(placement);
            continue;
        };
        // In reverse order, as everything is given back (S-88).
        let others = applied.reserved.extract_if(.., |other| same_group(other));
        let others: Vec<Placement> = others.collect();
        for other in others.into_iter().rev() {
            unreserve(profile, book, &other.run);
            applied.refused.push((other, ReserveError::Group));
        }
        applied.refused.push((placement, error));
    }
    applied
}
