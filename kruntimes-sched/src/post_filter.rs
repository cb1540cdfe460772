//! What could make room for a Run that nothing fits.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::filtering::Filtering;
use crate::identity::{PodName, PodUid, RunName, RunUid};
use crate::placing::Intent;
use crate::plugin::Broken;
use crate::profile::Profile;
use crate::run::Run;
use crate::snapshot::Snapshot;

/// A Run that would have to go.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Victim {
    /// Its name.
    pub name: RunName,
    /// Its identity.
    pub uid: RunUid,
}

/// A Pod on which a Run would fit if others were gone.
///
/// It is data: nobody is evicted unless the caller does it. Without that the
/// Run waits as if there were no nomination (S-160).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Nomination {
    /// The Pod.
    pub pod: PodName,
    /// UID of the Pod.
    pub pod_uid: PodUid,
    /// The Runs that would have to go, by UID.
    pub victims: Vec<Victim>,
}

impl Nomination {
    /// Returns what an adapter that acts on nominations has to do (S-162).
    pub fn intents(&self) -> Vec<Intent> {
        let victims = self.victims.iter();
        victims
            .map(|victim| Intent::Evict {
                run: victim.name.clone(),
                uid: victim.uid.clone(),
            })
            .collect()
    }
}

/// Looks for a way to make room, after every Pod was rejected.
pub trait PostFilter: Send + Sync {
    /// Names the plugin in errors.
    fn name(&self) -> &'static str;

    /// Nominates a Pod and who would have to leave it, or nothing. The first plugin that nominates counts.
    ///
    /// # Errors
    ///
    /// Returns an error when the plugin is broken; the cycle is repeated.
    fn nominate(&self, trial: &Trial<'_>) -> Result<Option<Nomination>, Broken>;
}

/// A rejected Run and the question on which Pods it would fit if others were gone.
pub struct Trial<'a> {
    profile: &'a Profile,
    snapshot: &'a Snapshot,
    run: &'a Run,
}

impl<'a> Trial<'a> {
    pub(crate) fn new(profile: &'a Profile, snapshot: &'a Snapshot, run: &'a Run) -> Self {
        Self {
            profile,
            snapshot,
            run,
        }
    }

    /// Returns the snapshot of the cycle.
    pub fn snapshot(&self) -> &'a Snapshot {
        self.snapshot
    }

    /// Returns the Run that nothing fits.
    pub fn run(&self) -> &'a Run {
        self.run
    }

    /// Tells whether every filter would accept the Pod if some Runs were gone.
    ///
    /// A filter that fails on the imagined snapshot accepts nothing.
    pub fn fits_without(&self, pod: &PodName, gone: &BTreeSet<RunUid>) -> bool {
        let imagined = self.snapshot.without(gone);
        let Ok(filtering) = Filtering::prepare(self.profile, &imagined, self.run) else {
            return false;
        };
        let state = imagined.pod(pod);
        state.is_some_and(|state| matches!(filtering.verdict(state), Ok(None)))
    }
}
