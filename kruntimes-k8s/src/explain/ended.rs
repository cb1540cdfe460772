//! How a Run ended, and why.

use kruntimes_core::api::{RunPhase, RunStatus};
use kruntimes_core::keys::CONDITION_COMPLETED;
use kruntimes_core::limits::{
    OUTPUT_KEY_MAX_BYTES, OUTPUT_VALUE_MAX_BYTES, OUTPUTS_MAX_BYTES, OUTPUTS_MAX_KEYS,
};
use kruntimes_core::resources;
use kruntimes_core::retry::reason;
use kube::ResourceExt as _;

use super::picture::Picture;
use super::words::{attempt, last_line, not_repeated, seconds};
use super::{Confidence, Explanation, registry};

/// Lines of a message that are repeated as evidence.
const TAIL: usize = 5;

/// Explains a Run that is over.
pub(super) fn explain(picture: &Picture) -> Explanation {
    let run = &picture.run;
    let status = run.status.clone().unwrap_or_default();
    let completed = picture.condition(CONDITION_COMPLETED);
    let reason = completed.map_or_else(|| status.phase.to_string(), |one| one.reason.clone());
    let (summary, confidence) = match status.phase {
        RunPhase::Succeeded => (succeeded(&status), Confidence::Certain),
        _ => summary(picture, &status, &reason),
    };
    let mut told = Explanation {
        kind: "Run",
        namespace: run.namespace().unwrap_or_default(),
        name: run.name_any(),
        phase: status.phase.to_string(),
        summary,
        funnel: Vec::new(),
        rejections: Vec::new(),
        evidence: evidence(picture, &status, &reason),
        next: registry::next(&reason, run),
        confidence,
        reason,
    };
    if status.phase != RunPhase::Succeeded {
        told.evidence.push(not_repeated(run, &told.reason));
    }
    told
}

/// How long the last attempt ran, in seconds.
fn ran(status: &RunStatus) -> Option<i64> {
    let (start, end) = (status.start_time?, status.completion_time?);
    Some((end.0.as_second() - start.0.as_second()).max(0))
}

fn succeeded(status: &RunStatus) -> String {
    let ran = ran(status).map_or_else(String::new, |ran| format!(" after {}", seconds(ran)));
    let outputs = status.outputs.len();
    match outputs {
        0 => format!("succeeded{ran}"),
        1 => format!("succeeded{ran} with 1 output"),
        outputs => format!("succeeded{ran} with {outputs} outputs"),
    }
}

fn summary(picture: &Picture, status: &RunStatus, reason: &str) -> (String, Confidence) {
    let message = status.message.as_deref().unwrap_or_default();
    let pod = status.assigned_pod.as_deref().unwrap_or("the pod");
    let certain = |text: String| (text, Confidence::Certain);
    match reason {
        reason::RUNTIME_ERROR => runtime_error(message),
        reason::TIMEOUT => certain(timeout(picture, status)),
        reason::PREPARE_SOURCE => prepare_source(message),
        reason::RUNTIME_EXECUTE => certain(format!(
            "Execute was refused or timed out: {}",
            last_line(message)
        )),
        reason::EXECUTION_LOST => {
            certain("the Runtime Server no longer knew the execution after a restart".to_owned())
        }
        reason::POD_GONE => certain(format!("pod {pod} vanished or was replaced")),
        reason::POD_TERMINATING => certain(format!("pod {pod} was drained: it is being deleted")),
        reason::POD_UNHEALTHY => {
            certain(format!("pod {pod} was not ready for too long: {message}"))
        }
        reason::INVALID_RESOURCES => certain(invalid_resources(picture, message)),
        reason::CANCELLED => {
            let by = if picture.run.spec.cancel_requested {
                "spec.cancelRequested"
            } else if picture.run.spec.termination.is_some() {
                "spec.termination"
            } else {
                "its owner"
            };
            certain(format!("cancelled by {by}"))
        }
        reason::OUTPUTS_INVALID
        | reason::OUTPUTS_TOO_LARGE
        | reason::ARTIFACT_INVALID
        | reason::INVALID_AFFINITY => certain(message.to_owned()),
        _ => {
            let text = if message.is_empty() {
                "there is no message"
            } else {
                message
            };
            let known = registry::entry(reason).is_some();
            let confidence = if known {
                Confidence::Certain
            } else {
                Confidence::Unknown
            };
            (text.to_owned(), confidence)
        }
    }
}

/// What exit codes of shells and signals mean.
const CODES: [(i32, &str); 5] = [
    (126, "the command is not executable"),
    (127, "command not found"),
    (137, "killed (SIGKILL), often for lack of memory"),
    (139, "crashed (SIGSEGV)"),
    (143, "terminated (SIGTERM)"),
];

/// What standard error says when the code is not recorded.
const SIGNS: [(&str, i32); 4] = [
    ("command not found", 127),
    ("Permission denied", 126),
    ("Segmentation fault", 139),
    ("Killed", 137),
];

fn runtime_error(message: &str) -> (String, Confidence) {
    let recorded = message.rsplit_once("exit code ");
    let recorded = recorded.and_then(|(_, code)| code.trim().parse::<i32>().ok());
    let line = last_line(message.trim_start_matches("runtime stderr: "));
    let sign = SIGNS.iter().find(|(sign, _)| line.contains(sign));
    let (code, confidence) = match (recorded, sign) {
        (Some(code), _) => (code, Confidence::Certain),
        (None, Some((_, code))) => (*code, Confidence::Likely),
        (None, None) => return (format!("the process failed: {line}"), Confidence::Certain),
    };
    let meaning = CODES.iter().find(|(known, _)| *known == code);
    let text = match (meaning, recorded) {
        (Some((_, meaning)), Some(_)) => format!("exit {code}: {meaning}"),
        (Some((_, meaning)), None) => format!("exit {code}: {meaning} ({line})"),
        (None, _) => format!("exit {code}"),
    };
    (text, confidence)
}

fn timeout(picture: &Picture, status: &RunStatus) -> String {
    let ran = ran(status).map_or_else(|| "an unknown time".to_owned(), seconds);
    match picture.run.spec.timeout {
        Some(limit) => format!("limit {limit}, ran {ran}"),
        None => format!("ran {ran}; the Run itself has no limit"),
    }
}

fn prepare_source(message: &str) -> (String, Confidence) {
    let text = message.trim_start_matches("prepare source: ");
    let stages = [
        ("git clone:", "clone"),
        ("git checkout:", "checkout"),
        ("write inline:", "write"),
        ("mkdir:", "write"),
    ];
    let stage = stages.iter().find(|(start, _)| text.starts_with(start));
    let stage = stage.map_or("preparation", |(_, stage)| stage);
    let low = text.to_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| low.contains(word));
    let class = if has(&[
        "could not resolve",
        "unable to access",
        "timed out",
        "connection refused",
    ]) {
        " (host not reachable)"
    } else if has(&[
        "authentication",
        "permission denied",
        "could not read username",
    ]) {
        " (no right to read it)"
    } else if has(&[
        "did not match",
        "not our ref",
        "unknown revision",
        "couldn't find remote ref",
    ]) {
        " (no such ref)"
    } else {
        ""
    };
    let confidence = if class.is_empty() {
        Confidence::Certain
    } else {
        Confidence::Likely
    };
    (
        format!("{stage} of the source failed{class}: {}", last_line(text)),
        confidence,
    )
}

fn invalid_resources(picture: &Picture, message: &str) -> String {
    let Err(invalid) = resources::request(&picture.run.spec) else {
        return message.to_owned();
    };
    let stated = picture.run.spec.resources.as_ref();
    let amount = stated.and_then(|stated| stated.requests.get(&invalid.0));
    let amount = amount.map_or_else(String::new, ToString::to_string);
    format!("{}={amount}: {invalid}", invalid.0)
}

fn evidence(picture: &Picture, status: &RunStatus, reason: &str) -> Vec<String> {
    let mut lines = vec![attempt(&picture.run)];
    let created = picture.run.metadata.creation_timestamp.as_ref();
    if let (Some(created), Some(start)) = (created, status.start_time) {
        let queued = seconds(start.0.as_second() - created.0.as_second());
        lines.push(match reason {
            reason::TIMEOUT => format!("waited {queued} before it started, which does not count"),
            _ => format!("waited {queued} before it started"),
        });
    }
    if let (Some(ran), false) = (ran(status), reason == reason::TIMEOUT) {
        lines.push(format!("ran {}", seconds(ran)));
    }
    if let Some(pod) = &status.assigned_pod {
        lines.push(format!("on pod {pod}"));
    }
    match reason {
        reason::OUTPUTS_INVALID | reason::OUTPUTS_TOO_LARGE => lines.push(format!(
            "limits: {OUTPUTS_MAX_KEYS} keys, key {OUTPUT_KEY_MAX_BYTES} B, value {} KiB, total {} KiB",
            OUTPUT_VALUE_MAX_BYTES / 1024,
            OUTPUTS_MAX_BYTES / 1024,
        )),
        reason::ARTIFACT_INVALID => lines.push(
            "limits: 32 artifacts, name 255 B, 1 GiB each, 10 GiB per Run, no links outside".to_owned(),
        ),
        reason::INVALID_RESOURCES => {
            lines.push("linting the manifest finds this before it is submitted (K005)".to_owned());
        }
        _ => {}
    }
    let message = status.message.as_deref().unwrap_or_default();
    if message.contains("Read-only file system") {
        lines.push("root file system is read-only; use $TMPDIR".to_owned());
    }
    let said: Vec<&str> = message
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    let tail = said.len().saturating_sub(TAIL);
    lines.extend(
        said[tail..]
            .iter()
            .map(|line| format!("message: {}", line.trim_end())),
    );
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c_160_exit_codes_are_explained_and_guessed_from_standard_error() {
        use Confidence::{Certain, Likely};
        for (message, want, confidence) in [
            (
                "runtime execution failed with exit code 127",
                "exit 127: command not found",
                Certain,
            ),
            (
                "runtime execution failed with exit code 3",
                "exit 3",
                Certain,
            ),
            (
                "runtime stderr: a\nscript: line 1: foo: command not found",
                "exit 127: command not found (script: line 1: foo: command not found)",
                Likely,
            ),
            ("runtime stderr: a\nb\n", "the process failed: b", Certain),
        ] {
            assert_eq!(
                runtime_error(message),
                (want.to_owned(), confidence),
                "{message}"
            );
        }
    }

    #[test]
    fn c_160_a_source_that_cannot_be_had_names_stage_and_class() {
        for (message, want) in [
            (
                "git clone: x\nfatal: unable to access 'https://h/': Could not resolve host: h",
                "clone of the source failed (host not reachable): fatal: unable to access 'https://h/': Could not resolve host: h",
            ),
            (
                "git checkout: error: pathspec 'v9' did not match any file",
                "checkout of the source failed (no such ref): git checkout: error: pathspec 'v9' did not match any file",
            ),
            (
                "prepare source: no script or args provided",
                "preparation of the source failed: no script or args provided",
            ),
        ] {
            assert_eq!(prepare_source(message).0, want);
        }
    }
}
