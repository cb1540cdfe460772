//! The worked values of section 9.3 and the rules of bootstrap.

use std::sync::Arc;

use crate::book::Book;
use crate::calculate::calculate;
use crate::decision::Action;
use crate::identity::PodName;
use crate::plugin::Scored;
use crate::plugins::by_maximum;
use crate::profile::Profile;
use crate::testing::{
    RunBuilder, SnapshotBuilder, a_pod, a_run, a_snapshot, active, total, winner,
};

use super::Failure;

fn failed(item: &'static str, case: &str, want: &str, found: &Action) -> Failure {
    Failure {
        item,
        case: case.to_owned(),
        detail: format!("expected {want}, found {found:?}"),
    }
}

/// Returns a failure unless the Run goes to `want`; to nothing when that is absent.
fn goes(
    profile: &Profile,
    item: &'static str,
    case: &str,
    snapshot: &SnapshotBuilder,
    run: &RunBuilder,
    want: Option<&str>,
) -> Option<Failure> {
    let decision = snapshot.decide(run, profile);
    let right = winner(&decision) == want
        && (want.is_some() || matches!(decision.action, Action::Wait { .. }));
    let told = want.map_or_else(|| "a wait".to_owned(), |pod| format!("pod {pod}"));
    (!right).then(|| failed(item, case, &told, &decision.action))
}

pub(super) fn worked_values(profile: &Profile) -> Vec<Failure> {
    let mut failures = Vec::new();
    failures.extend(normalized());
    failures.extend(loads(profile));
    let idle = a_snapshot().pod(a_pod("b")).pod(a_pod("a"));
    failures.extend(goes(
        profile,
        "V4",
        "two idle pods",
        &idle,
        &a_run("r"),
        Some("a"),
    ));
    failures.extend(preference(profile));
    let both = a_run("t1").label("stage", "build").label("zone", "blue");
    let one = a_run("t2").label("stage", "build");
    let snapshot = a_snapshot()
        .pod(a_pod("a").holds(both))
        .pod(a_pod("b").holds(one.clone()));
    let run = a_run("r").near("stage", "build").likes(1, "zone", "blue");
    failures.extend(goes(
        profile,
        "V6",
        "preferred zone",
        &snapshot,
        &run,
        Some("a"),
    ));
    let blocked = a_run("t3").label("stage", "build").label("blocked", "true");
    let snapshot = a_snapshot()
        .pod(a_pod("a").holds(one))
        .pod(a_pod("b").holds(blocked))
        .pod(a_pod("c"));
    let run = a_run("r")
        .near("stage", "build")
        .far_from("blocked", "true");
    let decision = snapshot.decide(&run, profile);
    let only_a = match &decision.action {
        Action::Bind { scores, .. } => scores.keys().map(PodName::as_str).eq(["a"]),
        Action::Wait { .. } | Action::Fail { .. } | Action::Retry { .. } => false,
    };
    if !only_a {
        failures.push(failed("V7", "both kinds", "only a", &decision.action));
    }
    failures
}

/// V2: normalization by the maximum.
fn normalized() -> Option<Failure> {
    let mut scores = [("c", 2), ("a", 1), ("b", 2)].map(|(pod, score)| Scored {
        pod: pod.into(),
        score,
    });
    let done = by_maximum(&mut scores);
    let right = done.is_ok() && scores.iter().map(|s| s.score).eq([100, 50, 100]);
    (!right).then(|| Failure {
        item: "V2",
        case: "by maximum".to_owned(),
        detail: format!("expected 100, 50, 100, found {scores:?}"),
    })
}

/// V3: loads 9/16, 1/2, 1/4, filled up in the order c, b, a.
fn loads(profile: &Profile) -> Option<Failure> {
    let gpu = "example.com/accelerator";
    let pod = |name: &str| a_pod(name).offers("runs", 4).offers(gpu, 16);
    let (a, b, c) = (pod("a"), pod("b"), pod("c"));
    let a = a.holds(a_run("t1").asks(gpu, 8));
    let b = b.holds(a_run("t2").asks(gpu, 1));
    let run = a_run("r").asks(gpu, 1);
    let full = |name: &str| a_pod(name).offers("runs", 1).holds(a_run(name));
    let all = a_snapshot().pod(a.clone()).pod(b.clone()).pod(c);
    let two = a_snapshot().pod(a).pod(b).pod(full("c"));
    goes(profile, "V3", "c first", &all, &run, Some("c"))
        .or_else(|| goes(profile, "V3", "then b", &two, &run, Some("b")))
}

/// V5: preference does not outrank load.
fn preference(profile: &Profile) -> Option<Failure> {
    let gold = a_run("t1").label("zone", "blue").label("tier", "gold");
    let pod = |name: &str, runs| a_pod(name).offers("runs", runs);
    let snapshot = a_snapshot()
        .pod(pod("A", 2).holds(gold))
        .pod(pod("B", 4).holds(a_run("t2")).holds(a_run("t3")))
        .pod(pod("C", 4).holds(a_run("t4").label("zone", "blue")));
    let run = a_run("r").likes(1, "zone", "blue").likes(1, "tier", "gold");
    let decision = snapshot.decide(&run, profile);
    let totals = ["A", "B", "C"].map(|pod| total(&decision, pod));
    let want = [Some(100), Some(50), Some(150)];
    (totals != want).then(|| Failure {
        item: "V5",
        case: "totals of A, B, C".to_owned(),
        detail: format!("expected {want:?}, found {totals:?}"),
    })
}

pub(super) fn bootstrap(profile: &Profile) -> Vec<Failure> {
    let mut failures = Vec::new();
    let build = |name: &str| a_run(name).label("stage", "build");
    let empty = a_snapshot().pod(a_pod("a")).pod(a_pod("b"));
    let seed = build("r").near("stage", "build");
    failures.extend(goes(
        profile,
        "S-100",
        "empty cohort",
        &empty,
        &seed,
        Some("a"),
    ));
    let stranger = a_run("r").label("stage", "test").near("stage", "build");
    failures.extend(goes(profile, "S-101", "stranger", &empty, &stranger, None));
    let held = a_snapshot()
        .pod(a_pod("a"))
        .pod(a_pod("b").holds(build("t")));
    failures.extend(goes(profile, "S-57", "cohort", &held, &seed, Some("b")));
    let mixed = build("r")
        .label("team", "x")
        .near("stage", "build")
        .near("team", "x");
    failures.extend(goes(
        profile,
        "S-99",
        "one of two",
        &held,
        &mixed,
        Some("b"),
    ));
    let mut book = Book::new();
    let target = build("t").runtime("other").shared();
    book.observe(&active(target, &a_pod("elsewhere").build()));
    let run = Arc::new(seed.build());
    let decision = calculate(&empty.build_from(&book), &run, profile);
    if !matches!(decision.action, Action::Wait { .. }) {
        let case = "target of another pool";
        failures.push(failed("S-100", case, "a wait", &decision.action));
    }
    failures
}
