//! Deletion: conditions, finalizers, grace, whole collections and namespaces.

use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions},
    runtime::wait::{await_condition, conditions},
};
use serde_json::json;

use super::{Room, Shaped as _, a_widget, names, refused};

pub(crate) async fn deletion_can_be_conditional(client: Client) {
    let room = Room::open(client).await;
    let made = room.create(a_widget("w")).await;
    let only_if = |uid: Option<String>, version: Option<String>| DeleteParams {
        preconditions: Some(Preconditions {
            uid,
            resource_version: version,
        }),
        ..DeleteParams::default()
    };
    let wrong = only_if(Some("another".to_owned()), None);
    assert!(refused(room.widgets.delete("w", &wrong).await).is_conflict());
    let wrong = only_if(None, Some("1".to_owned()));
    assert!(refused(room.widgets.delete("w", &wrong).await).is_conflict());
    let right = only_if(made.uid(), made.resource_version());
    let done = room.widgets.delete("w", &right).await.unwrap();
    assert!(done.is_right(), "a deletion at once answers with a Status");
    assert!(refused(room.widgets.delete("w", &right).await).is_not_found());
}

pub(crate) async fn options_that_mean_nothing_are_refused(client: Client) {
    let room = Room::open(client).await;
    let made = room.create(a_widget("w")).await;
    let path = format!(
        "/apis/suite.example.org/v1/namespaces/{}/widgets/w",
        room.namespace
    );
    for (query, body, field) in [
        (
            "",
            r#"{"propagationPolicy":"Sideways"}"#,
            "propagationPolicy",
        ),
        (
            "",
            r#"{"propagationPolicy":"Orphan","orphanDependents":true}"#,
            "propagationPolicy",
        ),
        ("", r#"{"dryRun":["Some"]}"#, "dryRun"),
        ("?dryRun=Some", "", "dryRun"),
    ] {
        let request = http::Request::delete(format!("{path}{query}"))
            .header("content-type", "application/json")
            .body(body.as_bytes().to_vec());
        let status = refused(room.client.request_text(request.unwrap()).await);
        assert!(status.is_invalid(), "{query} {body}: {}", status.message);
        assert_eq!(
            status.details.unwrap().causes[0].field,
            field,
            "{query} {body}"
        );
    }
    let request = http::Request::delete(format!("{path}?dryRun=All")).body(Vec::new());
    room.client.request_text(request.unwrap()).await.unwrap();
    assert_eq!(room.widgets.get("w").await.unwrap(), made);
    // With options in the body, those of the query are not even read.
    let request = http::Request::delete(format!("{path}?dryRun=Some"))
        .header("content-type", "application/json")
        .body(b"{}".to_vec());
    room.client.request_text(request.unwrap()).await.unwrap();
    assert!(room.widgets.get_opt("w").await.unwrap().is_none());
}

pub(crate) async fn a_name_is_free_when_its_object_is_gone(client: Client) {
    let room = Room::open(client).await;
    room.create(a_widget("w").held_by("suite.example.org/a"))
        .await;
    let params = DeleteParams::default();
    room.widgets.delete("w", &params).await.unwrap();
    let (params, again) = (PostParams::default(), a_widget("w"));
    let status = refused(room.widgets.create(&params, &again).await);
    assert!(status.is_already_exists());
    assert!(
        status.message.starts_with("object is being deleted: "),
        "{}",
        status.message
    );
}

pub(crate) async fn finalizers_hold_what_is_being_deleted(client: Client) {
    let room = Room::open(client).await;
    let made = room
        .create(a_widget("w").held_by("suite.example.org/a"))
        .await;
    let marked = room
        .widgets
        .delete("w", &DeleteParams::default())
        .await
        .unwrap();
    let marked = marked.left().unwrap();
    assert!(marked.metadata.deletion_timestamp.is_some());
    assert_eq!(
        marked.metadata.generation,
        Some(2),
        "being deleted is a change of desire"
    );
    let again = room
        .widgets
        .delete("w", &DeleteParams::default())
        .await
        .unwrap()
        .left()
        .unwrap();
    assert_eq!(again.resource_version(), marked.resource_version());

    let params = PatchParams::default();
    let more = Patch::Merge(
        json!({ "metadata": { "finalizers": ["suite.example.org/a", "suite.example.org/b"] } }),
    );
    assert!(refused(room.widgets.patch("w", &params, &more).await).is_invalid());
    let still = Patch::Merge(json!({ "spec": { "size": 5 } }));
    assert_eq!(
        room.widgets
            .patch("w", &params, &still)
            .await
            .unwrap()
            .spec
            .size,
        5
    );

    let none = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    let last = room.widgets.patch("w", &params, &none).await.unwrap();
    assert_eq!(last.uid(), made.uid());
    assert!(room.widgets.get_opt("w").await.unwrap().is_none());
}

pub(crate) async fn a_collection_is_deleted_by_selector(client: Client) {
    let room = Room::open(client).await;
    for (name, app) in [("a", "x"), ("b", "y"), ("c", "x")] {
        room.create(a_widget(name).labelled("app", app)).await;
    }
    let params = ListParams::default().labels("app=x");
    room.widgets
        .delete_collection(&DeleteParams::default(), &params)
        .await
        .unwrap();
    let left = room.widgets.list(&ListParams::default()).await.unwrap();
    assert_eq!(names(&left.items), ["b"]);
}

pub(crate) async fn a_placed_pod_is_given_time_unless_told_otherwise(client: Client) {
    let room = Room::open(client).await;
    let pods: Api<Pod> = Api::namespaced(room.client.clone(), &room.namespace);
    let pod = |name: &str, node: Option<&str>| -> Pod {
        serde_json::from_value(json!({
            "metadata": { "name": name },
            "spec": { "nodeName": node, "containers": [{ "name": "c", "image": "i" }] },
        }))
        .unwrap()
    };
    let params = PostParams::default();
    let made = pods
        .create(&params, &pod("placed", Some("n")))
        .await
        .unwrap();
    assert_eq!(made.status.unwrap().phase.as_deref(), Some("Pending"));
    pods.create(&params, &pod("free", None)).await.unwrap();
    let on_node = pods
        .list(&ListParams::default().fields("spec.nodeName=n"))
        .await
        .unwrap();
    assert_eq!(names(&on_node.items), ["placed"]);

    pods.delete("free", &DeleteParams::default()).await.unwrap();
    assert!(pods.get_opt("free").await.unwrap().is_none());
    let marked = pods
        .delete("placed", &DeleteParams::default())
        .await
        .unwrap()
        .left()
        .unwrap();
    assert_eq!(marked.metadata.deletion_grace_period_seconds, Some(30));
    pods.delete("placed", &DeleteParams::default().grace_period(0))
        .await
        .unwrap();
    assert!(pods.get_opt("placed").await.unwrap().is_none());
}

pub(crate) async fn a_deleted_namespace_takes_its_content_along(client: Client) {
    let room = Room::open(client).await;
    room.create(a_widget("plain")).await;
    let held = room
        .create(a_widget("held").held_by("suite.example.org/a"))
        .await;
    let namespaces: Api<Namespace> = Api::all(room.client.clone());
    let uid = namespaces
        .get(&room.namespace)
        .await
        .unwrap()
        .uid()
        .unwrap();
    namespaces
        .delete(&room.namespace, &DeleteParams::default())
        .await
        .unwrap();
    let ending = namespaces.get(&room.namespace).await.unwrap();
    assert_eq!(ending.status.unwrap().phase.as_deref(), Some("Terminating"));
    let status = refused(
        room.widgets
            .create(&PostParams::default(), &a_widget("late"))
            .await,
    );
    assert!(status.is_forbidden(), "{}", status.message);

    let marked = await_condition(
        room.widgets.clone(),
        "held",
        |found: Option<&super::Widget>| {
            found.is_some_and(|widget| widget.metadata.deletion_timestamp.is_some())
        },
    );
    marked.await.unwrap();
    let none = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    room.widgets
        .patch(&held.name_any(), &PatchParams::default(), &none)
        .await
        .unwrap();
    let gone = await_condition(
        namespaces.clone(),
        &room.namespace,
        conditions::is_deleted(&uid),
    );
    gone.await.unwrap();
    assert!(
        room.widgets
            .list(&ListParams::default())
            .await
            .unwrap()
            .items
            .is_empty()
    );
    assert!(refused(namespaces.delete("default", &DeleteParams::default()).await).is_forbidden());
}
