//! Which events can help whom (scheduler, S-21, S-163 and the EventHint row of 16.1).

use kruntimes_sched::plugins::standard;
use kruntimes_sched::testing::{RunBuilder, a_pod, a_run, a_snapshot, namespace};
use kruntimes_sched::{
    Event, EventKind, Filter, Hint, PrepareError, Prepared, Profile, Reason, Run, Snapshot,
};

const AVAILABILITY: &[&str] = &["RuntimePodAvailability"];
const AFFINITY: &[&str] = &["RunAffinity"];
const WORKSPACE: &[&str] = &["Workspace"];

fn wakes(profile: &Profile, kind: EventKind, target: RunBuilder, run: &Run, by: &[&str]) -> bool {
    let (namespace, target) = (namespace(), target.build());
    let pod = a_pod("p").build();
    let workspace = "w".into();
    let event = match kind {
        EventKind::PodChanged => Event::PodChanged {
            namespace: &namespace,
            runtime: &target.runtime,
            pod: &pod,
        },
        EventKind::CapacityReleased => Event::CapacityReleased { run: &target },
        EventKind::WorkspaceChanged => Event::WorkspaceChanged {
            namespace: &namespace,
            workspace: &workspace,
        },
        EventKind::RunActive => Event::RunActive { run: &target },
        other => panic!("{other:?} is new: say what it wakes"),
    };
    profile.wakes(&event, run, by)
}

/// Checks one row of S-21 against the default plugins.
fn row(
    case: &str,
    kind: EventKind,
    target: &RunBuilder,
    run: &RunBuilder,
    by: &[&str],
    want: bool,
) {
    let profile = standard().build().unwrap();
    let (target, run) = (target.clone(), run.clone().build());
    assert_eq!(wakes(&profile, kind, target, &run, by), want, "{case}");
}

#[test]
fn s_21_s_163_pods_and_workspaces_wake_their_own_runs() {
    use EventKind::{PodChanged, WorkspaceChanged};
    let other = a_run("other");
    let elsewhere = a_run("other").runtime("bash");
    let plain = a_run("plain");
    let bound = a_run("bound").workspace("w");
    let near = a_run("near").near("stage", "build");
    row("no room", PodChanged, &other, &plain, AVAILABILITY, true);
    row("affinity", PodChanged, &other, &near, AFFINITY, true);
    row("workspace", PodChanged, &other, &bound, WORKSPACE, true);
    row("pool", PodChanged, &elsewhere, &plain, AVAILABILITY, false);
    row("no pods", PodChanged, &other, &plain, &[], true);
    row("its own", WorkspaceChanged, &other, &bound, WORKSPACE, true);
    row(
        "another",
        WorkspaceChanged,
        &other,
        &plain,
        WORKSPACE,
        false,
    );
    row(
        "room",
        WorkspaceChanged,
        &other,
        &bound,
        AVAILABILITY,
        false,
    );
}

#[test]
fn s_21_s_163_releases_and_targets_wake_whom_they_can_help() {
    use EventKind::{CapacityReleased, RunActive};
    let target = a_run("target").label("stage", "build");
    let other = a_run("other");
    let elsewhere = a_run("other").namespace("n");
    let plain = a_run("plain");
    let bound = a_run("bound").workspace("w");
    let near = a_run("near").near("stage", "build");
    let far = a_run("far").far_from("stage", "build");
    let either: &[&str] = &["Workspace", "RunAffinity"];
    row("room", CapacityReleased, &other, &plain, AVAILABILITY, true);
    row("target", CapacityReleased, &target, &far, AFFINITY, true);
    row("cohort", CapacityReleased, &target, &near, AFFINITY, true);
    row("another", CapacityReleased, &other, &far, AFFINITY, false);
    row(
        "workspace",
        CapacityReleased,
        &other,
        &bound,
        WORKSPACE,
        false,
    );
    row(
        "else",
        CapacityReleased,
        &elsewhere,
        &plain,
        AVAILABILITY,
        false,
    );
    row("target", RunActive, &target, &near, AFFINITY, true);
    row("another", RunActive, &other, &near, AFFINITY, false);
    row("to avoid", RunActive, &target, &far, AFFINITY, false);
    row("no room", RunActive, &target, &near, AVAILABILITY, false);
    row("one of two asks", RunActive, &target, &near, either, true);
    row("no pods", RunActive, &target, &near, &[], true);
}

#[test]
fn s_163_removing_a_plugin_removes_its_wake_ups() {
    let without = |name| standard().remove(name).build().unwrap();
    let listens = |profile: &Profile| EventKind::ALL.map(|kind| profile.listens_to(kind));
    assert_eq!(listens(&standard().build().unwrap()), [true; 4]);
    assert_eq!(listens(&without("Workspace")), [true, true, false, true]);
    assert_eq!(listens(&without("RunAffinity")), [true, true, true, false]);
    let bare = Profile::builder().build().unwrap();
    assert_eq!(listens(&bare), [false; 4]);
}

/// A filter that says nothing about events, or panics when asked.
struct Silent(bool);

impl Filter for Silent {
    fn name(&self) -> &'static str {
        "Silent"
    }

    fn reasons(&self) -> &'static [Reason] {
        &[]
    }

    fn prepare<'a>(&'a self, _: &'a Snapshot, _: &'a Run) -> Result<Prepared<'a>, PrepareError> {
        Ok(Prepared::Skip)
    }

    fn hint(&self, _: &Event<'_>, _: &Run) -> Hint {
        assert!(!self.0, "scripted");
        Hint::Wake
    }
}

#[test]
fn s_153_a_plugin_that_says_nothing_or_panics_is_woken_by_everything() {
    let run = a_run("r").build();
    for panics in [false, true] {
        let profile = Profile::builder().filter(Silent(panics)).build().unwrap();
        let by = &["Silent"];
        assert!(wakes(&profile, EventKind::RunActive, a_run("t"), &run, by));
    }
}

#[test]
fn the_run_itself_is_no_event_of_its_own() {
    let profile = standard().build().unwrap();
    let run = a_run("r").build();
    let kind = EventKind::CapacityReleased;
    assert!(!wakes(&profile, kind, a_run("r"), &run, AVAILABILITY));
    let decision = a_snapshot().decide(&a_run("r"), &profile);
    assert_eq!(decision.evaluated, 0);
}
