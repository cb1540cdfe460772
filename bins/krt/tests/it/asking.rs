//! Shapes of output, connections, files on their way to a server.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::client::{GREET, Person};
use crate::engine::{Engine, kubeconfig};
use crate::process::{text, workflow_run};

#[test]
fn output_is_shaped_by_templates_sorted_by_paths_and_followed_to_the_end() {
    let person = Person::new();
    for name in ["b", "a", "c"] {
        assert_eq!(person.runs(name, "echo hi", &[]), Some(0));
    }
    let phase = "jsonpath={.metadata.name} is {.status.phase}";
    assert_eq!(person.does(&["get", "a", "-o", phase]), "a is Succeeded\n");
    let names = r#"jsonpath={range .items[*]}{.metadata.name}{"\n"}{end}"#;
    let sorted = person.does(&["ls", "--sort-by", ".metadata.name", "-o", names]);
    assert_eq!(
        sorted.split_whitespace().collect::<Vec<_>>(),
        ["a", "b", "c"]
    );
    let said = person.fails(&["get", "a", "-o", "xml"], 2);
    assert!(
        said.contains("'xml'") && said.contains("jsonpath=TEMPLATE"),
        "{said}"
    );
    person.fails(&["get", "a", "-o", "jsonpath={.a"], 2);
    person.fails(&["ls", "--sort-by", "{.a["], 2);
    let file = person.file("slow.sh", "read -t 0.3 < <(sleep 300); exit 0");
    person.does(&["run", "--name", "d", "-f", &file]);
    let watched = person.does(&["get", "d", "-w"]);
    let lines: Vec<&str> = watched.lines().collect();
    assert!(
        lines[0].starts_with("NAME ") && lines[1].starts_with("d "),
        "{watched}"
    );
    assert!(lines[lines.len() - 1].contains("Succeeded"), "{watched}");
    assert_eq!(watched.matches("NAME ").count(), 1, "{watched}");
    let said = person.fails(&["get", "nobody", "-w"], 1);
    assert!(said.contains("nobody"), "{said}");
}

#[test]
fn c_2_certificates_and_time_limits_are_taken_from_flags() {
    let person = Person::new();
    let said = person.fails(&["ls", "--certificate-authority", "/nowhere/ca"], 1);
    assert!(
        said.contains("--certificate-authority /nowhere/ca"),
        "{said}"
    );
    let other = foreign_authority(&person);
    let said = person.fails(&["ls", "--certificate-authority", &other], 1);
    assert!(said.contains("cannot list runs"), "{said}");
    person.fails(&["ls", "--client-certificate", "/nowhere/cert"], 2);
    person.does(&["ls", "--request-timeout", "30s"]);
    person.does(&["ls", "--request-timeout", "0", "--disable-compression"]);
    // Nobody answers there, though somebody listens.
    let deaf = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let server = format!("http://{}", deaf.local_addr().unwrap());
    let said = person.fails(
        &["ls", "--server", &server, "--request-timeout", "300ms"],
        1,
    );
    assert!(said.contains("no answer within 300ms"), "{said}");
}

/// A certificate authority that signed nothing here: the engine's own of another directory.
fn foreign_authority(person: &Person) -> String {
    let other = person.dir.path().join("other");
    let _engine = Engine::start(&other);
    let kubeconfig = std::fs::read_to_string(kubeconfig(&other)).unwrap();
    let line = kubeconfig
        .lines()
        .find_map(|line| line.trim().strip_prefix("certificate-authority-data:"));
    let data = line.unwrap().trim().trim_matches('"').to_owned();
    let decoded = Command::new("base64")
        .arg("-d")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let mut decoded = decoded.unwrap();
    decoded
        .stdin
        .take()
        .unwrap()
        .write_all(data.as_bytes())
        .unwrap();
    let pem = decoded.wait_with_output().unwrap().stdout;
    person.file("other.pem", &String::from_utf8(pem).unwrap())
}

#[test]
fn c_33_artifacts_of_a_run_are_listed() {
    let person = Person::new();
    assert_eq!(person.runs("plain", "true", &[]), Some(0));
    let output = person.try_do(&["artifact", "ls", "plain"]);
    assert_eq!(text(&output.stdout), "");
    assert!(text(&output.stderr).contains("Run plain has no artifacts"));
    let said = person.fails(&["artifact", "download", "plain", "app"], 1);
    assert!(
        said.contains("has no artifact app: there are none"),
        "{said}"
    );
}

const CI: &str = "\
name: Greeting
on: push
jobs:
  say:
    runs-on: ubuntu-latest
    steps:
      - name: Say it
        run: echo hello
  count:
    needs: say
    runs-on: ubuntu-latest
    steps:
      - run: echo 1
";

#[test]
fn c_80_c_81_c_86_w_151_a_small_ci_file_runs_or_is_refused_by_name() {
    let person = Person::new();
    let file = person.file("ci.yml", CI);
    let said = person.fails(&["wf", "run", "-f", &file], 3);
    assert!(
        said.contains("runs on ubuntu-latest") && said.contains("there are bash"),
        "{said}"
    );
    let map = ["--runtime-map", "ubuntu-latest=bash"];
    let words = ["wf", "run", "-f", &file, "--wait"];
    let name = person.does(&[&words[..], &map].concat());
    let name = name.trim();
    assert!(name.starts_with("wfr-"), "{name}");
    let run = person.json(&["wf", "run", "get", name]);
    assert_eq!(run["status"]["jobs"]["count"]["phase"], "Succeeded");
    assert_eq!(run["spec"]["jobs"]["say"]["steps"][0]["name"], "say-it");
    assert_eq!(
        run["metadata"]["annotations"]["kruntimes.io/title"],
        "Greeting"
    );
    let graph = person.does(&["wf", "graph", &format!("wfr/{name}"), "-o", "json"]);
    let graph: Value = serde_json::from_str(&graph).unwrap();
    assert_eq!(graph["jobs"][1]["needs"][0], "say");
    assert_eq!(graph["jobs"][1]["phase"], "Succeeded");
    let matrix = CI.replace(
        "    needs: say\n",
        "    needs: say\n    timeout-minutes: 5\n    if: github.ref == 'x'\n",
    );
    let file = person.file("more.yml", &matrix);
    let said = person.fails(&[&["wf", "run", "-f", &file][..], &map].concat(), 3);
    for named in ["timeout-minutes", "`if`"] {
        assert!(said.contains(named), "{named}: {said}");
    }
    let all = person.json(&["wf", "run", "ls"]);
    assert_eq!(all["items"].as_array().map(Vec::len), Some(1), "{all}");
    let run = person.file("run.yaml", "apiVersion: kruntimes.io/v1alpha1\nkind: Run\nmetadata: {name: x}\nspec: {runtime: bash, mode: {task: {args: [a]}}}\n");
    let said = person.fails(&["wf", "create", "-f", &run], 3);
    assert!(
        said.contains("workflow file must contain kind: Workflow or GitHub Actions jobs"),
        "{said}"
    );
}

#[test]
fn w_144_w_145_w_146_w_147_a_trigger_says_what_it_made_or_why_not() {
    let person = Person::new();
    let said = person.fails(&["wf", "trigger", "nobody"], 1);
    assert!(said.contains("get workflow nobody: "), "{said}");
    let file = person.file("greet.yaml", GREET);
    person.does(&["wf", "create", "-f", &file]);
    let said = person.fails(&["wf", "trigger", "greet"], 3);
    assert!(said.contains("materialize workflow greet: "), "{said}");
    let said = person.fails(&["wf", "trigger", "greet", "--input", "who"], 2);
    assert!(said.contains("--input must be key=value"), "{said}");
    let words = [
        "wf", "trigger", "greet", "--name", "mine", "--set", "who=a", "--input", "who=b=c",
    ];
    assert_eq!(
        person.does(&words),
        "WorkflowRun mine triggered from Workflow greet\n"
    );
    // What becomes of the template later is nothing to what was made of it.
    person.does(&["wf", "delete", "greet"]);
    person.does(&["wait", "wfr/mine"]);
    let run = person.json(&["wf", "run", "get", "mine"]);
    assert_eq!(run["status"]["jobs"]["say"]["outputs"]["text"], "hello b=c");
    let circle = "apiVersion: kruntimes.io/v1alpha1\nkind: Workflow\nmetadata: {name: NAME}\nspec: {jobs: {a: {uses: OTHER}}}\n";
    for (name, other) in [("one", "two"), ("two", "one")] {
        let text = circle.replace("NAME", name).replace("OTHER", other);
        let file = person.file(name, &text);
        person.does(&["wf", "create", "-f", &file]);
    }
    let said = person.fails(&["wf", "trigger", "one"], 3);
    assert!(said.contains("workflow call cycle: "), "{said}");
    let all = person.json(&["wf", "run", "ls"]);
    assert_eq!(all["items"].as_array().map(Vec::len), Some(1), "{all}");
}

/// A job that succeeds, one that fails in its second step until a file exists, and one behind it.
fn ci(place: &Path) -> String {
    let place = place.display();
    let jobs = format!(
        r#"    build:
      runs-on: bash
      outputs: {{tag: "${{{{ steps.it.outputs.tag }}}}"}}
      steps: [{{name: it, run: 'echo build >> {place}/done; echo tag=v1 >> $KRUNTIME_OUTPUTS'}}]
    test:
      runs-on: bash
      needs: [build]
      steps:
      - {{name: one, run: 'echo one >> {place}/done'}}
      - {{name: two, run: 'test -e {place}/fixed && echo "two ${{{{ jobs.build.outputs.tag }}}}" >> {place}/done'}}
    ship:
      runs-on: bash
      needs: [test]
      steps: [{{name: it, run: 'echo ship >> {place}/done'}}]
"#
    );
    workflow_run("ci", &jobs)
}

#[test]
fn w_207_case_049_a_finished_workflow_run_is_repeated_from_where_it_failed() {
    let person = Person::with(&["--workflow-extensions", "rerun"]);
    let place = person.dir.path();
    let done = || {
        let text = std::fs::read_to_string(place.join("done")).unwrap();
        std::fs::remove_file(place.join("done")).unwrap();
        text.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let file = person.file("ci.yaml", &ci(place));
    person.fails(&["wf", "run", "-f", &file, "--wait"], 10);
    assert_eq!(done(), ["build", "one"]);
    person.file("fixed", "");
    let retry = |flags: &[&str]| {
        let words = [&["wf", "run", "retry", "ci", "--wait", "-o", "name"], flags].concat();
        let name = person.does(&words);
        let name = name.trim().strip_prefix("workflowrun.kruntimes.io/");
        person.json(&["wf", "run", "get", name.unwrap()])
    };
    for (flags, want) in [
        (&["--failed"][..], &["one", "two v1", "ship"][..]),
        (&["--from", "test.two"], &["two v1", "ship"]),
        (&["--from", "build"], &["build", "one", "two v1", "ship"]),
        (&[], &["build", "one", "two v1", "ship"]),
    ] {
        let run = retry(flags);
        assert_eq!(done(), want, "{flags:?}");
        assert_eq!(run["status"]["phase"], "Succeeded", "{flags:?}");
        let notes = &run["metadata"]["annotations"];
        assert_eq!(notes["kruntimes.io/rerun-of"], "ci", "{flags:?}");
    }
    let old = person.json(&["wf", "run", "get", "ci"]);
    assert_eq!(old["status"]["phase"], "Failed", "the old one is untouched");
    let said = person.fails(&["wf", "run", "retry", "ci", "--from", "ghost"], 3);
    assert!(said.contains("there is no job \"ghost\""), "{said}");
}
