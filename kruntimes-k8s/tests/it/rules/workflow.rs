//! Rules W1 to W7 of Workflow; WorkflowRun shares its jobs.

use serde_json::json;

use super::{Cluster, Refused, changed, parsed};

/// Both kinds that hold jobs.
const KINDS: [&str; 2] = ["Workflow", "WorkflowRun"];
const JOBS: &str =
    r#"{"jobs": {"a": {"runs-on": "bash", "steps": [{"name": "s", "run": "true"}]}}}"#;

async fn refuse(cluster: &Cluster, rows: &[Refused]) {
    let cluster = cluster.another().await;
    for kind in KINDS {
        cluster.refuses_all(kind, JOBS, rows).await;
    }
}

async fn accept(cluster: &Cluster, rows: &[&str]) {
    let cluster = cluster.another().await;
    for kind in KINDS {
        cluster.accepts_all(kind, JOBS, rows).await;
    }
}

pub(crate) async fn w1_w2_a_job_has_steps_or_calls(cluster: &Cluster) {
    let one = "a job must set exactly one of steps and uses";
    refuse(
        cluster,
        &[
            (r#"{"jobs": {"a": {"steps": null}}}"#, "spec.jobs[a]", one),
            (r#"{"jobs": {"a": {"uses": "w"}}}"#, "spec.jobs[a]", one),
            (r#"{"jobs": {"b": {}}}"#, "spec.jobs[b]", one),
            (
                r#"{"jobs": {"a": {"with": {"x": "1"}}}}"#,
                "spec.jobs[a].with",
                "with of a job requires uses",
            ),
        ],
    )
    .await;
    accept(cluster, &[
        r#"{"jobs": {"b": {"uses": "w"}}}"#,
        r#"{"jobs": {"b": {"uses": "w", "with": {"x": "1"}, "needs": ["a"], "outputs": {"o": "v"}}}}"#,
        r#"{"jobs": {"a": {"outputs": {"o": "v"}}}}"#,
    ])
    .await;
}

pub(crate) async fn w3_w4_w5_a_step_runs_or_uses(cluster: &Cluster) {
    let step = |step: &str| {
        format!(r#"{{"jobs": {{"a": {{"steps": [{{"name": "ok", "run": "1"}}, {step}]}}}}}}"#)
    };
    for (text, field, says) in [
        (
            r#"{"name": "s"}"#,
            "",
            "a step must set exactly one of run and uses",
        ),
        (
            r#"{"name": "s", "run": "1", "uses": "a"}"#,
            "",
            "a step must set exactly one of run and uses",
        ),
        (
            r#"{"name": "s", "run": "1", "with": {"x": "1"}}"#,
            ".with",
            "with of a step requires uses",
        ),
        (
            r#"{"name": "s", "uses": "a", "args": ["1"]}"#,
            ".uses",
            "may not set args, env or artifacts",
        ),
        (
            r#"{"name": "s", "uses": "a", "env": {"A": "1"}}"#,
            ".uses",
            "may not set args, env or artifacts",
        ),
        (
            r#"{"name": "s", "uses": "a", "artifacts": [{"from": "jobs.b.artifacts.c", "path": "p"}]}"#,
            ".uses",
            "may not set args, env or artifacts",
        ),
    ] {
        for kind in KINDS {
            let field = format!("spec.jobs[a].steps[1]{field}");
            cluster
                .refuses(kind, &changed(JOBS, &step(text)), &field, says)
                .await;
        }
    }
    for (index, text) in [
        r#"{"name": "s", "run": ""}"#,
        r#"{"name": "s", "uses": "a"}"#,
        r#"{"name": "s", "uses": "a", "with": {"x": "1"}}"#,
        r#"{"name": "s", "run": "1", "args": ["1"], "env": {"A": "1"}, "artifacts": [{"from": "f", "path": "p"}]}"#,
    ]
    .into_iter()
    .enumerate()
    {
        for kind in KINDS {
            cluster.accepts(kind, &format!("step-{index}"), &changed(JOBS, &step(text))).await;
        }
    }
}

pub(crate) async fn w6_needs_name_other_jobs(cluster: &Cluster) {
    let says = "needs must name other jobs of the same object";
    refuse(
        cluster,
        &[
            (r#"{"jobs": {"a": {"needs": ["b"]}}}"#, "spec.jobs", says),
            (r#"{"jobs": {"a": {"needs": ["a"]}}}"#, "spec.jobs", says),
            (
                r#"{"jobs": {"b": {"uses": "w", "needs": ["a", "c"]}}}"#,
                "spec.jobs",
                says,
            ),
        ],
    )
    .await;
    // A cycle is for the controller to find.
    accept(cluster, &[
        r#"{"jobs": {"b": {"uses": "w", "needs": ["a"]}, "c": {"uses": "w", "needs": ["a", "b"]}}}"#,
        r#"{"jobs": {"a": {"needs": ["b"]}, "b": {"uses": "w", "needs": ["a"]}}}"#,
    ])
    .await;
}

pub(crate) async fn w7_job_names_are_label_values(cluster: &Cluster) {
    let says = "a job name must have at most 63 characters and be a label value";
    let (longest, longer) = ("j".repeat(63), "j".repeat(64));
    for kind in KINDS {
        for name in ["-a", "a-", "a b", "", "é", longer.as_str()] {
            let spec = changed(JOBS, &json!({"jobs": {name: {"uses": "w"}}}).to_string());
            cluster.refuses(kind, &spec, "spec.jobs", says).await;
        }
        for (index, name) in ["A.b_c-d", "0", longest.as_str()].iter().enumerate() {
            let spec = changed(JOBS, &json!({"jobs": {*name: {"uses": "w"}}}).to_string());
            cluster.accepts(kind, &format!("job-{index}"), &spec).await;
        }
    }
}

const FORMATS: &[Refused] = &[
    (r#"{"jobs": null}"#, "spec.jobs", "Required value"),
    (
        r#"{"jobs": {"a": null}}"#,
        "spec.jobs",
        "should have at least 1 properties",
    ),
    (
        r#"{"jobs": {"a": {"runs-on": "-a"}}}"#,
        "spec.jobs.a.runs-on",
        "should match",
    ),
    (
        r#"{"jobs": {"b": {"uses": "A"}}}"#,
        "spec.jobs.b.uses",
        "should match",
    ),
    (
        r#"{"jobs": {"a": {"steps": []}}}"#,
        "spec.jobs.a.steps",
        "should have at least 1 items",
    ),
    (
        r#"{"jobs": {"a": {"steps": [{"run": ""}]}}}"#,
        "spec.jobs.a.steps[0].name",
        "Required value",
    ),
    (
        r#"{"jobs": {"a": {"steps": [{"name": "-", "run": ""}]}}}"#,
        "spec.jobs.a.steps[0].name",
        "should match",
    ),
    (
        r#"{"jobs": {"a": {"steps": [{"name": "s", "uses": "A"}]}}}"#,
        "spec.jobs.a.steps[0].uses",
        "should match",
    ),
    (
        r#"{"jobs": {"a": {"steps": [{"name": "s", "run": "", "artifacts": [{"from": "f", "path": "/p"}]}]}}}"#,
        "spec.jobs.a.steps[0].artifacts[0].path",
        "should match",
    ),
    (
        r#"{"jobs": {"a": {"steps": [{"name": "s", "run": "", "artifacts": [{"from": "f", "path": ""}]}]}}}"#,
        "spec.jobs.a.steps[0].artifacts[0].path",
        "should be at least 1 chars long",
    ),
    (
        r#"{"jobs": {"a": {"steps": [{"name": "s", "run": "", "artifacts": [{"from": "", "path": "p"}]}]}}}"#,
        "spec.jobs.a.steps[0].artifacts[0].from",
        "should be at least 1 chars long",
    ),
];

pub(crate) async fn fields_of_jobs_and_steps_have_their_formats(cluster: &Cluster) {
    refuse(cluster, FORMATS).await;
    accept(cluster, &[
        r#"{"jobs": {"a": {"steps": [{"name": "s", "run": "", "artifacts": [{"from": "f", "path": "./p"}]}]}}}"#,
    ])
    .await;
}

pub(crate) async fn a_workflow_declares_inputs_and_outputs_and_may_be_edited(cluster: &Cluster) {
    let refused: &[Refused] = &[
        (
            r#"{"inputs": {"a": {"type": "number"}}}"#,
            "spec.inputs.a.type",
            r#"supported values: "string""#,
        ),
        (
            r#"{"inputs": {"a": {"default": 1}}}"#,
            "spec.inputs.a.default",
            "must be of type string",
        ),
        (
            r#"{"outputs": {"a": {}}}"#,
            "spec.outputs.a.value",
            "Required value",
        ),
        (
            r#"{"outputs": {"a": {"value": ""}}}"#,
            "spec.outputs.a.value",
            "should be at least 1 chars long",
        ),
    ];
    cluster.refuses_all("Workflow", JOBS, refused).await;
    let accepted = [
        r#"{"inputs": {"a": {}, "b": {"required": true, "default": ""}}, "outputs": {"o": {"value": "v"}}}"#,
    ];
    cluster.accepts_all("Workflow", JOBS, &accepted).await;
    let stored = cluster
        .stored("Workflow", "row-0")
        .await
        .expect("it was just stored");
    assert_eq!(stored["spec"]["inputs"]["a"]["type"], "string");
    let change = json!({"jobs": {"a": null, "b": {"uses": "w"}}});
    cluster
        .updates("Workflow", "edited", &parsed(JOBS), &change)
        .await;
}
