//! The tests to run, and running them through cargo.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Stdio;

use tokio::process::Command;

use super::process::Process;
use super::{Error, say};
use crate::root;

/// Module with tests that a real control plane can be given to, in the integration binary of a package.
const MODULE: &str = "real::";
/// Variable in which they find the kubeconfig.
const KUBECONFIG: &str = "KRUNTIMES_E2E_KUBECONFIG";
/// Tests at once. They mostly wait for the control plane, not for a processor.
const AT_ONCE: &str = "8";

/// Compiles the tests.
///
/// # Errors
///
/// Fails when they do not compile; cargo has said why.
pub(super) async fn compile() -> Result<(), Error> {
    say("compiling the tests");
    let mut cargo = cargo(&["--no-run"]);
    finished(&mut cargo).await
}

/// Runs all tests, or those with `only` in their names.
///
/// # Errors
///
/// Fails when no test is chosen or one does not pass; cargo has said which.
pub(super) async fn run(kubeconfig: &Path, only: Option<&str>) -> Result<(), Error> {
    let chosen = match only {
        None => vec![MODULE.to_owned()],
        Some(only) => {
            let names = chosen(&listed().await?, only);
            if names.is_empty() {
                return Err(Error::NothingChosen(only.to_owned()));
            }
            let exactly = std::iter::once("--exact".to_owned());
            exactly.chain(names).collect()
        }
    };
    say("running the tests against it");
    let mut cargo = cargo(&["--no-fail-fast", "--"]);
    cargo.args(["--test-threads", AT_ONCE]).args(chosen);
    finished(cargo.env(KUBECONFIG, kubeconfig)).await
}

/// Runs cargo to an end that must be a good one.
async fn finished(cargo: &mut Command) -> Result<(), Error> {
    let status = Process::start(cargo)?.wait().await?;
    if status.success() {
        Ok(())
    } else {
        Err(Error::Tests(status.to_string()))
    }
}

/// `cargo test` of the integration binaries, with more words.
///
/// Of the whole workspace, though few packages have such tests: with a part of it cargo would choose other
/// features for what they depend on, and compile all of that a second time. So it would with what the outer
/// cargo tells this program about its package: build scripts watch variables of those names.
fn cargo(more: &[&str]) -> Command {
    let mut cargo = Command::new(env!("CARGO"));
    for (name, _) in std::env::vars_os().filter(|(name, _)| is_about_us(name)) {
        cargo.env_remove(name);
    }
    cargo.args(["test", "--workspace", "--locked", "--test", "it"]);
    cargo.args(more).current_dir(root::path());
    cargo
}

/// Tells whether a variable describes the package that `cargo run` runs.
fn is_about_us(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    name.starts_with(b"CARGO_PKG_") || name.starts_with(b"CARGO_MANIFEST_")
}

/// What the test binaries list.
async fn listed() -> Result<String, Error> {
    let mut cargo = cargo(&["--", "--list", "--format", "terse", MODULE]);
    let mut process = Process::start(cargo.stdout(Stdio::piped()))?;
    let (status, listed) = process.said().await?;
    if status.success() {
        Ok(listed)
    } else {
        Err(Error::Tests(status.to_string()))
    }
}

/// Names of the tests that contain `only`, from lines like `real::name: test`.
fn chosen(listed: &str, only: &str) -> Vec<String> {
    let names = listed
        .lines()
        .filter_map(|line| line.strip_suffix(": test"));
    let of_module = names.filter(|name| name.starts_with(MODULE) && name.contains(only));
    of_module.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_chosen_by_a_part_of_them() {
        let listed = "real::a_watch_ends: test\nreal::b: test\nembedded::a_watch: test\n\n";
        assert_eq!(chosen(listed, "watch"), ["real::a_watch_ends"]);
        assert!(chosen(listed, "nothing").is_empty());
    }
}
