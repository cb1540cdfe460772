//! Cancellation (section 10).

use kruntimes_core::api::{JobPhase, WorkflowRunPhase, WorkflowRunSpec};
use kruntimes_core::names;
use serde_json::json;

use super::checks::job;
use super::{Check, Checked, NAME, Scene, read, same};
use crate::driver::End;

pub(super) const CHECKS: &[Check] = &[
    Check {
        items: &[87, 88, 89, 90],
        name: "cancellation asks, waits, and starts nothing",
        play: cancel,
    },
    Check {
        items: &[92],
        name: "cancelled before it began",
        play: before,
    },
    Check {
        items: &[118, 218],
        name: "cancellation reaches calls and Actions",
        play: deep,
    },
];

fn cancel(scene: &mut Scene<'_>) -> Checked {
    scene.begin(json!({"a": job(&[], "1"), "b": job(&["a"], "1")}))?;
    scene.subject.cancel(NAME);
    scene.subject.settle();
    same(
        "whether the Run is asked",
        &scene.run("a/s")?.cancel_asked,
        &true,
    )?;
    scene.phase_is(WorkflowRunPhase::Running)?;
    // What the child reports does not matter.
    scene.end("a/s", End::failed("too late"))?;
    scene.phase_is(WorkflowRunPhase::Cancelled)?;
    same(
        "the phase of job b",
        &scene.job("b")?.phase,
        &JobPhase::Waiting,
    )?;
    scene.runs_are(&["a/s"])
}

fn before(scene: &mut Scene<'_>) -> Checked {
    let spec = WorkflowRunSpec {
        jobs: read(json!({"a": job(&[], "1")}))?,
        cancel_requested: true,
        ..WorkflowRunSpec::default()
    };
    scene.subject.submit(NAME, spec)?;
    scene.subject.settle();
    scene.phase_is(WorkflowRunPhase::Cancelled)?;
    same("the state of jobs", &scene.subject.status(NAME).jobs, &None)?;
    scene.runs_are(&[])
}

fn deep(scene: &mut Scene<'_>) -> Checked {
    scene.workflow("w", json!({"jobs": {"j": job(&[], "1")}}))?;
    scene.action("act", json!({"steps": [{"name": "one", "run": "1"}]}))?;
    let steps = json!([{"name": "s", "uses": "act"}]);
    scene.begin(json!({"call": {"uses": "w"}, "act": {"runs-on": "bash", "steps": steps}}))?;
    let child = names::child_workflow_run(NAME, "call");
    scene.subject.cancel(NAME);
    scene.subject.settle();
    same(
        "whether the Run of the Action is asked",
        &scene.run("act/s/one")?.cancel_asked,
        &true,
    )?;
    let grandchild = scene.run_of(&child, "j/s")?;
    same(
        "whether the Run of the call is asked",
        &grandchild.cancel_asked,
        &true,
    )?;
    scene.end("act/s/one", End::cancelled())?;
    scene.end_of(&child, "j/s", End::cancelled())?;
    same(
        "the phase of the call",
        &scene.subject.status(&child).phase,
        &WorkflowRunPhase::Cancelled,
    )?;
    scene.phase_is(WorkflowRunPhase::Cancelled)
}
