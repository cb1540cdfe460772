//! What goes where, and how a run ends.

use crate::process::{object, run, run_text, text, workflow_run};

const BOTH: &str = "    talk:
      runs-on: bash
      steps:
      - name: both
        run: |
          echo to-out
          echo to-err >&2
          printf 'no newline'
";

/// C-9
#[test]
fn c_9_data_goes_to_standard_output_and_the_rest_to_standard_error() {
    let output = run_text(&workflow_run("talk", BOTH), &[]);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{err}");
    assert!(
        out.starts_with("[talk/both] to-out\n[talk/both] no newline\n"),
        "{out}"
    );
    assert!(out.contains("Succeeded talk in"), "{out}");
    assert!(!out.contains("to-err"), "{out}");
    assert!(err.contains("[talk/both] to-err\n"), "{err}");
    assert_eq!(err.matches("there is no isolation").count(), 1, "{err}");
    // C-10, C-51: no cursor codes without a terminal.
    assert!(!out.contains('\u{1b}') && !err.contains('\u{1b}'));
}

/// C-51
#[test]
fn c_51_every_transition_is_a_line_with_time_path_and_phases() {
    let output = run_text(&workflow_run("talk", BOTH), &["--ascii"]);
    let err = text(&output.stderr);
    let line = err
        .lines()
        .find(|line| line.contains("talk/both Running->Succeeded"))
        .unwrap_or_else(|| panic!("{err}"));
    let (time, _) = line.split_once(' ').unwrap();
    assert!(time.ends_with('Z') && time.contains('T'), "{line}");
    assert!(err.is_ascii(), "{err}");
}

#[test]
fn with_json_standard_output_is_exactly_one_document() {
    let output = run_text(&workflow_run("talk", BOTH), &["-o", "json"]);
    let object = object(&output);
    assert_eq!(object["apiVersion"], "kruntimes.io/v1alpha1");
    assert_eq!(object["kind"], "WorkflowRun");
    assert_eq!(object["metadata"]["name"], "talk");
    assert_eq!(object["status"]["phase"], "Succeeded");
    assert!(text(&output.stderr).contains("[talk/both] to-out"));
}

#[test]
fn several_documents_run_side_by_side_and_the_worst_end_counts() {
    let file = [
        run("good", "", "echo fine"),
        run("bad", "", "exit 1"),
        workflow_run("talk", BOTH),
    ]
    .join("---\n");
    let output = run_text(&file, &["-o", "json"]);
    let list = object(&output);
    assert_eq!(output.status.code(), Some(10), "{list}");
    assert_eq!(list["kind"], "List");
    let ends: Vec<_> = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| {
            let (name, phase) = (&item["metadata"]["name"], &item["status"]["phase"]);
            format!("{} {}", name.as_str().unwrap(), phase.as_str().unwrap())
        })
        .collect();
    assert_eq!(ends, ["good Succeeded", "bad Failed", "talk Succeeded"]);
    // Among several the target stands in front of its steps.
    assert!(text(&output.stderr).contains("[talk/talk/both] to-out"));
}

#[test]
fn c_14_a_run_that_takes_too_long_is_code_11() {
    let file = run("slow", "  timeout: 200ms\n", "sleep 600");
    let output = run_text(&file, &["-o", "json"]);
    assert_eq!(output.status.code(), Some(11), "{}", text(&output.stderr));
    assert_eq!(object(&output)["status"]["phase"], "Timeout");
}

#[test]
fn a_file_may_bring_its_own_runtime() {
    let runtime = "apiVersion: kruntimes.io/v1alpha1\nkind: Runtime\nmetadata: {name: bash}\nspec: \
                   {capacity: {resources: {runs: 1}}, template: {spec: {containers: [{name: runtime, image: bash}]}}}\n";
    let file = format!("{runtime}---\n{}", workflow_run("talk", BOTH));
    let output = run_text(&file, &["-o", "json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}

#[test]
fn the_files_of_the_steps_stay_only_when_asked_for() {
    let keep = tempfile::tempdir().unwrap();
    let path = keep.path().join("steps");
    let words = ["--runtime-dir", path.to_str().unwrap(), "--keep"];
    let output = run_text(&run("here", "", "pwd; echo kept > kept.txt"), &words);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("files of the steps are in"));
    let out = text(&output.stdout);
    let directory = out.lines().next().unwrap().trim_start_matches("[here] ");
    let root = path.canonicalize().unwrap();
    assert!(directory.starts_with(root.to_str().unwrap()), "{directory}");

    let output = run_text(&run("gone", "", "pwd"), &[]);
    let out = text(&output.stdout);
    let directory = out.lines().next().unwrap().trim_start_matches("[gone] ");
    assert!(directory.starts_with('/'), "{out}");
    assert!(!std::path::Path::new(directory).exists(), "{directory}");
}

#[test]
fn no_line_of_many_runs_is_missed() {
    let names: Vec<String> = (0..60).map(|number| format!("r{number}")).collect();
    let documents = names
        .iter()
        .map(|name| run(name, "", &format!("echo {name}")));
    let output = run_text(&documents.collect::<Vec<_>>().join("---\n"), &[]);
    let out = text(&output.stdout);
    for name in &names {
        assert!(out.contains(&format!("[{name}] {name}\n")), "{name}: {out}");
    }
}
