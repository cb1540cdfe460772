//! `krt` as a client, of an engine that stays.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::engine::{Engine, kubeconfig, pipe};
use crate::process::{krt, object, text, workflow_run};

/// An engine, and the commands of a person who has nothing else.
pub(crate) struct Person {
    pub(crate) dir: tempfile::TempDir,
    _engine: Option<Engine>,
}

impl Person {
    /// With a running engine.
    pub(crate) fn new() -> Self {
        Self::with(&[])
    }

    /// With a running engine that was started with these flags.
    pub(crate) fn with(flags: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let engine = Engine::start_with(&dir.path().join("engine"), flags);
        Self {
            dir,
            _engine: Some(engine),
        }
    }

    /// With nothing at all.
    pub(crate) fn poor() -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self { dir, _engine: None }
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.dir.path().join("engine")
    }

    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = krt(words);
        command
            .env("HOME", self.dir.path())
            .env("KRT_DATA_DIR", self.home())
            .env_remove("KUBECONFIG")
            .env_remove("XDG_DATA_HOME")
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn try_do(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    /// Runs a command that succeeds; returns what it prints.
    pub(crate) fn does(&self, words: &[&str]) -> String {
        let output = self.try_do(words);
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "{words:?}: {out}{err}");
        out
    }

    /// Runs a command that ends with a code; returns what it says.
    pub(crate) fn fails(&self, words: &[&str], code: i32) -> String {
        let output = self.try_do(words);
        let err = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{words:?}: {err}");
        err
    }

    pub(crate) fn json(&self, words: &[&str]) -> Value {
        let output = self.try_do(&[words, &["-o", "json"]].concat());
        object(&output)
    }

    pub(crate) fn file(&self, name: &str, content: &str) -> String {
        let path = self.dir.path().join(name);
        std::fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// Creates a Run of a script and waits for its end; returns the exit code.
    pub(crate) fn runs(&self, name: &str, script: &str, flags: &[&str]) -> Option<i32> {
        let file = self.file(name, script);
        let words = [&["run", "--name", name, "-f", &file, "--wait"], flags].concat();
        self.try_do(&words).status.code()
    }
}

#[test]
fn c_2_c_3_the_server_is_the_one_that_was_named_else_the_local_engine() {
    let person = Person::new();
    let path = kubeconfig(&person.home());
    let path = path.to_str().unwrap();
    let found = person.try_do(&["ls", "-v"]);
    let said = text(&found.stderr);
    assert!(said.contains("krt: using https://127.0.0.1:"), "{said}");
    assert!(said.contains("from the local engine ("), "{said}");
    assert!(
        said.contains("krt: there are no runs in namespace default"),
        "{said}"
    );
    assert!(found.stdout.is_empty(), "C-9");
    let quiet = text(&person.try_do(&["ls"]).stderr);
    assert!(!quiet.contains("using"), "{quiet}");
    let named = person.try_do(&["--kubeconfig", path, "rt", "ls", "-v", "-n", "other"]);
    let said = text(&named.stderr);
    assert!(said.contains(&format!("from {path}")), "{said}");
    assert!(said.contains("no runtimes in namespace other"), "{said}");
    let broken = person.file("broken", "no: kubeconfig");
    let from_env = person
        .command(&["ls"])
        .env("KUBECONFIG", &broken)
        .output()
        .unwrap();
    assert_eq!(
        from_env.status.code(),
        Some(1),
        "KUBECONFIG goes before the engine"
    );
    let said = person.fails(&["ls", "--context", "nobody", "--kubeconfig", path], 1);
    assert!(said.contains("kubectl config get-contexts"), "{said}");
    let said = person.fails(&["local", "status", "-n", "x"], 2);
    assert!(said.contains("--namespace has no meaning here"), "{said}");
    let said = Person::poor().fails(&["ls"], 1);
    assert!(said.contains("krt local up --detach"), "{said}");
}

#[test]
fn c_9_c_13_c_22_a_run_prints_its_name_and_ends_as_it_ended() {
    let person = Person::new();
    let bad = person.file("bad", "exit 3");
    let output = person.try_do(&["run", "-f", &bad, "--wait", "-o", "name"]);
    assert_eq!(output.status.code(), Some(10));
    let name = text(&output.stdout);
    let name = name.trim().strip_prefix("run.kruntimes.io/run-").unwrap();
    assert_eq!(name.len(), 8, "exactly the name, even when the Run fails");
    let said = text(&output.stderr);
    assert!(
        said.contains(" is Failed (pod runtime-bash-"),
        "C-24: {said}"
    );
    assert!(said.contains("exit code 3"), "C-24: {said}");
    let mut child = person.command(&["run", "-f", "-", "--logs", "--env", "WHO=you", "--rm"]);
    let mut child = child
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(b"echo hello $WHO")
        .unwrap();
    let output = child.wait_with_output().unwrap();
    let printed = text(&output.stdout);
    let (name, line) = printed.trim().split_once('\n').unwrap();
    assert_eq!((line, output.status.code()), ("hello you", Some(0)));
    let said = person.fails(&["get", name], 1);
    assert!(
        said.contains("not found") && said.contains("krt ls -n default"),
        "{said}"
    );
}

#[test]
fn c_22_c_25_the_flags_of_a_run_become_its_spec() {
    let person = Person::new();
    let words = [
        "run",
        "-r",
        "python",
        "--name",
        "r",
        "--handler",
        "a.b",
        "--repo-url",
        "https://h/r.git",
        "--retry-attempts",
        "3",
        "--request",
        "gpu=2",
        "--timeout",
        "90s",
        "--label",
        "team=x",
    ];
    let run = person.json(&words);
    assert_eq!(run["spec"]["mode"]["function"]["handler"], "a.b");
    assert_eq!(run["spec"]["retryPolicy"]["maxAttempts"], 3);
    assert_eq!(run["spec"]["retryPolicy"]["backoff"], "1s");
    assert_eq!(run["spec"]["timeout"], "1m30s");
    assert_eq!(run["spec"]["resources"]["requests"]["gpu"], "2");
    assert_eq!(run["metadata"]["labels"]["team"], "x");
    assert!(person.fails(&words, 1).contains("already exists"));
}

#[test]
fn c_14_c_23_contradictions_are_usage_errors_before_any_request() {
    let person = Person::poor();
    for words in [
        &["run"][..],
        &["run", "-f", "x", "--repo-url", "https://h/r"],
        &["run", "--handler", "h", "--entrypoint", "e"],
        &["run", "--handler", "h", "--", "word"],
        &["run", "-f", "x", "--entrypoint", "e"],
        &["run", "-f", "x", "--", "word"],
        &["run", "-f", "x", "--handler", "h"],
        &["run", "-f", "x", "--timeout", "soon"],
        &["ls", "--phase", "happy"],
        &["ls", "-o", "xml"],
        &["cancel"],
        &["wait"],
        &["wait", "pod/x"],
        &["wait", "x", "--for", "happiness"],
        &["explain"],
        &["explain", "x", "--expect", "bind"],
        &["explain", "rt/x"],
        &["explain", "wfr/x", "--record", "f"],
        &["rt", "scale", "x", "--replicas", "0"],
    ] {
        let said = person.fails(words, 2);
        assert!(
            said.starts_with("error: ") && !said.contains("API server"),
            "{words:?}: {said}"
        );
    }
    assert!(
        person.fails(&["ls", "-o", "xml"], 2).contains("'xml'"),
        "C-6: the value is repeated"
    );
}

/// Three Runs: one succeeded, one failed, one that runs until it is cancelled.
fn three_runs(person: &Person) {
    let good = "echo tag=v1 >> $KRUNTIME_OUTPUTS";
    assert_eq!(person.runs("good", good, &[]), Some(0));
    assert_eq!(
        person.runs("bad", "exit 1", &["--label", "team=x"]),
        Some(10)
    );
    let fifo = person.dir.path().join("fifo");
    drop(pipe(&fifo));
    let script = person.file("long", &format!("read line < {}", fifo.display()));
    person.does(&["run", "--name", "long", "-f", &script]);
    person.does(&["wait", "long", "--for", "phase=running"]);
}

#[test]
fn c_6_c_8_c_12_c_28_c_29_runs_are_listed_and_shown() {
    let person = Person::new();
    three_runs(&person);
    let all = person.does(&["ls"]);
    let mut lines = all.lines();
    let header = lines.next().unwrap();
    let want = "NAME   NAMESPACE   RUNTIME   PHASE       ASSIGNED POD";
    assert!(header.starts_with(want), "{all}");
    assert_eq!(lines.count(), 3, "{all}");
    for (words, want) in [
        (&["--phase", "FAILED"][..], "run.kruntimes.io/bad\n"),
        (&["--failed"], "run.kruntimes.io/bad\n"),
        (
            &["--active", "--runtime", "bash"],
            "run.kruntimes.io/long\n",
        ),
        (&["-l", "team=x", "-A"], "run.kruntimes.io/bad\n"),
        (&["--runtime", "python"], ""),
    ] {
        let words = [&["ls", "-o", "name"], words].concat();
        assert_eq!(person.does(&words), want, "{words:?}");
    }
    assert_eq!(
        person
            .does(&["ls", "--limit", "2", "--no-headers"])
            .lines()
            .count(),
        2
    );
    let list = person.json(&["ls"]);
    assert_eq!(list["kind"], "List");
    let items = list["items"].as_array().unwrap();
    assert!(items.iter().all(|run| run["kind"] == "Run"));
    let good = person.does(&["get", "good"]);
    for line in ["Phase:           Succeeded", "Outputs:         tag=v1"] {
        assert!(good.contains(line), "{good}");
    }
    assert!(
        person
            .does(&["get", "good", "-o", "yaml"])
            .contains("kind: Run\n")
    );
}

#[test]
fn c_17_c_30_c_31_c_62_runs_are_waited_for_and_cancelled() {
    let person = Person::new();
    three_runs(&person);
    let late = person.fails(&["wait", "long", "--timeout", "50ms"], 4);
    assert!(late.contains("goes on"), "{late}");
    let code = |words: &[&str]| person.try_do(words).status.code();
    assert_eq!(
        code(&["wait", "good", "bad"]),
        Some(10),
        "the worst end counts"
    );
    assert_eq!(code(&["wait", "good", "long", "--any"]), Some(0));
    assert_eq!(code(&["wait", "good", "--for", "ready"]), Some(1));
    let cancelled = person.try_do(&["cancel", "good", "long", "--wait"]);
    let said = text(&cancelled.stderr);
    assert_eq!(cancelled.status.code(), Some(0), "{said}");
    assert!(
        said.contains("Run good has ended already (Succeeded)"),
        "{said}"
    );
    assert_eq!(code(&["wait", "long"]), Some(12));
    let long = person.json(&["get", "long"]);
    assert_eq!(long["spec"]["cancelRequested"], true);
}

#[test]
fn c_32_c_55_output_is_followed_to_the_end_over_attempts() {
    let person = Person::new();
    let fifo = person.dir.path().join("fifo");
    let mut gate = pipe(&fifo);
    let script = format!(
        "echo out; echo err >&2; read line < {}; exit $line",
        fifo.display()
    );
    let script = person.file("script", &script);
    person.does(&[
        "run",
        "--name",
        "r",
        "-f",
        &script,
        "--retry-attempts",
        "2",
        "--retry-backoff",
        "10ms",
    ]);
    let mut child = person
        .command(&["logs", "r", "-f", "--exit-status"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(
        out.next().unwrap().unwrap(),
        "out",
        "what is written is shown at once"
    );
    gate.write_all(b"1\n").unwrap();
    assert_eq!(out.next().unwrap().unwrap(), "out");
    gate.write_all(b"0\n").unwrap();
    let rest: Vec<String> = out.map(Result::unwrap).collect();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(rest.is_empty(), "nothing is shown twice: {rest:?}");
    let said: Vec<String> = text(&output.stderr).lines().map(str::to_owned).collect();
    assert_eq!(
        said.iter().filter(|line| *line == "err").count(),
        2,
        "{said:?}"
    );
    assert_eq!(
        said.iter().filter(|line| *line == "krt: attempt 2").count(),
        1,
        "{said:?}"
    );
    assert_eq!(person.does(&["logs", "r"]), "out\nout\n");
    assert_eq!(person.does(&["logs", "r", "--tail", "1"]), "out\n");
    person.does(&["run", "--name", "lost", "-r", "nowhere", "-f", &script]);
    person.does(&["wait", "lost", "--for", "condition=Scheduled=False"]);
    let said = person.fails(&["logs", "lost"], 1);
    assert!(
        said.contains("it has written nothing: it is Pending (RuntimeNotFound)"),
        "{said}"
    );
}

#[test]
fn c_59_c_160_bad_ends_of_real_runs_are_explained() {
    let person = Person::new();
    person.runs("r12", "frobnicate", &[]);
    person.runs("r14", "while :; do :; done", &["--timeout", "200ms"]);
    person.runs(
        "r17",
        "echo a=1 >> $KRUNTIME_OUTPUTS; echo nonsense >> $KRUNTIME_OUTPUTS",
        &["--retry-attempts", "3"],
    );
    for (run, reason, says) in [
        ("r12", "RuntimeError", "exit 127: command not found"),
        ("r14", "Timeout", "limit 200ms, ran "),
        (
            "r17",
            "OutputsInvalid",
            "outputs line 2 must use KEY=VALUE format",
        ),
    ] {
        let told = person.json(&["explain", run]);
        assert_eq!(told["reason"], reason, "{told:#}");
        assert!(told["summary"].as_str().unwrap().contains(says), "{told:#}");
        assert!(!told["evidence"].as_array().unwrap().is_empty());
        assert!(told["next"][0].as_str().unwrap().contains(run), "{told:#}");
    }
    let told = person.does(&["explain", "run", "r12"]);
    assert!(
        told.starts_with("Run default/r12 is Failed (RuntimeError): exit 127"),
        "{told}"
    );
    let said = person.fails(&["explain", "run/r21"], 1);
    assert!(
        said.contains("did you mean \"r12\"?") && said.contains("krt ls -n default"),
        "{said}"
    );
}

#[test]
fn c_60_s_166_a_waiting_run_is_explained_recorded_and_replayed_offline() {
    let person = Person::new();
    let script = person.file("script", "true");
    // A Run that ended shows that the pool reports: before it does, each Run waits for that.
    person.runs("first", "true", &[]);
    person.does(&["run", "--name", "r", "-f", &script, "--request", "runs=99"]);
    person.does(&["wait", "r", "--for", "condition=Scheduled=False"]);
    let told = person.does(&["explain", "r"]);
    for line in [
        "requests runs=99, largest pod offers 4; it will not start without a change",
        "Pods of the Runtime        1     -",
        "running and ready          1     0",
        "that offer enough runs     0     1",
        "TooSmall runs     1  a Runtime Pod of the pool appears or changes",
    ] {
        assert!(told.contains(line), "{line}: {told}");
    }
    let file = person.dir.path().join("r.json");
    let file = file.to_str().unwrap();
    person.does(&["explain", "r", "--record", file]);
    let offline = Person::poor();
    let told = offline.does(&["explain", "replay", file]);
    assert!(told.contains("none of 1 pod fits"), "{told}");
    for expect in [
        "wait:RequestExceedsCapacity",
        "wait",
        "RequestExceedsCapacity",
    ] {
        offline.does(&["explain", "replay", file, "--expect", expect]);
    }
    let said = offline.fails(&["explain", "replay", file, "--expect", "bind"], 1);
    assert!(
        said.contains("the decision is wait:RequestExceedsCapacity, not bind"),
        "{said}"
    );
    let edited = std::fs::read_to_string(file)
        .unwrap()
        .replace("RequestExceedsCapacity", "Other");
    std::fs::write(Path::new(file), edited).unwrap();
    assert!(
        offline
            .fails(&["explain", "replay", file], 1)
            .contains("not the recorded one")
    );
    std::fs::write(Path::new(file), "{}").unwrap();
    offline.fails(&["explain", "replay", file], 3);
    let said = offline.does(&["explain", "--reason", "HeartbeatStale"]);
    assert!(
        said.contains("next: kubectl logs POD -c runtimed -n NAMESPACE"),
        "{said}"
    );
    assert!(
        offline
            .fails(&["explain", "--reason", "HartbeatStale"], 1)
            .contains("HeartbeatStale?")
    );
    assert!(
        offline
            .does(&["explain", "--list"])
            .contains("WorkspaceLost")
    );
}

#[test]
fn c_37_c_38_n_249_runtimes_are_listed_shown_and_scaled() {
    let person = Person::new();
    person.does(&["wait", "rt/bash", "--for", "ready"]);
    let all = person.does(&["rt", "ls"]);
    assert!(all.starts_with("NAME   NAMESPACE   IMAGE   REPLICAS   READY   PORT   AGE\nbash   default     bash    1          1       9091"), "{all}");
    let one = person.does(&["runtime", "get", "bash"]);
    assert!(
        one.contains("Replicas:        1\nReady:           1") && one.contains("runs 0/4"),
        "{one}"
    );
    let structured = person.json(&["rt", "get", "bash"]);
    assert_eq!(structured["status"]["readyReplicas"], 1);
    person.does(&["rt", "scale", "bash", "--replicas", "2"]);
    assert_eq!(person.json(&["rt", "get", "bash"])["spec"]["replicas"], 2);
}

pub(crate) const GREET: &str = "\
apiVersion: kruntimes.io/v1alpha1
kind: Workflow
metadata: {name: greet}
spec:
  inputs: {who: {required: true}}
  jobs:
    say:
      runs-on: bash
      outputs: {text: '${{ steps.it.outputs.text }}'}
      steps:
      - {name: it, run: 'echo \"text=hello ${{ inputs.who }}\" >> $KRUNTIME_OUTPUTS'}
";

#[test]
fn c_41_c_42_w_152_a_workflow_is_stored_shown_triggered_and_deleted() {
    let person = Person::new();
    let file = person.file("greet.yaml", GREET);
    assert_eq!(person.does(&["wf", "create", "-f", &file]), "greet\n");
    person.does(&["wait", "wf/greet", "--for", "ready"]);
    let all = person.does(&["wf", "ls"]);
    assert!(
        all.starts_with("NAME    NAMESPACE   READY   AGE\ngreet   default     True"),
        "{all}"
    );
    let one = person.does(&["workflow", "get", "greet"]);
    assert!(
        one.contains("Inputs:          1") && one.contains("runs-on bash, 1 step"),
        "{one}"
    );
    let said = person.fails(&["wf", "trigger", "greet"], 3);
    assert!(said.contains("missing required input \"who\""), "{said}");
    let said = person.fails(
        &[
            "wf", "trigger", "greet", "--input", "whom=x", "--set", "who=y",
        ],
        3,
    );
    assert!(said.contains("\"whom\""), "{said}");
    let call = "apiVersion: kruntimes.io/v1alpha1\nkind: Workflow\nmetadata: {name: caller}\nspec: {jobs: {a: {uses: nobody}}}\n";
    let call = person.file("call.yaml", call);
    person.does(&["wf", "create", "-f", &call]);
    let said = person.fails(&["wf", "trigger", "caller"], 3);
    assert!(said.contains("nobody"), "{said}");
    let words = [
        "wf",
        "trigger",
        "greet",
        "--input",
        "who=world",
        "--wait",
        "-o",
        "name",
    ];
    let name = person.does(&words);
    let name = name
        .trim()
        .strip_prefix("workflowrun.kruntimes.io/")
        .unwrap();
    assert!(name.starts_with("greet-"), "{name}");
    let run = person.json(&["wf", "run", "get", name]);
    assert_eq!(
        run["status"]["jobs"]["say"]["outputs"]["text"],
        "hello world"
    );
    assert_eq!(
        person.does(&["wf", "delete", "greet"]),
        "workflow.kruntimes.io/greet deleted\n"
    );
    let said = person.fails(&["wf", "get", "greet"], 1);
    assert!(said.contains("see `krt wf ls -n default`"), "{said}");
    let all = person.does(&["wf", "run", "ls"]);
    let header: Vec<&str> = all.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(header, ["NAME", "NAMESPACE", "PHASE", "JOBS", "AGE"]);
    let yaml = person.does(&["wf", "run", "get", name, "-o", "yaml"]);
    assert!(yaml.contains("kind: WorkflowRun\n"), "{yaml}");
}

#[test]
fn c_43_c_44_w_150_a_workflow_run_is_created_listed_cancelled_and_deleted() {
    let person = Person::new();
    let fifo = person.dir.path().join("fifo");
    drop(pipe(&fifo));
    let jobs = |script: &str| {
        format!("    one:\n      runs-on: bash\n      steps: [{{name: it, run: '{script}'}}]\n")
    };
    let wait = jobs(&format!("read line < {}", fifo.display()));
    let file = person.file("long.yaml", &workflow_run("long", &wait));
    assert_eq!(person.does(&["wf", "run", "-f", &file]), "long\n");
    let all = person.does(&["wf", "run", "ls"]);
    assert!(all.starts_with("NAME   NAMESPACE   PHASE"), "{all}");
    person.does(&["wait", "wfr/long", "--for", "phase=running"]);
    person.does(&["wf", "run", "cancel", "long", "--wait"]);
    let again = person.try_do(&["wf", "run", "cancel", "long"]);
    assert!(text(&again.stderr).contains("has ended already (Cancelled)"));
    let file = person.file("bad.yaml", &workflow_run("bad", &jobs("exit 1")));
    let said = person.fails(&["wf", "run", "-f", &file, "--wait"], 10);
    assert!(said.contains("krt: bad is Failed"), "{said}");
    let told = person.does(&["explain", "wfr/bad"]);
    let first = "WorkflowRun default/bad is Failed (";
    assert!(
        told.starts_with(first) && told.contains("job one failed at step it (Failed)"),
        "{told}"
    );
    let said = person.fails(&["wf", "run", "-f", &file], 1);
    assert!(said.contains("already exists"), "{said}");
    let broken = person.file(
        "broken.yaml",
        &workflow_run("x", "    one: {runs-om: bash}\n"),
    );
    let said = person.fails(&["wf", "run", "-f", &broken], 3);
    assert!(
        said.contains("runs-on") && said.contains("broken.yaml"),
        "{said}"
    );
    let greet = person.file("greet.yaml", GREET);
    let said = person.fails(&["wf", "run", "-f", &greet], 3);
    assert!(said.contains("krt wf trigger"), "{said}");
    let deleted = person.does(&["wf", "run", "delete", "bad", "long"]);
    assert_eq!(deleted.lines().count(), 2);
    for words in [&["wf", "run"][..], &["wf", "create"]] {
        let said = person.fails(words, 2);
        assert!(said.contains("--file"), "{words:?}: {said}");
    }
    person.fails(&["workflowrun", "ls"], 2);
}
