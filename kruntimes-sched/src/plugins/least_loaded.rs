//! The emptiest Pod first, by its fullest resource.

use std::cmp::Ordering;

use crate::load::Load;
use crate::plugin::{Broken, PrepareError, Score, Scored, Scorer};
use crate::run::Run;
use crate::snapshot::{PodState, Snapshot};

/// Ranks candidates by how loaded they would be with the Run on them (S-71).
///
/// The load is the utilization of the fullest resource, then the sum over all
/// resources the Pod offers, requested or not, as exact fractions. The score is
/// ordinal: only the order of loads matters (S-75).
#[derive(Clone, Copy, Debug)]
pub struct LeastLoaded;

impl Score for LeastLoaded {
    fn name(&self) -> &'static str {
        "LeastLoaded"
    }

    fn prepare<'a>(
        &'a self,
        snapshot: &'a Snapshot,
        run: &'a Run,
    ) -> Result<Box<dyn Scorer + 'a>, PrepareError> {
        Ok(Box::new(Ranking { snapshot, run }))
    }
}

struct Ranking<'a> {
    snapshot: &'a Snapshot,
    run: &'a Run,
}

impl Scorer for Ranking<'_> {
    fn score(&self, _pod: &PodState) -> Result<i64, Broken> {
        Ok(0)
    }

    fn normalize(&self, scores: &mut [Scored]) -> Result<(), Broken> {
        let mut loads = Vec::with_capacity(scores.len());
        for (at, scored) in scores.iter().enumerate() {
            let state = self.snapshot.pod(&scored.pod).ok_or_else(|| {
                Broken(format!(
                    "candidate pod \"{}\" is not in the scheduling snapshot",
                    scored.pod
                ))
            })?;
            let usage = state.occupancy.usage_without(&self.run.uid);
            let load = Load::of(&self.run.request, &usage, &state.pod.capacity);
            loads.push((load, at));
        }
        loads.sort_by(|a, b| a.0.cmp(&b.0));
        let last = i64::try_from(loads.len().saturating_sub(1)).unwrap_or(i64::MAX);
        let mut first_of_group = 0_i64;
        for (position, (load, at)) in loads.iter().enumerate() {
            let equal = position > 0 && loads[position - 1].0.cmp(load) == Ordering::Equal;
            if !equal {
                first_of_group = i64::try_from(position).unwrap_or(i64::MAX);
            }
            scores[*at].score = if last == 0 {
                100
            } else {
                (last - first_of_group) * 100 / last
            };
        }
        Ok(())
    }
}
