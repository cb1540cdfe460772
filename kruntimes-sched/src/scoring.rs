//! Which candidate is best: score plugins, their normalization and the sum.

use std::collections::BTreeMap;

use crate::calculate::guarded;
use crate::decision::{CycleError, PluginScore};
use crate::filtering::{Stop, stop};
use crate::identity::PodName;
use crate::plugin::{Broken, Scored, Scorer, Scoring};
use crate::profile::Profile;
use crate::run::Run;
use crate::snapshot::{PodState, Snapshot};

/// Largest normalized score.
const SCORE_MAX: i64 = 100;

struct Prepared<'a> {
    plugin: &'static str,
    weight: i64,
    scorer: Box<dyn Scorer + 'a>,
}

/// Every score plugin, prepared for one Run and one snapshot.
pub(crate) struct Scorers<'a> {
    plugins: Vec<Prepared<'a>>,
}

/// Total of every candidate, and what each plugin gave it.
#[derive(Default)]
pub(crate) struct Totals {
    pub(crate) totals: Vec<i64>,
    pub(crate) reports: Vec<Vec<PluginScore>>,
}

impl<'a> Scorers<'a> {
    pub(crate) fn prepare(
        profile: &'a Profile,
        snapshot: &'a Snapshot,
        run: &'a Run,
    ) -> Result<Self, Stop> {
        let mut plugins = Vec::with_capacity(profile.scores.len());
        for entry in &profile.scores {
            let scorer = guarded(entry.name, || entry.plugin.prepare(snapshot, run))?
                .map_err(|error| stop(entry.name, error))?;
            plugins.push(Prepared {
                plugin: entry.name,
                weight: entry.weight,
                scorer,
            });
        }
        Ok(Self { plugins })
    }

    /// Scores every candidate; `explain` keeps what each plugin gave.
    pub(crate) fn score(
        self,
        candidates: &[&PodState],
        explain: bool,
    ) -> Result<Totals, CycleError> {
        let mut totals = vec![0_i64; candidates.len()];
        let mut reports = vec![Vec::new(); if explain { candidates.len() } else { 0 }];
        for mut prepared in self.plugins {
            let plugin = prepared.plugin;
            let asks = guarded(plugin, || prepared.scorer.pre_score(candidates))?
                .map_err(|Broken(cause)| CycleError::PreScore { plugin, cause })?;
            if asks == Scoring::Skip {
                continue;
            }
            let (raw, normalized) = prepared.scores(candidates)?;
            for (at, score) in normalized.into_iter().enumerate() {
                totals[at] = score
                    .checked_mul(prepared.weight)
                    .and_then(|weighted| totals[at].checked_add(weighted))
                    .ok_or(CycleError::Overflow { plugin })?;
                if let Some(report) = reports.get_mut(at) {
                    report.push(PluginScore {
                        plugin,
                        raw: raw[at].score,
                        normalized: score,
                        weight: prepared.weight,
                    });
                }
            }
        }
        Ok(Totals { totals, reports })
    }
}

impl Prepared<'_> {
    /// Returns raw and normalized scores in the order of the candidates.
    fn scores(&self, candidates: &[&PodState]) -> Result<(Vec<Scored>, Vec<i64>), CycleError> {
        let plugin = self.plugin;
        let raw: Vec<Scored> = candidates
            .iter()
            .map(|pod| {
                let name = &pod.pod.name;
                let score =
                    guarded(plugin, || self.scorer.score(pod))?.map_err(|Broken(cause)| {
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
            .collect::<Result<_, CycleError>>()?;
        let mut normalized = raw.clone();
        guarded(plugin, || self.scorer.normalize(&mut normalized))?
            .map_err(|Broken(cause)| CycleError::Normalize { plugin, cause })?;
        let normalized = checked(plugin, candidates, &normalized)?;
        Ok((raw, normalized))
    }
}

/// Returns the scores in the order of the candidates, each within its range (S-63).
///
/// A plugin may have sorted the list; the names say whose score is whose.
fn checked(
    plugin: &'static str,
    candidates: &[&PodState],
    scores: &[Scored],
) -> Result<Vec<i64>, CycleError> {
    let in_place = candidates.len() == scores.len()
        && (candidates.iter().zip(scores)).all(|(pod, scored)| pod.pod.name == scored.pod);
    let by_name: BTreeMap<&PodName, i64> = if in_place {
        BTreeMap::new()
    } else {
        scores.iter().map(|s| (&s.pod, s.score)).collect()
    };
    candidates
        .iter()
        .enumerate()
        .map(|(at, candidate)| {
            let pod = &candidate.pod.name;
            let found = if in_place {
                Some(scores[at].score)
            } else {
                by_name.get(pod).copied()
            };
            let score = found.ok_or_else(|| CycleError::Normalize {
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
