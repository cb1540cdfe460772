//! Who am I, who is that, and may they?

use http::{Method, Request};
use kube::Client;
use serde_json::{Value, json};

use super::{Room, refused};

const TOKENS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
const WHO_AM_I: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
const ACCESS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
const MY_ACCESS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
const MY_RULES: &str = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";

async fn ask(
    client: &Client,
    path: &str,
    headers: &[(&str, &str)],
    body: &Value,
) -> Result<Value, kube::Error> {
    let mut request = Request::post(path).header("content-type", "application/json");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let body = serde_json::to_vec(body).unwrap();
    client.request(request.body(body).unwrap()).await
}

fn causes(status: &kube::core::Status) -> Vec<&str> {
    let details = status.details.as_ref().unwrap();
    let fields = details.causes.iter().map(|cause| cause.field.as_str());
    fields.collect()
}

pub(crate) async fn a_strange_token_belongs_to_nobody(client: Client) {
    let spec = json!({ "token": "nobody-has-this-one" });
    let answer = ask(&client, TOKENS, &[], &json!({ "spec": spec })).await;
    let answer = answer.unwrap();
    assert_eq!(answer["kind"], "TokenReview");
    assert_eq!(answer["spec"], spec);
    assert!(answer["status"]["authenticated"].as_bool().is_none());
    assert_eq!(answer["status"]["error"], "invalid bearer token");
    let status = refused(ask(&client, TOKENS, &[], &json!({ "spec": {} })).await);
    assert_eq!(status.code, 400);
    assert_eq!(
        status.message,
        "token is required for TokenReview in authentication"
    );
    let status = refused(ask(&client, TOKENS, &[], &json!({ "spec": { "token": 7 } })).await);
    assert_eq!((status.code, status.reason.as_str()), (400, "BadRequest"));
    let other = json!({ "kind": "Pod", "apiVersion": "v1", "spec": {} });
    let status = refused(ask(&client, TOKENS, &[], &other).await);
    assert_eq!((status.code, status.reason.as_str()), (400, "BadRequest"));
}

pub(crate) async fn masters_may_and_strangers_may_not(client: Client) {
    let pods = json!({ "verb": "delete", "resource": "pods", "namespace": "default" });
    for (group, allowed) in [("system:masters", true), ("strangers", false)] {
        let spec = json!({ "user": "eve", "groups": [group], "resourceAttributes": pods });
        let answer = ask(&client, ACCESS, &[], &json!({ "spec": spec })).await;
        let answer = answer.unwrap();
        assert_eq!(answer["spec"], spec);
        assert_eq!(answer["status"]["allowed"], allowed, "{group}");
    }
    let path = json!({ "user": "eve", "nonResourceAttributes": { "verb": "get", "path": "/x" } });
    let answer = ask(&client, ACCESS, &[], &json!({ "spec": path })).await;
    assert_eq!(answer.unwrap()["status"]["allowed"], false);
    let mine = json!({ "spec": { "resourceAttributes": pods } });
    let answer = ask(&client, MY_ACCESS, &[], &mine).await.unwrap();
    assert_eq!(answer["status"]["allowed"], true);
}

pub(crate) async fn a_review_asks_one_whole_question(client: Client) {
    let status = refused(ask(&client, ACCESS, &[], &json!({ "spec": { "user": "eve" } })).await);
    assert_eq!((status.code, status.reason.as_str()), (422, "Invalid"));
    assert_eq!(
        status.message,
        ".authorization.k8s.io \"\" is invalid: spec.resourceAttributes: Invalid value: null: exactly one of \
         nonResourceAttributes or resourceAttributes must be specified"
    );
    assert_eq!(causes(&status), ["spec.resourceAttributes"]);
    let both = json!({ "spec": {
        "resourceAttributes": { "verb": "get" },
        "nonResourceAttributes": { "verb": "get", "path": "/x" },
    } });
    let status = refused(ask(&client, ACCESS, &[], &both).await);
    assert_eq!(
        status.message,
        ".authorization.k8s.io \"\" is invalid: [spec.nonResourceAttributes: Invalid value: \
         {\"Path\":\"/x\",\"Verb\":\"get\"}: cannot be specified in combination with resourceAttributes, \
         spec.user: Invalid value: \"\": at least one of user or group must be specified]"
    );
    assert_eq!(causes(&status), ["spec.nonResourceAttributes", "spec.user"]);
}

pub(crate) async fn a_local_review_stays_in_its_namespace(client: Client) {
    let room = Room::open(client.clone()).await;
    let path = format!(
        "/apis/authorization.k8s.io/v1/namespaces/{}/localsubjectaccessreviews",
        room.namespace
    );
    let about = |namespace: &str| {
        json!({ "spec": {
            "user": "eve", "groups": ["system:masters"],
            "resourceAttributes": { "verb": "get", "resource": "pods", "namespace": namespace },
        } })
    };
    let answer = ask(&client, &path, &[], &about(&room.namespace)).await;
    let answer = answer.unwrap();
    assert_eq!(answer["metadata"]["namespace"], room.namespace.as_str());
    assert_eq!(answer["status"]["allowed"], true);
    let status = refused(ask(&client, &path, &[], &about("elsewhere")).await);
    assert_eq!(status.code, 422);
    assert_eq!(causes(&status), ["spec.resourceAttributes.namespace"]);
}

pub(crate) async fn masters_can_act_as_somebody_else(client: Client) {
    let answer = ask(&client, WHO_AM_I, &[], &json!({})).await.unwrap();
    assert!(answer["metadata"]["creationTimestamp"].is_string());
    let groups = answer["status"]["userInfo"]["groups"].to_string();
    assert!(groups.contains("system:authenticated"), "{groups}");
    let headers = [
        ("impersonate-user", "system:serviceaccount:space:robot"),
        ("impersonate-extra-shift%2fkind", "night"),
    ];
    let answer = ask(&client, WHO_AM_I, &headers, &json!({})).await.unwrap();
    assert_eq!(
        answer["status"]["userInfo"],
        json!({
            "username": "system:serviceaccount:space:robot",
            "groups": [
                "system:serviceaccounts", "system:serviceaccounts:space", "system:authenticated",
            ],
            "extra": { "shift/kind": ["night"] },
        })
    );
    let headers = [
        ("impersonate-user", "eve"),
        ("impersonate-group", "outsiders"),
    ];
    let path = "/api/v1/namespaces/default/configmaps";
    let status = refused(ask(&client, path, &headers, &json!({})).await);
    assert_eq!((status.code, status.reason.as_str()), (403, "Forbidden"));
    assert_eq!(
        status.message,
        "configmaps is forbidden: User \"eve\" cannot create resource \"configmaps\" in API group \"\" in the \
         namespace \"default\""
    );
    let nobody = [("impersonate-group", "outsiders")];
    let status = refused(ask(&client, path, &nobody, &json!({})).await);
    assert_eq!(status.code, 400);
}

pub(crate) async fn rules_tell_what_one_may_do(client: Client) {
    let asked = json!({ "spec": { "namespace": "default" } });
    let answer = ask(&client, MY_RULES, &[], &asked).await.unwrap();
    let everything = json!({ "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"] });
    let rules = answer["status"]["resourceRules"].as_array().unwrap();
    assert!(rules.contains(&everything), "{answer}");
    let headers = [("impersonate-user", "eve")];
    let answer = ask(&client, MY_RULES, &headers, &asked).await.unwrap();
    let rules = answer["status"]["resourceRules"].as_array().unwrap();
    assert!(!rules.contains(&everything), "{answer}");
    let oneself = json!({
        "verbs": ["create"], "apiGroups": ["authentication.k8s.io"], "resources": ["selfsubjectreviews"],
    });
    assert!(rules.contains(&oneself), "{answer}");
    let status = refused(ask(&client, MY_RULES, &[], &json!({ "spec": {} })).await);
    assert_eq!(
        (status.code, status.message.as_str()),
        (400, "no namespace on request")
    );
}

pub(crate) async fn reviews_are_asked_and_not_kept(client: Client) {
    for (method, path, code) in [
        (Method::GET, ACCESS.to_owned(), 405),
        (Method::DELETE, TOKENS.to_owned(), 405),
        (Method::GET, format!("{TOKENS}/one"), 404),
        (Method::OPTIONS, "/version".to_owned(), 405),
        (Method::POST, "/version".to_owned(), 405),
        (Method::OPTIONS, "/api/v1/namespaces".to_owned(), 405),
        (Method::PUT, "/apis/authorization.k8s.io/v1".to_owned(), 405),
    ] {
        let request = Request::builder().method(&method).uri(&path);
        let answer = client.request::<Value>(request.body(Vec::new()).unwrap());
        assert_eq!(refused(answer.await).code, code, "{method} {path}");
    }
    let list = "/apis/authorization.k8s.io/v1";
    let request = Request::get(list).body(Vec::new()).unwrap();
    let resources: Value = client.request(request).await.unwrap();
    for resource in resources["resources"].as_array().unwrap() {
        assert_eq!(resource["verbs"], json!(["create"]));
    }
}
