//! Completed Runs are deleted when their time is over, and not before.

use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::World;

impl World {
    async fn finished_run(&self, name: &str, ttl: Option<i32>) {
        self.run(name, json!({"ttlSecondsAfterFinished": ttl}))
            .await;
        let end = json!({"phase": "Succeeded", "completionTime": self.clock.now()});
        self.report(name, end).await;
    }

    async fn is_there(&self, name: &str) -> bool {
        self.runs().get_opt(name).await.unwrap().is_some()
    }
}

#[tokio::test(start_paused = true)]
async fn n_209_a_run_goes_exactly_when_its_time_is_over() {
    let world = World::new().await;
    world.finished_run("short", Some(60)).await;
    world.finished_run("kept", None).await;
    world
        .run("open", json!({"ttlSecondsAfterFinished": 1}))
        .await;
    world.pass(59).await;
    assert!(world.is_there("short").await);
    world.pass(2).await;
    assert!(!world.is_there("short").await);
    world.pass(100_000).await;
    assert!(world.is_there("kept").await);
    assert!(world.is_there("open").await);
}

#[tokio::test(start_paused = true)]
async fn n_209_a_changed_ttl_wins() {
    let world = World::new().await;
    world.finished_run("longer", Some(60)).await;
    world.finished_run("sooner", Some(6000)).await;
    world.finished_run("for-ever", Some(60)).await;
    world.pass(30).await;
    for (name, ttl) in [
        ("longer", json!(600)),
        ("sooner", json!(40)),
        ("for-ever", json!(null)),
    ] {
        let patch = Patch::Merge(json!({"spec": {"ttlSecondsAfterFinished": ttl}}));
        let params = PatchParams::default();
        world.runs().patch(name, &params, &patch).await.unwrap();
    }
    world.pass(11).await;
    assert!(!world.is_there("sooner").await);
    world.pass(500).await;
    assert!(world.is_there("longer").await);
    world.pass(100).await;
    assert!(!world.is_there("longer").await);
    assert!(world.is_there("for-ever").await);
}

#[tokio::test(start_paused = true)]
async fn n_209_what_expired_while_nobody_looked_goes_at_the_next_start() {
    let mut world = World::new().await;
    world.finished_run("r", Some(60)).await;
    world.stop().await;
    world.pass(600).await;
    assert!(world.is_there("r").await);
    let world = world.started();
    world.until_gone(world.runs(), "r").await;
}
