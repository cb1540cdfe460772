//! The suite against the in-process server, and claims that need its handle.

use std::{pin::pin, sync::Arc};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::Pod,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kruntimes_apiserver::{
    ApiServer, BuildError, Clock, LogError, LogRequest, LogStream, PodLogs, SeededIds,
};
use kube::{
    Api, CustomResourceExt as _, ResourceExt as _,
    api::{
        ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, LogParams, Patch,
        PatchParams, PostParams, WatchParams,
    },
    runtime::watcher,
};
use serde_json::json;
use tower::Service as _;

use crate::suite::{self, Room, Widget, a_widget, refused, watches::told};

pub(crate) fn server() -> ApiServer {
    ApiServer::builder()
        .crd(Widget::crd())
        .crd(suite::apply::assembly())
        .ids(Arc::new(SeededIds::new(1)))
        .build()
        .unwrap()
}

macro_rules! against_the_embedded_server {
    ($($module:ident: $($name:ident),+;)+) => {
        $($(
            #[tokio::test(start_paused = true)]
            async fn $name() {
                let server = server();
                let _background = server.spawn_background();
                let _: () = suite::$module::$name(server.client()).await;
            }
        )+)+
    };
}

suite::every_claim!(against_the_embedded_server);

#[tokio::test(start_paused = true)]
async fn an_expired_watch_is_told_so_inside_its_stream() {
    let server = server();
    let room = Room::open(server.client()).await;
    let made = room.create(a_widget("a")).await;
    room.create(a_widget("b")).await;
    server.compact();
    let version = made.resource_version().unwrap();
    let events = room
        .widgets
        .watch(&WatchParams::default(), &version)
        .await
        .unwrap();
    let seen: Vec<String> = events
        .map_ok(|event| told(&event))
        .try_collect()
        .await
        .unwrap();
    assert_eq!(seen, ["ERROR 410"], "the stream ends after the error");
}

#[tokio::test(start_paused = true)]
async fn a_page_of_a_forgotten_state_is_gone() {
    let server = server();
    let room = Room::open(server.client()).await;
    for name in ["a", "b", "c"] {
        room.create(a_widget(name)).await;
    }
    let params = ListParams::default().limit(1);
    let token = room
        .widgets
        .list(&params)
        .await
        .unwrap()
        .metadata
        .continue_
        .unwrap();
    room.create(a_widget("d")).await;
    server.compact();
    let status = refused(room.widgets.list(&params.continue_token(&token)).await);
    assert_eq!((status.code, status.reason.as_str()), (410, "Expired"));
}

/// Creates widgets without letting any other task run in between.
async fn create_at_once(server: &ApiServer, namespace: &str, names: &[&str]) {
    for name in names {
        let path = format!("/apis/suite.example.org/v1/namespaces/{namespace}/widgets");
        let body = serde_json::to_vec(&a_widget(name)).unwrap();
        let request = http::Request::post(path).body(kube::client::Body::from(body));
        let answer = server.service().call(request.unwrap()).await.unwrap();
        assert_eq!(answer.status(), 201);
    }
}

#[tokio::test(start_paused = true)]
async fn watchers_of_both_strategies_survive_expiry() {
    for config in [
        watcher::Config::default(),
        watcher::Config::default().streaming_lists(),
    ] {
        let server = ApiServer::builder()
            .crd(Widget::crd())
            .watch_window(2)
            .build()
            .unwrap();
        let room = Room::open(server.client()).await;
        let version = room.create(a_widget("a")).await.resource_version();
        let watch = tokio::spawn(suite::operators::mirror(room.widgets.clone(), config));
        let watches = || {
            server
                .stats()
                .requests("watch", "widgets.suite.example.org")
        };
        while watches() == 0 {
            tokio::task::yield_now().await;
        }
        // More writes than the window holds, so that the watcher cannot keep up.
        create_at_once(&server, &room.namespace, &["b", "c", "d", "e", "f"]).await;
        room.create(a_widget("the-end")).await;
        let known: Vec<String> = watch.await.unwrap().into_iter().collect();
        assert_eq!(known, ["a", "b", "c", "d", "e", "f", "the-end"]);
        assert_eq!(watches(), 2, "the first watch from {version:?} has expired");
    }
}

#[tokio::test(start_paused = true)]
async fn quiet_watches_receive_bookmarks_of_the_latest_version() {
    let server = server();
    let room = Room::open(server.client()).await;
    let version = server.resource_version().to_string();
    let params = WatchParams::default().timeout(150);
    let events = room.widgets.watch(&params, &version).await.unwrap();
    let other: Api<k8s_openapi::api::core::v1::ConfigMap> =
        Api::namespaced(server.client(), &room.namespace);
    let map = serde_json::from_value(json!({ "metadata": { "name": "elsewhere" } })).unwrap();
    other.create(&PostParams::default(), &map).await.unwrap();
    let events: Vec<_> = events.try_collect().await.unwrap();
    assert_eq!(events.len(), 3, "after one and two minutes, and at the end");
    for event in events {
        let kube::api::WatchEvent::Bookmark(mark) = event else {
            panic!("{event:?}")
        };
        assert_eq!(
            mark.metadata.resource_version,
            server.resource_version().to_string()
        );
    }
}

#[tokio::test(start_paused = true)]
async fn conflicting_patches_of_many_writers_all_arrive() {
    let server = server();
    let room = Room::open(server.client()).await;
    room.create(a_widget("w")).await;
    let writers = (0..20).map(|number| {
        let widgets = room.widgets.clone();
        async move {
            let label = format!("l{number}");
            let patch = Patch::Merge(json!({ "metadata": { "labels": { label: "x" } } }));
            widgets
                .patch("w", &PatchParams::default(), &patch)
                .await
                .unwrap();
        }
    });
    stream::iter(writers)
        .buffer_unordered(20)
        .collect::<Vec<()>>()
        .await;
    assert_eq!(room.widgets.get("w").await.unwrap().labels().len(), 20);
    let stats = server.stats();
    assert_eq!(stats.requests("patch", "widgets.suite.example.org"), 20);
    assert_eq!(stats.conflicts, 0);
}

/// Always the same moment.
struct Noon;

impl Clock for Noon {
    fn now(&self) -> Timestamp {
        "2030-06-01T12:00:00.5Z".parse().unwrap()
    }
}

#[tokio::test(start_paused = true)]
async fn equal_sources_make_equal_worlds() {
    let mut worlds = Vec::new();
    for _ in 0..2 {
        let server = ApiServer::builder()
            .crd(Widget::crd())
            .clock(Arc::new(Noon))
            .ids(Arc::new(SeededIds::new(42)))
            .build()
            .unwrap();
        let room = Room::open(server.client()).await;
        room.create(a_widget("w")).await;
        worlds.push(server.dump());
        let snapshot = server.snapshot();
        let widget = &snapshot.objects("widgets.suite.example.org")[0];
        assert_eq!(
            widget["metadata"]["creationTimestamp"],
            "2030-06-01T12:00:00Z"
        );
        assert_eq!(snapshot.resource_version(), server.resource_version());
    }
    assert_eq!(worlds[0], worlds[1]);
}

#[test]
fn contradictory_definitions_are_refused() {
    let twice = ApiServer::builder()
        .crd(Widget::crd())
        .crd(Widget::crd())
        .build();
    assert!(matches!(twice.err(), Some(BuildError::Duplicate { .. })));
    let mut unstored = Widget::crd();
    unstored.spec.versions[0].storage = false;
    let unstored = ApiServer::builder().crd(unstored).build();
    assert!(matches!(unstored.err(), Some(BuildError::Storage { .. })));
    let mut misnamed = Widget::crd();
    misnamed.metadata.name = Some("x".to_owned());
    let misnamed = ApiServer::builder().crd(misnamed).build();
    assert!(matches!(misnamed.err(), Some(BuildError::Name { .. })));
}

#[tokio::test(start_paused = true)]
async fn a_second_version_shows_the_same_object() {
    let mut crd = Widget::crd();
    let mut beta = crd.spec.versions[0].clone();
    beta.name = "v1beta1".to_owned();
    beta.storage = false;
    crd.spec.versions.push(beta);
    let server = ApiServer::builder().crd(crd).build().unwrap();
    let room = Room::open(server.client()).await;
    room.create(a_widget("w")).await;
    let path = format!(
        "/apis/suite.example.org/v1beta1/namespaces/{}/widgets/w",
        room.namespace
    );
    let request = http::Request::get(path).body(Vec::new()).unwrap();
    let seen: serde_json::Value = room.client.request(request).await.unwrap();
    assert_eq!(seen["apiVersion"], "suite.example.org/v1beta1");
    assert_eq!(seen["spec"]["color"], "red");
}

/// Says what it was asked, and knows one container.
struct Echo;

#[async_trait::async_trait]
impl PodLogs for Echo {
    async fn open(&self, request: LogRequest) -> Result<LogStream, LogError> {
        match request.container.as_deref() {
            None | Some("c") => {
                let line = format!("{} tail={:?}\n", request.pod, request.tail_lines);
                Ok(stream::once(async { Ok(line.into()) }).boxed())
            }
            Some(other) => Err(LogError::Container(other.to_owned())),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn pod_logs_come_from_the_injected_source() {
    let server = ApiServer::builder()
        .pod_logs(Arc::new(Echo))
        .build()
        .unwrap();
    let pods: Api<Pod> = Api::default_namespaced(server.client());
    let params = LogParams {
        tail_lines: Some(3),
        ..LogParams::default()
    };
    assert!(refused(pods.logs("p", &params).await).is_not_found());
    let pod = serde_json::from_value(json!({
        "metadata": { "name": "p" }, "spec": { "containers": [{ "name": "c", "image": "i" }] },
    }));
    pods.create(&PostParams::default(), &pod.unwrap())
        .await
        .unwrap();
    assert_eq!(pods.logs("p", &params).await.unwrap(), "p tail=Some(3)\n");
    let params = LogParams {
        container: Some("x".to_owned()),
        ..LogParams::default()
    };
    assert_eq!(refused(pods.logs("p", &params).await).code, 400);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_collected_before_somebody_collects() {
    let server = server();
    let room = Room::open(server.client()).await;
    let owner = room.create(a_widget("owner")).await;
    let owned = suite::Shaped::owned_by(a_widget("owned"), &owner);
    room.create(owned).await;
    room.widgets
        .delete("owner", &DeleteParams::default())
        .await
        .unwrap();
    tokio::task::yield_now().await;
    assert!(room.widgets.get_opt("owned").await.unwrap().is_some());
    let version = server.resource_version().to_string();
    let mut events = pin!(
        room.widgets
            .watch(&WatchParams::default(), &version)
            .await
            .unwrap()
    );
    let background = server.spawn_background();
    let event = events.try_next().await.unwrap().unwrap();
    assert_eq!(told(&event), "DELETED owned");
    background.stop().await;
}

/// A definition as a user writes it, without a status subresource and in cluster scope.
fn plain_crd() -> CustomResourceDefinition {
    serde_json::from_value(json!({
        "metadata": { "name": "gadgets.suite.example.org" },
        "spec": {
            "group": "suite.example.org", "scope": "Cluster",
            "names": { "kind": "Gadget", "plural": "gadgets" },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object", "properties": {
                    "size": { "type": "integer" },
                    "status": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
                } } },
            }],
        },
    }))
    .unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_plain_kind_in_cluster_scope_has_no_status_of_its_own() {
    let server = ApiServer::builder().crd(plain_crd()).build().unwrap();
    let gadget = ApiResource::from_gvk(&GroupVersionKind::gvk("suite.example.org", "v1", "Gadget"));
    let gadgets: Api<DynamicObject> = Api::all_with(server.client(), &gadget);
    let asked = DynamicObject::new("g", &gadget).data(json!({ "size": 1, "status": { "a": 1 } }));
    let made = gadgets
        .create(&PostParams::default(), &asked)
        .await
        .unwrap();
    assert_eq!(made.data["status"]["a"], 1);
    let patch = Patch::Merge(json!({ "status": { "a": 2 } }));
    let params = PatchParams::default();
    let after = gadgets.patch("g", &params, &patch).await.unwrap();
    assert_eq!(after.metadata.generation, Some(2), "all of it is desire");
    assert_eq!(
        refused(gadgets.patch_status("g", &params, &patch).await).code,
        404
    );
    let elsewhere: Api<DynamicObject> = Api::namespaced_with(server.client(), "default", &gadget);
    assert_eq!(refused(elsewhere.get("g").await).code, 404);
}

#[tokio::test(start_paused = true)]
async fn dropped_fields_are_warned_of_unless_ignored() {
    let server = server();
    let room = Room::open(server.client()).await;
    room.create(a_widget("w")).await;
    let path = format!(
        "/apis/suite.example.org/v1/namespaces/{}/widgets/w",
        room.namespace
    );
    for (query, want) in [("", 1), ("?fieldValidation=Ignore", 0)] {
        let request = http::Request::patch(format!("{path}{query}"))
            .header("content-type", "application/merge-patch+json")
            .body(kube::client::Body::from(
                br#"{"spec":{"shape":1}}"#.to_vec(),
            ));
        let answer = server.service().call(request.unwrap()).await.unwrap();
        let warnings: Vec<_> = answer.headers().get_all("warning").iter().collect();
        assert_eq!(warnings.len(), want, "{query}");
        assert!(
            warnings
                .iter()
                .all(|text| *text == r#"299 - "unknown field \"spec.shape\"""#)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_not_served_is_refused() {
    let server = server();
    let client = server.client();
    let widgets = "/apis/suite.example.org/v1/namespaces/default/widgets";
    for (method, path, format, code) in [
        (
            "PATCH",
            format!("{widgets}/w"),
            "application/strategic-merge-patch+json",
            415,
        ),
        (
            "POST",
            format!("{widgets}/w/status"),
            "application/json",
            405,
        ),
        ("GET", format!("{widgets}/w/scale"), "application/json", 404),
        (
            "POST",
            "/apis/suite.example.org/v1/widgets".to_owned(),
            "application/json",
            405,
        ),
        (
            "GET",
            "/apis/suite.example.org/v2/widgets".to_owned(),
            "application/json",
            404,
        ),
        ("GET", "/metrics".to_owned(), "application/json", 404),
        ("POST", widgets.to_owned(), "application/json", 400),
    ] {
        let request = http::Request::builder()
            .method(method)
            .uri(&path)
            .header("content-type", format)
            .body(b"{".to_vec());
        let status = refused(client.request::<serde_json::Value>(request.unwrap()).await);
        assert_eq!(status.code, code, "{method} {path}");
        assert!(
            !status.reason.is_empty() && !status.message.is_empty(),
            "{method} {path}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn any_tree_of_owners_is_collected() {
    for seed in 0..30_u64 {
        let server = server();
        let _background = server.spawn_background();
        let room = Room::open(server.client()).await;
        let mut draw = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut below = |bound: u64| {
            draw ^= draw << 13;
            draw ^= draw >> 7;
            draw ^= draw << 17;
            draw % bound
        };
        let mut made: Vec<Widget> = Vec::new();
        for number in 0..20 {
            let mut widget = a_widget(&format!("w{number}"));
            for owner in &made {
                if below(6) == 0 {
                    widget = suite::Shaped::owned_by(widget, owner);
                }
            }
            made.push(room.create(widget).await);
        }
        for widget in &made {
            let params = match below(8) {
                0 => DeleteParams::background(),
                1 => DeleteParams::foreground(),
                _ => continue,
            };
            // Objects that the collector was faster to delete are no concern.
            drop(room.widgets.delete(&widget.name_any(), &params).await);
        }
        // The paused clock moves only when nobody has anything left to do.
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        let left = room
            .widgets
            .list(&ListParams::default())
            .await
            .unwrap()
            .items;
        for widget in &left {
            assert!(
                widget.metadata.deletion_timestamp.is_none(),
                "seed {seed}: {}",
                widget.name_any()
            );
            for owner in widget.owner_references() {
                let lives = left
                    .iter()
                    .any(|other| other.uid().as_ref() == Some(&owner.uid));
                assert!(
                    lives,
                    "seed {seed}: {} has lost {}",
                    widget.name_any(),
                    owner.name
                );
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_busy_watch_ends_in_time_too() {
    let server = server();
    let room = Room::open(server.client()).await;
    room.create(a_widget("w")).await;
    let version = server.resource_version().to_string();
    let params = WatchParams::default().timeout(5);
    let events = room.widgets.watch(&params, &version).await.unwrap();
    // Each event provokes the next one, so the watch is never idle.
    let mut writes = 0_i64;
    let mut events = pin!(events);
    let started = tokio::time::Instant::now();
    loop {
        writes += 1;
        let patch = Patch::Merge(json!({ "status": { "phase": writes.to_string() } }));
        let params = PatchParams::default();
        room.widgets
            .patch_status("w", &params, &patch)
            .await
            .unwrap();
        tokio::time::advance(std::time::Duration::from_millis(100)).await;
        match events.try_next().await.unwrap() {
            Some(_) => assert!(writes < 100, "the watch goes on for ever"),
            None => break,
        }
    }
    assert_eq!(started.elapsed().as_secs(), 5);
}

#[tokio::test(start_paused = true)]
async fn absurd_numbers_in_a_query_do_no_harm() {
    let client = server().client();
    let path = "/api/v1/namespaces/default/configmaps";
    for (query, accepted) in [
        ("limit=18446744073709551615", true),
        ("limit=-1", false),
        ("continue=x", false),
        ("resourceVersion=99999999999999999999", false),
        (
            "watch=1&timeoutSeconds=18446744073709551615&resourceVersion=99999",
            true,
        ),
    ] {
        let request = http::Request::get(format!("{path}?{query}")).body(Vec::new());
        let answer = client.request_text(request.unwrap()).await;
        assert_eq!(answer.is_ok(), accepted, "{query}: {answer:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn built_in_objects_of_the_wrong_shape_are_refused() {
    let client = server().client();
    let core = "/api/v1/namespaces";
    let send = async |method: &str, path: &str, body: serde_json::Value| {
        let format = match method {
            "PATCH" => "application/merge-patch+json",
            _ => "application/json",
        };
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", format)
            .body(serde_json::to_vec(&body).unwrap());
        match client.request_text(request.unwrap()).await {
            Ok(_) => 200,
            Err(kube::Error::Api(status)) => status.code,
            Err(error) => panic!("{error}"),
        }
    };
    let named = json!({ "metadata": { "name": "x" }, "spec": "text" });
    assert_eq!(send("POST", core, named).await, 400);
    let secret = json!({ "metadata": { "name": "x" }, "data": "text", "stringData": { "a": "b" } });
    let secrets = format!("{core}/default/secrets");
    assert_eq!(send("POST", &secrets, secret).await, 400);
    let fine = json!({ "metadata": { "name": "x" } });
    assert_eq!(send("POST", core, fine).await, 200);
    let status = json!({ "status": "text" });
    let path = format!("{core}/x/status");
    assert_eq!(send("PATCH", &path, status).await, 422);
    assert_eq!(send("DELETE", &format!("{core}/x"), json!({})).await, 200);
}
