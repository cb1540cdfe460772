//! The fault layer: what it does to requests and watches, and that it does the same twice.

use std::time::Duration;

use futures::{TryStreamExt as _, future};
use kruntimes_apiserver::fault::{FaultCounts, FaultLayer, FaultPlan};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchParams},
};
use serde_json::json;
use tokio::time::Instant;

use crate::{
    embedded::server,
    suite::{Room, Widget, a_widget, operators::mirror, refused, watches::told},
};

fn rate(set: impl FnOnce(&mut FaultPlan)) -> FaultPlan {
    let mut plan = FaultPlan::default();
    set(&mut plan);
    plan
}

/// Opens a room through a client without faults, and returns a troubled client's view of it.
async fn troubled(plan: FaultPlan) -> (Room, Api<Widget>, FaultLayer) {
    let server = server();
    let room = Room::open(server.client()).await;
    let layer = FaultLayer::new(3, plan).labelled("test");
    let widgets = Api::namespaced(server.client_with(&layer), &room.namespace);
    (room, widgets, layer)
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_is_work_done_and_a_lost_request_is_not() {
    let (room, widgets, layer) = troubled(rate(|plan| plan.lost_answer = 1.0)).await;
    let params = PostParams::default();
    let lost = widgets
        .create(&params, &a_widget("done"))
        .await
        .unwrap_err();
    assert!(!matches!(lost, kube::Error::Api(_)), "{lost}");
    assert!(room.widgets.get_opt("done").await.unwrap().is_some());
    layer
        .handle()
        .set_plan(rate(|plan| plan.lost_request = 1.0));
    assert!(widgets.create(&params, &a_widget("undone")).await.is_err());
    assert!(room.widgets.get_opt("undone").await.unwrap().is_none());
    let counts = layer.handle().counts();
    assert_eq!(
        (counts.lost_answers, counts.lost_requests, counts.total()),
        (1, 1, 2)
    );
}

#[tokio::test(start_paused = true)]
async fn refusals_look_like_those_of_the_server() {
    let (room, widgets, layer) = troubled(rate(|plan| plan.conflict = 1.0)).await;
    room.create(a_widget("w")).await;
    let patch = Patch::Merge(json!({ "spec": { "size": 3 } }));
    let status = refused(widgets.patch("w", &PatchParams::default(), &patch).await);
    assert!(status.is_conflict());
    assert!(
        status.message.contains("widgets.suite.example.org \"w\""),
        "{}",
        status.message
    );
    assert!(widgets.get("w").await.is_ok(), "reads do not conflict");
    for (plan, code) in [
        (rate(|plan| plan.too_many_requests = 1.0), 429),
        (rate(|plan| plan.internal_error = 1.0), 500),
    ] {
        layer.handle().set_plan(plan);
        assert_eq!(refused(widgets.get("w").await).code, code);
    }
    room.create(a_widget("x")).await;
    layer
        .handle()
        .set_plan(rate(|plan| plan.page_expired = 1.0));
    let params = ListParams::default().limit(1);
    let token = widgets
        .list(&params)
        .await
        .unwrap()
        .metadata
        .continue_
        .unwrap();
    assert_eq!(
        refused(widgets.list(&params.continue_token(&token)).await).code,
        410
    );
    layer.handle().set_active(false);
    assert!(widgets.delete("w", &DeleteParams::default()).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn delays_pass_on_the_paused_clock() {
    let plan = rate(|plan| {
        plan.delay = 1.0;
        plan.delay_for = Duration::from_secs(5)..=Duration::from_secs(6);
    });
    let (_room, widgets, _) = troubled(plan).await;
    let before = Instant::now();
    widgets.list(&ListParams::default()).await.unwrap();
    let waited = before.elapsed();
    assert!((5..7).contains(&waited.as_secs()), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn watches_are_cut_stalled_and_expired() {
    let plan = rate(|plan| {
        plan.watch_cut = 1.0;
        plan.watch_cut_after = Duration::from_secs(3)..=Duration::from_secs(4);
    });
    let (room, widgets, layer) = troubled(plan).await;
    let version = room.create(a_widget("w")).await.resource_version().unwrap();
    let before = Instant::now();
    let watch = widgets
        .watch(&WatchParams::default(), &version)
        .await
        .unwrap();
    drop(watch.try_collect::<Vec<_>>().await);
    assert!(
        (3..5).contains(&before.elapsed().as_secs()),
        "{:?}",
        before.elapsed()
    );
    assert_eq!(layer.handle().counts().watches_cut, 1);

    layer
        .handle()
        .set_plan(rate(|plan| plan.watch_expired = 1.0));
    let watch = widgets
        .watch(&WatchParams::default(), &version)
        .await
        .unwrap();
    let seen: Vec<_> = watch
        .map_ok(|event| told(&event))
        .try_collect()
        .await
        .unwrap();
    assert_eq!(seen, ["ERROR 410"]);

    layer.handle().set_plan(rate(|plan| {
        plan.watch_stall = 1.0;
        plan.delay_for = Duration::from_secs(9)..=Duration::from_secs(9);
    }));
    let before = Instant::now();
    let watch = widgets.watch(&WatchParams::default(), "0").await.unwrap();
    let first = std::pin::pin!(watch).try_next().await.unwrap().unwrap();
    assert_eq!(told(&first), "ADDED w");
    assert_eq!(before.elapsed().as_secs(), 9);
}

#[tokio::test(start_paused = true)]
async fn a_replaying_watch_tells_again_what_is_known() {
    let (room, widgets, layer) = troubled(rate(|plan| {
        plan.watch_replay = 1.0;
        plan.watch_replay_by = 2..=2;
    }))
    .await;
    room.create(a_widget("a")).await;
    room.create(a_widget("b")).await;
    let version = room.create(a_widget("c")).await.resource_version().unwrap();
    room.create(a_widget("d")).await;
    let params = WatchParams::default().timeout(1);
    let watch = widgets.watch(&params, &version).await.unwrap();
    let seen: Vec<_> = watch
        .map_ok(|event| told(&event))
        .try_collect()
        .await
        .unwrap();
    assert_eq!(seen[..3], ["ADDED b", "ADDED c", "ADDED d"], "{seen:?}");
    assert_eq!(layer.handle().counts().watch_replays, 1);
}

fn harsh() -> FaultPlan {
    FaultPlan {
        delay: 0.3,
        lost_request: 0.1,
        lost_answer: 0.1,
        conflict: 0.1,
        too_many_requests: 0.1,
        internal_error: 0.1,
        watch_expired: 0.2,
        watch_cut: 0.5,
        watch_cut_after: Duration::from_millis(10)..=Duration::from_secs(2),
        watch_stall: 0.3,
        watch_replay: 0.2,
        ..FaultPlan::default()
    }
}

/// Runs one client through a bad day and returns what it met.
async fn bad_day(seed: u64) -> (Vec<String>, FaultCounts) {
    let server = server();
    let room = Room::open(server.client()).await;
    let layer = FaultLayer::new(seed, harsh());
    let widgets: Api<Widget> = Api::namespaced(server.client_with(&layer), &room.namespace);
    let mut met = Vec::new();
    for round in 0..60 {
        let name = format!("w{}", round % 7);
        let made = widgets
            .create(&PostParams::default(), &a_widget(&name))
            .await;
        let gone = widgets.delete(&name, &DeleteParams::default()).await;
        met.push(format!("{:?} {:?}", made.err(), gone.err()));
    }
    (met, layer.handle().counts())
}

#[tokio::test(start_paused = true)]
async fn equal_seeds_bring_equal_trouble() {
    let one = bad_day(11).await;
    assert_eq!(one, bad_day(11).await);
    assert_ne!(one, bad_day(12).await);
    let counts = one.1;
    assert!(counts.delays > 0 && counts.lost_requests > 0 && counts.lost_answers > 0);
    assert!(counts.conflicts > 0 && counts.internal_errors > 0);
}

#[tokio::test(start_paused = true)]
async fn a_watcher_survives_a_bad_day() {
    for seed in 0..20 {
        let server = server();
        let room = Room::open(server.client()).await;
        let layer = FaultLayer::new(seed, harsh());
        let seen = Api::namespaced(server.client_with(&layer), &room.namespace);
        let story = async {
            for round in 0..40_u64 {
                let name = format!("w{}", round % 5);
                if room
                    .widgets
                    .delete(&name, &DeleteParams::default())
                    .await
                    .is_err()
                {
                    room.create(a_widget(&name)).await;
                }
                tokio::time::sleep(Duration::from_millis(100 * (round % 7))).await;
            }
            room.create(a_widget("the-end")).await;
        };
        let (known, ()) = future::join(
            mirror(seen, kube::runtime::watcher::Config::default()),
            story,
        )
        .await;
        let listed = room.widgets.list(&ListParams::default()).await.unwrap();
        let want = listed
            .items
            .iter()
            .map(kube::ResourceExt::name_any)
            .collect();
        assert_eq!(known, want, "seed {seed}");
    }
}
