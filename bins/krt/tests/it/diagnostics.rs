//! Broken files are answered with places, and nothing of them runs.

use std::process::Output;

use crate::process::{example, krt, run_text, text, workflow_run};

/// Asserts that a file was refused and returns what was said.
fn refused(output: &Output) -> String {
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert_eq!(text(&output.stdout), "");
    assert!(
        !said.contains("there is no isolation"),
        "nothing may start: {said}"
    );
    said
}

#[test]
fn every_mistake_is_named_in_one_pass() {
    let file = workflow_run(
        "broken",
        "    build:
      runs-on: bsah
      steps:
      - name: compile
        run: touch it-ran
        envs: {A: 1}
      - name: link
        env: {SIZE: '${{ steps.compil.outputs.size }}', X: '${{ jobs.test.outputs.x }}'}
        run: |
          echo linking
          echo ${{ inputs.mode }}
    test:
      runs-on: bash
      needs: [biuld]
      steps: [{name: t, run: 'true', run: 'false'}]
",
    );
    insta::assert_snapshot!(refused(&run_text(&file, &[])));
    insta::assert_snapshot!(refused(&run_text(&file, &["--ascii", "--color", "always"])));
}

#[test]
fn text_that_is_no_yaml_is_refused_where_it_ends_to_be_yaml() {
    insta::assert_snapshot!(refused(&run_text("kind: Run\nspec:\n  - a\n b: {\n", &[])));
}

/// C-80 to C-89 come later; until then the refusal names the accepted form.
#[test]
fn a_ci_file_is_refused_with_the_accepted_form() {
    let file =
        "on: push\njobs:\n  build:\n    runs-on: ubuntu-latest\n    steps:\n    - run: make\n";
    insta::assert_snapshot!(refused(&run_text(file, &[])));
}

/// W-20
#[test]
fn inputs_that_do_not_fit_are_refused() {
    let path = example("greet.yaml");
    for (words, want) in [
        (&[][..], "missing required input \"who\""),
        (
            &["--input", "who=a", "--input", "greetings=b"],
            "unknown input \"greetings\"",
        ),
        (
            &["--input", "who=a", "--input", "greetings=b"],
            "did you mean `greeting`?",
        ),
    ] {
        let words = [&["local", "run", &path], words].concat();
        let said = refused(&krt(&words).output().unwrap());
        assert!(said.contains(want), "{want}: {said}");
    }
}

#[test]
fn c_14_a_file_that_is_not_there_is_another_problem() {
    let output = krt(&["local", "run", "no-such-file.yaml"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        text(&output.stderr),
        "krt: cannot read no-such-file.yaml: No such file or directory (os error 2)\n  \
         check the path, or use `-` for standard input\n"
    );
}

/// C-15: usage is printed for wrong usage only. W-146, W-150: the texts.
#[test]
fn c_15_wrong_usage_is_code_2_and_shows_usage() {
    for (words, want) in [
        (
            &["local", "run", "f", "--input", "kv"][..],
            "--input must be key=value",
        ),
        (&["local", "wf", "run"], "--file is required"),
        (&["local", "run", "f", "-o", "yml"], "'yml'"),
        (&["locl"], "tip: a similar subcommand exists: 'local'"),
    ] {
        let output = krt(words).output().unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(want), "{want}: {said}");
    }
}

#[test]
fn help_has_examples_everywhere() {
    for words in [
        &["--help"][..],
        &["local", "--help"],
        &["local", "run", "--help"],
        &["local", "wf", "run", "--help"],
    ] {
        let output = krt(words).output().unwrap();
        let said = text(&output.stdout);
        assert!(
            said.contains("krt local run build.yaml"),
            "{words:?}: {said}"
        );
        assert_eq!(output.status.code(), Some(0));
    }
}
