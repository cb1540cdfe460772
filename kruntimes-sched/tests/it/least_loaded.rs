//! `LeastLoaded` (scheduler, section 9.2).

use kruntimes_sched::plugins::{LeastLoaded, standard};
use kruntimes_sched::testing::{
    PodBuilder, SnapshotBuilder, a_pod, a_run, a_snapshot, total, winner,
};
use kruntimes_sched::{Score, Scored};
use proptest::prelude::*;

fn totals(snapshot: &SnapshotBuilder, pods: &[&str]) -> Vec<i64> {
    let decision = snapshot.decide(&a_run("r"), &standard().build().unwrap());
    pods.iter()
        .map(|pod| total(&decision, pod).unwrap())
        .collect()
}

#[test]
fn s_71_v3_the_fullest_resource_decides() {
    let pod = |name| {
        a_pod(name)
            .offers("runs", 4)
            .offers("example.com/accelerator", 16)
    };
    let held = |name, amount| a_run(name).asks("example.com/accelerator", amount);
    let snapshot = a_snapshot()
        .pod(pod("a").holds(held("one", 8)))
        .pod(pod("b").holds(held("two", 1)))
        .pod(pod("c"));
    let run = a_run("r").asks("example.com/accelerator", 1);
    let decision = snapshot.decide(&run, &standard().build().unwrap());
    let scores = ["c", "b", "a"].map(|pod| total(&decision, pod));
    assert_eq!(scores, [Some(100), Some(50), Some(0)]);
    assert_eq!(winner(&decision), Some("c"));
}

#[test]
fn s_65_v4_idle_pods_are_equal_and_the_first_name_wins() {
    let snapshot = a_snapshot().pod(a_pod("b")).pod(a_pod("a"));
    assert_eq!(totals(&snapshot, &["a", "b"]), [100, 100]);
    let decision = snapshot.decide(&a_run("r"), &standard().build().unwrap());
    assert_eq!(winner(&decision), Some("a"));
}

#[test]
fn s_72_equal_maxima_are_told_apart_by_the_sum() {
    let pod = |name| a_pod(name).offers("runs", 2).offers("gpu", 2);
    let snapshot = a_snapshot()
        .pod(pod("a").holds(a_run("x").asks("gpu", 1)))
        .pod(pod("b").holds(a_run("y")));
    assert_eq!(totals(&snapshot, &["a", "b"]), [0, 100]);
}

#[test]
fn s_73_groups_of_equal_loads_share_the_rank_of_their_first() {
    let busy = |name: &str, runs: usize| {
        (0..runs).fold(a_pod(name).offers("runs", 10), |pod, n| {
            pod.holds(a_run(&format!("{name}{n}")))
        })
    };
    for (loads, want) in [
        (&[3][..], &[100][..]),
        (&[1, 1, 1], &[100, 100, 100]),
        (&[0, 1, 1], &[100, 50, 50]),
        (&[0, 0, 1], &[100, 100, 0]),
        (&[3, 2, 1, 0], &[0, 33, 66, 100]),
    ] {
        let names = ["a", "b", "c", "d"];
        let pods = loads
            .iter()
            .zip(names)
            .map(|(runs, name)| busy(name, *runs));
        let snapshot = pods.fold(a_snapshot(), SnapshotBuilder::pod);
        assert_eq!(totals(&snapshot, &names[..loads.len()]), want, "{loads:?}");
    }
}

#[test]
fn s_74_a_candidate_that_is_not_in_the_snapshot_is_an_error() {
    let snapshot = a_snapshot().pod(a_pod("a")).build();
    let run = a_run("r").build();
    let scorer = LeastLoaded.prepare(&snapshot, &run).unwrap();
    let mut scores = [Scored {
        pod: "ghost".into(),
        score: 0,
    }];
    assert_eq!(
        scorer.normalize(&mut scores).unwrap_err().to_string(),
        "candidate pod \"ghost\" is not in the scheduling snapshot"
    );
}

fn pool(doubled: bool, loads: &[i64]) -> SnapshotBuilder {
    let pods = loads.iter().enumerate().map(|(at, load)| -> PodBuilder {
        let name = format!("p{at}");
        // Request and usage together double when capacity halves.
        let capacity = if doubled { 100 } else { 200 };
        a_pod(&name)
            .offers("runs", capacity)
            .holds(a_run(&name).asks("runs", *load))
    });
    pods.fold(a_snapshot(), SnapshotBuilder::pod)
}

proptest! {
    #[test]
    fn s_75_doubling_every_utilization_changes_nothing(loads in prop::collection::vec(1_i64..90, 1..8)) {
        let names: Vec<String> = (0..loads.len()).map(|at| format!("p{at}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        prop_assert_eq!(totals(&pool(false, &loads), &names), totals(&pool(true, &loads), &names));
    }
}
