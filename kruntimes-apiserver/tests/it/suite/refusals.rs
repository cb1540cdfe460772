//! What is refused, and in which words.

use k8s_openapi::api::{
    apps::v1::{ControllerRevision, Deployment},
    core::v1::ConfigMap,
};
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;

use super::{Room, Shaped as _, Widget, a_widget, refused};

pub(crate) async fn refusals_are_told_as_kubernetes_tells_them(client: Client) {
    let room = Room::open(client).await;
    let status = refused(room.widgets.get("x").await);
    assert_eq!((status.code, status.reason.as_str()), (404, "NotFound"));
    assert_eq!(status.message, "widgets.suite.example.org \"x\" not found");
    let details = status.details.unwrap();
    assert_eq!(
        (details.name.as_str(), details.kind.as_str()),
        ("x", "widgets")
    );
    assert_eq!(details.group, "suite.example.org");

    room.create(a_widget("w")).await;
    let status = refused(
        room.widgets
            .create(&PostParams::default(), &a_widget("w"))
            .await,
    );
    assert!(status.is_already_exists());
    assert_eq!(status.code, 409);
    assert_eq!(
        status.message,
        "widgets.suite.example.org \"w\" already exists"
    );

    let nowhere: Api<Widget> = Api::namespaced(room.client.clone(), "suite-nowhere");
    let status = refused(nowhere.create(&PostParams::default(), &a_widget("w")).await);
    assert!(status.is_not_found());
    assert_eq!(status.message, "namespaces \"suite-nowhere\" not found");
}

pub(crate) async fn an_invalid_object_is_refused_with_its_causes(client: Client) {
    let room = Room::open(client).await;
    let mut asked = a_widget("w");
    asked.spec.size = 101;
    let status = refused(room.widgets.create(&PostParams::default(), &asked).await);
    assert!(status.is_invalid());
    assert_eq!(status.code, 422);
    assert!(
        status.message.starts_with(
            "Widget.suite.example.org \"w\" is invalid: spec.size: Invalid value: 101"
        ),
        "{}",
        status.message
    );
    let causes = status.details.unwrap().causes;
    assert_eq!(causes.len(), 1);
    assert_eq!(causes[0].field, "spec.size");
    assert_eq!(causes[0].reason, "FieldValueInvalid");
    room.create(a_widget("w")).await;
    let patch = Patch::Merge(json!({ "spec": { "size": -1 } }));
    let status = refused(
        room.widgets
            .patch("w", &PatchParams::default(), &patch)
            .await,
    );
    assert!(status.is_invalid());
}

pub(crate) async fn malformed_metadata_is_refused(client: Client) {
    let room = Room::open(client).await;
    let large = "x".repeat(257 * 1024);
    let mut annotated = a_widget("w");
    annotated
        .metadata
        .annotations
        .get_or_insert_default()
        .insert("a".to_owned(), large);
    let owner = room.create(a_widget("owner")).await;
    let mut unnamed_owner = a_widget("w").owned_by(&owner);
    unnamed_owner.metadata.owner_references.as_mut().unwrap()[0]
        .name
        .clear();
    for (field, widget) in [
        ("metadata.name", a_widget("Upper")),
        ("metadata.name", a_widget("under_score")),
        ("metadata.labels", a_widget("w").labelled("a b", "c")),
        ("metadata.labels", a_widget("w").labelled("a", "-c")),
        (
            "metadata.labels",
            a_widget("w").labelled("a", &"c".repeat(64)),
        ),
        ("metadata.finalizers", a_widget("w").held_by("a b")),
        ("metadata.annotations", annotated),
        ("metadata.ownerReferences", unnamed_owner),
    ] {
        let status = refused(room.widgets.create(&PostParams::default(), &widget).await);
        assert!(status.is_invalid(), "{field}");
        let causes = status.details.unwrap().causes;
        assert!(causes[0].field.starts_with(field), "{field}: {causes:?}");
    }
    let status = refused(
        room.widgets
            .create(&PostParams::default(), &a_widget(""))
            .await,
    );
    assert!(
        status.message.contains("name or generateName is required"),
        "{}",
        status.message
    );
}

pub(crate) async fn what_was_set_once_cannot_be_changed(client: Client) {
    let room = Room::open(client).await;
    let made = room.create(a_widget("w")).await;
    let params = PatchParams::default();
    let patch = Patch::Merge(json!({ "metadata": {
        "creationTimestamp": "2001-01-01T00:00:00Z", "generation": 7,
    } }));
    let kept = room.widgets.patch("w", &params, &patch).await.unwrap();
    assert_eq!(kept, made, "what the server alone counts is ignored");
    for (field, value) in [
        ("uid", json!("00000000-0000-4000-8000-000000000000")),
        ("deletionTimestamp", json!("2001-01-01T00:00:00Z")),
        ("deletionGracePeriodSeconds", json!(5)),
    ] {
        let patch = Patch::Merge(json!({ "metadata": { field: value } }));
        let status = refused(room.widgets.patch("w", &params, &patch).await);
        assert!(status.is_invalid(), "{field}");
        assert!(
            status
                .message
                .contains(&format!("metadata.{field}: Invalid value"))
                && status.message.contains("field is immutable"),
            "{}",
            status.message
        );
    }
    let mut other = made.clone();
    other.metadata.uid = Some("00000000-0000-4000-8000-000000000000".to_owned());
    assert!(
        refused(
            room.widgets
                .replace("w", &PostParams::default(), &other)
                .await
        )
        .is_conflict()
    );
    let mut unversioned = made.clone();
    unversioned.metadata.resource_version = None;
    let status = refused(
        room.widgets
            .replace("w", &PostParams::default(), &unversioned)
            .await,
    );
    assert!(
        status.message.contains("metadata.resourceVersion"),
        "{}",
        status.message
    );
    assert_eq!(room.widgets.get("w").await.unwrap(), made);
}

pub(crate) async fn built_in_kinds_keep_their_promises(client: Client) {
    let room = Room::open(client).await;
    let deployments: Api<Deployment> = Api::namespaced(room.client.clone(), &room.namespace);
    let asked = |app: &str| -> Deployment {
        serde_json::from_value(json!({
            "metadata": { "name": "d" },
            "spec": {
                "selector": { "matchLabels": { "app": app } },
                "template": {
                    "metadata": { "labels": { "app": "a" } },
                    "spec": { "containers": [{ "name": "c", "image": "i" }] },
                },
            },
        }))
        .unwrap()
    };
    let params = PostParams::default();
    assert!(refused(deployments.create(&params, &asked("b")).await).is_invalid());
    let made = deployments.create(&params, &asked("a")).await.unwrap();
    assert_eq!(made.spec.unwrap().replicas, Some(1));
    let patch = Patch::Merge(json!({ "spec": {
        "selector": { "matchLabels": { "app": "z" } },
        "template": { "metadata": { "labels": { "app": "z" } } },
    } }));
    let status = refused(
        deployments
            .patch("d", &PatchParams::default(), &patch)
            .await,
    );
    assert!(
        status.message.contains("spec.selector"),
        "{}",
        status.message
    );

    let revisions: Api<ControllerRevision> = Api::namespaced(room.client.clone(), &room.namespace);
    let asked: ControllerRevision = serde_json::from_value(json!({
        "metadata": { "name": "r" }, "revision": 1, "data": { "a": 1 },
    }))
    .unwrap();
    revisions.create(&params, &asked).await.unwrap();
    let patch = Patch::Merge(json!({ "data": { "a": 2 } }));
    assert!(refused(revisions.patch("r", &PatchParams::default(), &patch).await).is_invalid());

    let maps: Api<ConfigMap> = Api::namespaced(room.client.clone(), &room.namespace);
    let asked: ConfigMap = serde_json::from_value(json!({
        "metadata": { "name": "c" }, "data": { "a": "1" }, "immutable": true,
    }))
    .unwrap();
    maps.create(&params, &asked).await.unwrap();
    let patch = Patch::Merge(json!({ "data": { "a": "2" } }));
    assert!(refused(maps.patch("c", &PatchParams::default(), &patch).await).is_invalid());
}
