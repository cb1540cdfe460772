//! `krt explain replay`: decides a recorded cycle again, offline, and compares (S-166).

use std::path::Path;

use kruntimes_k8s::explain::Options;
use kruntimes_sched::{Action, Decision, Recording, explain};

use super::problem::Problem;
use crate::exit::Exit;
use crate::{file, say};

/// Replays a file; `expect` is what is to be decided, else what was recorded is.
pub(super) fn run(path: &Path, expect: Option<&str>, options: &Options) -> Result<Exit, Problem> {
    let (name, text) = file::read(path)
        .map_err(|error| Problem::of(&error, "check the path, or use `-` for standard input"))?;
    let recording: Recording = serde_json::from_str(&text).map_err(|error| {
        let text = format!("krt: {name} is no recorded decision: {error}");
        Problem::new(text, "write one with `krt explain NAME --record FILE`").exit(Exit::Refused)
    })?;
    let profile = options
        .profile()
        .map_err(|error| Problem::of(&error, "this is a defect of krt"))?;
    let decision = recording.replay(&profile);
    say::data(&explain(&decision, &profile).to_string());
    let short = short(&decision);
    let Some(expect) = expect else {
        return match recording.check(&profile) {
            Ok(()) => Ok(Exit::Done),
            Err(differs) => {
                let text = format!(
                    "krt: {differs}: now it is {short}, recorded was {}",
                    differs.recorded["action"]
                );
                Err(Problem::new(
                    text,
                    "the recorder used another version, other plugins or another heartbeat limit",
                ))
            }
        };
    };
    if short == expect
        || short
            .split_once(':')
            .is_some_and(|(kind, what)| kind == expect || what == expect)
    {
        return Ok(Exit::Done);
    }
    let text = format!("krt: the decision is {short}, not {expect}");
    Err(Problem::new(text, "see the explanation above"))
}

/// `bind:POD`, `wait:REASON`, `fail:REASON` or `retry`.
fn short(decision: &Decision) -> String {
    match &decision.action {
        Action::Bind { pod, .. } => format!("bind:{pod}"),
        Action::Wait { condition, .. } => format!("wait:{condition}"),
        Action::Fail { reason, .. } => format!("fail:{reason}"),
        Action::Retry { .. } => "retry".to_owned(),
    }
}
