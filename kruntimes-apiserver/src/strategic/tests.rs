//! The rules of strategic merge, on the kinds that have them.

use serde_json::{Value, json};

use super::{Mistake, merge_map};
use crate::apply::keys;

fn patched(kind: &str, object: Value, patch: &Value) -> Result<Value, Mistake> {
    let Value::Object(object) = object else {
        panic!("not an object: {object}")
    };
    merge_map(keys::root(kind).below(), object, patch.as_object().unwrap()).map(Value::Object)
}

fn pod(containers: &Value) -> Value {
    json!({ "spec": { "containers": containers } })
}

#[test]
fn items_are_merged_by_key_and_lists_without_one_are_replaced() {
    let old = pod(&json!([
        { "name": "a", "image": "i", "args": ["x", "y"], "ports": [{ "containerPort": 1, "name": "p" }] },
        { "name": "b", "image": "j" },
    ]));
    let patch = pod(
        &json!([{ "name": "a", "image": "k", "args": ["z"], "ports": [{ "containerPort": 2 }] }]),
    );
    let new = patched("Pod", old, &patch).unwrap();
    assert_eq!(
        new,
        pod(&json!([
            { "name": "a", "image": "k", "args": ["z"],
              "ports": [{ "containerPort": 2 }, { "containerPort": 1, "name": "p" }] },
            { "name": "b", "image": "j" },
        ]))
    );
}

#[test]
fn nulls_and_directives_delete() {
    let old = json!({
        "metadata": { "finalizers": ["a", "b"], "labels": { "x": "1", "y": "2" } },
        "spec": { "containers": [{ "name": "a" }, { "name": "b" }], "volumes": [{ "name": "v" }] },
    });
    let patch = json!({
        "metadata": {
            "$deleteFromPrimitiveList/finalizers": ["a"], "finalizers": ["c"],
            "labels": { "x": null },
        },
        "spec": {
            "containers": [{ "name": "a", "$patch": "delete" }],
            "volumes": [{ "$patch": "replace" }, { "name": "w" }],
        },
    });
    let new = patched("Pod", old, &patch).unwrap();
    assert_eq!(
        new,
        json!({
            "metadata": { "finalizers": ["c", "b"], "labels": { "y": "2" } },
            "spec": { "containers": [{ "name": "b" }], "volumes": [{ "name": "w" }] },
        })
    );
}

#[test]
fn maps_can_be_replaced_deleted_or_reduced_to_some_keys() {
    let old = json!({ "spec": { "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxSurge": 1 } },
        "selector": { "matchLabels": { "a": "b" } } } });
    let retain = json!({ "spec": { "strategy": { "$retainKeys": ["type"], "type": "Recreate" } } });
    let new = patched("Deployment", old.clone(), &retain).unwrap();
    assert_eq!(new["spec"]["strategy"], json!({ "type": "Recreate" }));
    let replace =
        json!({ "spec": { "selector": { "$patch": "replace", "matchLabels": { "c": "d" } } } });
    let new = patched("Deployment", old.clone(), &replace).unwrap();
    assert_eq!(
        new["spec"]["selector"],
        json!({ "matchLabels": { "c": "d" } })
    );
    let delete = json!({ "spec": { "selector": { "$patch": "delete" } } });
    let new = patched("Deployment", old.clone(), &delete).unwrap();
    assert_eq!(new["spec"].get("selector"), None);
    let wrong = json!({ "spec": { "strategy": { "$retainKeys": [], "type": "Recreate" } } });
    assert!(patched("Deployment", old, &wrong).is_err());
}

#[test]
fn the_order_can_be_set_with_or_without_a_change() {
    let old = pod(&json!([{ "name": "a" }, { "name": "b" }, { "name": "c" }]));
    let order = json!([{ "name": "c" }, { "name": "a" }]);
    let patch = json!({ "spec": { "$setElementOrder/containers": order } });
    let names = |object: &Value| -> Vec<String> {
        let list = object["spec"]["containers"].as_array().unwrap();
        list.iter()
            .map(|item| item["name"].as_str().unwrap().to_owned())
            .collect()
    };
    let new = patched("Pod", old.clone(), &patch).unwrap();
    assert_eq!(names(&new), ["b", "c", "a"]);
    let patch = json!({ "spec": { "$setElementOrder/containers": [{ "name": "a" }, { "name": "d" }, { "name": "b" }, { "name": "c" }],
        "containers": [{ "name": "d" }] } });
    assert_eq!(
        names(&patched("Pod", old.clone(), &patch).unwrap()),
        ["a", "d", "b", "c"]
    );
    let patch = json!({ "spec": { "$setElementOrder/containers": [{ "name": "a" }], "containers": [{ "name": "d" }] } });
    assert!(patched("Pod", old, &patch).is_err());
}

#[test]
fn service_ports_go_by_port_and_conditions_by_type() {
    let old = json!({ "spec": { "ports": [{ "port": 1, "protocol": "TCP", "name": "x" }] },
        "status": { "conditions": [{ "type": "A", "status": "True" }] } });
    let patch = json!({ "spec": { "ports": [{ "port": 1, "name": "y" }] },
        "status": { "conditions": [{ "type": "A", "status": "False" }] } });
    let new = patched("Service", old, &patch).unwrap();
    assert_eq!(
        new,
        json!({ "spec": { "ports": [{ "port": 1, "protocol": "TCP", "name": "y" }] },
        "status": { "conditions": [{ "type": "A", "status": "False" }] } })
    );
}

#[test]
fn items_without_their_key_and_unknown_directives_are_refused() {
    let old = pod(&json!([{ "name": "a" }]));
    for patch in [
        pod(&json!([{ "image": "i" }])),
        pod(&json!(["a"])),
        pod(&json!([{ "name": "a", "$patch": "else" }])),
        json!({ "$patch": "else" }),
        json!({ "spec": { "$setElementOrder/containers": 3 } }),
        json!({ "metadata": { "$deleteFromPrimitiveList/finalizers": 3 } }),
    ] {
        assert!(patched("Pod", old.clone(), &patch).is_err(), "{patch}");
    }
}
