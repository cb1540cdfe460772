//! One cycle: prepare, filter, score, choose.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::decision::{
    Action, CycleError, Decision, Explanation, PluginScore, PodReport, Rejections,
};
use crate::identity::PodName;
use crate::plugin::{Admission, Broken, Invalid, PrepareError, Prepared, Scored, Scorer, Verdict};
use crate::profile::Profile;
use crate::run::Run;
use crate::snapshot::{PodState, Snapshot};
use crate::waiting;

/// Largest normalized score.
const SCORE_MAX: i64 = 100;

/// Decides where a Run goes. Equal arguments give equal results, byte for byte (S-143).
///
/// A panic of a plugin is contained: the decision is to repeat the cycle (S-153).
pub fn calculate(snapshot: &Snapshot, run: &Run, profile: &Profile) -> Decision {
    let mut cycle = Cycle {
        snapshot,
        run,
        profile,
        rejections: Vec::new(),
        explanation: profile.explain.then(Explanation::default),
    };
    let action = cycle.decide().unwrap_or_else(|stop| match stop {
        Stop::Fail(invalid) => Action::Fail {
            reason: invalid.reason,
            message: format!("pod selection failed: {}", invalid.message),
        },
        Stop::Retry(error) => Action::Retry { error },
    });
    Decision {
        action,
        rejections: cycle.rejections,
        explanation: cycle.explanation,
    }
}

/// Why a cycle ends before its time.
enum Stop {
    Fail(Invalid),
    Retry(CycleError),
}

impl From<CycleError> for Stop {
    fn from(error: CycleError) -> Self {
        Self::Retry(error)
    }
}

struct Cycle<'a> {
    snapshot: &'a Snapshot,
    run: &'a Run,
    profile: &'a Profile,
    rejections: Vec<Rejections>,
    explanation: Option<Explanation>,
}

/// The Pods one pre-filter leaves.
struct Narrowed {
    plugin: &'static str,
    pods: BTreeSet<PodName>,
    reason: &'static str,
}

struct PreparedFilter<'a> {
    plugin: &'static str,
    prepared: Prepared<'a>,
}

struct PreparedScore<'a> {
    plugin: &'static str,
    weight: i64,
    scorer: Box<dyn Scorer + 'a>,
}

impl<'a> Cycle<'a> {
    fn decide(&mut self) -> Result<Action, Stop> {
        let narrowed = self.pre_filter()?;
        let filters = self.prepare_filters()?;
        let scores = self.prepare_scores()?;
        let candidates = self.filter(&narrowed, &filters)?;
        if candidates.is_empty() {
            return Ok(self.wait());
        }
        let totals = self.score(&candidates, &scores)?;
        Ok(choose(&candidates, &totals)?)
    }

    fn pre_filter(&mut self) -> Result<Vec<Narrowed>, Stop> {
        let mut narrowed = Vec::new();
        for entry in &self.profile.pre_filters {
            let admission = guarded(entry.name, || entry.plugin.admit(self.snapshot, self.run))?;
            match admission.map_err(|error| stop(entry.name, error))? {
                Admission::All => {}
                Admission::Only { pods, reason } => {
                    declared(entry.declares(reason), entry.name, reason)?;
                    narrowed.push(Narrowed {
                        plugin: entry.name,
                        pods,
                        reason,
                    });
                }
            }
        }
        Ok(narrowed)
    }

    fn prepare_filters(&mut self) -> Result<Vec<PreparedFilter<'a>>, Stop> {
        let mut filters = Vec::with_capacity(self.profile.filters.len());
        for entry in &self.profile.filters {
            let prepared = guarded(entry.name, || entry.plugin.prepare(self.snapshot, self.run))?
                .map_err(|error| stop(entry.name, error))?;
            if let Prepared::Rejects(reason) = prepared {
                declared(entry.declares(reason), entry.name, reason)?;
                // Said even when there is no Pod to reject.
                self.count(entry.name, reason, 0);
            }
            filters.push(PreparedFilter {
                plugin: entry.name,
                prepared,
            });
        }
        Ok(filters)
    }

    fn prepare_scores(&self) -> Result<Vec<PreparedScore<'a>>, Stop> {
        let mut scores = Vec::with_capacity(self.profile.scores.len());
        for entry in &self.profile.scores {
            let scorer = guarded(entry.name, || entry.plugin.prepare(self.snapshot, self.run))?
                .map_err(|error| stop(entry.name, error))?;
            scores.push(PreparedScore {
                plugin: entry.name,
                weight: entry.weight,
                scorer,
            });
        }
        Ok(scores)
    }

    fn filter(
        &mut self,
        narrowed: &[Narrowed],
        filters: &[PreparedFilter<'_>],
    ) -> Result<Vec<&'a PodState>, CycleError> {
        let mut candidates = Vec::new();
        for pod in self.snapshot.pods() {
            match self.verdict(pod, narrowed, filters)? {
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
        Ok(candidates)
    }

    /// Returns the first rejection of a Pod, in registration order (S-43).
    fn verdict(
        &self,
        pod: &PodState,
        narrowed: &[Narrowed],
        filters: &[PreparedFilter<'_>],
    ) -> Result<Option<(&'static str, &'static str)>, CycleError> {
        if let Some(left_out) = narrowed.iter().find(|n| !n.pods.contains(&pod.pod.name)) {
            return Ok(Some((left_out.plugin, left_out.reason)));
        }
        for (filter, entry) in filters.iter().zip(&self.profile.filters) {
            let verdict = match &filter.prepared {
                Prepared::Skip => Verdict::Fits,
                Prepared::Rejects(reason) => Verdict::Rejects(reason),
                Prepared::Check(check) => guarded(filter.plugin, || check(pod))?,
            };
            if let Verdict::Rejects(reason) = verdict {
                declared(entry.declares(reason), filter.plugin, reason)?;
                return Ok(Some((filter.plugin, reason)));
            }
        }
        Ok(None)
    }

    fn score(
        &mut self,
        candidates: &[&PodState],
        scores: &[PreparedScore<'_>],
    ) -> Result<Vec<i64>, CycleError> {
        let mut totals = vec![0_i64; candidates.len()];
        let mut reports = vec![Vec::new(); candidates.len()];
        for PreparedScore {
            plugin,
            weight,
            scorer,
        } in scores
        {
            let raw = raw_scores(plugin, scorer.as_ref(), candidates)?;
            let mut normalized = raw.clone();
            guarded(plugin, || scorer.normalize(&mut normalized))?
                .map_err(|Broken(cause)| CycleError::Normalize { plugin, cause })?;
            let by_pod = checked(plugin, candidates, &normalized)?;
            for (at, score) in by_pod.into_iter().enumerate() {
                totals[at] = score
                    .checked_mul(*weight)
                    .and_then(|weighted| totals[at].checked_add(weighted))
                    .ok_or(CycleError::Overflow { plugin })?;
                if self.explanation.is_some() {
                    reports[at].push(PluginScore {
                        plugin,
                        raw: raw[at].score,
                        normalized: score,
                        weight: *weight,
                    });
                }
            }
        }
        if let Some(explanation) = &mut self.explanation {
            for ((pod, total), scores) in candidates.iter().zip(&totals).zip(reports) {
                let report = PodReport::Scored {
                    total: *total,
                    scores,
                };
                explanation.pods.insert(pod.pod.name.clone(), report);
            }
        }
        Ok(totals)
    }

    fn wait(&mut self) -> Action {
        let given = &self.rejections;
        let explained = waiting::explained(
            self.profile,
            self.snapshot,
            self.run,
            // An explanation that panics is one that is missing; the decision stands without it.
            |plugin, ask| guarded(plugin, ask).ok().flatten(),
        );
        Action::Wait {
            message: waiting::message(self.profile, self.run, given),
            condition: waiting::condition(self.profile, given, explained),
            reasons: given.iter().map(|seen| seen.reason).collect(),
        }
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

fn raw_scores(
    plugin: &'static str,
    scorer: &dyn Scorer,
    candidates: &[&PodState],
) -> Result<Vec<Scored>, CycleError> {
    candidates
        .iter()
        .map(|pod| {
            let name = &pod.pod.name;
            let score = guarded(plugin, || scorer.score(pod))?.map_err(|Broken(cause)| {
                CycleError::Score {
                    plugin,
                    pod: name.clone(),
                    cause,
                }
            })?;
            Ok(Scored {
                pod: name.clone(),
                score,
            })
        })
        .collect()
}

/// Returns the scores in the order of the candidates, each within its range (S-63).
///
/// A plugin may have sorted the list; the names say whose score is whose.
fn checked(
    plugin: &'static str,
    candidates: &[&PodState],
    scores: &[Scored],
) -> Result<Vec<i64>, CycleError> {
    let by_name: BTreeMap<&PodName, i64> = scores.iter().map(|s| (&s.pod, s.score)).collect();
    candidates
        .iter()
        .map(|candidate| {
            let pod = &candidate.pod.name;
            let score = *by_name.get(pod).ok_or_else(|| CycleError::Normalize {
                plugin,
                cause: format!("the score of pod \"{pod}\" is missing"),
            })?;
            if (0..=SCORE_MAX).contains(&score) {
                return Ok(score);
            }
            Err(CycleError::OutOfRange {
                plugin,
                pod: pod.clone(),
                score,
            })
        })
        .collect()
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

fn stop(plugin: &'static str, error: PrepareError) -> Stop {
    match error {
        PrepareError::Invalid(invalid) => Stop::Fail(invalid),
        PrepareError::Broken(Broken(cause)) => Stop::Retry(CycleError::Prepare { plugin, cause }),
    }
}

fn declared(is: bool, plugin: &'static str, reason: &'static str) -> Result<(), CycleError> {
    if is {
        return Ok(());
    }
    Err(CycleError::UndeclaredReason { plugin, reason })
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
