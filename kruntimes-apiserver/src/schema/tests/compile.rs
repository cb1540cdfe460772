//! What is refused when a definition is compiled.

use serde_json::{Value, json};

use super::{definition, parsed, root};
use crate::schema::{KindSchema, SchemaError};

/// What is no structural schema of a field, and the path that is blamed.
const NOT_STRUCTURAL: &[(&str, &str)] = &[
    (r#"{"description": "no type"}"#, "properties[x].type"),
    (r#"{"type": "text"}"#, "properties[x].type"),
    (
        r##"{"type": "string", "$ref": "#/a"}"##,
        "properties[x].$ref",
    ),
    (
        r#"{"type": "object", "patternProperties": {}}"#,
        "properties[x].patternProperties",
    ),
    (
        r#"{"type": "object", "additionalProperties": false}"#,
        "additionalProperties",
    ),
    (
        r#"{"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": true}"#,
        "additionalProperties",
    ),
    (r#"{"type": "array"}"#, "properties[x].items"),
    (
        r#"{"type": "array", "items": [{"type": "string"}]}"#,
        "properties[x].items",
    ),
    (
        r#"{"type": "string", "properties": {"a": {"type": "string"}}}"#,
        "properties[x].type",
    ),
    (
        r#"{"type": "string", "x-kubernetes-int-or-string": true}"#,
        "properties[x].type",
    ),
    (
        r#"{"type": "string", "anyOf": [{"type": "string"}]}"#,
        "anyOf[0].type",
    ),
    (
        r#"{"type": "string", "allOf": [{"default": "a"}]}"#,
        "allOf[0].default",
    ),
    (
        r#"{"type": "string", "oneOf": [{"nullable": true}]}"#,
        "oneOf[0].nullable",
    ),
    (
        r#"{"type": "string", "not": {"x-kubernetes-validations": [{"rule": "true"}]}}"#,
        "not.x-kubernetes-validations",
    ),
    (
        r#"{"type": "object", "anyOf": [{"properties": {"a": {"maxLength": 1}}}]}"#,
        "properties[x].properties[a]",
    ),
    (
        r#"{"type": "object", "anyOf": [{"items": {"maxLength": 1}}]}"#,
        "properties[x].items",
    ),
    (
        r#"{"type": "string", "x-kubernetes-list-type": "set"}"#,
        "properties[x].type",
    ),
    (
        r#"{"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "heap"}"#,
        "x-kubernetes-list-type",
    ),
    (
        r#"{"type": "array", "items": {"type": "string"}, "x-kubernetes-list-map-keys": ["a"]}"#,
        "x-kubernetes-list-map-keys",
    ),
    (
        r#"{"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "map"}"#,
        "x-kubernetes-list-map-keys",
    ),
    (
        r#"{"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}},
            "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"]}"#,
        "x-kubernetes-list-map-keys",
    ),
    (
        r#"{"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}},
            "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["b"]}"#,
        "x-kubernetes-list-map-keys",
    ),
    (
        r#"{"type": "object", "x-kubernetes-embedded-resource": true}"#,
        "properties[x].properties",
    ),
    (
        r#"{"x-kubernetes-preserve-unknown-fields": true, "x-kubernetes-embedded-resource": true}"#,
        "properties[x].type",
    ),
];

/// Rules of [`ruled`] that mean the same here and on a cluster.
const SOUND_RULES: &[&str] = &[
    "has(self.mode.__function__) != has(self.mode.task)",
    "self.jobs.all(k, self.jobs[k].run__dash__on != k)",
    "self.tags.all(t, t.name != '') && self.tags.filter(t, true).all(t, t.name != '')",
    "self.metadata.name.startsWith('a') && self.kind == 'Thing'",
    "math.greatest([1, 2]) == 2 && quantity('1').isGreaterThan(quantity('0'))",
    "self == oldSelf",
    "self.open == oldSelf.open",
    "(has(self.mode) ? self.mode : self.mode).task != ''",
    "{'a': [self.mode.task]}.size() == 1",
];

/// Rules of [`ruled`] that a cluster refuses, and a piece of the reason.
const UNSOUND_RULES: &[(&str, &str)] = &[
    ("has(self.mode.function)", "must be written __function__"),
    ("has(self.typo)", "undefined field typo"),
    ("{'a': [self.typo]}.size() == 1", "undefined field typo"),
    (
        "self.jobs.all(k, self.jobs[k].runs != k)",
        "undefined field runs",
    ),
    ("self.tags.exists(t, t.nam == 'a')", "undefined field nam"),
    (
        "self.tags.filter(t, true).all(t, t.nam == 'a')",
        "undefined field nam",
    ),
    ("self.tags[0].nam == 'a'", "undefined field nam"),
    (
        "(has(self.mode) ? self.mode : self.mode).typo != ''",
        "undefined field typo",
    ),
    (
        "self.mode.task.length == 3",
        "undefined field length of a string",
    ),
    (
        "self.metadata.labels.size() == 0",
        "metadata.labels is not visible",
    ),
    ("self.open.a == 1", "undefined field a"),
    ("name == 'a'", "undeclared reference to name"),
    (
        "self.mode.task.sizeOf() == 1",
        "undeclared reference to function sizeOf",
    ),
    (
        "self.tags.sortBy(t, t.name).size() == 1",
        "undeclared reference",
    ),
    (
        "cel.bind(a, self.mode, has(a.task))",
        "undeclared reference",
    ),
];

#[test]
fn a_version_that_does_not_exist_is_refused() {
    let crd = definition(&json!({"type": "object"}));
    let error = KindSchema::compile(&crd, "v2").expect_err("there is no v2");
    assert!(matches!(error, SchemaError::UnknownVersion(_)), "{error}");
}

#[test]
fn a_version_without_schema_accepts_everything() {
    let mut crd = definition(&json!({"type": "object"}));
    crd.spec.versions[0].schema = None;
    let schema = KindSchema::compile(&crd, "v1").expect("no schema is a schema");
    let mut object = json!({"spec": {"a": null, "b": [1, {"c": 2}]}});
    let before = object.clone();
    assert!(schema.prune(&mut object).is_empty());
    schema.default(&mut object);
    assert!(schema.validate(&object, None).is_empty());
    assert_eq!(object, before);
}

#[test]
fn what_is_not_structural_is_refused() {
    let array = root(&json!({"type": "array", "items": {"type": "string"}}));
    assert!(
        matches!(array, Err(SchemaError::NotStructural { .. })),
        "{array:?}"
    );
    for (schema, path) in NOT_STRUCTURAL {
        match root(&json!({"type": "object", "properties": {"x": parsed(schema)}})) {
            Err(SchemaError::NotStructural { path: found, .. }) => {
                assert!(found.ends_with(path), "{schema}: {found}");
            }
            other => panic!("{schema}: {other:?}"),
        }
    }
}

#[test]
fn bad_patterns_and_bad_defaults_are_refused() {
    let pattern =
        root(&json!({"type": "object", "properties": {"x": {"type": "string", "pattern": "("}}}));
    assert!(
        matches!(pattern, Err(SchemaError::Pattern { .. })),
        "{pattern:?}"
    );
    for (case, schema) in [
        ("type", json!({"type": "string", "default": 1})),
        (
            "bound",
            json!({"type": "integer", "maximum": 3, "default": 4}),
        ),
        (
            "unknown field",
            json!({"type": "object", "default": {"a": 1}}),
        ),
        (
            "rule",
            json!({"type": "integer", "default": 4, "x-kubernetes-validations": [{"rule": "self < 4"}]}),
        ),
    ] {
        let found = root(&json!({"type": "object", "properties": {"x": schema}}));
        assert!(
            matches!(found, Err(SchemaError::Default { .. })),
            "{case}: {found:?}"
        );
    }
}

fn ruled(rule: &str) -> Value {
    json!({
        "type": "object",
        "properties": {
            "mode": {
                "type": "object",
                "properties": {"function": {"type": "string"}, "task": {"type": "string"}}
            },
            "jobs": {
                "type": "object",
                "additionalProperties": {"type": "object", "properties": {"run-on": {"type": "string"}}}
            },
            "tags": {
                "type": "array",
                "items": {"type": "object", "properties": {"name": {"type": "string"}}}
            },
            "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}
        },
        "x-kubernetes-validations": [{"rule": rule}]
    })
}

#[test]
fn rules_that_would_mean_something_else_are_refused() {
    for rule in SOUND_RULES {
        let found = root(&ruled(rule));
        assert!(found.is_ok(), "{rule}: {found:?}");
    }
    for (rule, fragment) in UNSOUND_RULES {
        match root(&ruled(rule)) {
            Err(SchemaError::RuleMeaning { reason, .. }) => {
                assert!(reason.contains(fragment), "{rule}: {reason}");
            }
            other => panic!("{rule}: {other:?}"),
        }
    }
    for rule in ["self.mode ==", "self.?mode.hasValue()"] {
        assert!(root(&ruled(rule)).is_err(), "{rule} must be refused");
    }
    let broken = root(&ruled("self.mode =="));
    assert!(
        matches!(broken, Err(SchemaError::Rule { .. })),
        "{broken:?}"
    );
}

#[test]
fn rule_options_are_checked() {
    let with = |rule: Value| json!({"type": "object", "properties": {"a": {"type": "string"}}, "x-kubernetes-validations": [rule]});
    for (case, rule) in [
        (
            "optionalOldSelf",
            json!({"rule": "self == oldSelf", "optionalOldSelf": true}),
        ),
        (
            "unknown reason",
            json!({"rule": "true", "reason": "Because"}),
        ),
        (
            "undeclared fieldPath",
            json!({"rule": "true", "fieldPath": ".b"}),
        ),
        (
            "malformed fieldPath",
            json!({"rule": "true", "fieldPath": "a"}),
        ),
        (
            "message about the past",
            json!({"rule": "true", "messageExpression": "oldSelf.a"}),
        ),
        (
            "message with a typo",
            json!({"rule": "true", "messageExpression": "self.b"}),
        ),
    ] {
        let found = root(&with(rule));
        assert!(
            matches!(found, Err(SchemaError::RuleMeaning { .. })),
            "{case}: {found:?}"
        );
    }
    assert!(root(&with(json!({"rule": "true", "fieldPath": ".a"}))).is_ok());
    assert!(root(&with(json!({"rule": "true", "fieldPath": "['a']"}))).is_ok());
}
