//! What the definition check says, and where.

use kruntimes_core::api::{Output, Step};

use super::*;
use crate::plan::{Action, State, calculate};
use crate::testing::{a_job, jobs};

fn lines(findings: &[Finding]) -> Vec<String> {
    let line = |finding: &Finding| {
        format!(
            "{:?} {}: {}",
            finding.severity, finding.location, finding.message
        )
    };
    findings.iter().map(line).collect()
}

fn input(required: bool, default: &str) -> Input {
    Input {
        required,
        default: Some(default.to_owned()),
        ..Input::default()
    }
}

#[test]
fn a_sound_workflow_has_no_findings() {
    let spec = WorkflowSpec {
        inputs: [("x".to_owned(), input(false, ""))].into(),
        outputs: [(
            "o".to_owned(),
            Output {
                value: "${{ jobs.a.outputs.k }}".into(),
            },
        )]
        .into(),
        jobs: jobs([
            (
                "a",
                a_job()
                    .step("s", "1")
                    .output("k", "${{ steps.s.outputs.k }}${{ inputs.x }}"),
            ),
            (
                "b",
                a_job().needs(&["a"]).step_with(Step {
                    name: "s".into(),
                    run: Some("1".into()),
                    env: [("K".to_owned(), "${{ jobs.a.outputs.k }}".to_owned())].into(),
                    ..Step::default()
                }),
            ),
        ]),
        ..WorkflowSpec::default()
    };
    assert_eq!(lines(&workflow(&spec)), [""; 0]);
    assert_eq!(first_error(&workflow(&spec)), None);
}

#[test]
fn w_38_w_154_texts_are_judged_in_their_context() {
    let spec = WorkflowSpec {
        outputs: [(
            "o".to_owned(),
            Output {
                value: "${{ jobs.ghost.outputs.k }}".into(),
            },
        )]
        .into(),
        jobs: jobs([
            (
                "a",
                a_job()
                    .step("s", "${{ steps.t.outputs.k }}")
                    .step("t", "${{ inputs.y }}"),
            ),
            (
                "b",
                a_job()
                    .step("s", "x ${{ jobs.a.outputs.k }}")
                    .output("k", "${{ jobs.a.outputs.k }}"),
            ),
        ]),
        ..WorkflowSpec::default()
    };
    let errors: Vec<_> = workflow(&spec)
        .into_iter()
        .filter(|finding| finding.severity == Severity::Error)
        .collect();
    insta::assert_snapshot!(lines(&errors).join("\n"), @r#"
    Error jobs.a.steps.s.run@0: job "a" step "s" run: no outputs for t
    Error jobs.a.steps.t.run@0: job "a" step "t" run: unknown input "y"
    Error jobs.b.steps.s.run@2: job "b" step "s" run: no outputs for a
    Error jobs.b.output "k"@0: job "b" output "k": no outputs available
    Error output "o"@0: output "o": no outputs for ghost
    "#);
}

/// What the controller says to a definition, if it refuses it.
fn refusal(spec: &WorkflowRunSpec) -> Option<String> {
    let state = State {
        spec: spec.clone(),
        ..State::default()
    };
    let step = calculate(&state);
    let accepted = matches!(step.action, Action::Initialize(_));
    step.desired.message.filter(|_| !accepted)
}

#[test]
fn case_031_shape_and_graph_are_decided_as_the_controller_does() {
    let name = |n: usize| format!("j{n:02}");
    let chain = (1..64).map(|n| (name(n), a_job().needs(&[&name(n - 1)]).build()));
    let chain = chain.chain([(name(0), a_job().build())]).collect();
    let (a, ab, ac) = (
        || a_job().needs(&["a"]),
        || a_job().needs(&["b"]),
        || a_job().needs(&["c"]),
    );
    let layers = jobs([
        ("a", a_job()),
        ("b", a()),
        ("c", a()),
        ("d", a_job().needs(&["b", "c"])),
        ("e", a_job().needs(&["b", "c"])),
        ("f", a_job().needs(&["d", "e"])),
    ]);
    let cycle = |path: &str| Some(format!("workflow job dependency cycle: {path}"));
    for (case, jobs, want) in [
        ("itself", jobs([("a", a())]), cycle("a -> a")),
        (
            "three in a ring",
            jobs([("a", ab()), ("b", ac()), ("c", a())]),
            cycle("a -> b -> c -> a"),
        ),
        (
            "unknown",
            jobs([("a", a_job().needs(&["ghost"]))]),
            Some("job \"a\" needs unknown job \"ghost\"".to_owned()),
        ),
        (
            "twice the same",
            jobs([("a", a_job().needs(&["b", "b"])), ("b", a_job())]),
            None,
        ),
        ("64 in one chain", chain, None),
        ("a diamond of three layers", layers, None),
    ] {
        let spec = WorkflowRunSpec {
            jobs,
            ..WorkflowRunSpec::default()
        };
        let found = workflow_run(&spec);
        let first = first_error(&found).map(|finding| finding.message.clone());
        assert_eq!(first, want, "{case}");
        assert_eq!(refusal(&spec), want, "{case}");
    }
}

#[test]
fn w_30_case_019_a_name_with_dots_is_found() {
    let spec = WorkflowRunSpec {
        jobs: jobs([(
            "j",
            a_job().step("lint.fast", "1").step_with(Step {
                name: "use".into(),
                run: Some("1".into()),
                env: [(
                    "N".to_owned(),
                    "${{ steps.lint.fast.outputs.n }}".to_owned(),
                )]
                .into(),
                ..Step::default()
            }),
        )]),
        ..WorkflowRunSpec::default()
    };
    assert_eq!(lines(&workflow_run(&spec)), [""; 0]);
    assert_eq!(refusal(&spec), None);
}

#[test]
fn w_33_a_workflow_run_has_no_inputs() {
    let spec = WorkflowRunSpec {
        jobs: jobs([("a", a_job().step("s", "${{ inputs.x }}"))]),
        ..WorkflowRunSpec::default()
    };
    let error = workflow_run(&spec).remove(0);
    assert_eq!(
        error.message,
        "job \"a\" step \"s\" run: no inputs available"
    );
}

#[test]
fn w_7_w_12_w_120_what_executes_but_surprises_is_a_warning() {
    let call = Job {
        uses: Some("w".into()),
        outputs: [("k".to_owned(), "v".to_owned())].into(),
        ..Job::default()
    };
    let args = Step {
        name: "s".into(),
        run: Some("1".into()),
        args: vec!["a".into()],
        ..Step::default()
    };
    let mut spec = WorkflowSpec {
        inputs: [("x".to_owned(), input(true, "d"))].into(),
        jobs: jobs([("a", a_job().step_with(args))]),
        ..WorkflowSpec::default()
    };
    spec.jobs.insert("c".into(), call);
    insta::assert_snapshot!(lines(&workflow(&spec)).join("\n"), @r#"
    Warning jobs.a.steps.s.args: args of step "s" have no effect: an inline script does not receive arguments
    Warning inputs.x: input "x" is required and has a default, so nobody has to give it
    Warning jobs.c.outputs: outputs of job "c" have no effect: a call exposes the outputs of the called Workflow
    "#);
    assert_eq!(first_error(&workflow(&spec)), None);
}

#[test]
fn case_016_values_that_become_script_text_are_advised_against() {
    let spec = WorkflowRunSpec {
        jobs: jobs([(
            "a",
            a_job()
                .step("t", "1")
                .step("u", "echo ${{ steps.t.outputs.title }}"),
        )]),
        ..WorkflowRunSpec::default()
    };
    assert_eq!(
        lines(&workflow_run(&spec)),
        [
            "Advice jobs.a.steps.u.run@5: the value of steps.t.outputs.title becomes part of the script; \
          env passes it as data"
        ]
    );
}

#[test]
fn w_35_w_154_an_action_is_judged_alone() {
    let step = |name: &str, value: &str| Step {
        name: name.into(),
        run: Some("1".into()),
        env: [("V".to_owned(), value.to_owned())].into(),
        ..Step::default()
    };
    let spec = ActionSpec {
        inputs: [("x".to_owned(), input(false, ""))].into(),
        outputs: [(
            "o".to_owned(),
            Output {
                value: "${{ steps.caller.outputs.k }}".into(),
            },
        )]
        .into(),
        steps: vec![
            step("a", "${{ steps.b.outputs.k }}"),
            step(
                "b",
                "${{ steps.caller.outputs.k }}${{ inputs.y }}${{ jobs.any.outputs.k }}",
            ),
        ],
    };
    insta::assert_snapshot!(lines(&action(&spec)).join("\n"), @r#"
    Error steps.a.env[V]@0: step "a" env[V]: no outputs for b
    Error steps.b.env[V]@29: step "b" env[V]: unknown input "y"
    Warning steps.b.env[V]@0: steps.caller.outputs.k reads a step of the caller, which a reusable Action should not rely on
    Error output "o"@0: output "o": no outputs for caller
    "#);
}
