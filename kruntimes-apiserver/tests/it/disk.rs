//! What a data directory promises: everything seen is there again, and nothing else passes for it.

use std::{fs, path::Path, sync::Arc};

use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::Namespace;
use kruntimes_apiserver::{ApiServer, BuildError, SeededIds, StoreError};
use kube::{
    Api, CustomResourceExt as _, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams},
    runtime::wait::{await_condition, conditions},
};
use serde_json::json;

use crate::suite::{Room, Shaped as _, Widget, a_widget, watches::told};

fn try_open(directory: &Path, seed: u64) -> Result<ApiServer, BuildError> {
    ApiServer::builder()
        .crd(Widget::crd())
        .ids(Arc::new(SeededIds::new(seed)))
        .data_dir(directory)
        .build()
}

fn open(directory: &Path, seed: u64) -> ApiServer {
    try_open(directory, seed).unwrap()
}

fn refusal(directory: &Path) -> StoreError {
    match try_open(directory, 0) {
        Err(BuildError::Store(error)) => error,
        Err(other) => panic!("refused for another reason: {other}"),
        Ok(_) => panic!("opened"),
    }
}

/// Lets go of a server; the workers of its clients do so when they run.
async fn close(server: ApiServer) {
    drop(server);
    tokio::task::yield_now().await;
}

#[tokio::test]
async fn everything_is_there_again_under_the_same_versions() {
    let directory = tempfile::tempdir().unwrap();
    let server = open(directory.path(), 1);
    let room = Room::open(server.client()).await;
    for name in ["a", "b", "c"] {
        room.create(a_widget(name).labelled("name", name)).await;
    }
    let patch = Patch::Merge(json!({ "status": { "phase": "Ready" } }));
    room.widgets
        .patch_status("b", &PatchParams::default(), &patch)
        .await
        .unwrap();
    room.widgets
        .delete("c", &DeleteParams::default())
        .await
        .unwrap();
    let (before, version) = (server.dump(), server.resource_version());
    let namespace = room.namespace.clone();
    drop(room);
    close(server).await;

    let server = open(directory.path(), 2);
    assert_eq!(server.dump(), before);
    assert_eq!(
        server.resource_version(),
        version,
        "the removal came last and left nothing but its version"
    );
    let widgets: Api<Widget> = Api::namespaced(server.client(), &namespace);
    let chosen = widgets
        .list(&ListParams::default().labels("name=b"))
        .await
        .unwrap();
    assert_eq!(chosen.items.len(), 1, "selectors read what was stored");
    let made = widgets
        .create(&PostParams::default(), &a_widget("d"))
        .await
        .unwrap();
    assert_eq!(made.resource_version(), Some((version + 1).to_string()));
}

#[tokio::test]
async fn a_watch_from_an_earlier_life_is_told_to_list_again() {
    let directory = tempfile::tempdir().unwrap();
    let server = open(directory.path(), 1);
    let room = Room::open(server.client()).await;
    let made = room.create(a_widget("a")).await;
    let last = room.create(a_widget("b")).await;
    let namespace = room.namespace.clone();
    drop(room);
    close(server).await;

    let server = open(directory.path(), 2);
    let widgets: Api<Widget> = Api::namespaced(server.client(), &namespace);
    let version = made.resource_version().unwrap();
    let events = widgets.watch(&WatchParams::default(), &version).await;
    let seen: Vec<String> = events
        .unwrap()
        .map_ok(|event| told(&event))
        .try_collect()
        .await
        .unwrap();
    assert_eq!(seen, ["ERROR 410"]);
    let version = last.resource_version().unwrap();
    let events = widgets.watch(&WatchParams::default(), &version).await;
    let mut events = events.unwrap().boxed();
    widgets
        .create(&PostParams::default(), &a_widget("c"))
        .await
        .unwrap();
    let event = events.next().await.unwrap().unwrap();
    assert!(
        matches!(&event, WatchEvent::Added(widget) if widget.name_any() == "c"),
        "from the last version of the earlier life nothing is missing: {event:?}"
    );
}

#[tokio::test]
async fn what_was_to_follow_its_owner_follows_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let server = open(directory.path(), 1);
    let room = Room::open(server.client()).await;
    let owner = room.create(a_widget("owner")).await;
    let dependent = room.create(a_widget("dependent").owned_by(&owner)).await;
    room.create(a_widget("leaf").owned_by(&dependent)).await;
    room.create(a_widget("bystander")).await;
    // No collector runs, as when the process is killed right after the answer.
    room.widgets
        .delete("owner", &DeleteParams::default())
        .await
        .unwrap();
    let namespace = room.namespace.clone();
    drop(room);
    close(server).await;

    let server = open(directory.path(), 2);
    let widgets: Api<Widget> = Api::namespaced(server.client(), &namespace);
    assert!(widgets.get_opt("leaf").await.unwrap().is_some());
    let _background = server.spawn_background();
    let uid = widgets.get("leaf").await.unwrap().uid().unwrap();
    await_condition(widgets.clone(), "leaf", conditions::is_deleted(&uid))
        .await
        .unwrap();
    let left: Vec<String> = widgets
        .list(&ListParams::default())
        .await
        .unwrap()
        .iter()
        .map(ResourceExt::name_any)
        .collect();
    assert_eq!(left, ["bystander"]);
}

#[tokio::test]
async fn a_namespace_goes_on_terminating_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let server = open(directory.path(), 1);
    let room = Room::open(server.client()).await;
    room.create(a_widget("a")).await;
    let name = room.namespace.clone();
    let namespaces: Api<Namespace> = Api::all(server.client());
    let uid = namespaces.get(&name).await.unwrap().uid().unwrap();
    namespaces
        .delete(&name, &DeleteParams::default())
        .await
        .unwrap();
    drop((room, namespaces));
    close(server).await;

    let server = open(directory.path(), 2);
    let namespaces: Api<Namespace> = Api::all(server.client());
    let phase = namespaces.get(&name).await.unwrap().status.unwrap().phase;
    assert_eq!(phase.as_deref(), Some("Terminating"));
    let _background = server.spawn_background();
    await_condition(namespaces, &name, conditions::is_deleted(&uid))
        .await
        .unwrap();
}

#[tokio::test]
async fn a_kind_that_is_no_longer_served_is_named_and_kept() {
    let directory = tempfile::tempdir().unwrap();
    let server = open(directory.path(), 1);
    let room = Room::open(server.client()).await;
    room.create(a_widget("a")).await;
    drop(room);
    close(server).await;

    let refused = ApiServer::builder().data_dir(directory.path()).build();
    let Err(BuildError::Store(refused)) = refused else {
        panic!("opened without the kind");
    };
    let StoreError::Unserved { resource, .. } = &refused else {
        panic!("{refused}");
    };
    assert_eq!(resource, "widgets.suite.example.org");
    let server = open(directory.path(), 2);
    assert_eq!(
        server.snapshot().objects("widgets.suite.example.org").len(),
        1
    );
}

#[tokio::test]
async fn two_servers_cannot_have_one_directory() {
    let directory = tempfile::tempdir().unwrap();
    let server = open(directory.path(), 1);
    let refused = refusal(directory.path());
    let holder = format!("in use by process {}", std::process::id());
    assert!(refused.to_string().contains(&holder), "{refused}");
    close(server).await;
    open(directory.path(), 2);
}

#[tokio::test]
async fn what_is_not_a_store_is_refused_and_left_alone() {
    for content in [
        Vec::new(),
        b"nothing of ours".to_vec(),
        vec![0; 100_000],
        b"redb\x1a\x0a\xa9\x0d\x0a".to_vec(),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("objects.redb");
        fs::write(&file, &content).unwrap();
        let refused = refusal(directory.path());
        assert!(
            matches!(
                refused,
                StoreError::Foreign { .. } | StoreError::Damaged { .. }
            ),
            "{refused}"
        );
        assert!(refused.to_string().contains("objects.redb"), "{refused}");
        assert_eq!(fs::read(&file).unwrap(), content);
    }
}

#[tokio::test]
async fn an_older_or_missing_file_is_not_taken_for_the_acknowledged_one() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("objects.redb");
    let server = open(directory.path(), 1);
    close(server).await;
    let early = fs::read(&file).unwrap();
    let server = open(directory.path(), 1);
    let room = Room::open(server.client()).await;
    room.create(a_widget("a")).await;
    drop(room);
    close(server).await;

    let late = fs::read(&file).unwrap();
    fs::write(&file, early).unwrap();
    let refused = refusal(directory.path());
    assert!(matches!(refused, StoreError::Lost { .. }), "{refused}");
    fs::remove_file(&file).unwrap();
    let refused = refusal(directory.path());
    assert!(
        matches!(refused, StoreError::Lost { found: 0, .. }),
        "{refused}"
    );
    fs::write(&file, late).unwrap();
    open(directory.path(), 2);
}

#[tokio::test]
async fn a_start_that_was_killed_half_way_is_begun_anew() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("objects.redb.new"), [7; 5000]).unwrap();
    let server = open(directory.path(), 1);
    assert!(!directory.path().join("objects.redb.new").exists());
    assert_eq!(server.snapshot().objects("namespaces").len(), 2);
}
