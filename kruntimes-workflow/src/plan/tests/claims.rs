//! What actions and statuses hold, and what they never hold.

use kruntimes_core::api::{RunSpec, WorkflowSpec};

use super::*;

#[test]
fn w_3_a_child_run_knows_nothing_of_jobs_and_steps_but_its_labels() {
    let mut world = World::accepted(jobs([("secret-job", a_job().step("secret-step", "true"))]));
    world.turn();
    let start = &world.created[0];
    let spec = serde_json::to_string(&start.spec).unwrap();
    assert!(!spec.contains("secret"), "{spec}");
    // It is what anybody could have written.
    let plain: RunSpec = serde_json::from_str(
        r#"{"runtime": "bash", "mode": {"task": {}}, "source": {"inline": "true"}}"#,
    )
    .unwrap();
    assert_eq!(start.spec, plain);
    assert!(start.labels.values().any(|label| label == "secret-job"));
}

#[test]
fn w_58_the_stage_is_the_first_that_holds_and_the_action_follows_from_it() {
    let stage = |world: &mut World| world.decide().stage;
    let mut world = World::new(jobs([("a", a_job()), ("b", a_job().needs(&["a"]))]));
    assert_eq!(stage(&mut world), Stage::Empty);
    assert!(matches!(world.turn(), Action::Initialize(_)));
    assert_eq!(stage(&mut world), Stage::Pending);
    assert!(matches!(world.turn(), Action::StartRunnableSteps(_)));
    assert_eq!(stage(&mut world), Stage::Running);
    world.idle_turn();

    // Cancelling hides running, and the end hides cancelling unless somebody is left to ask.
    let mut cancelled = world.clone();
    cancelled.state.spec.cancel_requested = true;
    assert_eq!(stage(&mut cancelled), Stage::Cancelling);
    assert!(matches!(
        cancelled.turn(),
        Action::RequestChildCancellation(_)
    ));
    cancelled.end("a", "s", RunPhase::Cancelled);
    assert_eq!(stage(&mut cancelled), Stage::Terminal);
    cancelled.idle_turn_after_one();

    world.end("a", "s", RunPhase::Failed);
    assert_eq!(stage(&mut world), Stage::Terminal);
    world.idle_turn_after_one();
    let late = world.created[0].name.clone();
    let child = world.run_named(&late);
    child.phase = RunPhase::Running;
    world.state.spec.cancel_requested = true;
    let step = world.decide();
    assert_eq!(step.stage, Stage::Cancelling);
    assert_eq!(World::names(&step.action), [late]);
    assert_eq!(step.desired.phase, WorkflowRunPhase::Failed);

    // Without the snapshot there is nothing to start from.
    let mut blind = World::accepted(jobs([("a", a_job())]));
    blind.state.snapshot = None;
    assert_eq!(calculate(&blind.state).action, Action::None);
}

#[test]
fn w_60_w_78_one_action_has_at_most_one_target_per_job_in_sorted_order() {
    let two = || a_job().step("one", "1").step("two", "2");
    let mut call = a_job().build();
    (call.runs_on, call.uses) = (None, Some("lib".into()));
    call.steps.clear();
    let mut graph = jobs([("z", two()), ("b", two()), ("m", two())]);
    graph.insert("a".into(), call.clone());
    graph.insert("y".into(), call);
    let mut world = World::accepted(graph);
    let jobs = jobs([("inner", a_job())]);
    let lib = WorkflowSpec {
        jobs,
        ..WorkflowSpec::default()
    };
    world
        .stored
        .workflows
        .insert("lib".into(), Some(lib.into()));
    // Steps by job, then calls by job; the second steps wait although nothing keeps them.
    world.starts(&["b/one", "m/one", "z/one", "a", "y"]);
    world.succeed("z", "one", &[]);
    world.succeed("b", "one", &[]);
    world.starts(&["b/two", "z/two"]);
}

#[test]
fn w_67_nothing_changes_accepted_once_it_is_true() {
    let mut world = World::accepted(jobs([("a", a_job().step("s", "${{ steps.x.outputs.y }}"))]));
    let accepted = world.status().conditions[0].clone();
    assert_eq!(accepted.condition_type, "Accepted");
    world.settle();
    assert_eq!(world.phase(), WorkflowRunPhase::Failed);
    assert_eq!(world.status().conditions[0], accepted);
    assert_eq!(world.condition("Completed").unwrap().1, "JobFailed");
}

#[test]
fn w_70_w_127_a_status_holds_no_spec_command_environment_or_binding() {
    let step = kruntimes_core::api::Step {
        name: "s".into(),
        run: Some("echo the-script".into()),
        args: vec!["the-argument".into()],
        env: BTreeMap::from([("KEY".into(), "the-value".into())]),
        ..kruntimes_core::api::Step::default()
    };
    let mut world = World::accepted(jobs([(
        "a",
        a_job().step_with(step).step("t", "echo the-script"),
    )]));
    let holds = |world: &World| {
        let text = serde_json::to_string(world.status()).unwrap();
        let workspace = kruntimes_core::names::job_workspace("wfr", "a");
        let words = ["the-", "KEY", "bash", "runs-on", "runtime", &workspace];
        words.iter().any(|word| text.contains(word))
    };
    loop {
        assert!(!holds(&world), "{:?}", world.status());
        world.settle();
        if !world.succeed_any() {
            break;
        }
    }
    assert!(world.created.iter().all(|run| run.spec.workspace.is_some()));
    assert!(!holds(&world), "{:?}", world.status());
}

#[test]
fn w_85_outputs_of_a_job_are_declared_and_shown_when_it_succeeded() {
    let reads = |job: &str| format!("echo ${{{{ jobs.{job}.outputs.o }}}}");
    let mut world = World::accepted(jobs([
        ("says", a_job().output("o", "${{ steps.s.outputs.o }}")),
        ("silent", a_job()),
        ("x", a_job().needs(&["says"]).step("s", &reads("says"))),
        ("y", a_job().needs(&["silent"]).step("s", &reads("silent"))),
    ]));
    world.turn();
    world.succeed("says", "s", &[("o", "1")]);
    world.succeed("silent", "s", &[("o", "2")]);
    world.settle();
    assert_eq!(world.job("silent").outputs, BTreeMap::new());
    assert_eq!(world.job("says").outputs["o"], "1");
    let read = world.created.iter().find(|run| run.key.job == "x").unwrap();
    let script = read.spec.source.as_ref().unwrap().inline.as_deref();
    assert_eq!(script, Some("echo 1"));
    let refused = world.job("y").message.as_deref();
    assert_eq!(
        refused,
        Some("resolve step \"s\" in job \"y\": run: no outputs for silent")
    );
}

#[test]
fn w_87_a_request_to_cancel_comes_before_what_became_ready_in_the_same_turn() {
    let mut world = World::accepted(jobs([("a", a_job()), ("b", a_job().needs(&["a"]))]));
    world.turn();
    world.succeed("a", "s", &[]);
    world.state.spec.cancel_requested = true;
    assert_eq!(world.turn(), Action::None);
    assert_eq!(world.job("a").phase, JobPhase::Succeeded);
    assert_eq!(world.phase(), WorkflowRunPhase::Cancelled);
    assert_eq!(world.created.len(), 1);
}

#[test]
fn w_184_actions_are_data_with_a_key_and_twice_is_once() {
    let two = a_job().step("one", "1").step("two", "2");
    let mut world = World::new(jobs([("a", two)]));
    let Action::Initialize(first) = world.decide().action else {
        panic!("it is initialized first")
    };
    let Action::Initialize(again) = world.decide().action else {
        panic!("it is initialized first")
    };
    assert_eq!(first, again);
    assert_eq!(
        first.name,
        kruntimes_core::names::snapshot("wfr", "uid-1"),
        "the key of a snapshot is its name"
    );
    world.turn();
    let step = world.decide();
    let Action::StartRunnableSteps(targets) = &step.action else {
        panic!("one step is ready")
    };
    assert_eq!(world.decide().action, step.action);
    let start = &targets.steps[0];
    let key = kruntimes_core::names::child_run("wfr", "a", "one", "");
    assert_eq!(start.name, key);
    let workspace = start.workspace.as_ref().unwrap();
    assert_eq!(
        workspace.name,
        kruntimes_core::names::job_workspace("wfr", "a")
    );
    let outcome = Outcome::Started {
        key: start.key.clone(),
        name: start.name.clone(),
    };
    let once = merge(step.desired.clone(), std::slice::from_ref(&outcome));
    let twice = merge(once.clone(), &[outcome.clone(), outcome]);
    assert_eq!(twice, once);
}
