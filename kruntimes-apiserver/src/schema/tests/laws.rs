//! Laws that hold for every object.

use std::sync::LazyLock;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::of_x;
use crate::schema::KindSchema;

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
