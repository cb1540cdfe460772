//! The Python and JavaScript client libraries against the listener.
//!
//! The libraries are installed below the target directory the first time. Where the interpreter is missing or the
//! library cannot be had, a line says so and the test ends there; with `CI=true` the latter is a failure.

use std::{
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::Output,
};

use tokio::process::Command;

use crate::listener::Served;

/// The scripts and what they need.
const SCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients");
/// Where libraries are installed, apart from each other and from those of other versions.
const INSTALLED: &str = env!("CARGO_TARGET_TMPDIR");

async fn run(
    program: impl AsRef<Path>,
    arguments: &[&str],
    directory: &Path,
) -> io::Result<Output> {
    let mut command = Command::new(program.as_ref());
    command.args(arguments).current_dir(directory);
    // Programs of the tests talk to loopback addresses only, and never through a proxy.
    command.env("NO_PROXY", "127.0.0.1,localhost");
    command.kill_on_drop(true).output().await
}

fn skip(why: &str) {
    let _ = writeln!(io::stderr(), "skipped: {why}");
}

/// Whether an interpreter is there.
async fn is_there(program: &str) -> bool {
    let there = run(program, &["--version"], Path::new(".")).await;
    let there = there.is_ok_and(|output| output.status.success());
    if !there {
        skip(&format!("there is no {program} in PATH"));
    }
    there
}

/// Installs a library by some commands, unless that has been done before; none when it cannot be had.
async fn installed(name: &str, files: &[&str], commands: &[(&str, &[&str])]) -> Option<PathBuf> {
    let directory = Path::new(INSTALLED).join(name);
    let wanted: Vec<String> = files
        .iter()
        .map(|file| fs::read_to_string(Path::new(SCRIPTS).join(file)).unwrap())
        .collect();
    // What was installed is written last, so that half an installation is none.
    let mark = directory.join("installed");
    if fs::read_to_string(&mark).is_ok_and(|text| text == wanted.concat()) {
        return Some(directory);
    }
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).unwrap();
    for (file, text) in files.iter().zip(&wanted) {
        fs::write(directory.join(file), text).unwrap();
    }
    for (program, arguments) in commands {
        let program = if program.contains('/') {
            directory.join(program)
        } else {
            PathBuf::from(program)
        };
        let output = run(&program, arguments, &directory).await;
        let told = match output {
            Ok(output) if output.status.success() => continue,
            Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
            Err(error) => error.to_string(),
        };
        let why = format!("the {name} client cannot be installed: {}", told.trim());
        assert!(std::env::var("CI").as_deref() != Ok("true"), "{why}");
        skip(&why);
        return None;
    }
    fs::write(mark, wanted.concat()).unwrap();
    Some(directory)
}

/// Runs a script against a server of its own; it prints `held` when all went well.
async fn holds(program: PathBuf, script: &Path, directory: &Path) {
    let served = Served::start().await;
    let script = script.to_str().unwrap();
    let kubeconfig = served.kubeconfig.to_str().unwrap();
    let output = run(program, &[script, kubeconfig], directory)
        .await
        .unwrap();
    let (told, complaints) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert_eq!(told.trim(), "held", "{complaints}");
    served.stop().await;
}

#[tokio::test]
async fn the_python_client_feels_at_home() {
    if !is_there("python3").await {
        return;
    }
    let install: &[(&str, &[&str])] = &[
        ("python3", &["-m", "venv", "venv"]),
        (
            "venv/bin/python",
            &[
                "-m",
                "pip",
                "install",
                "--quiet",
                "--no-deps",
                "-r",
                "requirements.txt",
            ],
        ),
    ];
    let Some(directory) = installed("python", &["requirements.txt"], install).await else {
        return;
    };
    let python = directory.join("venv/bin/python");
    let script = Path::new(SCRIPTS).join("widgets.py");
    holds(python, &script, &directory).await;
}

#[tokio::test]
async fn the_javascript_client_feels_at_home() {
    if !is_there("node").await || !is_there("npm").await {
        return;
    }
    let files = ["package.json", "package-lock.json", "widgets.mjs"];
    let install: &[(&str, &[&str])] = &[("npm", &["ci", "--no-audit", "--no-fund"])];
    let Some(directory) = installed("javascript", &files, install).await else {
        return;
    };
    // Modules are looked for beside the script.
    let script = directory.join("widgets.mjs");
    holds(PathBuf::from("node"), &script, &directory).await;
}
