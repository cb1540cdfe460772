//! Calls of Actions over the API.

use super::*;

/// A job that calls the Action `tools`.
fn calling() -> Value {
    json!({"build": {
        "runs-on": "bash",
        "steps": [
            {"name": "tools", "uses": "tools", "with": {"level": "2"}},
            {"name": "use", "run": "in ${{ steps.tools.outputs.where }}"},
        ],
    }})
}

async fn runs(world: &World) -> Vec<Run> {
    let list = world.runs().list(&ListParams::default()).await.unwrap();
    list.items
}

/// Ends the one open Run.
async fn end_open(world: &World, status: Value) {
    let open = runs(world).await.into_iter().filter(|run| {
        let status = run.status.as_ref();
        status.is_none_or(|status| !status.phase.is_terminal())
    });
    let open: Vec<_> = open.collect();
    assert_eq!(open.len(), 1, "one step at a time");
    let patch = Patch::Merge(json!({ "status": status }));
    let name = open[0].name_any();
    let api = world.runs();
    api.patch_status(&name, &PatchParams::default(), &patch)
        .await
        .unwrap();
    world.settle().await;
}

#[tokio::test(start_paused = true)]
async fn w_5_w_109_w_111_an_action_runs_inside_its_job() {
    let world = World::new();
    world.define_all().await;
    world.create(calling()).await;
    world.settle().await;
    let first = &runs(&world).await[0];
    let label = |run: &Run, key: &str| run.labels()[key].clone();
    assert_eq!(label(first, "kruntimes.io/workflow-action-step"), "one");
    assert_eq!(label(first, "kruntimes.io/workflow-step"), "tools");
    let owner = &first.owner_references()[0];
    assert_eq!((&*owner.kind, &*owner.name), ("WorkflowRun", "wfr"));
    end_open(
        &world,
        json!({"phase": "Succeeded", "outputs": {"from": "x"}}),
    )
    .await;
    end_open(&world, json!({"phase": "Succeeded"})).await;
    let step = world.status().await.jobs.unwrap()["build"].steps[0].clone();
    assert_eq!(step.outputs["where"], "at x");
    assert_eq!(step.run_name, None);
    assert_eq!(step.action_steps.len(), 2);
    end_open(&world, json!({"phase": "Succeeded"})).await;
    assert_eq!(world.phase().await, WorkflowRunPhase::Succeeded);
    let scripts: Vec<_> = runs(&world)
        .await
        .into_iter()
        .filter_map(|run| run.spec.source?.inline)
        .collect();
    assert!(scripts.contains(&"1 2".to_owned()), "{scripts:?}");
    assert!(scripts.contains(&"in at x".to_owned()), "{scripts:?}");
    assert_eq!(world.workflow_run_names().await, ["wfr"]);
}

#[tokio::test(start_paused = true)]
async fn w_216_w_16_a_missing_action_leaves_no_child() {
    let world = World::new();
    world.create(calling()).await;
    world.settle().await;
    let status = world.status().await;
    assert_eq!(status.phase, WorkflowRunPhase::Failed);
    let text = "Action \"tools\" for step \"tools\" in job \"build\" does not exist";
    assert_eq!(status.message.as_deref(), Some(text));
    assert_eq!(status.jobs, None);
    assert!(runs(&world).await.is_empty());
    let revisions = world.revisions().list(&ListParams::default()).await;
    assert!(revisions.unwrap().items.is_empty());
}

#[tokio::test(start_paused = true)]
async fn w_214_w_113_a_failing_action_step_fails_everything_above_it() {
    let world = World::new();
    world.define_all().await;
    world.create(calling()).await;
    world.settle().await;
    end_open(
        &world,
        json!({"phase": "Failed", "message": "exit code 17"}),
    )
    .await;
    let status = world.status().await;
    assert_eq!(status.phase, WorkflowRunPhase::Failed);
    assert_eq!(
        status.message.as_deref(),
        Some("Action step \"one\" of step \"tools\" in job \"build\" failed: exit code 17")
    );
    let step = &status.jobs.unwrap()["build"].steps[0];
    assert_eq!(step.phase.as_str(), "Failed");
    assert_eq!(step.action_steps[0].phase.as_str(), "Failed");
}

#[tokio::test(start_paused = true)]
async fn w_215_w_118_cancellation_reaches_the_run_of_an_action() {
    let world = World::new();
    world.define_all().await;
    world.create(calling()).await;
    world.settle().await;
    world.cancel().await;
    assert!(runs(&world).await[0].spec.cancel_requested);
    end_open(&world, json!({"phase": "Cancelled"})).await;
    assert_eq!(world.phase().await, WorkflowRunPhase::Cancelled);
}

#[tokio::test(start_paused = true)]
async fn w_52_w_176_an_action_deleted_after_acceptance_is_run_to_its_end() {
    let world = World::new();
    world.define_all().await;
    world.create(calling()).await;
    world.settle().await;
    let actions: Api<Action> = Api::namespaced(world.client.clone(), "default");
    let params = kube::api::DeleteParams::default();
    actions.delete("tools", &params).await.unwrap();
    world.execute_all().await;
    assert_eq!(world.phase().await, WorkflowRunPhase::Succeeded);
    assert_eq!(world.listed().await.len(), 3);
}
