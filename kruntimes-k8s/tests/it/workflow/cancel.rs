//! Cancellation in its windows.

use super::*;

#[tokio::test(start_paused = true)]
async fn w_88_w_89_children_are_asked_once_and_then_waited_for() {
    let world = World::new();
    world
        .create(json!({"a": job(&[], &["s"]), "b": job(&[], &["s"]), "c": job(&["a"], &["s"])}))
        .await;
    world.settle().await;
    let before = world.server.resource_version();
    world.cancel().await;
    // The request itself, one patch per child, one status.
    assert_eq!(world.server.resource_version() - before, 4);
    assert!(world.run_of("a", "s").await.spec.cancel_requested);
    assert_eq!(world.phase().await, WorkflowRunPhase::Running);
    world.end("a", "s", json!({"phase": "Cancelled"})).await;
    let text = world.status().await.message;
    assert_eq!(text.as_deref(), Some("cancelling, 1 child left"));
    world.end("b", "s", json!({"phase": "Timeout"})).await;
    assert_eq!(world.phase().await, WorkflowRunPhase::Cancelled);
    let want = [
        ("a", JobPhase::Failed),
        ("b", JobPhase::Failed),
        ("c", JobPhase::Waiting),
    ];
    assert_eq!(
        world.phases().await,
        want.map(|(name, phase)| (name.to_owned(), phase))
    );
    assert_eq!(world.listed().await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn w_92_cancelled_before_acceptance_leaves_nothing() {
    let mut world = World::idle();
    world.create(diamond()).await;
    world.cancel().await;
    world.start();
    world.settle().await;
    let status = world.status().await;
    assert_eq!(status.phase, WorkflowRunPhase::Cancelled);
    assert!(status.jobs.is_none() && status.snapshot_name.is_none());
    assert_eq!(status.conditions.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn w_91_case_043_between_two_steps_nothing_more_is_created() {
    let mut world = World::new();
    world.create(json!({"a": job(&[], &["s", "t"])})).await;
    world.settle().await;
    world.kill().await;
    world.succeed("a", "s").await;
    world.cancel().await;
    world.start();
    world.settle().await;
    assert_eq!(world.phase().await, WorkflowRunPhase::Cancelled);
    let jobs = world.status().await.jobs.unwrap();
    assert_eq!(jobs["a"].reason.as_deref(), Some("Cancelled"));
    assert_eq!(world.listed().await, ["a/s"]);
}

#[tokio::test(start_paused = true)]
async fn w_93_a_finished_workflow_run_keeps_its_phase() {
    let world = World::new();
    world.create(json!({"a": job(&[], &["s"])})).await;
    world.settle().await;
    world.succeed("a", "s").await;
    world.cancel().await;
    assert_eq!(world.phase().await, WorkflowRunPhase::Succeeded);
}

#[tokio::test(start_paused = true)]
async fn case_044_a_busy_status_writer_cannot_delay_the_request() {
    let world = World::new();
    world.create(json!({"a": job(&[], &["s"])})).await;
    world.settle().await;
    let name = world.run_of("a", "s").await.name_any();
    let runs = world.runs();
    let hammer = async {
        let mut count = 0;
        while !runs.get(&name).await.unwrap().spec.cancel_requested {
            count += 1;
            assert!(count < 1000, "the request never lands");
            let patch = Patch::Merge(json!({"status": {"message": format!("busy {count}")}}));
            let params = PatchParams::default();
            runs.patch_status(&name, &params, &patch).await.unwrap();
        }
    };
    futures::join!(hammer, world.cancel());
    assert!(world.run_of("a", "s").await.spec.cancel_requested);
}
