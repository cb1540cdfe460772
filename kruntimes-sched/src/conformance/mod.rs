//! Checks for profiles and books that are not this crate's own (S-177).
//!
//! ```
//! use kruntimes_sched::{Book, conformance, plugins};
//!
//! let profile = plugins::standard().build()?;
//! assert_eq!(conformance::profile(&profile), []);
//! assert_eq!(conformance::ledger(&profile, Book::new, 20), []);
//! # Ok::<(), kruntimes_sched::ProfileError>(())
//! ```

mod handoff;
mod histories;
mod vectors;

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use kruntimes_core::resources::Amounts;

use crate::book::{Book, Observation, View};
use crate::identity::Namespace;
use crate::pod::Pod;
use crate::profile::Profile;
use crate::reserve::{reserve, unreserve};
use crate::run::Run;

pub use histories::{Broken, history};

/// An item of the specification that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Number of the item, as in `S-100` or `V5`.
    pub item: &'static str,
    /// The case of the item.
    pub case: String,
    /// What was expected and what was found.
    pub detail: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}): {}", self.item, self.case, self.detail)
    }
}

/// What keeps track of reserved places; implemented by [`Book`] and by whoever replaces it.
pub trait Ledger {
    /// Takes in one Run as it was seen.
    fn observe(&mut self, seen: &Observation);
    /// Takes in a complete list of one namespace.
    fn observe_all(&mut self, namespace: &Namespace, seen: &[Observation]);
    /// Tries to take a place, and tells whether it is taken now.
    fn reserve(
        &mut self,
        profile: &Profile,
        run: &Arc<Run>,
        pod: &Arc<Pod>,
        now: Timestamp,
    ) -> bool;
    /// Gives a reserved place up.
    fn release(&mut self, profile: &Profile, run: &Run);
    /// Returns the sum of everything counted on a Pod.
    fn used(&self, namespace: &Namespace, pod: &Pod) -> Amounts;
    /// Freezes what is counted in a namespace.
    fn view(&self, namespace: &Namespace) -> View;
}

impl Ledger for Book {
    fn observe(&mut self, seen: &Observation) {
        Self::observe(self, seen);
    }

    fn observe_all(&mut self, namespace: &Namespace, seen: &[Observation]) {
        Self::observe_all(self, namespace, seen);
    }

    fn reserve(
        &mut self,
        profile: &Profile,
        run: &Arc<Run>,
        pod: &Arc<Pod>,
        now: Timestamp,
    ) -> bool {
        reserve(profile, self, run, pod, now).is_ok()
    }

    fn release(&mut self, profile: &Profile, run: &Run) {
        unreserve(profile, self, run);
    }

    fn used(&self, namespace: &Namespace, pod: &Pod) -> Amounts {
        self.occupancy(namespace, pod).usage().clone()
    }

    fn view(&self, namespace: &Namespace) -> View {
        Self::view(self, namespace.as_str())
    }
}

/// Checks a profile against the worked values of section 9.3 and the rules of bootstrap.
///
/// Returns what does not hold, by item; nothing, when the profile decides as
/// the default profile does in all these cases.
pub fn profile(profile: &Profile) -> Vec<Failure> {
    let mut failures = vectors::worked_values(profile);
    failures.extend(vectors::bootstrap(profile));
    failures
}

/// Checks a book against the handoff table of S-78 and, in many generated histories, against S-79 to S-81.
///
/// `profile` chooses the places in the histories.
pub fn ledger<L: Ledger>(profile: &Profile, make: impl Fn() -> L, histories: u64) -> Vec<Failure> {
    let mut failures = handoff::table(profile, &make);
    for seed in 0..histories {
        if let Err(broken) = history(profile, make(), seed) {
            failures.push(Failure {
                item: broken.item,
                case: format!("history {seed}, step {}", broken.step),
                detail: broken.detail,
            });
            break;
        }
    }
    failures
}
