//! A corpus of files: what is accepted becomes the golden manifest, what is not is named with its place.

use std::fmt::Write as _;

use super::*;

/// Splits a file of cases: `=== name` begins one.
fn cases(corpus: &str) -> Vec<(&str, &str)> {
    let parts = corpus.split("=== ").skip(1);
    parts.map(|part| part.split_once('\n').unwrap()).collect()
}

fn options() -> Options {
    Options {
        runtimes: [("ubuntu-latest".to_owned(), "bash".to_owned())].into(),
        ..Options::default()
    }
}

fn said(findings: &[Finding]) -> String {
    let mut out = String::new();
    for one in findings
        .iter()
        .filter(|one| one.severity != Severity::Advice)
    {
        let help = one.help.as_deref().unwrap_or("-");
        let _ = writeln!(
            out,
            "{}:{} {} {} ({help})",
            one.line, one.column, one.code, one.message
        );
    }
    out
}

#[test]
fn w_151_c_80_c_81_c_82_c_89_accepted_files_become_these_manifests() {
    let all = cases(include_str!("corpus/accepted.txt"));
    assert!(all.len() >= 30, "{}", all.len());
    let mut out = String::new();
    for (name, text) in all {
        let converted = convert("ci.yaml", text, &options());
        let converted = converted.unwrap_or_else(|found| panic!("{name}: {}", said(&found)));
        let manifest = to_yaml("ci.yaml", &converted);
        let _ = write!(out, "=== {name}\n{manifest}{}", said(&converted.findings));
        // What is printed is read back as what was converted.
        let named = manifest
            .replace("generateName: wfr-", "name: x")
            .replace("generateName: wf-", "name: x");
        let (read, _) = crate::yaml::read("out.yaml", &named)
            .unwrap_or_else(|found| panic!("{name}: {}\n{manifest}", said(&found)));
        match &read[0] {
            crate::yaml::Definition::Workflow(read) => {
                assert_eq!(read.spec, converted.workflow(), "{name}");
            }
            crate::yaml::Definition::WorkflowRun(read) => {
                assert_eq!(read.spec, converted.workflow_run(), "{name}");
            }
            crate::yaml::Definition::Action(_) => panic!("{name} became an Action"),
        }
    }
    insta::assert_snapshot!(out);
}

#[test]
fn w_151_c_83_c_84_c_85_c_87_refused_files_are_refused_for_these_reasons() {
    let all = cases(include_str!("corpus/refused.txt"));
    assert!(all.len() >= 30, "{}", all.len());
    let mut out = String::new();
    for (name, text) in all {
        match convert("ci.yaml", text, &options()) {
            Ok(_) => panic!("{name} was accepted"),
            Err(findings) => {
                let _ = write!(out, "=== {name}\n{}", said(&findings));
            }
        }
    }
    insta::assert_snapshot!(out);
}

#[test]
fn c_88_only_what_changes_nothing_can_be_dropped() {
    let text =
        "jobs:\n  a:\n    timeout-minutes: 5\n    steps:\n    - run: make\n      if: always()\n";
    let droppable = ["timeout-minutes", "if"].map(str::to_owned).into();
    let mut options = Options {
        droppable,
        ..options()
    };
    let refused = convert("ci.yaml", text, &options).unwrap_err();
    let errors: Vec<&Finding> = refused
        .iter()
        .filter(|one| one.severity == Severity::Error)
        .collect();
    assert_eq!(errors.len(), 1);
    assert_eq!(
        (errors[0].line, errors[0].message.as_str()),
        (6, "`if` has no equivalent")
    );
    options.droppable.remove("if");
    let kept = convert(
        "ci.yaml",
        &text.replace("      if: always()\n", ""),
        &options,
    )
    .unwrap();
    assert_eq!(
        kept.annotations["kruntimes.io/dropped"],
        "jobs.a.timeout-minutes"
    );
    assert_eq!(
        kept.findings[0].message,
        "`jobs.a.timeout-minutes` was dropped"
    );
}

#[test]
fn c_87_the_outputs_variable_can_be_rewritten() {
    let text = "jobs:\n  a:\n    steps:\n    - run: echo v=1 >> $GITHUB_OUTPUT\n";
    let refused = convert("ci.yaml", text, &options()).unwrap_err();
    assert_eq!(refused[0].code, "K061");
    let options = Options {
        rewrite_output_variable: true,
        ..options()
    };
    let kept = convert("ci.yaml", text, &options).unwrap();
    let script = kept.jobs["a"].steps[0].run.as_deref();
    assert_eq!(script, Some("echo v=1 >> $KRUNTIME_OUTPUTS"));
    assert_eq!(
        kept.findings[0].message,
        "`GITHUB_OUTPUT` became `KRUNTIME_OUTPUTS`"
    );
}

#[test]
fn w_151_c_80_a_file_with_a_kind_is_not_converted() {
    assert!(names_a_kind("a: 1\n---\nkind: Action\n") && !names_a_kind("on: push\njobs: {}\n"));
    assert!(is_ci_file("on: push\njobs: {a: {steps: [{run: x}]}}\n"));
    assert!(!is_ci_file("kind: Workflow\nspec: {jobs: {}}\n"));
    assert!(!is_ci_file("a: 1\n"));
}
