//! Where the Pods of a pool drop out for one Run, what the pool has of each resource, and what affinity allows.

use std::collections::BTreeMap;

use kruntimes_core::api::RunAffinityTerm;
use kruntimes_core::duration::Duration;
use kruntimes_core::quantity::Quantity;
use kruntimes_core::resources;
use serde::Serialize;

use crate::event::EventKind;
use crate::filtering::Filtering;
use crate::plugins::{Direction, RUNTIME_POD_UNAVAILABLE, Term, UNSATISFIED_RUN_AFFINITY};
use crate::profile::Profile;
use crate::run::Run;
use crate::snapshot::{PodState, Snapshot};

/// One stage of the way from all Pods of a pool to those that will do (C-60).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Stage {
    /// What the Pods of this stage have, as in `running and ready`.
    pub stage: String,
    /// How many Pods reach it.
    pub left: usize,
    /// How many the stage before had more.
    pub lost: usize,
    /// Why those are lost; empty for the first stage.
    pub reason: String,
    /// Who rejected them; empty for the first stage.
    pub plugin: &'static str,
    /// What would have to happen for them to be looked at again.
    pub events: Vec<EventKind>,
}

/// What the Pods that are alive have of one resource that a Run asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Supply {
    /// Name of the resource.
    pub resource: String,
    /// What the Run asks for.
    pub asked: Quantity,
    /// What all Pods hold for other Runs.
    pub used: Quantity,
    /// What all Pods offer.
    pub offered: Quantity,
    /// What the largest Pod offers; zero without a Pod.
    pub largest: Quantity,
}

/// What one required affinity term does to the pool.
#[derive(Clone, Debug, PartialEq)]
pub struct TermOutlook<'a> {
    /// The term.
    pub term: &'a RunAffinityTerm,
    /// Whether the Run must be away from the targets, not with them.
    pub away: bool,
    /// How many Pods of the pool it excludes.
    pub excludes: usize,
    /// Whether the Run itself may be the first of its cohort.
    pub seedable: bool,
}

/// Counts at which stage each Pod drops out. The verdicts are those of [`crate::calculate`], so the losses of a
/// plugin add up to its rejections.
///
/// `heartbeat_limit` is that of the profile's availability filter; it only tells its rejections apart. A profile
/// that fails on the Run, and a pool without Pods, have no stage but the first.
pub fn funnel(
    snapshot: &Snapshot,
    run: &Run,
    profile: &Profile,
    heartbeat_limit: Duration,
) -> Vec<Stage> {
    let all = snapshot.pods().len();
    let mut stages = vec![Stage {
        stage: "Pods of the Runtime".to_owned(),
        left: all,
        lost: 0,
        reason: String::new(),
        plugin: "",
        events: Vec::new(),
    }];
    let Ok(filtering) = Filtering::prepare(profile, snapshot, run) else {
        return stages;
    };
    if all == 0 {
        return stages;
    }
    let mut lost: BTreeMap<(&'static str, Cause), usize> = BTreeMap::new();
    for state in snapshot.pods() {
        if let Ok(Some((plugin, reason))) = filtering.verdict(state) {
            let cause = Cause::of(reason, snapshot, run, state, heartbeat_limit);
            *lost.entry((plugin, cause)).or_default() += 1;
        }
    }
    let mut left = all;
    for (plugin, asks) in filtering.order() {
        let mut causes: Vec<Cause> = lost
            .keys()
            .filter(|(by, _)| *by == plugin)
            .map(|(_, cause)| cause.clone())
            .collect();
        if asks {
            causes.extend(Cause::always(plugin, run));
        }
        causes.sort();
        causes.dedup();
        for cause in causes {
            let key = (plugin, cause);
            let count = lost.get(&key).copied().unwrap_or_default();
            let (plugin, cause) = key;
            left -= count;
            stages.push(Stage {
                stage: cause.stage(),
                left,
                lost: count,
                reason: cause.reason(),
                plugin,
                events: cause.events(profile, plugin),
            });
        }
    }
    stages
}

/// Why a Pod is lost; the order is that of the stages of one plugin.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Cause {
    NotReady,
    Stale,
    /// Offers less of this resource than is asked for, even when nothing runs there.
    Small(String),
    /// Not enough of this resource is free.
    Short(String),
    Exclusive,
    /// Room that is kept for others.
    Kept,
    Declared(&'static str),
}

const AVAILABILITY: &str = "RuntimePodAvailability";

impl Cause {
    fn of(
        reason: &'static str,
        snapshot: &Snapshot,
        run: &Run,
        state: &PodState,
        heartbeat_limit: Duration,
    ) -> Self {
        if reason != RUNTIME_POD_UNAVAILABLE {
            return Self::Declared(reason);
        }
        let pod = &state.pod;
        if !pod.ready {
            return Self::NotReady;
        }
        if !pod.heartbeat.is_fresh(snapshot.now(), heartbeat_limit) {
            return Self::Stale;
        }
        let usage = state.occupancy.usage_without(&run.uid);
        let short = run.request.iter().find(|(name, asked)| {
            let one = [((*name).clone(), **asked)].into();
            !resources::fits(&one, &usage, &pod.capacity)
        });
        match short {
            Some((name, asked)) if pod.capacity.get(name).is_none_or(|has| has < asked) => {
                Self::Small(name.clone())
            }
            Some((name, _)) => Self::Short(name.clone()),
            None if state.occupancy.excludes(run) => Self::Exclusive,
            None => Self::Kept,
        }
    }

    /// The stages that are shown whether they lose a Pod or not.
    fn always(plugin: &str, run: &Run) -> Vec<Self> {
        match plugin {
            AVAILABILITY => [Self::NotReady, Self::Stale]
                .into_iter()
                .chain(run.request.keys().cloned().map(Self::Short))
                .collect(),
            "RunAffinity" => vec![Self::Declared(UNSATISFIED_RUN_AFFINITY)],
            _ => Vec::new(),
        }
    }

    fn stage(&self) -> String {
        match self {
            Self::NotReady => "running and ready".to_owned(),
            Self::Stale => "with a fresh heartbeat".to_owned(),
            Self::Small(resource) => format!("that offer enough {resource}"),
            Self::Short(resource) => format!("with enough free {resource}"),
            Self::Exclusive => "not held exclusively".to_owned(),
            Self::Kept => "not kept free for others".to_owned(),
            Self::Declared("UnsatisfiedRunAffinity") => "where the affinity allows it".to_owned(),
            Self::Declared("UnsatisfiedRunAntiAffinity") => {
                "where the anti-affinity allows it".to_owned()
            }
            Self::Declared(reason) if reason.starts_with("Workspace") => {
                "where its workspace can be used".to_owned()
            }
            Self::Declared(reason) => format!("without {reason}"),
        }
    }

    fn reason(&self) -> String {
        match self {
            Self::NotReady => "NotReady".to_owned(),
            Self::Stale => "HeartbeatStale".to_owned(),
            Self::Small(resource) => format!("TooSmall {resource}"),
            Self::Short(resource) => format!("Insufficient {resource}"),
            Self::Exclusive => "HeldExclusively".to_owned(),
            Self::Kept => "KeptForOthers".to_owned(),
            Self::Declared(reason) => (*reason).to_owned(),
        }
    }

    fn events(&self, profile: &Profile, plugin: &'static str) -> Vec<EventKind> {
        match self {
            Self::NotReady | Self::Stale | Self::Small(_) => vec![EventKind::PodChanged],
            Self::Exclusive => vec![EventKind::CapacityReleased],
            Self::Short(_) | Self::Kept | Self::Declared(_) => profile.events_of(&[plugin]),
        }
    }
}

/// Adds up what the Pods that are alive have of everything the Run asks for.
pub fn supplies(snapshot: &Snapshot, run: &Run, heartbeat_limit: Duration) -> Vec<Supply> {
    let is_alive = |state: &&PodState| {
        let fresh = state
            .pod
            .heartbeat
            .is_fresh(snapshot.now(), heartbeat_limit);
        state.pod.ready && fresh
    };
    let alive: Vec<&PodState> = snapshot.pods().iter().filter(is_alive).collect();
    let sum = |of: &dyn Fn(&PodState) -> Quantity| {
        alive.iter().fold(Quantity::ZERO, |sum, state| {
            sum.checked_add(of(state)).unwrap_or(sum)
        })
    };
    let supply = |(resource, asked): (&String, &Quantity)| {
        let offered = |state: &PodState| {
            let found = state.pod.capacity.get(resource);
            found.copied().unwrap_or(Quantity::ZERO)
        };
        let used = |state: &PodState| {
            let usage = state.occupancy.usage_without(&run.uid);
            usage.get(resource).copied().unwrap_or(Quantity::ZERO)
        };
        Supply {
            resource: resource.clone(),
            asked: *asked,
            used: sum(&used),
            offered: sum(&offered),
            largest: alive
                .iter()
                .map(|state| offered(state))
                .max()
                .unwrap_or(Quantity::ZERO),
        }
    };
    run.request.iter().map(supply).collect()
}

/// Tells what each required affinity term of a Run does to the pool; a term that has no meaning is left out.
pub fn term_outlooks<'a>(snapshot: &Snapshot, run: &'a Run) -> Vec<TermOutlook<'a>> {
    let both = [Direction::Towards, Direction::Away];
    let terms = both.into_iter().flat_map(|direction| {
        let required = direction.required(run).iter();
        required.map(move |term| (direction == Direction::Away, term))
    });
    let outlook = |(away, stated): (bool, &'a RunAffinityTerm)| {
        let term = Term::new(stated, snapshot.view(), run).ok()?;
        let seedable = !away && term.is_seedable(run);
        let keeps_off = |state: &&PodState| !seedable && term.is_on(&state.pod) == away;
        Some(TermOutlook {
            term: stated,
            away,
            excludes: snapshot.pods().iter().filter(keeps_off).count(),
            seedable,
        })
    };
    terms.filter_map(outlook).collect()
}
