//! Calls of Workflows and Actions (sections 4, 11 and 12).

use kruntimes_core::api::{JobPhase, WorkflowRunPhase};
use kruntimes_core::names;
use serde_json::{Value, json};

use super::checks::job;
use super::{Check, Checked, NAME, Scene, same};
use crate::driver::End;

pub(super) const CHECKS: &[Check] = &[
    Check {
        items: &[96, 167],
        name: "a missing Workflow fails its job alone",
        play: missing,
    },
    Check {
        items: &[98, 99, 174],
        name: "a cycle of calls fails the job",
        play: cycle,
    },
    Check {
        items: &[97, 102, 104, 108],
        name: "a call is late bound and its outputs come back",
        play: call,
    },
    Check {
        items: &[19, 20, 112],
        name: "a missing input of an Action fails the step",
        play: input,
    },
    Check {
        items: &[110, 111, 114, 116],
        name: "an Action is one step of several Runs",
        play: action,
    },
    Check {
        items: &[113, 214],
        name: "a failed Action step fails the call",
        play: failed_action,
    },
    Check {
        items: &[51, 52, 117, 163],
        name: "a frozen Action outlives its definition and the driver",
        play: frozen,
    },
];

fn missing(scene: &mut Scene<'_>) -> Checked {
    scene.begin(json!({"deploy": {"uses": "ghost"}, "lint": job(&[], "1")}))?;
    scene.runs_are(&["lint/s"])?;
    let text = "reusable workflow \"ghost\" for job \"deploy\" does not exist";
    scene.job_is("deploy", JobPhase::Failed, "CallNotFound", text)?;
    scene.phase_is(WorkflowRunPhase::Running)
}

fn cycle(scene: &mut Scene<'_>) -> Checked {
    for (name, other) in [("a", "b"), ("b", "a")] {
        scene.workflow(name, json!({"jobs": {"j": {"uses": other}}}))?;
    }
    scene.begin(json!({"x": {"uses": "a"}}))?;
    let text = "validate reusable workflow \"a\" for job \"x\": workflow call cycle: a -> b -> a";
    scene.job_is("x", JobPhase::Failed, "CallCycle", text)?;
    same("the child", &scene.job("x")?.workflow_run_name, &None)
}

fn called(text: &str) -> Value {
    let mut inner = job(&[], &format!("{text} ${{{{ inputs.tag }}}}"));
    inner["outputs"] = json!({"u": "${{ steps.s.outputs.u }}"});
    json!({
        "inputs": {"tag": {"required": true}},
        "outputs": {"url": {"value": "${{ inputs.tag }}/${{ jobs.j.outputs.u }}"}},
        "jobs": {"j": inner},
    })
}

fn call(scene: &mut Scene<'_>) -> Checked {
    scene.workflow("w", called("old"))?;
    let call = json!({"needs": ["a"], "uses": "w", "with": {"tag": "${{ jobs.a.outputs.t }}"}});
    let mut maker = job(&[], "1");
    maker["outputs"] = json!({"t": "${{ steps.s.outputs.t }}"});
    scene
        .begin(json!({"a": maker, "c": call, "z": job(&["c"], "got ${{ jobs.c.outputs.url }}")}))?;
    // Read when it is ready, and not before.
    scene.workflow("w", called("new"))?;
    scene.succeed("a/s", &[("t", "v1")])?;
    let child = names::child_workflow_run(NAME, "c");
    same(
        "the child",
        &scene.job("c")?.workflow_run_name,
        &Some(child.clone()),
    )?;
    scene.workflow("w", json!({"jobs": {"j": job(&[], "newest")}}))?;
    let source = scene.run_of(&child, "j/s")?.spec.source;
    let script = source.and_then(|source| source.inline).unwrap_or_default();
    same("the script", &script.as_str(), &"new v1")?;
    scene.end_of(&child, "j/s", End::succeeded([("u", "there")]))?;
    let found = scene.script("z/s")?;
    same("the script", &found.as_str(), &"got v1/there")
}

fn tools() -> Value {
    json!({
        "inputs": {"level": {"required": true}},
        "outputs": {"where": {"value": "at ${{ steps.one.outputs.k }}"}},
        "steps": [{"name": "one", "run": "1 ${{ inputs.level }}"}, {"name": "two", "run": "2"}],
    })
}

fn caller(with: &Value) -> Value {
    json!({"a": {"runs-on": "bash", "steps": [
        {"name": "tools", "uses": "tools", "with": with},
        {"name": "last", "run": "${{ steps.tools.outputs.where }}"},
    ]}})
}

fn input(scene: &mut Scene<'_>) -> Checked {
    scene.action("tools", tools())?;
    scene.begin(caller(&json!({})))?;
    scene.runs_are(&[])?;
    let text = "resolve step \"tools\" in job \"a\": resolve Action \"tools\" inputs: \
                missing required input \"level\"";
    scene.job_is("a", JobPhase::Failed, "InputBindingFailed", text)
}

fn action(scene: &mut Scene<'_>) -> Checked {
    scene.action("tools", tools())?;
    scene.begin(caller(&json!({"level": "9"})))?;
    scene.runs_are(&["a/tools/one"])?;
    let found = scene.script("a/tools/one")?;
    same("the script", &found.as_str(), &"1 9")?;
    scene.succeed("a/tools/one", &[("k", "bin")])?;
    scene.succeed("a/tools/two", &[])?;
    let step = &scene.job("a")?.steps[0];
    same("the Run of the call step", &step.run_name, &None)?;
    let found = scene.script("a/last")?;
    same("the script", &found.as_str(), &"at bin")
}

fn failed_action(scene: &mut Scene<'_>) -> Checked {
    scene.action("tools", tools())?;
    scene.begin(caller(&json!({"level": "9"})))?;
    scene.end("a/tools/one", End::failed("exit 17"))?;
    let text = "Action step \"one\" of step \"tools\" in job \"a\" failed: exit 17";
    scene.job_is("a", JobPhase::Failed, "StepFailed", text)?;
    scene.phase_is(WorkflowRunPhase::Failed)
}

fn frozen(scene: &mut Scene<'_>) -> Checked {
    scene.action("tools", tools())?;
    scene.begin(caller(&json!({"level": "9"})))?;
    scene.action("tools", json!({"steps": [{"name": "other", "run": "x"}]}))?;
    let first = scene.run("a/tools/one")?.name;
    scene.subject.crash();
    scene.subject.settle();
    scene.succeed("a/tools/one", &[("k", "bin")])?;
    scene.subject.crash();
    scene.subject.settle();
    scene.succeed("a/tools/two", &[])?;
    same(
        "the name of the first Run",
        &scene.run("a/tools/one")?.name,
        &first,
    )?;
    let found = scene.script("a/last")?;
    same("the script", &found.as_str(), &"at bin")
}
