//! Repository rules and generators, as ordinary Rust.

mod api;
mod arrows;
mod crds;
mod e2e;
mod items;
mod moon;
mod planted;
mod proto;
mod root;
mod simulate;
mod tidy;

use std::error::Error;
use std::io::{self, Write as _};
use std::process::ExitCode;

/// The commands and what they do, in the order of the help text.
const COMMANDS: [(&str, &str); 10] = [
    ("api [--check]", "list the public items of the pure crates"),
    ("arrows", "compare the dependencies with the allowed arrows"),
    ("crds [--check]", "write the CRD files of the chart"),
    (
        "e2e [options]",
        "run the tests that compare with Kubernetes on a real control plane",
    ),
    (
        "items [lists]",
        "list the items of the specification and the tests that name them",
    ),
    (
        "moon [goals]",
        "measure the goals of performance against their floors",
    ),
    (
        "planted [names]",
        "try the planted bugs, or with --check whether they apply",
    ),
    ("proto [--check]", "write the protocol stubs"),
    (
        "simulate",
        "run the simulation, or with --nightly the size of a night",
    ),
    ("tidy", "check the house rules that no compiler knows"),
];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let end: Result<(), Box<dyn Error>> = match words.as_slice() {
        ["api", rest @ ..] if is_check(rest) => api::run(!rest.is_empty()).map_err(Into::into),
        ["arrows"] => arrows::run().map_err(Into::into),
        ["crds", rest @ ..] if is_check(rest) => crds::run(!rest.is_empty()).map_err(Into::into),
        ["e2e", rest @ ..] => return e2e::command(rest),
        ["items", words @ ..] => items::run(words).map_err(Into::into),
        ["moon", goals @ ..] => moon::run(goals).map_err(Into::into),
        ["planted", rest @ ..] => planted::run(rest).map_err(Into::into),
        ["proto", rest @ ..] if is_check(rest) => proto::run(!rest.is_empty()).map_err(Into::into),
        ["simulate"] => simulate::run(false).map_err(Into::into),
        ["simulate", "--nightly"] => simulate::run(true).map_err(Into::into),
        ["tidy"] => tidy::run().map_err(Into::into),
        ["help" | "-h" | "--help"] => {
            let _ = io::stdout().write_all(help().as_bytes());
            return ExitCode::SUCCESS;
        }
        _ => {
            let _ = io::stderr().write_all(help().as_bytes());
            return ExitCode::from(2);
        }
    };
    match end {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "error: {}", chain(error.as_ref()));
            ExitCode::FAILURE
        }
    }
}

/// Nothing, or only `--check`.
fn is_check(rest: &[&str]) -> bool {
    matches!(rest, [] | ["--check"])
}

fn help() -> String {
    let lines = COMMANDS.map(|(command, what)| format!("  {command:<18}{what}\n"));
    format!("usage: cargo xtask <command>\n\n{}", lines.concat())
}

/// The error and its causes on one line.
fn chain(error: &(dyn Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |error| (*error).source());
    let texts: Vec<String> = causes.map(ToString::to_string).collect();
    texts.join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_lists_every_command() {
        for name in [
            "api", "arrows", "crds", "e2e", "items", "moon", "planted", "proto", "simulate", "tidy",
        ] {
            assert!(help().contains(&format!("\n  {name}")), "{name}");
        }
    }

    #[test]
    fn only_check_may_follow_a_generator() {
        assert!(is_check(&[]));
        assert!(is_check(&["--check"]));
        assert!(!is_check(&["--chekc"]));
        assert!(!is_check(&["--check", "--check"]));
    }
}
