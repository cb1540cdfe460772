//! Jobs that need each other.

use serde_json::{Value, json};

use super::World;

/// A job of one step.
pub(crate) fn job(needs: &[&str], script: &str) -> Value {
    let steps = json!([{"name": "step", "run": script}]);
    match needs {
        [] => json!({"runs-on": "bash", "steps": steps}),
        needs => json!({"runs-on": "bash", "needs": needs, "steps": steps}),
    }
}

pub(crate) async fn a_diamond_of_jobs_hands_outputs_down(world: &World) {
    let journal = world.file("journal");
    let says = |what: &str| format!("echo {what} >> {}", journal.display());
    let mut top = job(
        &[],
        &format!("{}; echo word=top >> \"$KRUNTIME_OUTPUTS\"", says("top")),
    );
    top["outputs"] = json!({"word": "${{ steps.step.outputs.word }}"});
    let side = |name: &str| {
        let script = "echo \"word=$WORD-$SIDE\" >> \"$KRUNTIME_OUTPUTS\"";
        json!({
            "runs-on": "bash", "needs": ["top"],
            "outputs": {"word": "${{ steps.step.outputs.word }}"},
            "steps": [
                {"name": "note", "run": says(name)},
                {"name": "step", "run": script,
                 "env": {"WORD": "${{ jobs.top.outputs.word }}", "SIDE": name}},
            ],
        })
    };
    let bottom = json!({
        "runs-on": "bash", "needs": ["left", "right"],
        "outputs": {"all": "${{ steps.join.outputs.all }}"},
        "steps": [{
            "name": "join",
            "run": format!("{}; echo \"all=$A $B\" >> \"$KRUNTIME_OUTPUTS\"", says("bottom")),
            "env": {"A": "${{ jobs.left.outputs.word }}", "B": "${{ jobs.right.outputs.word }}"},
        }],
    });
    let jobs = json!({"top": top, "left": side("left"), "right": side("right"), "bottom": bottom});
    world.submit("diamond", jobs).await;
    let status = world.end_of("diamond").await;
    assert_eq!(status["phase"], "Succeeded", "{status:#}");
    assert_eq!(
        status["jobs"]["bottom"]["outputs"],
        json!({"all": "top-left top-right"})
    );
    let journal = std::fs::read_to_string(journal).unwrap();
    let lines: Vec<&str> = journal.lines().collect();
    assert_eq!(
        (lines[0], lines[3], lines.len()),
        ("top", "bottom", 4),
        "{lines:?}"
    );
}

pub(crate) async fn a_failed_step_skips_what_needs_it(world: &World) {
    let jobs = json!({
        "bad": job(&[], "exit 17"),
        "after": job(&["bad"], "true"),
        "later": job(&["after"], "true"),
        "free": job(&[], "true"),
    });
    world.submit("broken", jobs).await;
    let status = world.end_of("broken").await;
    assert_eq!(status["phase"], "Failed");
    let phases = ["bad", "after", "later", "free"].map(|job| status["jobs"][job]["phase"].clone());
    assert_eq!(phases, ["Failed", "Skipped", "Skipped", "Succeeded"]);
    assert_eq!(
        world.run_names().await.len(),
        2,
        "what is skipped has no Run"
    );
}

pub(crate) async fn runs_go_with_their_workflow_run(world: &World) {
    world
        .submit(
            "owner",
            json!({"a": job(&[], "true"), "b": job(&["a"], "true")}),
        )
        .await;
    let status = world.end_of("owner").await;
    assert_eq!(status["phase"], "Succeeded", "{status:#}");
    let runs = world.run_names().await;
    assert_eq!(runs.len(), 2);
    let background = kube::api::DeleteParams::background();
    world
        .workflow_runs()
        .delete("owner", &background)
        .await
        .unwrap();
    for run in runs {
        world.end_of_existence(&run).await;
    }
}
