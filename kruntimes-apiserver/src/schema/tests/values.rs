//! What is said about values, in the words of Kubernetes.

use serde_json::json;

use super::{about_x, parsed};

/// Schema of the field `x`, a value it accepts, a value it refuses, and the refusal.
#[rustfmt::skip]
const VALUES: &[(&str, &str, &str, &str)] = &[
    (
        r#"{"type": "string"}"#,
        r#""a""#, "1",
        r#"x: Invalid value: "integer": x in body must be of type string: "integer""#,
    ),
    (
        r#"{"type": "integer"}"#,
        "1.0", r#""a""#,
        r#"x: Invalid value: "string": x in body must be of type integer: "string""#,
    ),
    (
        r#"{"type": "integer"}"#,
        "1", "1.5",
        r#"x: Invalid value: "number": x in body must be of type integer: "number""#,
    ),
    (
        r#"{"type": "number"}"#,
        "1.5", "null",
        r#"x: Invalid value: "null": x in body must be of type number: "null""#,
    ),
    (
        r#"{"type": "boolean"}"#,
        "false", "[]",
        r#"x: Invalid value: "array": x in body must be of type boolean: "array""#,
    ),
    (
        r#"{"type": "string", "nullable": true}"#,
        "null", "{}",
        r#"x: Invalid value: "object": x in body must be of type string: "object""#,
    ),
    (
        r#"{"x-kubernetes-int-or-string": true}"#,
        r#""50%""#, "1.5",
        r#"x: Invalid value: "number": x in body must be of type integer,string: "number""#,
    ),
    (
        r#"{"type": "string", "enum": ["a", "b"]}"#,
        r#""b""#, r#""c""#,
        r#"x: Unsupported value: "c": supported values: "a", "b""#,
    ),
    (
        r#"{"type": "string", "nullable": true, "enum": ["a", null]}"#,
        "null", r#""c""#,
        r#"x: Unsupported value: "c": supported values: "a", "null""#,
    ),
    (
        r#"{"type": "string", "nullable": true, "enum": ["a"]}"#,
        r#""a""#, "null",
        r#"x: Unsupported value: "null": supported values: "a""#,
    ),
    (
        r#"{"type": "string", "pattern": "^a+$"}"#,
        r#""aa""#, r#""b""#,
        r#"x: Invalid value: "b": x in body should match '^a+$'"#,
    ),
    (
        r#"{"type": "string", "minLength": 2}"#,
        r#""éé""#, r#""é""#,
        r#"x: Invalid value: "é": x in body should be at least 2 chars long"#,
    ),
    (
        r#"{"type": "string", "maxLength": 2}"#,
        r#""éé""#, r#""ééé""#,
        "x: Too long: may not be more than 2 bytes",
    ),
    (
        r#"{"type": "string", "format": "date-time"}"#,
        r#""2024-01-02T03:04:05Z""#, r#""soon""#,
        r#"x: Invalid value: "soon": x in body must be of type date-time: "soon""#,
    ),
    (
        r#"{"type": "string", "format": "who-knows"}"#,
        r#""2024""#, "1",
        r#"x: Invalid value: "integer": x in body must be of type string: "integer""#,
    ),
    (
        r#"{"type": "integer", "format": "int32"}"#,
        "1", "3000000000",
        r#"x: Invalid value: 3000000000: x in body must be of type int32: "3000000000""#,
    ),
    (
        r#"{"type": "integer", "minimum": 1}"#,
        "1", "0",
        "x: Invalid value: 0: x in body should be greater than or equal to 1",
    ),
    (
        r#"{"type": "integer", "minimum": 1, "exclusiveMinimum": true}"#,
        "2", "1",
        "x: Invalid value: 1: x in body should be greater than 1",
    ),
    (
        r#"{"type": "integer", "maximum": 9}"#,
        "9", "10",
        "x: Invalid value: 10: x in body should be less than or equal to 9",
    ),
    (
        r#"{"type": "number", "maximum": 9, "exclusiveMaximum": true}"#,
        "8.9", "9",
        "x: Invalid value: 9: x in body should be less than 9",
    ),
    (
        r#"{"type": "number", "multipleOf": 0.1}"#,
        "0.3", "0.35",
        "x: Invalid value: 0.35: x in body should be a multiple of 0.1",
    ),
    (
        r#"{"type": "array", "items": {"type": "string"}, "minItems": 1}"#,
        r#"["a"]"#, "[]",
        "x: Invalid value: 0: x in body should have at least 1 items",
    ),
    (
        r#"{"type": "array", "items": {"type": "string"}, "maxItems": 1}"#,
        r#"["a"]"#, r#"["a", "b"]"#,
        "x: Too many: 2: must have at most 1 item",
    ),
    (
        r#"{"type": "array", "items": {"type": "number"}, "uniqueItems": true}"#,
        "[1, 2]", "[1, 1.0]",
        r#"x: Invalid value: "": x in body shouldn't contain duplicates"#,
    ),
    (
        r#"{"type": "array", "items": {"type": "string"}}"#,
        r#"["a"]"#, r#"["a", 1]"#,
        r#"x[1]: Invalid value: "integer": x[1] in body must be of type string: "integer""#,
    ),
    (
        r#"{"type": "object", "minProperties": 1, "additionalProperties": {"type": "string"}}"#,
        r#"{"a": ""}"#, "{}",
        "x: Invalid value: 0: x in body should have at least 1 properties",
    ),
    (
        r#"{"type": "object", "maxProperties": 1, "additionalProperties": {"type": "string"}}"#,
        r#"{"a": ""}"#, r#"{"a": "", "b": ""}"#,
        "x: Too many: 2: must have at most 1 item",
    ),
    (
        r#"{"type": "object", "additionalProperties": {"type": "string"}}"#,
        r#"{"a": ""}"#, r#"{"a": 1}"#,
        r#"x.a: Invalid value: "integer": x.a in body must be of type string: "integer""#,
    ),
    (
        r#"{"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}}}"#,
        r#"{"a": ""}"#, "{}",
        "x.a: Required value",
    ),
    (
        r#"{"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}"#,
        r#"["a", "b"]"#, r#"["a", "a"]"#,
        r#"x[1]: Duplicate value: "a""#,
    ),
    (
        r#"{"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
            "items": {"type": "object", "required": ["name"], "properties": {
                "name": {"type": "string"}, "v": {"type": "string"}}}}"#,
        r#"[{"name": "a"}, {"name": "b"}]"#, r#"[{"name": "a", "v": "1"}, {"name": "a", "v": "2"}]"#,
        r#"x[1]: Duplicate value: {"name":"a"}"#,
    ),
    (
        r#"{"type": "string", "not": {"enum": ["a"]}}"#,
        r#""b""#, r#""a""#,
        r#"x: Invalid value: "": "x" must not validate the schema (not)"#,
    ),
    (
        r#"{"type": "string", "allOf": [{"minLength": 1}, {"maxLength": 2}]}"#,
        r#""a""#, r#""abc""#,
        "x: Too long: may not be more than 2 bytes",
    ),
    (
        r#"{"type": "string", "oneOf": [{"minLength": 1}, {"maxLength": 2}]}"#,
        r#""abc""#, r#""a""#,
        r#"x: Invalid value: "": "x" must validate one and only one schema (oneOf). Found 2 valid alternatives"#,
    ),
];

#[test]
fn values_are_judged_with_the_words_of_kubernetes() {
    for (schema, good, bad, want) in VALUES {
        let parsed_schema = parsed(schema);
        let praise = about_x(&parsed_schema, &parsed(good));
        assert!(praise.is_empty(), "{schema} must accept {good}: {praise:?}");
        assert_eq!(about_x(&parsed_schema, &parsed(bad)), [*want], "{schema}");
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
