//! The bounds of the field tables, each tried just inside and just outside.

use serde_json::{Value, json};

use super::place::{Bound, put, shown};
use super::{Cluster, assert_blames, parsed};

use Bound::{Items, Keys, Number, OneOf, Pattern, Text};

const TASK: &str = r#"{"runtime": "bash", "mode": {"task": {}}}"#;
const GIT: &str =
    r#"{"runtime": "bash", "mode": {"task": {}}, "source": {"repoURL": "https://a.example/b"}}"#;
const FUNCTION: &str = r#"{"runtime": "bash", "mode": {"function": {}}}"#;
const INLINE: &str =
    r#"{"runtime": "bash", "mode": {"function": {}}, "source": {"inline": "", "inlinePath": "f"}}"#;
const SESSION: &str = r#"{"runtime": "bash", "mode": {"session": {}}}"#;
const ARTIFACT: &str = r#"{"path": "p", "ref": {"name": "a", "driver": "filesystem", "type": "file",
    "sizeBytes": 1, "createdAt": "2026-01-02T03:04:05Z", "location": {"filesystem": {"path": "x"}}}}"#;
const AFFINE: &str = r#"{"runtime": "bash", "mode": {"task": {}}, "affinity": {"runAffinity": {
    "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "runAffinityTerm": {
        "labelSelector": {"matchLabels": {"a": "b"}}, "topologyKey": "kruntimes.io/runtime-pod"}}]}}}"#;
const TERM: &str =
    r#"{"labelSelector": {"matchLabels": {"a": "b"}}, "topologyKey": "kruntimes.io/runtime-pod"}"#;
const WEIGHTED: &str = r#"{"weight": 100, "runAffinityTerm": {
    "labelSelector": {"matchLabels": {"a": "b"}}, "topologyKey": "kruntimes.io/runtime-pod"}}"#;

/// A valid spec, a place in it and the bound there.
type Row = (&'static str, &'static str, Bound);

const RUN: &[Row] = &[
    (TASK, "runtime", Text(1, 63)),
    (TASK, "env", Items(0, 256, r#"{"name": "A"}"#)),
    (TASK, "ttlSecondsAfterFinished", Number(0, None)),
    (TASK, "source/inline", Text(0, 262_144)),
    (TASK, "source/repoURL", Text(0, 2048)),
    (GIT, "source/commitSHA", Text(0, 256)),
    (INLINE, "source/inlinePath", Text(1, 4096)),
    (TASK, "mode/task/entrypoint", Text(0, 4096)),
    (TASK, "mode/task/args", Items(0, 256, r#""a""#)),
    (TASK, "mode/task/args/0", Text(0, 8192)),
    (FUNCTION, "mode/function/handler", Text(0, 512)),
    (
        FUNCTION,
        "mode/function/idleTimeoutSeconds",
        Number(1, None),
    ),
    (SESSION, "mode/session/leaseTimeoutSeconds", Number(1, None)),
    (SESSION, "mode/session/queueSize", Number(1, Some(32))),
    (TASK, "retryPolicy/maxAttempts", Number(1, Some(100))),
    (TASK, "retryPolicy/retryableReasons", Items(0, 32, r#""a""#)),
    (TASK, "retryPolicy/retryableReasons/0", Text(0, 128)),
    (TASK, "workspace/name", Text(1, 253)),
    (TASK, "artifactInputs", Items(0, 32, ARTIFACT)),
    (SESSION, "termination/mode", OneOf(&["Immediate", "Drain"])),
    (
        AFFINE,
        "affinity/runAffinity/preferredDuringSchedulingIgnoredDuringExecution/0/weight",
        Number(1, Some(100)),
    ),
    (
        AFFINE,
        "affinity/runAffinity/preferredDuringSchedulingIgnoredDuringExecution/0/runAffinityTerm/topologyKey",
        OneOf(&["kruntimes.io/runtime-pod"]),
    ),
    (
        TASK,
        "affinity/runAffinity/requiredDuringSchedulingIgnoredDuringExecution",
        Items(0, 32, TERM),
    ),
    (
        TASK,
        "affinity/runAntiAffinity/preferredDuringSchedulingIgnoredDuringExecution",
        Items(0, 32, WEIGHTED),
    ),
];

const NAMED: &str = r#"{"runtime": "bash", "mode": {"task": {}}, "workspace": {"name": "w"}}"#;

/// Enumerations with one value.
const RUN_CHOICES: &[Row] = &[
    (NAMED, "workspace/kind", OneOf(&["PersistentWorkspace"])),
    (
        NAMED,
        "workspace/apiGroup",
        OneOf(&["kruntimes.io/v1alpha1"]),
    ),
];

const POOL: &str =
    r#"{"template": {"spec": {"containers": [{"name": "runtime", "image": "bash:1"}]}}}"#;
const S3: &str = r#"{"template": {"spec": {"containers": [{"name": "runtime", "image": "bash:1"}]}},
    "artifactStore": {"driver": "s3", "s3": {"bucket": "b"}}}"#;

const RUNTIME: &[Row] = &[
    (POOL, "port", Number(1, None)),
    (POOL, "replicas", Number(1, None)),
    (POOL, "daemonImage", Text(0, 2048)),
    (S3, "artifactStore/s3/prefix", Text(0, 1024)),
    (S3, "artifactStore/s3/region", Text(0, 128)),
    (S3, "artifactStore/s3/credentialsSecretName", Text(1, 253)),
    (
        S3,
        "artifactStore/s3/uploadPartSize",
        Number(5_242_880, None),
    ),
    (S3, "artifactStore/s3/uploadConcurrency", Number(1, None)),
];

const WORKSPACE: &[Row] = &[
    (r#"{"runtime": "bash"}"#, "runtime", Text(1, 63)),
    (
        r#"{"runtime": "bash"}"#,
        "ttlSecondsAfterUnused",
        Number(0, None),
    ),
    (
        r#"{"runtime": "bash"}"#,
        "mode",
        OneOf(&["RuntimePodLocal"]),
    ),
    (
        r#"{"runtime": "bash"}"#,
        "cleanupPolicy",
        OneOf(&["DeleteAfterTTL", "Retain"]),
    ),
];

const JOBS: &str = r#"{"jobs": {"a": {"runs-on": "bash", "steps": [{"name": "s", "run": "1"}]}}}"#;
const CALL: &str = r#"{"jobs": {"a": {"uses": "w"}}}"#;
const USES: &str = r#"{"jobs": {"a": {"runs-on": "bash", "steps": [{"name": "s", "uses": "a"}]}}}"#;

/// Workflow and WorkflowRun.
const BOTH: &[Row] = &[
    (JOBS, "jobs", Keys(1, 64, r#"{"uses": "w"}"#)),
    (JOBS, "jobs/a/runs-on", Text(1, 63)),
    (JOBS, "jobs/a/outputs", Keys(0, 64, r#""v""#)),
    (
        JOBS,
        "jobs/a/steps",
        Items(1, 128, r#"{"name": "s", "run": ""}"#),
    ),
    (CALL, "jobs/a/uses", Text(1, 253)),
    (CALL, "jobs/a/with", Keys(0, 256, r#""v""#)),
    (JOBS, "jobs/a/steps/0/name", Text(1, 63)),
    (JOBS, "jobs/a/steps/0/run", Text(0, 262_144)),
    (JOBS, "jobs/a/steps/0/args", Items(0, 256, r#""a""#)),
    (JOBS, "jobs/a/steps/0/args/0", Text(0, 8192)),
    (JOBS, "jobs/a/steps/0/env", Keys(0, 256, r#""v""#)),
    (USES, "jobs/a/steps/0/uses", Text(1, 253)),
    (USES, "jobs/a/steps/0/with", Keys(0, 256, r#""v""#)),
    (
        JOBS,
        "jobs/a/steps/0/artifacts",
        Items(0, 32, r#"{"from": "f", "path": "p"}"#),
    ),
];

/// The bounds of `needs`, where nothing but the number is wrong.
pub(crate) async fn needs_are_bounded(cluster: &Cluster) {
    for kind in ["Workflow", "WorkflowRun"] {
        let spec = |count: usize| json!({"jobs": {"a": {"uses": "w"}, "b": {"uses": "w", "needs": vec!["a"; count]}}});
        cluster.accepts(kind, "needs", &spec(64)).await;
        cluster
            .refuses(
                kind,
                &spec(65),
                "spec.jobs.b.needs",
                "must have at most 64 items",
            )
            .await;
        let long = json!({"jobs": {"b": {"uses": "w", "needs": ["j".repeat(64)]}}});
        cluster
            .refuses(
                kind,
                &long,
                "spec.jobs.b.needs[0]",
                "may not be more than 63 bytes",
            )
            .await;
    }
}

const WORKFLOW: &[Row] = &[
    (JOBS, "inputs", Keys(0, 64, "{}")),
    (JOBS, "inputs/a/default", Text(0, 8192)),
    (JOBS, "outputs", Keys(0, 64, r#"{"value": "v"}"#)),
    (JOBS, "outputs/a/value", Text(1, 8192)),
];

const STEPS: &str = r#"{"steps": [{"name": "s", "run": "1"}]}"#;

const ACTION: &[Row] = &[
    (STEPS, "inputs", Keys(0, 64, "{}")),
    (STEPS, "inputs/a/default", Text(0, 8192)),
    (STEPS, "outputs", Keys(0, 64, r#"{"value": "v"}"#)),
    (STEPS, "outputs/a/value", Text(1, 8192)),
    (STEPS, "steps", Items(1, 128, r#"{"name": "s", "run": ""}"#)),
    (STEPS, "steps/0/name", Text(1, 63)),
    (STEPS, "steps/0/run", Text(0, 262_144)),
    (STEPS, "steps/0/args", Items(0, 256, r#""a""#)),
    (STEPS, "steps/0/args/0", Text(0, 8192)),
    (STEPS, "steps/0/env", Keys(0, 256, r#""v""#)),
    (
        STEPS,
        "steps/0/artifacts",
        Items(0, 32, r#"{"from": "f", "path": "p"}"#),
    ),
];

async fn try_specs(cluster: &Cluster, kind: &str, rows: &[Row]) {
    let cluster = cluster.another().await;
    for (index, (base, place, bound)) in rows.iter().enumerate() {
        let with = |value: Value| {
            let mut spec = parsed(base);
            put(&mut spec, place, value);
            spec
        };
        for (number, value) in bound.good().into_iter().enumerate() {
            cluster
                .accepts(
                    kind,
                    &format!("{}-{index}-{number}", kind.to_lowercase()),
                    &with(value),
                )
                .await;
        }
        let field = format!("spec.{}", shown(place));
        for (value, says) in bound.bad() {
            cluster.refuses(kind, &with(value), &field, &says).await;
        }
    }
}

pub(crate) async fn the_spec_of_a_run_is_bounded(cluster: &Cluster) {
    try_specs(cluster, "Run", RUN).await;
    try_specs(cluster, "Run", RUN_CHOICES).await;
}

pub(crate) async fn the_spec_of_a_runtime_is_bounded(cluster: &Cluster) {
    try_specs(cluster, "Runtime", RUNTIME).await;
}

pub(crate) async fn the_spec_of_a_workspace_is_bounded(cluster: &Cluster) {
    try_specs(cluster, "PersistentWorkspace", WORKSPACE).await;
}

pub(crate) async fn the_spec_of_a_workflow_is_bounded(cluster: &Cluster) {
    try_specs(cluster, "Workflow", BOTH).await;
    try_specs(cluster, "Workflow", WORKFLOW).await;
}

pub(crate) async fn the_spec_of_a_workflow_run_is_bounded(cluster: &Cluster) {
    try_specs(cluster, "WorkflowRun", BOTH).await;
}

pub(crate) async fn the_spec_of_an_action_is_bounded(cluster: &Cluster) {
    try_specs(cluster, "Action", ACTION).await;
}

const REFS: &str = r#"{"artifactRefs": [{"name": "a", "driver": "filesystem", "type": "file", "sizeBytes": 1,
    "createdAt": "2026-01-02T03:04:05Z", "location": {"filesystem": {"path": "x"}}}]}"#;
const REFS_S3: &str = r#"{"artifactRefs": [{"name": "a", "driver": "s3", "type": "file", "sizeBytes": 1,
    "createdAt": "2026-01-02T03:04:05Z", "location": {"s3": {"bucket": "b", "key": "k"}}}]}"#;
const REF: &str = r#"{"name": "a", "driver": "filesystem", "type": "file", "sizeBytes": 1,
    "createdAt": "2026-01-02T03:04:05Z", "location": {"filesystem": {"path": "x"}}}"#;
const ENDPOINT: &str = r#"{"endpoint": {"protocol": "HTTP", "url": "http://a"}}"#;
const CONDITION: &str = r#"{"conditions": [{"type": "Ready", "status": "True", "reason": "A", "message": "",
    "lastTransitionTime": "2026-01-02T03:04:05Z"}]}"#;

const CONDITIONS: &[Row] = &[
    (CONDITION, "conditions/0/type", Pattern(316)),
    (CONDITION, "conditions/0/reason", Text(1, 1024)),
    (CONDITION, "conditions/0/message", Text(0, 32_768)),
    (
        CONDITION,
        "conditions/0/observedGeneration",
        Number(0, None),
    ),
    (
        CONDITION,
        "conditions/0/status",
        OneOf(&["True", "False", "Unknown"]),
    ),
];

const RUN_STATUS: &[Row] = &[
    ("{}", "assignedPodUID", Text(0, 253)),
    ("{}", "message", Text(0, 4096)),
    ("{}", "outputs", Keys(0, 64, r#""v""#)),
    ("{}", "artifactRefs", Items(0, 32, REF)),
    (ENDPOINT, "endpoint/url", Text(0, 2048)),
    (ENDPOINT, "endpoint/protocol", OneOf(&["HTTP", "HTTPS"])),
    (REFS, "artifactRefs/0/name", Text(1, 255)),
    (
        REFS,
        "artifactRefs/0/type",
        OneOf(&["file", "directory", "archive", "blob"]),
    ),
    (
        REFS,
        "artifactRefs/0/location/filesystem/path",
        Text(1, 4096),
    ),
    (
        REFS,
        "artifactRefs/0/location/filesystem/volumeClaimName",
        Text(0, 253),
    ),
    (REFS_S3, "artifactRefs/0/location/s3/bucket", Text(1, 255)),
    (REFS_S3, "artifactRefs/0/location/s3/key", Text(1, 4096)),
    (REFS, "artifactRefs/0/sizeBytes", Number(0, None)),
    (REFS, "artifactRefs/0/digest", Text(0, 256)),
    (REFS, "artifactRefs/0/contentType", Text(0, 255)),
];

const WORKFLOW_RUN_STATUS: &[Row] = &[
    ("{}", "jobs", Keys(0, 64, r#"{"phase": "Pending"}"#)),
    ("{}", "snapshotName", Text(0, 253)),
    ("{}", "message", Text(0, 4096)),
    ("{}", "outputs", Keys(0, 64, r#""v""#)),
    (PENDING, "jobs/a/pre", Items(0, 64, r#""b""#)),
    (PENDING, "jobs/a/pre/0", Text(0, 63)),
    (PENDING, "jobs/a/workflowRunName", Text(0, 253)),
    (PENDING, "jobs/a/outputs", Keys(0, 64, r#""v""#)),
    (PENDING, "jobs/a/artifacts", Keys(0, 32, REF)),
    (PENDING, "jobs/a/reason", Text(0, 64)),
    (PENDING, "jobs/a/message", Text(0, 4096)),
    (
        PENDING,
        "jobs/a/steps",
        Items(0, 128, r#"{"name": "s", "phase": "Running"}"#),
    ),
    (STARTED, "jobs/a/steps/0/name", Text(1, 63)),
    (STARTED, "jobs/a/steps/0/outputs", Keys(0, 64, r#""v""#)),
    (
        STARTED,
        "jobs/a/steps/0/actionSteps",
        Items(0, 128, r#"{"name": "s", "phase": "Running"}"#),
    ),
];
const PENDING: &str = r#"{"jobs": {"a": {"phase": "Pending"}}}"#;
const STARTED: &str =
    r#"{"jobs": {"a": {"phase": "Running", "steps": [{"name": "s", "phase": "Running"}]}}}"#;

const WORKSPACE_STATUS: &[Row] = &[("{}", "boundPodUID", Text(0, 253))];

async fn try_statuses(cluster: &Cluster, kind: &str, spec: &str, rows: &[Row]) {
    let cluster = cluster.another().await;
    for (index, (base, place, bound)) in rows.iter().chain(CONDITIONS).enumerate() {
        let with = |value: Value| {
            let mut status = parsed(base);
            put(&mut status, place, value);
            status
        };
        let field = format!("status.{}", shown(place));
        for (number, value) in bound.good().into_iter().enumerate() {
            let name = format!("good-{index}-{number}");
            cluster.accepts(kind, &name, &parsed(spec)).await;
            cluster.takes_status(kind, &name, &with(value)).await;
        }
        for (number, (value, says)) in bound.bad().into_iter().enumerate() {
            let name = format!("bad-{index}-{number}");
            let stored = cluster.accepts(kind, &name, &parsed(spec)).await;
            let status = with(value);
            let refused = cluster.merge_status(kind, &name, &status).await;
            let refused = refused
                .err()
                .unwrap_or_else(|| panic!("{kind} {place}: must be refused: {says}"));
            assert_blames(&refused, &field, &says, &json!(place));
            assert_eq!(cluster.stored(kind, &name).await, Some(stored), "{place}");
        }
    }
}

pub(crate) async fn the_status_of_a_run_is_bounded(cluster: &Cluster) {
    try_statuses(cluster, "Run", TASK, RUN_STATUS).await;
}

pub(crate) async fn the_status_of_a_workflow_run_is_bounded(cluster: &Cluster) {
    try_statuses(cluster, "WorkflowRun", JOBS, WORKFLOW_RUN_STATUS).await;
}

pub(crate) async fn the_status_of_a_workspace_is_bounded(cluster: &Cluster) {
    try_statuses(
        cluster,
        "PersistentWorkspace",
        r#"{"runtime": "bash"}"#,
        WORKSPACE_STATUS,
    )
    .await;
}

pub(crate) async fn the_statuses_of_the_other_kinds_are_bounded(cluster: &Cluster) {
    let replicas: &[Row] = &[("{}", "readyReplicas", Number(0, None))];
    try_statuses(cluster, "Runtime", POOL, replicas).await;
    try_statuses(cluster, "Workflow", JOBS, &[]).await;
    try_statuses(cluster, "Action", STEPS, &[]).await;
}

/// Sixteen conditions, each of its own type, and no seventeenth.
pub(crate) async fn conditions_are_counted(cluster: &Cluster) {
    let status = |count: usize| {
        let one = |index: usize| {
            json!({"type": format!("T{index}"), "status": "True", "reason": "A", "message": "",
                "lastTransitionTime": "2026-01-02T03:04:05Z"})
        };
        json!({"conditions": (0..count).map(one).collect::<Vec<_>>()})
    };
    for (kind, spec) in [
        ("Run", TASK),
        ("Runtime", POOL),
        ("PersistentWorkspace", r#"{"runtime": "bash"}"#),
        ("Workflow", JOBS),
        ("WorkflowRun", JOBS),
        ("Action", STEPS),
    ] {
        cluster.accepts(kind, "counted", &parsed(spec)).await;
        let refused = cluster.merge_status(kind, "counted", &status(17)).await;
        let refused = refused.expect_err("seventeen are too many");
        assert_blames(
            &refused,
            "status.conditions",
            "must have at most 16 items",
            &json!(kind),
        );
        cluster.takes_status(kind, "counted", &status(16)).await;
    }
}

/// Lengths count characters, not bytes, and a bundle counts its base64.
pub(crate) async fn lengths_count_characters(cluster: &Cluster) {
    cluster.accepts("Run", "run", &parsed(TASK)).await;
    cluster
        .takes_status("Run", "run", &json!({"message": "é".repeat(4096)}))
        .await;
    let bundle = |length: usize| json!({"endpoint": {"protocol": "HTTP", "url": "u", "caBundle": "A".repeat(length)}});
    cluster.takes_status("Run", "run", &bundle(16_384)).await;
    let refused = cluster
        .merge_status("Run", "run", &bundle(16_388))
        .await
        .expect_err("four characters too many");
    let says = "may not be more than 16384 bytes";
    assert_blames(
        &refused,
        "status.endpoint.caBundle",
        says,
        &json!("caBundle"),
    );
}
