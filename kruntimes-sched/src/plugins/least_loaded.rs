//! The emptiest Pod first, by its fullest resource.

use std::cmp::Ordering;

use kruntimes_core::quantity::Quantity;

use crate::exact::{Ratio, Sum};
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

/// Compares by the first element, then by the second (S-72).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Load(Ratio, Sum);

impl Load {
    fn of(run: &Run, state: &PodState) -> Self {
        let usage = state.occupancy.usage_without(&run.uid);
        let nanos = |amount: Option<&Quantity>| {
            let nanos = amount.map_or(0, |amount| amount.as_nanos());
            u128::try_from(nanos).unwrap_or(0)
        };
        let utilizations: Vec<Ratio> = state
            .pod
            .capacity
            .iter()
            .filter(|(_, capacity)| capacity.is_positive())
            .map(|(resource, capacity)| {
                let held = nanos(usage.get(resource));
                let projected = held.saturating_add(nanos(run.request.get(resource)));
                Ratio::new(projected, nanos(Some(capacity)))
            })
            .collect();
        let fullest = utilizations.iter().max().copied().unwrap_or(Ratio::ZERO);
        Self(fullest, Sum::of(utilizations))
    }
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
            loads.push((Load::of(self.run, state), at));
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
