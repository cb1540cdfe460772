//! How children end steps, steps end jobs, and jobs end the WorkflowRun.

use super::*;

#[test]
fn w_72_w_80_a_terminal_phase_is_copied_as_it_is() {
    for (phase, step, reason, text) in [
        (
            RunPhase::Failed,
            StepPhase::Failed,
            "StepFailed",
            "step \"s\" in job \"a\" failed: exit code 17",
        ),
        (
            RunPhase::Timeout,
            StepPhase::Timeout,
            "StepTimeout",
            "step \"s\" in job \"a\" timed out: exit code 17",
        ),
        (
            RunPhase::Cancelled,
            StepPhase::Cancelled,
            "StepCancelled",
            "step \"s\" in job \"a\" was cancelled: exit code 17",
        ),
    ] {
        let mut world = World::accepted(jobs([("a", a_job().step("s", "1").step("t", "2"))]));
        world.turn();
        world.end("a", "s", phase);
        world.run("a", "s").message = "exit code 17".into();
        world.starts(&[]);
        let job = world.job("a");
        assert_eq!(job.steps[0].phase, step);
        assert_eq!(job.steps[1].phase, StepPhase::Pending);
        assert_eq!(
            (job.phase, job.reason.as_deref()),
            (JobPhase::Failed, Some(reason))
        );
        assert_eq!(job.message.as_deref(), Some(text));
        assert_eq!(world.message(), text);
        assert_eq!(world.phase(), WorkflowRunPhase::Failed);
        assert_eq!(
            world.condition("Completed"),
            Some(("False", "JobFailed", text))
        );
        world.idle_turn();
    }
}

#[test]
fn active_phases_leave_the_step_running() {
    let mut world = World::accepted(jobs([("a", a_job())]));
    world.turn();
    for phase in [
        RunPhase::Pending,
        RunPhase::Scheduled,
        RunPhase::Running,
        RunPhase::Ready,
        RunPhase::Finalizing,
    ] {
        world.end("a", "s", phase);
        world.idle_turn();
    }
}

#[test]
fn w_75_w_166_case_028_failure_skips_what_depends_and_starts_what_does_not() {
    let mut world = World::accepted(jobs([
        ("build", a_job()),
        ("test", a_job().needs(&["build"])),
        ("deploy", a_job().needs(&["test"])),
        ("gate", a_job()),
        ("lint", a_job().needs(&["gate"])),
    ]));
    world.turn();
    world.end("build", "s", RunPhase::Failed);
    world.succeed("gate", "s", &[]);
    // All in one turn, W-75 and W-74.
    world.starts(&["lint/s"]);
    assert_eq!(
        world.phases(),
        [
            ("build", JobPhase::Failed),
            ("deploy", JobPhase::Skipped),
            ("gate", JobPhase::Succeeded),
            ("lint", JobPhase::Running),
            ("test", JobPhase::Skipped),
        ]
    );
    // The reason names the deciding job.
    assert_eq!(
        world.job("test").reason.as_deref(),
        Some("DependencyFailed")
    );
    assert_eq!(
        world.job("deploy").message.as_deref(),
        Some("job \"deploy\" needs job \"test\", which is Skipped")
    );
    assert_eq!(world.phase(), WorkflowRunPhase::Running);
    world.succeed("lint", "s", &[]);
    world.turn();
    assert_eq!(world.phase(), WorkflowRunPhase::Failed);
    assert_eq!(world.created.len(), 3);
}

#[test]
fn w_81_the_message_is_that_of_the_first_failed_job_sorted() {
    let mut world = World::accepted(jobs([("a", a_job()), ("b", a_job()), ("c", a_job())]));
    world.turn();
    world.end("c", "s", RunPhase::Failed);
    world.turn();
    assert_eq!(world.message(), "step \"s\" in job \"c\" failed");
    world.end("b", "s", RunPhase::Timeout);
    world.turn();
    assert_eq!(world.message(), "step \"s\" in job \"b\" timed out");
    world.succeed("a", "s", &[]);
    world.turn();
    assert_eq!(world.message(), "step \"s\" in job \"b\" timed out");
}

#[test]
fn w_82_a_recorded_run_that_is_gone_fails_its_step() {
    let mut world = World::accepted(jobs([("a", a_job())]));
    world.turn();
    let name = world.created[0].name.clone();
    // W-170: deleted before it finished. A list that does not show it proves nothing yet.
    world.state.children.clear();
    let step = calculate(&world.state);
    assert_eq!(step.needs, [Need::ConfirmRun(name.clone())]);
    assert_eq!(step.desired, *world.status());
    world.turn();
    let job = world.job("a");
    assert_eq!(job.reason.as_deref(), Some("ChildMissing"));
    assert_eq!(
        job.message.as_deref(),
        Some(format!("child run \"{name}\" for step \"s\" no longer exists").as_str())
    );
    assert_eq!(world.phase(), WorkflowRunPhase::Failed);
}

#[test]
fn w_170_a_run_deleted_after_it_was_seen_finished_changes_nothing() {
    let mut world = World::accepted(jobs([("a", a_job().step("s", "1").step("t", "2"))]));
    world.turn();
    world.succeed("a", "s", &[("k", "v")]);
    world.turn();
    world.state.children.retain(|child| child.step != "s");
    world.idle_turn();
    world.succeed("a", "t", &[]);
    world.turn();
    assert_eq!(world.phase(), WorkflowRunPhase::Succeeded);
    assert_eq!(world.job("a").steps[0].outputs["k"], "v");
}

#[test]
fn w_83_case_037_a_final_phase_never_changes() {
    let mut world = World::accepted(jobs([("a", a_job()), ("b", a_job())]));
    world.turn();
    world.end("a", "s", RunPhase::Failed);
    world.succeed("b", "s", &[]);
    world.turn();
    assert_eq!(world.phase(), WorkflowRunPhase::Failed);
    // Whatever the children say later.
    world.end("a", "s", RunPhase::Succeeded);
    world.end("b", "s", RunPhase::Failed);
    world.idle_turn();
}

#[test]
fn w_47_w_169_the_recorded_run_counts_else_the_smallest_name() {
    let twin = |name: &str, phase| Child {
        name: name.into(),
        job: "a".into(),
        step: "s".into(),
        phase,
        ..Child::default()
    };
    let mut world = World::accepted(jobs([("a", a_job())]));
    world.state.children = vec![twin("z", RunPhase::Failed), twin("m", RunPhase::Succeeded)];
    world.turn();
    assert_eq!(world.job("a").steps[0].run_name.as_deref(), Some("m"));
    assert_eq!(world.phase(), WorkflowRunPhase::Succeeded);

    let mut world = World::accepted(jobs([("a", a_job())]));
    world.turn();
    world.end("a", "s", RunPhase::Running);
    world.state.children.insert(0, twin("a", RunPhase::Failed));
    world.idle_turn();
    world.succeed("a", "s", &[]);
    world.state.children[0].phase = RunPhase::Failed;
    world.state.children[1].phase = RunPhase::Succeeded;
    world.turn();
    assert_eq!(world.phase(), WorkflowRunPhase::Succeeded);
}

#[test]
fn w_46_w_48_foreign_and_unknown_runs_do_not_exist() {
    let child = |job: &str, step: &str, ownership| Child {
        name: format!("x-{job}-{step}"),
        job: job.into(),
        step: step.into(),
        phase: RunPhase::Failed,
        ownership,
        ..Child::default()
    };
    let mut world = World::accepted(jobs([("a", a_job())]));
    world.state.children = vec![
        child("a", "s", Ownership::Foreign),
        child("a", "ghost", Ownership::Controlled),
        child("ghost", "s", Ownership::Controlled),
    ];
    world.starts(&["a/s"]);
    // An orphan with the right labels is used and adopted.
    let mut world = World::accepted(jobs([("a", a_job())]));
    world.state.children = vec![child("a", "s", Ownership::Orphan)];
    assert_eq!(world.decide().adopt.runs, ["x-a-s"]);
}

#[test]
fn w_49_w_40_w_62_a_target_that_cannot_be_created_fails_its_step_only() {
    let mut world = World::accepted(jobs([("a", a_job()), ("b", a_job()), ("c", a_job())]));
    let step = world.decide();
    let Action::StartRunnableSteps(targets) = step.action else {
        panic!("three jobs are ready")
    };
    let targets = targets.steps;
    let outcomes = [
        Outcome::Foreign {
            key: targets[0].key.clone(),
            run: "ns/x".into(),
            owner: "ns/wfr".into(),
        },
        Outcome::Invalid {
            key: targets[1].key.clone(),
            name: "y".into(),
            cause: "no".into(),
        },
        Outcome::Started {
            key: targets[2].key.clone(),
            name: targets[2].name.clone(),
        },
    ];
    world.state.status = merge(step.desired, &outcomes);
    let foreign = "child run ns/x is not owned by workflowrun ns/wfr";
    assert_eq!(world.message(), foreign);
    assert_eq!(world.job("a").phase, JobPhase::Running);
    assert_eq!(world.step_phases("a"), [StepPhase::Failed]);
    assert_eq!(world.job("a").steps[0].run_name, None);
    world.state.children.push(Child {
        name: targets[2].name.clone(),
        job: "c".into(),
        step: "s".into(),
        ..Child::default()
    });
    world.turn();
    assert_eq!(world.job("a").phase, JobPhase::Failed);
    assert_eq!(world.job("a").message.as_deref(), Some(foreign));
    assert_eq!(
        world.job("b").message.as_deref(),
        Some("create child run \"y\" for step \"s\" in job \"b\": no")
    );
    assert_eq!(world.job("c").phase, JobPhase::Running);
}

#[test]
fn w_49_case_034_an_existing_object_is_judged() {
    let mut world = World::accepted(jobs([("a", a_job())]));
    let Action::StartRunnableSteps(targets) = world.decide().action else {
        panic!("one job is ready")
    };
    let targets = targets.steps;
    let by = |kind: &str, name: &str, uid: &str| {
        let (kind, name, uid) = (kind.into(), name.into(), uid.into());
        Some(Controller { kind, name, uid })
    };
    let labels = targets[0].labels.clone();
    let with = |key: &str, value: &str| {
        let mut other = labels.clone();
        other.insert(key.into(), value.into());
        other
    };
    let other_step = &with("kruntimes.io/workflow-step", "t");
    let other_uid = &with("kruntimes.io/workflowrun-uid", "uid-0");
    let ours = || by("WorkflowRun", "wfr", "uid-1");
    // W-172, case 035: an earlier WorkflowRun of the same name.
    let earlier = by("WorkflowRun", "wfr", "uid-0");
    let foreign = by("WorkflowRun", "else", "uid-9");
    let other_kind = by("Job", "wfr", "uid-9");
    for (case, controller, labels, deleting, want) in [
        ("ours", ours(), &labels, false, Verdict::Use),
        ("another step", ours(), other_step, false, Verdict::Foreign),
        ("going away", ours(), &labels, true, Verdict::Retry),
        ("nobody's", None, &labels, false, Verdict::Adopt),
        ("nobody's, other", None, other_uid, false, Verdict::Foreign),
        ("earlier", earlier, other_uid, false, Verdict::Retry),
        ("somebody's", foreign, &labels, false, Verdict::Foreign),
        ("another kind", other_kind, &labels, false, Verdict::Foreign),
    ] {
        let labels = labels.clone();
        let existing = Existing {
            controller,
            labels,
            deleting,
        };
        let verdict = judge(&world.state, &targets[0], &existing);
        assert_eq!(verdict, want, "{case}");
    }
}
