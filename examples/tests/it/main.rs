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
