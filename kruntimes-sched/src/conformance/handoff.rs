//! The handoff table of S-78, row by row.

use std::sync::Arc;

use jiff::Timestamp;

use crate::book::Observation;
use crate::profile::Profile;
use crate::run::Run;
use crate::testing::{a_pod, a_run, active, elsewhere, namespace, pending};

use super::{Failure, Ledger};

pub(super) fn table<L: Ledger>(profile: &Profile, make: impl Fn() -> L) -> Vec<Failure> {
    let run = a_run("r").attempt(2).shared();
    let pod = Arc::new(a_pod("p").offers("runs", 1).build());
    let other = a_pod("other").build();
    let renamed = Arc::new(Run {
        name: "renamed".into(),
        ..run.as_ref().clone()
    });
    let later = a_run("r").attempt(3).shared();
    let earlier = a_run("r").attempt(1).shared();
    let seen = |observation: Observation| Some(observation);
    // Whether the Pod is still counted as full afterwards.
    let rows = [
        ("active there", seen(active(Arc::clone(&run), &pod)), true),
        (
            "assigned elsewhere",
            seen(active(Arc::clone(&run), &other)),
            false,
        ),
        ("ended", seen(elsewhere(Arc::clone(&run))), false),
        ("absent from a list", None, false),
        ("renamed", seen(pending(renamed)), false),
        ("later attempt", seen(pending(later)), false),
        ("same attempt", seen(pending(Arc::clone(&run))), true),
        ("earlier attempt", seen(pending(earlier)), true),
    ];
    let mut failures = Vec::new();
    for (case, observation, want) in rows {
        let mut ledger = make();
        let mut fail = |detail: &str| {
            failures.push(Failure {
                item: "S-78",
                case: case.to_owned(),
                detail: detail.to_owned(),
            });
        };
        if !ledger.reserve(profile, &run, &pod, Timestamp::UNIX_EPOCH) {
            fail("the place was not reserved at all");
            continue;
        }
        match observation {
            Some(observation) => ledger.observe(&observation),
            None => ledger.observe_all(&namespace(), &[]),
        }
        let full = !ledger.used(&namespace(), &pod).is_empty();
        match (want, full) {
            (true, false) => fail("the place is not counted any more"),
            (false, true) => fail("the place is still counted"),
            (true, true) | (false, false) => {}
        }
        if case == "active there" {
            // Once it is observed, it is no assumption any more.
            ledger.release(profile, &run);
            if ledger.used(&namespace(), &pod).is_empty() {
                fail("an observed run was released as if it were assumed");
            }
        }
    }
    failures
}
