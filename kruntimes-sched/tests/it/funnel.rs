//! The way from all Pods of a pool to those that will do (cli, C-60).

use std::collections::BTreeMap;

use kruntimes_sched::plugins::standard;
use kruntimes_sched::testing::{SnapshotBuilder, a_pod, a_run, a_snapshot, at};
use kruntimes_sched::{HEARTBEAT_LIMIT, Heartbeat, Stage, funnel, supplies, term_outlooks};
use proptest::prelude::*;

fn stages(snapshot: &SnapshotBuilder, run: &kruntimes_sched::testing::RunBuilder) -> Vec<Stage> {
    let profile = standard().build().unwrap();
    let run = run.clone().build();
    funnel(&snapshot.build(), &run, &profile, HEARTBEAT_LIMIT)
}

fn text(stages: &[Stage]) -> String {
    let lines = stages
        .iter()
        .map(|stage| format!("{} {} (-{})\n", stage.left, stage.stage, stage.lost));
    lines.collect()
}

#[test]
fn c_60_each_pod_drops_out_at_the_first_stage_it_does_not_reach() {
    let snapshot = a_snapshot()
        .at(100)
        .pod(a_pod("a").unready().heartbeat(Heartbeat::Missing))
        .pod(a_pod("b").heartbeat(Heartbeat::At(at(50))))
        .pod(a_pod("c").offers("runs", 1).holds(a_run("t")))
        .pod(a_pod("d").offers("runs", 2).offers("gpu", 1))
        .pod(a_pod("e").offers("runs", 2).offers("gpu", 4))
        .pod(
            a_pod("f")
                .offers("runs", 2)
                .offers("gpu", 4)
                .holds(a_run("build").label("stage", "build")),
        );
    let run = a_run("r").asks("gpu", 2).near("stage", "build");
    let want = "\
6 Pods of the Runtime (-0)
5 running and ready (-1)
4 with a fresh heartbeat (-1)
2 that offer enough gpu (-2)
2 with enough free gpu (-0)
2 with enough free runs (-0)
1 where the affinity allows it (-1)
";
    assert_eq!(text(&stages(&snapshot, &run)), want);
}

#[test]
fn c_60_a_workspace_and_exclusivity_have_stages_of_their_own_when_they_matter() {
    let snapshot = a_snapshot()
        .pod(a_pod("a").holds(a_run("t").exclusive()))
        .pod(a_pod("b"));
    let told = text(&stages(&snapshot, &a_run("r")));
    assert!(told.contains("1 not held exclusively (-1)"), "{told}");
    let told = text(&stages(&snapshot, &a_run("r").workspace("w")));
    assert!(
        told.contains("0 where its workspace can be used (-2)"),
        "{told}"
    );
}

#[test]
fn c_60_supplies_count_what_is_alive() {
    let snapshot = a_snapshot()
        .pod(a_pod("a").offers("gpu", 2).holds(a_run("t").asks("gpu", 1)))
        .pod(a_pod("b").offers("gpu", 1))
        .pod(a_pod("c").offers("gpu", 8).unready());
    let run = a_run("r").asks("gpu", 4).build();
    let gpu = supplies(&snapshot.build(), &run, HEARTBEAT_LIMIT).remove(0);
    let whole = [gpu.asked, gpu.used, gpu.offered, gpu.largest].map(|q| q.to_whole().unwrap());
    assert_eq!((gpu.resource.as_str(), whole), ("gpu", [4, 1, 3, 2]));
}

#[test]
fn s_100_a_term_says_whom_it_excludes_and_whether_it_can_be_seeded() {
    let snapshot = a_snapshot()
        .pod(a_pod("a").holds(a_run("t").label("app", "x")))
        .pod(a_pod("b"));
    let told = |run: kruntimes_sched::testing::RunBuilder| {
        let run = run.build();
        let terms = term_outlooks(&snapshot.build(), &run);
        let [term] = terms.as_slice() else {
            panic!("one term was given")
        };
        (term.away, term.excludes, term.seedable)
    };
    assert_eq!(told(a_run("r").near("app", "x")), (false, 1, false));
    assert_eq!(told(a_run("r").far_from("app", "x")), (true, 1, false));
    assert_eq!(told(a_run("r").near("app", "y")), (false, 2, false));
    assert_eq!(
        told(a_run("r").near("app", "y").label("app", "y")),
        (false, 0, true)
    );
}

fn any_pod(name: usize) -> impl Strategy<Value = kruntimes_sched::testing::PodBuilder> {
    let choices = (
        any::<bool>(),
        any::<bool>(),
        1..4_i64,
        any::<bool>(),
        any::<bool>(),
    );
    choices.prop_map(move |(ready, fresh, slots, held, session)| {
        let mut pod = a_pod(&format!("p{name}")).offers("runs", slots);
        if !ready {
            pod = pod.unready();
        }
        if !fresh {
            pod = pod.heartbeat(Heartbeat::Missing);
        }
        if held {
            let mut run = a_run(&format!("t{name}")).label("app", "x");
            if session {
                run = run.exclusive();
            }
            pod = pod.holds(run);
        }
        pod
    })
}

proptest! {
    /// The funnel is no second opinion: what a plugin loses is what the decision says it rejected.
    #[test]
    fn c_60_losses_are_the_rejections_of_the_decision(
        pods in (any_pod(0), any_pod(1), any_pod(2), any_pod(3)),
        asked in 1..4_i64,
        near in any::<bool>(),
    ) {
        let (a, b, c, d) = pods;
        let snapshot = a_snapshot().at(100).pod(a).pod(b).pod(c).pod(d);
        let mut run = a_run("r").asks("runs", asked);
        if near {
            run = run.near("app", "x");
        }
        let decision = snapshot.decide(&run, &standard().build().unwrap());
        let stages = stages(&snapshot, &run);
        let mut lost: BTreeMap<&str, u64> = BTreeMap::new();
        for stage in &stages {
            *lost.entry(stage.plugin).or_default() += stage.lost as u64;
        }
        for seen in &decision.rejections {
            let by = decision.rejections.iter().filter(|other| other.plugin == seen.plugin);
            let rejected: u64 = by.map(|seen| seen.pods).sum();
            prop_assert_eq!(lost.get(seen.plugin).copied(), Some(rejected));
        }
        let total: u64 = decision.rejections.iter().map(|seen| seen.pods).sum();
        prop_assert_eq!(stages.last().map(|stage| stage.left as u64), Some(4 - total));
        prop_assert!(stages.windows(2).all(|two| two[0].left == two[1].left + two[1].lost));
    }
}
