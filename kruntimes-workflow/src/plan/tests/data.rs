//! Outputs, environment and expressions between steps and jobs.

use kruntimes_core::api::{JobPhase, RunPhase, Step, WorkflowRunPhase};

use super::*;

fn script(run: &StartStep) -> &str {
    run.spec.source.as_ref().unwrap().inline.as_deref().unwrap()
}

#[test]
fn outputs_travel_through_steps_jobs_and_dependencies() {
    let mut world = World::accepted(jobs([
        (
            "build",
            a_job()
                .step("pack", "1")
                .step("use", "tag ${{ steps.pack.outputs.tag }}")
                .output("tag", "<${{ steps.pack.outputs.tag }}>"),
        ),
        ("mid", a_job().needs(&["build"])),
        (
            "ship",
            a_job()
                .needs(&["mid"])
                .step("s", "ship ${{ jobs.build.outputs.tag }}"),
        ),
    ]));
    world.turn();
    // W-173: data that looks like an expression stays data.
    world.succeed("build", "pack", &[("tag", "${{ jobs.x.outputs.y }}")]);
    world.turn();
    assert_eq!(script(&world.created[1]), "tag ${{ jobs.x.outputs.y }}");
    world.succeed("build", "use", &[]);
    world.turn();
    assert_eq!(
        world.job("build").outputs["tag"],
        "<${{ jobs.x.outputs.y }}>"
    );
    // W-85: a job without outputs has none.
    world.succeed("mid", "s", &[("k", "v")]);
    world.turn();
    assert!(world.job("mid").outputs.is_empty());
    // W-34: a transitive dependency is visible.
    assert_eq!(script(&world.created[3]), "ship <${{ jobs.x.outputs.y }}>");
}

#[test]
fn w_39_w_73_w_79_a_step_that_cannot_be_resolved_gets_no_run() {
    let later = "${{ steps.t.outputs.k }}";
    for (text, cause) in [
        (later, "run: no outputs for t"),
        ("${{ jobs.other.outputs.k }}", "run: no outputs for other"),
        ("${{ inputs.x }}", "run: no inputs available"),
        ("${{ nope", "run: unterminated expression"),
    ] {
        let mut world = World::accepted(jobs([
            ("a", a_job().step("s", text).step("t", "2")),
            ("b", a_job().needs(&["a"])),
            ("other", a_job().output("k", "v")),
        ]));
        world.starts(&["other/s"]);
        let want = format!("resolve step \"s\" in job \"a\": {cause}");
        assert_eq!(world.message(), want);
        assert_eq!(world.job("a").phase, JobPhase::Running);
        assert_eq!(world.step_phases("a")[0], StepPhase::Failed);
        assert_eq!(world.job("a").steps[0].run_name, None);
        world.starts(&[]);
        let job = world.job("a");
        assert_eq!(
            (job.phase, job.reason.as_deref()),
            (JobPhase::Failed, Some("InvalidExpression"))
        );
        assert_eq!(world.job("b").phase, JobPhase::Skipped);
        world.succeed("other", "s", &[]);
        world.turn();
        assert_eq!(world.phase(), WorkflowRunPhase::Failed);
        assert_eq!(world.condition("Completed").unwrap().2, want);
    }
}

#[test]
fn w_34_a_finished_job_outside_needs_is_never_visible() {
    let mut world = World::accepted(jobs([
        ("a", a_job().output("k", "v")),
        ("b", a_job()),
        (
            "c",
            a_job().needs(&["b"]).step("s", "${{ jobs.a.outputs.k }}"),
        ),
    ]));
    world.turn();
    world.succeed("a", "s", &[]);
    world.succeed("b", "s", &[]);
    world.turn();
    assert_eq!(world.job("a").phase, JobPhase::Succeeded);
    assert_eq!(
        world.message(),
        "resolve step \"s\" in job \"c\": run: no outputs for a"
    );
}

#[test]
fn w_39_job_outputs_that_do_not_evaluate_fail_the_job() {
    let mut world = World::accepted(jobs([
        ("a", a_job().output("k", "${{ steps.s.outputs.tag }}")),
        ("b", a_job().needs(&["a"])),
    ]));
    world.turn();
    world.succeed("a", "s", &[("other", "1")]);
    world.starts(&[]);
    let text = "resolve outputs for job \"a\": output \"k\": no output \"tag\" in s";
    assert_eq!(world.message(), text);
    assert_eq!(
        world.job("a").reason.as_deref(),
        Some("OutputEvaluationFailed")
    );
    assert_eq!(world.job("a").steps[0].phase, StepPhase::Succeeded);
    assert_eq!(world.job("b").phase, JobPhase::Skipped);
}

#[test]
fn w_132_the_environment_is_published_overridden_and_sorted() {
    let last = Step {
        name: "t".into(),
        run: Some("1".into()),
        env: [
            ("OWN".to_owned(), "o".to_owned()),
            ("BOTH".into(), "step".into()),
        ]
        .into(),
        ..Step::default()
    };
    let mut world = World::accepted(jobs([
        ("a", a_job().step("s", "1").step_with(last)),
        ("b", a_job().needs(&["a"])),
    ]));
    world.turn();
    let published = [
        ("kruntimes.io/env/BOTH", "published"),
        ("kruntimes.io/env/PUB", "${{ p }}"),
    ];
    world.succeed("a", "s", &published);
    world.turn();
    let env: Vec<_> = world.created[1]
        .spec
        .env
        .iter()
        .map(|var| (var.name.as_str(), var.value.as_deref().unwrap()))
        .collect();
    assert_eq!(env, [("BOTH", "step"), ("OWN", "o"), ("PUB", "${{ p }}")]);
    // W-136: reserved keys stay in the step's stored outputs.
    assert!(
        world.job("a").steps[0]
            .outputs
            .contains_key("kruntimes.io/env/PUB")
    );
    // W-135: they never cross a job boundary.
    world.succeed("a", "t", &[]);
    world.turn();
    assert!(world.created[2].spec.env.is_empty());
}

#[test]
fn w_133_a_bad_variable_name_fails_the_next_step() {
    let mut world = World::accepted(jobs([("a", a_job().step("s", "1").step("t", "2"))]));
    world.turn();
    world.succeed("a", "s", &[("kruntimes.io/env/KRUNTIME_X", "1")]);
    world.starts(&[]);
    assert_eq!(
        world.message(),
        "resolve step \"t\" in job \"a\": reserved environment output \
         \"kruntimes.io/env/KRUNTIME_X\" has invalid variable name: must not start with KRUNTIME_"
    );
}

#[test]
fn w_86_a_contract_is_published_from_the_frozen_copy() {
    let annotations = |value: &str, key: &str| {
        BTreeMap::from([(
            format!("kruntimes.io/workflow-output.{key}"),
            value.to_owned(),
        )])
    };
    let run = |annotations: BTreeMap<String, String>| {
        let mut world = World::new(jobs([("a", a_job().output("k", "v"))]));
        world.state.annotations = annotations;
        world.turn();
        // W-51: later edits of the annotations change nothing.
        world.state.annotations.clear();
        world.turn();
        world.succeed("a", "s", &[]);
        world.turn();
        assert_eq!(world.phase(), WorkflowRunPhase::Succeeded);
        world
    };
    let world = run(annotations("<${{ jobs.a.outputs.k }}>", "image"));
    assert_eq!(world.status().outputs["image"], "<v>");
    assert_eq!(world.condition("OutputsResolved"), None);

    let world = run(annotations("${{ jobs.ghost.outputs.k }}", "image"));
    assert!(world.status().outputs.is_empty());
    let cause = "output \"image\": no outputs for ghost";
    let want = Some(("False", "OutputEvaluationFailed", cause));
    assert_eq!(world.condition("OutputsResolved"), want);

    let world = run(annotations("v", "-bad"));
    let cause = "invalid workflow output annotation \"kruntimes.io/workflow-output.-bad\"";
    assert_eq!(world.condition("OutputsResolved").unwrap().2, cause);
}

#[test]
fn w_84_case_011_all_outputs_together_have_a_budget() {
    let big = "v".repeat(8000);
    let entries: Vec<_> = (0..8).map(|n| format!("k{n}")).collect();
    let outputs: Vec<_> = entries
        .iter()
        .map(|key| (key.as_str(), big.as_str()))
        .collect();
    let names: Vec<_> = (0..10).map(|n| format!("j{n}")).collect();
    let all = names
        .iter()
        .map(|name| (name.clone(), a_job().build()))
        .collect();
    let mut world = World::accepted(all);
    world.turn();
    for name in &names {
        world.succeed(name, "s", &outputs);
    }
    world.turn();
    // Eight times 64016 bytes fit, the ninth does not.
    let failed: Vec<_> = world
        .phases()
        .into_iter()
        .filter(|(_, phase)| *phase == JobPhase::Failed)
        .collect();
    assert_eq!(failed, [("j8", JobPhase::Failed), ("j9", JobPhase::Failed)]);
    assert_eq!(world.job("j8").reason.as_deref(), Some("OutputsTooLarge"));
    assert!(world.job("j8").steps[0].outputs.is_empty());
    assert_eq!(
        world.message(),
        "outputs of step \"s\" in job \"j8\" take the WorkflowRun to 576144 bytes, exceeds 524288"
    );
}

#[test]
fn w_84_a_multiplied_job_output_is_refused_without_being_built() {
    let twelve = "${{ steps.s.outputs.k }}".repeat(12);
    let mut world = World::accepted(jobs([("a", a_job().output("o", &twelve))]));
    world.turn();
    world.succeed("a", "s", &[("k", &"v".repeat(8000))]);
    world.turn();
    assert_eq!(
        world.message(),
        "outputs of job \"a\" are 96001 bytes, exceeds 65536"
    );
    assert_eq!(world.job("a").reason.as_deref(), Some("OutputsTooLarge"));
}

#[test]
fn w_40_rendered_text_has_a_limit() {
    let text = "${{ steps.s.outputs.k }}".repeat(40);
    let mut world = World::accepted(jobs([("a", a_job().step("s", "1").step("t", &text))]));
    world.turn();
    world.succeed("a", "s", &[("k", &"v".repeat(8000))]);
    world.turn();
    assert_eq!(
        world.message(),
        "resolve step \"t\" in job \"a\": rendered run is 320000 bytes, exceeds 262144"
    );
    assert_eq!(world.run("a", "s").phase, RunPhase::Succeeded);
}
