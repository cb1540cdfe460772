//! Section 7: a WorkflowRun does not change, can be cancelled once, and has a bounded status.

use serde_json::json;

use super::{Cluster, Refused, changed, parsed};

const JOBS: &str = r#"{"jobs": {"a": {"runs-on": "bash", "needs": ["b"], "steps": [
    {"name": "s", "run": "true", "env": {"A": "1"}}]}, "b": {"uses": "w"}}}"#;

pub(crate) async fn jobs_are_immutable(cluster: &Cluster) {
    for (index, change) in [
        json!({"jobs": {"c": {"uses": "w"}}}),
        json!({"jobs": {"a": null}}),
        json!({"jobs": {"a": {"runs-on": "python"}}}),
        json!({"jobs": {"a": {"needs": null}}}),
        json!({"jobs": {"b": {"uses": "v"}}}),
        json!({"jobs": {"a": {"steps": [{"name": "s", "run": "true", "env": {"A": "2"}}]}}}),
    ]
    .iter()
    .enumerate()
    {
        let name = format!("kept-{index}");
        cluster
            .keeps(
                "WorkflowRun",
                &name,
                &parsed(JOBS),
                change,
                "spec.jobs",
                "jobs is immutable",
            )
            .await;
    }
    cluster
        .updates("WorkflowRun", "same", &parsed(JOBS), &json!({}))
        .await;
}

pub(crate) async fn cancel_requested_is_final(cluster: &Cluster) {
    let cancelled = changed(JOBS, r#"{"cancelRequested": true}"#);
    let says = "cancelRequested may not be withdrawn once true";
    for (index, change) in [
        json!({"cancelRequested": false}),
        json!({"cancelRequested": null}),
    ]
    .iter()
    .enumerate()
    {
        let name = format!("kept-{index}");
        cluster
            .keeps(
                "WorkflowRun",
                &name,
                &cancelled,
                change,
                "spec.cancelRequested",
                says,
            )
            .await;
    }
    cluster
        .updates(
            "WorkflowRun",
            "cancelled",
            &parsed(JOBS),
            &json!({"cancelRequested": true}),
        )
        .await;
    let not_yet = changed(JOBS, r#"{"cancelRequested": false}"#);
    cluster
        .updates(
            "WorkflowRun",
            "later",
            &not_yet,
            &json!({"cancelRequested": true}),
        )
        .await;
}

/// There is no `uses` or `with` at the root.
pub(crate) async fn a_workflow_run_calls_nothing_itself(cluster: &Cluster) {
    let spec = changed(JOBS, r#"{"uses": "w", "with": {"a": "b"}}"#);
    let stored = cluster
        .create("WorkflowRun", "pruned", &spec)
        .await
        .expect("unknown fields are dropped");
    assert_eq!(
        (stored["spec"].get("uses"), stored["spec"].get("with")),
        (None, None)
    );
}

const STATUSES: &[Refused] = &[
    (
        r#"{"phase": "Skipped"}"#,
        "status.phase",
        r#""Pending", "Running", "Succeeded", "Failed", "Cancelled""#,
    ),
    (
        r#"{"jobs": {"a": {}}}"#,
        "status.jobs.a.phase",
        "Required value",
    ),
    (
        r#"{"jobs": {"a": {"phase": "Cancelled"}}}"#,
        "status.jobs.a.phase",
        r#""Pending", "Waiting", "Running", "Succeeded", "Failed", "Skipped""#,
    ),
    (
        r#"{"jobs": {"a": {"phase": "Running", "steps": [{"phase": "Running"}]}}}"#,
        "status.jobs.a.steps[0].name",
        "Required value",
    ),
    (
        r#"{"jobs": {"a": {"phase": "Running", "steps": [{"name": "s"}]}}}"#,
        "status.jobs.a.steps[0].phase",
        "Required value",
    ),
    (
        r#"{"jobs": {"a": {"phase": "Running", "steps": [{"name": "s", "phase": "Waiting"}]}}}"#,
        "status.jobs.a.steps[0].phase",
        r#""Pending", "Running", "Succeeded", "Failed", "Timeout", "Cancelled""#,
    ),
    (
        r#"{"jobs": {"a": {"phase": "Running", "steps": [{"name": "s", "phase": "Running",
            "actionSteps": [{"name": "i", "phase": "Lost"}]}]}}}"#,
        "status.jobs.a.steps[0].actionSteps[0].phase",
        r#""Pending", "Running", "Succeeded", "Failed", "Timeout", "Cancelled""#,
    ),
    (
        r#"{"jobs": {"a": {"phase": "Running", "artifacts": {"x": {"name": "x", "driver": "s3", "type": "file",
            "sizeBytes": 1, "createdAt": "2026-01-02T03:04:05Z", "location": {"filesystem": {"path": "p"}}}}}}}"#,
        "status.jobs[a].artifacts[x].location",
        "location must hold exactly the member named by driver",
    ),
];

/// Compatibility note 1: a step may end as Timeout or Cancelled.
pub(crate) async fn a_workflow_status_is_checked_field_by_field(cluster: &Cluster) {
    cluster
        .refuses_statuses("WorkflowRun", JOBS, STATUSES)
        .await;
    let accepted = [
        r#"{"phase": "Running", "jobs": {"a": {"phase": "Waiting", "pre": ["b"]}, "b": {"phase": "Skipped"}}}"#,
        r#"{"phase": "Failed", "jobs": {"a": {"phase": "Failed", "reason": "StepTimeout", "message": "m", "steps": [
            {"name": "s", "phase": "Timeout", "runName": "r", "outputs": {"o": "v"}},
            {"name": "t", "phase": "Cancelled", "actionSteps": [{"name": "i", "phase": "Cancelled"}]}]}}}"#,
        r#"{"message": "no phase given"}"#,
    ];
    cluster
        .accepts_statuses("WorkflowRun", JOBS, &accepted)
        .await;
    let stored = cluster
        .stored("WorkflowRun", "status-2")
        .await
        .expect("it was just stored");
    assert_eq!(stored["status"]["phase"], "Pending");
}
