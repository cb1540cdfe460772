//! Watches: what is told, in which order, and when it ends.

use std::{collections::BTreeMap, pin::pin};

use futures::{Stream, TryStreamExt as _};
use kube::{
    Client, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams, WatchEvent, WatchParams},
};
use serde_json::json;

use super::{Room, Shaped as _, Widget, a_widget};

/// Writes an event as `ADDED name`.
pub(crate) fn told(event: &WatchEvent<Widget>) -> String {
    match event {
        WatchEvent::Added(widget) => format!("ADDED {}", widget.name_any()),
        WatchEvent::Modified(widget) => format!("MODIFIED {}", widget.name_any()),
        WatchEvent::Deleted(widget) => format!("DELETED {}", widget.name_any()),
        WatchEvent::Bookmark(mark) if mark.metadata.annotations.is_empty() => "BOOKMARK".to_owned(),
        WatchEvent::Bookmark(mark) => format!("BOOKMARK {:?}", mark.metadata.annotations),
        WatchEvent::Error(status) => format!("ERROR {}", status.code),
    }
}

async fn take(
    events: &mut (impl Stream<Item = Result<WatchEvent<Widget>, kube::Error>> + Unpin),
    count: usize,
) -> Vec<String> {
    let mut seen = Vec::new();
    while seen.len() < count {
        let event = events.try_next().await.unwrap().expect("the watch goes on");
        seen.push(told(&event));
    }
    seen
}

pub(crate) async fn a_watch_tells_everything_after_its_version(client: Client) {
    let room = Room::open(client).await;
    let made = room.create(a_widget("a")).await;
    room.create(a_widget("b")).await;
    let version = made.resource_version().unwrap();
    let params = WatchParams::default();
    let mut events = pin!(room.widgets.watch(&params, &version).await.unwrap());
    let patch = Patch::Merge(json!({ "spec": { "size": 2 } }));
    room.widgets
        .patch("a", &PatchParams::default(), &patch)
        .await
        .unwrap();
    room.widgets
        .delete("a", &DeleteParams::default())
        .await
        .unwrap();
    assert_eq!(
        take(&mut events, 3).await,
        ["ADDED b", "MODIFIED a", "DELETED a"]
    );
}

pub(crate) async fn a_deletion_is_told_under_its_own_version(client: Client) {
    let room = Room::open(client).await;
    let made = room.create(a_widget("a")).await;
    let version = made.resource_version().unwrap();
    room.widgets
        .delete("a", &DeleteParams::default())
        .await
        .unwrap();
    let mut events = pin!(
        room.widgets
            .watch(&WatchParams::default(), &version)
            .await
            .unwrap()
    );
    let event = events.try_next().await.unwrap().unwrap();
    let WatchEvent::Deleted(last) = event else {
        panic!("{event:?}")
    };
    assert_eq!(last.uid(), made.uid());
    assert_ne!(last.resource_version(), made.resource_version());
    // Going on from the deletion tells what came after it, and only that.
    room.create(a_widget("b")).await;
    let version = last.resource_version().unwrap();
    let mut events = pin!(
        room.widgets
            .watch(&WatchParams::default(), &version)
            .await
            .unwrap()
    );
    assert_eq!(take(&mut events, 1).await, ["ADDED b"]);
}

pub(crate) async fn objects_come_and_go_with_the_selector(client: Client) {
    let room = Room::open(client).await;
    let made = room.create(a_widget("w").labelled("app", "x")).await;
    let version = made.resource_version().unwrap();
    let params = WatchParams::default().labels("app=y");
    let mut labelled = pin!(room.widgets.watch(&params, &version).await.unwrap());
    let params = WatchParams::default().fields("spec.color=blue");
    let mut colored = pin!(room.widgets.watch(&params, &version).await.unwrap());
    let mut last = made;
    for (app, color) in [("y", "red"), ("y", "blue"), ("z", "blue"), ("y", "red")] {
        let patch = Patch::Merge(json!({
            "metadata": { "labels": { "app": app } }, "spec": { "color": color },
        }));
        last = room
            .widgets
            .patch("w", &PatchParams::default(), &patch)
            .await
            .unwrap();
    }
    room.widgets
        .delete("w", &DeleteParams::default())
        .await
        .unwrap();
    let seen = take(&mut labelled, 5).await;
    assert_eq!(
        seen,
        ["ADDED w", "MODIFIED w", "DELETED w", "ADDED w", "DELETED w"]
    );
    assert_eq!(take(&mut colored, 2).await, ["ADDED w", "MODIFIED w"]);
    let left = colored.try_next().await.unwrap().unwrap();
    let WatchEvent::Deleted(left) = left else {
        panic!("{left:?}")
    };
    assert_eq!(left.spec.color, "blue", "the last state that matched");
    assert_eq!(left.resource_version(), last.resource_version());
}

pub(crate) async fn without_a_version_a_watch_starts_with_what_exists(client: Client) {
    let room = Room::open(client).await;
    room.create(a_widget("a")).await;
    room.create(a_widget("b")).await;
    let mut events = pin!(
        room.widgets
            .watch(&WatchParams::default(), "0")
            .await
            .unwrap()
    );
    let mut seen = take(&mut events, 2).await;
    // Kubernetes tells them in any order.
    seen.sort();
    assert_eq!(seen, ["ADDED a", "ADDED b"]);
    let params = WatchParams::default().initial_events();
    let mut events = pin!(room.widgets.watch(&params, "0").await.unwrap());
    let seen = take(&mut events, 3).await;
    assert_eq!(seen[2], r#"BOOKMARK {"k8s.io/initial-events-end": "true"}"#);
    room.create(a_widget("c")).await;
    assert_eq!(take(&mut events, 1).await, ["ADDED c"]);
}

pub(crate) async fn a_watch_ends_when_its_time_is_over(client: Client) {
    let room = Room::open(client).await;
    let made = room.create(a_widget("a")).await;
    let params = WatchParams::default().timeout(2);
    let version = made.resource_version().unwrap();
    let events = room.widgets.watch(&params, &version).await.unwrap();
    let seen: Vec<WatchEvent<Widget>> = events.try_collect().await.unwrap();
    assert!(
        seen.iter().all(|event| told(event) == "BOOKMARK"),
        "{seen:?}"
    );
}

/// Carries out an event on what is known, which it must fit.
fn learn(known: &mut BTreeMap<String, Widget>, event: WatchEvent<Widget>) {
    match event {
        WatchEvent::Added(widget) => {
            let before = known.insert(widget.name_any(), widget);
            assert!(before.is_none(), "added twice: {before:?}");
        }
        WatchEvent::Modified(widget) => {
            let before = known.insert(widget.name_any(), widget);
            assert!(before.is_some(), "modified what was not known");
        }
        WatchEvent::Deleted(widget) => {
            let before = known.remove(&widget.name_any());
            assert!(before.is_some(), "deleted what was not known");
        }
        WatchEvent::Bookmark(_) => {}
        WatchEvent::Error(status) => panic!("{status:?}"),
    }
}

pub(crate) async fn nothing_is_lost_between_list_and_watch(client: Client) {
    let room = Room::open(client).await;
    let writer = async {
        for round in 0..20 {
            for name in ["a", "b", "c"] {
                let name = format!("{name}{}", round % 4);
                if room
                    .widgets
                    .delete(&name, &DeleteParams::default())
                    .await
                    .is_err()
                {
                    room.create(a_widget(&name)).await;
                }
                let patch = Patch::Merge(json!({ "spec": { "size": round } }));
                let _ = room
                    .widgets
                    .patch(&name, &PatchParams::default(), &patch)
                    .await;
            }
        }
        room.create(a_widget("the-end")).await;
    };
    let reader = async {
        let listed = room.widgets.list(&ListParams::default()).await.unwrap();
        let mut known: BTreeMap<String, Widget> = listed
            .items
            .into_iter()
            .map(|widget| (widget.name_any(), widget))
            .collect();
        let version = listed.metadata.resource_version.unwrap();
        let mut events = pin!(
            room.widgets
                .watch(&WatchParams::default(), &version)
                .await
                .unwrap()
        );
        while !known.contains_key("the-end") {
            learn(&mut known, events.try_next().await.unwrap().unwrap());
        }
        known
    };
    let ((), known) = futures::join!(writer, reader);
    let listed = room.widgets.list(&ListParams::default()).await.unwrap();
    assert_eq!(known.into_values().collect::<Vec<_>>(), listed.items);
}
