//! Built-in kinds: what of a body is read, what is filled in, and the parts that have a path of their own.

use kube::{Client, core::Status};
use serde_json::{Value, json};

use super::{Room, a_widget, refused};

const JSON: &str = "application/json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const MERGE: &str = "application/merge-patch+json";

/// Sends requests that a typed client could not make.
struct Raw {
    client: Client,
    room: String,
}

impl Raw {
    async fn open(client: Client) -> Self {
        let room = Room::open(client).await;
        Self {
            client: room.client,
            room: room.namespace,
        }
    }

    fn core(&self, rest: &str) -> String {
        format!("/api/v1/namespaces/{}/{rest}", self.room)
    }

    fn apps(&self, rest: &str) -> String {
        format!("/apis/apps/v1/namespaces/{}/{rest}", self.room)
    }

    async fn send(
        &self,
        method: &str,
        path: &str,
        format: &str,
        body: &str,
    ) -> Result<Value, kube::Error> {
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", format)
            .body(body.as_bytes().to_vec());
        self.client.request(request.unwrap()).await
    }

    async fn post(&self, path: &str, body: &Value) -> Value {
        self.send("POST", path, JSON, &body.to_string())
            .await
            .unwrap()
    }

    async fn refusal(&self, method: &str, path: &str, format: &str, body: &str) -> Status {
        refused(self.send(method, path, format, body).await)
    }
}

fn a_deployment(name: &str) -> Value {
    json!({
        "metadata": { "name": name },
        "spec": {
            "selector": { "matchLabels": { "app": "a" } },
            "template": {
                "metadata": { "labels": { "app": "a" } },
                "spec": { "containers": [{ "name": "c", "image": "i", "env": [{ "name": "A", "value": "1" }] }] },
            },
        },
    })
}

fn a_pod(name: &str) -> Value {
    json!({
        "metadata": { "name": name },
        "spec": { "containers": [{ "name": "c", "image": "i:1", "ports": [{ "containerPort": 80 }] }] },
    })
}

pub(crate) async fn strict_bodies_hold_no_unknown_and_no_repeated_field(client: Client) {
    let raw = Raw::open(client).await;
    let maps = raw.core("configmaps?fieldValidation=Strict");
    let body = r#"{"metadata":{"name":"m","colour":1},"shape":1,"data":{"a":"1","a":"2"}}"#;
    let status = raw.refusal("POST", &maps, JSON, body).await;
    assert_eq!((status.code, status.reason.as_str()), (400, "BadRequest"));
    let head =
        "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: ";
    assert!(status.message.starts_with(head), "{}", status.message);
    for part in [
        "unknown field \"metadata.colour\"",
        "unknown field \"shape\"",
        "duplicate field \"data.a\"",
    ] {
        assert!(status.message.contains(part), "{}", status.message);
    }
    let widgets = format!(
        "/apis/suite.example.org/v1/namespaces/{}/widgets?fieldValidation=Strict",
        raw.room
    );
    let body = r#"{"apiVersion":"suite.example.org/v1","kind":"Widget","metadata":{"name":"w","colour":1},
        "spec":{"size":1,"size":2,"shape":1}}"#;
    let status = raw.refusal("POST", &widgets, JSON, body).await;
    assert_eq!(
        status.message,
        "Widget in version \"v1\" cannot be handled as a Widget: strict decoding error: duplicate field \
         \"spec.size\", unknown field \"metadata.colour\", unknown field \"spec.shape\""
    );
    let lenient = raw.core("configmaps?fieldValidation=Ignore");
    let body = r#"{"metadata":{"name":"m"},"shape":1,"data":{"a":"1","a":"2"}}"#;
    let made = raw.send("POST", &lenient, JSON, body).await.unwrap();
    assert_eq!(
        (&made["data"], made.get("shape")),
        (&json!({ "a": "2" }), None)
    );
    let patch = raw.core("configmaps/m?fieldValidation=Strict");
    let status = raw.refusal("PATCH", &patch, MERGE, r#"{"shape":1}"#).await;
    assert_eq!(status.code, 422);
    assert!(
        status
            .message
            .ends_with("strict decoding error: unknown field \"shape\""),
        "{}",
        status.message
    );
}

pub(crate) async fn values_of_the_wrong_type_are_refused(client: Client) {
    let raw = Raw::open(client).await;
    for (path, body) in [
        (
            "pods",
            r#"{"metadata":{"name":"p"},"spec":{"containers":"x"}}"#,
        ),
        (
            "pods",
            r#"{"metadata":{"name":"p"},"spec":{"containers":[{"name":3}]}}"#,
        ),
        ("configmaps", r#"{"metadata":{"name":"c"},"data":{"a":1}}"#),
        ("configmaps", r#"{"metadata":{"name":3}}"#),
        ("secrets", r##"{"metadata":{"name":"s"},"data":{"a":"#"}}"##),
        ("configmaps", "{"),
        ("configmaps", "[]"),
        ("configmaps", r#"{"kind":"Pod","apiVersion":"v1"}"#),
    ] {
        let status = raw.refusal("POST", &raw.core(path), JSON, body).await;
        assert_eq!(
            (status.code, status.reason.as_str()),
            (400, "BadRequest"),
            "{body}"
        );
    }
    let maps = raw.core("configmaps");
    raw.post(&maps, &json!({ "metadata": { "name": "m" } }))
        .await;
    let one = raw.core("configmaps/m");
    for format in [MERGE, STRATEGIC] {
        let status = raw.refusal("PATCH", &one, format, r#"{"data":3}"#).await;
        assert_eq!(status.code, 422, "{format}");
    }
}

pub(crate) async fn bodies_may_be_yaml_and_nothing_else(client: Client) {
    let raw = Raw::open(client).await;
    let yaml = "metadata:\n  name: from-yaml\ndata:\n  a: '1'\n";
    let maps = raw.core("configmaps");
    let made = raw
        .send("POST", &maps, "application/yaml", yaml)
        .await
        .unwrap();
    assert_eq!(made["data"], json!({ "a": "1" }));
    let status = raw.refusal("POST", &maps, "text/plain", yaml).await;
    assert_eq!(
        (status.code, status.reason.as_str()),
        (415, "UnsupportedMediaType")
    );
    let widget = format!(
        "/apis/suite.example.org/v1/namespaces/{}/widgets/w",
        raw.room
    );
    assert_eq!(
        raw.refusal("PATCH", &widget, STRATEGIC, "{}").await.code,
        415
    );
    assert_eq!(
        raw.refusal("PATCH", &raw.core("configmaps/from-yaml"), JSON, "{}")
            .await
            .code,
        415
    );
}

pub(crate) async fn strategic_patches_merge_lists_by_key(client: Client) {
    let raw = Raw::open(client).await;
    raw.post(&raw.apps("deployments"), &a_deployment("d")).await;
    let one = raw.apps("deployments/d");
    let containers =
        |patch: Value| json!({ "spec": { "template": { "spec": { "containers": patch } } } });
    let patch = containers(json!([
        { "name": "c", "image": "j", "env": [{ "name": "B", "value": "2" }] },
        { "name": "e", "image": "k" },
    ]));
    let new = raw
        .send("PATCH", &one, STRATEGIC, &patch.to_string())
        .await
        .unwrap();
    let spec = &new["spec"]["template"]["spec"]["containers"];
    assert_eq!(
        (&spec[0]["image"], &spec[1]["name"]),
        (&json!("j"), &json!("e"))
    );
    let env = json!([{ "name": "B", "value": "2" }, { "name": "A", "value": "1" }]);
    assert_eq!(spec[0]["env"], env, "what is new comes first");

    let patch = containers(json!([
        { "name": "c", "env": [{ "name": "A", "$patch": "delete" }] },
        { "name": "e", "$patch": "delete" },
    ]));
    let new = raw
        .send("PATCH", &one, STRATEGIC, &patch.to_string())
        .await
        .unwrap();
    let spec = &new["spec"]["template"]["spec"]["containers"];
    assert_eq!(spec.as_array().unwrap().len(), 1);
    assert_eq!(spec[0]["env"], json!([{ "name": "B", "value": "2" }]));

    let patch = json!({ "spec": { "strategy": { "$retainKeys": ["type"], "type": "Recreate" } } });
    let new = raw
        .send("PATCH", &one, STRATEGIC, &patch.to_string())
        .await
        .unwrap();
    assert_eq!(new["spec"]["strategy"], json!({ "type": "Recreate" }));

    let patch = json!({ "metadata": { "finalizers": ["suite.example.org/a"], "annotations": { "x": "1" } } });
    raw.send("PATCH", &one, STRATEGIC, &patch.to_string())
        .await
        .unwrap();
    let patch = json!({ "metadata": {
        "$deleteFromPrimitiveList/finalizers": ["suite.example.org/a"], "annotations": { "x": null },
    } });
    let new = raw
        .send("PATCH", &one, STRATEGIC, &patch.to_string())
        .await
        .unwrap();
    assert_eq!(new["metadata"].get("finalizers"), None);
    assert_eq!(new["metadata"]["annotations"].get("x"), None);
    let patch = containers(json!([{ "image": "j" }])).to_string();
    assert!(raw.refusal("PATCH", &one, STRATEGIC, &patch).await.code >= 400);
}

pub(crate) async fn workloads_are_completed_on_the_way_in(client: Client) {
    let raw = Raw::open(client).await;
    let pod = raw.post(&raw.core("pods"), &a_pod("p")).await;
    let container = &pod["spec"]["containers"][0];
    assert_eq!(
        *container,
        json!({
            "name": "c", "image": "i:1", "imagePullPolicy": "IfNotPresent", "resources": {},
            "ports": [{ "containerPort": 80, "protocol": "TCP" }],
            "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
        })
    );
    for (field, want) in [
        ("restartPolicy", json!("Always")),
        ("dnsPolicy", json!("ClusterFirst")),
        ("schedulerName", json!("default-scheduler")),
        ("terminationGracePeriodSeconds", json!(30)),
        ("securityContext", json!({})),
        ("enableServiceLinks", json!(true)),
    ] {
        assert_eq!(pod["spec"][field], want, "{field}");
    }
    assert_eq!(
        pod["status"],
        json!({ "phase": "Pending", "qosClass": "BestEffort" })
    );
    let deployment = raw.post(&raw.apps("deployments"), &a_deployment("d")).await;
    let spec = &deployment["spec"];
    assert_eq!(
        (&spec["replicas"], &spec["revisionHistoryLimit"]),
        (&json!(1), &json!(10))
    );
    assert_eq!(
        spec["strategy"],
        json!({ "type": "RollingUpdate", "rollingUpdate": { "maxUnavailable": "25%", "maxSurge": "25%" } })
    );
    let container = &spec["template"]["spec"]["containers"][0];
    assert_eq!(container["imagePullPolicy"], "Always");
    assert_eq!(deployment["metadata"]["generation"], 1);
    let service = json!({ "metadata": { "name": "s" }, "spec": { "clusterIP": "None", "selector": { "a": "b" }, "ports": [{ "port": 80 }] } });
    let service = raw.post(&raw.core("services"), &service).await;
    assert_eq!(
        service["spec"],
        json!({
            "clusterIP": "None", "clusterIPs": ["None"], "internalTrafficPolicy": "Cluster", "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack", "sessionAffinity": "None", "type": "ClusterIP",
            "ports": [{ "port": 80, "protocol": "TCP", "targetPort": 80 }], "selector": { "a": "b" },
        })
    );
    let policies = format!(
        "/apis/networking.k8s.io/v1/namespaces/{}/networkpolicies",
        raw.room
    );
    let policy =
        json!({ "metadata": { "name": "n" }, "spec": { "podSelector": {}, "egress": [{}] } });
    let policy = raw.post(&policies, &policy).await;
    assert_eq!(policy["spec"]["policyTypes"], json!(["Ingress", "Egress"]));
}

pub(crate) async fn each_built_in_kind_has_its_rules(client: Client) {
    let raw = Raw::open(client).await;
    let in_group = |rest: &str| {
        let (group, plural) = rest.rsplit_once('/').unwrap();
        format!("/apis/{group}/namespaces/{}/{plural}", raw.room)
    };
    let (pods, services) = (raw.core("pods"), raw.core("services"));
    let (maps, secrets) = (raw.core("configmaps"), raw.core("secrets"));
    let (deployments, revisions) = (raw.apps("deployments"), raw.apps("controllerrevisions"));
    let leases = in_group("coordination.k8s.io/v1/leases");
    let roles = in_group("rbac.authorization.k8s.io/v1/roles");
    let bindings = in_group("rbac.authorization.k8s.io/v1/rolebindings");
    let twice = r#""spec":{"containers":[{"name":"c","image":"i"},{"name":"c","image":"i"}]}"#;
    let mounts = r#""spec":{"containers":[{"name":"c","image":"i",
        "volumeMounts":[{"name":"v","mountPath":"/"}]}]}"#;
    let mounted = "spec.containers[0].volumeMounts[0].name";
    let zero = r#""spec":{"leaseDurationSeconds":0}"#;
    let unnamed = r#""roleRef":{"kind":"Role","name":""}"#;
    for (path, rest, field) in [
        (&pods, r#""spec":{}"#, "spec.containers"),
        (&pods, twice, "spec.containers[1].name"),
        (&pods, mounts, mounted),
        (&services, r#""spec":{}"#, "spec.ports"),
        (&maps, r#""data":{"a b":""}"#, "data[a b]"),
        (&secrets, r#""type":"kubernetes.io/tls""#, "data[tls.crt]"),
        (&deployments, r#""spec":{}"#, "spec.selector"),
        (&revisions, r#""revision":1"#, "data"),
        (&leases, zero, "spec.leaseDurationSeconds"),
        (&roles, r#""rules":[{"verbs":[]}]"#, "rules[0].verbs"),
        (&bindings, unnamed, "roleRef.name"),
    ] {
        let body = format!(r#"{{"metadata":{{"name":"x"}},{rest}}}"#);
        let status = raw.refusal("POST", path, JSON, &body).await;
        assert!(status.is_invalid(), "{path}: {}", status.message);
        let causes = status.details.unwrap().causes;
        assert!(
            causes.iter().any(|cause| cause.field == field),
            "{field}: {causes:?}"
        );
    }
}

pub(crate) async fn little_of_a_pod_can_change(client: Client) {
    let raw = Raw::open(client).await;
    raw.post(&raw.core("pods"), &a_pod("p")).await;
    let one = raw.core("pods/p");
    let image = r#"{"spec":{"containers":[{"name":"c","image":"j:2"}]}}"#;
    let new = raw.send("PATCH", &one, STRATEGIC, image).await.unwrap();
    assert_eq!(new["spec"]["containers"][0]["image"], "j:2");
    for patch in [
        r#"{"spec":{"nodeName":"n"}}"#,
        r#"{"spec":{"restartPolicy":"Never"}}"#,
    ] {
        let status = raw.refusal("PATCH", &one, MERGE, patch).await;
        assert!(
            status.message.contains("pod updates may not change fields"),
            "{}",
            status.message
        );
    }
}

pub(crate) async fn deployments_are_scaled_by_a_part_of_their_own(client: Client) {
    let raw = Raw::open(client).await;
    raw.post(&raw.apps("deployments"), &a_deployment("d")).await;
    let path = raw.apps("deployments/d/scale");
    let scale = raw.send("GET", &path, JSON, "").await.unwrap();
    assert_eq!(
        (&scale["kind"], &scale["apiVersion"]),
        (&json!("Scale"), &json!("autoscaling/v1"))
    );
    assert_eq!(scale["spec"], json!({ "replicas": 1 }));
    assert_eq!(
        scale["status"],
        json!({ "replicas": 0, "selector": "app=a" })
    );
    let patched = raw
        .send("PATCH", &path, MERGE, r#"{"spec":{"replicas":3}}"#)
        .await
        .unwrap();
    assert_eq!(patched["spec"], json!({ "replicas": 3 }));
    let stale = raw.refusal("PUT", &path, JSON, &scale.to_string()).await;
    assert!(stale.is_conflict(), "{}", stale.message);
    let mut fresh = patched.clone();
    fresh["spec"]["replicas"] = json!(0);
    raw.send("PUT", &path, JSON, &fresh.to_string())
        .await
        .unwrap();
    let deployment = raw
        .send("GET", &raw.apps("deployments/d"), JSON, "")
        .await
        .unwrap();
    assert_eq!(deployment["spec"]["replicas"], 0);
    assert_eq!(deployment["metadata"]["generation"], 3);
    let below = raw
        .refusal("PATCH", &path, MERGE, r#"{"spec":{"replicas":-1}}"#)
        .await;
    assert_eq!(
        below.message,
        "Scale.autoscaling \"d\" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0"
    );
}

pub(crate) async fn pods_are_bound_once_and_evicted(client: Client) {
    let raw = Raw::open(client).await;
    raw.post(&raw.core("pods"), &a_pod("p")).await;
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": { "name": "p" }, "target": { "kind": "Node", "name": "n" },
    });
    let path = raw.core("pods/p/binding");
    assert_eq!(raw.post(&path, &binding).await["status"], "Success");
    let pod = raw
        .send("GET", &raw.core("pods/p"), JSON, "")
        .await
        .unwrap();
    assert_eq!(pod["spec"]["nodeName"], "n");
    assert_eq!(pod["status"]["conditions"][0]["type"], "PodScheduled");
    let again = raw.refusal("POST", &path, JSON, &binding.to_string()).await;
    assert_eq!(
        again.message,
        "Operation cannot be fulfilled on pods/binding \"p\": pod p is already assigned to node \"n\""
    );
    let path = raw.core("pods/p/eviction");
    let eviction = json!({ "apiVersion": "policy/v1", "kind": "Eviction", "metadata": { "name": "p" },
        "deleteOptions": { "preconditions": { "uid": "another" } } });
    assert!(
        raw.refusal("POST", &path, JSON, &eviction.to_string())
            .await
            .is_conflict()
    );
    let eviction =
        json!({ "apiVersion": "policy/v1", "kind": "Eviction", "metadata": { "name": "p" } });
    assert_eq!(raw.post(&path, &eviction).await["status"], "Success");
    let pod = raw
        .send("GET", &raw.core("pods/p"), JSON, "")
        .await
        .unwrap();
    assert_eq!(pod["metadata"]["deletionGracePeriodSeconds"], 30);
}

pub(crate) async fn finalizers_of_a_namespace_change_in_one_place_only(client: Client) {
    let raw = Raw::open(client).await;
    let path = format!("/api/v1/namespaces/{}", raw.room);
    let patch = r#"{"spec":{"finalizers":[]},"metadata":{"labels":null}}"#;
    let kept = raw.send("PATCH", &path, MERGE, patch).await.unwrap();
    assert_eq!(kept["spec"], json!({ "finalizers": ["kubernetes"] }));
    assert_eq!(
        kept["metadata"]["labels"]["kubernetes.io/metadata.name"],
        raw.room
    );
    let body = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": raw.room },
        "spec": { "finalizers": ["suite.example.org/a", "kubernetes"] } });
    let part = format!("{path}/finalize");
    let held = raw
        .send("PUT", &part, JSON, &body.to_string())
        .await
        .unwrap();
    assert_eq!(held["spec"], body["spec"]);
}

pub(crate) async fn options_of_a_deletion_must_make_sense(client: Client) {
    let raw = Raw::open(client).await;
    raw.post(
        &raw.core("configmaps"),
        &json!({ "metadata": { "name": "m" } }),
    )
    .await;
    let one = raw.core("configmaps/m");
    for (query, body) in [
        ("?propagationPolicy=Somehow", ""),
        (
            "",
            r#"{"propagationPolicy":"Background","orphanDependents":true}"#,
        ),
        ("", r#"{"dryRun":["Some"]}"#),
    ] {
        let status = raw
            .refusal("DELETE", &format!("{one}{query}"), JSON, body)
            .await;
        assert!(status.is_invalid(), "{query} {body}: {}", status.message);
        assert!(
            status
                .message
                .starts_with("DeleteOptions.meta.k8s.io \"\" is invalid: ")
        );
    }
    let wrong = raw
        .refusal("DELETE", &one, JSON, r#"{"preconditions":{"uid":"x"}}"#)
        .await;
    assert!(
        wrong.message.starts_with(
            "Operation cannot be fulfilled on ConfigMap \"m\": the UID in the precondition (x)"
        ),
        "{}",
        wrong.message
    );
    let rehearsed = raw
        .send("DELETE", &one, "application/yaml", "dryRun: [All]")
        .await;
    assert_eq!(rehearsed.unwrap()["status"], "Success");
    let orphaning = raw
        .send("DELETE", &format!("{one}?orphanDependents=true"), JSON, "")
        .await;
    assert_eq!(
        orphaning.unwrap()["metadata"]["finalizers"],
        json!(["orphan"])
    );
    let free = raw.post(&raw.core("pods"), &a_pod("p")).await;
    let last = raw
        .send("DELETE", &raw.core("pods/p"), JSON, "")
        .await
        .unwrap();
    assert_eq!(
        last["metadata"]["uid"], free["metadata"]["uid"],
        "Pods answer with their last state"
    );
    assert_eq!(last["kind"], "Pod");
}

pub(crate) async fn custom_kinds_must_say_what_they_are(client: Client) {
    let raw = Raw::open(client).await;
    let path = format!("/apis/suite.example.org/v1/namespaces/{}/widgets", raw.room);
    let nameless = raw
        .refusal("POST", &path, JSON, r#"{"metadata":{"name":"w"}}"#)
        .await;
    assert_eq!(nameless.code, 400);
    assert!(
        nameless.message.contains("Object 'Kind' is missing"),
        "{}",
        nameless.message
    );
    let widget = serde_json::to_value(a_widget("w")).unwrap();
    assert_eq!(raw.post(&path, &widget).await["metadata"]["name"], "w");
}
