//! Tables of pruning and defaulting.

use serde_json::json;

use super::{of_x, parsed, root};

const PRUNED_SCHEMA: &str = r#"{
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "jobs": {
            "type": "object",
            "additionalProperties": {"type": "object", "properties": {"run": {"type": "string"}}}
        },
        "steps": {"type": "array", "items": {"type": "object", "properties": {"run": {"type": "string"}}}},
        "open": {
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": true,
            "properties": {"shut": {"type": "object", "properties": {"run": {"type": "string"}}}}
        },
        "any": {"x-kubernetes-preserve-unknown-fields": true},
        "bag": {"type": "object", "additionalProperties": true},
        "port": {"x-kubernetes-int-or-string": true},
        "pod": {
            "type": "object",
            "x-kubernetes-embedded-resource": true,
            "properties": {"spec": {"type": "object"}}
        }
    }
}"#;

/// Spec, spec after pruning, dropped paths.
const PRUNED: &[(&str, &str, &[&str])] = &[
    (r#"{"name": "a"}"#, r#"{"name": "a"}"#, &[]),
    (
        r#"{"name": "a", "nam": 1}"#,
        r#"{"name": "a"}"#,
        &["spec.nam"],
    ),
    (
        r#"{"labels": {"a": "b"}}"#,
        r#"{"labels": {"a": "b"}}"#,
        &[],
    ),
    (
        r#"{"jobs": {"b": {"run": "", "x": 1}}}"#,
        r#"{"jobs": {"b": {"run": ""}}}"#,
        &["spec.jobs.b.x"],
    ),
    (
        r#"{"steps": [{}, {"x": 1}]}"#,
        r#"{"steps": [{}, {}]}"#,
        &["spec.steps[1].x"],
    ),
    (
        r#"{"open": {"x": {"y": 1}}}"#,
        r#"{"open": {"x": {"y": 1}}}"#,
        &[],
    ),
    (
        r#"{"open": {"shut": {"y": 1}}}"#,
        r#"{"open": {"shut": {}}}"#,
        &["spec.open.shut.y"],
    ),
    (r#"{"any": [{"x": 1}]}"#, r#"{"any": [{"x": 1}]}"#, &[]),
    (
        r#"{"bag": {"x": {"y": 1}}}"#,
        r#"{"bag": {"x": {"y": 1}}}"#,
        &[],
    ),
    (r#"{"port": "http"}"#, r#"{"port": "http"}"#, &[]),
    (
        r#"{"pod": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"x": 1}, "y": 1}}"#,
        r#"{"pod": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {}}}"#,
        &["spec.pod.spec.x", "spec.pod.y"],
    ),
    (
        r#"{"name": {"x": 1}, "steps": "a"}"#,
        r#"{"name": {}, "steps": "a"}"#,
        &["spec.name.x"],
    ),
];

const DEFAULTED_SCHEMA: &str = r#"{
    "type": "object",
    "properties": {
        "port": {"type": "integer", "default": 80},
        "maybe": {"type": "string", "nullable": true, "default": "d"},
        "plain": {"type": "string"},
        "nullable": {"type": "string", "nullable": true},
        "any": {"x-kubernetes-preserve-unknown-fields": true},
        "inner": {"type": "object", "default": {}, "properties": {"deep": {"type": "string", "default": "e"}}},
        "outer": {"type": "object", "properties": {"deep": {"type": "string", "default": "e"}}},
        "list": {
            "type": "array",
            "items": {"type": "object", "properties": {"a": {"type": "integer", "default": 1}}}
        },
        "filled": {"type": "array", "items": {"type": "string", "default": "f"}},
        "map": {
            "type": "object",
            "additionalProperties": {"type": "object", "properties": {"a": {"type": "integer", "default": 1}}}
        }
    }
}"#;

/// What is given, and what it becomes apart from the three defaults of the top.
const DEFAULTED: &[(&str, &str)] = &[
    ("{}", "{}"),
    (
        r#"{"port": 1, "maybe": "", "inner": {"deep": ""}}"#,
        r#"{"port": 1, "maybe": "", "inner": {"deep": ""}}"#,
    ),
    (r#"{"port": null}"#, "{}"),
    (
        r#"{"maybe": null, "nullable": null}"#,
        r#"{"maybe": null, "nullable": null}"#,
    ),
    (r#"{"plain": null}"#, "{}"),
    (r#"{"any": null}"#, r#"{"any": null}"#),
    (r#"{"outer": {}}"#, r#"{"outer": {"deep": "e"}}"#),
    (r#"{"outer": null}"#, "{}"),
    (
        r#"{"list": [{}, {"a": 2}]}"#,
        r#"{"list": [{"a": 1}, {"a": 2}]}"#,
    ),
    (r#"{"list": [null]}"#, r#"{"list": [null]}"#),
    (r#"{"filled": ["", null]}"#, r#"{"filled": ["", "f"]}"#),
    (
        r#"{"map": {"k": {}, "gone": null}}"#,
        r#"{"map": {"k": {"a": 1}}}"#,
    ),
];

#[test]
fn unknown_fields_are_pruned() {
    let schema = root(&json!({"type": "object", "properties": {"spec": parsed(PRUNED_SCHEMA)}}));
    let schema = schema.expect("the schema compiles");
    for (before, after, dropped) in PRUNED {
        let mut object = json!({
            "apiVersion": "example.com/v1",
            "kind": "Thing",
            "metadata": {"x": 1},
            "spec": parsed(before)
        });
        assert_eq!(schema.prune(&mut object), *dropped, "{before}");
        assert_eq!(object["spec"], parsed(after), "{before}");
        assert_eq!(object["metadata"], json!({"x": 1}), "{before}");
    }
}

#[test]
fn defaults_fill_what_is_absent() {
    let schema = of_x(&parsed(DEFAULTED_SCHEMA));
    for (before, after) in DEFAULTED {
        let mut object = json!({"x": parsed(before)});
        schema.default(&mut object);
        let mut want = json!({"port": 80, "maybe": "d", "inner": {"deep": "e"}});
        for (name, value) in parsed(after).as_object().expect("the table holds objects") {
            want[name] = value.clone();
        }
        assert_eq!(object, json!({"x": want}), "{before}");
    }
}
