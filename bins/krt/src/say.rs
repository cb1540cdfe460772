//! Text of commands without a screen: data to standard output, everything else to standard error (C-9).

use std::error::Error;
use std::io::Write as _;

/// Writes data. Nobody reads on is no reason to stop.
pub(crate) fn data(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{}", text.trim_end_matches('\n'));
    let _ = out.flush();
}

/// Writes a notice or a problem.
pub(crate) fn notice(text: &str) {
    let mut err = std::io::stderr().lock();
    let _ = writeln!(err, "{}", text.trim_end_matches('\n'));
}

/// Says what failed, why, and what to do next (C-15).
pub(crate) fn problem(error: &dyn Error, next: &str) -> String {
    let mut said = format!("krt: {error}");
    let mut cause = error.source();
    while let Some(error) = cause {
        said = format!("{said}: {error}");
        cause = error.source();
    }
    format!("{said}\n  {next}")
}
