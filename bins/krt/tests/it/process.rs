//! Running the binary.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// The binary with no wishes in its environment.
pub(crate) fn krt(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_krt"));
    command
        .args(words)
        .env_remove("NO_COLOR")
        .env_remove("KRT_LOG");
    command
}

/// An example of the repository.
pub(crate) fn example(name: &str) -> String {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let path = root.join("examples/workflows").join(name);
    path.to_str().unwrap().to_owned()
}

/// Runs a text as a file from standard input.
pub(crate) fn run_text(text: &str, words: &[&str]) -> Output {
    let words = [&["local", "run", "-"], words].concat();
    let mut child = krt(&words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(text.as_bytes()).unwrap();
    drop(input);
    child.wait_with_output().unwrap()
}

/// The one JSON document of standard output.
pub(crate) fn object(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", text(&output.stdout)))
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The phases of jobs and steps: `build Succeeded [compile Succeeded]`, sorted by job.
pub(crate) fn phases(object: &Value) -> Vec<String> {
    let jobs = object["status"]["jobs"].as_object().unwrap();
    let phase = |value: &Value| value["phase"].as_str().unwrap_or("-").to_owned();
    let lines = jobs.iter().map(|(name, job)| {
        let steps = job["steps"].as_array().into_iter().flatten();
        let steps = steps.map(|step| {
            let name = step["name"].as_str().unwrap();
            format!("{name} {}", phase(step))
        });
        let steps: Vec<String> = steps.collect();
        format!("{name} {} [{}]", phase(job), steps.join(", "))
    });
    lines.collect()
}

/// A WorkflowRun around jobs.
pub(crate) fn workflow_run(name: &str, jobs: &str) -> String {
    format!(
        "apiVersion: kruntimes.io/v1alpha1\nkind: WorkflowRun\nmetadata: {{name: {name}}}\nspec:\n  jobs:\n{jobs}"
    )
}

/// A Run around a script.
pub(crate) fn run(name: &str, rest: &str, script: &str) -> String {
    let script = script.replace('\n', "\n      ");
    format!(
        "apiVersion: kruntimes.io/v1alpha1\nkind: Run\nmetadata: {{name: {name}}}\nspec:\n  \
         runtime: bash\n  mode: {{task: {{}}}}\n{rest}  source:\n    inline: |\n      {script}\n"
    )
}
