//! Server-side apply, and who owns what after any write.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Client, core::Status};
use serde_json::{Value, json};

use super::{Room, refused};

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

/// A kind with every way that parts of an object can merge.
pub(crate) fn assembly() -> CustomResourceDefinition {
    let text = json!({ "type": "string" });
    let texts = json!({ "type": "array", "items": text });
    let mut tags = texts.clone();
    tags["x-kubernetes-list-type"] = json!("set");
    let map = json!({ "type": "object", "additionalProperties": text });
    let mut whole = map.clone();
    whole["x-kubernetes-map-type"] = json!("atomic");
    let part = json!({
        "type": "object", "required": ["name"],
        "properties": { "name": text, "side": { "type": "string", "default": "left" }, "count": { "type": "integer" } },
    });
    let spec = json!({ "type": "object", "properties": {
        "color": { "type": "string", "default": "red" },
        "size": { "type": "integer" },
        "args": texts, "tags": tags, "map": map, "whole": whole,
        "nested": { "type": "object", "properties": { "a": text, "b": text } },
        "free": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
        "parts": {
            "type": "array", "items": part,
            "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name", "side"],
        },
    } });
    let status = json!({ "type": "object", "properties": { "phase": text, "note": text } });
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "assemblies.suite.example.org" },
        "spec": {
            "group": "suite.example.org", "scope": "Namespaced",
            "names": { "plural": "assemblies", "singular": "assembly", "kind": "Assembly" },
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": { "status": {} },
                "schema": { "openAPIV3Schema": {
                    "type": "object", "properties": { "spec": spec, "status": status },
                } },
            }],
        },
    });
    serde_json::from_value(definition).unwrap()
}

/// Requests about one object, as its clients write them.
struct Desk {
    client: Client,
    collection: String,
    header: Value,
}

impl Desk {
    /// Works on the assembly called `a`.
    async fn open(client: Client) -> Self {
        let room = Room::open(client).await;
        Self {
            collection: format!(
                "/apis/suite.example.org/v1/namespaces/{}/assemblies",
                room.namespace
            ),
            client: room.client,
            header: json!({ "apiVersion": "suite.example.org/v1", "kind": "Assembly", "metadata": { "name": "a" } }),
        }
    }

    /// Works on the built-in object called `a`.
    async fn of_kind(client: Client, api_version: &str, kind: &str, plural: &str) -> Self {
        let room = Room::open(client).await;
        let root = if api_version == "v1" { "api" } else { "apis" };
        Self {
            collection: format!(
                "/{root}/{api_version}/namespaces/{}/{plural}",
                room.namespace
            ),
            client: room.client,
            header: json!({ "apiVersion": api_version, "kind": kind, "metadata": { "name": "a" } }),
        }
    }

    /// Completes fields to an object.
    fn object(&self, fields: &Value) -> Value {
        let mut object = self.header.clone();
        for (name, value) in fields.as_object().unwrap() {
            if name == "metadata" {
                for (name, value) in value.as_object().unwrap() {
                    object["metadata"][name] = value.clone();
                }
            } else {
                object[name] = value.clone();
            }
        }
        object
    }

    async fn send(
        &self,
        method: &str,
        rest: &str,
        format: &str,
        body: String,
    ) -> Result<Value, kube::Error> {
        let request = http::Request::builder()
            .method(method)
            .uri(format!("{}{rest}", self.collection))
            .header("content-type", format)
            .body(body.into_bytes());
        self.client.request(request.unwrap()).await
    }

    async fn try_apply(&self, rest: &str, fields: &Value) -> Result<Value, kube::Error> {
        let body = self.object(fields).to_string();
        self.send("PATCH", &format!("/a{rest}"), APPLY, body).await
    }

    async fn apply(&self, manager: &str, fields: Value) -> Value {
        let query = format!("?fieldManager={manager}");
        self.try_apply(&query, &fields).await.unwrap()
    }

    async fn apply_refused(&self, rest: &str, fields: Value) -> Status {
        refused(self.try_apply(rest, &fields).await)
    }

    async fn merge(&self, rest: &str, patch: Value) -> Value {
        self.send("PATCH", &format!("/a{rest}"), MERGE, patch.to_string())
            .await
            .unwrap()
    }

    async fn create(&self, manager: &str, fields: Value) -> Value {
        let query = format!("?fieldManager={manager}");
        let body = self.object(&fields).to_string();
        self.send("POST", &query, JSON, body).await.unwrap()
    }

    async fn get(&self) -> Value {
        self.send("GET", "/a", JSON, String::new()).await.unwrap()
    }
}

/// Tells who owns what: `FieldsV1` by manager, operation and subresource.
fn owners(object: &Value) -> Value {
    let mut told = json!({});
    for entry in object["metadata"]["managedFields"]
        .as_array()
        .into_iter()
        .flatten()
    {
        let text = |field: &str| entry[field].as_str().unwrap_or_default();
        let owner = format!(
            "{} {} {}",
            text("manager"),
            text("operation"),
            text("subresource")
        );
        told[owner.trim_end()] = entry["fieldsV1"].clone();
    }
    told
}

fn causes(status: &Status) -> Vec<(String, String, String)> {
    let details = status.details.as_ref().unwrap();
    let told = details.causes.iter().map(|cause| {
        (
            cause.reason.clone(),
            cause.field.clone(),
            cause.message.clone(),
        )
    });
    let mut told: Vec<_> = told.collect();
    told.sort();
    told
}

pub(crate) async fn an_apply_creates_what_is_absent(client: Client) {
    let desk = Desk::open(client).await;
    let fields = json!({
        "metadata": { "labels": { "l": "1" } },
        "spec": {
            "size": 1, "args": ["x"], "tags": ["t"], "map": { "k": "v" }, "whole": { "k": "v" },
            "nested": { "a": "1" }, "free": { "deep": { "er": 1 }, "list": [1], "empty": {} },
            "parts": [{ "name": "p", "count": 1 }],
        },
        "status": { "phase": "ignored" },
    });
    let dry = "?fieldManager=one&dryRun=All";
    let made = desk.try_apply(dry, &fields).await.unwrap();
    assert_eq!(made["spec"]["color"], "red");
    assert!(refused(desk.send("GET", "/a", JSON, String::new()).await).is_not_found());
    let made = desk.apply("one", fields).await;
    assert_eq!(made["spec"]["color"], "red", "a default has no owner");
    assert_eq!(
        made["spec"]["parts"],
        json!([{ "name": "p", "side": "left", "count": 1 }])
    );
    assert_eq!(made.get("status"), None);
    assert_eq!(made["metadata"]["generation"], 1);
    assert_eq!(
        owners(&made),
        json!({ "one Apply": {
            "f:metadata": { "f:labels": { "f:l": {} } },
            "f:spec": {
                "f:size": {}, "f:args": {}, "f:tags": { "v:\"t\"": {} }, "f:map": { "f:k": {} }, "f:whole": {},
                "f:nested": { "f:a": {} },
                "f:free": { "f:deep": { ".": {}, "f:er": {} }, "f:list": {}, "f:empty": {} },
                "f:parts": { "k:{\"name\":\"p\",\"side\":\"left\"}": { ".": {}, "f:name": {}, "f:count": {} } },
            },
        } })
    );
    let entry = &made["metadata"]["managedFields"][0];
    assert_eq!(entry["apiVersion"], "suite.example.org/v1");
    assert_eq!(entry["fieldsType"], "FieldsV1");
    assert!(entry["time"].is_string());
}

pub(crate) async fn an_apply_that_changes_nothing_writes_nothing(client: Client) {
    let desk = Desk::open(client).await;
    let fields = json!({ "spec": { "size": 1, "tags": ["b", "a"], "parts": [{ "name": "p" }] } });
    let made = desk.apply("one", fields.clone()).await;
    let again = desk.apply("one", fields.clone()).await;
    assert_eq!(again, made);
    let shared = desk.apply("two", fields).await;
    assert_ne!(
        shared["metadata"]["resourceVersion"],
        made["metadata"]["resourceVersion"]
    );
    assert_eq!(shared["metadata"]["generation"], 1);
    assert_eq!(owners(&shared)["one Apply"], owners(&shared)["two Apply"]);
}

pub(crate) async fn a_field_of_another_applier_conflicts(client: Client) {
    let desk = Desk::open(client).await;
    desk.apply("one", json!({ "spec": { "size": 1, "nested": { "a": "1" }, "parts": [{ "name": "p", "count": 1 }] } }))
        .await;
    let status = desk
        .apply_refused("?fieldManager=two", json!({ "spec": { "size": 2 } }))
        .await;
    assert_eq!((status.code, status.reason.as_str()), (409, "Conflict"));
    assert_eq!(
        status.message,
        "Apply failed with 1 conflict: conflict with \"one\": .spec.size"
    );
    let cause = |field: &str| {
        (
            "FieldManagerConflict".to_owned(),
            field.to_owned(),
            "conflict with \"one\"".to_owned(),
        )
    };
    assert_eq!(causes(&status), [cause(".spec.size")]);
    let other = json!({ "spec": { "size": 2, "nested": { "a": "2", "b": "2" }, "parts": [{ "name": "p", "count": 2 }] } });
    let status = desk
        .apply_refused("?fieldManager=two&force=false", other.clone())
        .await;
    assert_eq!(
        status.message,
        "Apply failed with 3 conflicts: conflicts with \"one\":\n- .spec.size\n- .spec.nested.a\n- \
         .spec.parts[name=\"p\",side=\"left\"].count"
    );
    assert_eq!(causes(&status).len(), 3);
    assert_eq!(
        desk.get().await["spec"]["size"],
        1,
        "nothing of it was written"
    );

    let taken = desk
        .try_apply("?fieldManager=two&force=true", &other)
        .await
        .unwrap();
    assert_eq!(taken["spec"]["parts"][0]["count"], 2);
    assert_eq!(
        owners(&taken)["one Apply"],
        json!({ "f:spec": { "f:parts": { "k:{\"name\":\"p\",\"side\":\"left\"}": { ".": {}, "f:name": {} } } } })
    );
}

pub(crate) async fn conflicts_name_every_owner(client: Client) {
    let desk = Desk::open(client).await;
    desk.apply(
        "one",
        json!({ "spec": { "size": 1, "nested": { "a": "1" } } }),
    )
    .await;
    desk.apply("two", json!({ "spec": { "size": 1 } })).await;
    desk.merge(
        "?fieldManager=three",
        json!({ "spec": { "color": "blue" } }),
    )
    .await;
    let status = desk
        .apply_refused(
            "?fieldManager=four",
            json!({ "spec": { "size": 2, "color": "green", "nested": { "a": "1" } } }),
        )
        .await;
    let mut lines: Vec<&str> = status.message.lines().collect();
    assert!(lines[0].starts_with("Apply failed with 3 conflicts: conflicts with \"one\":"));
    lines.retain(|line| line.contains("three") || line.contains("color"));
    assert_eq!(
        lines,
        [
            "conflicts with \"three\" using suite.example.org/v1:",
            "- .spec.color"
        ]
    );
}

pub(crate) async fn what_an_applier_no_longer_lists_goes(client: Client) {
    let desk = Desk::open(client).await;
    let fields = json!({
        "metadata": { "labels": { "l": "1", "m": "1" }, "finalizers": ["suite.example.org/a"] },
        "spec": {
            "size": 1, "color": "blue", "nested": { "a": "1" }, "map": { "k": "v", "l": "v" }, "tags": ["a", "b"],
            "args": ["x"], "free": { "deep": { "er": 1 } },
            "parts": [{ "name": "p", "count": 1 }, { "name": "q" }],
        },
    });
    desk.apply("one", fields).await;
    desk.apply(
        "two",
        json!({
            "metadata": { "labels": { "m": "1" } },
            "spec": { "map": { "l": "v" }, "tags": ["b"], "parts": [{ "name": "p" }] },
        }),
    )
    .await;
    desk.merge(
        "?fieldManager=three",
        json!({ "spec": { "nested": { "b": "2" } } }),
    )
    .await;
    let left = desk.apply("one", json!({ "spec": { "size": 1 } })).await;
    assert_eq!(left["metadata"]["labels"], json!({ "m": "1" }));
    assert_eq!(left["metadata"].get("finalizers"), None);
    assert_eq!(
        left["spec"],
        json!({
            "size": 1, "color": "red", "nested": { "b": "2" }, "map": { "l": "v" }, "tags": ["b"],
            "parts": [{ "name": "p", "side": "left" }],
        })
    );
    assert_eq!(
        owners(&left)["one Apply"],
        json!({ "f:spec": { "f:size": {} } })
    );
    let nothing = desk.apply("one", json!({})).await;
    assert_eq!(nothing["spec"].get("size"), None);
    assert_eq!(owners(&nothing).get("one Apply"), None);
}

pub(crate) async fn lists_keep_the_order_of_their_appliers(client: Client) {
    let desk = Desk::open(client).await;
    desk.apply(
        "one",
        json!({ "spec": { "tags": ["a", "b", "c"], "parts": [{ "name": "p" }, { "name": "q" }] } }),
    )
    .await;
    let merged = desk
        .apply("two", json!({ "spec": { "tags": ["x", "c", "a", "y"], "parts": [{ "name": "n" }, { "name": "q" }] } }))
        .await;
    assert_eq!(merged["spec"]["tags"], json!(["b", "x", "c", "a", "y"]));
    let names: Vec<&Value> = merged["spec"]["parts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|part| &part["name"])
        .collect();
    assert_eq!(names, ["p", "n", "q"]);
}

pub(crate) async fn atomic_lists_and_maps_have_one_owner(client: Client) {
    let desk = Desk::open(client).await;
    desk.apply(
        "one",
        json!({ "spec": { "args": ["a"], "whole": { "a": "1" } } }),
    )
    .await;
    let after = desk
        .merge(
            "?fieldManager=two",
            json!({ "spec": { "args": ["a", "b"], "whole": { "b": "2" } } }),
        )
        .await;
    assert_eq!(after["spec"]["whole"], json!({ "a": "1", "b": "2" }));
    assert_eq!(
        owners(&after),
        json!({ "two Update": { "f:spec": { "f:args": {}, "f:whole": {} } } })
    );
    let status = desk
        .apply_refused(
            "?fieldManager=one",
            json!({ "spec": { "args": ["a"], "whole": { "a": "1" } } }),
        )
        .await;
    assert_eq!(
        status.message,
        "Apply failed with 2 conflicts: conflicts with \"two\" using suite.example.org/v1:\n- .spec.args\n- .spec.whole"
    );
    let forced = desk
        .try_apply(
            "?fieldManager=one&force=true",
            &json!({ "spec": { "args": ["a"], "whole": { "a": "1" } } }),
        )
        .await
        .unwrap();
    assert_eq!(
        forced["spec"]["whole"],
        json!({ "a": "1" }),
        "replaced, not merged"
    );
}

pub(crate) async fn every_write_is_recorded_with_its_manager(client: Client) {
    let desk = Desk::open(client).await;
    let made = desk
        .create(
            "maker",
            json!({
                "metadata": { "labels": { "l": "1" }, "finalizers": ["suite.example.org/a"] },
                "spec": { "size": 1, "nested": { "a": "1" }, "parts": [{ "name": "p" }] },
                "status": { "phase": "ignored" },
            }),
        )
        .await;
    assert_eq!(
        owners(&made),
        json!({ "maker Update": {
            "f:metadata": {
                "f:finalizers": { ".": {}, "v:\"suite.example.org/a\"": {} },
                "f:labels": { ".": {}, "f:l": {} },
            },
            "f:spec": {
                ".": {}, "f:color": {}, "f:nested": { ".": {}, "f:a": {} }, "f:size": {},
                "f:parts": { ".": {}, "k:{\"name\":\"p\",\"side\":\"left\"}": { ".": {}, "f:name": {}, "f:side": {} } },
            },
        } })
    );
}

pub(crate) async fn whoever_changes_a_field_owns_it(client: Client) {
    let desk = Desk::open(client).await;
    let fields = json!({ "metadata": { "labels": { "l": "1" } }, "spec": { "size": 1, "nested": { "a": "1" } } });
    desk.create("maker", fields).await;
    let patch =
        json!({ "metadata": { "labels": { "m": "1" } }, "spec": { "size": 2, "nested": null } });
    let after = desk.merge("?fieldManager=patcher", patch).await;
    assert_eq!(
        owners(&after)["patcher Update"],
        json!({ "f:metadata": { "f:labels": { "f:m": {} } }, "f:spec": { "f:size": {} } })
    );
    let maker = &owners(&after)["maker Update"]["f:spec"];
    assert_eq!(maker.get("f:nested"), None);
    assert_eq!(maker.get("f:size"), None);
    let after = desk
        .merge(
            "/status?fieldManager=patcher",
            json!({ "status": { "phase": "Busy" }, "spec": { "size": 9 } }),
        )
        .await;
    assert_eq!(
        owners(&after)["patcher Update status"],
        json!({ "f:status": { ".": {}, "f:phase": {} } })
    );
    let mut sent = after;
    sent["spec"]["size"] = json!(3);
    sent["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("managedFields");
    let after = desk
        .send("PUT", "/a?fieldManager=putter", JSON, sent.to_string())
        .await
        .unwrap();
    assert_eq!(
        owners(&after)["putter Update"],
        json!({ "f:spec": { "f:size": {} } }),
        "leaving the owners out does not forget them"
    );
    assert_eq!(
        owners(&after)["patcher Update"],
        json!({ "f:metadata": { "f:labels": { "f:m": {} } } })
    );
}

pub(crate) async fn status_is_applied_apart(client: Client) {
    let desk = Desk::open(client).await;
    let status = desk
        .apply_refused(
            "/status?fieldManager=st",
            json!({ "status": { "phase": "Busy" } }),
        )
        .await;
    assert!(status.is_not_found(), "status has no life of its own");
    desk.apply("one", json!({ "spec": { "size": 1 } })).await;
    let after = desk
        .try_apply(
            "/status?fieldManager=one",
            &json!({
                "metadata": { "labels": { "l": "1" } }, "spec": { "size": 7 },
                "status": { "phase": "Busy", "note": "n" },
            }),
        )
        .await
        .unwrap();
    assert_eq!(after["spec"]["size"], 1);
    assert_eq!(after["metadata"].get("labels"), None);
    assert_eq!(
        owners(&after),
        json!({
            "one Apply": { "f:spec": { "f:size": {} } },
            "one Apply status": { "f:status": { "f:phase": {}, "f:note": {} } },
        })
    );
    let after = desk
        .try_apply(
            "/status?fieldManager=one",
            &json!({ "status": { "phase": "Done" } }),
        )
        .await
        .unwrap();
    assert_eq!(after["status"], json!({ "phase": "Done" }));
    assert_eq!(after["metadata"]["generation"], 1);
    let status = desk
        .apply_refused(
            "/status?fieldManager=two",
            json!({ "status": { "phase": "Other" } }),
        )
        .await;
    assert_eq!(
        status.message,
        "Apply failed with 1 conflict: conflict with \"one\" with subresource \"status\": .status.phase"
    );
}

pub(crate) async fn a_ledger_is_cleared_by_one_empty_entry(client: Client) {
    let desk = Desk::open(client).await;
    let made = desk.apply("one", json!({ "spec": { "size": 1 } })).await;
    let patch = |list: Value| json!({ "metadata": { "managedFields": list } });
    for kept in [
        json!([]),
        json!(null),
        json!([{ "manager": "x" }]),
        json!([{}, {}]),
    ] {
        let after = desk.merge("?fieldManager=m", patch(kept.clone())).await;
        assert_eq!(after, made, "{kept}");
    }
    let after = desk
        .merge("/status?fieldManager=m", patch(json!([{}])))
        .await;
    assert_eq!(after, made);
    let after = desk.merge("?fieldManager=m", patch(json!([{}]))).await;
    assert_eq!(after["metadata"].get("managedFields"), None);
    let after = desk
        .merge("?fieldManager=m", json!({ "spec": { "size": 2 } }))
        .await;
    assert_eq!(
        owners(&after),
        json!({}),
        "until the next apply nobody is recorded"
    );
    let status = desk
        .apply_refused("?fieldManager=one", json!({ "spec": { "size": 3 } }))
        .await;
    assert_eq!(
        status.message,
        "Apply failed with 1 conflict: conflict with \"before-first-apply\" using suite.example.org/v1: .spec.size"
    );
    let after = desk
        .try_apply(
            "?fieldManager=one&force=true",
            &json!({ "spec": { "size": 3 } }),
        )
        .await
        .unwrap();
    assert_eq!(
        owners(&after),
        json!({
            "one Apply": { "f:spec": { "f:size": {} } },
            "before-first-apply Update": { "f:spec": { ".": {}, "f:color": {} } },
        })
    );
}

pub(crate) async fn a_ledger_can_be_given(client: Client) {
    let desk = Desk::open(client).await;
    desk.apply("one", json!({ "spec": { "size": 1, "color": "blue" } }))
        .await;
    let entry = json!({
        "manager": "given", "operation": "Apply", "apiVersion": "suite.example.org/v1", "time": "2020-01-01T00:00:00Z",
        "fieldsType": "FieldsV1", "fieldsV1": { "f:spec": { "f:size": {} } },
    });
    let patch = json!({ "metadata": { "managedFields": [entry] } });
    let after = desk.merge("?fieldManager=m", patch).await;
    assert_eq!(after["metadata"]["managedFields"], json!([entry]));
    let after = desk
        .apply("given", json!({ "spec": { "color": "blue" } }))
        .await;
    assert_eq!(after["spec"], json!({ "color": "blue" }));
}

pub(crate) async fn an_apply_has_to_say_what_it_is_about(client: Client) {
    let desk = Desk::open(client).await;
    let fields = json!({ "spec": { "size": 1 } });
    let status = desk.apply_refused("", fields.clone()).await;
    assert_eq!(
        (status.code, status.message.as_str()),
        (
            422,
            "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch"
        )
    );
    let long = format!("?fieldManager={}", "m".repeat(129));
    let status = desk.apply_refused(&long, fields.clone()).await;
    assert_eq!(
        (status.code, status.message.as_str()),
        (
            422,
            "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Too long: may not be more than 128 bytes"
        )
    );
    for (body, message) in [
        (
            json!({ "kind": "Assembly" }),
            "invalid object type: /, Kind=Assembly",
        ),
        (
            json!({ "apiVersion": "suite.example.org/v1", "kind": "Widget" }),
            "invalid object type: suite.example.org/v1, Kind=Widget",
        ),
        (
            desk.object(&json!({ "metadata": { "name": "b" } })),
            "the name of the object (b) does not match the name on the URL (a)",
        ),
        (
            desk.object(&json!({ "metadata": { "managedFields": [] } })),
            "metadata.managedFields must be nil",
        ),
    ] {
        let sent = desk.send("PATCH", "/a?fieldManager=one", APPLY, body.to_string());
        let status = refused(sent.await);
        assert_eq!((status.code, status.message.as_str()), (400, message));
    }
    for body in ["hello", "[]", "{\"kind\": ["] {
        let sent = desk.send("PATCH", "/a?fieldManager=one", APPLY, body.to_owned());
        let status = refused(sent.await);
        assert_eq!(status.code, 400, "{body}");
        assert!(
            status.message.starts_with("error decoding YAML"),
            "{}",
            status.message
        );
    }
    let forced = desk.send("PATCH", "/a?force=true", MERGE, "{}".to_owned());
    assert_eq!(
        refused(forced.await).message,
        "PatchOptions.meta.k8s.io \"\" is invalid: force: Forbidden: may not be specified for non-apply patch"
    );
}

pub(crate) async fn a_configuration_that_cannot_be_is_refused(client: Client) {
    let desk = Desk::open(client).await;
    for (fields, complaint) in [
        (
            json!({ "spec": { "parts": [{ "name": "p" }, { "name": "p", "side": "left" }] } }),
            ".spec.parts: duplicate entries for key [name=\"p\",side=\"left\"]",
        ),
        (
            json!({ "spec": { "tags": ["t", "t"] } }),
            ".spec.tags: duplicate entries for key [=\"t\"]",
        ),
        (
            json!({ "spec": { "tags": [null] } }),
            ".spec.tags: element 0: associative list without keys has an element that's an explicit null",
        ),
        (
            json!({ "spec": { "parts": [{ "name": "p", "nope": 1 }] } }),
            ".spec.parts[name=\"p\",side=\"left\"].nope: field not declared in schema",
        ),
        (json!({ "nope": {} }), ".nope: field not declared in schema"),
    ] {
        let status = desk.apply_refused("?fieldManager=one", fields).await;
        assert_eq!(status.code, 500);
        assert_eq!(
            status.message,
            format!(
                "failed to create typed patch object (/a; suite.example.org/v1, Kind=Assembly): {complaint}"
            )
        );
    }
    let status = desk
        .apply_refused("?fieldManager=one", json!({ "spec": { "size": "big" } }))
        .await;
    assert_eq!(status.code, 500);
    assert!(
        status.message.contains("): .spec.size: expected numeric"),
        "{}",
        status.message
    );
}

pub(crate) async fn an_apply_can_be_conditional(client: Client) {
    let desk = Desk::open(client).await;
    let with =
        |field: &str, value: &Value| json!({ "metadata": { field: value }, "spec": { "size": 2 } });
    let status = desk
        .apply_refused("?fieldManager=one", with("uid", &json!("somebody")))
        .await;
    assert!(status.is_conflict());
    assert_eq!(
        status.message,
        "Operation cannot be fulfilled on assemblies.suite.example.org \"a\": uid mismatch: the provided object \
         specified uid somebody, and no existing object was found"
    );
    let made = desk.apply("one", json!({ "spec": { "size": 1 } })).await;
    let version = &made["metadata"]["resourceVersion"];
    let after = desk.apply("one", with("resourceVersion", version)).await;
    assert_eq!(after["spec"]["size"], 2);
    let mut stale = with("resourceVersion", version);
    stale["spec"]["size"] = json!(3);
    let status = desk.apply_refused("?fieldManager=one", stale).await;
    assert!(status.is_conflict());
    assert!(
        status.message.contains("the object has been modified"),
        "{}",
        status.message
    );
    let same = desk
        .apply("one", with("uid", &after["metadata"]["uid"]))
        .await;
    assert_eq!(
        same["metadata"]["resourceVersion"],
        after["metadata"]["resourceVersion"]
    );
}

pub(crate) async fn yaml_is_applied_like_json(client: Client) {
    let desk = Desk::open(client).await;
    let body = "# comment\napiVersion: suite.example.org/v1\nkind: Assembly\nmetadata:\n  name: a\nspec:\n  \
                size: 4\n  tags: [x, \"y\"]\n  parts:\n  - name: p\n    count: 2\n";
    let sent = desk.send("PATCH", "/a?fieldManager=one", APPLY, body.to_owned());
    let made = sent.await.unwrap();
    assert_eq!(made["spec"]["tags"], json!(["x", "y"]));
    assert_eq!(made["spec"]["parts"][0]["count"], 2);
}

pub(crate) async fn built_in_lists_merge_by_their_keys(client: Client) {
    let desk = Desk::of_kind(client, "apps/v1", "Deployment", "deployments").await;
    let template = |containers: Value| json!({ "metadata": { "labels": { "a": "b" } }, "spec": { "containers": containers } });
    let spec = |containers: Value| json!({ "spec": { "selector": { "matchLabels": { "a": "b" } }, "template": template(containers) } });
    desk.apply(
        "one",
        spec(json!([{
            "name": "c", "image": "i", "env": [{ "name": "A", "value": "1" }], "ports": [{ "containerPort": 80 }],
        }])),
    )
    .await;
    let containers = json!([{ "name": "c", "env": [{ "name": "B", "value": "2" }] }, { "name": "d", "image": "j" }]);
    let both = desk
        .apply(
            "two",
            json!({ "spec": { "template": { "spec": { "containers": containers } } } }),
        )
        .await;
    let found = &both["spec"]["template"]["spec"]["containers"];
    assert_eq!(found[0]["image"], "i");
    assert_eq!(
        found[0]["env"],
        json!([{ "name": "A", "value": "1" }, { "name": "B", "value": "2" }])
    );
    assert_eq!(found[1]["name"], "d");
    let at = |fields: Value| json!({ "f:template": { "f:spec": { "f:containers": fields } } });
    assert_eq!(
        owners(&both)["two Apply"]["f:spec"],
        at(json!({
            "k:{\"name\":\"c\"}": { ".": {}, "f:name": {}, "f:env": {
                "k:{\"name\":\"B\"}": { ".": {}, "f:name": {}, "f:value": {} } } },
            "k:{\"name\":\"d\"}": { ".": {}, "f:name": {}, "f:image": {} },
        }))
    );
    let port = "k:{\"containerPort\":80,\"protocol\":\"TCP\"}";
    let one = &owners(&both)["one Apply"]["f:spec"]["f:template"]["f:spec"]["f:containers"]["k:{\"name\":\"c\"}"];
    assert_eq!(
        one["f:ports"][port],
        json!({ ".": {}, "f:containerPort": {} })
    );
    let left = desk.apply("two", json!({})).await;
    assert_eq!(
        left["spec"]["template"]["spec"]["containers"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    assert_eq!(
        left["spec"]["template"]["spec"]["containers"][0]["env"],
        json!([{ "name": "A", "value": "1" }])
    );
}

pub(crate) async fn creators_own_what_kubernetes_says(client: Client) {
    let desk = Desk::of_kind(client, "v1", "ConfigMap", "configmaps").await;
    let made = desk
        .create(
            "maker",
            json!({ "metadata": { "annotations": { "n": "1" } }, "data": { "x": "1" }, "immutable": false }),
        )
        .await;
    assert_eq!(
        owners(&made),
        json!({ "maker Update": {
            "f:data": { ".": {}, "f:x": {} }, "f:immutable": {},
            "f:metadata": { "f:annotations": { ".": {}, "f:n": {} } },
        } })
    );
    let after = desk
        .merge("?fieldManager=other", json!({ "data": { "x": "2" } }))
        .await;
    assert_eq!(owners(&after)["maker Update"]["f:data"], json!({}));
    assert_eq!(
        owners(&after)["other Update"],
        json!({ "f:data": { "f:x": {} } })
    );
}
