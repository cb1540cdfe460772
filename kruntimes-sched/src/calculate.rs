//! One cycle: prepare, filter, score, choose.

use std::panic::{AssertUnwindSafe, catch_unwind};

use kruntimes_core::fnv;

use crate::decision::{Action, CycleError, Decision, Explanation, PodReport, Rejections};
use crate::filtering::{Filtering, Stop};
use crate::post_filter::{Nomination, Trial};
use crate::profile::Profile;
use crate::run::Run;
use crate::scoring::Scorers;
use crate::snapshot::{PodState, Snapshot};
use crate::waiting;

/// Decides where a Run goes. Equal arguments give equal results, byte for byte (S-143).
///
/// Every Pod is looked at and every candidate is scored, unless the profile
/// limits them. A panic of a plugin is contained: the decision is to repeat
/// the cycle (S-153).
pub fn calculate(snapshot: &Snapshot, run: &Run, profile: &Profile) -> Decision {
    let mut cycle = Cycle {
        snapshot,
        run,
        profile,
        evaluated: 0,
        rejections: Vec::new(),
        nomination: None,
        explanation: profile.explain.then(Explanation::default),
    };
    let action = cycle.decide();
    waiting::sort(profile, &mut cycle.rejections);
    let action = action.unwrap_or_else(|stop| match stop {
        Stop::Fail(invalid) => Action::Fail {
            reason: invalid.reason,
            message: format!("pod selection failed: {}", invalid.message),
        },
        Stop::Retry(error) => Action::Retry { error },
    });
    Decision {
        action,
        evaluated: cycle.evaluated,
        rejections: cycle.rejections,
        nomination: cycle.nomination,
        explanation: cycle.explanation,
    }
}

struct Cycle<'a> {
    snapshot: &'a Snapshot,
    run: &'a Run,
    profile: &'a Profile,
    evaluated: u64,
    rejections: Vec<Rejections>,
    nomination: Option<Nomination>,
    explanation: Option<Explanation>,
}

impl<'a> Cycle<'a> {
    fn decide(&mut self) -> Result<Action, Stop> {
        let (profile, snapshot, run) = (self.profile, self.snapshot, self.run);
        let filtering = Filtering::prepare(profile, snapshot, run)?;
        let scoring = Scorers::prepare(profile, snapshot, run)?;
        let candidates = self.filter(&filtering)?;
        if candidates.is_empty() {
            self.nomination = self.nominate()?;
            return Ok(self.wait());
        }
        let totals = self.score(&candidates, scoring)?;
        Ok(choose(&candidates, &totals)?)
    }

    /// Returns the candidates in name order.
    fn filter(&mut self, filtering: &Filtering<'_>) -> Result<Vec<&'a PodState>, CycleError> {
        for (plugin, reason) in filtering.of_the_run() {
            self.count(plugin, reason, 0);
        }
        let pods = self.snapshot.pods();
        let wanted = self.profile.candidates_of(pods.len());
        let start = if wanted < pods.len() {
            fnv::index(self.run.uid.as_str(), pods.len())
        } else {
            0
        };
        let mut candidates = Vec::new();
        for pod in pods[start..].iter().chain(&pods[..start]) {
            if candidates.len() == wanted {
                break;
            }
            self.evaluated += 1;
            match filtering.verdict(pod)? {
                None => candidates.push(pod),
                Some((plugin, reason)) => {
                    self.count(plugin, reason, 1);
                    if let Some(explanation) = &mut self.explanation {
                        let report = PodReport::Rejected { plugin, reason };
                        explanation.pods.insert(pod.pod.name.clone(), report);
                    }
                }
            }
        }
        if start > 0 {
            candidates.sort_by(|a, b| a.pod.name.cmp(&b.pod.name));
        }
        Ok(candidates)
    }

    fn score(
        &mut self,
        candidates: &[&PodState],
        scoring: Scorers<'_>,
    ) -> Result<Vec<i64>, CycleError> {
        let scored = scoring.score(candidates, self.explanation.is_some())?;
        if let Some(explanation) = &mut self.explanation {
            let by_pod = candidates.iter().zip(&scored.totals).zip(scored.reports);
            for ((pod, total), scores) in by_pod {
                let report = PodReport::Scored {
                    total: *total,
                    scores,
                };
                explanation.pods.insert(pod.pod.name.clone(), report);
            }
        }
        Ok(scored.totals)
    }

    /// Asks who could make room; the first nomination counts.
    fn nominate(&self) -> Result<Option<Nomination>, CycleError> {
        let trial = Trial::new(self.profile, self.snapshot, self.run);
        for entry in &self.profile.post_filters {
            let nominated = guarded(entry.name, || entry.plugin.nominate(&trial))?;
            let nominated = nominated.map_err(|broken| CycleError::PostFilter {
                plugin: entry.name,
                cause: broken.0,
            })?;
            if nominated.is_some() {
                return Ok(nominated);
            }
        }
        Ok(None)
    }

    fn wait(&mut self) -> Action {
        waiting::sort(self.profile, &mut self.rejections);
        let given = &self.rejections;
        let explained = waiting::explained(
            self.profile,
            self.snapshot,
            self.run,
            // An explanation that panics is one that is missing; the decision stands without it.
            |plugin, ask| guarded(plugin, ask).ok().flatten(),
        );
        waiting::action(self.profile, self.run, given, explained)
    }

    fn count(&mut self, plugin: &'static str, reason: &'static str, pods: u64) {
        let same = |seen: &&mut Rejections| seen.plugin == plugin && seen.reason == reason;
        match self.rejections.iter_mut().find(same) {
            Some(seen) => seen.pods += pods,
            None => self.rejections.push(Rejections {
                plugin,
                reason,
                pods,
            }),
        }
    }
}

/// Takes the greatest total; the lexically smallest name breaks ties (S-65).
fn choose(candidates: &[&PodState], totals: &[i64]) -> Result<Action, CycleError> {
    let mut best: Option<(&PodState, i64)> = None;
    for (candidate, total) in candidates.iter().zip(totals) {
        // Candidates come in name order, so only a greater total wins.
        if best.is_none_or(|(_, most)| *total > most) {
            best = Some((candidate, *total));
        }
    }
    let (winner, _) = best.ok_or(CycleError::NoCandidates)?;
    let names = candidates.iter().map(|c| c.pod.name.clone());
    Ok(Action::Bind {
        pod: winner.pod.name.clone(),
        pod_uid: winner.pod.uid.clone(),
        scores: names.zip(totals.iter().copied()).collect(),
    })
}

/// Calls into a plugin and turns its panic into an error that names it.
pub(crate) fn guarded<T>(plugin: &'static str, call: impl FnOnce() -> T) -> Result<T, CycleError> {
    // What the plugin sees is immutable, so a half-finished call leaves nothing broken behind.
    catch_unwind(AssertUnwindSafe(call)).map_err(|_| CycleError::Panicked { plugin })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s_67_choosing_among_nothing_is_an_error() {
        let error = choose(&[], &[]).unwrap_err();
        assert_eq!(error.to_string(), "no candidates to score");
    }
}
