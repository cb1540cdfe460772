//! Extension points at work in turns (section 18.1).

use kruntimes_core::api::{
    Concurrency, ConcurrencyPolicy, Decision, Matrix, RetryPolicy, Reused, ReusedStep, Step,
    Strategy,
};
use kruntimes_core::duration::Duration;

use super::*;
use crate::concurrency::Contender;
use crate::extend::{Choose, Extension, Extensions, Plugin, Predicate, Subject, Verdict};
use crate::testing::JobBuilder;

type Jobs = BTreeMap<String, Job>;

/// A job with fields that no builder knows.
fn job(builder: JobBuilder, edit: impl FnOnce(&mut Job)) -> Job {
    let mut job = builder.build();
    edit(&mut job);
    job
}

fn when(builder: JobBuilder, condition: &str) -> Job {
    job(builder, |job| job.condition = Some(condition.to_owned()))
}

fn named<const N: usize>(jobs: [(&str, Job); N]) -> Jobs {
    jobs.map(|(name, job)| (name.to_owned(), job)).into()
}

fn step(name: &str, edit: impl FnOnce(&mut Step)) -> Step {
    let mut step = Step {
        name: name.to_owned(),
        run: Some("true".to_owned()),
        ..Step::default()
    };
    edit(&mut step);
    step
}

fn step_when(name: &str, condition: &str) -> Step {
    step(name, |step| step.condition = Some(condition.to_owned()))
}

fn world(jobs: Jobs, extensions: Extensions) -> World {
    let mut world = World::new(jobs);
    world.state.policy.extensions = extensions;
    world
}

fn started(jobs: Jobs, extensions: Extensions) -> World {
    let mut world = world(jobs, extensions);
    world.settle();
    world
}

fn told<'a>(world: &'a World, job: &str) -> (JobPhase, &'a str) {
    let job = world.job(job);
    (job.phase, job.reason.as_deref().unwrap_or_default())
}

#[test]
fn w_6_an_engine_without_extensions_refuses_their_fields_before_any_child() {
    let jobs = named([("a", when(a_job(), "always()"))]);
    let mut world = started(jobs, Extensions::none());
    let text = "job \"a\" if is not supported: workflow extension conditions is off";
    assert_eq!(
        (world.phase(), world.message()),
        (WorkflowRunPhase::Failed, text)
    );
    assert_eq!(
        world.condition("Accepted"),
        Some(("False", "WorkflowValidationFailed", text))
    );
    assert!(world.created.is_empty() && world.state.snapshot.is_none());
    world.idle_turn();
}

/// Ends what runs until nothing does.
fn run_out(world: &mut World) {
    world.settle();
    while world.succeed_any() {
        world.settle();
    }
}

#[test]
fn case_022_a_condition_means_the_same_with_braces_and_at_either_level() {
    for (text, runs) in [("'prod' == 'prod'", true), ("'dev' == 'prod'", false)] {
        let braced = format!("${{{{ {text} }}}}");
        let steps = |text: &str| {
            job(a_job(), |job| {
                job.steps = vec![step_when("s", text), step("t", |_| ())];
            })
        };
        let jobs = named([
            ("a", when(a_job(), text)),
            ("b", when(a_job(), &braced)),
            ("c", steps(text)),
            ("d", steps(&braced)),
        ]);
        let mut world = started(jobs, Extensions::all());
        run_out(&mut world);
        let ran = |job: &str, step: &str| {
            let made = &world.created;
            made.iter()
                .any(|start| start.key.job == job && start.key.step == step)
        };
        for job in ["a", "b", "c", "d"] {
            assert_eq!(ran(job, "s"), runs, "{job}: {text}");
        }
        assert_eq!(world.phase(), WorkflowRunPhase::Succeeded);
    }
    let half = "${{ 'dev' }} == 'prod'";
    let in_step = job(a_job(), |job| job.steps = vec![step_when("s", half)]);
    for (level, bad) in [("job", when(a_job(), half)), ("step", in_step)] {
        let world = started(named([("c", bad)]), Extensions::all());
        assert_eq!(world.phase(), WorkflowRunPhase::Failed, "{level}");
        let said = world.message();
        assert!(
            said.contains("a condition is one expression"),
            "{level}: {said}"
        );
        assert!(world.created.is_empty());
    }
}

#[test]
fn case_026_a_failure_two_hops_away_skips_nobody() {
    let jobs = named([
        ("lint", a_job().build()),
        ("report", when(a_job().needs(&["lint"]), "always()")),
        ("publish", a_job().needs(&["report"]).build()),
        ("blocked", a_job().needs(&["lint"]).build()),
    ]);
    let mut world = started(jobs, Extensions::all());
    world.end("lint", "s", RunPhase::Failed);
    run_out(&mut world);
    assert_eq!(told(&world, "report"), (JobPhase::Succeeded, ""));
    assert_eq!(told(&world, "publish"), (JobPhase::Succeeded, ""));
    assert_eq!(
        world.job("blocked").message.as_deref(),
        Some("job \"blocked\" needs job \"lint\", which is Failed")
    );
}

#[test]
fn case_029_a_job_may_tolerate_a_dependency_that_was_skipped_behind_another() {
    let tolerant = "needs.d.result == 'skipped' || needs.d.result == 'success'";
    for (of_b, want) in [("false", JobPhase::Skipped), ("true", JobPhase::Succeeded)] {
        let jobs = named([
            ("o", a_job().build()),
            ("b", when(a_job().needs(&["o"]), of_b)),
            ("d", a_job().needs(&["b"]).build()),
            ("e", when(a_job().needs(&["d"]), tolerant)),
            ("f", a_job().needs(&["d"]).build()),
        ]);
        let mut world = started(jobs, Extensions::all());
        run_out(&mut world);
        assert_eq!(world.job("d").phase, want);
        assert_eq!(told(&world, "e"), (JobPhase::Succeeded, ""), "b if {of_b}");
        assert_eq!(world.job("f").phase, want);
    }
}

/// Case 028: who is skipped blocks with its name.
#[test]
fn w_198_conditions_of_jobs_decide_who_runs_and_the_reason_is_recorded() {
    let jobs = named([
        ("lint", a_job().build()),
        ("report", when(a_job().needs(&["lint"]), "always()")),
        ("publish", a_job().needs(&["report"]).build()),
        ("never", when(a_job().needs(&["report"]), "'1' == '2'")),
        ("behind", a_job().needs(&["never"]).build()),
        ("rescue", when(a_job().needs(&["lint"]), "failure()")),
        (
            "tolerant",
            when(
                a_job().needs(&["behind"]),
                "needs.behind.result == 'skipped' && always()",
            ),
        ),
        ("plain", when(a_job().needs(&["lint"]), "'1' == '1'")),
    ]);
    let mut world = started(jobs, Extensions::none().with(Extension::Conditions));
    world.end("lint", "s", RunPhase::Failed);
    world.settle();
    world.succeed("report", "s", &[]);
    world.succeed("rescue", "s", &[]);
    world.settle();
    while world.succeed_any() {
        world.settle();
    }
    for (job, want) in [
        ("report", (JobPhase::Succeeded, "")),
        ("publish", (JobPhase::Succeeded, "")),
        ("never", (JobPhase::Skipped, "ConditionFalse")),
        ("behind", (JobPhase::Skipped, "DependencyFailed")),
        ("rescue", (JobPhase::Succeeded, "")),
        ("tolerant", (JobPhase::Succeeded, "")),
        ("plain", (JobPhase::Skipped, "DependencyFailed")),
    ] {
        assert_eq!(told(&world, job), want, "{job}");
    }
    let said = |job: &str| world.job(job).message.clone().unwrap();
    assert_eq!(
        said("never"),
        "condition of job \"never\" is false: '1' == '2'"
    );
    assert_eq!(
        said("behind"),
        "job \"behind\" needs job \"never\", which is Skipped"
    );
    assert_eq!(world.phase(), WorkflowRunPhase::Failed);
}

/// W-34: a condition waits for everything it may read, so no order of ends changes it.
#[test]
fn w_198_a_condition_waits_for_all_it_may_read() {
    let jobs = named([
        ("bad", a_job().build()),
        (
            "slow",
            a_job()
                .step("s", "1")
                .output("x", "${{ steps.s.outputs.x }}")
                .build(),
        ),
        ("blocked", a_job().needs(&["bad", "slow"]).build()),
        (
            "last",
            when(
                a_job().needs(&["blocked"]),
                "always() && jobs.slow.outputs.x == '1'",
            ),
        ),
    ]);
    let mut world = started(jobs, Extensions::all());
    world.end("bad", "s", RunPhase::Failed);
    world.settle();
    assert_eq!(
        told(&world, "blocked"),
        (JobPhase::Skipped, "DependencyFailed")
    );
    assert_eq!(world.job("last").phase, JobPhase::Waiting);
    world.succeed("slow", "s", &[("x", "1")]);
    world.settle();
    assert_eq!(world.job("last").phase, JobPhase::Running);
}

#[test]
fn w_198_conditions_of_steps_skip_rescue_and_clean_up() {
    let builder = a_job()
        .step("build", "1")
        .step_with(step_when("odd", "steps.build.outputs.odd == 'yes'"))
        .step("test", "1")
        .step_with(step_when(
            "rescue",
            "failure() && steps.test.outcome == 'failure'",
        ))
        .step("after", "1")
        .step_with(step_when("clean", "always()"));
    let mut world = started(named([("a", builder.build())]), Extensions::all());
    world.succeed("a", "build", &[("odd", "no")]);
    world.settle();
    world.end("a", "test", RunPhase::Failed);
    world.settle();
    world.succeed("a", "rescue", &[]);
    world.settle();
    assert_eq!(world.job("a").phase, JobPhase::Running);
    world.succeed("a", "clean", &[]);
    world.settle();
    let (ok, skipped) = (StepPhase::Succeeded, StepPhase::Skipped);
    assert_eq!(
        world.step_phases("a"),
        [ok, skipped, StepPhase::Failed, ok, skipped, ok]
    );
    assert_eq!(told(&world, "a"), (JobPhase::Failed, "StepFailed"));
    let reasons: Vec<_> = world
        .job("a")
        .steps
        .iter()
        .filter_map(|s| s.reason.clone())
        .collect();
    assert_eq!(
        reasons,
        [
            "condition is false: steps.build.outputs.odd == 'yes'",
            "an earlier step did not succeed",
        ]
    );
}

#[test]
fn w_198_a_job_whose_steps_are_all_skipped_succeeds_without_a_run() {
    let builder = a_job().step_with(step_when("s", "false"));
    let world = started(named([("a", builder.build())]), Extensions::all());
    assert_eq!(world.phase(), WorkflowRunPhase::Succeeded);
    assert!(world.created.is_empty());
}

#[test]
fn w_198_a_predicate_may_be_plugged_in() {
    let predicate = |subject: &Subject<'_>| match (subject.job, subject.step) {
        ("skip", None) => Verdict::Skip("not today".into()),
        ("fail", None) => Verdict::Fail("forbidden".into()),
        ("steps", Some("two")) => Verdict::Skip("no second".into()),
        _ => Verdict::Run,
    };
    let predicate: std::sync::Arc<dyn Predicate> = std::sync::Arc::new(predicate);
    let mut extensions = Extensions::none();
    extensions.predicate = Some(Plugin::new(predicate));
    let jobs = jobs([
        ("skip", a_job()),
        ("fail", a_job()),
        (
            "steps",
            a_job().step("one", "1").step("two", "2").step("three", "3"),
        ),
    ]);
    let mut world = started(jobs, extensions);
    while world.succeed_any() {
        world.settle();
    }
    assert_eq!(told(&world, "skip"), (JobPhase::Skipped, "ConditionFalse"));
    assert_eq!(world.job("skip").message.as_deref(), Some("not today"));
    assert_eq!(
        world.job("fail").message.as_deref(),
        Some("decide job \"fail\": forbidden")
    );
    assert_eq!(world.step_phases("steps")[1], StepPhase::Skipped);
    assert_eq!(world.job("steps").phase, JobPhase::Succeeded);
}

#[test]
fn w_199_outcome_and_conclusion_of_an_allowed_failure_are_kept_apart() {
    let jobs = named([
        ("flaky", job(a_job(), |job| job.continue_on_error = true)),
        ("next", a_job().needs(&["flaky"]).build()),
        (
            "steps",
            a_job()
                .step_with(step("try", |step| step.continue_on_error = true))
                .step_with(step_when(
                    "see",
                    "steps.try.outcome == 'failure' && steps.try.conclusion == 'success'",
                ))
                .build(),
        ),
    ]);
    let mut world = started(jobs, Extensions::all());
    world.end("flaky", "s", RunPhase::Failed);
    world.end("steps", "try", RunPhase::Failed);
    world.settle();
    let flaky = world.job("flaky");
    assert_eq!(
        (flaky.phase, flaky.conclusion),
        (JobPhase::Failed, Some(JobPhase::Succeeded))
    );
    let step = &world.job("steps").steps[0];
    assert_eq!(
        (step.phase, step.conclusion),
        (StepPhase::Failed, Some(StepPhase::Succeeded))
    );
    world.succeed("next", "s", &[]);
    world.succeed("steps", "see", &[]);
    world.settle();
    assert_eq!(world.job("steps").phase, JobPhase::Succeeded);
    assert_eq!(world.job("steps").message, None);
    assert_eq!(
        (world.phase(), world.message()),
        (WorkflowRunPhase::Succeeded, "")
    );
}

fn rule(world: &mut World, edit: impl FnOnce(&mut Strategy)) {
    edit(world.state.spec.strategy.get_or_insert_default());
}

#[test]
fn w_199_fail_fast_stops_what_runs_and_what_waits_but_not_who_cleans_up() {
    let jobs = named([
        ("bad", a_job().build()),
        ("long", a_job().step("one", "1").step("two", "2").build()),
        (
            "call",
            Job {
                uses: Some("w".into()),
                ..Job::default()
            },
        ),
        ("later", a_job().needs(&["long"]).build()),
        ("clean", when(a_job().needs(&["long"]), "always()")),
    ]);
    let mut world = world(jobs, Extensions::all());
    let spec = kruntimes_core::api::WorkflowSpec {
        jobs: super::jobs([("x", a_job())]),
        ..Default::default()
    };
    world.stored = Definitions::default().with_workflow("w", spec);
    rule(&mut world, |rules| rules.fail_fast = true);
    world.settle();
    world.end("bad", "s", RunPhase::Failed);
    world.settle();
    assert_eq!(
        world.asked.len(),
        2,
        "the Run of `long` and the child of `call`"
    );
    assert_eq!(told(&world, "later"), (JobPhase::Skipped, "FailFast"));
    assert_eq!(told(&world, "long"), (JobPhase::Running, "FailFast"));
    world.end("long", "one", RunPhase::Cancelled);
    world.child("call").status.phase = WorkflowRunPhase::Cancelled;
    world.settle();
    assert_eq!(told(&world, "long").0, JobPhase::Failed);
    assert_eq!(told(&world, "call").0, JobPhase::Failed);
    assert_eq!(world.job("clean").phase, JobPhase::Running);
    world.succeed("clean", "s", &[]);
    world.settle();
    assert_eq!(world.phase(), WorkflowRunPhase::Failed);
    assert_eq!(world.job("long").steps[1].phase, StepPhase::Pending);
}

/// Case 146: a retry policy changes nothing but the Run.
#[test]
fn w_199_w_209_retries_and_timeouts_of_steps_are_those_of_their_runs() {
    let retry = RetryPolicy {
        max_attempts: Some(3),
        ..RetryPolicy::default()
    };
    let with = step("s", |step| {
        step.retry = Some(Box::new(retry.clone()));
        step.timeout = Some(Duration::from_secs(60));
    });
    let world = started(
        named([("a", a_job().step_with(with).build())]),
        Extensions::all(),
    );
    let spec = &world.created[0].spec;
    assert_eq!(spec.retry_policy, Some(retry));
    assert_eq!(spec.timeout, Some(Duration::from_secs(60)));
    let plain = started(jobs([("a", a_job())]), Extensions::all());
    assert_eq!(plain.created[0].name, world.created[0].name);
    assert_eq!(plain.created[0].spec.timeout, None);
}

fn legs(builder: JobBuilder, values: &[&str]) -> Job {
    job(builder, |job| {
        let values = values.iter().map(|&value| value.to_owned()).collect();
        job.matrix = Some(Box::new(Matrix {
            axes: [("v".to_owned(), values)].into(),
            ..Matrix::default()
        }));
    })
}

#[test]
fn w_200_legs_are_jobs_of_the_snapshot_and_their_outputs_are_lists() {
    let t = a_job()
        .step("s", "say ${{ matrix.v }}")
        .output("o", "${{ steps.s.outputs.o }}");
    let all = a_job().needs(&["t"]).step(
        "s",
        "all ${{ jobs.t.outputs.o }} one ${{ jobs.t.b.outputs.o }}",
    );
    let jobs = named([
        ("t", legs(t, &["b", "a"])),
        ("all", all.build()),
        (
            "ok",
            when(a_job().needs(&["t"]), "needs.t.result == 'success'"),
        ),
    ]);
    let mut world = started(jobs, Extensions::all());
    let snapshot = world.state.snapshot.clone().unwrap();
    assert_eq!(snapshot.legs["t"], ["t.b", "t.a"]);
    assert_eq!(snapshot.spec.jobs["all"].needs, ["t.b", "t.a"]);
    assert_eq!(world.job("all").pre, ["t.a", "t.b"]);
    world.succeed("t.a", "s", &[("o", "2")]);
    world.settle();
    world.succeed("t.b", "s", &[("o", "1")]);
    world.settle();
    let script = |world: &World, job: &str| {
        let found = world.created.iter().find(|start| start.key.job == job);
        found.unwrap().spec.source.clone().unwrap().inline.unwrap()
    };
    assert_eq!(script(&world, "t.a"), "say a");
    assert_eq!(script(&world, "all"), "all [\"1\",\"2\"] one 1");
    assert_eq!(world.job("ok").phase, JobPhase::Running);
}

#[test]
fn case_071_a_leg_that_is_repeated_stands_once_in_the_list_and_in_its_place() {
    let t = a_job()
        .step("s", "say ${{ matrix.v }}")
        .output("o", "${{ steps.s.outputs.o }}");
    let mut fan_out = legs(t, &["one", "two", "three"]);
    fan_out.steps[0].retry = Some(Box::new(RetryPolicy {
        max_attempts: Some(2),
        ..RetryPolicy::default()
    }));
    let fan_in = a_job()
        .needs(&["t"])
        .step("s", "all ${{ jobs.t.outputs.o }}");
    let mut world = started(
        named([("t", fan_out), ("all", fan_in.build())]),
        Extensions::all(),
    );
    // Attempts belong to the Run, so a leg has one Run and one result.
    let attempts = |start: &StartStep| {
        let policy = start.spec.retry_policy.as_ref();
        policy.and_then(|policy| policy.max_attempts)
    };
    assert!(world.created.iter().all(|start| attempts(start) == Some(2)));
    world.succeed("t.three", "s", &[("o", "3")]);
    world.settle();
    world.succeed("t.one", "s", &[("o", "1")]);
    world.settle();
    assert_eq!(world.created.len(), 3, "item two is still at it");
    world.succeed("t.two", "s", &[("o", "2")]);
    world.settle();
    assert_eq!(world.created.len(), 4);
    let last = world.created[3].spec.source.clone().unwrap().inline;
    assert_eq!(last.unwrap(), "all [\"1\",\"2\",\"3\"]");
}

#[test]
fn w_201_contexts_and_functions_reach_every_text_of_a_step() {
    let contexts = crate::expr::Contexts::default()
        .with("git", [("sha".to_owned(), "abc".to_owned())].into())
        .with_function("upper", |given: &[&str]| Ok(given.concat().to_uppercase()));
    let mut extensions = Extensions::none().with(Extension::Conditions);
    extensions.contexts = std::sync::Arc::new(contexts);
    let builder = a_job().step("s", "${{ git.sha }} ${{ upper(git.sha) }}");
    let mut jobs = named([("a", when(builder, "upper(git.sha) == 'ABC'"))]);
    jobs.insert("b".into(), a_job().step("s", "${{ env.X }}").build());
    let world = started(jobs, extensions);
    let run = world
        .created
        .iter()
        .find(|start| start.key.job == "a")
        .unwrap();
    let script = run.spec.source.as_ref().unwrap().inline.as_deref();
    assert_eq!(script, Some("abc ABC"));
    // A prefix that nobody registered stays an error.
    assert_eq!(told(&world, "b"), (JobPhase::Failed, "InvalidExpression"));
}

#[test]
fn w_202_gates_hold_jobs_and_steps_until_a_decision_is_observed() {
    let jobs = named([
        ("job", job(a_job(), |job| job.gate = Some("ship".into()))),
        ("no", job(a_job(), |job| job.gate = Some("veto".into()))),
        (
            "step",
            a_job()
                .step("one", "1")
                .step_with(step("two", |step| step.gate = Some("ship".into())))
                .build(),
        ),
    ]);
    let mut world = started(jobs, Extensions::all());
    world.succeed("step", "one", &[]);
    world.settle();
    assert_eq!(world.job("job").phase, JobPhase::Pending);
    assert_eq!(world.created.len(), 1);
    world
        .state
        .spec
        .decisions
        .insert("veto".into(), Decision::Denied);
    world.settle();
    assert_eq!(told(&world, "no"), (JobPhase::Failed, "GateDenied"));
    // An embedder may hand decisions over beside the spec.
    world
        .state
        .decisions
        .insert("ship".into(), Decision::Approved);
    world.settle();
    assert_eq!(world.created.len(), 3);
    world.succeed("job", "s", &[]);
    world.succeed("step", "two", &[]);
    world.settle();
    assert_eq!(world.phase(), WorkflowRunPhase::Failed);
}

#[test]
fn w_202_a_suspended_workflow_run_starts_nothing_until_it_is_resumed() {
    let mut world = world(
        jobs([("a", a_job().step("one", "1").step("two", "2"))]),
        Extensions::all(),
    );
    world.settle();
    world.state.spec.suspend = true;
    world.succeed("a", "one", &[]);
    world.settle();
    assert_eq!(world.created.len(), 1);
    assert_eq!(world.phase(), WorkflowRunPhase::Running);
    world.state.spec.suspend = false;
    world.settle();
    assert_eq!(world.created.len(), 2);
}

#[test]
fn w_203_at_most_so_many_jobs_run_in_the_order_that_is_plugged_in() {
    let backwards = |ready: &mut Vec<&str>| ready.reverse();
    let backwards: std::sync::Arc<dyn Choose> = std::sync::Arc::new(backwards);
    for (choose, want) in [
        (None, ["a/one", "b/one", "a/two", "b/two", "c/one", "c/two"]),
        (
            Some(Plugin::new(backwards)),
            ["b/one", "c/one", "b/two", "c/two", "a/one", "a/two"],
        ),
    ] {
        let two = || a_job().step("one", "1").step("two", "2");
        let mut extensions = Extensions::all();
        extensions.choose = choose;
        let mut world = world(jobs([("a", two()), ("b", two()), ("c", two())]), extensions);
        rule(&mut world, |rules| rules.max_parallel = Some(2));
        world.settle();
        while world.succeed_any() {
            let running = world
                .phases()
                .iter()
                .filter(|(_, p)| *p == JobPhase::Running)
                .count();
            assert!(running <= 2);
            world.settle();
        }
        let order = world
            .created
            .iter()
            .map(|start| format!("{}/{}", start.key.job, start.key.step));
        assert_eq!(order.collect::<Vec<_>>(), want);
    }
}

#[test]
fn w_203_a_member_of_a_group_waits_before_it_is_accepted_and_ends_when_it_is_replaced() {
    let mut world = world(jobs([("a", a_job())]), Extensions::all());
    rule(&mut world, |rules| {
        rules.concurrency = Some(Concurrency {
            group: "db".into(),
            policy: ConcurrencyPolicy::Queue,
        });
    });
    let rival = |name: &str, second: i64| Contender {
        name: name.to_owned(),
        created: Time(jiff::Timestamp::from_second(second).unwrap()),
        ..Contender::default()
    };
    let holder = Contender {
        holds: true,
        ..rival("old", -5)
    };
    world.state.rivals = vec![holder];
    world.settle();
    assert_eq!(
        (world.phase(), world.message()),
        (
            WorkflowRunPhase::Pending,
            "waits for workflowrun \"old\" of its concurrency group"
        )
    );
    assert!(world.state.snapshot.is_none());
    world.state.rivals.clear();
    world.settle();
    assert_eq!(world.created.len(), 1);
    world.state.rivals = vec![Contender {
        policy: ConcurrencyPolicy::CancelRunning,
        ..rival("young", 5)
    }];
    let Action::CancelItself { replaced_by } = world.turn() else {
        panic!("it is replaced")
    };
    assert_eq!(replaced_by, "young");
    world.settle();
    assert_eq!(world.asked.len(), 1);
    world.end("a", "s", RunPhase::Cancelled);
    world.settle();
    assert_eq!(world.phase(), WorkflowRunPhase::Cancelled);
}

fn later(world: &mut World, seconds: i64) {
    let now = Duration::from_secs(seconds).after(jiff::Timestamp::UNIX_EPOCH);
    world.state.now = Time(now);
}

#[test]
fn w_209_a_job_that_takes_too_long_is_stopped_and_says_so() {
    let slow = job(a_job().step("one", "1").step("two", "2"), |job| {
        job.timeout = Some(Duration::from_secs(60));
    });
    let mut world = started(
        named([("slow", slow), ("next", a_job().needs(&["slow"]).build())]),
        Extensions::all(),
    );
    let deadline = world.job("slow").deadline.unwrap();
    assert_eq!(deadline.to_string(), "1970-01-01T00:01:00Z");
    assert_eq!(world.decide().wake, Some(deadline));
    later(&mut world, 59);
    world.idle_turn();
    later(&mut world, 60);
    world.settle();
    assert_eq!(world.asked.len(), 1);
    assert_eq!(told(&world, "slow"), (JobPhase::Running, "JobTimeout"));
    world.end("slow", "one", RunPhase::Cancelled);
    world.settle();
    assert_eq!(told(&world, "slow"), (JobPhase::Failed, "JobTimeout"));
    assert_eq!(world.message(), "job \"slow\" timed out");
    assert_eq!(
        told(&world, "next"),
        (JobPhase::Skipped, "DependencyFailed")
    );
    assert_eq!(world.decide().wake, None);
}

#[test]
fn w_209_a_workflow_run_that_takes_too_long_fails_with_all_that_is_not_over() {
    let mut world = world(
        jobs([("a", a_job()), ("b", a_job().needs(&["a"]))]),
        Extensions::all(),
    );
    rule(&mut world, |rules| {
        rules.timeout = Some(Duration::from_secs(10));
    });
    world.settle();
    assert!(world.status().deadline.is_some());
    later(&mut world, 10);
    world.settle();
    assert_eq!(told(&world, "b"), (JobPhase::Skipped, "WorkflowTimeout"));
    assert_eq!(world.phase(), WorkflowRunPhase::Running);
    world.end("a", "s", RunPhase::Cancelled);
    world.settle();
    assert_eq!(told(&world, "a"), (JobPhase::Failed, "WorkflowTimeout"));
    assert_eq!(
        (world.phase(), world.condition("Completed")),
        (
            WorkflowRunPhase::Failed,
            Some(("False", "WorkflowRunTimedOut", "WorkflowRun timed out"))
        )
    );
}

#[test]
fn w_209_without_the_extension_no_time_ever_changes_a_decision() {
    let mut world = started(jobs([("a", a_job())]), Extensions::none());
    let before = world.decide();
    later(&mut world, 1_000_000_000);
    assert_eq!(world.decide(), before);
    assert_eq!(before.wake, None);
}

#[test]
fn w_207_reused_jobs_are_done_from_the_start_and_their_outputs_are_read() {
    let mut world = world(
        jobs([
            ("a", a_job().output("o", "${{ steps.s.outputs.o }}")),
            (
                "b",
                a_job().needs(&["a"]).step("s", "b ${{ jobs.a.outputs.o }}"),
            ),
            (
                "c",
                a_job()
                    .step("one", "1")
                    .step("two", "2 ${{ steps.one.outputs.k }}"),
            ),
        ]),
        Extensions::all(),
    );
    let own = |k: &str, v: &str| (k.to_owned(), v.to_owned());
    let whole = Reused {
        outputs: [own("o", "old")].into(),
        ..Reused::default()
    };
    let part = Reused {
        steps: vec![ReusedStep {
            name: "one".into(),
            outputs: [own("k", "kept")].into(),
        }],
        ..Reused::default()
    };
    world.state.spec.reuse = [("a".to_owned(), whole), ("c".to_owned(), part)].into();
    world.settle();
    let scripts: Vec<_> = world
        .created
        .iter()
        .map(|start| start.spec.source.clone().unwrap().inline.unwrap())
        .collect();
    assert_eq!(scripts, ["b old", "2 kept"]);
    while world.succeed_any() {
        world.settle();
    }
    assert_eq!(world.phase(), WorkflowRunPhase::Succeeded);
}

#[test]
fn w_207_results_that_fit_no_job_are_refused() {
    for (reuse, want) in [
        ("x", "reuse of job \"x\" names no job"),
        (
            "c",
            "reuse of job \"c\" must name the first steps of the job, and not all",
        ),
    ] {
        let two = a_job().step("one", "1").step("two", "2");
        let mut other = World::new(jobs([("c", two)]));
        other.state.policy.extensions = Extensions::all();
        let step = ReusedStep {
            name: "two".into(),
            ..ReusedStep::default()
        };
        let reused = Reused {
            steps: vec![step],
            ..Reused::default()
        };
        other.state.spec.reuse = [(reuse.to_owned(), reused)].into();
        other.settle();
        assert_eq!(other.message(), want);
    }
}
