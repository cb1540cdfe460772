//! What kube's own runtime does with the API: controllers, finalizers, watchers, event recorders.

use std::{collections::BTreeSet, pin::pin, sync::Arc, time::Duration};

use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::{
    core::v1::{ConfigMap, Event as CoreEvent},
    events::v1::Event,
};
use kube::{
    Api, Client, Resource as _, ResourceExt as _,
    api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams},
    runtime::{
        controller::{Action, Controller},
        events::{EventType, Recorder, Reporter},
        finalizer::{Event as Finalizer, finalizer},
        wait::{await_condition, conditions},
        watcher,
    },
};
use serde_json::json;

use super::{Room, Shaped as _, Widget, a_widget, names};

/// Makes one ConfigMap per widget and reports; the finalizer clears up what owner references cannot.
async fn reconcile(widget: Arc<Widget>, client: Arc<Client>) -> Result<Action, Arc<kube::Error>> {
    let namespace = widget.namespace().unwrap_or_default();
    let widgets: Api<Widget> = Api::namespaced((*client).clone(), &namespace);
    let maps: Api<ConfigMap> = Api::namespaced((*client).clone(), &namespace);
    let name = widget.name_any();
    let turn = finalizer(
        &widgets,
        "suite.example.org/operator",
        widget,
        |event| async {
            match event {
                Finalizer::Apply(widget) => {
                    let map = ConfigMap {
                        metadata: ObjectMeta {
                            name: Some(name.clone()),
                            owner_references: widget
                                .controller_owner_ref(&())
                                .map(|owner| vec![owner]),
                            ..ObjectMeta::default()
                        },
                        ..ConfigMap::default()
                    };
                    match maps.create(&PostParams::default(), &map).await {
                        Err(kube::Error::Api(status)) if status.is_already_exists() => {}
                        other => drop(other?),
                    }
                    let done = Patch::Merge(json!({ "status": { "phase": "Done" } }));
                    widgets
                        .patch_status(&name, &PatchParams::default(), &done)
                        .await?;
                }
                Finalizer::Cleanup(_) => {
                    let cleared = maps.delete(&name, &DeleteParams::default()).await;
                    drop(cleared);
                }
            }
            Ok::<_, kube::Error>(Action::await_change())
        },
    );
    match turn.await {
        Ok(action) => Ok(action),
        Err(
            kube::runtime::finalizer::Error::ApplyFailed(error)
            | kube::runtime::finalizer::Error::CleanupFailed(error)
            | kube::runtime::finalizer::Error::AddFinalizer(error)
            | kube::runtime::finalizer::Error::RemoveFinalizer(error),
        ) => Err(Arc::new(error)),
        Err(other) => panic!("{other}"),
    }
}

pub(crate) async fn a_controller_with_a_finalizer_does_its_work(client: Client) {
    let room = Room::open(client).await;
    let maps: Api<ConfigMap> = Api::namespaced(room.client.clone(), &room.namespace);
    let controller = Controller::new(room.widgets.clone(), watcher::Config::default())
        .owns(maps.clone(), watcher::Config::default())
        .run(
            reconcile,
            |_, _, _| Action::requeue(Duration::from_millis(100)),
            Arc::new(room.client.clone()),
        )
        .for_each(|_| async {});
    let story = async {
        let made = room.create(a_widget("w")).await;
        let done = |found: Option<&Widget>| {
            found.is_some_and(|widget| {
                widget
                    .status
                    .as_ref()
                    .is_some_and(|status| status.phase.is_some())
            })
        };
        await_condition(room.widgets.clone(), "w", done)
            .await
            .unwrap();
        let map = maps.get("w").await.unwrap();
        // What is taken from the operator comes back: the watch on owned objects triggers it.
        maps.delete("w", &DeleteParams::default()).await.unwrap();
        let back = |found: Option<&ConfigMap>| found.is_some_and(|other| other.uid() != map.uid());
        await_condition(maps.clone(), "w", back).await.unwrap();
        room.widgets
            .delete("w", &DeleteParams::default())
            .await
            .unwrap();
        let uid = made.uid().unwrap();
        await_condition(room.widgets.clone(), "w", conditions::is_deleted(&uid))
            .await
            .unwrap();
        assert!(maps.get_opt("w").await.unwrap().is_none());
    };
    let mut controller = pin!(controller);
    tokio::select! {
        () = &mut controller => panic!("the controller ended"),
        () = story => {}
    }
}

/// Follows a watcher until it has seen `the-end`, and returns the names it then knows.
pub(crate) async fn mirror(widgets: Api<Widget>, config: watcher::Config) -> BTreeSet<String> {
    let mut known = BTreeSet::new();
    let mut fresh = BTreeSet::new();
    let mut events = pin!(watcher(widgets, config));
    loop {
        let event = match events.try_next().await {
            Ok(event) => event.expect("watchers do not end"),
            // Watchers recover by themselves when they are polled again.
            Err(_) => continue,
        };
        match event {
            watcher::Event::Init => fresh.clear(),
            watcher::Event::InitApply(widget) => drop(fresh.insert(widget.name_any())),
            watcher::Event::InitDone => known = std::mem::take(&mut fresh),
            watcher::Event::Apply(widget) => drop(known.insert(widget.name_any())),
            watcher::Event::Delete(widget) => drop(known.remove(&widget.name_any())),
        }
        if known.contains("the-end") {
            return known;
        }
    }
}

pub(crate) async fn watchers_of_both_strategies_see_the_same(client: Client) {
    let room = Room::open(client).await;
    for name in ["a", "b", "c"] {
        room.create(a_widget(name)).await;
    }
    let paged = watcher::Config::default().page_size(2);
    let streamed = watcher::Config::default().streaming_lists();
    let story = async {
        tokio::task::yield_now().await;
        room.widgets
            .delete("b", &DeleteParams::default())
            .await
            .unwrap();
        room.create(a_widget("d").labelled("a", "b")).await;
        room.create(a_widget("the-end")).await;
    };
    let ((), paged, streamed) = futures::join!(
        story,
        mirror(room.widgets.clone(), paged),
        mirror(room.widgets.clone(), streamed),
    );
    let want: BTreeSet<String> = ["a", "c", "d", "the-end"]
        .into_iter()
        .map(str::to_owned)
        .collect();
    assert_eq!(paged, want);
    assert_eq!(streamed, want);
}

pub(crate) async fn recorded_events_are_read_through_both_apis(client: Client) {
    let room = Room::open(client).await;
    let widget = room.create(a_widget("w")).await;
    let recorder = Recorder::new(room.client.clone(), Reporter::from("suite"));
    let event = kube::runtime::events::Event {
        type_: EventType::Normal,
        reason: "Tested".to_owned(),
        note: Some("all is well".to_owned()),
        action: "Testing".to_owned(),
        secondary: None,
    };
    for _ in 0..3 {
        recorder
            .publish(&event, &widget.object_ref(&()))
            .await
            .unwrap();
    }
    let events: Api<Event> = Api::namespaced(room.client.clone(), &room.namespace);
    let params = ListParams::default().fields("regarding.name=w,reason=Tested");
    let found = events.list(&params).await.unwrap().items;
    assert_eq!(found.len(), 1, "repeats are one series");
    assert_eq!(found[0].series.as_ref().unwrap().count, 3);
    let core: Api<CoreEvent> = Api::namespaced(room.client.clone(), &room.namespace);
    let params = ListParams::default().fields("involvedObject.kind=Widget,involvedObject.name=w");
    let seen = core.list(&params).await.unwrap().items;
    assert_eq!(names(&seen), names(&found));
    assert_eq!(seen[0].message.as_deref(), Some("all is well"));
    assert_eq!(seen[0].involved_object.uid, widget.uid());
}
