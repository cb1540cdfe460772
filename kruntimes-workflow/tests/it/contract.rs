//! What the library promises to those who build on it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kruntimes_workflow::bind::bind;
use kruntimes_workflow::definitions::Definitions;
use kruntimes_workflow::expr::{Scope, evaluate};
use kruntimes_workflow::graph::{Graph, Node};
use kruntimes_workflow::model::{ActionSpec, Input, Job, Step, WorkflowSpec};
use kruntimes_workflow::plan::{Action, Need, Reason, State, calculate, message};
use kruntimes_workflow::testing::{a_job, jobs};
use kruntimes_workflow::trigger::{self, Naming};

/// Packages that a library without clock, threads and network may stand on.
const PURE: [&str; 6] = [
    "jiff",
    "kruntimes-core",
    "serde",
    "serde-saphyr",
    "serde_json",
    "thiserror",
];

#[test]
fn w_180_the_engine_stands_on_data_types_and_parsers_alone() {
    let manifest = include_str!("../../Cargo.toml");
    let (_, rest) = manifest.split_once("\n[dependencies]\n").unwrap();
    let own = rest.split("\n[").next().unwrap();
    let named = own.lines().filter_map(|line| {
        let name = line.split(['.', ' ', '=']).next()?;
        (!name.is_empty() && !name.starts_with('#')).then_some(name)
    });
    let named: BTreeSet<&str> = named.collect();
    assert_eq!(named, BTreeSet::from(PURE));
}

/// A task of somebody else.
struct Task {
    after: Vec<String>,
}

impl Node for Task {
    fn needs(&self) -> impl Iterator<Item = &str> {
        self.after.iter().map(String::as_str)
    }
}

#[test]
fn w_181_expressions_graphs_and_inputs_are_of_use_alone() {
    // Somebody else's templating.
    let inputs = BTreeMap::from([("who".to_owned(), "you".to_owned())]);
    let scope = Scope {
        inputs: Some(&inputs),
        ..Scope::default()
    };
    assert_eq!(
        evaluate("hello ${{ inputs.who }}", &scope).unwrap(),
        "hello you"
    );
    // Somebody else's jobs.
    let task = |after: &[&str]| Task {
        after: after.iter().map(|&name| name.to_owned()).collect(),
    };
    let tasks = BTreeMap::from([("a".to_owned(), task(&["b"])), ("b".to_owned(), task(&[]))]);
    let graph = Graph::compile(&tasks).unwrap();
    assert_eq!(graph.name(graph.order()[0]), "b");
    // A form of the web.
    let declared = BTreeMap::from([(
        "name".to_owned(),
        Input {
            required: true,
            ..Input::default()
        },
    )]);
    let missing = bind(&declared, &BTreeMap::new()).unwrap_err();
    assert_eq!(missing.to_string(), "missing required input \"name\"");
}

#[test]
fn w_189_messages_and_reasons_can_be_asserted_on() {
    let mut state = State {
        name: "wfr".into(),
        uid: "uid".into(),
        ..State::default()
    };
    state.spec.jobs = jobs([("a", a_job().step("s", "${{ inputs.x }}"))]);
    let step = calculate(&state);
    let accepted = &step.desired.conditions[0];
    assert_eq!(accepted.reason, message::REASON_ACCEPTED);
    assert_eq!(accepted.message, message::ACCEPTED);
    state.status = step.desired;
    let Action::Initialize(frozen) = step.action else {
        panic!("it is initialized first")
    };
    state.snapshot = frozen.snapshot;
    state.status = calculate(&state).desired;
    let job = &state.status.jobs.as_ref().unwrap()["a"];
    assert_eq!(
        job.reason.as_deref(),
        Some(Reason::InvalidExpression.as_str())
    );
    let text = message::resolve_step("a", "s", "run: no inputs available");
    assert_eq!(job.message.as_deref(), Some(text.as_str()));
}

#[test]
fn w_197_evaluation_allocates_only_the_result() {
    let outputs = BTreeMap::from([(
        "build".to_owned(),
        BTreeMap::from([("image".to_owned(), "registry/app:1".repeat(40))]),
    )]);
    let scope = Scope {
        jobs: Some(&outputs),
        ..Scope::default()
    };
    let template =
        "docker run ${{ jobs.build.outputs.image }} ${{ 'it''s' }} ${{ jobs.build.outputs.image }}";
    let text = evaluate(template, &scope).unwrap();
    // Its room was known before the first byte was written.
    assert_eq!(text.capacity(), text.len());
    assert!(text.contains(" it's registry/app:1"));
}

fn required() -> BTreeMap<String, Input> {
    let declared = Input {
        required: true,
        ..Input::default()
    };
    BTreeMap::from([("who".to_owned(), declared)])
}

/// A Workflow and an Action that declare the same inputs.
fn definitions() -> Definitions {
    let workflow = Arc::new(WorkflowSpec {
        inputs: required(),
        jobs: jobs([("inner", a_job())]),
        ..WorkflowSpec::default()
    });
    let action = Arc::new(ActionSpec {
        inputs: required(),
        steps: vec![Step {
            name: "s".into(),
            run: Some("true".into()),
            ..Step::default()
        }],
        ..ActionSpec::default()
    });
    Definitions {
        workflows: [("lib".to_owned(), Some(workflow))].into(),
        actions: [("act".to_owned(), Some(action))].into(),
    }
}

#[test]
fn w_22_workflows_and_actions_bind_inputs_alike() {
    for (given, cause) in [
        (&[][..], "missing required input \"who\""),
        (&[("who", ""), ("x", "1")], "unknown input \"x\""),
    ] {
        let given: BTreeMap<String, String> = given
            .iter()
            .map(|&(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        let definitions = definitions();
        let refused =
            trigger::trigger("lib", &definitions, &given, &Naming::Generated).unwrap_err();
        assert!(refused.to_string().ends_with(cause), "{refused}");

        let mut state = State {
            name: "wfr".into(),
            definitions,
            ..State::default()
        };
        let call = Job {
            uses: Some("lib".into()),
            with: given.clone(),
            ..Job::default()
        };
        let step = Step {
            name: "s".into(),
            uses: Some("act".into()),
            with: given,
            ..Step::default()
        };
        state.spec.jobs = jobs([("steps", a_job().step_with(step))]);
        state.spec.jobs.insert("call".into(), call);
        let step = calculate(&state);
        let Action::Initialize(frozen) = step.action else {
            panic!("it is accepted")
        };
        (state.snapshot, state.status) = (frozen.snapshot, step.desired);
        for need in calculate(&state).needs {
            let Need::ConfirmWorkflowRun(name) = need else {
                panic!("{need:?}")
            };
            state.absent_calls.insert(name);
        }
        let jobs = calculate(&state).desired.jobs.unwrap();
        for job in jobs.values() {
            let text = job.message.as_deref().unwrap_or_default();
            assert!(text.ends_with(cause), "{text}");
        }
    }
}
