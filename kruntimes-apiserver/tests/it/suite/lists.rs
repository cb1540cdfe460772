//! Lists, pages and selectors.

use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::{
    Api, Client,
    api::{ListParams, ObjectMeta, PartialObjectMeta, PostParams},
    discovery,
};
use serde_json::json;

use super::{Room, Shaped as _, Widget, a_widget, names, refused};

pub(crate) async fn pages_show_the_state_of_the_first_one(client: Client) {
    let room = Room::open(client).await;
    for name in ["a", "b", "c", "d", "e"] {
        room.create(a_widget(name)).await;
    }
    let mut params = ListParams::default().limit(2);
    let first = room.widgets.list(&params).await.unwrap();
    assert_eq!(names(&first.items), ["a", "b"]);
    assert_eq!(first.metadata.remaining_item_count, Some(3));
    // The world moves on between the pages.
    room.widgets
        .delete("c", &kube::api::DeleteParams::default())
        .await
        .unwrap();
    room.create(a_widget("bb")).await;
    let mut seen = names(&first.items);
    let mut token = first.metadata.continue_;
    while let Some(next) = token.filter(|token| !token.is_empty()) {
        params = params.continue_token(&next);
        let page = room.widgets.list(&params).await.unwrap();
        assert_eq!(
            page.metadata.resource_version,
            first.metadata.resource_version
        );
        seen.extend(names(&page.items));
        token = page.metadata.continue_;
    }
    assert_eq!(seen, ["a", "b", "c", "d", "e"]);
    let now = room.widgets.list(&ListParams::default()).await.unwrap();
    assert_eq!(names(&now.items), ["a", "b", "bb", "d", "e"]);
}

pub(crate) async fn selectors_choose(client: Client) {
    let room = Room::open(client).await;
    room.create(a_widget("a").labelled("app", "x").labelled("tier", "1"))
        .await;
    room.create(a_widget("b").labelled("app", "y").colored("blue"))
        .await;
    room.create(a_widget("c").colored("blue")).await;
    let in_namespace = format!("metadata.namespace={}", room.namespace);
    for (labels, fields, want) in [
        ("app=x", "", "a"),
        ("app!=x", "", "b c"),
        ("app in (x,y),!tier", "", "b"),
        ("app notin (x)", "", "b c"),
        ("app", "", "a b"),
        ("", "metadata.name=b", "b"),
        ("", "metadata.name!=b", "a c"),
        ("", in_namespace.as_str(), "a b c"),
        ("", "spec.color=blue", "b c"),
        ("app", "spec.color=blue", "b"),
    ] {
        let params = ListParams::default().labels(labels).fields(fields);
        let found = room.widgets.list(&params).await.unwrap();
        assert_eq!(names(&found.items).join(" "), want, "{labels} {fields}");
    }
    let unknown = room
        .widgets
        .list(&ListParams::default().fields("spec.size=1"))
        .await;
    assert_eq!(refused(unknown).code, 400);
}

pub(crate) async fn all_namespaces_are_listed_together(client: Client) {
    let (here, there) = (
        Room::open(client.clone()).await,
        Room::open(client.clone()).await,
    );
    here.create(a_widget("w").labelled("both", &here.namespace))
        .await;
    there
        .create(a_widget("w").labelled("both", &here.namespace))
        .await;
    let all: Api<Widget> = Api::all(client);
    let params = ListParams::default().labels(&format!("both={}", here.namespace));
    assert_eq!(all.list(&params).await.unwrap().items.len(), 2);
    assert_eq!(here.widgets.list(&params).await.unwrap().items.len(), 1);
}

pub(crate) async fn metadata_alone_can_be_asked_for(client: Client) {
    let room = Room::open(client).await;
    let made = room.create(a_widget("w").labelled("a", "b")).await;
    let one: PartialObjectMeta<Widget> = room.widgets.get_metadata("w").await.unwrap();
    assert_eq!(one.metadata, made.metadata);
    let all = room
        .widgets
        .list_metadata(&ListParams::default())
        .await
        .unwrap();
    assert_eq!(all.items[0].metadata, made.metadata);
}

pub(crate) async fn discovery_finds_every_resource(client: Client) {
    let found = discovery::Discovery::new(client.clone())
        .run()
        .await
        .unwrap();
    let gvk = kube::core::GroupVersionKind::gvk("suite.example.org", "v1", "Widget");
    let (resource, capabilities) = found.resolve_gvk(&gvk).unwrap();
    assert_eq!(resource.plural, "widgets");
    assert!(capabilities.supports_operation(discovery::verbs::WATCH));
    assert!(
        capabilities
            .subresources
            .iter()
            .any(|(sub, _)| sub.plural == "status")
    );
    for (group, kind) in [
        ("", "Pod"),
        ("", "Event"),
        ("events.k8s.io", "Event"),
        ("apps", "Deployment"),
        ("coordination.k8s.io", "Lease"),
        ("rbac.authorization.k8s.io", "RoleBinding"),
    ] {
        let gvk = kube::core::GroupVersionKind::gvk(group, "v1", kind);
        assert!(found.resolve_gvk(&gvk).is_some(), "{group} {kind}");
    }
    assert!(!client.apiserver_version().await.unwrap().major.is_empty());
    let namespaces: Api<Namespace> = Api::all(client);
    for name in ["default", "kube-system"] {
        assert!(namespaces.get_opt(name).await.unwrap().is_some(), "{name}");
    }
}

pub(crate) async fn secrets_are_encoded_on_the_way_in(client: Client) {
    let room = Room::open(client).await;
    let secrets: Api<Secret> = Api::namespaced(room.client.clone(), &room.namespace);
    let asked = Secret {
        metadata: ObjectMeta {
            name: Some("s".to_owned()),
            ..ObjectMeta::default()
        },
        string_data: serde_json::from_value(json!({ "key": "value" })).unwrap(),
        ..Secret::default()
    };
    let made = secrets
        .create(&PostParams::default(), &asked)
        .await
        .unwrap();
    assert_eq!(made.data.unwrap()["key"].0, b"value");
    assert_eq!(made.string_data, None);
    assert_eq!(made.type_.as_deref(), Some("Opaque"));
}
