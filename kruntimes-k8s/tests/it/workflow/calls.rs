//! Calls of Workflows over the API.

use kruntimes_core::names::child_workflow_run;
use kube::api::DeleteParams;

use super::*;

fn one_call() -> Value {
    json!({"ship": {"uses": "outer", "with": {"tag": "1"}}})
}

async fn child(world: &World) -> WorkflowRun {
    let name = child_workflow_run("wfr", "ship");
    world.workflow_runs().get(&name).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn w_102_w_106_w_218_a_nested_call_yields_its_outputs_level_by_level() {
    let world = World::new();
    world.define_all().await;
    world.create(composed()).await;
    world.settle().await;
    world.execute_all().await;
    let status = world.status().await;
    assert_eq!(status.phase, WorkflowRunPhase::Succeeded, "{status:?}");
    let jobs = status.jobs.unwrap();
    let tag = &jobs["build"].outputs["tag"];
    assert!(tag.starts_with("at wfr-"), "{tag}");
    assert_eq!(jobs["ship"].outputs["url"], format!("outer inner {tag}"));
    let outer = child(&world).await;
    assert_eq!(jobs["ship"].workflow_run_name, Some(outer.name_any()));
    assert_eq!(outer.owner_references()[0].name, "wfr");
    assert_eq!(outer.owner_references()[0].controller, Some(true));
    assert_eq!(outer.labels().len(), 1, "{:?}", outer.labels());
    let outer = outer.status.unwrap();
    assert_eq!(outer.outputs["url"], format!("outer inner {tag}"));
    let inner = outer.jobs.unwrap()["down"].workflow_run_name.clone();
    let inner = world.status_of(&inner.unwrap()).await;
    assert_eq!(inner.outputs["url"], format!("inner {tag}"));
    // W-4: nothing is known about grandchildren.
    assert_eq!(world.workflow_run_names().await.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn w_167_w_174_a_refused_call_creates_nothing_and_names_the_cause() {
    let world = World::new();
    let to = |name: &str| json!({"jobs": {"j": {"uses": name}}});
    world.define("Workflow", "a", to("b")).await;
    world.define("Workflow", "b", to("a")).await;
    world
        .create(json!({
            "cycle": {"uses": "a"}, "deploy": {"uses": "ghost"}, "lint": job(&[], &["s"]),
        }))
        .await;
    world.settle().await;
    let jobs = world.status().await.jobs.unwrap();
    assert_eq!(
        jobs["deploy"].message.as_deref(),
        Some("reusable workflow \"ghost\" for job \"deploy\" does not exist")
    );
    assert_eq!(
        jobs["cycle"].message.as_deref(),
        Some(
            "validate reusable workflow \"a\" for job \"cycle\": workflow call cycle: a -> b -> a"
        )
    );
    assert_eq!(jobs["cycle"].workflow_run_name, None);
    assert_eq!(jobs["lint"].phase, JobPhase::Running);
    assert_eq!(world.workflow_run_names().await, ["wfr"]);
}

#[tokio::test(start_paused = true)]
async fn w_97_w_219_a_template_counts_as_it_is_when_the_call_is_ready() {
    let world = World::new();
    world.define_all().await;
    let edit = async |value: &str| {
        let workflows: Api<Workflow> = Api::namespaced(world.client.clone(), "default");
        let patch = Patch::Merge(json!({"spec": {
            "outputs": {"url": {"value": value}},
        }}));
        let params = PatchParams::default();
        workflows.patch("outer", &params, &patch).await.unwrap();
    };
    world
        .create(json!({
            "first": job(&[], &["s"]),
            "ship": {"needs": ["first"], "uses": "outer", "with": {"tag": "1"}},
        }))
        .await;
    world.settle().await;
    edit("before the call").await;
    world.succeed("first", "s").await;
    edit("after the call").await;
    world.execute_all().await;
    let jobs = world.status().await.jobs.unwrap();
    assert_eq!(jobs["ship"].outputs["url"], "before the call");
}

#[tokio::test(start_paused = true)]
async fn w_105_editing_the_contract_of_an_initialized_child_changes_nothing() {
    let world = World::new();
    world.define_all().await;
    world.create(one_call()).await;
    world.settle().await;
    let patch = Patch::Merge(json!({"metadata": {"annotations": {
        "kruntimes.io/workflow-output.url": "forged", "kruntimes.io/workflow-output.more": "forged",
    }}}));
    let (name, params) = (child(&world).await.name_any(), PatchParams::default());
    let api = world.workflow_runs();
    api.patch(&name, &params, &patch).await.unwrap();
    world.execute_all().await;
    let jobs = world.status().await.jobs.unwrap();
    let outputs: Vec<_> = jobs["ship"].outputs.iter().collect();
    assert_eq!(outputs, [(&"url".to_owned(), &"outer inner 1".to_owned())]);
}

#[tokio::test(start_paused = true)]
async fn w_4_w_88_w_218_cancellation_reaches_grandchildren_one_level_at_a_time() {
    let world = World::new();
    world.define_all().await;
    world.create(one_call()).await;
    world.settle().await;
    world.cancel().await;
    let list = world.workflow_runs().list(&ListParams::default()).await;
    let list = list.unwrap();
    assert_eq!(list.items.len(), 3);
    assert!(list.iter().all(|run| run.spec.cancel_requested));
    assert_eq!(world.phase().await, WorkflowRunPhase::Running);
    let run = world.run_of("j", "s").await;
    assert!(run.spec.cancel_requested);
    world.end("j", "s", json!({"phase": "Cancelled"})).await;
    for name in world.workflow_run_names().await {
        let phase = world.status_of(&name).await.phase;
        assert_eq!(phase, WorkflowRunPhase::Cancelled, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn w_82_w_170_a_child_deleted_by_hand_fails_its_job() {
    let world = World::new();
    world.define_all().await;
    world.create(one_call()).await;
    world.settle().await;
    let name = child(&world).await.name_any();
    let api = world.workflow_runs();
    api.delete(&name, &DeleteParams::default()).await.unwrap();
    world.settle().await;
    let status = world.status().await;
    assert_eq!(status.phase, WorkflowRunPhase::Failed);
    assert_eq!(
        status.jobs.unwrap()["ship"].reason.as_deref(),
        Some("ChildMissing")
    );
}

#[tokio::test(start_paused = true)]
async fn w_49_a_name_that_is_taken_fails_the_call_and_is_left_alone() {
    let world = World::new();
    world.define_all().await;
    let name = child_workflow_run("wfr", "ship");
    let taken: WorkflowRun = serde_json::from_value(json!({
        "apiVersion": "kruntimes.io/v1alpha1", "kind": "WorkflowRun",
        "metadata": {"name": name}, "spec": {"jobs": {"a": job(&[], &["s"])}},
    }))
    .unwrap();
    let params = PostParams::default();
    world.workflow_runs().create(&params, &taken).await.unwrap();
    world.create(one_call()).await;
    world.settle().await;
    let status = world.status().await;
    let text = format!("child workflowrun default/{name} is not owned by workflowrun default/wfr");
    assert_eq!(status.message, Some(text));
    assert!(child(&world).await.owner_references().is_empty());
}

#[tokio::test(start_paused = true)]
async fn w_46_a_child_without_controller_is_adopted() {
    let world = World::new();
    world.define_all().await;
    world.create(one_call()).await;
    world.settle().await;
    let before = child(&world).await;
    let patch = Patch::Merge(json!({"metadata": {"ownerReferences": null}}));
    let (name, params) = (before.name_any(), PatchParams::default());
    let api = world.workflow_runs();
    api.patch(&name, &params, &patch).await.unwrap();
    world.settle().await;
    world.execute_all().await;
    // The next turn of the caller sees the orphan; its own end wakes nobody.
    let patch = Patch::Merge(json!({"metadata": {"annotations": {"touched": "1"}}}));
    api.patch("wfr", &params, &patch).await.unwrap();
    world.settle().await;
    assert_eq!(child(&world).await.owner_references()[0].name, "wfr");
    assert_eq!(world.phase().await, WorkflowRunPhase::Succeeded);
}

#[tokio::test(start_paused = true)]
async fn w_40_a_child_the_api_refuses_fails_its_job() {
    let world = World::strict();
    let long = json!({"jobs": {"j": job(&[], &["s"])}, "inputs": {"more": {}}});
    world.define("Workflow", "w", long).await;
    // A rendered script above its limit is refused by the engine, not by an endless retry.
    let spec = json!({
        "inputs": {"more": {}},
        "jobs": {"j": {"runs-on": "bash", "steps": [{"name": "s", "run": "${{ inputs.more }}${{ inputs.more }}"}]}},
    });
    world.define("Workflow", "double", spec).await;
    let more = "x".repeat(200_000);
    world
        .create(json!({"call": {"uses": "double", "with": {"more": more}}}))
        .await;
    world.settle().await;
    let status = world.status().await;
    assert_eq!(
        status.message.as_deref(),
        Some(
            "materialize reusable workflow \"double\" for job \"call\": \
             job \"j\" step \"s\" run: rendered run is 400000 bytes, exceeds 262144"
        )
    );
}
