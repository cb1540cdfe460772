//! The Workspace plugin (scheduler, sections 8.1, 12 and 13).

use std::sync::Arc;

use kruntimes_core::api::WorkspacePhase;
use kruntimes_sched::plugins::standard;
use kruntimes_sched::testing::{
    SnapshotBuilder, a_pod, a_run, a_snapshot, rejected, waits, winner,
};
use kruntimes_sched::{Intent, Placement, Workspace, plugins, pre_bind};

fn two_pods() -> SnapshotBuilder {
    a_snapshot().pod(a_pod("a")).pod(a_pod("b"))
}

fn workspace() -> Workspace {
    Workspace::new("w", "python")
}

/// Checks what a Run is told about the workspace `w` that is found, on two Pods.
fn told(found: impl Into<Option<Workspace>>, reason: &str, message: &str) {
    let mut snapshot = two_pods();
    if let Some(found) = found.into() {
        snapshot = snapshot.workspace(found);
    }
    let decision = snapshot.decide(&a_run("r").workspace("w"), &standard().build().unwrap());
    let condition = match reason {
        "WorkspaceLost" => "WorkspaceLost",
        _ => "WorkspaceNotBound",
    };
    assert_eq!(waits(&decision), Some((condition, message)), "{reason}");
    assert_eq!(rejected(&decision, "Workspace", reason), 2, "{reason}");
}

#[test]
fn s_48_s_112_the_first_row_that_applies_is_told() {
    let message = "waiting for referenced PersistentWorkspace \"w\" to exist";
    told(None, "WorkspaceNotFound", message);
    let another = Workspace::new("x", "python").bound("a", "a-uid");
    told(another, "WorkspaceNotFound", message);
    let message = "waiting for referenced PersistentWorkspace \"w\" to match runtime \"python\"";
    let lost = Workspace::new("w", "bash").phase(WorkspacePhase::Lost);
    told(lost, "WorkspaceRuntimeMismatch", message);
    let message =
        "waiting for referenced PersistentWorkspace \"w\" to be replaced after it was lost";
    let lost = workspace().phase(WorkspacePhase::Lost);
    told(lost, "WorkspaceLost", message);
}

#[test]
fn s_48_s_112_a_workspace_on_its_way_out_or_unbound_is_told() {
    let message = "referenced PersistentWorkspace \"w\" is being deleted";
    let released = workspace().phase(WorkspacePhase::Released);
    told(released, "WorkspaceReleased", message);
    let bound = workspace().bound("a", "a-uid");
    let deleting = Workspace {
        deleting: true,
        ..bound.clone()
    };
    told(deleting, "WorkspaceReleased", message);
    let message = "waiting for referenced PersistentWorkspace \"w\" to bind";
    told(workspace(), "WorkspaceUnbound", message);
    for (bound_pod, bound_pod_uid) in [
        (None, Some("a-uid".into())),
        (Some("a".into()), None),
        (Some("a".into()), Some("".into())),
    ] {
        let half = Workspace {
            bound_pod,
            bound_pod_uid,
            ..bound.clone()
        };
        told(half, "WorkspaceUnbound", message);
    }
    let message = "waiting for bound Runtime Pod of PersistentWorkspace \"w\"";
    let namesake = workspace().bound("a", "an older uid");
    told(namesake, "WorkspaceBoundPodMismatch", message);
}

#[test]
fn s_41_s_48_s_102_a_bound_workspace_admits_exactly_its_pod() {
    let snapshot = two_pods().workspace(workspace().bound("b", "b-uid"));
    let profile = standard().build().unwrap();
    let decision = snapshot.decide(&a_run("r").workspace("w"), &profile);
    assert_eq!(winner(&decision), Some("b"));
    assert_eq!(
        rejected(&decision, "Workspace", "WorkspaceBoundPodMismatch"),
        1
    );
    // S-41: whoever references none goes anywhere.
    assert_eq!(winner(&snapshot.decide(&a_run("s"), &profile)), Some("a"));
}

#[test]
fn s_50_a_rejection_of_the_run_is_told_without_pods_and_counts_none() {
    let decision = a_snapshot().decide(&a_run("r").workspace("w"), &standard().build().unwrap());
    let message = "waiting for referenced PersistentWorkspace \"w\" to exist";
    assert_eq!(waits(&decision), Some(("WorkspaceNotBound", message)));
    assert_eq!(rejected(&decision, "Workspace", "WorkspaceNotFound"), 0);
}

#[test]
fn s_105_the_first_run_may_decide_where_the_workspace_is_bound() {
    let late = plugins::Workspace {
        wait_for_first_run: true,
    };
    let profile = standard()
        .remove("Workspace")
        .filter_before("RuntimePodAvailability", late)
        .pre_bind(late)
        .build()
        .unwrap();
    let snapshot = a_snapshot()
        .pod(a_pod("a").holds(a_run("other")))
        .pod(a_pod("b"))
        .workspace(workspace());
    let run = a_run("r").workspace("w");
    assert_eq!(winner(&snapshot.decide(&run, &profile)), Some("b"));
    let placement = Placement {
        run: run.shared(),
        pod: Arc::new(a_pod("b").build()),
    };
    let intents = pre_bind(&profile, &placement, jiff::Timestamp::UNIX_EPOCH).unwrap();
    let bind = Intent::BindWorkspace {
        workspace: "w".into(),
        pod: "b".into(),
        pod_uid: "b-uid".into(),
    };
    assert_eq!(intents, [bind]);
    let immediate = standard().build().unwrap();
    let now = jiff::Timestamp::UNIX_EPOCH;
    assert_eq!(pre_bind(&immediate, &placement, now).unwrap(), []);
}
