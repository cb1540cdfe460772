//! Section 5: fields of PersistentWorkspace.

use serde_json::json;

use super::{Cluster, Refused, assert_blames, parsed};

const CACHE: &str = r#"{"runtime": "bash"}"#;

pub(crate) async fn a_workspace_names_a_runtime_and_gets_defaults(cluster: &Cluster) {
    let refused: &[Refused] = &[
        (r#"{"runtime": null}"#, "spec.runtime", "Required value"),
        (r#"{"runtime": "-a"}"#, "spec.runtime", "should match"),
        (
            r#"{"mode": "Shared"}"#,
            "spec.mode",
            r#"supported values: "RuntimePodLocal""#,
        ),
        (
            r#"{"cleanupPolicy": "Never"}"#,
            "spec.cleanupPolicy",
            r#"supported values: "DeleteAfterTTL", "Retain""#,
        ),
        (
            r#"{"ttlSecondsAfterUnused": -1}"#,
            "spec.ttlSecondsAfterUnused",
            "greater than or equal to 0",
        ),
    ];
    cluster
        .refuses_all("PersistentWorkspace", CACHE, refused)
        .await;
    let stored = cluster
        .accepts("PersistentWorkspace", "plain", &parsed(CACHE))
        .await;
    let want =
        json!({"runtime": "bash", "mode": "RuntimePodLocal", "cleanupPolicy": "DeleteAfterTTL"});
    assert_eq!(stored["spec"], want);
    let accepted = [
        r#"{"ttlSecondsAfterUnused": 0}"#,
        r#"{"cleanupPolicy": "Retain", "mode": "RuntimePodLocal"}"#,
    ];
    cluster
        .accepts_all("PersistentWorkspace", CACHE, &accepted)
        .await;
    // Compatibility note 37: the runtime may be edited.
    cluster
        .updates(
            "PersistentWorkspace",
            "moved",
            &parsed(CACHE),
            &json!({"runtime": "python"}),
        )
        .await;
}

pub(crate) async fn a_workspace_never_moves_to_another_pod(cluster: &Cluster) {
    let kind = "PersistentWorkspace";
    cluster.accepts(kind, "bound", &parsed(CACHE)).await;
    let bound = json!({"phase": "Bound", "boundPod": "p", "boundPodUID": "u"});
    cluster.takes_status(kind, "bound", &bound).await;
    let stored = cluster.stored(kind, "bound").await;
    for status in [
        json!({"boundPodUID": "other"}),
        json!({"boundPodUID": null}),
    ] {
        let refused = cluster
            .merge_status(kind, "bound", &status)
            .await
            .expect_err("the UID is a fence");
        assert_blames(
            &refused,
            "status.boundPodUID",
            "boundPodUID may not change once set",
            &status,
        );
        assert_eq!(cluster.stored(kind, "bound").await, stored);
    }
    cluster
        .takes_status(kind, "bound", &json!({"phase": "Lost", "boundPodUID": "u"}))
        .await;
    let refused: &[Refused] = &[(
        r#"{"phase": "Gone"}"#,
        "status.phase",
        r#""Pending", "Bound", "Lost", "Released""#,
    )];
    cluster.refuses_statuses(kind, CACHE, refused).await;
}
