//! The restart windows of section 16: a controller dies after each of its writes.

use std::sync::atomic::Ordering;

use kruntimes_apiserver::fault::{FaultLayer, FaultPlan};

use super::*;

#[tokio::test(start_paused = true)]
async fn w_156_a_snapshot_without_status_is_continued_from() {
    let mut world = World::idle();
    world.start_mortal(1);
    world.create(diamond()).await;
    world.settle().await;
    assert!(world.status().await.jobs.is_none());
    assert_eq!(
        world
            .revisions()
            .list(&ListParams::default())
            .await
            .unwrap()
            .items
            .len(),
        1
    );
    world.kill().await;
    world.start();
    world.settle().await;
    assert_eq!(
        world
            .revisions()
            .list(&ListParams::default())
            .await
            .unwrap()
            .items
            .len(),
        1
    );
    assert_eq!(world.listed().await, ["a/s"]);
}

#[tokio::test(start_paused = true)]
async fn w_158_w_159_a_run_without_status_is_found_whatever_became_of_it() {
    for ended in [false, true] {
        let mut world = World::idle();
        // Snapshot, status, Run; the patch that records the Run is lost.
        world.start_mortal(3);
        world.create(diamond()).await;
        world.settle().await;
        assert_eq!(world.phase().await, WorkflowRunPhase::Pending);
        assert_eq!(world.listed().await, ["a/s"]);
        world.kill().await;
        if ended {
            world
                .end(
                    "a",
                    "s",
                    json!({"phase": "Succeeded", "outputs": {"k": "v"}}),
                )
                .await;
        }
        world.start();
        world.settle().await;
        let step = world.status().await.jobs.unwrap()["a"].steps[0].clone();
        assert_eq!(step.run_name, Some(world.run_of("a", "s").await.name_any()));
        if ended {
            assert_eq!(step.outputs["k"], "v");
            assert_eq!(world.listed().await, ["a/s", "l/s", "r/s"]);
        } else {
            assert_eq!(world.listed().await, ["a/s"]);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn w_161_w_162_half_an_action_is_completed() {
    let jobs = || json!({"a": job(&[], &["s"]), "b": job(&[], &["s"]), "c": job(&[], &["s"])});
    let mut world = World::idle();
    world.start_mortal(4);
    world.create(jobs()).await;
    world.settle().await;
    assert_eq!(world.listed().await.len(), 2);
    world.kill().await;
    // Status, the third Run, two statuses at most; then the first of three cancellations.
    world.start();
    world.settle().await;
    assert_eq!(world.listed().await.len(), 3);
    world.kill().await;
    world.start_mortal(1);
    world.settle().await;
    world.cancel().await;
    let asked = |runs: Vec<Run>| runs.iter().filter(|run| run.spec.cancel_requested).count();
    let list = world.runs().list(&ListParams::default()).await.unwrap();
    assert_eq!(asked(list.items), 1);
    world.kill().await;
    let second = world.start_mortal(usize::MAX);
    world.settle().await;
    let list = world.runs().list(&ListParams::default()).await.unwrap();
    assert_eq!(asked(list.items), 3);
    // The two that were missing, and one status.
    assert_eq!(second.written.load(Ordering::Relaxed), 3);
}

#[tokio::test(start_paused = true)]
async fn section_16_a_crash_after_every_single_write_changes_nothing_in_the_end() {
    let undisturbed = World::new();
    undisturbed.create(diamond()).await;
    undisturbed.settle().await;
    undisturbed.execute_all().await;
    let want = essence(&undisturbed.status().await);
    for writes in 0..14 {
        let mut world = World::idle();
        world.start_mortal(writes);
        world.create(diamond()).await;
        world.settle().await;
        world.execute_all().await;
        world.kill().await;
        world.start();
        world.settle().await;
        world.execute_all().await;
        assert_eq!(
            essence(&world.status().await),
            want,
            "after {writes} writes"
        );
        assert_eq!(world.listed().await.len(), 5, "after {writes} writes");
    }
}

#[tokio::test(start_paused = true)]
async fn w_160_w_163_w_217_a_crash_after_any_write_of_calls_and_actions_changes_nothing() {
    let undisturbed = World::new();
    undisturbed.define_all().await;
    undisturbed.create(composed()).await;
    undisturbed.settle().await;
    undisturbed.execute_all().await;
    let want = essence(&undisturbed.status().await);
    assert_eq!(want["phase"], "Succeeded", "{want:#}");
    for writes in 0..32 {
        let mut world = World::idle();
        world.define_all().await;
        world.start_mortal(writes);
        world.create(composed()).await;
        world.settle().await;
        world.execute_all().await;
        world.kill().await;
        world.start();
        world.settle().await;
        world.execute_all().await;
        let got = essence(&world.status().await);
        assert_eq!(got, want, "after {writes} writes");
        assert_eq!(world.listed().await.len(), 5, "after {writes} writes");
        assert_eq!(world.workflow_run_names().await.len(), 3);
    }
}

#[tokio::test(start_paused = true)]
async fn w_160_a_child_outlives_its_template_when_its_status_is_lost() {
    let mut world = World::idle();
    world.define_all().await;
    // Snapshot, status, child; the patch that names the child is lost.
    world.start_mortal(3);
    world
        .create(json!({"ship": {"uses": "outer", "with": {"tag": "1"}}}))
        .await;
    world.settle().await;
    assert_eq!(world.workflow_run_names().await.len(), 2);
    assert_eq!(world.phase().await, WorkflowRunPhase::Pending);
    world.kill().await;
    let workflows: Api<Workflow> = Api::namespaced(world.client.clone(), "default");
    let params = kube::api::DeleteParams::default();
    workflows.delete("outer", &params).await.unwrap();
    world.start();
    world.settle().await;
    world.execute_all().await;
    let status = world.status().await;
    assert_eq!(status.phase, WorkflowRunPhase::Succeeded);
    assert_eq!(status.jobs.unwrap()["ship"].outputs["url"], "outer inner 1");
}

#[tokio::test(start_paused = true)]
async fn w_164_two_controllers_create_no_second_child_of_a_call() {
    let mut world = World::new();
    world.start();
    world.define_all().await;
    world.create(composed()).await;
    world.settle().await;
    for _ in 0..10 {
        world.execute_all().await;
        tokio::time::advance(Duration::from_secs(61)).await;
        world.settle().await;
    }
    assert_eq!(world.phase().await, WorkflowRunPhase::Succeeded);
    assert_eq!(world.listed().await.len(), 5);
    assert_eq!(world.workflow_run_names().await.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn w_17_w_100_a_bad_day_fails_no_call_and_no_action() {
    for seed in [0, 1, 4] {
        let mut world = World::idle();
        world.define_all().await;
        let plan = FaultPlan {
            lost_request: 0.1,
            lost_answer: 0.2,
            conflict: 0.2,
            internal_error: 0.2,
            watch_expired: 0.1,
            watch_cut: 0.3,
            ..FaultPlan::default()
        };
        let layer = FaultLayer::new(seed, plan);
        let faults = layer.handle();
        world.start_with(world.server.client_with(&layer));
        world.create(composed()).await;
        for round in 0..60 {
            // After a while the weather clears.
            faults.set_active(round < 40);
            tokio::time::advance(Duration::from_secs(20)).await;
            world.settle().await;
            world.execute_all().await;
        }
        assert!(faults.counts().total() > 0, "seed {seed} saw no trouble");
        let status = world.status().await;
        assert_eq!(status.phase, WorkflowRunPhase::Succeeded, "seed {seed}");
        assert_eq!(world.listed().await.len(), 5, "seed {seed}");
        assert_eq!(world.workflow_run_names().await.len(), 3, "seed {seed}");
    }
}

#[tokio::test(start_paused = true)]
async fn w_164_two_controllers_at_once_create_no_duplicates() {
    let mut world = World::new();
    world.start();
    world.create(diamond()).await;
    world.settle().await;
    for _ in 0..6 {
        world.execute_all().await;
        tokio::time::advance(Duration::from_secs(61)).await;
        world.settle().await;
    }
    assert_eq!(world.phase().await, WorkflowRunPhase::Succeeded);
    assert_eq!(world.listed().await.len(), 5);
    assert_eq!(
        world
            .revisions()
            .list(&ListParams::default())
            .await
            .unwrap()
            .items
            .len(),
        1
    );
}

#[tokio::test(start_paused = true)]
async fn w_61_w_178_case_034_a_bad_day_loses_nothing() {
    for seed in [0, 1, 4] {
        let mut world = World::idle();
        let plan = FaultPlan {
            lost_request: 0.1,
            lost_answer: 0.2,
            conflict: 0.2,
            internal_error: 0.1,
            watch_expired: 0.1,
            watch_cut: 0.3,
            ..FaultPlan::default()
        };
        let layer = FaultLayer::new(seed, plan);
        let faults = layer.handle();
        world.start_with(world.server.client_with(&layer));
        world.create(diamond()).await;
        for round in 0..40 {
            // After a while the weather clears.
            faults.set_active(round < 20);
            tokio::time::advance(Duration::from_secs(20)).await;
            world.settle().await;
            world.execute_all().await;
        }
        assert!(faults.counts().total() > 0, "seed {seed} saw no trouble");
        assert_eq!(
            world.phase().await,
            WorkflowRunPhase::Succeeded,
            "seed {seed}"
        );
        assert_eq!(world.listed().await.len(), 5, "seed {seed}");
    }
}

#[tokio::test(start_paused = true)]
async fn case_032_the_end_is_reached_from_the_first_list_alone() {
    /// More than one page of a list.
    const STRANGERS: usize = 1_200;
    let mut world = World::new();
    let stranger = json!({"runtime": "bash", "mode": {"task": {}}});
    for n in 0..STRANGERS {
        let spec = serde_json::from_value(stranger.clone()).unwrap();
        let run = Run::new(&format!("stranger-{n}"), spec);
        let params = PostParams::default();
        world.runs().create(&params, &run).await.unwrap();
    }
    world.create(json!({"a": job(&[], &["s"])})).await;
    world.settle().await;
    world.kill().await;
    world.succeed("a", "s").await;
    world.start();
    world.settle().await;
    assert_eq!(world.phase().await, WorkflowRunPhase::Succeeded);
}
