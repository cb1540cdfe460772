//! Every example ends as its header says.

use kruntimes_embedded::manifest::{Known, read};
use serde_json::{Value, json};

use crate::process::{example, krt, object, phases, text};

fn ran(name: &str, words: &[&str]) -> (i32, Value) {
    let path = example(name);
    let words = [&["local", "run", &path, "-o", "json"], words].concat();
    let output = krt(&words).output().unwrap();
    let code = output.status.code().unwrap();
    assert!(!output.stdout.is_empty(), "{}", text(&output.stderr));
    (code, object(&output))
}

#[test]
fn every_example_is_sound_and_says_how_to_run_it() {
    let directory = example("");
    let mut names = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let file = std::fs::read_to_string(&path).unwrap();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let command = format!("#   krt local run examples/workflows/{name}");
        assert!(file.contains(&command), "{name}");
        let manifest = read(&name, &file).unwrap();
        let findings = manifest.check(&Known {
            runtimes: Some(vec!["bash".to_owned()]),
            local: true,
            inputs: None,
            ..Known::default()
        });
        assert_eq!(findings, [], "{name}");
        names.push(name);
    }
    assert!(names.len() >= 5, "{names:?}");
}

#[test]
fn c_build_compiles_tests_and_packs_a_program() {
    let (code, object) = ran("c-build.yaml", &[]);
    assert_eq!(code, 0, "{object}");
    assert_eq!(
        phases(&object),
        [
            "package Succeeded [pack Succeeded]",
            "source Succeeded [write Succeeded]",
            "test Succeeded [check Succeeded]",
        ]
    );
    let outputs = &object["status"]["outputs"];
    // Case 139: a version is text, not a number.
    assert_eq!(outputs["version"], "1.10");
    assert_eq!(outputs["sha256"].as_str().map(str::len), Some(64));
    let size: u64 = outputs["size"].as_str().unwrap().parse().unwrap();
    assert!(size > 1024, "{size}");
    assert_eq!(
        outputs["files"],
        "primes-1.10/ primes-1.10/TESTED primes-1.10/primes primes-1.10/primes.c"
    );
    assert_eq!(object["status"]["jobs"]["test"]["outputs"]["passed"], "4");
}

#[test]
fn word_count_fans_out_and_joins() {
    let (code, object) = ran("word-count.yaml", &["--input", "top=1"]);
    assert_eq!(code, 0, "{object}");
    assert_eq!(
        object["status"]["outputs"],
        json!({"total": "72", "top": "the"})
    );
    assert_eq!(
        phases(&object),
        [
            "count-mill Succeeded [count Succeeded]",
            "count-night Succeeded [count Succeeded]",
            "count-river Succeeded [count Succeeded]",
            "join Succeeded [add Succeeded]",
            "texts Succeeded [write Succeeded]",
        ]
    );
}

/// W-74 and W-75 from the command line.
#[test]
fn fails_in_the_middle_skips_what_depends_on_the_failure() {
    let (code, object) = ran("fails-in-the-middle.yaml", &[]);
    assert_eq!(code, 10, "{object}");
    assert_eq!(
        phases(&object),
        [
            "announce Skipped [post Pending]",
            "check Failed [count Succeeded, inspect Failed, sign Pending]",
            "document Succeeded [write Succeeded]",
            "prepare Succeeded [list Succeeded]",
            "publish Skipped [upload Pending]",
        ]
    );
    assert_eq!(object["status"]["phase"], "Failed");
    let jobs = &object["status"]["jobs"];
    assert_eq!(jobs["document"]["outputs"], json!({"pages": "1"}));
}

#[test]
fn c_53_the_failing_step_is_shown_with_exit_code_and_stderr() {
    let path = example("fails-in-the-middle.yaml");
    let output = krt(&["local", "run", &path]).output().unwrap();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    for part in ["check/inspect Failed", "exit code 3", "│ item 2 is broken"] {
        assert!(err.contains(part), "{part}: {err}");
    }
    for part in [
        "[check/inspect] item 1 is fine",
        "Failed fails-in-the-middle",
        "announce  Skipped",
    ] {
        assert!(out.contains(part), "{part}: {out}");
    }
    assert!(!out.contains("never reached") && !err.contains("never reached"));
}

#[test]
fn runs_repeats_its_script() {
    let (code, object) = ran("runs.yaml", &[]);
    assert_eq!(code, 0, "{object}");
    assert_eq!(object["kind"], "Run");
    assert_eq!(object["status"]["outputs"], json!({"tries": "3"}));
    assert_eq!(object["status"]["attempt"], 3);
}

/// W-26: a value is data, whatever it looks like.
#[test]
fn greet_takes_its_input_as_data() {
    let value = "$(id) ${{ inputs.greeting }} 'x'";
    let input = format!("who={value}");
    let (code, object) = ran("greet.yaml", &["--input", "who=ignored", "--set", &input]);
    assert_eq!(code, 0, "{object}");
    assert_eq!(object["kind"], "WorkflowRun");
    let message = format!("Hello, {value}!");
    assert_eq!(object["status"]["outputs"]["message"], Value::from(message));
}

#[test]
fn both_spellings_of_the_command_do_the_same() {
    let path = example("greet.yaml");
    let end = ["--input", "who=me", "-o", "json"];
    let short = [&["local", "run", &path], &end[..]].concat();
    let long = [&["local", "wf", "run", "-f", &path], &end[..]].concat();
    let outputs = [short, long].map(|words| {
        let output = krt(&words).output().unwrap();
        object(&output)["status"]["outputs"].clone()
    });
    assert_eq!(outputs[0], json!({"message": "Hello, me!"}));
    assert_eq!(outputs[0], outputs[1]);
}
