//! Which Pods will do: pre-filters and filters, prepared once and asked per Pod.

use std::collections::BTreeSet;

use crate::calculate::guarded;
use crate::decision::CycleError;
use crate::identity::PodName;
use crate::plugin::{Admission, Broken, Invalid, PrepareError, Prepared, Verdict};
use crate::profile::Profile;
use crate::run::Run;
use crate::snapshot::{PodState, Snapshot};

/// Who rejected, and for which declared reason.
pub(crate) type Rejection = (&'static str, &'static str);

/// Why a cycle ends before its time.
pub(crate) enum Stop {
    Fail(Invalid),
    Retry(CycleError),
}

impl From<CycleError> for Stop {
    fn from(error: CycleError) -> Self {
        Self::Retry(error)
    }
}

/// The Pods one pre-filter leaves.
struct Narrowed {
    plugin: &'static str,
    pods: BTreeSet<PodName>,
    reason: &'static str,
}

/// Everything that may reject a Pod, prepared for one Run and one snapshot.
pub(crate) struct Filtering<'a> {
    profile: &'a Profile,
    narrowed: Vec<Narrowed>,
    filters: Vec<Prepared<'a>>,
}

impl<'a> Filtering<'a> {
    pub(crate) fn prepare(
        profile: &'a Profile,
        snapshot: &'a Snapshot,
        run: &'a Run,
    ) -> Result<Self, Stop> {
        let mut narrowed = Vec::new();
        let mut skipped = Vec::new();
        for entry in &profile.pre_filters {
            let admission = guarded(entry.name, || entry.plugin.admit(snapshot, run))?;
            match admission.map_err(|error| stop(entry.name, error))? {
                Admission::All => {}
                Admission::Skip => skipped.push(entry.name),
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
        let mut filters = Vec::with_capacity(profile.filters.len());
        for entry in &profile.filters {
            if skipped.contains(&entry.name) {
                filters.push(Prepared::Skip);
                continue;
            }
            let prepared = guarded(entry.name, || entry.plugin.prepare(snapshot, run))?
                .map_err(|error| stop(entry.name, error))?;
            if let Prepared::Rejects(reason) = prepared {
                declared(entry.declares(reason), entry.name, reason)?;
            }
            filters.push(prepared);
        }
        Ok(Self {
            profile,
            narrowed,
            filters,
        })
    }

    /// Returns the rejections of the Run as a whole: they are told even when there is no Pod (S-50).
    pub(crate) fn of_the_run(&self) -> impl Iterator<Item = Rejection> {
        let entries = self.profile.filters.iter().zip(&self.filters);
        entries.filter_map(|(entry, prepared)| match prepared {
            Prepared::Rejects(reason) => Some((entry.name, *reason)),
            Prepared::Check(_) | Prepared::Skip => None,
        })
    }

    /// Returns who is asked, in order, and whether it has anything to say about the Run.
    pub(crate) fn order(&self) -> impl Iterator<Item = (&'static str, bool)> {
        let narrowed = self.narrowed.iter().map(|by| (by.plugin, true));
        let entries = self.profile.filters.iter().zip(&self.filters);
        narrowed.chain(entries.map(|(entry, prepared)| {
            let asks = match prepared {
                Prepared::Skip => false,
                Prepared::Check(_) | Prepared::Rejects(_) => true,
            };
            (entry.name, asks)
        }))
    }

    /// Returns the first rejection of a Pod, in registration order (S-43).
    pub(crate) fn verdict(&self, pod: &PodState) -> Result<Option<Rejection>, CycleError> {
        let left_out = |narrowed: &&Narrowed| !narrowed.pods.contains(&pod.pod.name);
        if let Some(narrowed) = self.narrowed.iter().find(left_out) {
            return Ok(Some((narrowed.plugin, narrowed.reason)));
        }
        for (entry, prepared) in self.profile.filters.iter().zip(&self.filters) {
            let verdict = match prepared {
                Prepared::Skip => Verdict::Fits,
                Prepared::Rejects(reason) => Verdict::Rejects(reason),
                Prepared::Check(check) => guarded(entry.name, || check(pod))?,
            };
            if let Verdict::Rejects(reason) = verdict {
                declared(entry.declares(reason), entry.name, reason)?;
                return Ok(Some((entry.name, reason)));
            }
        }
        Ok(None)
    }
}

pub(crate) fn stop(plugin: &'static str, error: PrepareError) -> Stop {
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
