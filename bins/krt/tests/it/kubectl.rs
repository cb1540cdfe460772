//! What people do with kubectl, on an engine that stays.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::engine::{Engine, kubeconfig};
use crate::process::{example, text, workflow_run};

const HELLO: &str = "    build:
      runs-on: bash
      outputs: {tag: '${{ steps.pack.outputs.tag }}'}
      steps:
      - {name: pack, run: 'echo tag=v1 >> \"$KRUNTIME_OUTPUTS\"'}
    announce:
      runs-on: bash
      needs: [build]
      steps:
      - {name: say, run: 'echo built ${{ jobs.build.outputs.tag }}'}
";

/// kubectl with the configuration of one engine.
struct Kubectl {
    kubeconfig: PathBuf,
}

impl Kubectl {
    /// Tells whether there is a kubectl, and says so when there is none.
    #[expect(
        clippy::print_stdout,
        reason = "a test that does nothing must not look like one that passed"
    )]
    fn installed() -> bool {
        let version = Command::new("kubectl")
            .args(["version", "--client"])
            .output();
        let installed = version.is_ok_and(|output| output.status.success());
        if !installed {
            println!("skipped: there is no kubectl in PATH");
        }
        installed
    }

    fn new(home: &Path) -> Self {
        Self {
            kubeconfig: kubeconfig(home),
        }
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("kubectl");
        command.args(words).env("KUBECONFIG", &self.kubeconfig);
        // Its cache of discovery goes beside the configuration, not into anybody's home.
        command.env("KUBECACHEDIR", self.kubeconfig.with_file_name("cache"));
        command
    }

    fn try_do(&self, words: &[&str], input: &str) -> Output {
        let mut child = self
            .command(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut pipe = child.stdin.take().unwrap();
        pipe.write_all(input.as_bytes()).unwrap();
        drop(pipe);
        child.wait_with_output().unwrap()
    }

    /// Runs a command that succeeds; returns what it prints.
    fn does(&self, words: &[&str], input: &str) -> String {
        let output = self.try_do(words, input);
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "{words:?}: {out}{err}");
        out
    }

    fn object(&self, words: &[&str]) -> Value {
        let words = [&["get", "-o", "json"], words].concat();
        serde_json::from_str(&self.does(&words, "")).unwrap()
    }
}

#[test]
fn a_workflow_is_applied_followed_described_and_deleted() {
    if !Kubectl::installed() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("home");
    let _engine = Engine::start(&home);
    let kubectl = Kubectl::new(&home);
    let manifest = workflow_run("hello", HELLO);
    let mut watch = kubectl
        .command(&["get", "workflowruns", "--watch"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let applied = kubectl.does(&["apply", "-f", "-"], &manifest);
    assert_eq!(applied, "workflowrun.kruntimes.io/hello created\n");
    let lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut lines = lines.map_while(Result::ok);
    assert!(lines.any(|line| line.starts_with("hello ") && line.contains("Succeeded")));
    watch.kill().unwrap();
    watch.wait().unwrap();

    let again = kubectl.does(&["apply", "-f", "-"], &manifest);
    assert_eq!(again, "workflowrun.kruntimes.io/hello unchanged\n");
    let table = kubectl.does(&["get", "workflowruns"], "");
    assert!(
        table.starts_with("NAME ") && table.contains("Succeeded"),
        "{table}"
    );
    let described = kubectl.does(&["describe", "workflowrun", "hello"], "");
    for part in ["Name:         hello", "Phase:  ", "Succeeded"] {
        assert!(described.contains(part), "{part}: {described}");
    }
    let table = kubectl.does(&["get", "pods"], "");
    assert!(
        table.contains(" 2/2 ") && table.contains(" Running "),
        "{table}"
    );
    let pods = kubectl.object(&["pods"]);
    let pod = pods["items"][0]["metadata"]["name"].as_str().unwrap();
    let logs = kubectl.does(&["logs", pod, "-c", "runtime"], "");
    assert!(logs.contains("] built v1\n"), "{logs}");
    let raw = kubectl.does(&["logs", pod, "-c", "runtimed", "--tail", "1"], "");
    let record: Value = serde_json::from_str(&raw).unwrap();
    assert_eq!(record["message"], "built v1");

    let run = kubectl.object(&["runs"])["items"][0]["metadata"]["name"].clone();
    kubectl.does(&["delete", "workflowrun", "hello"], "");
    let run = format!("run/{}", run.as_str().unwrap());
    kubectl.does(&["wait", "--for=delete", &run, "--timeout=60s"], "");
    assert_eq!(
        kubectl.object(&["runs"])["items"].as_array().unwrap().len(),
        0
    );
}

#[test]
fn the_examples_are_applied_and_run() {
    if !Kubectl::installed() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("home");
    let _engine = Engine::start(&home);
    let kubectl = Kubectl::new(&home);
    let applied = kubectl.does(&["apply", "-f", &example("")], "");
    for made in [
        "workflow.kruntimes.io/greet created",
        "workflow.kruntimes.io/word-count created",
        "run.kruntimes.io/third-time-lucky created",
        "workflowrun.kruntimes.io/fails-in-the-middle created",
    ] {
        assert!(applied.contains(made), "{made}: {applied}");
    }
    let until = |phase: &str, object: &str| {
        let condition = format!("--for=jsonpath={{.status.phase}}={phase}");
        kubectl.does(&["wait", &condition, object, "--timeout=60s"], "");
    };
    until("Succeeded", "run/third-time-lucky");
    until("Failed", "workflowrun/fails-in-the-middle");
    let run = kubectl.object(&["run", "third-time-lucky"]);
    assert_eq!(run["status"]["outputs"]["tries"], "3");
    let explained = kubectl.does(&["explain", "workflowrun.spec.jobs.steps"], "");
    assert!(explained.contains("run\t<string>"), "{explained}");
    let wrong = workflow_run("wrong", "    a: {runs-on: bash, steps: []}\n");
    let refused = kubectl.try_do(&["apply", "-f", "-"], &wrong);
    assert!(!refused.status.success());
    assert!(
        text(&refused.stderr).contains("steps"),
        "{}",
        text(&refused.stderr)
    );
}
