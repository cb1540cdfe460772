//! Progress as lines: one per transition (C-51), and output with its step in front (C-54).

use kruntimes_embedded::Progress;

use crate::elapsed::compact;
use crate::paint::Paint;

/// Renders a transition: `<RFC3339> <path> <old>→<new> <duration> <reason>`.
///
/// `before` is the phase known so far, for what is seen for the first time; that
/// something exists and has not begun is no transition.
pub(crate) fn transition(
    path: &str,
    before: &str,
    progress: &Progress,
    paint: Paint,
) -> Option<String> {
    let Progress::Transition {
        from,
        to,
        at,
        took,
        reason,
        ..
    } = progress
    else {
        return None;
    };
    let from = from.unwrap_or(before);
    if from == *to {
        return None;
    }
    let took = took.map_or_else(|| "-".to_owned(), compact);
    let mut line = format!(
        "{} {} {from}{}{} {took}",
        paint.faint(&format!("{at:.3}")),
        paint.strong(path),
        paint.arrow(),
        paint.phase(to, to),
    );
    if let Some(reason) = reason {
        line.push(' ');
        line.push_str(reason);
    }
    Some(line)
}

/// Renders a line of output.
pub(crate) fn output(path: &str, line: &str, paint: Paint) -> String {
    format!("{} {line}", paint.faint(&format!("[{path}]")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::board::Board;
    use crate::board::tests::{demo, story};

    #[test]
    fn c_51_every_transition_is_one_line() {
        let board = Board::new(&[demo()]);
        let paint = Paint::default();
        let lines: Vec<String> = story()
            .iter()
            .filter_map(|(_, progress)| match progress {
                Progress::Transition { path, .. } => {
                    transition(&board.path(0, path), board.phase(0, path), progress, paint)
                }
                Progress::Output { path, line, .. } => {
                    Some(output(&board.path(0, path), line, paint))
                }
                Progress::Ended(_) => None,
            })
            .collect();
        insta::assert_snapshot!(lines.join("\n"));
    }

    #[test]
    fn c_10_lines_can_be_ascii() {
        let paint = Paint {
            color: false,
            ascii: true,
        };
        let lines = story();
        let lines = lines
            .iter()
            .filter_map(|(_, p)| transition("p", "-", p, paint));
        assert!(
            lines
                .fold(String::new(), |all, line| all + &line)
                .is_ascii()
        );
    }
}
