//! Preferred affinity between Runs: it ranks Pods and removes none.

use std::collections::BTreeMap;

use crate::identity::PodName;
use crate::plugin::{Broken, Invalid, PrepareError, Score, Scored, Scorer, Scoring};
use crate::run::Run;
use crate::snapshot::{PodState, Snapshot};

use super::term::{Direction, Term, invalid};

/// Prefers Pods by the weights of the preferred terms they meet (S-68).
///
/// A term of affinity counts where it has a target, one of anti-affinity where
/// it has none. Nothing is seeded. The best candidate gets 100, the others in
/// proportion (S-69).
#[derive(Clone, Copy, Debug)]
pub struct PreferredRunAffinity;

impl Score for PreferredRunAffinity {
    fn name(&self) -> &'static str {
        "PreferredRunAffinity"
    }

    fn prepare<'a>(
        &'a self,
        snapshot: &'a Snapshot,
        run: &'a Run,
    ) -> Result<Box<dyn Scorer + 'a>, PrepareError> {
        let mut terms = Vec::new();
        for direction in [Direction::Towards, Direction::Away] {
            for preferred in direction.preferred(run) {
                terms.push(Weighted {
                    weight: weight(preferred.weight)?,
                    wanted: direction == Direction::Towards,
                    term: Term::new(&preferred.run_affinity_term, snapshot.view(), run)?,
                });
            }
        }
        Ok(Box::new(Preference { terms }))
    }
}

/// Refuses a weight that the API would have refused (S-42).
fn weight(stated: i32) -> Result<i64, Invalid> {
    if (1..=100).contains(&stated) {
        return Ok(i64::from(stated));
    }
    Err(invalid(&format!(
        "preferred run affinity weight {stated} is outside 1..100"
    )))
}

struct Weighted<'a> {
    weight: i64,
    wanted: bool,
    term: Term<'a>,
}

struct Preference<'a> {
    terms: Vec<Weighted<'a>>,
}

impl Scorer for Preference<'_> {
    fn pre_score(&mut self, _candidates: &[&PodState]) -> Result<Scoring, Broken> {
        // Without a preference every candidate would get the same zero.
        Ok(if self.terms.is_empty() {
            Scoring::Skip
        } else {
            Scoring::Each
        })
    }

    fn score(&self, pod: &PodState) -> Result<i64, Broken> {
        let met = self.terms.iter();
        let met = met.filter(|weighted| weighted.term.is_on(&pod.pod) == weighted.wanted);
        met.map(|weighted| weighted.weight)
            .try_fold(0_i64, i64::checked_add)
            .ok_or_else(|| Broken("the weights leave 64 bits".to_owned()))
    }

    fn normalize(&self, scores: &mut [Scored]) -> Result<(), Broken> {
        by_maximum(scores)
    }
}

/// Scales scores so that the largest becomes 100; all zero stays zero (S-69).
///
/// # Errors
///
/// Refuses a negative score, naming the Pod.
pub fn by_maximum(scores: &mut [Scored]) -> Result<(), Broken> {
    let by_pod: BTreeMap<&PodName, i64> = scores.iter().map(|s| (&s.pod, s.score)).collect();
    if let Some((pod, _)) = by_pod.into_iter().find(|(_, score)| *score < 0) {
        return Err(Broken(format!("negative raw score for pod \"{pod}\"")));
    }
    let most = scores.iter().map(|scored| scored.score).max().unwrap_or(0);
    for scored in scores.iter_mut().filter(|_| most > 0) {
        let share = i128::from(scored.score) * 100 / i128::from(most);
        scored.score = i64::try_from(share).unwrap_or(100);
    }
    Ok(())
}
