//! Acceptance, and what starts when.

use kruntimes_core::api::{Step, StepArtifact};

use super::*;

#[test]
fn w_65_w_66_the_first_turn_only_initializes() {
    let mut world = World::new(jobs([
        ("build", a_job().step("a", "1").step("b", "2")),
        ("test", a_job().needs(&["build", "build"])),
    ]));
    let action = world.turn();
    let Action::Initialize(initialize) = action else {
        panic!("{action:?}")
    };
    assert_eq!(
        initialize.name,
        kruntimes_core::names::snapshot("wfr", "uid-1")
    );
    assert_eq!(initialize.labels["kruntimes.io/workflowrun-uid"], "uid-1");
    assert_eq!(
        initialize.snapshot.unwrap().spec.jobs,
        world.state.spec.jobs
    );
    assert!(world.created.is_empty());
    assert_eq!(world.phase(), WorkflowRunPhase::Pending);
    assert_eq!(
        world.condition("Accepted"),
        Some(("True", "Accepted", "WorkflowRun accepted and initialized"))
    );
    assert_eq!(world.status().conditions[0].observed_generation, Some(1));
    assert_eq!(
        world.phases(),
        [("build", JobPhase::Pending), ("test", JobPhase::Waiting)]
    );
    assert_eq!(world.job("test").pre, ["build"]);
    let names: Vec<_> = world
        .job("build")
        .steps
        .iter()
        .map(|step| &step.name)
        .collect();
    assert_eq!(names, ["a", "b"]);
}

#[test]
fn w_68_w_165_the_second_turn_starts_every_ready_job_and_a_third_nothing() {
    let mut world = World::accepted(jobs([
        ("c", a_job()),
        ("a", a_job()),
        ("b", a_job()),
        ("d", a_job().needs(&["a"])),
    ]));
    world.starts(&["a/s", "b/s", "c/s"]);
    assert_eq!(world.phase(), WorkflowRunPhase::Running);
    assert_eq!(world.job("a").phase, JobPhase::Running);
    assert_eq!(
        world.job("a").steps[0].run_name.as_deref(),
        Some(world.created[0].name.as_str())
    );
    world.idle_turn();
}

#[test]
fn w_119_the_child_run_is_completely_described() {
    let step = Step {
        name: "s".into(),
        run: Some("echo ${{ '${{' }}".into()),
        args: vec!["${{ 'x' }}".into()],
        env: [("B".to_owned(), "2".to_owned()), ("A".into(), "1".into())].into(),
        ..Step::default()
    };
    let mut world = World::accepted(jobs([("build", a_job().step_with(step))]));
    world.turn();
    let start = &world.created[0];
    assert_eq!(
        start.name,
        kruntimes_core::names::child_run("wfr", "build", "s", "")
    );
    insta::assert_json_snapshot!(start.labels, @r#"
    {
      "kruntimes.io/workflow-job": "build",
      "kruntimes.io/workflow-step": "s",
      "kruntimes.io/workflowrun-uid": "uid-1"
    }
    "#);
    insta::assert_json_snapshot!(start.spec, @r#"
    {
      "runtime": "bash",
      "mode": {
        "task": {
          "args": [
            "x"
          ]
        }
      },
      "source": {
        "inline": "echo ${{"
      },
      "env": [
        {
          "name": "A",
          "value": "1"
        },
        {
          "name": "B",
          "value": "2"
        }
      ]
    }
    "#);
}

#[test]
fn w_59_w_121_a_success_starts_the_next_step_and_newly_ready_jobs_at_once() {
    let mut world = World::accepted(jobs([
        ("a", a_job().step("one", "1").step("two", "2")),
        ("b", a_job()),
        ("c", a_job().needs(&["b"])),
    ]));
    world.turn();
    world.succeed("a", "one", &[]);
    world.succeed("b", "s", &[]);
    world.starts(&["a/two", "c/s"]);
    assert_eq!(world.job("b").phase, JobPhase::Succeeded);
    // W-60: a job never advances twice in one turn.
    assert_eq!(world.created.len(), 4);
}

#[test]
fn w_76_a_join_waits_for_its_last_need() {
    let mut world = World::accepted(jobs([
        ("a", a_job()),
        ("l", a_job().needs(&["a"])),
        ("r", a_job().needs(&["a"])),
        ("z", a_job().needs(&["l", "r"])),
    ]));
    world.starts(&["a/s"]);
    world.succeed("a", "s", &[]);
    world.starts(&["l/s", "r/s"]);
    world.succeed("l", "s", &[]);
    world.starts(&[]);
    world.succeed("r", "s", &[]);
    world.starts(&["z/s"]);
    world.succeed("z", "s", &[]);
    world.turn();
    assert_eq!(world.phase(), WorkflowRunPhase::Succeeded);
    assert_eq!(
        world.condition("Completed"),
        Some(("True", "WorkflowRunSucceeded", "no job failed"))
    );
}

#[test]
fn w_77_a_job_whose_status_lists_other_steps_yields_no_target() {
    let mut world = World::accepted(jobs([("a", a_job())]));
    let job = world
        .state
        .status
        .jobs
        .as_mut()
        .unwrap()
        .get_mut("a")
        .unwrap();
    job.steps[0].name = "other".into();
    world.idle_turn();
}

#[test]
fn w_16_a_broken_definition_is_refused_for_good() {
    let refuse = |jobs| {
        let mut world = World::new(jobs);
        assert_eq!(world.turn(), Action::None);
        assert_eq!(world.phase(), WorkflowRunPhase::Failed);
        assert!(world.status().jobs.is_none() && world.state.snapshot.is_none());
        let text = world.message().to_owned();
        let refused = Some(("False", "WorkflowValidationFailed", text.as_str()));
        assert_eq!(world.condition("Accepted"), refused);
        assert_eq!(world.condition("Completed"), refused);
        assert_eq!(world.status().conditions[0].observed_generation, Some(1));
        world.idle_turn();
        text
    };
    let step = |edit: fn(&mut Step)| {
        let mut step = Step {
            name: "s".into(),
            run: Some("1".into()),
            ..Step::default()
        };
        edit(&mut step);
        jobs([("x", a_job().step_with(step))])
    };
    for (jobs, want) in [
        (
            jobs([("a", a_job().needs(&["a"]))]),
            "workflow job dependency cycle: a -> a".to_owned(),
        ),
        (
            step(|step| (step.run, step.uses) = (None, Some("tools".into()))),
            "Action \"tools\" for step \"s\" in job \"x\" does not exist".to_owned(),
        ),
        (
            step(|step| {
                let (from, path) = ("jobs.a.artifacts.b".into(), "b".into());
                step.artifacts = vec![StepArtifact { from, path }];
            }),
            "job \"x\" artifact input \"jobs.a.artifacts.b\" must reference a direct needs dependency".to_owned(),
        ),
    ] {
        assert_eq!(refuse(jobs), want);
    }
}

#[test]
fn w_64_an_object_being_deleted_is_left_alone() {
    let mut world = World::accepted(jobs([("a", a_job())]));
    world.state.deleting = true;
    world.idle_turn();
    world.state.spec.cancel_requested = true;
    world.idle_turn();
}

#[test]
fn w_51_execution_reads_the_snapshot_only() {
    let mut world = World::accepted(jobs([("a", a_job().step("s", "frozen"))]));
    world.state.spec.jobs = jobs([("other", a_job().step("s", "edited"))]);
    world.starts(&["a/s"]);
    let source = world.created[0].spec.source.clone().unwrap();
    assert_eq!(source.inline.as_deref(), Some("frozen"));
}

#[test]
fn w_171_case_040_names_that_resemble_each_other_stay_apart() {
    // `a-b` / `c` and `a` / `b-c` would join to the same text.
    let mut world = World::accepted(jobs([
        ("Build_All", a_job().step("build-all", "1")),
        ("build-all", a_job().step("a.b", "1")),
        ("a-b", a_job().step("c", "1")),
        ("a", a_job().step("b-c", "1")),
    ]));
    world.state.name = "n".repeat(240);
    world.turn();
    let names: std::collections::BTreeSet<_> = world.created.iter().map(|run| &run.name).collect();
    assert_eq!(names.len(), 4);
    let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c);
    for run in &world.created {
        assert!(run.name.len() <= 253 && run.name.chars().all(legal));
        assert!(run.labels.values().all(|value| value.len() <= 63));
    }
    // What people read are the names they wrote.
    assert_eq!(world.created[0].labels[LABEL_WORKFLOW_JOB], "Build_All");
    world.succeed("Build_All", "build-all", &[]);
    world.turn();
    assert_eq!(world.job("Build_All").phase, JobPhase::Succeeded);
    assert_eq!(world.job("build-all").phase, JobPhase::Running);
}
