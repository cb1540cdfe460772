//! Rules R1 to R7, R11, R12 and R14 of Run: what a new Run may say.

use super::{Cluster, Refused};

const TASK: &str = r#"{"runtime": "bash", "mode": {"task": {}}}"#;
const FUNCTION: &str = r#"{"runtime": "bash", "mode": {"function": {"handler": "m.f"}}}"#;
const SESSION: &str = r#"{"runtime": "bash", "mode": {"session": {}}}"#;

const ONE_MODE: &str = "mode must hold exactly one of task, function and session";

/// R1, with `function` escaped in the rule: unescaped it would be invisible.
const MODES: &[Refused] = &[
    (r#"{"mode": null}"#, "spec.mode", "Required value"),
    (r#"{"mode": {"task": null}}"#, "spec.mode", ONE_MODE),
    (r#"{"mode": {"function": {}}}"#, "spec.mode", ONE_MODE),
    (r#"{"mode": {"session": {}}}"#, "spec.mode", ONE_MODE),
    (
        r#"{"mode": {"task": null, "function": {}, "session": {}}}"#,
        "spec.mode",
        ONE_MODE,
    ),
    (
        r#"{"mode": {"function": {}, "session": {}}}"#,
        "spec.mode",
        ONE_MODE,
    ),
];

pub(crate) async fn r1_a_run_has_exactly_one_mode(cluster: &Cluster) {
    cluster.refuses_all("Run", TASK, MODES).await;
    let modes = [
        "{}",
        r#"{"mode": {"task": null, "function": {}}}"#,
        r#"{"mode": {"task": null, "session": {}}}"#,
    ];
    cluster.accepts_all("Run", TASK, &modes).await;
}

pub(crate) async fn r2_r3_a_source_is_inline_or_a_repository(cluster: &Cluster) {
    let refused: &[Refused] = &[
        (
            r#"{"source": {"inline": "true", "repoURL": "https://a.example/b"}}"#,
            "spec.source.repoURL",
            "source.inline and source.repoURL may not be set together",
        ),
        (
            r#"{"source": {"commitSHA": "main"}}"#,
            "spec.source.commitSHA",
            "source.commitSHA requires source.repoURL",
        ),
        (
            r#"{"source": {"inline": "true", "commitSHA": "main"}}"#,
            "spec.source.commitSHA",
            "source.commitSHA requires source.repoURL",
        ),
    ];
    cluster.refuses_all("Run", TASK, refused).await;
    let accepted = [
        r#"{"source": {"inline": "true"}}"#,
        r#"{"source": {"repoURL": "git@host:path"}}"#,
        r#"{"source": {"repoURL": "https://a.example/b", "commitSHA": "main"}}"#,
    ];
    cluster.accepts_all("Run", TASK, &accepted).await;
}

pub(crate) async fn r4_an_inline_path_is_plain_and_relative(cluster: &Cluster) {
    for path in [
        "/a", "a//b", "a/", ".", "./a", "a/./b", "..", "a/../b", "a/..",
    ] {
        let spec = serde_json::json!({"source": {"inline": "x", "inlinePath": path}});
        let spec = super::changed(FUNCTION, &spec.to_string());
        let says = "must be a relative path without empty, '.' or '..' segments";
        cluster
            .refuses("Run", &spec, "spec.source.inlinePath", says)
            .await;
    }
    for (index, path) in ["m.py", "a/b.py", "..a", "a..b/.c", "...", "a b/c"]
        .iter()
        .enumerate()
    {
        let spec = serde_json::json!({"source": {"inline": "x", "inlinePath": path}});
        let spec = super::changed(FUNCTION, &spec.to_string());
        cluster
            .accepts("Run", &format!("path-{index}"), &spec)
            .await;
    }
}

pub(crate) async fn r5_r6_an_inline_path_goes_with_an_inline_function(cluster: &Cluster) {
    let needs = "source.inlinePath needs mode.function and source.inline";
    let field = "spec.source.inlinePath";
    let path = r#"{"source": {"inline": "x", "inlinePath": "m.py"}}"#;
    cluster
        .refuses_all("Run", TASK, &[(path, field, needs)])
        .await;
    cluster
        .refuses_all("Run", SESSION, &[(path, field, needs)])
        .await;
    let refused: &[Refused] = &[
        (r#"{"source": {"inlinePath": "m.py"}}"#, field, needs),
        (
            r#"{"source": {"repoURL": "https://a.example/b", "inlinePath": "m.py"}}"#,
            field,
            needs,
        ),
        (
            r#"{"source": {"inline": "x"}}"#,
            field,
            "source.inlinePath is required for mode.function with source.inline",
        ),
    ];
    cluster.refuses_all("Run", FUNCTION, refused).await;
    let accepted = [
        path,
        "{}",
        r#"{"source": {"repoURL": "https://a.example/b"}}"#,
    ];
    cluster.accepts_all("Run", FUNCTION, &accepted).await;
    cluster
        .accepts(
            "Run",
            "task",
            &super::changed(TASK, r#"{"source": {"inline": "x"}}"#),
        )
        .await;
}

pub(crate) async fn r7_an_entrypoint_stays_in_the_work_directory(cluster: &Cluster) {
    let says = "mode.task.entrypoint must be a relative path without '..' segments";
    let field = "spec.mode.task.entrypoint";
    let refused: &[Refused] = &[
        (
            r#"{"mode": {"task": {"entrypoint": "/bin/sh"}}}"#,
            field,
            says,
        ),
        (r#"{"mode": {"task": {"entrypoint": "../a"}}}"#, field, says),
        (
            r#"{"mode": {"task": {"entrypoint": "a/../b"}}}"#,
            field,
            says,
        ),
        (
            r#"{"mode": {"task": {"entrypoint": "a/.."}}, "source": {"repoURL": "https://a.example/b"}}"#,
            field,
            says,
        ),
    ];
    cluster.refuses_all("Run", TASK, refused).await;
    let accepted = [
        r#"{"mode": {"task": {"entrypoint": "a/b.sh"}}}"#,
        r#"{"mode": {"task": {"entrypoint": "./a..b/.c"}}}"#,
        r#"{"mode": {"task": {"entrypoint": ""}}}"#,
        r#"{"mode": {"task": {"entrypoint": "/ignored/.."}}, "source": {"inline": "true"}}"#,
    ];
    cluster.accepts_all("Run", TASK, &accepted).await;
}

pub(crate) async fn r11_a_session_has_no_workspace(cluster: &Cluster) {
    let workspace = r#"{"workspace": {"name": "cache"}}"#;
    let says = "workspace may not be set with mode.session";
    cluster
        .refuses_all("Run", SESSION, &[(workspace, "spec.workspace", says)])
        .await;
    cluster.accepts_all("Run", TASK, &[workspace]).await;
    let stored = cluster
        .stored("Run", "row-0")
        .await
        .expect("it was just stored");
    assert_eq!(stored["spec"]["workspace"]["kind"], "PersistentWorkspace");
    assert_eq!(
        stored["spec"]["workspace"]["apiGroup"],
        "kruntimes.io/v1alpha1"
    );
}

pub(crate) async fn r12_only_a_session_can_be_drained(cluster: &Cluster) {
    let drain = r#"{"termination": {"mode": "Drain"}}"#;
    let says = "termination.mode Drain requires mode.session";
    for base in [TASK, FUNCTION] {
        cluster
            .refuses_all("Run", base, &[(drain, "spec.termination.mode", says)])
            .await;
    }
    cluster.accepts_all("Run", SESSION, &[drain]).await;
    let now = super::changed(TASK, r#"{"termination": {"mode": "Immediate"}}"#);
    cluster.accepts("Run", "now", &now).await;
}

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

pub(crate) async fn r14_an_affinity_term_selects_something(cluster: &Cluster) {
    let says = "labelSelector must hold at least one matchLabels or matchExpressions entry";
    for (side, selector) in [
        ("runAffinity", "{}"),
        ("runAffinity", r#"{"matchLabels": {}}"#),
        ("runAntiAffinity", r#"{"matchExpressions": []}"#),
        (
            "runAntiAffinity",
            r#"{"matchLabels": {}, "matchExpressions": []}"#,
        ),
    ] {
        let spec = super::changed(TASK, &terms(side, selector, REQUIRED));
        let field = format!("spec.affinity.{side}.{REQUIRED}[0].labelSelector");
        cluster.refuses("Run", &spec, &field, says).await;
        let spec = super::changed(TASK, &terms(side, selector, PREFERRED));
        let field = format!("spec.affinity.{side}.{PREFERRED}[0].runAffinityTerm.labelSelector");
        cluster.refuses("Run", &spec, &field, says).await;
    }
    let labels = r#"{"matchLabels": {"app": "a"}}"#;
    let expressions = r#"{"matchExpressions": [{"key": "app", "operator": "Exists"}]}"#;
    let accepted = [
        terms("runAffinity", labels, REQUIRED),
        terms("runAffinity", expressions, PREFERRED),
        terms("runAntiAffinity", labels, PREFERRED),
        terms("runAntiAffinity", expressions, REQUIRED),
    ];
    let accepted: Vec<_> = accepted.iter().map(String::as_str).collect();
    cluster.accepts_all("Run", TASK, &accepted).await;
}

fn terms(side: &str, selector: &str, list: &str) -> String {
    let term =
        format!(r#"{{"labelSelector": {selector}, "topologyKey": "kruntimes.io/runtime-pod"}}"#);
    let term = if list == PREFERRED {
        format!(r#"{{"weight": 1, "runAffinityTerm": {term}}}"#)
    } else {
        term
    };
    format!(r#"{{"affinity": {{"{side}": {{"{list}": [{term}]}}}}}}"#)
}

pub(crate) async fn an_artifact_input_stays_in_the_work_directory(cluster: &Cluster) {
    let input = |path: &str| {
        let reference = r#"{"name": "a", "driver": "filesystem", "type": "file", "sizeBytes": 1,
            "createdAt": "2026-01-02T03:04:05Z", "location": {"filesystem": {"path": "x"}}}"#;
        super::changed(
            TASK,
            &format!(r#"{{"artifactInputs": [{{"path": "{path}", "ref": {reference}}}]}}"#),
        )
    };
    let says = "must be a relative path without empty, '.' or '..' segments";
    for path in ["/a", "a//b", "a/", ".", "./a", "a/../b"] {
        cluster
            .refuses("Run", &input(path), "spec.artifactInputs[0].path", says)
            .await;
    }
    cluster.accepts("Run", "plain", &input("in/a.tgz")).await;
}

pub(crate) async fn durations_are_well_formed_and_positive(cluster: &Cluster) {
    let malformed = "should match";
    let refused: &[Refused] = &[
        (r#"{"timeout": "soon"}"#, "spec.timeout", malformed),
        (r#"{"timeout": "5"}"#, "spec.timeout", malformed),
        (r#"{"timeout": ""}"#, "spec.timeout", malformed),
        (r#"{"timeout": "1d"}"#, "spec.timeout", malformed),
        (
            r#"{"timeout": 60}"#,
            "spec.timeout",
            "must be of type string",
        ),
        (
            r#"{"timeout": "0"}"#,
            "spec.timeout",
            "must be a positive duration",
        ),
        (
            r#"{"timeout": "0s"}"#,
            "spec.timeout",
            "must be a positive duration",
        ),
        (
            r#"{"timeout": "-1m"}"#,
            "spec.timeout",
            "must be a positive duration",
        ),
        (
            r#"{"retryPolicy": {"backoff": "x"}}"#,
            "spec.retryPolicy.backoff",
            malformed,
        ),
        (
            r#"{"mode": {"task": null, "session": {"operationTimeout": "0s"}}}"#,
            "spec.mode.session.operationTimeout",
            "must be a positive duration",
        ),
    ];
    cluster.refuses_all("Run", TASK, refused).await;
    let accepted = [
        r#"{"timeout": "90s"}"#,
        r#"{"timeout": "1m30s"}"#,
        r#"{"timeout": "1.5h"}"#,
        r#"{"timeout": "+1ns"}"#,
        r#"{"timeout": "3µs"}"#,
        r#"{"timeout": "3μs"}"#,
        r#"{"retryPolicy": {"backoff": "0s"}}"#,
        r#"{"retryPolicy": {"backoff": "-1s"}}"#,
        r#"{"mode": {"task": null, "session": {"operationTimeout": "1ms"}}}"#,
    ];
    cluster.accepts_all("Run", TASK, &accepted).await;
}

pub(crate) async fn quantities_are_numbers_or_quantity_texts(cluster: &Cluster) {
    let field = "spec.resources.requests.runs";
    let refused: &[Refused] = &[
        (
            r#"{"resources": {"requests": {"runs": "many"}}}"#,
            field,
            "should match",
        ),
        (
            r#"{"resources": {"requests": {"runs": "1 Gi"}}}"#,
            field,
            "should match",
        ),
        (
            r#"{"resources": {"requests": {"runs": true}}}"#,
            field,
            "must be of type integer,string",
        ),
    ];
    cluster.refuses_all("Run", TASK, refused).await;
    // Fractions and negative numbers are for the scheduler to refuse.
    let accepted = [
        r#"{"resources": {"requests": {"runs": 1, "gpu": "2"}}}"#,
        r#"{"resources": {"requests": {"runs": "500m", "memory": "1.5Gi", "big": "1e3"}}}"#,
        r#"{"resources": {"requests": {"runs": "-1"}}}"#,
    ];
    cluster.accepts_all("Run", TASK, &accepted).await;
}

pub(crate) async fn an_unknown_field_is_pruned_and_a_reserved_one_survives(cluster: &Cluster) {
    let spec = super::changed(
        FUNCTION,
        r#"{"gpu": 1, "mode": {"session": null, "function": {"lang": "py"}}}"#,
    );
    let stored = cluster
        .create("Run", "pruned", &spec)
        .await
        .expect("unknown fields are dropped");
    assert_eq!(
        stored["spec"]["mode"],
        serde_json::json!({"function": {"handler": "m.f"}})
    );
    assert_eq!(stored["spec"].get("gpu"), None);
    // Compatibility note 4: a session has no idle expiry.
    let spec = super::changed(
        SESSION,
        r#"{"mode": {"session": {"idleTimeoutSeconds": 5}}}"#,
    );
    let stored = cluster
        .create("Run", "session", &spec)
        .await
        .expect("unknown fields are dropped");
    assert_eq!(stored["spec"]["mode"], serde_json::json!({"session": {}}));
}

/// Compatibility note 9: the shape of the core API is accepted and kept.
pub(crate) async fn a_value_from_is_kept_as_written(cluster: &Cluster) {
    let accepted = [
        r#"{"env": [{"name": "A", "value": "x"}, {"name": "A"}]}"#,
        r#"{"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k", "optional": true}}}]}"#,
        r#"{"env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "s", "key": "k"}}}]}"#,
        r#"{"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]}"#,
        r#"{"env": [{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": 1}}}]}"#,
        r#"{"env": [{"name": "A", "valueFrom": {"fileKeyRef": {"volumeName": "v", "path": "p", "key": "k"}}}]}"#,
    ];
    cluster.accepts_all("Run", TASK, &accepted).await;
    let nameless: &[Refused] = &[(
        r#"{"env": [{"value": "x"}]}"#,
        "spec.env[0].name",
        "Required value",
    )];
    cluster.refuses_all("Run", TASK, nameless).await;
}
