//! Create, update and patch.

use kube::{
    Client, ResourceExt as _,
    api::{Patch, PatchParams, PostParams},
    core::ObjectMeta,
};
use serde_json::json;

use super::{Room, Shaped as _, Widget, WidgetStatus, a_widget, refused};

pub(crate) async fn create_sets_what_only_the_server_may_set(client: Client) {
    let room = Room::open(client).await;
    let mut asked = a_widget("w");
    asked.metadata.uid = Some("mine".to_owned());
    asked.metadata.generation = Some(7);
    asked.status = Some(WidgetStatus {
        phase: Some("Done".to_owned()),
    });
    let made = room.create(asked).await;
    assert_ne!(made.uid().unwrap(), "mine");
    assert!(made.creation_timestamp().is_some());
    assert!(made.resource_version().unwrap().parse::<u64>().unwrap() > 0);
    assert_eq!(made.metadata.generation, Some(1));
    assert_eq!(made.status, None, "create ignores status");
    assert_eq!(made.namespace(), Some(room.namespace.clone()));
    assert_eq!(room.widgets.get("w").await.unwrap().metadata, made.metadata);
}

pub(crate) async fn defaults_are_filled_and_unknown_fields_dropped(client: Client) {
    let room = Room::open(client).await;
    let path = format!(
        "/apis/suite.example.org/v1/namespaces/{}/widgets",
        room.namespace
    );
    let body = json!({
        "apiVersion": "suite.example.org/v1", "kind": "Widget",
        "metadata": { "name": "w" }, "spec": { "shape": "round" },
    });
    let request = http::Request::post(&path)
        .body(body.to_string().into_bytes())
        .unwrap();
    let made: serde_json::Value = room.client.request(request).await.unwrap();
    assert_eq!(made["spec"], json!({ "color": "red", "size": 0 }));
    let strict = http::Request::post(format!("{path}?fieldValidation=Strict"))
        .body(body.to_string().into_bytes())
        .unwrap();
    let status = refused(room.client.request::<serde_json::Value>(strict).await);
    assert_eq!(status.code, 400);
    assert!(
        status.message.contains("unknown field \"spec.shape\""),
        "{}",
        status.message
    );
}

pub(crate) async fn generated_names_start_with_their_prefix(client: Client) {
    let room = Room::open(client).await;
    let mut asked = a_widget("");
    asked.metadata = ObjectMeta {
        generate_name: Some("made-".to_owned()),
        ..ObjectMeta::default()
    };
    let one = room.create(asked.clone()).await;
    let other = room.create(asked).await;
    assert!(one.name_any().starts_with("made-"));
    assert_eq!(one.name_any().len(), "made-".len() + 5);
    assert_ne!(one.name_any(), other.name_any());
}

pub(crate) async fn a_stale_update_conflicts(client: Client) {
    let room = Room::open(client).await;
    let made = room.create(a_widget("w")).await;
    let mut fresh = made.clone();
    fresh.spec.size = 2;
    let fresh = room
        .widgets
        .replace("w", &PostParams::default(), &fresh)
        .await
        .unwrap();
    assert_ne!(fresh.resource_version(), made.resource_version());
    let mut stale = made;
    stale.spec.size = 3;
    let status = refused(
        room.widgets
            .replace("w", &PostParams::default(), &stale)
            .await,
    );
    assert!(status.is_conflict());
    assert_eq!(
        status.message,
        "Operation cannot be fulfilled on widgets.suite.example.org \"w\": the object has been modified; \
         please apply your changes to the latest version and try again"
    );
    assert_eq!(room.widgets.get("w").await.unwrap().spec.size, 2);
}

pub(crate) async fn a_patch_that_names_a_version_conflicts_when_stale(client: Client) {
    let room = Room::open(client).await;
    let made = room.create(a_widget("w")).await;
    let patch = |size: i64, version: Option<String>| {
        Patch::Merge(
            json!({ "metadata": { "resourceVersion": version }, "spec": { "size": size } }),
        )
    };
    let params = PatchParams::default();
    room.widgets
        .patch(
            "w",
            &params,
            &Patch::Merge(json!({ "spec": { "size": 5 } })),
        )
        .await
        .unwrap();
    let stale = room
        .widgets
        .patch("w", &params, &patch(6, made.resource_version()))
        .await;
    assert!(refused(stale).is_conflict());
    let latest = room.widgets.get("w").await.unwrap();
    let done = room
        .widgets
        .patch("w", &params, &patch(6, latest.resource_version()))
        .await;
    assert_eq!(done.unwrap().spec.size, 6);
}

pub(crate) async fn a_patch_cannot_move_an_object(client: Client) {
    let room = Room::open(client).await;
    let made = room.create(a_widget("w")).await;
    for (field, says) in [
        (
            "name",
            "the name of the object (other) does not match the name on the URL (w)",
        ),
        (
            "namespace",
            "the namespace of the provided object does not match",
        ),
    ] {
        let patch = Patch::Merge(json!({ "metadata": { field: "other" } }));
        let params = PatchParams::default();
        let status = refused(room.widgets.patch("w", &params, &patch).await);
        assert_eq!(status.code, 400, "{}", status.message);
        assert!(status.message.starts_with(says), "{}", status.message);
    }
    assert_eq!(room.widgets.get("w").await.unwrap(), made);
}

pub(crate) async fn generation_counts_changes_of_the_spec_only(client: Client) {
    let room = Room::open(client).await;
    room.create(a_widget("w")).await;
    let params = PatchParams::default();
    for (case, patch, want) in [
        (
            "label",
            json!({ "metadata": { "labels": { "a": "b" } } }),
            1,
        ),
        ("spec", json!({ "spec": { "size": 2 } }), 2),
        ("same spec", json!({ "spec": { "size": 2 } }), 2),
        (
            "status on main",
            json!({ "status": { "phase": "Done" } }),
            2,
        ),
    ] {
        let after = room
            .widgets
            .patch("w", &params, &Patch::Merge(patch))
            .await
            .unwrap();
        assert_eq!(after.metadata.generation, Some(want), "{case}");
        assert_eq!(after.status, None, "{case}");
    }
    let patch = Patch::Merge(json!({ "status": { "phase": "Done" } }));
    let after = room
        .widgets
        .patch_status("w", &params, &patch)
        .await
        .unwrap();
    assert_eq!(after.metadata.generation, Some(2), "status");
}

pub(crate) async fn a_write_without_a_change_keeps_the_version(client: Client) {
    let room = Room::open(client).await;
    let made = room.create(a_widget("w").labelled("a", "b")).await;
    let same = room
        .widgets
        .replace("w", &PostParams::default(), &made)
        .await
        .unwrap();
    assert_eq!(same.resource_version(), made.resource_version());
    let patch = Patch::Merge(json!({ "metadata": { "labels": { "a": "b" } } }));
    let same = room
        .widgets
        .patch("w", &PatchParams::default(), &patch)
        .await
        .unwrap();
    assert_eq!(same.resource_version(), made.resource_version());
}

pub(crate) async fn status_writes_change_only_status(client: Client) {
    let room = Room::open(client).await;
    let mut object = room.create(a_widget("w")).await;
    object.spec.size = 9;
    object.labels_mut().insert("a".to_owned(), "b".to_owned());
    object.status = Some(WidgetStatus {
        phase: Some("Busy".to_owned()),
    });
    let after = room
        .widgets
        .replace_status("w", &PostParams::default(), &object)
        .await
        .unwrap();
    assert_eq!(after.spec.size, 1);
    assert!(after.labels().is_empty());
    assert_eq!(
        after.status.as_ref().unwrap().phase.as_deref(),
        Some("Busy")
    );
    assert_eq!(
        room.widgets.get_status("w").await.unwrap().status,
        after.status
    );
    let mut main = after.clone();
    main.spec.size = 4;
    main.status = None;
    let after = room
        .widgets
        .replace("w", &PostParams::default(), &main)
        .await
        .unwrap();
    assert_eq!(after.spec.size, 4);
    assert_eq!(
        after.status.unwrap().phase.as_deref(),
        Some("Busy"),
        "main writes keep status"
    );
}

pub(crate) async fn json_patches_test_before_they_change(client: Client) {
    let room = Room::open(client).await;
    room.create(a_widget("w")).await;
    let params = PatchParams::default();
    let patch =
        |value: serde_json::Value| Patch::<Widget>::Json(serde_json::from_value(value).unwrap());
    let add = patch(json!([
        { "op": "test", "path": "/metadata/finalizers", "value": null },
        { "op": "add", "path": "/metadata/finalizers", "value": ["suite.example.org/held"] },
    ]));
    let after = room.widgets.patch("w", &params, &add).await.unwrap();
    assert_eq!(after.finalizers(), ["suite.example.org/held"]);
    assert_eq!(
        refused(room.widgets.patch("w", &params, &add).await).code,
        422
    );
    let remove = patch(json!([
        { "op": "test", "path": "/metadata/finalizers/0", "value": "suite.example.org/held" },
        { "op": "remove", "path": "/metadata/finalizers/0" },
    ]));
    let after = room.widgets.patch("w", &params, &remove).await.unwrap();
    assert!(after.finalizers().is_empty());
}

pub(crate) async fn dry_runs_answer_but_store_nothing(client: Client) {
    let room = Room::open(client).await;
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let made = room.widgets.create(&dry, &a_widget("w")).await.unwrap();
    assert!(made.uid().is_some());
    assert!(room.widgets.get_opt("w").await.unwrap().is_none());
    let made = room.create(a_widget("w")).await;
    let params = PatchParams {
        dry_run: true,
        ..PatchParams::default()
    };
    let patch = Patch::Merge(json!({ "spec": { "size": 3 } }));
    let after = room.widgets.patch("w", &params, &patch).await.unwrap();
    assert_eq!(after.spec.size, 3);
    assert_eq!(room.widgets.get("w").await.unwrap(), made);
}
