//! The profiles that the index knows by heart.

use kruntimes_core::duration::Duration;

use crate::bundled::Bundled;
use crate::plugins::{Direction, Rule, Workspace};
use crate::profile::Profile;
use crate::run::Run;

use super::targets::{Spot, Targets};

/// What may differ between profiles of the default plugins.
#[derive(Clone, Copy, Debug)]
pub(super) struct Recipe {
    pub(super) workspace: Workspace,
    /// Weight of the preferred terms.
    pub(super) preference: i64,
    /// Weight of the load.
    pub(super) load: i64,
}

impl Recipe {
    /// Recognizes a profile with the default plugins, whatever their weights; all others are scanned.
    pub(super) fn of(profile: &Profile, limit: Duration) -> Option<Self> {
        if profile.explain || profile.percentage.is_some() || !profile.pre_filters.is_empty() {
            return None;
        }
        let [first, second, third] = profile.filters.as_slice() else {
            return None;
        };
        let Some(Bundled::Workspace(workspace)) = first.bundled else {
            return None;
        };
        let Some(Bundled::RuntimePodAvailability(availability)) = second.bundled else {
            return None;
        };
        let known = availability.heartbeat_limit() == limit && !availability.counts_nominated();
        if !known || !matches!(third.bundled, Some(Bundled::RunAffinity)) {
            return None;
        }
        let [one, other] = profile.scores.as_slice() else {
            return None;
        };
        let (preference, load) = match (&one.bundled, &other.bundled) {
            (Some(Bundled::PreferredRunAffinity), Some(Bundled::LeastLoaded)) => {
                (one.weight, other.weight)
            }
            (Some(Bundled::LeastLoaded), Some(Bundled::PreferredRunAffinity)) => {
                (other.weight, one.weight)
            }
            _ => return None,
        };
        Some(Self {
            workspace,
            preference,
            load,
        })
    }
}

/// A preferred term.
#[derive(Clone, Copy, Debug)]
pub(super) struct Preference {
    weight: i64,
    wanted: bool,
    pub(super) selector: usize,
}

/// What a Run asks of a Pod besides room, in terms of the index.
#[derive(Debug)]
pub(super) struct Wishes<'a> {
    pub(super) workspace: Rule<'a>,
    /// Required selectors that no seeding fulfils.
    pub(super) towards: Vec<usize>,
    pub(super) away: Vec<usize>,
    pub(super) preferences: Vec<Preference>,
}

impl<'a> Wishes<'a> {
    /// Reads the terms of a Run; nothing if one of them has no meaning, which a scan puts into words.
    pub(super) fn of(run: &Run, workspace: Rule<'a>, targets: &mut Targets) -> Option<Self> {
        let mut wishes = Self {
            workspace,
            towards: Vec::new(),
            away: Vec::new(),
            preferences: Vec::new(),
        };
        if run.affinity.is_none() {
            return Some(wishes);
        }
        for term in Direction::Towards.required(run) {
            let selector = targets.follow(term)?;
            let seeds = targets.is_unmatched(selector) && targets.matches(selector, &run.labels);
            if !seeds {
                wishes.towards.push(selector);
            }
        }
        for term in Direction::Away.required(run) {
            wishes.away.push(targets.follow(term)?);
        }
        for direction in [Direction::Towards, Direction::Away] {
            for preferred in direction.preferred(run) {
                if !(1..=100).contains(&preferred.weight) {
                    return None;
                }
                wishes.preferences.push(Preference {
                    weight: i64::from(preferred.weight),
                    wanted: direction == Direction::Towards,
                    selector: targets.follow(&preferred.run_affinity_term)?,
                });
            }
        }
        Some(wishes)
    }

    /// Tells whether Pods with targets are compared with all others, by position.
    pub(super) fn are_compared(&self) -> bool {
        self.towards.is_empty() && !(self.away.is_empty() && self.preferences.is_empty())
    }

    /// Returns the raw preference for a Pod (S-68).
    pub(super) fn raw(&self, targets: &Targets, spot: Spot) -> i64 {
        let met = self.preferences.iter();
        let met = met.filter(|term| targets.is_on(term.selector, spot) == term.wanted);
        met.map(|term| term.weight).sum()
    }

    /// Returns the raw preference for a Pod without any target.
    pub(super) fn raw_elsewhere(&self) -> i64 {
        let met = self.preferences.iter().filter(|term| !term.wanted);
        met.map(|term| term.weight).sum()
    }
}
