//! The bundled preemption plugin and nominated capacity (scheduler, S-160, S-165).

use kruntimes_sched::plugins::{Preemption, RuntimePodAvailability, standard, standard_with};
use kruntimes_sched::testing::{
    PodBuilder, RunBuilder, SnapshotBuilder, a_pod, a_run, a_snapshot, waits, winner,
};
use kruntimes_sched::{Decision, Intent};

fn decide(snapshot: &SnapshotBuilder, run: &RunBuilder, trials: u32) -> Decision {
    let plugin = Preemption { trials };
    snapshot.decide(run, &standard().post_filter(plugin).build().unwrap())
}

/// Pod and victims of the nomination, which never changes the decision to wait.
fn nominated(snapshot: &SnapshotBuilder, run: &RunBuilder) -> Option<(String, Vec<String>)> {
    let decision = decide(snapshot, run, 1_000);
    assert!(waits(&decision).is_some());
    let nomination = decision.nomination?;
    let victims = nomination
        .victims
        .iter()
        .map(|victim| victim.name.to_string());
    Some((nomination.pod.to_string(), victims.collect()))
}

fn pod(name: &str, held: impl IntoIterator<Item = RunBuilder>) -> PodBuilder {
    let pod = a_pod(name).offers("runs", 4);
    held.into_iter().fold(pod, PodBuilder::holds)
}

fn want(pod: &str, victims: &[&str]) -> (String, Vec<String>) {
    let victims = victims.iter().map(|&name| name.to_owned());
    (pod.to_owned(), victims.collect())
}

#[test]
fn s_160_fewest_then_least_important_then_youngest_then_the_name_decide() {
    let run = a_run("r").asks("runs", 2).priority(10);
    let two = |name: &str| a_run(name).asks("runs", 2);
    let four = |name: &str| a_run(name).asks("runs", 4);
    let few = a_snapshot()
        .pod(pod("a", ["a1", "a2", "a3", "a4"].map(a_run)))
        .pod(pod("b", [two("b1"), two("b2")]));
    assert_eq!(nominated(&few, &run), Some(want("b", &["b1"])), "fewest");
    let modest = a_snapshot()
        .pod(pod("a", [four("a1").priority(5)]))
        .pod(pod("b", [four("b1").priority(4)]));
    assert_eq!(
        nominated(&modest, &run),
        Some(want("b", &["b1"])),
        "least important"
    );
    let young = a_snapshot()
        .pod(pod("a", [four("a1").created(5)]))
        .pod(pod("b", [four("b1").created(9)]));
    assert_eq!(
        nominated(&young, &run),
        Some(want("b", &["b1"])),
        "youngest"
    );
    let equal = a_snapshot()
        .pod(pod("b", [four("b1")]))
        .pod(pod("a", [four("a1")]));
    assert_eq!(nominated(&equal, &run), Some(want("a", &["a1"])), "name");
}

#[test]
fn s_160_only_strictly_lower_priority_gives_way_and_only_where_it_helps() {
    let run = a_run("r").asks("runs", 4).priority(1);
    let peers = a_snapshot().pod(pod("a", [a_run("t").priority(1)]));
    assert_eq!(nominated(&peers, &run), None);
    let unready = a_snapshot().pod(pod("a", [a_run("t")]).unready());
    assert_eq!(nominated(&unready, &run), None);
    // A Run that is kept away by another one's label, not by its size.
    let guard = a_snapshot().pod(pod("a", [a_run("t").label("x", "y"), a_run("u")]));
    let shy = a_run("r").priority(1).far_from("x", "y");
    assert_eq!(nominated(&guard, &shy), Some(want("a", &["t"])));
    // Whoever is needed is not evicted.
    let needs = a_run("r").asks("runs", 3).priority(1).near("x", "y");
    let two = a_run("u").asks("runs", 2);
    let held = a_snapshot().pod(pod("a", [a_run("t").label("x", "y"), two]));
    assert_eq!(nominated(&held, &needs), Some(want("a", &["u"])));
}

#[test]
fn s_160_it_is_off_unless_added_and_its_intents_name_the_victims() {
    let snapshot = a_snapshot().pod(pod("a", [a_run("t").asks("runs", 4)]));
    let run = a_run("r").priority(1);
    let off = snapshot.decide(&run, &standard().build().unwrap());
    assert_eq!(off.nomination, None);
    let nomination = decide(&snapshot, &run, 10).nomination.unwrap();
    let evict = Intent::Evict {
        run: "t".into(),
        uid: "t-uid".into(),
    };
    assert_eq!(nomination.intents(), [evict]);
    assert_eq!(nomination.pod_uid.as_str(), "a-uid");
}

#[test]
fn s_160_the_work_is_bounded_whatever_a_pod_holds() {
    let crowd = (0..40).map(|n| a_run(&format!("t{n:02}")).priority(n));
    let pod = crowd.fold(a_pod("a").offers("runs", 40), PodBuilder::holds);
    let run = a_run("r").asks("runs", 20).priority(99);
    let decision = decide(&a_snapshot().pod(pod), &run, 50);
    let victims = decision.nomination.unwrap().victims;
    assert_eq!(victims.len(), 20, "found by sparing the important ones");
    assert!(victims.iter().all(|victim| victim.name.as_str() < "t20"));
}

#[test]
fn s_165_room_is_kept_for_nominated_runs_of_higher_priority_only_when_asked() {
    let snapshot = a_snapshot()
        .pod(pod("a", [a_run("t").asks("runs", 2)]))
        .nominates(a_run("n").asks("runs", 2).priority(5), "a");
    let keeping = standard_with(RuntimePodAvailability::default().counting_nominated());
    let keeping = keeping.build().unwrap();
    let plain = standard().build().unwrap();
    let run = a_run("r");
    assert_eq!(winner(&snapshot.decide(&run, &plain)), Some("a"), "off");
    assert!(waits(&snapshot.decide(&run, &keeping)).is_some());
    let peer = run.priority(5);
    assert_eq!(winner(&snapshot.decide(&peer, &keeping)), Some("a"));
    let itself = a_run("n").asks("runs", 2).priority(5);
    assert_eq!(winner(&snapshot.decide(&itself, &keeping)), Some("a"));
}
