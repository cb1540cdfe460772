//! Definitions of every kind, in every order and with every crash.

use std::collections::BTreeMap;

use kruntimes_core::api::{
    ActionSpec, Job, JobPhase, Output, Step, WorkflowRunPhase, WorkflowSpec,
};

use super::*;
use crate::definitions::Definitions;
use crate::testing::{JobBuilder, a_job, jobs};

type Jobs = BTreeMap<String, Job>;

/// A definition, how its steps end, and how it has to end itself.
struct Case {
    name: &'static str,
    jobs: Jobs,
    script: Script,
    want: WorkflowRunPhase,
    /// Phases of the jobs: S, F, or K for skipped, sorted by name.
    phases: &'static str,
}

fn case(name: &'static str, jobs: Jobs, script: Script, phases: &'static str) -> Case {
    let want = if phases.contains('F') {
        WorkflowRunPhase::Failed
    } else {
        WorkflowRunPhase::Succeeded
    };
    Case {
        name,
        jobs,
        script,
        want,
        phases,
    }
}

fn plain() -> Script {
    Script::default()
}

/// Reads jobs in short: `a:one,two b<a c<a,b` is three jobs, of which the first has two steps.
fn flow(text: &str) -> Jobs {
    let job = |word: &str| {
        let (head, needs) = word.split_once('<').unwrap_or((word, ""));
        let (name, steps) = head.split_once(':').unwrap_or((head, "s"));
        let needs: Vec<&str> = needs.split(',').filter(|need| !need.is_empty()).collect();
        let add = |job: JobBuilder, step: &str| job.step(step, "true");
        let job = steps.split(',').fold(a_job().needs(&needs), add);
        (name.to_owned(), job.build())
    };
    text.split(' ').map(job).collect()
}

const DIAMOND: &str = "a l<a r<a z<l,r";

fn shapes() -> Vec<Case> {
    [
        ("one job", "a", "S"),
        ("two steps", "a:one,two", "S"),
        ("three steps", "a:one,two,three", "S"),
        ("two free jobs", "a b", "SS"),
        ("three free jobs", "a b c", "SSS"),
        ("five free jobs", "a b c d e", "SSSSS"),
        ("free jobs of two steps", "a:x,y b:x,y c:x,y", "SSS"),
        ("chain of two", "a b<a", "SS"),
        ("chain against the alphabet", "c b<c a<b", "SSS"),
        ("chain of two-step jobs", "a:x,y b:x,y<a", "SS"),
        ("diamond", DIAMOND, "SSSS"),
        ("big diamond", "a:x,y l:x,y<a r:x,y<a z<l,r", "SSSS"),
        ("fan out", "a b<a c<a d<a", "SSSS"),
        ("fan in", "a b c d<a,b,c", "SSSS"),
        ("an edge twice", "a b<a,a", "SS"),
        ("an edge beside a way", "a b<a c<a,b", "SSS"),
        ("job named like a step", "s s.outputs.x:s.outputs<s", "SS"),
        ("names differ in case", "Build build<Build", "SS"),
        ("two diamonds", "a l<a r<a z<l,r y<l,z", "SSSSS"),
    ]
    .map(|(name, jobs, phases)| case(name, flow(jobs), plain(), phases))
    .into()
}

fn failures() -> Vec<Case> {
    let one = |step: &str| plain().fails(step);
    let late = |step: &str| plain().times_out(step);
    let free = "build deploy<test lint:one,two test<build";
    [
        ("the only step fails", "a", one("a/s"), "F"),
        ("the first step fails", "a:one,two", one("a/one"), "F"),
        ("the last times out", "a:one,two", late("a/two"), "F"),
        ("one is cancelled", "a", plain().is_cancelled("a/s"), "F"),
        ("both of two fail", "a b", one("a/s").times_out("b/s"), "FF"),
        ("one of two fails", "a b:one,two", one("a/s"), "FS"),
        ("down a chain", "a b<a c<b", one("a/s"), "FKK"),
        ("lint is free", free, one("build/s"), "FKSK"),
        ("one side of a diamond", DIAMOND, one("l/s"), "SFSK"),
        ("both sides", DIAMOND, one("l/s").fails("r/s"), "SFFK"),
        ("the top of a diamond", DIAMOND, one("a/s"), "FKKK"),
    ]
    .map(|(name, jobs, script, phases)| case(name, flow(jobs), script, phases))
    .into()
}

fn made() -> Script {
    plain().succeeds("a/make", &[("v", "1"), ("kruntimes.io/env/X", "2")])
}

/// A job that declares what its step makes.
fn maker() -> JobBuilder {
    let job = a_job().step("make", "x");
    job.output("v", "${{ steps.make.outputs.v }}")
}

fn reads(text: &str) -> JobBuilder {
    a_job().step("read", text)
}

/// A job that makes an output and one behind it that reads it.
fn pair() -> Jobs {
    let reader = reads("${{ jobs.a.outputs.v }}").needs(&["a"]);
    jobs([("a", maker()), ("b", reader)])
}

fn data() -> Vec<Case> {
    let with = |next: &str| jobs([("a", maker().step("use", next))]);
    let (known, unknown) = ("${{ steps.make.outputs.v }}", "${{ steps.make.outputs.w }}");
    let makes = |outputs: &[(&str, &str)]| plain().succeeds("a/make", outputs);
    let stranger = jobs([("a", maker()), ("b", reads("${{ jobs.a.outputs.v }}"))]);
    let literals = reads("${{ '${{ x }}' }} and ${{ 'it''s' }}");
    let wide = "x".repeat(65_536);
    let bad = [("v", ""), ("kruntimes.io/env/9", "1")];
    [
        ("a step reads a step", with(known), made(), "S"),
        ("a job reads a job", pair(), made(), "SS"),
        ("a missing output", jobs([("a", maker())]), plain(), "F"),
        ("a step reads what is missing", with(unknown), made(), "F"),
        ("a job reads a stranger", stranger, made(), "SF"),
        ("a reader is skipped", pair(), plain().fails("a/make"), "FK"),
        ("too much", pair(), makes(&[("v", &wide)]), "FK"),
        ("a bad variable", with("y"), makes(&bad), "F"),
        ("data", pair(), makes(&[("v", "${{ jobs.b }}")]), "SS"),
        ("literals", jobs([("a", literals)]), plain(), "S"),
    ]
    .map(|(name, jobs, script, phases)| case(name, jobs, script, phases))
    .into()
}

fn letters(explored: &Explored) -> String {
    let jobs = explored.status.jobs.iter().flatten();
    jobs.map(|(_, job)| match job.phase {
        JobPhase::Succeeded => 'S',
        JobPhase::Failed => 'F',
        JobPhase::Skipped => 'K',
        JobPhase::Pending | JobPhase::Waiting | JobPhase::Running => '?',
    })
    .collect()
}

fn explore_all(cases: Vec<Case>) -> usize {
    let mut worlds = 0;
    for case in cases {
        let explorer = Explorer::new(case.jobs, case.script);
        let explored = explorer.explore();
        let explored = explored.unwrap_or_else(|violation| panic!("{}: {violation}", case.name));
        assert_eq!(explored.status.phase, case.want, "{}", case.name);
        assert_eq!(letters(&explored), case.phases, "{}", case.name);
        worlds += explored.worlds;
    }
    worlds
}

#[test]
fn w_194_shapes_end_alike_in_every_order_and_after_every_crash() {
    let cases = shapes();
    assert_eq!(cases.len(), 19);
    let worlds = explore_all(cases);
    assert!(worlds > 1000, "{worlds}");
}

#[test]
fn w_194_w_166_failures_end_alike_in_every_order_and_after_every_crash() {
    let cases = failures();
    assert_eq!(cases.len(), 11);
    let worlds = explore_all(cases);
    assert!(worlds > 150, "{worlds}");
}

#[test]
fn w_194_w_26_data_ends_alike_in_every_order_and_after_every_crash() {
    let cases = data();
    assert_eq!(cases.len(), 10);
    let worlds = explore_all(cases);
    assert!(worlds > 90, "{worlds}");
}

/// W-87, W-89, W-93: a cancellation at any moment ends in `Cancelled` or in what was reached before.
#[test]
fn w_194_w_89_w_93_a_cancellation_may_come_at_any_moment() {
    let (chain, pair) = ("a:one,two b<a", "a b");
    for (jobs, script) in [
        ("a", plain()),
        (chain, plain()),
        (chain, plain().fails("a/two")),
        (pair, plain()),
        (pair, plain().times_out("b/s")),
        (DIAMOND, plain()),
    ] {
        let explored = Explorer::new(flow(jobs), script).cancels().explore();
        let explored = explored.unwrap_or_else(|violation| panic!("{violation}"));
        let natural = explored.status.phase;
        assert_eq!(
            explored.cancelled,
            [natural, WorkflowRunPhase::Cancelled].into()
        );
    }
}

/// The explorer finds what it looks for: a rule broken on purpose is reported with its way.
#[test]
fn w_194_a_broken_rule_is_reported_with_the_way_that_leads_to_it() {
    let unbounded = Explorer::new(flow(DIAMOND), plain())
        .limit(20)
        .explore()
        .unwrap_err();
    assert_eq!(unbounded.rule, Rule::Bounded);
    assert!(unbounded.way.len() > 1);
    let cyclic = flow("a<a");
    let refused = Explorer::new(cyclic, plain()).explore().unwrap();
    assert_eq!(refused.status.phase, WorkflowRunPhase::Failed);
    let mut world = world::World {
        state: crate::plan::State::default(),
        definitions: std::sync::Arc::default(),
    };
    world.state.spec.jobs = jobs([("a", a_job())]);
    let step = world.decide().unwrap();
    world.carry_out(step, 2).unwrap();
    let step = world.decide().unwrap();
    world.carry_out(step.clone(), 1).unwrap();
    let (rule, _) = world.carry_out(step, 1).unwrap_err();
    assert_eq!(rule, Rule::CreatedOnce);
}

/// A Workflow with one job, and an Action of two steps with an output.
fn library() -> Definitions {
    let workflow = WorkflowSpec {
        jobs: flow("only"),
        ..WorkflowSpec::default()
    };
    let step = |name: &str| Step {
        name: name.to_owned(),
        run: Some("true".to_owned()),
        ..Step::default()
    };
    let output = Output {
        value: "${{ steps.two.outputs.v }}".to_owned(),
    };
    let action = ActionSpec {
        outputs: [("v".to_owned(), output)].into(),
        steps: vec![step("one"), step("two")],
        ..ActionSpec::default()
    };
    Definitions::default()
        .with_workflow("work", workflow)
        .with_action("act", action)
}

/// Reads jobs in short, in which a job or step called `work…` or `act…` is a call.
fn calling(text: &str) -> Jobs {
    let mut jobs = flow(text);
    for (name, job) in &mut jobs {
        if name.starts_with("work") {
            job.uses = Some("work".to_owned());
            (job.runs_on, job.steps) = (None, Vec::new());
        }
        let steps = job.steps.iter_mut();
        for step in steps.filter(|step| step.name.starts_with("act")) {
            (step.uses, step.run) = (Some("act".to_owned()), None);
        }
    }
    jobs
}

#[test]
fn w_194_w_160_w_163_calls_and_actions_end_alike_in_every_order_and_after_every_crash() {
    let action = || plain().succeeds("a/act/two", &[("v", "1")]);
    let mut worlds = 0;
    for (jobs, script, phases) in [
        ("a:act", action(), "S"),
        ("a:act", plain(), "F"),
        ("a:act", action().fails("a/act/one"), "F"),
        ("a:act", action().times_out("a/act/two"), "F"),
        ("a:x,act,y b<a", action(), "SS"),
        (
            "a:act,act-2",
            action().succeeds("a/act-2/two", &[("v", "2")]),
            "S",
        ),
        (
            "a:act b:act",
            action().succeeds("b/act/two", &[("v", "2")]),
            "SS",
        ),
        ("work", plain(), "S"),
        ("work", plain().fails("work"), "F"),
        ("work", plain().is_cancelled("work"), "F"),
        ("a work<a z<work", plain(), "SSS"),
        ("a work<a z<work", plain().fails("work"), "SFK"),
        ("work work-2 z<work,work-2", plain(), "SSS"),
        ("a:act work<a", action(), "SS"),
    ] {
        let explorer = Explorer::new(calling(jobs), script).definitions(library());
        let explored = explorer.explore();
        let explored = explored.unwrap_or_else(|violation| panic!("{jobs}: {violation}"));
        assert_eq!(letters(&explored), phases, "{jobs}");
        worlds += explored.worlds;
    }
    assert!(worlds > 200, "{worlds}");
}

#[test]
fn w_194_w_88_a_cancellation_reaches_calls_and_actions() {
    for jobs in ["a:act", "a:x,act", "work", "a work<a", "work b:act"] {
        let script = plain().succeeds("a/act/two", &[("v", "1")]);
        let script = script.succeeds("b/act/two", &[("v", "1")]);
        let explorer = Explorer::new(calling(jobs), script).definitions(library());
        let explored = explorer.cancels().explore();
        let explored = explored.unwrap_or_else(|violation| panic!("{jobs}: {violation}"));
        let want = [WorkflowRunPhase::Succeeded, WorkflowRunPhase::Cancelled];
        assert_eq!(explored.cancelled, want.into(), "{jobs}");
    }
}

/// What does not exist: a missing Action refuses everything, a missing Workflow fails its job.
#[test]
fn w_194_w_167_missing_definitions_end_alike() {
    for (jobs, phases) in [
        ("a:act", ""),
        ("lint work", "SF"),
        ("a work<a z<work", "SFK"),
    ] {
        let explored = Explorer::new(calling(jobs), plain()).explore();
        let explored = explored.unwrap_or_else(|violation| panic!("{jobs}: {violation}"));
        assert_eq!(explored.status.phase, WorkflowRunPhase::Failed);
        assert_eq!(letters(&explored), phases, "{jobs}");
    }
}

#[test]
fn w_194_the_scripted_executor_drives_a_driver() {
    use crate::driver::{Driver, MemoryStore, Shelf};

    let script = plain().fails("l/s");
    let mut driver = Driver::new(script.executor(), Shelf::default(), MemoryStore::default());
    driver.submit("demo", flow(DIAMOND)).unwrap();
    let end = driver.run("demo").unwrap();
    assert_eq!(end.status.phase, WorkflowRunPhase::Failed);
    let started = driver.into_parts().0.started().to_vec();
    assert_eq!(
        started,
        ["jobs.a.steps.s", "jobs.l.steps.s", "jobs.r.steps.s"]
    );
}

/// Definitions that use extensions, through every order and every crash.
mod extended {
    use kruntimes_core::api::{Matrix, Strategy};
    use kruntimes_core::duration::Duration;

    use super::*;
    use crate::extend::Extensions;

    fn when(builder: JobBuilder, condition: &str) -> Job {
        Job {
            condition: Some(condition.to_owned()),
            ..builder.build()
        }
    }

    fn explored(jobs: Jobs, script: Script, strategy: Strategy) -> Explored {
        let explorer = Explorer::new(jobs, script).extensions(Extensions::all(), strategy);
        explorer
            .explore()
            .unwrap_or_else(|violation| panic!("{violation}"))
    }

    fn phases(explored: &Explored) -> String {
        let jobs = explored.status.jobs.iter().flatten();
        let phases: Vec<String> = jobs
            .map(|(name, job)| format!("{name} {}", job.phase))
            .collect();
        phases.join(", ")
    }

    #[test]
    fn w_194_w_198_conditions_lead_every_way_to_the_same_end() {
        let flow: Jobs = [
            ("a".to_owned(), a_job().build()),
            ("b".to_owned(), a_job().build()),
            (
                "c".to_owned(),
                when(a_job().needs(&["a", "b"]), "failure()"),
            ),
            (
                "d".to_owned(),
                when(a_job().needs(&["a", "b"]), "success()"),
            ),
            (
                "e".to_owned(),
                when(
                    a_job().needs(&["d"]),
                    "always() && needs.d.result == 'skipped'",
                ),
            ),
        ]
        .into();
        let script = plain().fails("a/s");
        let found = explored(flow, script, Strategy::default());
        assert_eq!(
            phases(&found),
            "a Failed, b Succeeded, c Succeeded, d Skipped, e Succeeded"
        );
        assert!(found.worlds > 20);
    }

    #[test]
    fn w_194_w_198_conditions_of_steps_survive_every_crash() {
        let step = |name: &str, condition: &str| Step {
            name: name.to_owned(),
            run: Some("true".to_owned()),
            condition: Some(condition.to_owned()),
            ..Step::default()
        };
        let job = a_job()
            .step("one", "1")
            .step_with(step("two", "success()"))
            .step_with(step("three", "failure()"))
            .build();
        let found = explored(
            [("a".to_owned(), job)].into(),
            plain().fails("a/one"),
            Strategy::default(),
        );
        let job = &found.status.jobs.as_ref().unwrap()["a"];
        let phases: Vec<&str> = job.steps.iter().map(|step| step.phase.as_str()).collect();
        assert_eq!(phases, ["Failed", "Skipped", "Succeeded"]);
    }

    #[test]
    fn w_194_w_200_w_203_legs_with_few_places_lead_every_way_to_the_same_end() {
        let axes = [("v".to_owned(), ["1", "2", "3"].map(str::to_owned).into())].into();
        let legs = Job {
            matrix: Some(Box::new(Matrix {
                axes,
                ..Matrix::default()
            })),
            continue_on_error: true,
            ..a_job().build()
        };
        let jobs = [
            ("t".to_owned(), legs),
            ("z".to_owned(), a_job().needs(&["t"]).build()),
        ];
        let strategy = Strategy {
            max_parallel: Some(2),
            ..Strategy::default()
        };
        let found = explored(jobs.into(), plain().fails("t.2/s"), strategy);
        assert_eq!(
            phases(&found),
            "t.1 Succeeded, t.2 Failed, t.3 Succeeded, z Succeeded"
        );
        assert_eq!(found.status.phase, WorkflowRunPhase::Succeeded);
    }

    #[test]
    fn w_194_w_199_fail_fast_always_comes_to_an_end() {
        let strategy = Strategy {
            fail_fast: true,
            ..Strategy::default()
        };
        let on: Extensions = "fail-fast".parse().unwrap();
        let explorer = Explorer::new(flow("a b:x,y c<b"), plain().fails("a/s"));
        let found = explorer.extensions(on, strategy).explore().unwrap();
        assert!(found.worlds > 20);
    }

    #[test]
    fn w_194_w_209_deadlines_always_come_to_an_end() {
        let limited = Job {
            timeout: Some(Duration::from_secs(5)),
            ..a_job().build()
        };
        let mut jobs = flow("a b<a");
        jobs.insert("a".to_owned(), limited);
        let strategy = Strategy {
            timeout: Some(Duration::from_secs(60)),
            ..Strategy::default()
        };
        let on: Extensions = "timeouts".parse().unwrap();
        let explorer = Explorer::new(jobs, plain()).extensions(on, strategy);
        let found = explorer.without_crashes().explore().unwrap();
        assert!(found.worlds > 10);
    }
}
