//! Taking the chosen place, all or nothing.

use std::sync::Arc;

use jiff::Timestamp;

use crate::book::{Book, Taken};
use crate::calculate::guarded;
use crate::decision::CycleError;
use crate::plugin::Attempt;
use crate::pod::Pod;
use crate::profile::Profile;
use crate::register;
use crate::run::Run;
use crate::snapshot::PodState;

/// Why a chosen place was not reserved. Nothing is held.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReserveError {
    /// The place was taken meanwhile. Waiting may help.
    #[error("the place is taken")]
    Taken(#[source] Taken),
    /// A plugin refused. Waiting may help.
    #[error("plugin \"{plugin}\" refused: {reason}")]
    Refused {
        /// The plugin.
        plugin: &'static str,
        /// What it gave as cause.
        reason: &'static str,
    },
    /// Another member of the Run's group was refused. Waiting may help.
    #[error("another member of the group was refused")]
    Group,
    /// A plugin panicked. The cycle is to be repeated.
    #[error("a reserve plugin failed")]
    Broken(#[source] CycleError),
}

/// Asks every reserve plugin in order, then takes the place in the book (S-77).
///
/// `pod` is the chosen Pod as it is now. On refusal everything is given back
/// in reverse order.
///
/// # Errors
///
/// Returns who refused. A refusal is no fault of the Run: its status stays as it is.
pub fn reserve(
    profile: &Profile,
    book: &mut Book,
    run: &Arc<Run>,
    pod: &Arc<Pod>,
    now: Timestamp,
) -> Result<(), ReserveError> {
    let site = register::number(pod.name.as_str());
    let state = PodState {
        occupancy: book.occupancy_at(site, &run.namespace, pod),
        pod: Arc::clone(pod),
    };
    let attempt = Attempt {
        run,
        pod: &state,
        now,
    };
    for (done, entry) in profile.reserves.iter().enumerate() {
        let answer = guarded(entry.name, || entry.plugin.reserve(&attempt));
        let error = match answer {
            Ok(Ok(())) => continue,
            Ok(Err(refused)) => ReserveError::Refused {
                plugin: entry.name,
                reason: refused.0,
            },
            Err(panicked) => ReserveError::Broken(panicked),
        };
        give_back(profile, run, done);
        return Err(error);
    }
    // Nobody else looks at what the Pod holds, so that it changes in place.
    drop(state);
    book.reserve_at(site, run, pod).map_err(|taken| {
        give_back(profile, run, profile.reserves.len());
        ReserveError::Taken(taken)
    })
}

/// Gives up a reservation that did not become a placement (S-85, S-88).
pub fn unreserve(profile: &Profile, book: &mut Book, run: &Run) {
    book.release(&run.namespace, &run.uid);
    give_back(profile, run, profile.reserves.len());
}

fn give_back(profile: &Profile, run: &Run, taken: usize) {
    for entry in profile.reserves[..taken].iter().rev() {
        // A plugin that panics here must not keep the earlier ones from giving back.
        let _ = guarded(entry.name, || entry.plugin.unreserve(run));
    }
}
