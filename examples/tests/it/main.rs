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
