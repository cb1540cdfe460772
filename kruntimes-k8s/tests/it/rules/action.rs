//! Rule A1 of Action, and the step rules it shares with Workflow.

use serde_json::json;

use super::{Cluster, Refused, parsed};

const STEPS: &str = r#"{"steps": [{"name": "s", "run": "true"}]}"#;

const RUN_ONLY: &str = "steps of an Action must set run and neither uses nor with";

const REFUSED: &[Refused] = &[
    (
        r#"{"steps": [{"name": "s", "uses": "a"}]}"#,
        "spec.steps",
        RUN_ONLY,
    ),
    (
        r#"{"steps": [{"name": "s", "uses": "a", "with": {"x": "1"}}]}"#,
        "spec.steps",
        RUN_ONLY,
    ),
    (
        r#"{"steps": [{"name": "s", "run": "", "with": {"x": "1"}}]}"#,
        "spec.steps",
        RUN_ONLY,
    ),
    (
        r#"{"steps": [{"name": "s", "run": "", "with": {"x": "1"}}]}"#,
        "spec.steps[0].with",
        "with of a step requires uses",
    ),
    (
        r#"{"steps": [{"name": "a", "run": ""}, {"name": "s"}]}"#,
        "spec.steps",
        RUN_ONLY,
    ),
    (
        r#"{"steps": [{"name": "s"}]}"#,
        "spec.steps[0]",
        "a step must set exactly one of run and uses",
    ),
    (
        r#"{"steps": [{"name": "s", "run": "", "uses": "a"}]}"#,
        "spec.steps[0]",
        "exactly one of run and uses",
    ),
    (r#"{"steps": null}"#, "spec.steps", "Required value"),
    (
        r#"{"steps": []}"#,
        "spec.steps",
        "should have at least 1 items",
    ),
    (
        r#"{"inputs": {"a": {"type": "int"}}}"#,
        "spec.inputs.a.type",
        r#"supported values: "string""#,
    ),
    (
        r#"{"outputs": {"a": {}}}"#,
        "spec.outputs.a.value",
        "Required value",
    ),
];

pub(crate) async fn a1_an_action_only_runs(cluster: &Cluster) {
    cluster.refuses_all("Action", STEPS, REFUSED).await;
    let accepted = [
        "{}",
        r#"{"steps": [{"name": "s", "run": "", "args": ["a"], "env": {"A": "1"}}, {"name": "t", "run": "x"}]}"#,
        r#"{"inputs": {"level": {"default": "1"}}, "outputs": {"dir": {"value": "${{ steps.s.outputs.dir }}"}}}"#,
    ];
    cluster.accepts_all("Action", STEPS, &accepted).await;
    let change = json!({"steps": [{"name": "other", "run": "false"}]});
    cluster
        .updates("Action", "edited", &parsed(STEPS), &change)
        .await;
}
