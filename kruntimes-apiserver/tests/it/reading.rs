//! What only the in-process server does about definitions and discovery.

use http::{Request, Response};
use http_body_util::BodyExt as _;
use kruntimes_apiserver::{AnswerBody, ApiServer, BuildError};
use kube::{CustomResourceExt as _, client::Body};
use serde_json::Value;
use tower::Service as _;

use crate::{embedded::server, suite::Widget};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const JSON: &str = "application/json";
const APPLY: &str = "application/apply-patch+yaml";
const MERGE: &str = "application/merge-patch+json";

/// Sends one request.
async fn answer(server: &ApiServer, request: Request<Body>) -> Response<AnswerBody> {
    server.service().call(request).await.unwrap()
}

/// Sends a request in some format; returns the status of the answer and what it tells.
async fn told(
    server: &ApiServer,
    method: &str,
    path: &str,
    format: &str,
    body: &str,
) -> (u16, Value) {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", format)
        .body(Body::from(body.as_bytes().to_vec()));
    let answer = answer(server, request.unwrap()).await;
    let status = answer.status().as_u16();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&body).unwrap_or_default())
}

#[tokio::test(start_paused = true)]
async fn a_definition_can_be_applied_as_it_is() {
    let server = server();
    let one = format!("{DEFINITIONS}/{}", Widget::crd_name());
    let same = serde_json::to_string(&Widget::crd()).unwrap();
    let annotated = r#"{ "metadata": { "annotations": { "a": "b" } } }"#;
    for (method, format, body) in [
        ("PATCH", APPLY, same.as_str()),
        ("PUT", JSON, same.as_str()),
        ("PATCH", MERGE, annotated),
        ("PATCH", "application/strategic-merge-patch+json", annotated),
    ] {
        let (status, told) = told(&server, method, &one, format, body).await;
        assert_eq!(status, 200, "{method} {format}: {told}");
        assert_eq!(told["metadata"]["resourceVersion"], "1");
    }
}

#[tokio::test(start_paused = true)]
async fn kinds_are_fixed_once_the_server_is_built() {
    let server = server();
    let one = format!("{DEFINITIONS}/{}", Widget::crd_name());
    let mut changed = Widget::crd();
    changed.spec.versions[0].served = false;
    let changed = serde_json::to_string(&changed).unwrap();
    let mut other = Widget::crd();
    other.metadata.name = Some("others.suite.example.org".to_owned());
    let other = serde_json::to_string(&other).unwrap();
    for (method, path, format, body) in [
        ("PATCH", one.as_str(), APPLY, changed.as_str()),
        ("PUT", one.as_str(), JSON, changed.as_str()),
        ("POST", DEFINITIONS, JSON, other.as_str()),
        ("DELETE", one.as_str(), JSON, ""),
        ("DELETE", DEFINITIONS, JSON, ""),
    ] {
        let (status, told) = told(&server, method, path, format, body).await;
        assert_eq!(status, 405, "{method} {path}: {told}");
        let message = told["message"].as_str().unwrap();
        assert!(message.contains("fixed when it starts"), "{message}");
    }
    let (status, _) = told(&server, "PUT", &one, JSON, "[]").await;
    assert_eq!(status, 400, "what is no object is not judged any further");
}

#[tokio::test(start_paused = true)]
async fn discovery_is_sent_again_only_when_it_differs() {
    let server = server();
    let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    for path in ["/api", "/apis"] {
        let ask = || Request::get(path).header("accept", accept);
        let first = answer(&server, ask().body(Body::empty()).unwrap()).await;
        assert_eq!(first.status(), 200);
        assert_eq!(first.headers()["content-type"], accept);
        let tag = first.headers()["etag"].clone();
        let again = ask().header("if-none-match", &tag).body(Body::empty());
        let again = answer(&server, again.unwrap()).await;
        assert_eq!(again.status(), 304);
        assert_eq!(again.headers()["etag"], tag);
        let body = again.into_body().collect().await.unwrap();
        assert!(body.to_bytes().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_column_that_cannot_be_evaluated_is_refused() {
    let mut crd = Widget::crd();
    let columns = crd.spec.versions[0].additional_printer_columns.as_mut();
    ".spec.list[a,b]".clone_into(&mut columns.unwrap()[0].json_path);
    let error = ApiServer::builder().crd(crd).build().err().unwrap();
    assert!(matches!(&error, BuildError::Column { path, .. } if path == ".spec.list[a,b]"));
}

#[tokio::test(start_paused = true)]
async fn schemas_are_kept_by_their_address() {
    let server = server();
    let ask = |path: &str| Request::get(path).header("accept", JSON);
    let index = answer(&server, ask("/openapi/v3").body(Body::empty()).unwrap()).await;
    let index = index.into_body().collect().await.unwrap().to_bytes();
    let index: Value = serde_json::from_slice(&index).unwrap();
    let url = index["paths"]["apis/suite.example.org/v1"]["serverRelativeURL"].clone();
    let url = url.as_str().unwrap();
    let kept = answer(&server, ask(url).body(Body::empty()).unwrap()).await;
    assert_eq!(kept.status(), 200);
    let control = kept.headers()["cache-control"].to_str().unwrap();
    assert!(control.contains("immutable"), "{control}");
    let tag = kept.headers()["etag"].clone();
    let plain = url.split('?').next().unwrap();
    let again = ask(plain).header("if-none-match", &tag);
    let again = answer(&server, again.body(Body::empty()).unwrap()).await;
    assert_eq!(again.status(), 304);
    let fresh = answer(&server, ask(plain).body(Body::empty()).unwrap()).await;
    assert_eq!(fresh.headers()["cache-control"], "no-cache, private");
    let stale = ask(&format!("{plain}?hash=0")).body(Body::empty());
    let stale = answer(&server, stale.unwrap()).await;
    assert_eq!(
        (stale.status().as_u16(), &stale.headers()["location"]),
        (301, &url.parse().unwrap())
    );
}
