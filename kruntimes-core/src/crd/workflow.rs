//! Bounds and rules of `Workflow`, `Action`, jobs and steps (API reference, sections 6 and 8).

use schemars::Schema;
use serde_json::json;

use super::rule::{Rule, positive_duration};
use super::schema::{Object, conditions, dns253, filled, label63, list, map, object, text};

pub(crate) fn spec(schema: &mut Schema) {
    let spec = &mut object(schema);
    spec.field("inputs", &map(64)).field("outputs", &map(64));
    jobs(spec);
}

/// The map of jobs, its keys and its edges; Workflow and WorkflowRun share it.
pub(super) fn jobs(spec: &mut Object<'_>) {
    spec.field("jobs", &json!({ "minProperties": 1, "maxProperties": 64 }))
        // W6
        .field_rule(
            "jobs",
            Rule::new(
                "self.all(j, !has(self[j].needs) || self[j].needs.all(n, n != j && n in self))",
                "jobs: needs must name other jobs of the same object",
            ),
        )
        // W7
        .field_rule(
            "jobs",
            Rule::new(
                "self.all(j, size(j) <= 63 && j.matches('^([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$'))",
                "jobs: a job name must have at most 63 characters and be a label value",
            ),
        );
}

pub(crate) fn input(schema: &mut Schema) {
    object(schema)
        .field("type", &json!({ "default": "string" }))
        .field("default", &text(8192));
}

pub(crate) fn output(schema: &mut Schema) {
    object(schema).field("value", &filled(8192));
}

pub(crate) fn job(schema: &mut Schema) {
    object(schema)
        .field("runs-on", &label63())
        .field("needs", &list(64, &text(63)))
        .field("steps", &json!({ "minItems": 1, "maxItems": 128 }))
        .field("uses", &dns253())
        .field("with", &map(256))
        .field("outputs", &map(64))
        .field("if", &filled(4096))
        .field("gate", &label63())
        .field_rule("timeout", positive_duration("timeout"))
        // W1
        .rule(Rule::new(
            "has(self.steps) != has(self.uses)",
            "a job must set exactly one of steps and uses",
        ))
        // W2
        .rule(
            Rule::new(
                "!has(self.with) || has(self.uses)",
                "with of a job requires uses",
            )
            .forbidden()
            .at(".with"),
        );
}

pub(crate) fn step(schema: &mut Schema) {
    object(schema)
        .field("name", &label63())
        .field("run", &text(262_144))
        .field("args", &list(256, &text(8192)))
        .field("env", &map(256))
        .field("uses", &dns253())
        .field("with", &map(256))
        .field("artifacts", &list(32, &json!({})))
        .field("if", &filled(4096))
        .field("gate", &label63())
        .field_rule("timeout", positive_duration("timeout"))
        // W3
        .rule(Rule::new(
            "has(self.run) != has(self.uses)",
            "a step must set exactly one of run and uses",
        ))
        // W4
        .rule(
            Rule::new(
                "!has(self.with) || has(self.uses)",
                "with of a step requires uses",
            )
            .forbidden()
            .at(".with"),
        )
        // W5
        .rule(
            Rule::new(
                "!has(self.uses) || (!has(self.args) && !has(self.env) && !has(self.artifacts))",
                "a step with uses may not set args, env or artifacts",
            )
            .forbidden()
            .at(".uses"),
        );
}

pub(crate) fn step_artifact(schema: &mut Schema) {
    object(schema)
        .field("from", &filled(4096))
        .field("path", &filled(4096))
        .field("path", &json!({ "pattern": "^[^/].*$" }));
}

pub(crate) fn action_spec(schema: &mut Schema) {
    object(schema)
        .field("inputs", &map(64))
        .field("outputs", &map(64))
        .field("steps", &json!({ "minItems": 1, "maxItems": 128 }))
        // A1
        .field_rule(
            "steps",
            Rule::new(
                "self.all(s, has(s.run) && !has(s.uses) && !has(s.with))",
                "steps of an Action must set run and neither uses nor with",
            ),
        );
}

pub(crate) fn status(schema: &mut Schema) {
    object(schema).field("conditions", &conditions());
}
