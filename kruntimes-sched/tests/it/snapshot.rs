//! What a cycle sees, and that it changes nothing (scheduler, sections 3, 6, 8 and 10).

use std::sync::Arc;

use kruntimes_core::quantity::Quantity;
use kruntimes_core::resources::{self, Amounts};
use kruntimes_sched::batch::{Candidate, Fleet, Limits, plan_batch};
use kruntimes_sched::plugins::standard;
use kruntimes_sched::testing::{
    NAMESPACE, a_pod, a_run, a_snapshot, active, at, namespace, waits, winner,
};
use kruntimes_sched::{Book, Origin, Place, Pod, Point, Workspace, calculate};

fn whole(entries: &[(&str, i64)]) -> Amounts {
    let entries = entries.iter();
    entries
        .map(|(name, amount)| ((*name).to_owned(), Quantity::from_whole(*amount)))
        .collect()
}

/// A place whose capacity falls back to what its kind offers.
struct Machine(&'static str);

impl Place for Machine {
    fn name(&self) -> &str {
        self.0
    }

    fn uid(&self) -> &str {
        self.0
    }

    fn capacity(&self) -> Amounts {
        whole(&[("runs", 7), ("gpu", 1)])
    }
}

#[test]
fn s_10_only_runs_are_implied_and_a_caller_may_imply_other_amounts() {
    assert_eq!(*Pod::new("p", "u").capacity, whole(&[("runs", 2)]));
    let other = Pod::of(&Machine("m"));
    assert_eq!(*other.capacity, whole(&[("runs", 7), ("gpu", 1)]));
    assert!(other.ready, "needs no heartbeat unless it says so (S-146)");
}

#[test]
fn s_14_an_active_run_without_valid_request_contributes_nothing() {
    let mut run = a_run("broken").build();
    run.request = Arc::default();
    let pod = a_pod("p").offers("runs", 1);
    let mut book = Book::new();
    book.observe(&active(Arc::new(run), &pod.clone().build()));
    let snapshot = a_snapshot().pod(pod).build_from(&book);
    let decision = calculate(&snapshot, &a_run("r").build(), &standard().build().unwrap());
    assert_eq!(winner(&decision), Some("p"));
}

#[test]
fn s_16_s_34_s_51_a_pod_counts_what_was_asked_for_observed_and_assumed_alike() {
    let pod = a_pod("p").offers("runs", 9).offers("gpu", 9);
    let built = pod.clone().build();
    let mut book = Book::new();
    book.observe(&active(a_run("seen").asks("gpu", 3).shared(), &built));
    let assumed = a_run("assumed").asks("runs", 2).workspace("w").shared();
    book.reserve(&assumed, &built).unwrap();
    let snapshot = a_snapshot().pod(pod).build_from(&book);
    let occupancy = &snapshot.pods()[0].occupancy;
    assert_eq!(*occupancy.usage(), whole(&[("runs", 3), ("gpu", 3)]));
    book.observe(&active(assumed, &built));
    let usage = book.occupancy(&namespace(), &built).usage().clone();
    assert_eq!(usage, *occupancy.usage(), "handed over, not added");
}

#[test]
fn s_32_s_37_s_44_a_cycle_changes_nothing_it_sees() {
    let snapshot = a_snapshot()
        .pod(a_pod("a").holds(a_run("t").label("stage", "build")))
        .pod(a_pod("b").unready())
        .workspace(Workspace::new("w", "python").bound("a", "a-uid"))
        .without_runtime()
        .at(77)
        .build();
    let before = serde_json::to_value(&snapshot).unwrap();
    for (key, want) in [
        ("/now", "1970-01-01T00:01:17Z".into()),
        ("/runtimeExists", false.into()),
        ("/pods/1/ready", false.into()),
        ("/holds/0/run/labels/stage", "build".into()),
        ("/holds/0/origin", "Observed".into()),
        ("/workspace/boundPodUid", "a-uid".into()),
    ] {
        assert_eq!(
            before.pointer(key),
            Some::<&serde_json::Value>(&want),
            "{key}"
        );
    }
    let run = a_run("r").workspace("w").near("stage", "build").build();
    let profile = standard().build().unwrap();
    let first = calculate(&snapshot, &run, &profile);
    assert_eq!(winner(&first), Some("a"));
    assert_eq!(calculate(&snapshot, &run, &profile), first);
    assert_eq!(serde_json::to_value(&snapshot).unwrap(), before);
}

#[test]
fn s_45_the_default_plugins_come_in_their_order() {
    let profile = standard().build().unwrap();
    let filters: Vec<_> = profile.filters().collect();
    assert_eq!(
        filters,
        ["Workspace", "RuntimePodAvailability", "RunAffinity"]
    );
    let scores: Vec<_> = profile.scores().collect();
    assert_eq!(scores, [("PreferredRunAffinity", 1), ("LeastLoaded", 1)]);
    let at = |point| profile.plugins(point);
    assert_eq!(at(Point::Filter), filters);
    assert_eq!(at(Point::Reserve), ["RuntimePodAvailability"]);
    assert_eq!(at(Point::PreBind), ["Workspace"]);
    assert_eq!(at(Point::Permit), [""; 0]);
}

#[test]
fn s_56_s_61_the_topology_is_the_pod_whatever_the_runtime_of_the_target() {
    let target = a_run("t").runtime("bash").label("stage", "build");
    let snapshot = a_snapshot().pod(a_pod("a")).pod(a_pod("b").holds(target));
    let run = a_run("r").near("stage", "build");
    let decision = snapshot.decide(&run, &standard().build().unwrap());
    assert_eq!(winner(&decision), Some("b"));
}

#[test]
fn s_76_an_assumption_remembers_what_was_reserved() {
    let run = a_run("r").label("a", "b").attempt(3).exclusive().shared();
    let mut book = Book::new();
    book.reserve(&run, &a_pod("p").build()).unwrap();
    let hold = book.hold(&namespace(), &run.uid).unwrap();
    assert_eq!(
        hold.run, run,
        "name, labels, request, exclusivity and attempt"
    );
    assert_eq!(hold.pod().as_str(), "p");
    assert_eq!(hold.pod_uid().unwrap().as_str(), "p-uid");
    assert_eq!(hold.origin, Origin::Assumed);
}

#[test]
fn s_135_a_resource_that_no_pod_offers_waits_until_one_does() {
    let profile = standard().build().unwrap();
    let run = a_run("r").asks("gpu", 1);
    let without = a_snapshot().pod(a_pod("a")).pod(a_pod("b"));
    let message = "waiting for available runtime pods for runtime \"python\"";
    let decision = without.decide(&run, &profile);
    assert_eq!(waits(&decision), Some(("RequestExceedsCapacity", message)));
    let offering = a_pod("b").offers("runs", 2).offers("gpu", 1);
    let with = a_snapshot().pod(a_pod("a")).pod(offering);
    assert_eq!(winner(&with.decide(&run, &profile)), Some("b"));
}

#[test]
fn s_169_no_decision_is_revised_because_of_a_later_run() {
    let pods = [("a", 2), ("b", 1)].map(|(name, runs)| a_pod(name).offers("runs", runs).build());
    let fleet = Fleet::new(at(0), Book::new()).pool(NAMESPACE, "python", pods);
    // The first one goes to the emptier Pod, although only that one could hold the second.
    let runs = [a_run("small"), a_run("wide").asks("runs", 2)];
    let candidates = runs.map(|run| Candidate::new(run.build()));
    let plan = plan_batch(
        &fleet,
        candidates,
        &standard().build().unwrap(),
        Limits::default(),
    );
    let binds: Vec<_> = plan
        .binds()
        .map(|(run, pod)| (run.name.as_str(), pod.name.as_str()))
        .collect();
    assert_eq!(binds, [("small", "a")]);
}

#[test]
fn s_155_resource_fitting_and_selectors_are_usable_alone() {
    let (two, one) = (whole(&[("runs", 2)]), whole(&[("runs", 1)]));
    assert!(resources::fits(&one, &one, &two));
    assert!(!resources::fits(&two, &one, &two));
    let term = kruntimes_sched::testing::term("stage", "build");
    let selector = term.label_selector.unwrap().compile().unwrap();
    assert!(selector.matches(&a_run("r").label("stage", "build").build().labels));
}
