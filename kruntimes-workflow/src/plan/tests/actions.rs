//! Calls of Actions (section 12).

use kruntimes_core::api::{ActionSpec, Input, Output, Step as Definition};

use super::*;

fn run_step(name: &str, script: &str) -> Definition {
    Definition {
        name: name.into(),
        run: Some(script.into()),
        ..Definition::default()
    }
}

fn uses(name: &str, action: &str, with: &[(&str, &str)]) -> Definition {
    let own = |&(k, v): &(&str, &str)| (k.to_owned(), v.to_owned());
    Definition {
        name: name.into(),
        uses: Some(action.into()),
        with: with.iter().map(own).collect(),
        ..Definition::default()
    }
}

fn input(required: bool, default: &str) -> Input {
    Input {
        required,
        default: Some(default.into()),
        ..Input::default()
    }
}

/// `install` then `verify`; input `level`, output `dir`.
fn tools() -> ActionSpec {
    let mut verify = run_step("verify", "check ${{ steps.install.outputs.dir }}");
    verify
        .env
        .insert("LEVEL".into(), "${{ inputs.level }}".into());
    ActionSpec {
        inputs: [
            ("level".into(), input(true, "")),
            ("tone".into(), input(false, "low")),
        ]
        .into(),
        outputs: [(
            "dir".into(),
            Output {
                value: "${{ steps.install.outputs.dir }}/${{ inputs.tone }}".into(),
            },
        )]
        .into(),
        steps: vec![run_step("install", "get ${{ inputs.level }}"), verify],
    }
}

fn world(jobs: BTreeMap<String, Job>, action: ActionSpec) -> World {
    let mut world = World::new(jobs);
    world.stored = world.stored.with_action("tools", action);
    world
}

/// `pre`, then a call `call`, then `use` which reads the call's output.
fn job_with_call(level: &str) -> BTreeMap<String, Job> {
    jobs([(
        "build",
        a_job()
            .step("pre", "1")
            .step_with(uses("call", "tools", &[("level", level)]))
            .step("use", "in ${{ steps.call.outputs.dir }}"),
    )])
}

fn script(start: &StartStep) -> &str {
    start
        .spec
        .source
        .as_ref()
        .unwrap()
        .inline
        .as_deref()
        .unwrap()
}

fn finish(world: &mut World, inner: &str, phase: RunPhase, outputs: &[(&str, &str)]) {
    let own = |&(k, v): &(&str, &str)| (k.to_owned(), v.to_owned());
    let mut runs = world.state.children.iter_mut();
    let named = |run: &&mut Child| run.action_step.as_deref() == Some(inner);
    let run = runs.find(named).unwrap();
    run.phase = phase;
    run.outputs = outputs.iter().map(own).collect();
}

#[test]
fn w_110_w_111_w_114_an_action_is_one_step_of_its_caller() {
    let mut world = world(job_with_call("${{ steps.pre.outputs.n }}"), tools());
    world.turn();
    let call = &world.job("build").steps[1];
    let inner: Vec<_> = call
        .action_steps
        .iter()
        .map(|s| (&*s.name, s.phase))
        .collect();
    assert_eq!(
        inner,
        [
            ("install", StepPhase::Pending),
            ("verify", StepPhase::Pending)
        ],
        "W-66"
    );
    world.starts(&["build/pre"]);
    world.succeed("build", "pre", &[("n", "3")]);
    world.starts(&["build/call/install"]);
    world.idle_turn();
    let install = world.created[1].clone();
    assert_eq!(script(&install), "get 3");
    assert_eq!(
        install.labels["kruntimes.io/workflow-action-step"],
        "install"
    );
    assert_eq!(install.labels["kruntimes.io/workflow-step"], "call");
    assert_eq!(
        install.name,
        kruntimes_core::names::child_run("wfr", "build", "call", "install")
    );
    finish(&mut world, "install", RunPhase::Succeeded, &[("dir", "/t")]);
    // One Action step per turn, in the same turn that saw the previous end.
    world.starts(&["build/call/verify"]);
    let verify = &world.created[2];
    assert_eq!(script(verify), "check /t");
    assert_eq!(verify.spec.env[0].value.as_deref(), Some("3"));
    finish(
        &mut world,
        "verify",
        RunPhase::Succeeded,
        &[("hidden", "x")],
    );
    world.starts(&["build/use"]);
    assert_eq!(script(&world.created[3]), "in /t/low");
    let call = &world.job("build").steps[1];
    assert_eq!(call.phase, StepPhase::Succeeded);
    assert_eq!(call.run_name, None);
    assert_eq!(call.outputs.keys().collect::<Vec<_>>(), ["dir"]);
    let names: Vec<_> = call
        .action_steps
        .iter()
        .map(|inner| inner.run_name.as_deref())
        .collect();
    assert_eq!(
        names,
        [Some(&*world.created[1].name), Some(&*world.created[2].name)]
    );
    world.succeed("build", "use", &[]);
    world.turn();
    assert_eq!(world.phase(), WorkflowRunPhase::Succeeded);
}

#[test]
fn w_16_w_109_w_13_a_missing_or_invalid_action_refuses_the_workflow_run() {
    let nested = ActionSpec {
        steps: vec![uses("in", "more", &[])],
        ..ActionSpec::default()
    };
    let twice = ActionSpec {
        steps: vec![run_step("a", "1"), run_step("a", "1")],
        ..ActionSpec::default()
    };
    let reserved = ActionSpec {
        outputs: [("kruntimes.io/env/A".into(), Output { value: "1".into() })].into(),
        ..tools()
    };
    let place = "for step \"call\" in job \"build\"";
    let invalid = |cause: &str| format!("validate Action \"tools\" {place}: {cause}");
    for (action, want) in [
        (None, format!("Action \"tools\" {place} does not exist")),
        (
            Some(ActionSpec::default()),
            invalid("Action must contain at least one step"),
        ),
        (
            Some(nested),
            invalid("Action step \"in\" must set run and may not use another Action"),
        ),
        (Some(twice), invalid("Action step name \"a\" is duplicated")),
        (
            Some(reserved),
            invalid(
                "output \"kruntimes.io/env/A\" may not use the reserved prefix kruntimes.io/env/",
            ),
        ),
    ] {
        let mut world = World::new(job_with_call("1"));
        if let Some(action) = action {
            world.stored = world.stored.with_action("tools", action);
        }
        assert_eq!(world.turn(), Action::None);
        assert_eq!(world.message(), want);
        assert_eq!(world.phase(), WorkflowRunPhase::Failed);
        assert!(world.status().jobs.is_none() && world.state.snapshot.is_none());
        let accepted = world.condition("Accepted").unwrap();
        assert_eq!(accepted, ("False", "WorkflowValidationFailed", &*want));
    }
}

#[test]
fn w_17_w_183_an_action_that_was_not_read_is_asked_for_and_nothing_is_decided() {
    let world = world(job_with_call("1"), tools());
    let step = calculate(&world.state);
    assert_eq!(step.needs, [Need::Action("tools".into())]);
    assert_eq!(step.action, Action::None);
    assert_eq!(step.desired, world.state.status);
}

#[test]
fn w_52_w_117_w_176_the_frozen_action_is_used_to_the_end() {
    let mut world = world(job_with_call("1"), tools());
    world.turn();
    world.turn();
    world.succeed("build", "pre", &[]);
    world.turn();
    // Edited and deleted after acceptance: nothing is read again.
    world.stored = Definitions::default();
    finish(&mut world, "install", RunPhase::Succeeded, &[("dir", "d")]);
    let before = world.created[1].name.clone();
    world.starts(&["build/call/verify"]);
    let call = &world.job("build").steps[1];
    assert_eq!(call.action_steps[0].run_name.as_ref(), Some(&before));
    let frozen = world.state.snapshot.as_ref().unwrap();
    assert_eq!(frozen.actions["build\u{0}call"].spec, tools());
}

#[test]
fn w_112_w_39_inputs_that_do_not_bind_fail_the_call_step() {
    let at = "resolve step \"call\" in job \"build\": resolve Action \"tools\" inputs: ";
    for (with, reason, cause) in [
        (
            &[][..],
            "InputBindingFailed",
            "missing required input \"level\"",
        ),
        (
            &[("level", "1"), ("what", "")],
            "InputBindingFailed",
            "unknown input \"what\"",
        ),
        (
            &[("level", "${{ steps.pre.outputs.none }}")],
            "InvalidExpression",
            "input \"level\": no outputs for pre",
        ),
    ] {
        let build = a_job()
            .step("pre", "1")
            .step_with(uses("call", "tools", with));
        let mut world = world(jobs([("build", build)]), tools());
        world.turn();
        world.turn();
        world.succeed("build", "pre", &[]);
        assert_eq!(world.turn(), Action::None);
        assert_eq!(
            world.step_phases("build"),
            [StepPhase::Succeeded, StepPhase::Failed]
        );
        assert_eq!(world.message(), format!("{at}{cause}"));
        assert_eq!(world.job("build").reason.as_deref(), Some(reason));
        assert_eq!(world.created.len(), 1);
        world.turn();
        assert_eq!(world.phase(), WorkflowRunPhase::Failed);
    }
}

#[test]
fn w_113_any_unsuccessful_end_fails_the_call_step() {
    for (end, inner, reason, how) in [
        (RunPhase::Failed, StepPhase::Failed, "StepFailed", "failed"),
        (
            RunPhase::Timeout,
            StepPhase::Timeout,
            "StepTimeout",
            "timed out",
        ),
        (
            RunPhase::Cancelled,
            StepPhase::Cancelled,
            "StepCancelled",
            "was cancelled",
        ),
    ] {
        let build = a_job().step_with(uses("call", "tools", &[("level", "1")]));
        let mut world = world(jobs([("build", build)]), tools());
        world.turn();
        world.turn();
        finish(&mut world, "install", end, &[]);
        world.turn();
        let job = world.job("build");
        assert_eq!(job.phase, JobPhase::Failed);
        assert_eq!(job.reason.as_deref(), Some(reason));
        assert_eq!(job.steps[0].phase, StepPhase::Failed);
        assert_eq!(job.steps[0].action_steps[0].phase, inner);
        assert_eq!(job.steps[0].action_steps[1].phase, StepPhase::Pending);
        assert_eq!(
            world.message(),
            format!("Action step \"install\" of step \"call\" in job \"build\" {how}")
        );
    }
}

#[test]
fn w_35_an_action_reads_its_own_steps_before_those_of_its_caller() {
    let action = ActionSpec {
        steps: vec![
            run_step("pre", "own"),
            run_step(
                "late",
                "${{ steps.pre.outputs.k }} ${{ steps.other.outputs.k }}",
            ),
        ],
        ..ActionSpec::default()
    };
    let build = a_job()
        .step("pre", "1")
        .step("other", "1")
        .step_with(uses("call", "tools", &[]));
    let mut world = world(jobs([("build", build)]), action);
    world.turn();
    world.turn();
    world.succeed("build", "pre", &[("k", "caller")]);
    world.turn();
    world.succeed("build", "other", &[("k", "fallback")]);
    world.starts(&["build/call/pre"]);
    finish(&mut world, "pre", RunPhase::Succeeded, &[("k", "own")]);
    world.starts(&["build/call/late"]);
    assert_eq!(script(world.created.last().unwrap()), "own fallback");
}

#[test]
fn w_39_an_action_step_that_cannot_be_resolved_fails_its_call() {
    // Not yet run: a later step of the Action hides the caller's step of that name.
    let action = ActionSpec {
        steps: vec![
            run_step("first", "${{ steps.pre.outputs.k }}"),
            run_step("pre", "1"),
        ],
        ..ActionSpec::default()
    };
    let build = a_job()
        .step("pre", "1")
        .step_with(uses("call", "tools", &[]));
    let mut world = world(jobs([("build", build)]), action);
    world.turn();
    world.turn();
    world.succeed("build", "pre", &[("k", "v")]);
    assert_eq!(world.turn(), Action::None);
    assert_eq!(
        world.message(),
        "resolve step \"call\" in job \"build\": run: no outputs for pre"
    );
    let call = &world.job("build").steps[1];
    assert_eq!(call.phase, StepPhase::Failed);
    assert_eq!(call.action_steps[0].phase, StepPhase::Failed);
    assert_eq!(call.action_steps[1].phase, StepPhase::Pending);
}

#[test]
fn w_39_w_113_outputs_of_an_action_that_do_not_evaluate_fail_the_step() {
    let build = a_job().step_with(uses("call", "tools", &[("level", "1")]));
    let mut world = world(jobs([("build", build)]), tools());
    world.turn();
    world.turn();
    // `verify` reads what `install` was to write, so it is the Action's own outputs that are asked.
    finish(&mut world, "install", RunPhase::Succeeded, &[("dir", "d")]);
    world.turn();
    let job = world.state.status.jobs.as_mut().unwrap();
    let call = &mut job.get_mut("build").unwrap().steps[0];
    call.action_steps[0].outputs = [("else".to_owned(), "x".to_owned())].into();
    finish(&mut world, "verify", RunPhase::Succeeded, &[]);
    world.turn();
    assert_eq!(
        world.message(),
        "resolve Action outputs for step \"call\" in job \"build\": output \"dir\": no output \"dir\" in install"
    );
    let job = world.job("build");
    assert_eq!(job.reason.as_deref(), Some("OutputEvaluationFailed"));
    assert_eq!(job.steps[0].phase, StepPhase::Failed);
    assert!(job.steps[0].outputs.is_empty());
}

#[test]
fn w_132_w_134_w_136_variables_pass_through_an_action() {
    let action = ActionSpec {
        outputs: [("n".into(), Output { value: "1".into() })].into(),
        steps: vec![run_step("one", "1"), run_step("two", "2")],
        ..ActionSpec::default()
    };
    let build = a_job()
        .step("pre", "1")
        .step_with(uses("call", "tools", &[]))
        .step("use", "1");
    let mut world = world(jobs([("build", build)]), action);
    world.turn();
    world.turn();
    let env = |name: &str| format!("kruntimes.io/env/{name}");
    world.succeed("build", "pre", &[(&env("A"), "pre"), (&env("B"), "pre")]);
    world.turn();
    finish(
        &mut world,
        "one",
        RunPhase::Succeeded,
        &[(&env("B"), "one"), (&env("C"), "one"), ("plain", "x")],
    );
    world.turn();
    let of = |start: &StartStep| -> Vec<(String, String)> {
        let env = start.spec.env.iter();
        env.map(|var| (var.name.clone(), var.value.clone().unwrap()))
            .collect()
    };
    let want = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
        let own = |&(k, v): &(&str, &str)| (k.to_owned(), v.to_owned());
        pairs.iter().map(own).collect()
    };
    assert_eq!(
        of(world.created.last().unwrap()),
        want(&[("A", "pre"), ("B", "one"), ("C", "one")])
    );
    finish(
        &mut world,
        "two",
        RunPhase::Succeeded,
        &[(&env("C"), "two")],
    );
    world.turn();
    assert_eq!(
        of(world.created.last().unwrap()),
        want(&[("A", "pre"), ("B", "one"), ("C", "two")])
    );
    let call = &world.job("build").steps[1];
    let keys: Vec<_> = call.outputs.iter().map(|(k, v)| (&**k, &**v)).collect();
    assert_eq!(keys, [(&*env("B"), "one"), (&*env("C"), "two"), ("n", "1")]);
}

#[test]
fn w_115_a_snapshot_without_the_action_fails_the_step() {
    let build = a_job().step_with(uses("call", "tools", &[("level", "1")]));
    let mut world = world(jobs([("build", build)]), tools());
    world.turn();
    let mut snapshot = world.state.snapshot.as_deref().unwrap().clone();
    snapshot.actions.clear();
    world.state.snapshot = Some(snapshot.into());
    assert_eq!(world.turn(), Action::None);
    assert_eq!(
        world.message(),
        "Action \"tools\" for step \"call\" in job \"build\" is missing from the execution snapshot"
    );
    assert_eq!(world.step_phases("build"), [StepPhase::Failed]);
}

#[test]
fn w_116_case_025_calls_of_one_action_never_meet() {
    let call = |name: &str, level: &str| uses(name, "tools", &[("level", level)]);
    let mut world = world(
        jobs([
            (
                "c",
                a_job()
                    .step_with(call("p", "c1"))
                    .step_with(call("q", "c2")),
            ),
            ("d", a_job().step_with(call("p", "d1"))),
        ]),
        tools(),
    );
    world.turn();
    world.starts(&["c/p/install", "d/p/install"]);
    assert_eq!(script(&world.created[0]), "get c1");
    assert_eq!(script(&world.created[1]), "get d1");
    while world.succeed_any_with(&[("dir", "d")]) {
        world.settle();
    }
    assert_eq!(world.phase(), WorkflowRunPhase::Succeeded);
    let names: std::collections::BTreeSet<_> = world.created.iter().map(|run| &run.name).collect();
    assert_eq!((names.len(), world.created.len()), (6, 6));
}

#[test]
fn w_118_w_177_cancellation_reaches_action_runs_and_ends_between_two_of_them() {
    let build = || a_job().step_with(uses("call", "tools", &[("level", "1")]));
    let mut world = world(jobs([("build", build())]), tools());
    world.turn();
    world.turn();
    let mut between = world.clone();
    world.state.spec.cancel_requested = true;
    assert_eq!(World::names(&world.turn()), [world.created[0].name.clone()]);
    finish(&mut world, "install", RunPhase::Cancelled, &[]);
    world.turn();
    assert_eq!(world.phase(), WorkflowRunPhase::Cancelled);
    assert_eq!(world.job("build").phase, JobPhase::Failed);
    // The last Run ended well before the request was seen.
    finish(&mut between, "install", RunPhase::Succeeded, &[]);
    between.state.spec.cancel_requested = true;
    assert_eq!(between.turn(), Action::None);
    assert_eq!(between.phase(), WorkflowRunPhase::Cancelled);
    let job = between.job("build");
    assert_eq!(job.reason.as_deref(), Some("Cancelled"));
    assert_eq!(job.steps[0].phase, StepPhase::Cancelled);
}

#[test]
fn w_158_w_163_runs_of_an_action_are_found_again() {
    let build = a_job().step_with(uses("call", "tools", &[("level", "1")]));
    let mut world = world(jobs([("build", build)]), tools());
    world.turn();
    // The Run is there, the status is lost; it ends meanwhile.
    let step = world.decide();
    world.apply(step.action, 1);
    finish(&mut world, "install", RunPhase::Succeeded, &[("dir", "d")]);
    world.starts(&["build/call/verify"]);
    let call = &world.job("build").steps[0];
    assert_eq!(
        call.action_steps[0].run_name.as_ref(),
        Some(&world.created[0].name)
    );
    // The last one ends, and the status that says so is lost: outputs come from the snapshot.
    finish(&mut world, "verify", RunPhase::Succeeded, &[]);
    world.decide();
    world.turn();
    assert_eq!(world.phase(), WorkflowRunPhase::Succeeded);
    assert_eq!(world.job("build").steps[0].outputs["dir"], "d/low");
}

#[test]
fn w_168_an_action_of_128_steps_finishes() {
    let steps = (0..128).map(|n| run_step(&format!("s{n}"), "1")).collect();
    let action = ActionSpec {
        steps,
        ..ActionSpec::default()
    };
    let build = a_job().step_with(uses("call", "tools", &[]));
    let mut world = world(jobs([("build", build)]), action);
    world.turn();
    world.turn();
    while world.succeed_any() {
        world.turn();
    }
    assert_eq!(world.phase(), WorkflowRunPhase::Succeeded);
    assert_eq!(world.created.len(), 128);
}

#[test]
fn w_84_outputs_of_an_action_have_a_limit() {
    let action = ActionSpec {
        outputs: [(
            "o".into(),
            Output {
                value: "${{ steps.one.outputs.k }}".repeat(9),
            },
        )]
        .into(),
        steps: vec![run_step("one", "1")],
        ..ActionSpec::default()
    };
    let build = a_job().step_with(uses("call", "tools", &[]));
    let mut world = world(jobs([("build", build)]), action);
    world.turn();
    world.turn();
    finish(
        &mut world,
        "one",
        RunPhase::Succeeded,
        &[("k", &"v".repeat(8192))],
    );
    world.turn();
    let job = world.job("build");
    assert_eq!(job.reason.as_deref(), Some("OutputsTooLarge"));
    assert!(
        world.message().ends_with("are 73729 bytes, exceeds 65536"),
        "{}",
        world.message()
    );
}
