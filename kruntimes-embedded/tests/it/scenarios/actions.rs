//! Calls of Actions, and what the steps of one job share.

use kruntimes_core::names::job_workspace;
use kube::api::ListParams;
use serde_json::{Value, json};

use super::World;
use super::world::{heard, tell};

/// A job that calls the Action `tools`.
fn calling(with: &Value) -> Value {
    json!({"build": {
        "runs-on": "bash",
        "steps": [{"name": "tools", "uses": "tools", "with": with}],
    }})
}

pub(crate) async fn w_213_an_action_hands_its_output_to_a_later_step(world: &World) {
    let tools = json!({
        "inputs": {"level": {"required": true}},
        "outputs": {"dir": {"value": "${{ steps.unpack.outputs.dir }}"}},
        "steps": [
            {"name": "unpack", "env": {"LEVEL": "${{ inputs.level }}"},
             "run": "echo dir=/tools-$LEVEL >> \"$KRUNTIME_OUTPUTS\""},
            {"name": "verify", "run": "test -n '${{ steps.unpack.outputs.dir }}'"},
        ],
    });
    world.action("tools", tools).await;
    let mut jobs = calling(&json!({"level": "2"}));
    jobs["build"]["outputs"] = json!({"found": "${{ steps.use.outputs.found }}"});
    let steps = jobs["build"]["steps"].as_array_mut().unwrap();
    steps.push(json!({
        "name": "use", "env": {"DIR": "${{ steps.tools.outputs.dir }}"},
        "run": "echo found=$DIR >> \"$KRUNTIME_OUTPUTS\"",
    }));
    world.submit("calling", jobs).await;
    let status = world.end_of("calling").await;
    assert_eq!(status["phase"], "Succeeded", "{status:#}");
    assert_eq!(
        status["jobs"]["build"]["outputs"],
        json!({"found": "/tools-2"})
    );
    let call = &status["jobs"]["build"]["steps"][0];
    assert_eq!(call["runName"], Value::Null);
    assert_eq!(call["actionSteps"][1]["phase"], "Succeeded");
    assert_eq!(world.run_names().await.len(), 3);
}

pub(crate) async fn w_214_a_failing_action_step_fails_everything_above_it(world: &World) {
    let tools = json!({"steps": [{"name": "bad", "run": "exit 17"}, {"name": "next", "run": "1"}]});
    world.action("tools", tools).await;
    world.submit("failing", calling(&json!({}))).await;
    let status = world.end_of("failing").await;
    assert_eq!(status["phase"], "Failed", "{status:#}");
    let job = &status["jobs"]["build"];
    assert_eq!(job["phase"], "Failed");
    assert_eq!(job["steps"][0]["phase"], "Failed");
    assert_eq!(job["steps"][0]["actionSteps"][0]["phase"], "Failed");
    assert_eq!(job["steps"][0]["actionSteps"][1]["phase"], "Pending");
    assert_eq!(world.run_names().await.len(), 1);
}

pub(crate) async fn w_215_cancelling_ends_the_run_of_an_action(world: &World) {
    let started = world.fifo("started");
    let script = format!("echo here > {}; read -r never < {0}", started.display());
    let tools = json!({"steps": [{"name": "long", "run": script}, {"name": "next", "run": "1"}]});
    world.action("tools", tools).await;
    world.submit("cancelled", calling(&json!({}))).await;
    assert_eq!(heard(&started).await, "here\n");
    world.cancel("cancelled").await;
    let status = world.end_of("cancelled").await;
    assert_eq!(status["phase"], "Cancelled", "{status:#}");
    let inner = &status["jobs"]["build"]["steps"][0]["actionSteps"];
    assert_eq!(inner[0]["phase"], "Cancelled");
    assert_eq!(world.run_names().await.len(), 1);
}

pub(crate) async fn w_216_a_missing_action_leaves_no_run(world: &World) {
    world.submit("missing", calling(&json!({}))).await;
    let status = world.end_of("missing").await;
    assert_eq!(status["phase"], "Failed");
    assert_eq!(
        status["message"],
        "Action \"tools\" for step \"tools\" in job \"build\" does not exist"
    );
    assert_eq!(status["jobs"], Value::Null);
    assert_eq!(world.run_names().await, [""; 0]);
}

pub(crate) async fn w_217_an_action_goes_on_after_its_controller_was_replaced(world: &World) {
    let (started, go) = (world.fifo("started"), world.fifo("go"));
    let first = format!(
        "echo here > {}; read -r word < {}; echo word=$word >> \"$KRUNTIME_OUTPUTS\"",
        started.display(),
        go.display()
    );
    let tools = json!({
        "outputs": {"word": {"value": "${{ steps.second.outputs.word }}"}},
        "steps": [
            {"name": "first", "run": first},
            {"name": "second", "run": "echo 'word=${{ steps.first.outputs.word }} again' >> \"$KRUNTIME_OUTPUTS\""},
        ],
    });
    world.action("tools", tools).await;
    world.submit("patient", calling(&json!({}))).await;
    assert_eq!(heard(&started).await, "here\n");
    let before = world.run_names().await;
    assert_eq!(before.len(), 1);
    world.crash("workflow");
    tell(&go, "on\n").await;
    let status = world.end_of("patient").await;
    assert_eq!(status["phase"], "Succeeded", "{status:#}");
    let call = &status["jobs"]["build"]["steps"][0];
    assert_eq!(call["outputs"], json!({"word": "on again"}));
    assert_eq!(call["actionSteps"][0]["runName"], json!(before[0]));
    assert_eq!(world.run_names().await.len(), 2);
}

pub(crate) async fn w_220_steps_of_a_job_share_a_workspace(world: &World) {
    let jobs = json!({"build": {
        "runs-on": "bash",
        "outputs": {"text": "${{ steps.read.outputs.text }}"},
        "steps": [
            {"name": "write", "run": "echo shared > note.txt"},
            {"name": "read", "run": "echo text=$(cat note.txt) >> \"$KRUNTIME_OUTPUTS\""},
        ],
    }});
    world.submit("sharing", jobs).await;
    let status = world.end_of("sharing").await;
    assert_eq!(status["phase"], "Succeeded", "{status:#}");
    assert_eq!(
        status["jobs"]["build"]["outputs"],
        json!({"text": "shared"})
    );
    let runs = world.runs().list(&ListParams::default()).await.unwrap();
    let pods: std::collections::BTreeSet<_> = runs
        .iter()
        .map(|run| run.status.clone().unwrap().assigned_pod)
        .collect();
    assert_eq!(pods.len(), 1, "{pods:?}");
    for run in &runs {
        let workspace = run.spec.workspace.as_ref().unwrap();
        assert_eq!(workspace.name, job_workspace("sharing", "build"));
    }
}
