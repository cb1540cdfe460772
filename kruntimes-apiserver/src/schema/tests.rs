//! Tables for the whole of the schema module.

use std::sync::LazyLock;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{FieldErrorKind, KindSchema, SchemaError};

fn definition(schema: &Value) -> CustomResourceDefinition {
    let mut schema = schema.clone();
    if schema.get("type").is_none() {
        schema = json!({"type": "object", "properties": {"spec": schema}});
    }
    serde_json::from_value(json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com",
            "names": {"kind": "Thing", "plural": "things"},
            "scope": "Namespaced",
            "versions": [
                {"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}
            ]
        }
    }))
    .expect("the definition is well formed")
}

fn root(schema: &Value) -> Result<KindSchema, SchemaError> {
    KindSchema::compile(&definition(schema), "v1")
}

/// Compiles a schema of the one field `x` of the object.
fn of_x(schema: &Value) -> KindSchema {
    root(&json!({"type": "object", "properties": {"x": schema}})).expect("the schema compiles")
}

fn said(errors: &[super::FieldError]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

/// Returns what is said about `{"x": value}`.
fn about_x(schema: &Value, value: &Value) -> Vec<String> {
    said(&of_x(schema).validate(&json!({"x": value}), None))
}

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
    let text = json!({"type": "string"});
    let below = |spec: Value| json!({"type": "object", "properties": {"x": spec}});
    for (case, schema, path) in [
        ("root type", json!({"type": "array", "items": text}), "type"),
        (
            "missing type",
            below(json!({"description": "nothing"})),
            "properties[x].type",
        ),
        (
            "unknown type",
            below(json!({"type": "text"})),
            "properties[x].type",
        ),
        (
            "$ref",
            below(json!({"type": "string", "$ref": "#/a"})),
            "properties[x].$ref",
        ),
        (
            "patternProperties",
            below(json!({"type": "object", "patternProperties": {}})),
            "patternProperties",
        ),
        (
            "closed object",
            below(json!({"type": "object", "additionalProperties": false})),
            "additionalProperties",
        ),
        (
            "properties and additionalProperties",
            below(
                json!({"type": "object", "properties": {"a": text}, "additionalProperties": text}),
            ),
            "additionalProperties",
        ),
        (
            "array without items",
            below(json!({"type": "array"})),
            "items",
        ),
        (
            "tuple",
            below(json!({"type": "array", "items": [text]})),
            "items",
        ),
        (
            "int-or-string with type",
            below(json!({"type": "string", "x-kubernetes-int-or-string": true})),
            "type",
        ),
        (
            "type in a branch",
            below(json!({"type": "string", "anyOf": [{"type": "string"}]})),
            "anyOf[0].type",
        ),
        (
            "default in a branch",
            below(json!({"type": "string", "allOf": [{"default": "a"}]})),
            "allOf[0].default",
        ),
        (
            "rule in a branch",
            below(
                json!({"type": "string", "not": {"x-kubernetes-validations": [{"rule": "true"}]}}),
            ),
            "not",
        ),
        (
            "undeclared field in a branch",
            below(json!({"type": "object", "anyOf": [{"properties": {"a": {"maxLength": 1}}}]})),
            "properties[a]",
        ),
        (
            "list type of no list",
            below(json!({"type": "string", "x-kubernetes-list-type": "set"})),
            "type",
        ),
        (
            "list map without keys",
            below(json!({"type": "array", "items": text, "x-kubernetes-list-type": "map"})),
            "x-kubernetes-list-map-keys",
        ),
        (
            "list map with a key that may be absent",
            below(json!({
                "type": "array",
                "items": {"type": "object", "properties": {"a": text}},
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["a"]
            })),
            "x-kubernetes-list-map-keys",
        ),
        (
            "embedded resource without fields",
            below(json!({"type": "object", "x-kubernetes-embedded-resource": true})),
            "properties",
        ),
    ] {
        match root(&schema) {
            Err(SchemaError::NotStructural { path: found, .. }) => {
                assert!(found.contains(path), "{case}: {found}")
            }
            other => panic!("{case}: {other:?}"),
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

#[test]
fn rules_that_would_mean_something_else_are_refused() {
    let rule = |rule: &str| {
        json!({
            "type": "object",
            "properties": {
                "mode": {"type": "object", "properties": {"function": {"type": "string"}, "task": {"type": "string"}}},
                "jobs": {"type": "object", "additionalProperties": {
                    "type": "object", "properties": {"run-on": {"type": "string"}}
                }},
                "tags": {"type": "array", "items": {"type": "object", "properties": {"name": {"type": "string"}}}},
                "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}
            },
            "x-kubernetes-validations": [{"rule": rule}]
        })
    };
    for text in [
        "has(self.mode.__function__) != has(self.mode.task)",
        "self.jobs.all(k, self.jobs[k].run__dash__on != k)",
        "self.tags.all(t, t.name != '') && self.tags.filter(t, true).all(t, t.name != '')",
        "self.metadata.name.startsWith('a') && self.kind == 'Thing'",
        "math.greatest([1, 2]) == 2 && quantity('1').isGreaterThan(quantity('0'))",
        "self == oldSelf",
        "self.open == oldSelf.open",
        "(has(self.mode) ? self.mode : self.mode).task != ''",
    ] {
        let found = root(&rule(text));
        assert!(found.is_ok(), "{text}: {found:?}");
    }
    for (text, fragment) in [
        ("has(self.mode.function)", "must be written __function__"),
        ("has(self.typo)", "undefined field typo"),
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
        ("self.?mode.hasValue()", "optional field syntax"),
    ] {
        match root(&rule(text)) {
            Err(SchemaError::RuleMeaning { reason, .. }) => {
                assert!(reason.contains(fragment), "{text}: {reason}")
            }
            Err(SchemaError::Rule { .. }) if text.contains(".?") => {}
            other => panic!("{text}: {other:?}"),
        }
    }
    let broken = root(&rule("self.mode =="));
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

#[test]
fn transition_rules_need_members_with_keys() {
    let list = |extra: Value| {
        let mut list = json!({
            "type": "array",
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {"name": {"type": "string"}, "value": {"type": "integer"}},
                "x-kubernetes-validations": [{"rule": "self.value >= oldSelf.value", "message": "must not shrink"}]
            }
        });
        list.as_object_mut()
            .unwrap()
            .extend(extra.as_object().unwrap().clone());
        json!({"type": "object", "properties": {"x": list}})
    };
    let atomic = root(&list(json!({})));
    assert!(
        matches!(atomic, Err(SchemaError::RuleMeaning { .. })),
        "{atomic:?}"
    );
    let keyed = json!({"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]});
    let schema = root(&list(keyed)).expect("keyed members can be paired");
    let old = json!({"x": [{"name": "a", "value": 1}, {"name": "b", "value": 5}]});
    let moved = json!({"x": [{"name": "b", "value": 5}, {"name": "new", "value": 0}, {"name": "a", "value": 2}]});
    assert!(schema.validate(&moved, Some(&old)).is_empty());
    let shrunk = json!({"x": [{"name": "b", "value": 4}]});
    assert_eq!(
        said(&schema.validate(&shrunk, Some(&old))),
        [r#"x[0]: Invalid value: "object": must not shrink"#]
    );
}

#[test]
fn unknown_fields_are_pruned() {
    let text = json!({"type": "string"});
    let schema = root(&json!({
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "name": text,
                    "labels": {"type": "object", "additionalProperties": text},
                    "jobs": {"type": "object", "additionalProperties": {"type": "object", "properties": {"run": text}}},
                    "steps": {"type": "array", "items": {"type": "object", "properties": {"run": text}}},
                    "open": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": true,
                        "properties": {"shut": {"type": "object", "properties": {"run": text}}}
                    },
                    "any": {"x-kubernetes-preserve-unknown-fields": true},
                    "bag": {"type": "object", "additionalProperties": true},
                    "port": {"x-kubernetes-int-or-string": true},
                    "pod": {"type": "object", "x-kubernetes-embedded-resource": true, "properties": {"spec": {"type": "object"}}}
                }
            }
        }
    }))
    .expect("the schema compiles");
    for (case, mut spec, want, dropped) in [
        (
            "declared",
            json!({"name": "a"}),
            json!({"name": "a"}),
            &[][..],
        ),
        (
            "undeclared",
            json!({"name": "a", "nam": 1}),
            json!({"name": "a"}),
            &["spec.nam"][..],
        ),
        (
            "map keys stay",
            json!({"labels": {"a": "b"}}),
            json!({"labels": {"a": "b"}}),
            &[],
        ),
        (
            "below map keys",
            json!({"jobs": {"b": {"run": "", "x": 1}}}),
            json!({"jobs": {"b": {"run": ""}}}),
            &["spec.jobs.b.x"],
        ),
        (
            "in lists",
            json!({"steps": [{}, {"x": 1}]}),
            json!({"steps": [{}, {}]}),
            &["spec.steps[1].x"],
        ),
        (
            "preserved",
            json!({"open": {"x": {"y": 1}}}),
            json!({"open": {"x": {"y": 1}}}),
            &[],
        ),
        (
            "closed again",
            json!({"open": {"shut": {"y": 1}}}),
            json!({"open": {"shut": {}}}),
            &["spec.open.shut.y"],
        ),
        (
            "anything",
            json!({"any": [{"x": 1}]}),
            json!({"any": [{"x": 1}]}),
            &[],
        ),
        (
            "bag",
            json!({"bag": {"x": {"y": 1}}}),
            json!({"bag": {"x": {"y": 1}}}),
            &[],
        ),
        (
            "int or string",
            json!({"port": "http"}),
            json!({"port": "http"}),
            &[],
        ),
        (
            "embedded",
            json!({"pod": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"x": 1}, "y": 1}}),
            json!({"pod": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {}}}),
            &["spec.pod.spec.x", "spec.pod.y"],
        ),
        (
            "wrong type",
            json!({"name": {"x": 1}, "steps": "a"}),
            json!({"name": {}, "steps": "a"}),
            &["spec.name.x"],
        ),
    ] {
        let mut object = json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"x": 1}, "spec": spec.take()});
        assert_eq!(schema.prune(&mut object), dropped, "{case}");
        assert_eq!(object["spec"], want, "{case}");
        assert_eq!(object["metadata"], json!({"x": 1}), "{case}");
    }
}

#[test]
fn defaults_fill_what_is_absent() {
    let schema = of_x(&json!({
        "type": "object",
        "properties": {
            "port": {"type": "integer", "default": 80},
            "maybe": {"type": "string", "nullable": true, "default": "d"},
            "plain": {"type": "string"},
            "nullable": {"type": "string", "nullable": true},
            "any": {"x-kubernetes-preserve-unknown-fields": true},
            "inner": {"type": "object", "default": {}, "properties": {"deep": {"type": "string", "default": "e"}}},
            "outer": {"type": "object", "properties": {"deep": {"type": "string", "default": "e"}}},
            "list": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "integer", "default": 1}}}},
            "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"a": {"type": "integer", "default": 1}}}}
        }
    }));
    for (case, before, after) in [
        (
            "nothing given",
            json!({}),
            json!({"port": 80, "maybe": "d", "inner": {"deep": "e"}}),
        ),
        (
            "given values stay",
            json!({"port": 1, "maybe": "", "inner": {"deep": ""}}),
            json!({"port": 1, "maybe": "", "inner": {"deep": ""}}),
        ),
        (
            "null with default",
            json!({"port": null}),
            json!({"port": 80, "maybe": "d", "inner": {"deep": "e"}}),
        ),
        (
            "null that is allowed",
            json!({"maybe": null, "nullable": null}),
            json!({"port": 80, "maybe": null, "nullable": null, "inner": {"deep": "e"}}),
        ),
        (
            "null without default",
            json!({"plain": null}),
            json!({"port": 80, "maybe": "d", "inner": {"deep": "e"}}),
        ),
        (
            "null of anything",
            json!({"any": null}),
            json!({"any": null, "port": 80, "maybe": "d", "inner": {"deep": "e"}}),
        ),
        (
            "no parent, no default",
            json!({"outer": {}}),
            json!({"outer": {"deep": "e"}, "port": 80, "maybe": "d", "inner": {"deep": "e"}}),
        ),
        (
            "in lists and maps",
            json!({"list": [{}], "map": {"k": {}, "gone": null}}),
            json!({"list": [{"a": 1}], "map": {"k": {"a": 1}}, "port": 80, "maybe": "d", "inner": {"deep": "e"}}),
        ),
    ] {
        let mut object = json!({"x": before});
        schema.default(&mut object);
        assert_eq!(object, json!({"x": after}), "{case}");
    }
}

#[test]
fn values_are_judged_with_the_words_of_kubernetes() {
    let text = |extra: Value| {
        let mut schema = json!({"type": "string"});
        schema
            .as_object_mut()
            .unwrap()
            .extend(extra.as_object().unwrap().clone());
        schema
    };
    for (schema, good, bad, want) in [
        (
            json!({"type": "string"}),
            json!("a"),
            json!(1),
            r#"x: Invalid value: "integer": x in body must be of type string: "integer""#,
        ),
        (
            json!({"type": "integer"}),
            json!(1.0),
            json!("a"),
            r#"x: Invalid value: "string": x in body must be of type integer: "string""#,
        ),
        (
            json!({"type": "integer"}),
            json!(1),
            json!(1.5),
            r#"x: Invalid value: "number": x in body must be of type integer: "number""#,
        ),
        (
            json!({"type": "number"}),
            json!(1.5),
            json!(null),
            r#"x: Invalid value: "null": x in body must be of type number: "null""#,
        ),
        (
            json!({"type": "boolean"}),
            json!(false),
            json!([]),
            r#"x: Invalid value: "array": x in body must be of type boolean: "array""#,
        ),
        (
            json!({"type": "string", "nullable": true}),
            json!(null),
            json!({}),
            r#"x: Invalid value: "object": x in body must be of type string: "object""#,
        ),
        (
            json!({"x-kubernetes-int-or-string": true}),
            json!("50%"),
            json!(1.5),
            r#"x: Invalid value: "number": x in body must be of type integer,string: "number""#,
        ),
        (
            text(json!({"enum": ["a", "b"]})),
            json!("b"),
            json!("c"),
            r#"x: Unsupported value: "c": supported values: "a", "b""#,
        ),
        (
            text(json!({"pattern": "^a+$"})),
            json!("aa"),
            json!("b"),
            r#"x: Invalid value: "b": x in body should match '^a+$'"#,
        ),
        (
            text(json!({"minLength": 2})),
            json!("éé"),
            json!("é"),
            r#"x: Invalid value: "é": x in body should be at least 2 chars long"#,
        ),
        (
            text(json!({"maxLength": 2})),
            json!("éé"),
            json!("ééé"),
            "x: Too long: may not be more than 2 bytes",
        ),
        (
            text(json!({"format": "date-time"})),
            json!("2024-01-02T03:04:05Z"),
            json!("soon"),
            r#"x: Invalid value: "soon": x in body must be of type date-time: "soon""#,
        ),
        (
            text(json!({"format": "who-knows"})),
            json!("2024"),
            json!(1),
            r#"x: Invalid value: "integer": x in body must be of type string: "integer""#,
        ),
        (
            json!({"type": "integer", "format": "int32"}),
            json!(1),
            json!(3_000_000_000_i64),
            r#"x: Invalid value: 3000000000: x in body must be of type int32: "3000000000""#,
        ),
        (
            json!({"type": "integer", "minimum": 1}),
            json!(1),
            json!(0),
            "x: Invalid value: 0: x in body should be greater than or equal to 1",
        ),
        (
            json!({"type": "integer", "minimum": 1, "exclusiveMinimum": true}),
            json!(2),
            json!(1),
            "x: Invalid value: 1: x in body should be greater than 1",
        ),
        (
            json!({"type": "integer", "maximum": 9}),
            json!(9),
            json!(10),
            "x: Invalid value: 10: x in body should be less than or equal to 9",
        ),
        (
            json!({"type": "number", "maximum": 9, "exclusiveMaximum": true}),
            json!(8.9),
            json!(9),
            "x: Invalid value: 9: x in body should be less than 9",
        ),
        (
            json!({"type": "number", "multipleOf": 0.1}),
            json!(0.3),
            json!(0.35),
            "x: Invalid value: 0.35: x in body should be a multiple of 0.1",
        ),
        (
            json!({"type": "array", "items": {"type": "string"}, "minItems": 1}),
            json!(["a"]),
            json!([]),
            "x: Invalid value: 0: x in body should have at least 1 items",
        ),
        (
            json!({"type": "array", "items": {"type": "string"}, "maxItems": 1}),
            json!(["a"]),
            json!(["a", "b"]),
            "x: Too many: 2: must have at most 1 item",
        ),
        (
            json!({"type": "array", "items": {"type": "number"}, "uniqueItems": true}),
            json!([1, 2]),
            json!([1, 1.0]),
            r#"x: Invalid value: "": x in body shouldn't contain duplicates"#,
        ),
        (
            json!({"type": "array", "items": {"type": "string"}}),
            json!(["a"]),
            json!(["a", 1]),
            r#"x[1]: Invalid value: "integer": x[1] in body must be of type string: "integer""#,
        ),
        (
            json!({"type": "object", "minProperties": 1, "additionalProperties": {"type": "string"}}),
            json!({"a": ""}),
            json!({}),
            "x: Invalid value: 0: x in body should have at least 1 properties",
        ),
        (
            json!({"type": "object", "maxProperties": 1, "additionalProperties": {"type": "string"}}),
            json!({"a": ""}),
            json!({"a": "", "b": ""}),
            "x: Too many: 2: must have at most 1 item",
        ),
        (
            json!({"type": "object", "additionalProperties": {"type": "string"}}),
            json!({"a": ""}),
            json!({"a": 1}),
            r#"x.a: Invalid value: "integer": x.a in body must be of type string: "integer""#,
        ),
        (
            json!({"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}}}),
            json!({"a": ""}),
            json!({}),
            "x.a: Required value",
        ),
        (
            json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}),
            json!(["a", "b"]),
            json!(["a", "a"]),
            r#"x[1]: Duplicate value: "a""#,
        ),
        (
            json!({
                "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "v": {"type": "string"}}}
            }),
            json!([{"name": "a"}, {"name": "b"}]),
            json!([{"name": "a", "v": "1"}, {"name": "a", "v": "2"}]),
            r#"x[1]: Duplicate value: {"name":"a"}"#,
        ),
        (
            text(json!({"not": {"enum": ["a"]}})),
            json!("b"),
            json!("a"),
            r#"x: Invalid value: "": "x" must not validate the schema (not)"#,
        ),
        (
            text(json!({"allOf": [{"minLength": 1}, {"maxLength": 2}]})),
            json!("a"),
            json!("abc"),
            "x: Too long: may not be more than 2 bytes",
        ),
        (
            text(json!({"oneOf": [{"minLength": 1}, {"maxLength": 2}]})),
            json!("abc"),
            json!("a"),
            r#"x: Invalid value: "": "x" must validate one and only one schema (oneOf). Found 2 valid alternatives"#,
        ),
    ] {
        assert!(
            about_x(&schema, &good).is_empty(),
            "{schema} must accept {good}: {:?}",
            about_x(&schema, &good)
        );
        assert_eq!(about_x(&schema, &bad), [want], "{schema}");
    }
}

#[test]
fn the_first_branch_explains_why_none_fits() {
    let member = json!({"type": "string"});
    for (keyword, head) in [
        (
            "oneOf",
            "must validate one and only one schema (oneOf). Found none valid",
        ),
        ("anyOf", "must validate at least one schema (anyOf)"),
    ] {
        let schema = json!({
            "type": "object",
            "properties": {"a": member, "b": member},
            keyword: [{"required": ["a"]}, {"required": ["b"]}]
        });
        assert!(about_x(&schema, &json!({"b": ""})).is_empty());
        let want = [
            format!(r#"x: Invalid value: "": "x" {head}"#),
            "x.a: Required value".to_owned(),
        ];
        assert_eq!(about_x(&schema, &json!({})), want);
    }
}

#[test]
fn an_int_or_string_may_spell_out_its_two_types() {
    let schema = json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}], "pattern": "^[0-9]+%?$"});
    assert!(about_x(&schema, &json!(5)).is_empty());
    assert!(about_x(&schema, &json!("5%")).is_empty());
    assert_eq!(
        about_x(&schema, &json!("%")),
        ["x: Invalid value: \"%\": x in body should match '^[0-9]+%?$'"]
    );
}

fn ruled(rule: &Value) -> KindSchema {
    of_x(&json!({
        "type": "object",
        "properties": {
            "a": {"type": "integer"},
            "when": {"type": "string", "format": "date-time"},
            "ratio": {"type": "number"},
            "raw": {"type": "string", "format": "byte"},
            "wait": {"type": "string", "format": "duration"},
            "port": {"x-kubernetes-int-or-string": true},
            "in": {"type": "string"},
            "a-b": {"type": "string"},
            "c__d": {"type": "string"},
            "my_field": {"type": "string"},
            "tags": {"type": "object", "additionalProperties": {"type": "string"}}
        },
        "x-kubernetes-validations": [rule]
    }))
}

#[test]
fn rules_see_values_as_a_cluster_shows_them() {
    for (rule, value) in [
        ("self.a == 1 && self.a % 2 == 1", json!({"a": 1.0})),
        ("self.ratio / 2.0 == 0.5", json!({"ratio": 1})),
        (
            "self.when > timestamp('2024-01-01T00:00:00Z')",
            json!({"when": "2024-06-01T00:00:00Z"}),
        ),
        ("self.wait == duration('60s')", json!({"wait": "1m0s"})),
        ("size(self.raw) == 2", json!({"raw": "aGk="})),
        (
            "self.port == 80 || self.port == 'http'",
            json!({"port": "http"}),
        ),
        (
            "self.__in__ == 'x' && self.a__dash__b == 'y'",
            json!({"in": "x", "a-b": "y"}),
        ),
        (
            "self.c__underscores__d == 'x' && self.my_field == 'y'",
            json!({"c__d": "x", "my_field": "y"}),
        ),
        (
            "self.tags['a-b'] == 'x' && 'in' in self.tags",
            json!({"tags": {"a-b": "x", "in": ""}}),
        ),
        ("!has(self.a)", json!({})),
    ] {
        let errors = ruled(&json!({"rule": rule})).validate(&json!({"x": value}), None);
        assert!(errors.is_empty(), "{rule}: {}", said(&errors).join("; "));
    }
}

#[test]
fn a_failed_rule_is_reported_as_it_asks() {
    let object = json!({"x": {"a": 1, "tags": {"k": "v"}}});
    for (rule, kind, want) in [
        (
            json!({"rule": "self.a > 1"}),
            FieldErrorKind::Invalid,
            r#"x: Invalid value: "object": failed rule: self.a > 1"#,
        ),
        (
            json!({"rule": "self.a > 1", "message": " too small "}),
            FieldErrorKind::Invalid,
            r#"x: Invalid value: "object": too small"#,
        ),
        (
            json!({"rule": "self.a > 1", "message": "plain", "messageExpression": "'got ' + string(self.a)"}),
            FieldErrorKind::Invalid,
            r#"x: Invalid value: "object": got 1"#,
        ),
        (
            json!({"rule": "self.a > 1", "message": "plain", "messageExpression": "self.port"}),
            FieldErrorKind::Invalid,
            r#"x: Invalid value: "object": plain"#,
        ),
        (
            json!({"rule": "false", "message": "no", "reason": "FieldValueForbidden", "fieldPath": ".a"}),
            FieldErrorKind::Forbidden,
            "x.a: Forbidden: no",
        ),
        (
            json!({"rule": "false", "message": "no", "reason": "FieldValueRequired", "fieldPath": ".when"}),
            FieldErrorKind::Required,
            "x.when: Required value: no",
        ),
        (
            json!({"rule": "false", "reason": "FieldValueDuplicate"}),
            FieldErrorKind::Duplicate,
            r#"x: Duplicate value: "object""#,
        ),
        (
            json!({"rule": "false", "message": "no", "fieldPath": ".tags.k"}),
            FieldErrorKind::Invalid,
            r#"x.tags[k]: Invalid value: "object": no"#,
        ),
        (
            json!({"rule": "self.my_field == ''"}),
            FieldErrorKind::Invalid,
            r#"x: Invalid value: "object": no such key: my_field evaluating rule: self.my_field == ''"#,
        ),
        (
            json!({"rule": "self.a"}),
            FieldErrorKind::Invalid,
            r#"x: Invalid value: "object": the rule did not evaluate to a boolean: self.a"#,
        ),
    ] {
        let errors = ruled(&rule).validate(&object, None);
        assert_eq!(said(&errors), [want], "{rule}");
        assert_eq!(errors[0].kind, kind, "{rule}");
    }
}

#[test]
fn transition_rules_wait_for_an_update() {
    let schema = ruled(&json!({"rule": "self.a == oldSelf.a", "message": "is immutable"}));
    let (one, two) = (json!({"x": {"a": 1}}), json!({"x": {"a": 2}}));
    assert!(schema.validate(&two, None).is_empty());
    assert!(schema.validate(&one, Some(&one)).is_empty());
    assert!(schema.validate(&two, Some(&json!({}))).is_empty());
    assert_eq!(
        said(&schema.validate(&two, Some(&one))),
        [r#"x: Invalid value: "object": is immutable"#]
    );
    assert_eq!(
        said(&schema.validate_status(&two, Some(&one))),
        [r#"x: Invalid value: "object": is immutable"#]
    );
}

#[test]
fn rules_stand_in_lists_and_maps_too() {
    let member = json!({"type": "string", "x-kubernetes-validations": [{"rule": "self != 'bad'", "message": "no"}]});
    let schema = root(&json!({
        "type": "object",
        "properties": {
            "list": {"type": "array", "items": member},
            "map": {"type": "object", "additionalProperties": member}
        },
        "x-kubernetes-validations": [{"rule": "self.metadata.name != 'bad'", "message": "bad name"}]
    }))
    .expect("the schema compiles");
    let object = json!({"metadata": {"name": "bad"}, "list": ["ok", "bad"], "map": {"k": "bad"}});
    assert_eq!(
        said(&schema.validate(&object, None)),
        [
            r#"<nil>: Invalid value: "object": bad name"#,
            r#"list[1]: Invalid value: "string": no"#,
            r#"map[k]: Invalid value: "string": no"#,
        ]
    );
}

#[test]
fn map_values_are_paired_by_key_across_an_update() {
    let schema = of_x(&json!({
        "type": "object",
        "additionalProperties": {
            "type": "integer",
            "x-kubernetes-validations": [{"rule": "self >= oldSelf", "message": "must grow"}]
        }
    }));
    let old = json!({"x": {"a": 5, "b": 1}});
    assert!(
        schema
            .validate(&json!({"x": {"b": 1, "c": 0}}), Some(&old))
            .is_empty()
    );
    assert_eq!(
        said(&schema.validate(&json!({"x": {"a": 4}}), Some(&old))),
        [r#"x[a]: Invalid value: "integer": must grow"#]
    );
}

#[test]
fn rules_are_not_evaluated_on_a_broken_object() {
    let schema = ruled(&json!({"rule": "self.a > 5", "message": "rule ran"}));
    let errors = schema.validate(&json!({"x": {"a": "text"}}), None);
    assert_eq!(errors.len(), 2, "{errors:?}");
    assert_eq!(errors[0].kind, FieldErrorKind::TypeInvalid);
    assert_eq!(errors[0].kind.reason(), "FieldValueTypeInvalid");
    assert!(
        errors[1]
            .message
            .contains("some validation rules were not checked"),
        "{errors:?}"
    );
}

#[test]
fn rules_run_next_to_errors_that_they_can_bear() {
    let schema = of_x(&json!({
        "type": "string",
        "pattern": "^a",
        "x-kubernetes-validations": [{"rule": "self.endsWith('z')", "message": "must end in z"}]
    }));
    let errors = schema.validate(&json!({"x": "b"}), None);
    assert_eq!(
        said(&errors),
        [
            r#"x: Invalid value: "b": x in body should match '^a'"#,
            r#"x: Invalid value: "string": must end in z"#
        ]
    );
}

static WORKLOAD: LazyLock<KindSchema> = LazyLock::new(workload);

fn workload() -> KindSchema {
    of_x(&json!({
        "type": "object",
        "required": ["name"],
        "properties": {
            "name": {"type": "string", "default": "unnamed", "maxLength": 8},
            "note": {"type": "string", "nullable": true},
            "count": {"type": "integer", "minimum": 0, "default": 1},
            "steps": {"type": "array", "items": {
                "type": "object",
                "properties": {"run": {"type": "string"}, "retries": {"type": "integer", "default": 0}}
            }},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "extra": {"type": "object", "default": {}, "x-kubernetes-preserve-unknown-fields": true}
        },
        "x-kubernetes-validations": [{"rule": "self.count >= 0 && self.name.size() <= 8"}]
    }))
}

/// Any JSON under names that the schema of [`workload`] knows or does not know.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[a-z]{0,4}".prop_map(Value::from),
    ];
    let name = prop_oneof![
        "name|note|count|steps|labels|extra|run|retries",
        "[a-z]{1,3}"
    ];
    leaf.prop_recursive(4, 32, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(name.clone(), inner, 0..5)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// An object that is valid once it is defaulted, with unknown fields in it.
fn valid_workload() -> impl Strategy<Value = Value> {
    let step = ("[a-z]{0,4}", prop::option::of(0..9_i64), any::<bool>()).prop_map(
        |(run, retries, unknown)| {
            let mut step = json!({"run": run});
            if let Some(retries) = retries {
                step["retries"] = retries.into();
            }
            if unknown {
                step["shell"] = json!({"x": 1});
            }
            step
        },
    );
    let labels = prop::collection::btree_map("[a-z]{1,3}", "[a-z]{0,3}", 0..3);
    let name = prop::option::of("[a-z]{0,8}");
    (name, prop::option::of(0..9_i64), prop::collection::vec(step, 0..4), labels, any_json()).prop_map(
        |(name, count, steps, labels, other)| {
            let mut x = json!({"steps": steps, "labels": labels, "note": null, "unknown": other, "count": count});
            if let Some(name) = name {
                x["name"] = name.into();
            }
            json!({"x": x, "y": other})
        },
    )
}

proptest! {
    #[test]
    fn pruning_twice_prunes_once(mut object in any_json().prop_map(|x| json!({"x": x}))) {
        let schema = &*WORKLOAD;
        let dropped = schema.prune(&mut object);
        let once = object.clone();
        prop_assert!(schema.prune(&mut object).is_empty(), "{dropped:?}");
        prop_assert_eq!(object, once);
    }

    #[test]
    fn defaulting_twice_defaults_once(mut object in any_json().prop_map(|x| json!({"x": x}))) {
        let schema = &*WORKLOAD;
        schema.default(&mut object);
        let once = object.clone();
        schema.default(&mut object);
        prop_assert_eq!(object, once);
    }

    #[test]
    fn validation_never_fails_to_answer(object in any_json().prop_map(|x| json!({"x": x}))) {
        let schema = &*WORKLOAD;
        let errors = schema.validate(&object, Some(&object));
        prop_assert_eq!(&errors, &schema.validate(&object, Some(&object)));
    }

    #[test]
    fn a_valid_object_is_valid_after_pruning_and_defaulting(mut object in valid_workload()) {
        let schema = &*WORKLOAD;
        let dropped = schema.prune(&mut object);
        prop_assert!(dropped.contains(&"x.unknown".to_owned()));
        schema.default(&mut object);
        prop_assert_eq!(schema.validate(&object, None), Vec::new());
    }
}
