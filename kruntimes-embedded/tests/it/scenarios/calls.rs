//! Triggered Workflows and calls of Workflows.

use kruntimes_core::crd::{Workflow, WorkflowRun};
use kruntimes_workflow::definitions::Definitions;
use kruntimes_workflow::trigger::{Naming, trigger};
use kube::api::{Api, ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::World;
use super::graphs::job;
use super::world::{heard, tell};

fn templates(world: &World) -> Api<Workflow> {
    Api::namespaced(world.client.clone(), &world.namespace)
}

/// One job that says what it was given.
fn echo() -> Value {
    json!({
        "inputs": {"word": {"required": true}},
        "outputs": {"said": {"value": "${{ inputs.word }}: ${{ jobs.say.outputs.said }}"}},
        "jobs": {"say": {
            "runs-on": "bash",
            "outputs": {"said": "${{ steps.step.outputs.said }}"},
            "steps": [{
                "name": "step", "env": {"WORD": "${{ inputs.word }}"},
                "run": "echo \"said=$WORD ${{ inputs.word }}\" >> \"$KRUNTIME_OUTPUTS\"",
            }],
        }},
    })
}

pub(crate) async fn w_212_a_triggered_workflow_carries_its_input(world: &World) {
    world.workflow("echo", echo()).await;
    let stored = templates(world).get("echo").await.unwrap();
    let known = Definitions::default().with_workflow("echo", stored.spec);
    let inputs = [("word".to_owned(), "hi".to_owned())].into();
    let naming = Naming::Named("triggered".to_owned());
    let run = trigger("echo", &known, &inputs, &naming).unwrap();
    world.create::<WorkflowRun>(run.to_value()).await;
    let status = world.end_of("triggered").await;
    assert_eq!(status["phase"], "Succeeded", "{status:#}");
    assert_eq!(status["jobs"]["say"]["outputs"], json!({"said": "hi hi"}));
    assert_eq!(status["outputs"], json!({"said": "hi: hi hi"}));
}

pub(crate) async fn w_218_a_nested_call_yields_its_output(world: &World) {
    world.workflow("echo", echo()).await;
    let outer = json!({
        "inputs": {"word": {}},
        "outputs": {"all": {"value": "outer ${{ jobs.inner.outputs.said }}"}},
        "jobs": {"inner": {"uses": "echo", "with": {"word": "${{ inputs.word }}"}}},
    });
    world.workflow("outer", outer).await;
    let mut first = job(&[], "echo word=up >> \"$KRUNTIME_OUTPUTS\"");
    first["outputs"] = json!({"word": "${{ steps.step.outputs.word }}"});
    let call = json!({
        "needs": ["first"], "uses": "outer", "with": {"word": "${{ jobs.first.outputs.word }}"},
    });
    let last = job(
        &["call"],
        "test '${{ jobs.call.outputs.all }}' = 'outer up: up up'",
    );
    let jobs = json!({"first": first, "call": call, "last": last});
    world.submit("nested", jobs).await;
    let status = world.end_of("nested").await;
    assert_eq!(status["phase"], "Succeeded", "{status:#}");
    let call = &status["jobs"]["call"];
    assert_eq!(call["outputs"], json!({"all": "outer up: up up"}));
    assert_eq!(call["steps"], Value::Null);
    let all = world.workflow_runs().list(&ListParams::default()).await;
    assert_eq!(all.unwrap().items.len(), 3);
}

pub(crate) async fn w_218_cancelling_reaches_through_a_call(world: &World) {
    let started = world.fifo("started");
    let script = format!("echo here > {}; read -r never < {0}", started.display());
    world
        .workflow("long", json!({"jobs": {"wait": job(&[], &script)}}))
        .await;
    let jobs = json!({"call": {"uses": "long"}, "next": job(&["call"], "true")});
    world.submit("caller", jobs).await;
    assert_eq!(heard(&started).await, "here\n");
    world.cancel("caller").await;
    let status = world.end_of("caller").await;
    assert_eq!(status["phase"], "Cancelled", "{status:#}");
    let child = status["jobs"]["call"]["workflowRunName"].as_str().unwrap();
    let child = world.end_of(child).await;
    assert_eq!(child["phase"], "Cancelled", "{child:#}");
    assert_eq!(status["jobs"]["next"]["phase"], "Waiting");
    assert_eq!(world.run_names().await.len(), 1);
}

pub(crate) async fn w_219_a_template_counts_as_it_is_when_its_call_is_ready(world: &World) {
    let (first, second) = (world.fifo("first"), world.fifo("second"));
    let (started, go) = (world.fifo("started"), world.fifo("go"));
    let edit = async |text: &str| {
        let patch = Patch::Merge(json!({"spec": {"outputs": {"text": {"value": text}}}}));
        let (api, params) = (templates(world), PatchParams::default());
        api.patch("template", &params, &patch).await.unwrap();
    };
    let script = format!(
        "echo here > {}; read -r word < {}",
        started.display(),
        go.display()
    );
    let template = json!({
        "outputs": {"text": {"value": "at first"}},
        "jobs": {"wait": job(&[], &script)},
    });
    world.workflow("template", template).await;
    let script = format!(
        "echo here > {}; read -r word < {}",
        first.display(),
        second.display()
    );
    let call = json!({"needs": ["before"], "uses": "template"});
    world
        .submit("late", json!({"before": job(&[], &script), "call": call}))
        .await;
    assert_eq!(heard(&first).await, "here\n");
    edit("before the call").await;
    tell(&second, "on\n").await;
    assert_eq!(heard(&started).await, "here\n");
    edit("after the call").await;
    tell(&go, "on\n").await;
    let status = world.end_of("late").await;
    assert_eq!(status["phase"], "Succeeded", "{status:#}");
    assert_eq!(
        status["jobs"]["call"]["outputs"],
        json!({"text": "before the call"})
    );
}
