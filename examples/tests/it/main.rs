//! The examples print what their headers say.

use std::process::Command;

#[test]
fn hello_run_prints_its_greeting() {
    let output = Command::new(env!("CARGO_BIN_EXE_hello_run"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "hello from kruntimes\n"
    );
}

#[test]
fn own_scheduler_follows_its_own_filter_and_scorer() {
    let output = Command::new(env!("CARGO_BIN_EXE_own_scheduler"))
        .arg("demo")
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "build goes to large-warm\n"
    );
}

#[test]
fn sqlite_runtime_runs_sql_through_the_engine() {
    let output = Command::new(env!("CARGO_BIN_EXE_sqlite_runtime"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "answer\t42\n{\"answer\":\"42\"}\n"
    );
}

/// The step that kills the program runs twice, everything that had finished once.
#[test]
fn w_185_workflow_alone_goes_on_after_it_was_killed() {
    use std::os::unix::process::ExitStatusExt as _;

    let directory = tempfile::tempdir().unwrap();
    let run = || {
        Command::new(env!("CARGO_BIN_EXE_workflow_alone"))
            .arg(directory.path())
            .output()
            .unwrap()
    };
    let killed = run();
    assert_eq!(killed.status.signal(), Some(9), "{killed:?}");
    assert_eq!(killed.stdout, b"");
    let done = run();
    assert!(done.status.success(), "{done:?}");
    assert_eq!(
        String::from_utf8_lossy(&done.stdout),
        "greeting = hello, world, after a crash\n"
    );
    let steps = std::fs::read_to_string(directory.path().join("steps.log")).unwrap();
    assert_eq!(steps, "write\ncrash\ncrash\nsay\n");
    // A third start finds everything done.
    assert_eq!(run().stdout, done.stdout);
    assert_eq!(
        std::fs::read_to_string(directory.path().join("steps.log")).unwrap(),
        steps
    );
}

/// W-185: one crate is enough, in fewer than 150 lines.
#[test]
fn w_185_workflow_alone_names_no_other_crate() {
    let text = include_str!("../../workflow_alone.rs");
    assert!(text.lines().count() < 150);
    let foreign = [
        "kube",
        "k8s_openapi",
        "tokio",
        "kruntimes_core",
        "kruntimes_k8s",
        "serde",
    ];
    for line in text.lines().filter(|line| line.starts_with("use ")) {
        assert!(!foreign.iter().any(|name| line.contains(name)), "{line}");
    }
}
