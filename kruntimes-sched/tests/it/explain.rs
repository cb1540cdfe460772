//! Why a Run is where it is, in words and to be replayed (scheduler, S-143, S-144, S-166).

use kruntimes_sched::plugins::{Preemption, standard};
use kruntimes_sched::testing::{SnapshotBuilder, a_pod, a_run, a_snapshot};
use kruntimes_sched::{Heartbeat, Recording, Workspace, explain};
use proptest::prelude::*;

fn text(snapshot: &SnapshotBuilder, run: &kruntimes_sched::testing::RunBuilder) -> String {
    let profile = standard().build().unwrap();
    explain(&snapshot.decide(run, &profile), &profile).to_string()
}

#[test]
fn s_166_a_placement_is_explained_by_its_scores() {
    let snapshot = a_snapshot()
        .pod(a_pod("a").holds(a_run("t")))
        .pod(a_pod("b"))
        .pod(a_pod("c").unready());
    let told = text(&snapshot, &a_run("r"));
    let want = "\
The Run goes to pod b, the best of 2 candidates with 100 points.
      1 rejected by RuntimePodAvailability: RuntimePodUnavailable
  a: 0  LeastLoaded 0 x 1 (raw 0)
  b: 100  LeastLoaded 100 x 1 (raw 0)
  c: RuntimePodUnavailable (RuntimePodAvailability)
";
    assert_eq!(told, want);
}

#[test]
fn s_166_a_wait_is_explained_by_reasons_and_by_what_could_help() {
    let snapshot = a_snapshot().pod(a_pod("a").unready()).pod(a_pod("b"));
    let told = text(&snapshot, &a_run("r").near("stage", "build"));
    let want = "\
The Run is waiting for available runtime pods satisfying required Run affinity for runtime \
\"python\": none of 2 pods fits (1 RuntimePodUnavailable, 1 UnsatisfiedRunAffinity); it is looked \
at again when a Runtime Pod of the pool appears or changes, or a Run of the pool ends, or a Run \
that the affinity selects becomes active.
      1 rejected by RuntimePodAvailability: RuntimePodUnavailable
      1 rejected by RunAffinity: UnsatisfiedRunAffinity
  a: RuntimePodUnavailable (RuntimePodAvailability)
  b: UnsatisfiedRunAffinity (RunAffinity)
";
    assert_eq!(told, want);
    let empty = text(&a_snapshot(), &a_run("r"));
    assert!(
        empty.contains(": the pool has no pod; it is looked at again when"),
        "{empty}"
    );
    let lost = text(&a_snapshot(), &a_run("r").workspace("w"));
    assert!(
        lost.contains("none of 0 pods fits (WorkspaceNotFound)"),
        "{lost}"
    );
    assert!(lost.contains("the PersistentWorkspace changes"), "{lost}");
}

#[test]
fn s_166_a_failure_and_a_nomination_are_told() {
    let bad = a_run("r").likes(0, "a", "b");
    let told = text(&a_snapshot(), &bad);
    assert!(
        told.starts_with("The Run can never be placed (InvalidAffinity): "),
        "{told}"
    );
    let profile = standard()
        .post_filter(Preemption::default())
        .build()
        .unwrap();
    let snapshot = a_snapshot().pod(a_pod("a").offers("runs", 1).holds(a_run("t")));
    let decision = snapshot.decide(&a_run("r").priority(1), &profile);
    let told = explain(&decision, &profile).to_string();
    assert!(
        told.contains("\n  room on pod a if these end: t\n"),
        "{told}"
    );
}

fn recorded(snapshot: &SnapshotBuilder, run: &kruntimes_sched::testing::RunBuilder) -> Recording {
    let profile = standard().build().unwrap();
    Recording::new("default", &profile, snapshot.build(), run.clone().build()).unwrap()
}

#[test]
fn s_166_a_recording_tells_when_a_profile_decides_otherwise() {
    let snapshot = a_snapshot()
        .pod(a_pod("a").holds(a_run("t")))
        .pod(a_pod("b"));
    let recording = recorded(&snapshot, &a_run("r"));
    assert_eq!(recording.check(&standard().build().unwrap()), Ok(()));
    let other = standard().remove("LeastLoaded").build().unwrap();
    let differs = recording.check(&other).unwrap_err();
    assert_eq!(differs.recorded["action"]["Bind"]["pod"], "b");
    assert_eq!(differs.replayed["action"]["Bind"]["pod"], "a");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn s_143_s_166_a_replayed_decision_is_the_recorded_one_byte_for_byte(
        pods in prop::collection::vec((1_i64..6, any::<bool>(), 0..3_usize, -20..20_i64), 0..5),
        near in any::<bool>(),
        far in any::<bool>(),
        likes in 1..100_i32,
        bound in prop::option::of(0..5_usize),
    ) {
        let mut snapshot = a_snapshot().nominates(a_run("n").priority(9), "p0");
        for (at, (capacity, ready, held, beat)) in pods.iter().enumerate() {
            let name = format!("p{at}");
            let beat = jiff::Timestamp::from_second(*beat).unwrap();
            let mut pod = a_pod(&name).offers("runs", *capacity).heartbeat(Heartbeat::At(beat));
            for n in 0..*held {
                pod = pod.holds(a_run(&format!("{name}-{n}")).label("stage", "build"));
            }
            snapshot = snapshot.pod(if *ready { pod } else { pod.unready() });
        }
        let mut run = a_run("r").label("stage", "build").likes(likes, "stage", "build");
        if near { run = run.near("stage", "build"); }
        if far { run = run.far_from("stage", "test"); }
        if let Some(at) = bound {
            let (pod, uid) = (format!("p{at}"), format!("p{at}-uid"));
            snapshot = snapshot.workspace(Workspace::new("w", "python").bound(pod, uid));
            run = run.workspace("w");
        }
        let profile = standard().build().unwrap();
        let decision = serde_json::to_string(&snapshot.decide(&run, &profile)).unwrap();
        let file = serde_json::to_string(&recorded(&snapshot, &run)).unwrap();
        let read: Recording = serde_json::from_str(&file).unwrap();
        prop_assert_eq!(serde_json::to_string(&read.replay(&profile)).unwrap(), decision);
        prop_assert_eq!(read.check(&profile), Ok(()));
        prop_assert_eq!(serde_json::to_string(&read).unwrap(), file);
    }
}
