//! Acceptance, the order of steps and jobs, and the end.

use kruntimes_core::condition;

use super::*;

#[tokio::test(start_paused = true)]
async fn w_45_w_65_an_accepted_workflow_run_owns_its_snapshot_and_children() {
    let world = World::new();
    let object = world.create(diamond()).await;
    world.settle().await;
    let status = world.status().await;
    let accepted = condition::get(&status.conditions, "Accepted").unwrap();
    assert_eq!(
        (accepted.reason.as_str(), accepted.observed_generation),
        ("Accepted", Some(1))
    );
    let revisions = world
        .revisions()
        .list(&ListParams::default())
        .await
        .unwrap();
    let [revision] = revisions.items.as_slice() else {
        panic!("one snapshot")
    };
    assert_eq!(revision.metadata.name, status.snapshot_name);
    assert_eq!(revision.revision, 1);
    let uid = object.uid().unwrap();
    assert_eq!(revision.labels()["kruntimes.io/workflowrun-uid"], uid);
    let owner = &revision.owner_references()[0];
    assert_eq!(
        (owner.kind.as_str(), owner.uid.as_str(), owner.controller),
        ("WorkflowRun", uid.as_str(), Some(true))
    );
    let data = &revision.data.as_ref().unwrap().0;
    assert_eq!(data["spec"]["jobs"].as_object().unwrap().len(), 4);
    // W-119, W-45: the child Run.
    let run = world.run_of("a", "s").await;
    assert_eq!(run.owner_references()[0].uid, uid);
    assert_eq!(run.owner_references()[0].block_owner_deletion, Some(true));
    let spec = serde_json::to_value(&run.spec).unwrap();
    assert_eq!(
        spec,
        json!({"runtime": "bash", "mode": {"task": {}}, "source": {"inline": "true"}})
    );
}

#[tokio::test(start_paused = true)]
async fn a_diamond_runs_in_order_without_any_timer() {
    let world = World::new();
    world.create(diamond()).await;
    world.settle().await;
    assert_eq!(world.listed().await, ["a/s"]);
    world.succeed("a", "s").await;
    assert_eq!(world.listed().await, ["a/s", "l/s", "r/s"]);
    world.succeed("r", "s").await;
    assert_eq!(world.listed().await.len(), 3);
    world.succeed("l", "s").await;
    world.succeed("z", "one").await;
    assert_eq!(world.phase().await, WorkflowRunPhase::Running);
    world.succeed("z", "two").await;
    assert_eq!(world.phase().await, WorkflowRunPhase::Succeeded);
    let completed = world.status().await.conditions;
    assert_eq!(
        condition::get(&completed, "Completed").unwrap().reason,
        "WorkflowRunSucceeded"
    );
    // W-68: rest writes nothing, however long it lasts.
    let before = world.server.resource_version();
    tokio::time::advance(Duration::from_secs(600)).await;
    world.settle().await;
    assert_eq!(world.server.resource_version(), before);
}

#[tokio::test(start_paused = true)]
async fn w_56_few_writes_one_create_and_one_patch_per_turn() {
    let world = World::new();
    world.create(json!({"a": job(&[], &["s", "t"])})).await;
    world.settle().await;
    let before = world.server.resource_version();
    world.succeed("a", "s").await;
    // The Run's own end, the next Run, one status patch.
    assert_eq!(world.server.resource_version() - before, 3);
    world.succeed("a", "t").await;
    assert_eq!(world.server.resource_version() - before, 5);
}

#[tokio::test(start_paused = true)]
async fn outputs_and_published_variables_reach_the_next_run() {
    let world = World::new();
    let jobs = json!({
        "build": {
            "runs-on": "bash",
            "outputs": {"tag": "${{ steps.pack.outputs.tag }}"},
            "steps": [
                {"name": "pack", "run": "1"},
                {"name": "use", "run": "echo ${{ steps.pack.outputs.tag }}"},
            ],
        },
        "ship": {
            "runs-on": "bash",
            "needs": ["build"],
            "steps": [{"name": "s", "run": "1", "env": {"TAG": "${{ jobs.build.outputs.tag }}"}}],
        },
    });
    world.create(jobs).await;
    world.settle().await;
    let outputs = json!({"tag": "v1", "kruntimes.io/env/LEVEL": "2"});
    world
        .end(
            "build",
            "pack",
            json!({"phase": "Succeeded", "outputs": outputs}),
        )
        .await;
    let next = world.run_of("build", "use").await.spec;
    assert_eq!(next.source.unwrap().inline.as_deref(), Some("echo v1"));
    assert_eq!(
        (next.env[0].name.as_str(), next.env[0].value.as_deref()),
        ("LEVEL", Some("2"))
    );
    world.succeed("build", "use").await;
    let ship = world.run_of("ship", "s").await.spec;
    assert_eq!(
        (ship.env[0].name.as_str(), ship.env[0].value.as_deref()),
        ("TAG", Some("v1"))
    );
    assert_eq!(
        world.status().await.jobs.unwrap()["build"].outputs["tag"],
        "v1"
    );
}

#[tokio::test(start_paused = true)]
async fn w_166_a_failure_skips_dependents_and_keeps_the_rest_running() {
    let world = World::new();
    let jobs = json!({
        "build": job(&[], &["s"]),
        "test": job(&["build"], &["s"]),
        "deploy": job(&["test"], &["s"]),
        "lint": job(&[], &["s"]),
    });
    world.create(jobs).await;
    world.settle().await;
    world
        .end(
            "build",
            "s",
            json!({"phase": "Failed", "message": "exit code 17"}),
        )
        .await;
    let phases = world.phases().await;
    let want = [
        ("build", JobPhase::Failed),
        ("deploy", JobPhase::Skipped),
        ("lint", JobPhase::Running),
        ("test", JobPhase::Skipped),
    ];
    assert_eq!(phases, want.map(|(name, phase)| (name.to_owned(), phase)));
    world.succeed("lint", "s").await;
    let status = world.status().await;
    assert_eq!(status.phase, WorkflowRunPhase::Failed);
    let text = "step \"s\" in job \"build\" failed: exit code 17";
    assert_eq!(status.message.as_deref(), Some(text));
    assert_eq!(world.listed().await, ["build/s", "lint/s"]);
}

#[tokio::test(start_paused = true)]
async fn w_16_a_refused_definition_leaves_nothing_behind() {
    let world = World::new();
    let spec = json!({"runs-on": "bash", "steps": [{"name": "s", "uses": "y"}]});
    world.create(json!({"x": spec})).await;
    world.settle().await;
    let status = world.status().await;
    assert_eq!(status.phase, WorkflowRunPhase::Failed);
    assert!(status.jobs.is_none());
    let text = "Action \"y\" for step \"s\" in job \"x\" does not exist";
    assert_eq!(
        condition::get(&status.conditions, "Accepted")
            .unwrap()
            .message,
        text
    );
    let revisions = world
        .revisions()
        .list(&ListParams::default())
        .await
        .unwrap();
    assert!(revisions.items.is_empty() && world.listed().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn w_40_a_step_that_outgrows_its_limit_fails_at_once() {
    let world = World::new();
    // One argument is longer than a Run may carry, and only after evaluation.
    let jobs = json!({
        "a": {"runs-on": "bash", "steps": [
            {"name": "s", "run": "1"},
            {"name": "t", "run": "1", "args": ["${{ steps.s.outputs.k }}${{ steps.s.outputs.k }}"]},
        ]},
    });
    world.create(jobs).await;
    world.settle().await;
    let outputs = json!({"k": "v".repeat(8000)});
    world
        .end("a", "s", json!({"phase": "Succeeded", "outputs": outputs}))
        .await;
    let status = world.status().await;
    assert_eq!(status.phase, WorkflowRunPhase::Failed);
    let text = "resolve step \"t\" in job \"a\": rendered arg[0] is 16000 bytes, exceeds 8192";
    assert_eq!(status.message.as_deref(), Some(text));
}

#[tokio::test(start_paused = true)]
async fn w_40_a_run_the_api_refuses_is_not_tried_again() {
    let world = World::strict();
    let mut large = job(&[], &["s"]);
    large["steps"][0]["run"] = json!("echo something long");
    world
        .create(json!({"a": large, "b": job(&[], &["s"])}))
        .await;
    world.settle().await;
    let message = world.status().await.message.unwrap();
    let name = kruntimes_core::names::child_run("wfr", "a", "s", "");
    let head = format!("create child run \"{name}\" for step \"s\" in job \"a\": ");
    assert!(message.starts_with(&head), "{message}");
    assert!(message.contains("spec.source.inline"), "{message}");
    let jobs = world.status().await.jobs.unwrap();
    assert_eq!(jobs["a"].reason.as_deref(), Some("StepFailed"));
    assert_eq!(world.listed().await, ["b/s"]);
    world.succeed("b", "s").await;
    assert_eq!(world.phase().await, WorkflowRunPhase::Failed);
}

#[tokio::test(start_paused = true)]
async fn w_40_a_run_too_large_for_the_api_fails_its_step_and_is_not_tried_for_ever() {
    let world = World::new();
    let large = "${{ steps.one.outputs.v }}".repeat(15);
    let env: serde_json::Map<_, _> = (0..30).map(|n| (format!("V{n}"), json!(large))).collect();
    let steps = json!([{"name": "one", "run": "1"}, {"name": "two", "run": "2", "env": env}]);
    world
        .create(json!({"a": {"runs-on": "bash", "steps": steps}}))
        .await;
    world.settle().await;
    let outputs = json!({"v": "x".repeat(8192)});
    let ended = json!({"phase": "Succeeded", "outputs": outputs});
    world.end("a", "one", ended).await;
    let status = world.status().await;
    assert_eq!(status.phase, WorkflowRunPhase::Failed);
    let message = status.message.unwrap();
    assert!(message.contains("too large"), "{message}");
}
