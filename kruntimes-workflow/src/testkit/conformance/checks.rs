//! Jobs, steps, texts and data (sections 3, 5, 6, 8, 9, 13 and 16).

use kruntimes_core::api::{JobPhase, StepPhase, WorkflowRunPhase};
use serde_json::{Value, json};

use super::{Check, Checked, NAME, Scene, same};
use crate::driver::End;

pub(super) const CHECKS: &[Check] = &[
    Check {
        items: &[65, 66, 68, 165],
        name: "independent jobs start together",
        play: together,
    },
    Check {
        items: &[14, 16],
        name: "a cycle is refused",
        play: cycle,
    },
    Check {
        items: &[11, 13],
        name: "a duplicate step is refused",
        play: duplicate,
    },
    Check {
        items: &[109, 216],
        name: "a missing Action is refused",
        play: missing_action,
    },
    Check {
        items: &[128],
        name: "an import from no dependency is refused",
        play: artifact_edge,
    },
    Check {
        items: &[74, 75, 80, 166],
        name: "dependents of a failure are skipped",
        play: skipping,
    },
    Check {
        items: &[72],
        name: "a timeout stays a timeout",
        play: timeout,
    },
    Check {
        items: &[95],
        name: "a step cancelled by hand fails its job",
        play: by_hand,
    },
    Check {
        items: &[81],
        name: "the first failed job speaks",
        play: first_message,
    },
    Check {
        items: &[77, 121, 79],
        name: "steps follow each other",
        play: steps,
    },
    Check {
        items: &[25, 26, 27, 119],
        name: "texts are evaluated once",
        play: texts,
    },
    Check {
        items: &[30, 171],
        name: "names may have dots",
        play: dots,
    },
    Check {
        items: &[34, 39],
        name: "only dependencies are visible",
        play: visible,
    },
    Check {
        items: &[37, 136],
        name: "reserved keys are invisible",
        play: reserved,
    },
    Check {
        items: &[41, 43],
        name: "names are derived",
        play: names,
    },
    Check {
        items: &[85],
        name: "outputs of jobs reach dependents",
        play: outputs,
    },
    Check {
        items: &[120],
        name: "args are stored",
        play: args,
    },
    Check {
        items: &[132, 135],
        name: "variables reach later steps",
        play: variables,
    },
    Check {
        items: &[133],
        name: "a bad variable fails the next step",
        play: bad_variable,
    },
    Check {
        items: &[130],
        name: "a missing artifact fails the step",
        play: missing_artifact,
    },
    Check {
        items: &[156, 157, 158, 159, 164],
        name: "a killed driver goes on",
        play: crashes,
    },
    Check {
        items: &[83],
        name: "an end is final",
        play: finality,
    },
];

/// A job on bash with one step `s`.
pub(super) fn job(needs: &[&str], script: &str) -> Value {
    json!({"runs-on": "bash", "needs": needs, "steps": [{"name": "s", "run": script}]})
}

fn steps_of(steps: &Value) -> Value {
    json!({"runs-on": "bash", "steps": steps})
}

fn together(scene: &mut Scene<'_>) -> Checked {
    scene.begin(json!({"a": job(&[], "1"), "b": job(&[], "1"), "c": job(&["a"], "1")}))?;
    scene.runs_are(&["a/s", "b/s"])?;
    scene.phase_is(WorkflowRunPhase::Running)?;
    same(
        "what job c waits for",
        &scene.job("c")?.pre,
        &vec!["a".to_owned()],
    )
}

fn cycle(scene: &mut Scene<'_>) -> Checked {
    let jobs = json!({"build": job(&["test"], "1"), "test": job(&["build"], "1")});
    scene.refused(
        jobs,
        "workflow job dependency cycle: build -> test -> build",
    )
}

fn duplicate(scene: &mut Scene<'_>) -> Checked {
    let jobs =
        json!({"a": steps_of(&json!([{"name": "s", "run": "1"}, {"name": "s", "run": "2"}]))});
    scene.refused(jobs, "job \"a\" step name \"s\" is duplicated")
}

fn missing_action(scene: &mut Scene<'_>) -> Checked {
    let jobs = json!({"a": steps_of(&json!([{"name": "s", "uses": "ghost"}]))});
    scene.refused(
        jobs,
        "Action \"ghost\" for step \"s\" in job \"a\" does not exist",
    )
}

fn artifact_edge(scene: &mut Scene<'_>) -> Checked {
    let import = json!([{"from": "jobs.a.artifacts.x", "path": "x"}]);
    let steps = json!([{"name": "s", "run": "1", "artifacts": import}]);
    let jobs = json!({"a": job(&[], "1"), "b": steps_of(&steps)});
    let text =
        "job \"b\" artifact input \"jobs.a.artifacts.x\" must reference a direct needs dependency";
    scene.refused(jobs, text)
}

fn skipping(scene: &mut Scene<'_>) -> Checked {
    let jobs = json!({
        "build": job(&[], "1"), "test": job(&["build"], "1"), "deploy": job(&["test"], "1"),
        "lint": job(&[], "1"),
    });
    scene.begin(jobs)?;
    scene.end("build/s", End::failed("exit 1"))?;
    let text = "job \"test\" needs job \"build\", which is Failed";
    scene.job_is("test", JobPhase::Skipped, "DependencyFailed", text)?;
    let text = "job \"deploy\" needs job \"test\", which is Skipped";
    scene.job_is("deploy", JobPhase::Skipped, "DependencyFailed", text)?;
    scene.phase_is(WorkflowRunPhase::Running)?;
    scene.succeed("lint/s", &[])?;
    scene.phase_is(WorkflowRunPhase::Failed)
}

fn timeout(scene: &mut Scene<'_>) -> Checked {
    scene.begin(json!({"a": job(&[], "1")}))?;
    scene.end("a/s", End::timed_out("late"))?;
    let found = scene.job("a")?.steps[0].phase;
    same("the phase of the step", &found, &StepPhase::Timeout)?;
    let text = "step \"s\" in job \"a\" timed out: late";
    scene.job_is("a", JobPhase::Failed, "StepTimeout", text)
}

fn by_hand(scene: &mut Scene<'_>) -> Checked {
    scene.begin(json!({"a": job(&[], "1")}))?;
    scene.end("a/s", End::cancelled())?;
    scene.job_is(
        "a",
        JobPhase::Failed,
        "StepCancelled",
        "step \"s\" in job \"a\" was cancelled",
    )?;
    scene.phase_is(WorkflowRunPhase::Failed)
}

fn first_message(scene: &mut Scene<'_>) -> Checked {
    scene.begin(json!({"a": job(&[], "1"), "b": job(&[], "1")}))?;
    scene.end("b/s", End::failed("two"))?;
    scene.end("a/s", End::failed("one"))?;
    let found = scene.subject.status(NAME).message.unwrap_or_default();
    same(
        "the message",
        &found.as_str(),
        &"step \"s\" in job \"a\" failed: one",
    )
}

fn steps(scene: &mut Scene<'_>) -> Checked {
    let steps = json!([{"name": "one", "run": "1"}, {"name": "two", "run": "2"}, {"name": "three", "run": "3"}]);
    scene.begin(json!({"a": steps_of(&steps)}))?;
    scene.runs_are(&["a/one"])?;
    scene.succeed("a/one", &[])?;
    scene.runs_are(&["a/one", "a/two"])?;
    scene.end("a/two", End::failed("no"))?;
    scene.runs_are(&["a/one", "a/two"])?;
    let found = scene.job("a")?.steps[2].phase;
    same("the phase of the last step", &found, &StepPhase::Pending)
}

fn texts(scene: &mut Scene<'_>) -> Checked {
    let steps = json!([
        {"name": "one", "run": "1"},
        {"name": "two", "run": "a${{ steps.one.outputs.k }}b${{ '${{' }}", "env": {"E": "${{ steps.one.outputs.k }}"}},
    ]);
    scene.begin(json!({"a": steps_of(&steps)}))?;
    scene.succeed("a/one", &[("k", "${{ jobs.x.outputs.y }}")])?;
    let found = scene.script("a/two")?;
    same(
        "the script",
        &found.as_str(),
        &"a${{ jobs.x.outputs.y }}b${{",
    )?;
    let env = scene.run("a/two")?.spec.env;
    let value = env
        .first()
        .and_then(|one| one.value.clone())
        .unwrap_or_default();
    same("the variable", &value.as_str(), &"${{ jobs.x.outputs.y }}")
}

fn dots(scene: &mut Scene<'_>) -> Checked {
    let steps = json!([
        {"name": "lint.fast", "run": "1"},
        {"name": "s", "run": "${{ steps.lint.fast.outputs.with.dots }}"},
    ]);
    scene.begin(json!({"a.b": steps_of(&steps)}))?;
    scene.succeed("a.b/lint.fast", &[("with.dots", "v")])?;
    let found = scene.script("a.b/s")?;
    same("the script", &found.as_str(), &"v")
}

fn visible(scene: &mut Scene<'_>) -> Checked {
    let reader = job(&[], "${{ jobs.a.outputs.x }}");
    scene.begin(json!({"a": job(&[], "1"), "b": reader}))?;
    scene.runs_are(&["a/s"])?;
    let text = "resolve step \"s\" in job \"b\": run: no outputs for a";
    scene.job_is("b", JobPhase::Failed, "InvalidExpression", text)
}

fn reserved(scene: &mut Scene<'_>) -> Checked {
    let key = "kruntimes.io/env/P";
    let steps = json!([
        {"name": "one", "run": "1"},
        {"name": "two", "run": "${{ steps.one.outputs.kruntimes.io/env/P }}"},
    ]);
    scene.begin(json!({"a": steps_of(&steps)}))?;
    scene.succeed("a/one", &[(key, "v")])?;
    let text = "resolve step \"two\" in job \"a\": run: no outputs for one";
    scene.job_is("a", JobPhase::Failed, "InvalidExpression", text)?;
    let found = scene.job("a")?.steps[0].outputs.contains_key(key);
    same("whether the step keeps the key", &found, &true)
}

fn names(scene: &mut Scene<'_>) -> Checked {
    scene.begin(json!({"build": steps_of(&json!([{"name": "compile", "run": "1"}]))}))?;
    let found = scene.run("build/compile")?.name;
    same("the name", &found.as_str(), &"wfr-4ffdf7aa5c")
}

fn outputs(scene: &mut Scene<'_>) -> Checked {
    let mut maker = job(&[], "1");
    maker["outputs"] = json!({"tag": "v${{ steps.s.outputs.n }}"});
    scene.begin(json!({"a": maker, "b": job(&["a"], "got ${{ jobs.a.outputs.tag }}")}))?;
    scene.succeed("a/s", &[("n", "1")])?;
    let found = scene.script("b/s")?;
    same("the script", &found.as_str(), &"got v1")
}

fn args(scene: &mut Scene<'_>) -> Checked {
    let steps = json!([{"name": "s", "run": "1", "args": ["a${{ '' }}", "b"]}]);
    scene.begin(json!({"a": steps_of(&steps)}))?;
    let task = scene.run("a/s")?.spec.mode.task.unwrap_or_default();
    same(
        "the arguments",
        &task.args,
        &vec!["a".to_owned(), "b".to_owned()],
    )
}

fn variables(scene: &mut Scene<'_>) -> Checked {
    let steps = json!([
        {"name": "one", "run": "1"},
        {"name": "two", "run": "2", "env": {"OWN": "own"}},
    ]);
    scene.begin(json!({"a": steps_of(&steps)}))?;
    scene.succeed(
        "a/one",
        &[
            ("kruntimes.io/env/OWN", "lost"),
            ("kruntimes.io/env/VAR", "${{ x"),
        ],
    )?;
    let env = scene.run("a/two")?.spec.env;
    let shown = env
        .into_iter()
        .map(|one| format!("{}={}", one.name, one.value.unwrap_or_default()));
    let want = vec!["OWN=own".to_owned(), "VAR=${{ x".to_owned()];
    same("the environment", &shown.collect(), &want)
}

fn bad_variable(scene: &mut Scene<'_>) -> Checked {
    let steps = json!([{"name": "one", "run": "1"}, {"name": "two", "run": "2"}]);
    scene.begin(json!({"a": steps_of(&steps)}))?;
    scene.succeed("a/one", &[("kruntimes.io/env/9", "v")])?;
    let text = "resolve step \"two\" in job \"a\": reserved environment output \"kruntimes.io/env/9\" \
                has invalid variable name: must match [A-Za-z_][A-Za-z0-9_]*";
    scene.job_is("a", JobPhase::Failed, "InvalidExpression", text)
}

fn missing_artifact(scene: &mut Scene<'_>) -> Checked {
    let mut reader = job(&["a"], "1");
    reader["steps"][0]["artifacts"] = json!([{"from": "jobs.a.artifacts.x", "path": "x"}]);
    scene.begin(json!({"a": job(&[], "1"), "b": reader}))?;
    scene.succeed("a/s", &[])?;
    let text =
        "resolve step \"s\" in job \"b\": artifact input \"jobs.a.artifacts.x\" was not produced";
    scene.job_is("b", JobPhase::Failed, "ArtifactMissing", text)
}

fn crashes(scene: &mut Scene<'_>) -> Checked {
    let steps =
        json!([{"name": "one", "run": "1"}, {"name": "two", "run": "${{ steps.one.outputs.k }}"}]);
    scene.begin(json!({"a": steps_of(&steps), "b": job(&["a"], "1")}))?;
    for (place, next) in [("a/one", "a/two"), ("a/two", "b/s")] {
        let before = scene.run(place)?.name;
        scene.subject.crash();
        scene.subject.settle();
        same("the name of the Run", &scene.run(place)?.name, &before)?;
        scene.succeed(place, &[("k", "kept")])?;
        scene.subject.crash();
        scene.subject.settle();
        scene.run(next)?;
    }
    let found = scene.script("a/two")?;
    same("the script", &found.as_str(), &"kept")?;
    scene.succeed("b/s", &[])?;
    scene.runs_are(&["a/one", "a/two", "b/s"])?;
    scene.phase_is(WorkflowRunPhase::Succeeded)
}

fn finality(scene: &mut Scene<'_>) -> Checked {
    scene.begin(json!({"a": job(&[], "1")}))?;
    scene.succeed("a/s", &[])?;
    let before = scene.subject.status(NAME);
    scene.subject.cancel(NAME);
    scene.subject.settle();
    same(
        "the status",
        &scene.subject.status(NAME).phase,
        &before.phase,
    )
}
