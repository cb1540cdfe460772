//! Rule R15 of Run and the bounds of its status.

use super::{Cluster, Refused};

const TASK: &str = r#"{"runtime": "bash", "mode": {"task": {}}}"#;

const FIELD: &str = "status.artifactRefs[0].location";
const SAYS: &str = "location must hold exactly the member named by driver";

pub(crate) async fn r15_an_artifact_lies_where_its_driver_says(cluster: &Cluster) {
    let reference = |driver: &str, location: &str| {
        format!(
            r#"{{"phase": "Succeeded", "artifactRefs": [{{"name": "a", "driver": "{driver}", "type": "file",
            "sizeBytes": 0, "createdAt": "2026-01-02T03:04:05Z", "location": {location}}}]}}"#
        )
    };
    let s3 = r#"{"s3": {"bucket": "b", "key": "k"}}"#;
    let file = r#"{"filesystem": {"path": "p"}}"#;
    let both = r#"{"filesystem": {"path": "p"}, "s3": {"bucket": "b", "key": "k"}}"#;
    for (driver, location) in [
        ("filesystem", s3),
        ("filesystem", both),
        ("filesystem", "{}"),
        ("s3", file),
        ("s3", both),
        ("s3", "{}"),
    ] {
        let status = reference(driver, location);
        let name = format!("{driver}-{}", location.len());
        let stored = cluster.accepts("Run", &name, &super::parsed(TASK)).await;
        let refused = cluster
            .merge_status("Run", &name, &super::parsed(&status))
            .await;
        let refused = refused.expect_err("the driver and the location disagree");
        super::assert_blames(&refused, FIELD, SAYS, &super::parsed(&status));
        assert_eq!(cluster.stored("Run", &name).await, Some(stored), "{status}");
    }
    let (good_file, good_s3) = (reference("filesystem", file), reference("s3", s3));
    cluster
        .accepts_statuses("Run", TASK, &[&good_file, &good_s3])
        .await;
}

const STORES: &[Refused] = &[
    (
        r#"{"artifactStore": {"driver": "s3", "filesystem": {"volumeClaimName": "c"}}}"#,
        "status.artifactStore",
        "artifactStore must hold exactly the member named by driver",
    ),
    (
        r#"{"artifactStore": {"driver": "filesystem"}}"#,
        "status.artifactStore",
        "artifactStore must hold exactly the member named by driver",
    ),
    (
        r#"{"artifactStore": {"driver": "filesystem", "filesystem": {"volumeClaimName": "c"}, "s3": {"bucket": "b"}}}"#,
        "status.artifactStore",
        "artifactStore must hold exactly the member named by driver",
    ),
    (
        r#"{"artifactStore": {"driver": "tape"}}"#,
        "status.artifactStore.driver",
        r#"supported values: "filesystem", "s3""#,
    ),
];

pub(crate) async fn r15_the_store_of_a_status_follows_its_driver(cluster: &Cluster) {
    cluster.refuses_statuses("Run", TASK, STORES).await;
    let accepted = [
        r#"{"artifactStore": {"driver": "filesystem", "filesystem": {"volumeClaimName": "c"}}}"#,
        r#"{"artifactStore": {"driver": "s3", "s3": {"bucket": "b"}}}"#,
    ];
    cluster.accepts_statuses("Run", TASK, &accepted).await;
}

/// A status says its phase; a new Run has no status at all.
pub(crate) async fn a_phase_is_one_of_nine_and_starts_as_pending(cluster: &Cluster) {
    let created = cluster.accepts("Run", "new", &super::parsed(TASK)).await;
    assert_eq!(created.get("status"), None);
    cluster
        .takes_status("Run", "new", &serde_json::json!({"message": "waiting"}))
        .await;
    let stored = cluster
        .stored("Run", "new")
        .await
        .expect("it was just written");
    assert_eq!(stored["status"]["phase"], "Pending");
    let refused: &[Refused] = &[(
        r#"{"phase": "Done"}"#,
        "status.phase",
        r#"supported values: "Pending""#,
    )];
    cluster.refuses_statuses("Run", TASK, refused).await;
    for phase in [
        "Pending",
        "Scheduled",
        "Running",
        "Ready",
        "Finalizing",
        "Succeeded",
        "Failed",
        "Timeout",
        "Cancelled",
    ] {
        cluster
            .takes_status("Run", "new", &serde_json::json!({"phase": phase}))
            .await;
    }
}

const CONDITIONS: &[Refused] = &[
    (
        r#"{"conditions": [{"type": "Ready", "status": "Yes", "reason": "A", "message": "",
            "lastTransitionTime": "2026-01-02T03:04:05Z"}]}"#,
        "status.conditions[0].status",
        r#"supported values: "True", "False", "Unknown""#,
    ),
    (
        r#"{"conditions": [{"type": "Ready", "status": "True", "reason": "", "message": "",
            "lastTransitionTime": "2026-01-02T03:04:05Z"}]}"#,
        "status.conditions[0].reason",
        "should be at least 1 chars long",
    ),
    (
        r#"{"conditions": [{"type": "Ready", "status": "True", "reason": "not a reason", "message": "",
            "lastTransitionTime": "2026-01-02T03:04:05Z"}]}"#,
        "status.conditions[0].reason",
        "should match",
    ),
    (
        r#"{"conditions": [{"type": "a b", "status": "True", "reason": "A", "message": "",
            "lastTransitionTime": "2026-01-02T03:04:05Z"}]}"#,
        "status.conditions[0].type",
        "should match",
    ),
    (
        r#"{"conditions": [{"type": "Ready", "status": "True", "reason": "A", "message": "",
            "lastTransitionTime": "yesterday"}]}"#,
        "status.conditions[0].lastTransitionTime",
        "must be of type date-time",
    ),
    (
        r#"{"conditions": [{"type": "Ready", "status": "True", "reason": "A",
            "lastTransitionTime": "2026-01-02T03:04:05Z"}]}"#,
        "status.conditions[0].message",
        "Required value",
    ),
    (
        r#"{"conditions": [
            {"type": "Ready", "status": "True", "reason": "A", "message": "",
                "lastTransitionTime": "2026-01-02T03:04:05Z"},
            {"type": "Ready", "status": "False", "reason": "B", "message": "",
                "lastTransitionTime": "2026-01-02T03:04:05Z"}]}"#,
        "status.conditions[1]",
        r#"Duplicate value: {"type":"Ready"}"#,
    ),
    (
        r#"{"outputs": {"a": 1}}"#,
        "status.outputs.a",
        "must be of type string",
    ),
    (
        r#"{"endpoint": {"protocol": "FTP", "url": "ftp://a"}}"#,
        "status.endpoint.protocol",
        r#""HTTP", "HTTPS""#,
    ),
    (
        r#"{"endpoint": {"protocol": "HTTP"}}"#,
        "status.endpoint.url",
        "Required value",
    ),
    (
        r#"{"endpoint": {"url": "http://a"}}"#,
        "status.endpoint.protocol",
        "Required value",
    ),
    (
        r#"{"endpoint": {"protocol": "HTTP", "url": "http://a", "caBundle": "not base64"}}"#,
        "status.endpoint.caBundle",
        "must be of type byte",
    ),
    (
        r#"{"startTime": "now"}"#,
        "status.startTime",
        "must be of type date-time",
    ),
];

pub(crate) async fn a_status_is_checked_field_by_field(cluster: &Cluster) {
    cluster.refuses_statuses("Run", TASK, CONDITIONS).await;
    let accepted = [
        r#"{"conditions": [{"type": "kruntimes.io/Ready", "status": "Unknown", "reason": "A", "message": "",
            "lastTransitionTime": "2026-01-02T03:04:05.25Z", "observedGeneration": 0}]}"#,
        r#"{"endpoint": {"protocol": "HTTPS", "url": "https://a", "caBundle": "aGk="}}"#,
        r#"{"endpoint": {"protocol": "HTTP", "url": "http://a"}}"#,
        r#"{"startTime": "2026-01-02T03:04:05Z", "completionTime": "2026-01-02T03:04:06Z", "attempt": 1}"#,
    ];
    cluster.accepts_statuses("Run", TASK, &accepted).await;
}

/// The status subresource leaves the spec alone, and an update leaves the status alone.
pub(crate) async fn spec_and_status_are_written_apart(cluster: &Cluster) {
    let mut object = cluster.accepts("Run", "apart", &super::parsed(TASK)).await;
    cluster
        .takes_status("Run", "apart", &serde_json::json!({"phase": "Running"}))
        .await;
    let stored = cluster.stored("Run", "apart").await.expect("it was stored");
    object["metadata"]["resourceVersion"] = stored["metadata"]["resourceVersion"].clone();
    object["spec"]["cancelRequested"] = true.into();
    object["status"] = serde_json::json!({"phase": "Bogus"});
    let updated = cluster
        .replace("Run", "apart", &object)
        .await
        .expect("the status is ignored");
    assert_eq!(updated["status"]["phase"], "Running");
}
