//! Whole files, from text to findings and objects.

use std::fmt::Write as _;

use serde_json::json;

use super::*;

const HEAD: &str =
    "apiVersion: kruntimes.io/v1alpha1\nkind: WorkflowRun\nmetadata: {name: demo}\nspec:\n";

fn known() -> Known {
    Known {
        runtimes: Some(vec!["bash".to_owned()]),
        local: true,
        inputs: Some(Vec::new()),
        ..Known::default()
    }
}

/// Prints findings the way a person reads them, with the text they point at.
fn printed(text: &str, findings: &[Finding]) -> String {
    let mut out = String::new();
    for f in findings {
        let shown = &text[f.span.clone()];
        let word = f.severity.as_str();
        let _ = writeln!(
            out,
            "{}:{} {word} {} {} <{}>",
            f.line,
            f.column,
            f.code,
            f.message,
            shown.replace('\n', "\\n")
        );
        if let Some(help) = &f.help {
            let _ = writeln!(out, "    {help}");
        }
    }
    out
}

fn checked(text: &str) -> String {
    match read("f.yaml", text) {
        Ok(manifest) => {
            let mut findings = manifest.check(&known());
            findings.retain(|finding| finding.severity != Severity::Advice);
            printed(text, &findings)
        }
        Err(findings) => printed(text, &findings),
    }
}

fn submitted(text: &str, inputs: &[(&str, &str)]) -> crate::Submission {
    let inputs: Vec<_> = inputs
        .iter()
        .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
        .collect();
    read("f.yaml", text).unwrap().submission(&inputs).unwrap()
}

#[test]
fn unknown_names_are_found_everywhere_in_one_pass() {
    let text = format!(
        "{HEAD}  jobs:
    build:
      runs-on: bahs
      stpes: []
      steps:
      - name: compile
        run: |
          echo hello
            echo ${{{{ steps.compil.outputs.x }}}} ${{{{ jobs.test.outputs.y }}}}
      - name: pack
        env: {{A: '${{{{ steps.compil.outputs.x }}}}', B: '${{{{ step.compile.outputs.x }}}}'}}
        run: ''
      outputs:
        size: ${{{{ steps.pakc.outputs.size }}}}
    test:
      runs-on: bash
      needs: [biuld, build, test]
      steps:
      - name: run
        run: >-
          folded
          ${{{{ jobs.build.outputs.sizes }}}} ${{{{ inputs.who }}}}
        env:
          C: ${{{{ steps.pack.outputs.x
  job: {{}}
"
    );
    insta::assert_snapshot!(checked(&text));
}

#[test]
fn broken_shapes_are_found_beside_broken_graphs() {
    let text = format!(
        "{HEAD}  jobs:
    a:
      runs-on: bash
      needs: b
      steps: [{{name: x, run: 'true'}}]
    b:
      runs-on: bash
      needs: [a]
      steps: [{{name: x, run: 'true'}}, {{name: x, run: 'true'}}]
    c:
      runs-on: bash
      steps: [{{name: x, run: 'true', uses: act}}]
    d:
      runs-on: 7 8
      steps: []
    e:
      with: {{a: 1}}
      runs-on: bash
      steps: [{{run: 'true'}}]
    f:
      uses: other
"
    );
    insta::assert_snapshot!(checked(&text));
}

#[test]
fn documents_that_are_no_manifests_are_refused_with_the_accepted_form() {
    for text in [
        "jobs:\n  build:\n    runs-on: ubuntu-latest\n    steps: [{run: make}]\n",
        "hello\n",
        "a: b\n",
        "apiVersion: kruntimes.io/v1beta1\nkind: WorkflowRum\n",
        "apiVersion: v1\nkind: Run\nmetadata: {name: A b, namespace: prod, lables: {}}\nspec: {runtime: bash, mode: {task: }}\nstatus: {}\n",
        "",
    ] {
        insta::assert_snapshot!(checked(text));
    }
}

#[test]
fn a_sound_file_has_no_findings() {
    let text = format!(
        "{HEAD}  jobs:
    build:
      runs-on: bash
      steps:
      - name: one
        run: echo x=1 >> \"$KRUNTIME_OUTPUTS\"
      outputs: {{x: '${{{{ steps.one.outputs.x }}}}'}}
    test:
      needs: build
      runs-on: bash
      steps:
      - {{name: two, run: 'echo $X', env: {{X: '${{{{ jobs.build.outputs.x }}}}'}}}}
"
    );
    assert_eq!(checked(&text), "");
}

const GREET: &str = "apiVersion: kruntimes.io/v1alpha1
kind: Workflow
metadata: {name: greet, labels: {a: b}}
spec:
  inputs:
    who: {required: true}
    greeting: {default: hello}
  outputs:
    said: {value: '${{ jobs.say.outputs.said }}'}
  jobs:
    say:
      runs-on: bash
      outputs: {said: '${{ steps.say.outputs.said }}'}
      steps:
      - name: say
        env: {WHO: '${{ inputs.who }}', GREETING: '${{ inputs.greeting }}'}
        run: echo said=$GREETING $WHO >> $KRUNTIME_OUTPUTS
";

#[test]
fn w_102_w_148_a_workflow_becomes_a_workflow_run() {
    let submission = submitted(GREET, &[("who", "${{ you }}")]);
    assert_eq!(submission.definitions.len(), 1);
    let [run] = &submission.targets[..] else {
        panic!("one target: {:?}", submission.targets)
    };
    let name = run["metadata"]["name"].as_str().unwrap();
    assert!(name.starts_with("greet-") && name.len() == 14, "{name}");
    assert_eq!(run["kind"], "WorkflowRun");
    assert_eq!(run["metadata"]["labels"], json!({"a": "b"}));
    assert_eq!(
        run["metadata"]["annotations"]["kruntimes.io/workflow-output.said"],
        "${{ jobs.say.outputs.said }}"
    );
    let env = &run["spec"]["jobs"]["say"]["steps"][0]["env"];
    assert_eq!(
        env,
        &json!({"WHO": "${{ '${{' }} you }}", "GREETING": "hello"})
    );
    let again = submitted(GREET, &[("who", "${{ you }}")]);
    assert_eq!(submission, again, "equal files and inputs give equal names");
    let other = submitted(GREET, &[("who", "")]);
    assert_ne!(
        run["metadata"]["name"],
        other.targets[0]["metadata"]["name"]
    );
}

#[test]
fn w_20_every_input_that_does_not_fit_is_reported() {
    let manifest = read("f.yaml", GREET).unwrap();
    let inputs = ["gretting", "x"].map(|name| (name.to_owned(), String::new()));
    let findings = manifest.submission(&inputs).unwrap_err();
    insta::assert_snapshot!(printed(GREET, &findings));
    let run = format!("{HEAD}  jobs: {{a: {{runs-on: bash, steps: [{{name: a, run: a}}]}}}}\n");
    let findings = read("f", &run)
        .unwrap()
        .submission(&inputs[..1])
        .unwrap_err();
    insta::assert_snapshot!(printed(&run, &findings));
    // C-67: what only a trigger can know is not demanded while checking.
    assert_eq!(manifest.check(&Known::default()), []);
}

#[test]
fn w_146_an_input_splits_at_the_first_equals_sign() {
    let split = |text: &str| parse_input(text).map_err(|error| error.to_string());
    let pair = |k: &str, v: &str| Ok((k.to_owned(), v.to_owned()));
    let refused = || Err("--input must be key=value".to_owned());
    assert_eq!(split("a=b=c"), pair("a", "b=c"));
    assert_eq!(split("a="), pair("a", ""));
    assert_eq!(split("a"), refused());
    assert_eq!(split("=a"), refused());
    let twice = submitted(GREET, &[("who", "a"), ("who", "b")]);
    let env = &twice.targets[0]["spec"]["jobs"]["say"]["steps"][0]["env"];
    assert_eq!(env["WHO"], "b");
}

#[test]
fn several_documents_are_sorted_into_what_they_are() {
    let run = "apiVersion: kruntimes.io/v1alpha1\nkind: Run\nmetadata: {generateName: g-}\nspec: {runtime: fast, mode: {task: {}}, source: {inline: 'true'}}\n";
    let runtime = "apiVersion: kruntimes.io/v1alpha1\nkind: Runtime\nmetadata: {name: fast, namespace: default, uid: x}\nspec: {template: {spec: {containers: [{name: runtime, image: bash}]}}}\n";
    let text = format!("{run}---\n{runtime}---\n{run}---\n{GREET}");
    let submission = submitted(&text, &[]);
    assert_eq!(submission.runtimes.len(), 1);
    assert_eq!(
        submission.runtimes[0]["metadata"],
        json!({"name": "fast", "namespace": "default"})
    );
    assert_eq!(submission.definitions.len(), 1, "the Workflow is not run");
    let names: Vec<_> = submission
        .targets
        .iter()
        .map(|target| target["metadata"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(names.len(), 2);
    assert_ne!(names[0], names[1]);
    assert!(names.iter().all(|name| name.starts_with("g-")), "{names:?}");
}

#[test]
fn what_may_not_stand_together_is_reported() {
    let two = format!(
        "{GREET}---\n{}",
        GREET.replace("name: greet", "name: other")
    );
    let twice = format!("{GREET}---\n{GREET}");
    insta::assert_snapshot!(format!("{}{}", checked(&two), checked(&twice)));
}

/// C-73
#[test]
fn c_73_an_unavailable_runtime_is_refused_with_those_that_exist() {
    let text =
        "apiVersion: kruntimes.io/v1alpha1\nkind: Run\nspec: {runtime: python, mode: {task: {}}}\n";
    insta::assert_snapshot!(checked(text));
    let manifest = read("f", text).unwrap();
    assert_eq!(manifest.check(&Known::default()), []);
    let runtime = "apiVersion: kruntimes.io/v1alpha1\nkind: Runtime\nmetadata: {name: python}\nspec:\n  \
                   template: {spec: {containers: [{name: runtime, image: registry.example/ruby:3}]}}\n";
    insta::assert_snapshot!(checked(&format!("{text}---\n{runtime}")), @r"
    9:57 error K050 image `registry.example/ruby:3` has no runtime server on this machine <registry.example/ruby:3>
        available: `bash`, `python`
    ");
}

/// Whatever the text, reading and checking end without a panic, and every finding points into the text.
#[test]
fn findings_always_point_into_the_text() {
    let text = format!(
        "{HEAD}  jobs:\n    ä: {{runs-on: [x], needs: {{}}, steps: '${{{{ ü'}}\n---\n{GREET}"
    );
    for cut in 0..text.len() {
        if !text.is_char_boundary(cut) {
            continue;
        }
        for candidate in [
            text[..cut].to_owned(),
            format!(
                "{}{}",
                &text[..cut],
                &text[text.ceil_char_boundary(cut + 7)..]
            ),
        ] {
            let findings = match read("f", &candidate) {
                Ok(manifest) => manifest.check(&known()),
                Err(findings) => findings,
            };
            for finding in findings {
                assert!(candidate.get(finding.span.clone()).is_some(), "{finding:?}");
                assert!(finding.line > 0 && finding.column > 0);
            }
        }
    }
}

/// A job that stays wrong whatever is done about its body ends the search instead of repeating it.
#[test]
fn c_66_a_problem_that_no_replacement_cures_is_reported_once() {
    let text = format!(
        "{HEAD}  jobs:\n    -a:\n      runs-on: bash\n      needs: [b]\n      outputs: {{o: v}}\n      steps: [{{name: s, run: x}}]\n    \
         b: {{runs-on: bash, steps: [{{name: s, run: x}}]}}\n"
    );
    let found = read("f.yaml", &text).unwrap().check(&known());
    let said = "job \"-a\": name \"-a\" is not a valid name";
    let told = found.iter().filter(|one| one.message == said).count();
    assert_eq!(told, 1, "{found:?}");
}
