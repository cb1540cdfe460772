//! What failed, so that nobody has to scroll for it (C-53).

use std::fmt::Write as _;

use kruntimes_embedded::Failure;

use crate::paint::Paint;

/// Renders the steps that did not succeed; `name` turns a place into its name.
pub(crate) fn render(
    failures: &[Failure],
    name: impl Fn(&Failure) -> String,
    paint: Paint,
) -> String {
    let mut out = String::new();
    for failure in failures {
        let glyph = paint.glyph(failure.phase);
        let head = format!("{glyph} {} {}", name(failure), failure.phase);
        let _ = write!(out, "{}", paint.phase(failure.phase, &head));
        if let Some(reason) = &failure.reason {
            let _ = write!(out, ", reason {reason}");
        }
        if let Some(code) = failure.exit_code {
            let _ = write!(out, ", exit code {code}");
        }
        out.push('\n');
        if let Some(message) = failure
            .message
            .as_ref()
            .filter(|said| !repeats(failure, said))
        {
            for line in message.lines() {
                let _ = writeln!(out, "  {line}");
            }
        }
        if failure.stderr_tail.is_empty() {
            continue;
        }
        let count = failure.stderr_tail.len();
        let lines = if count == 1 { "line" } else { "lines" };
        let title = format!("  last {count} {lines} of its standard error:");
        let _ = writeln!(out, "{}", paint.faint(&title));
        let bar = if paint.ascii { "|" } else { "│" };
        for line in &failure.stderr_tail {
            let _ = writeln!(out, "  {} {line}", paint.faint(bar));
        }
    }
    out
}

/// Tells whether a message only says again what the end of the output says.
fn repeats(failure: &Failure, message: &str) -> bool {
    let last = failure.stderr_tail.last().map(|line| line.trim());
    last.is_some_and(|last| !last.is_empty() && message.trim_end().ends_with(last))
}

#[cfg(test)]
mod tests {
    use kruntimes_embedded::StepPath;

    use super::*;

    #[test]
    fn c_53_a_failing_step_shows_reason_exit_code_and_the_end_of_its_stderr() {
        let failures = [
            Failure {
                path: StepPath::step("test", "unit"),
                phase: "Failed",
                reason: Some("ExitCode".into()),
                message: Some("process exited with code 3".into()),
                exit_code: Some(3),
                stderr_tail: vec!["assertion failed: 1 + 1".into(), "abort".into()],
            },
            Failure {
                path: StepPath::step("lint", "style"),
                phase: "Cancelled",
                reason: None,
                message: None,
                exit_code: None,
                stderr_tail: Vec::new(),
            },
            Failure {
                path: StepPath::step("docs", "write"),
                phase: "Failed",
                reason: None,
                message: Some("runtime stderr: no paper".into()),
                exit_code: None,
                stderr_tail: vec!["no paper".into()],
            },
        ];
        let name = |failure: &Failure| failure.path.to_string();
        insta::assert_snapshot!(render(&failures, name, Paint::default()), @r"
        ✘ test/unit Failed, reason ExitCode, exit code 3
          process exited with code 3
          last 2 lines of its standard error:
          │ assertion failed: 1 + 1
          │ abort
        ■ lint/style Cancelled
        ✘ docs/write Failed
          last 1 line of its standard error:
          │ no paper
        ");
    }
}
