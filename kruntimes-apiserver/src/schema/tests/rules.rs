//! When rules run, what they see and how their verdicts are told.

use serde_json::{Value, json};

use super::{of_x, parsed, root, said};
use crate::schema::{FieldErrorKind, KindSchema, SchemaError};

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

/// A rule of [`ruled`], and what it says about `{"a": 1, "tags": {"k": "v"}}`.
const FAILURES: &[(&str, FieldErrorKind, &str)] = &[
    (
        r#"{"rule": "self.a > 1"}"#,
        FieldErrorKind::Invalid,
        r#"x: Invalid value: "object": failed rule: self.a > 1"#,
    ),
    (
        r#"{"rule": "self.a > 1", "message": " too small "}"#,
        FieldErrorKind::Invalid,
        r#"x: Invalid value: "object": too small"#,
    ),
    (
        r#"{"rule": "self.a > 1", "message": "plain", "messageExpression": "'got ' + string(self.a)"}"#,
        FieldErrorKind::Invalid,
        r#"x: Invalid value: "object": got 1"#,
    ),
    (
        r#"{"rule": "self.a > 1", "message": "plain", "messageExpression": "self.my_field"}"#,
        FieldErrorKind::Invalid,
        r#"x: Invalid value: "object": plain"#,
    ),
    (
        r#"{"rule": "false", "message": "no", "reason": "FieldValueForbidden", "fieldPath": ".a"}"#,
        FieldErrorKind::Forbidden,
        "x.a: Forbidden: no",
    ),
    (
        r#"{"rule": "false", "message": "no", "reason": "FieldValueRequired", "fieldPath": ".when"}"#,
        FieldErrorKind::Required,
        "x.when: Required value: no",
    ),
    (
        r#"{"rule": "false", "reason": "FieldValueDuplicate"}"#,
        FieldErrorKind::Duplicate,
        r#"x: Duplicate value: "object""#,
    ),
    (
        r#"{"rule": "false", "message": "no", "fieldPath": ".tags.k"}"#,
        FieldErrorKind::Invalid,
        r#"x.tags[k]: Invalid value: "object": no"#,
    ),
    (
        r#"{"rule": "self.my_field == ''"}"#,
        FieldErrorKind::Invalid,
        r#"x: Invalid value: "object": no such key: my_field evaluating rule: self.my_field == ''"#,
    ),
    (
        r#"{"rule": "self.a"}"#,
        FieldErrorKind::Invalid,
        r#"x: Invalid value: "object": the rule did not evaluate to a boolean: self.a"#,
    ),
];

#[test]
fn a_failed_rule_is_reported_as_it_asks() {
    let object = json!({"x": {"a": 1, "tags": {"k": "v"}}});
    for (rule, kind, want) in FAILURES {
        let errors = ruled(&parsed(rule)).validate(&object, None);
        assert_eq!(said(&errors), [*want], "{rule}");
        assert_eq!(errors[0].kind, *kind, "{rule}");
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

/// As on a cluster, a value that an update leaves alone is not judged again.
#[test]
fn an_unchanged_value_keeps_its_verdict() {
    let schema = of_x(&json!({
        "type": "object",
        "properties": {
            "a": {"type": "integer", "x-kubernetes-validations": [{"rule": "self > 5", "message": "too small"}]},
            "b": {"type": "integer", "x-kubernetes-validations": [{"rule": "self > oldSelf", "message": "must grow"}]}
        }
    }));
    let old = json!({"x": {"a": 1, "b": 1}});
    for (new, want) in [
        (json!({"x": {"a": 1, "b": 2}}), &[][..]),
        (
            json!({"x": {"a": 2, "b": 2}}),
            &[r#"x.a: Invalid value: "integer": too small"#][..],
        ),
        (
            old.clone(),
            &[r#"x.b: Invalid value: "integer": must grow"#][..],
        ),
    ] {
        assert_eq!(said(&schema.validate(&new, Some(&old))), want, "{new}");
    }
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
