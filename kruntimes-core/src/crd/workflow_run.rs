//! Bounds and rules of the `WorkflowRun` kind (API reference, section 7).

use schemars::Schema;
use serde_json::json;

use super::rule::{Rule, cancel_is_final, same};
use super::schema::{conditions, label63, list, map, object, text};

pub(crate) fn spec(schema: &mut Schema) {
    let spec = &mut object(schema);
    super::workflow::jobs(spec);
    spec.field("cancelRequested", &json!({ "default": false }))
        .rule(Rule::immutable("jobs", "self.jobs == oldSelf.jobs"))
        .field("suspend", &json!({ "default": false }))
        .field("decisions", &map(64))
        .field("reuse", &map(64))
        .rule(Rule::immutable("strategy", same("strategy")))
        .rule(Rule::immutable("reuse", same("reuse")))
        // A decision is final.
        .rule(
            Rule::new(
                "!has(oldSelf.decisions) || (has(self.decisions) && oldSelf.decisions.all(g, g in self.decisions && self.decisions[g] == oldSelf.decisions[g]))",
                "a decision may not be changed or withdrawn",
            )
            .forbidden()
            .at(".decisions"),
        )
        .rule(cancel_is_final());
}

pub(crate) fn status(schema: &mut Schema) {
    object(schema)
        .field("phase", &json!({ "default": "Pending" }))
        .require(&["phase"])
        .field("jobs", &map(64))
        .field("snapshotName", &text(253))
        .field("message", &text(4096))
        .field("conditions", &conditions())
        .field("outputs", &map(64));
}

pub(crate) fn job_status(schema: &mut Schema) {
    object(schema)
        .require(&["phase"])
        .field("pre", &list(64, &text(63)))
        .field("workflowRunName", &text(253))
        .field("outputs", &map(64))
        .field("artifacts", &map(32))
        .field("reason", &text(64))
        .field("message", &text(4096))
        .field("steps", &list(128, &json!({})));
}

pub(crate) fn step_status(schema: &mut Schema) {
    object(schema)
        .require(&["phase"])
        .field("name", &label63())
        .field("outputs", &map(64))
        .field("actionSteps", &list(128, &json!({})))
        .field("reason", &text(4096));
}

pub(crate) fn action_step_status(schema: &mut Schema) {
    object(schema)
        .require(&["phase"])
        .field("name", &label63())
        .field("outputs", &map(64));
}
