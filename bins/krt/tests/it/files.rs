//! `krt lint`, `krt wf graph` and `krt wf convert`: files only, no server.

use std::fs;
use std::process::Output;

use serde_json::Value;

use crate::process::{example, krt, text};

const BROKEN: &str = "\
apiVersion: kruntimes.io/v1alpha1
kind: Workflow
metadata: {name: caller}
spec:
  inputs: {who: {required: true, default: you}}
  jobs:
    build:
      runs-on: bash
      stpes: []
      steps:
      - name: s
        args: [x]
        run: echo ${{ inputs.whom }}
    deploy:
      needs: [biuld]
      uses: release
      with: {versoin: '1'}
---
apiVersion: kruntimes.io/v1alpha1
kind: Workflow
metadata: {name: release}
spec:
  inputs: {version: {required: true}}
  jobs:
    only: {runs-on: bash, steps: [{name: s, env: {V: '${{ inputs.version }}'}, run: echo $V}]}
";

/// Runs krt in a directory with these files.
fn run_in(files: &[(&str, &str)], words: &[&str]) -> Output {
    let directory = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = directory.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    krt(words)
        .current_dir(directory.path())
        .env("KUBECONFIG", "/dev/null/none")
        .output()
        .unwrap()
}

#[test]
fn c_65_c_66_lint_says_everything_with_line_caret_and_hint() {
    let output = run_in(&[("w.yaml", BROKEN)], &["lint", "w.yaml"]);
    assert_eq!(output.status.code(), Some(3));
    insta::assert_snapshot!(text(&output.stdout));
    assert_eq!(text(&output.stderr), "1 file: 5 errors, 2 warnings\n");
}

#[test]
fn c_65_lint_speaks_to_programs() {
    let list = |words: &[&str]| {
        run_in(
            &[("w.yaml", BROKEN)],
            &[&["lint", "w.yaml"], words].concat(),
        )
    };
    let output = list(&["-o", "json"]);
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let codes: Vec<&str> = found
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["code"].as_str().unwrap())
        .collect();
    for code in ["K002", "K020", "K032", "K043", "K044", "K046"] {
        assert!(codes.contains(&code), "{code}: {codes:?}");
    }
    assert_eq!(found[0]["file"], "w.yaml");
    let output = list(&["-o", "sarif"]);
    let sarif: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(sarif["version"], "2.1.0");
    let results = sarif["runs"][0]["results"].as_array().unwrap();
    assert_eq!(results.len(), codes.len());
    let region = &results[0]["locations"][0]["physicalLocation"]["region"];
    assert_eq!(
        (&region["startLine"], &region["startColumn"]),
        (&found[0]["line"], &found[0]["column"])
    );
    let output = list(&["-o", "github"]);
    let lines = text(&output.stdout);
    assert_eq!(lines.lines().count(), codes.len());
    assert!(
        lines.contains("::error file=w.yaml,line=9,col=7,title=K002::unknown field `spec.jobs.build.stpes`%0Adid you mean `steps`?"),
        "{lines}"
    );
}

#[test]
fn c_67_references_are_looked_up_in_directories_and_in_any_order() {
    let (caller, release) = BROKEN.split_once("---\n").unwrap();
    let caller = caller
        .replace("stpes: []\n      ", "")
        .replace("whom", "who")
        .replace("biuld", "build")
        .replace("versoin", "version");
    let alone = run_in(&[("a/caller.yaml", &caller)], &["lint", "a"]);
    assert_eq!(alone.status.code(), Some(0), "{alone:?}");
    assert!(
        text(&alone.stdout).contains("warning[K040]"),
        "{}",
        text(&alone.stdout)
    );
    let required = run_in(
        &[("a/caller.yaml", &caller)],
        &["lint", "a", "--require-refs"],
    );
    assert_eq!(required.status.code(), Some(3));
    let both = run_in(
        &[("a/caller.yaml", &caller), ("b/deep/release.yml", release)],
        &["lint", "b", "a"],
    );
    assert_eq!(both.status.code(), Some(0));
    assert!(!text(&both.stdout).contains("K040"));
    let strict = run_in(&[("a/caller.yaml", &caller)], &["lint", "a", "--strict"]);
    assert_eq!(strict.status.code(), Some(3));
}

#[test]
fn c_65_every_example_is_fine_and_a_missing_file_is_another_problem() {
    let path = example("");
    let output = krt(&["lint", path.trim_end_matches('/'), "--ascii"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
    assert!(text(&output.stdout).is_ascii());
    let missing = krt(&["lint", "no-such-file.yaml"]).output().unwrap();
    assert_eq!(missing.status.code(), Some(1));
    assert_eq!(krt(&["lint"]).output().unwrap().status.code(), Some(2));
}

#[test]
fn c_68_a_graph_is_printed_in_four_ways() {
    let path = example("c-build.yaml");
    for (kind, want) in [
        ("text", "source   bash, 1 step"),
        ("dot", "\"source\" -> \"test\";"),
        ("mermaid", "j0 --> j1"),
        ("svg", "<svg xmlns="),
    ] {
        let output = krt(&["wf", "graph", "-f", &path, "-o", kind])
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert!(
            text(&output.stdout).contains(want),
            "{}",
            text(&output.stdout)
        );
        insta::assert_snapshot!(format!("graph_{kind}"), text(&output.stdout));
    }
    let two = run_in(
        &[(
            "w.yaml",
            &BROKEN
                .replace("stpes: []\n      ", "")
                .replace("whom", "who")
                .replace("biuld", "build"),
        )],
        &["wf", "graph", "-f", "w.yaml"],
    );
    assert_eq!(two.status.code(), Some(3));
    assert_eq!(
        text(&two.stderr),
        "krt: choose one with --name: caller, release\n"
    );
}

#[test]
fn c_89_what_is_converted_can_be_linted_and_drawn() {
    let ci = "name: Nightly\non: push\njobs:\n  build:\n    runs-on: ubuntu-latest\n    steps:\n    - name: Build it\n      run: make\n  test:\n    needs: build\n    steps:\n    - run: make test\n";
    let output = run_in(
        &[("ci.yml", ci)],
        &[
            "wf",
            "convert",
            "-f",
            "ci.yml",
            "--runtime-map",
            "ubuntu-latest=bash",
        ],
    );
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let manifest = text(&output.stdout);
    insta::assert_snapshot!(manifest);
    let linted = run_in(&[("out.yaml", &manifest)], &["lint", "out.yaml"]);
    assert_eq!(linted.status.code(), Some(0), "{}", text(&linted.stdout));
    let drawn = run_in(&[("ci.yml", ci)], &["wf", "graph", "-f", "ci.yml"]);
    let same = run_in(
        &[("out.yaml", &manifest)],
        &["wf", "graph", "-f", "out.yaml"],
    );
    assert_eq!(
        text(&drawn.stdout)
            .replace("ubuntu-latest", "bash         ")
            .replace(' ', ""),
        text(&same.stdout).replace(' ', "")
    );
}

/// C-85: all findings in one pass, nothing on standard output.
#[test]
fn c_85_what_cannot_be_converted_is_refused() {
    let ci = "jobs:\n  a:\n    strategy: {matrix: {v: [1]}}\n    steps:\n    - uses: actions/checkout@v4\n    - run: make\n      if: always()\n";
    let output = run_in(&[("ci.yml", ci)], &["wf", "convert", "-f", "ci.yml"]);
    assert_eq!(
        (output.status.code(), text(&output.stdout)),
        (Some(3), String::new())
    );
    insta::assert_snapshot!(text(&output.stderr));
    let linted = run_in(&[("ci.yml", ci)], &["lint", "ci.yml"]);
    assert_eq!(linted.status.code(), Some(3));
}

/// The whole output for three files that people might write.
#[test]
fn c_65_c_66_three_broken_files_are_told_everything() {
    for (name, content) in [
        ("fields.yaml", include_str!("../broken/fields.yaml")),
        ("graph.yaml", include_str!("../broken/graph.yaml")),
        (
            "expressions.yaml",
            include_str!("../broken/expressions.yaml"),
        ),
    ] {
        let output = run_in(&[(name, content)], &["lint", name]);
        assert_eq!(output.status.code(), Some(3), "{name}");
        let said = format!("{}\n{}", text(&output.stdout), text(&output.stderr));
        insta::assert_snapshot!(format!("broken_{}", name.trim_end_matches(".yaml")), said);
    }
}

#[test]
fn c_65_fix_corrects_names_and_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("w.yaml");
    fs::write(&path, BROKEN).unwrap();
    let lint = || {
        krt(&["lint", path.to_str().unwrap(), "--fix"])
            .output()
            .unwrap()
    };
    let output = lint();
    let said = text(&output.stderr);
    assert!(said.contains("3 names corrected"), "{said}");
    let fixed = fs::read_to_string(&path).unwrap();
    let by_hand = BROKEN
        .replace("stpes", "steps")
        .replace("[biuld]", "[build]")
        .replace("versoin", "version");
    assert_eq!(fixed, by_hand);
    // What is no name is left to people, and a second time there is nothing to correct.
    assert_eq!(output.status.code(), Some(3));
    let again = lint();
    assert!(!text(&again.stderr).contains("corrected"), "{again:?}");
    assert_eq!(fs::read_to_string(&path).unwrap(), by_hand);
}

#[test]
fn c_67_with_is_looked_into_and_not_judged() {
    let (_, release) = BROKEN.split_once("---\n").unwrap();
    let caller = "apiVersion: kruntimes.io/v1alpha1\nkind: Workflow\nmetadata: {name: c}\n\
        spec: {jobs: {a: {uses: release, with: {version: '1'}}}}\n";
    let broken = format!("{release}---\nkind: Nothing\n");
    let files = [
        ("c.yaml", caller),
        ("lib/release.yaml", release),
        ("bad/x.yaml", &broken),
    ];
    let words = ["lint", "c.yaml", "--require-refs", "--with"];
    let output = run_in(&files, &[&words[..], &["lib"]].concat());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(text(&output.stderr), "1 file: 0 errors, 0 warnings\n");
    let missing = run_in(&files, &["lint", "c.yaml", "--require-refs"]);
    assert_eq!(missing.status.code(), Some(3));
    let nowhere = run_in(&files, &[&words[..], &["nowhere"]].concat());
    assert_eq!(nowhere.status.code(), Some(1));
}

#[test]
fn c_68_a_graph_is_data_too() {
    let file = example("c-build.yaml");
    let output = krt(&["wf", "graph", "-f", &file, "-o", "json"])
        .output()
        .unwrap();
    let graph: Value = serde_json::from_slice(&output.stdout).unwrap();
    let jobs = graph["jobs"].as_array().unwrap();
    assert!(jobs.len() > 2, "{graph}");
    assert!(
        jobs.iter()
            .all(|job| job["name"].is_string() && job["needs"].is_array())
    );
    assert_eq!(jobs[0]["layer"], 0);
}
