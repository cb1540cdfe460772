//! Rules R8 to R10 and R13 of Run: what an update may change.

use serde_json::json;

use super::{Cluster, changed, parsed};

/// A Run that sets everything a task may set.
const FULL: &str = r#"{
    "runtime": "bash",
    "mode": {"task": {"args": ["a"]}},
    "source": {"repoURL": "https://a.example/b"},
    "env": [{"name": "A", "value": "1"}],
    "timeout": "60s",
    "retryPolicy": {"maxAttempts": 2, "backoff": "60s", "retryableReasons": ["ExecutionLost"]},
    "resources": {"requests": {"runs": 1, "memory": "1Gi"}},
    "workspace": {"name": "cache"},
    "affinity": {"runAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"labelSelector": {"matchLabels": {"app": "a"}}, "topologyKey": "kruntimes.io/runtime-pod"}
    ]}},
    "artifactInputs": [{"path": "in", "ref": {
        "name": "a", "driver": "filesystem", "type": "file", "sizeBytes": 1,
        "createdAt": "2026-01-02T03:04:05Z", "location": {"filesystem": {"path": "x"}}
    }}]
}"#;
const TASK: &str = r#"{"runtime": "bash", "mode": {"task": {}}}"#;
const SESSION: &str =
    r#"{"runtime": "bash", "mode": {"session": {"operationTimeout": "60s", "queueSize": 2}}}"#;

/// A change of [`FULL`] and the field that it may not change.
const FROZEN: &[(&str, &str)] = &[
    (r#"{"runtime": "python"}"#, "runtime"),
    (r#"{"mode": {"task": {"args": ["b"]}}}"#, "mode"),
    (r#"{"mode": {"task": {"args": null}}}"#, "mode"),
    (
        r#"{"mode": {"task": null, "session": {}}, "workspace": null}"#,
        "mode",
    ),
    (r#"{"mode": {"task": null, "function": {}}}"#, "mode"),
    (r#"{"source": null}"#, "source"),
    (r#"{"source": {"commitSHA": "main"}}"#, "source"),
    (r#"{"env": null}"#, "env"),
    (r#"{"env": [{"name": "A", "value": "2"}]}"#, "env"),
    (r#"{"timeout": null}"#, "timeout"),
    (r#"{"timeout": "61s"}"#, "timeout"),
    (r#"{"retryPolicy": null}"#, "retryPolicy"),
    (r#"{"retryPolicy": {"maxAttempts": 3}}"#, "retryPolicy"),
    (r#"{"retryPolicy": {"backoff": "61s"}}"#, "retryPolicy"),
    (
        r#"{"retryPolicy": {"retryableReasons": null}}"#,
        "retryPolicy",
    ),
    (r#"{"resources": null}"#, "resources"),
    (
        r#"{"resources": {"requests": {"memory": "2Gi"}}}"#,
        "resources.requests",
    ),
    (
        r#"{"resources": {"requests": {"memory": null}}}"#,
        "resources.requests",
    ),
    (
        r#"{"resources": {"requests": {"gpu": 1}}}"#,
        "resources.requests",
    ),
    (r#"{"workspace": null}"#, "workspace"),
    (r#"{"workspace": {"name": "other"}}"#, "workspace"),
    (r#"{"affinity": null}"#, "affinity"),
    (r#"{"affinity": {"runAffinity": null}}"#, "affinity"),
    (r#"{"artifactInputs": null}"#, "artifactInputs"),
];

/// A field that [`TASK`] does not have and an update may not add.
const ADDED: &[(&str, &str)] = &[
    (r#"{"source": {"inline": "true"}}"#, "source"),
    (r#"{"env": [{"name": "A"}]}"#, "env"),
    (r#"{"timeout": "1s"}"#, "timeout"),
    (r#"{"retryPolicy": {}}"#, "retryPolicy"),
    (r#"{"resources": {"requests": {"runs": 1}}}"#, "resources"),
    (r#"{"workspace": {"name": "cache"}}"#, "workspace"),
    (r#"{"affinity": {}}"#, "affinity"),
    (r#"{"mode": {"task": {"entrypoint": "a"}}}"#, "mode"),
];

pub(crate) async fn r8_r9_what_is_placed_does_not_change(cluster: &Cluster) {
    for (base, rows) in [(FULL, FROZEN), (TASK, ADDED)] {
        for (index, (change, field)) in rows.iter().enumerate() {
            let says = format!("{field} is immutable");
            let (name, field) = (format!("{}-{index}", base.len()), format!("spec.{field}"));
            cluster
                .keeps("Run", &name, &parsed(base), &parsed(change), &field, &says)
                .await;
        }
    }
    let says = "mode is immutable";
    for (index, change) in [
        r#"{"queueSize": 3}"#,
        r#"{"operationTimeout": "1s"}"#,
        r#"{"queueSize": null}"#,
    ]
    .into_iter()
    .enumerate()
    {
        let change = json!({"mode": {"session": parsed(change)}});
        cluster
            .keeps(
                "Run",
                &format!("session-{index}"),
                &parsed(SESSION),
                &change,
                "spec.mode",
                says,
            )
            .await;
    }
}

/// Compatibility note 10: another spelling of the same value is no change.
pub(crate) async fn r8_durations_and_quantities_are_compared_by_value(cluster: &Cluster) {
    for (index, (base, change)) in [
        (FULL, r#"{"timeout": "1m0s"}"#),
        (FULL, r#"{"timeout": "60000ms"}"#),
        (FULL, r#"{"retryPolicy": {"backoff": "1m"}}"#),
        (FULL, r#"{"resources": {"requests": {"runs": "1"}}}"#),
        (FULL, r#"{"resources": {"requests": {"runs": "1000m"}}}"#),
        (FULL, r#"{"resources": {"requests": {"memory": "1024Mi"}}}"#),
        (
            FULL,
            r#"{"resources": {"requests": {"memory": 1073741824}}}"#,
        ),
        (
            SESSION,
            r#"{"mode": {"session": {"operationTimeout": "1m"}}}"#,
        ),
    ]
    .into_iter()
    .enumerate()
    {
        cluster
            .updates(
                "Run",
                &format!("spelling-{index}"),
                &parsed(base),
                &parsed(change),
            )
            .await;
    }
}

pub(crate) async fn r8_a_full_object_that_only_cancels_is_taken(cluster: &Cluster) {
    let change = r#"{"cancelRequested": true, "timeout": "1m0s", "ttlSecondsAfterFinished": 5}"#;
    cluster
        .updates("Run", "cancelled", &parsed(FULL), &parsed(change))
        .await;
    for (index, change) in [
        r#"{"ttlSecondsAfterFinished": 9}"#,
        r#"{"ttlSecondsAfterFinished": null}"#,
    ]
    .into_iter()
    .enumerate()
    {
        let spec = changed(FULL, r#"{"ttlSecondsAfterFinished": 5}"#);
        cluster
            .updates("Run", &format!("ttl-{index}"), &spec, &parsed(change))
            .await;
    }
}

pub(crate) async fn r10_a_cancellation_is_final(cluster: &Cluster) {
    let cancelled = changed(TASK, r#"{"cancelRequested": true}"#);
    let says = "cancelRequested may not be withdrawn once true";
    for (index, change) in [
        json!({"cancelRequested": false}),
        json!({"cancelRequested": null}),
    ]
    .iter()
    .enumerate()
    {
        cluster
            .keeps(
                "Run",
                &format!("kept-{index}"),
                &cancelled,
                change,
                "spec.cancelRequested",
                says,
            )
            .await;
    }
    cluster
        .updates(
            "Run",
            "requested",
            &parsed(TASK),
            &json!({"cancelRequested": true}),
        )
        .await;
    cluster
        .updates(
            "Run",
            "again",
            &cancelled,
            &json!({"cancelRequested": true}),
        )
        .await;
    let denied = changed(TASK, r#"{"cancelRequested": false}"#);
    cluster
        .updates(
            "Run",
            "false-then-true",
            &denied,
            &json!({"cancelRequested": true}),
        )
        .await;
}

pub(crate) async fn r13_termination_moves_only_towards_immediate(cluster: &Cluster) {
    let says = "termination may not be withdrawn, and may only move from Drain to Immediate";
    let with = |mode: &str| {
        changed(
            SESSION,
            &format!(r#"{{"termination": {{"mode": "{mode}"}}}}"#),
        )
    };
    let to = |mode: &str| json!({"termination": {"mode": mode}});
    let field = "spec.termination";
    cluster
        .keeps(
            "Run",
            "weaker",
            &with("Immediate"),
            &to("Drain"),
            field,
            says,
        )
        .await;
    cluster
        .keeps(
            "Run",
            "no-drain",
            &with("Drain"),
            &json!({"termination": null}),
            field,
            says,
        )
        .await;
    cluster
        .keeps(
            "Run",
            "no-end",
            &with("Immediate"),
            &json!({"termination": null}),
            field,
            says,
        )
        .await;
    cluster
        .updates("Run", "drained", &parsed(SESSION), &to("Drain"))
        .await;
    cluster
        .updates("Run", "ended", &parsed(SESSION), &to("Immediate"))
        .await;
    cluster
        .updates("Run", "stronger", &with("Drain"), &to("Immediate"))
        .await;
    cluster
        .updates(
            "Run",
            "same",
            &with("Drain"),
            &json!({"termination": {"mode": "Drain"}, "cancelRequested": true}),
        )
        .await;
}

pub(crate) async fn r12_a_task_cannot_be_drained_later(cluster: &Cluster) {
    let says = "termination.mode Drain requires mode.session";
    let change = json!({"termination": {"mode": "Drain"}});
    cluster
        .keeps(
            "Run",
            "task",
            &parsed(TASK),
            &change,
            "spec.termination.mode",
            says,
        )
        .await;
}
