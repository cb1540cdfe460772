//! One decision from the index.

use std::collections::BTreeMap;

use crate::decision::{Action, Decision, Rejections};
use crate::plugins::{
    BOUND_POD_MISMATCH, RUNTIME_POD_UNAVAILABLE, Rule, UNSATISFIED_RUN_AFFINITY,
    UNSATISFIED_RUN_ANTI_AFFINITY,
};
use crate::profile::Profile;
use crate::run::Run;
use crate::waiting;

use super::class::Class;
use super::lead::Lead;
use super::pool::Pool;
use super::ranking::Winner;
use super::recipe::{Recipe, Wishes};
use super::targets::{Spot, Targets};

/// Everything one decision looks at.
pub(super) struct Cycle<'a> {
    pub(super) recipe: Recipe,
    pub(super) profile: &'a Profile,
    pub(super) run: &'a Run,
    pub(super) wishes: &'a Wishes<'a>,
    pub(super) targets: &'a Targets,
    pub(super) pool: &'a Pool,
    /// Number of the pool.
    pub(super) number: usize,
    pub(super) class: &'a Class,
}

/// Pods that passed the filters.
enum Candidates {
    /// These.
    Listed(Vec<usize>),
    /// All that are available, but these.
    AllBut(Vec<usize>),
}

/// How many Pods each filter rejected.
#[derive(Default)]
struct Tally {
    rejections: Vec<Rejections>,
}

impl Tally {
    fn count(&mut self, filter: usize, profile: &Profile, reason: &'static str, pods: usize) {
        if pods > 0 {
            self.told(filter, profile, reason, pods);
        }
    }

    /// Counts even if no Pod is concerned (S-50).
    fn told(&mut self, filter: usize, profile: &Profile, reason: &'static str, pods: usize) {
        if let Some(entry) = profile.filters.get(filter) {
            self.rejections.push(Rejections {
                plugin: entry.name,
                reason,
                pods: as_count(pods),
            });
        }
    }
}

/// Positions of the filters in a profile that the index knows.
const WORKSPACE: usize = 0;
const AVAILABILITY: usize = 1;
const AFFINITY: usize = 2;

impl Cycle<'_> {
    /// Decides as [`crate::calculate`] does; nothing where only a scan can say.
    pub(super) fn decide(&self) -> Option<Decision> {
        let mut tally = Tally::default();
        let winner = match self.filter(&mut tally) {
            Some(candidates) => Some(self.choose(candidates)?),
            None => None,
        };
        let action = match winner {
            Some(winner) => self.bind(winner)?,
            // Whoever could make room is asked by a scan.
            None if !self.profile.post_filters.is_empty() => return None,
            None => {
                let explained = self.pool.explain(self.run);
                waiting::action(self.profile, self.run, &tally.rejections, explained)
            }
        };
        Some(Decision {
            action,
            evaluated: as_count(self.pool.len()),
            rejections: tally.rejections,
            nomination: None,
            explanation: None,
        })
    }

    fn filter(&self, tally: &mut Tally) -> Option<Candidates> {
        let (profile, pods) = (self.profile, self.pool.len());
        let candidates = match self.wishes.workspace {
            Rule::Rejects(reason) => {
                tally.told(WORKSPACE, profile, reason, pods);
                return None;
            }
            Rule::Only(name, uid) => {
                let found = self.pool.find(name, uid);
                let others = pods - usize::from(found.is_some());
                tally.count(WORKSPACE, profile, BOUND_POD_MISMATCH, others);
                let available = found.filter(|slot| self.lead().contains(*slot));
                let full = usize::from(found.is_some() && available.is_none());
                tally.count(AVAILABILITY, profile, RUNTIME_POD_UNAVAILABLE, full);
                Candidates::Listed(available.into_iter().collect())
            }
            Rule::Any => {
                let full = pods - self.lead().len();
                tally.count(AVAILABILITY, profile, RUNTIME_POD_UNAVAILABLE, full);
                Candidates::AllBut(Vec::new())
            }
        };
        let before = self.count(&candidates);
        let candidates = self.drawn(candidates);
        let drawn = self.count(&candidates);
        tally.count(AFFINITY, profile, UNSATISFIED_RUN_AFFINITY, before - drawn);
        let candidates = self.kept_away(candidates);
        let left = self.count(&candidates);
        let reason = UNSATISFIED_RUN_ANTI_AFFINITY;
        tally.count(AFFINITY, profile, reason, drawn - left);
        (left > 0).then_some(candidates)
    }

    fn count(&self, candidates: &Candidates) -> usize {
        match candidates {
            Candidates::Listed(slots) => slots.len(),
            Candidates::AllBut(slots) => self.lead().len() - slots.len(),
        }
    }

    /// Keeps the Pods with all required targets.
    fn drawn(&self, candidates: Candidates) -> Candidates {
        let rarest = (self.wishes.towards.iter().copied())
            .min_by_key(|selector| self.targets.pods(*selector, self.number));
        let Some(rarest) = rarest else {
            return candidates;
        };
        let listed = match candidates {
            Candidates::Listed(slots) => slots,
            Candidates::AllBut(_) if self.targets.pods(rarest, self.number) > self.lead().len() => {
                self.available().collect()
            }
            Candidates::AllBut(_) => {
                let slots = self.targets.slots(rarest, self.number);
                slots.filter(|slot| self.lead().contains(*slot)).collect()
            }
        };
        let has_all = |slot: &usize| {
            let mut towards = self.wishes.towards.iter();
            towards.all(|selector| self.targets.is_on(*selector, self.spot(*slot)))
        };
        Candidates::Listed(listed.into_iter().filter(has_all).collect())
    }

    /// Drops the Pods with a target that the Run must not be with.
    fn kept_away(&self, candidates: Candidates) -> Candidates {
        let away = &self.wishes.away;
        let is_away = |slot: usize| {
            let mut away = away.iter();
            away.any(|selector| self.targets.is_on(*selector, self.spot(slot)))
        };
        match candidates {
            Candidates::Listed(mut slots) => {
                slots.retain(|slot| !is_away(*slot));
                Candidates::Listed(slots)
            }
            Candidates::AllBut(_) => Candidates::AllBut(self.holding(away.iter().copied())),
        }
    }

    /// Lists the available Pods that hold a target of any of some selectors, each once and by slot.
    fn holding(&self, selectors: impl Iterator<Item = usize> + Clone) -> Vec<usize> {
        let count = |selector| self.targets.pods(selector, self.number);
        let targets: usize = selectors.clone().map(count).sum();
        let mut slots: Vec<usize> = if targets > self.lead().len() {
            let on = |slot: &usize| {
                let spot = self.spot(*slot);
                (selectors.clone()).any(|selector| self.targets.is_on(selector, spot))
            };
            self.available().filter(on).collect()
        } else {
            let slots = selectors.flat_map(|selector| self.targets.slots(selector, self.number));
            slots.filter(|slot| self.lead().contains(*slot)).collect()
        };
        slots.sort_unstable();
        slots.dedup();
        slots
    }

    /// Chooses among candidates, of which there is at least one; nothing asks for a scan.
    fn choose(&self, candidates: Candidates) -> Option<Winner> {
        let raw = |slot: usize| (slot, self.wishes.raw(self.targets, self.spot(slot)));
        match candidates {
            Candidates::Listed(slots) => {
                let listed = slots.into_iter().map(raw).collect();
                self.recipe.among(self.lead(), listed)
            }
            Candidates::AllBut(_) if !self.wishes.are_compared() => self.recipe.first(self.lead()),
            Candidates::AllBut(excluded) => {
                let selectors = self.wishes.preferences.iter().map(|term| term.selector);
                let mut special = self.holding(selectors);
                special.retain(|slot| excluded.binary_search(slot).is_err());
                let special: Vec<_> = special.into_iter().map(raw).collect();
                let elsewhere = self.wishes.raw_elsewhere();
                self.recipe
                    .among_all(self.class.order(), &excluded, &special, elsewhere)
            }
        }
    }

    fn bind(&self, winner: Winner) -> Option<Action> {
        let pod = self.pool.pod(winner.slot)?;
        Some(Action::Bind {
            pod: pod.name.clone(),
            pod_uid: pod.uid.clone(),
            scores: BTreeMap::from([(pod.name.clone(), winner.total)]),
        })
    }

    fn available(&self) -> impl Iterator<Item = usize> {
        self.lead().slots()
    }

    fn lead(&self) -> &Lead {
        self.class.lead()
    }

    fn spot(&self, slot: usize) -> Spot {
        (self.number, slot)
    }
}

fn as_count(pods: usize) -> u64 {
    u64::try_from(pods).unwrap_or(u64::MAX)
}
