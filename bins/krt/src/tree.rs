//! The live tree: one frame of jobs and steps that fits the terminal (C-48, C-50).

use std::time::Duration;

use crate::board::{Board, Item, is_settled, is_unsuccessful};
use crate::elapsed::compact;
use crate::paint::Paint;

/// Columns that a phase takes.
const PHASE_WIDTH: usize = 9;
/// Columns that names may take before durations move to the right.
const NAME_WIDTH: usize = 28;

/// Room for a frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    pub(crate) rows: usize,
    pub(crate) columns: usize,
}

/// How much is left out, each level more than the one before. Failing rows are never left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fold {
    Nothing,
    /// Steps of finished jobs.
    FinishedSteps,
    /// Jobs that have not begun, but for their number.
    WaitingJobs,
    /// Finished jobs, but for their number.
    FinishedJobs,
    /// Steps that are not running.
    IdleSteps,
}

const FOLDS: [Fold; 5] = [
    Fold::Nothing,
    Fold::FinishedSteps,
    Fold::WaitingJobs,
    Fold::FinishedJobs,
    Fold::IdleSteps,
];

/// One line before it is cut and coloured.
struct Row<'a> {
    indent: String,
    kind: RowKind<'a>,
}

enum RowKind<'a> {
    Item(&'a Item),
    Count(usize, &'static str),
}

impl Row<'_> {
    fn must_stay(&self) -> bool {
        match self.kind {
            RowKind::Item(item) => is_unsuccessful(item.phase) || item.phase == "Running",
            RowKind::Count(..) => true,
        }
    }
}

/// Renders everything, folded until it fits.
pub(crate) fn frame(board: &Board, now: Duration, room: Room, paint: Paint) -> String {
    let mut rows = Vec::new();
    for fold in FOLDS {
        rows = board
            .targets
            .iter()
            .flat_map(|target| target_rows(target, fold, paint))
            .collect();
        if rows.len() <= room.rows {
            break;
        }
    }
    let mut left_out = 0;
    while rows.len() + usize::from(left_out > 0) > room.rows {
        // Rows that matter go last, and then from the end.
        let Some(index) = rows.iter().rposition(|row| !row.must_stay()).or_else(|| {
            let healthy = |row: &Row<'_>| match row.kind {
                RowKind::Item(item) => !is_unsuccessful(item.phase),
                RowKind::Count(..) => true,
            };
            rows.iter().rposition(healthy)
        }) else {
            break;
        };
        rows.remove(index);
        left_out += 1;
    }
    let mut lines: Vec<String> = rows
        .iter()
        .map(|row| line(row, now, room.columns, paint))
        .collect();
    if left_out > 0 {
        lines.push(paint.faint(&format!("{} {left_out} more rows", paint.ellipsis())));
    }
    lines.join("\n")
}

fn target_rows(target: &Item, fold: Fold, paint: Paint) -> Vec<Row<'_>> {
    let mut rows = vec![Row {
        indent: String::new(),
        kind: RowKind::Item(target),
    }];
    let (mut members, mut waiting, mut finished) = (Vec::new(), 0, 0);
    for job in &target.items {
        let has_begun = job.started.is_some() || is_settled(job.phase);
        let is_fine = is_settled(job.phase) && !is_unsuccessful(job.phase);
        if fold >= Fold::WaitingJobs && !has_begun {
            waiting += 1;
        } else if fold >= Fold::FinishedJobs && is_fine {
            finished += 1;
        } else {
            members.push(RowKind::Item(job));
        }
    }
    if finished > 0 {
        members.push(RowKind::Count(finished, "finished"));
    }
    if waiting > 0 {
        members.push(RowKind::Count(waiting, "waiting"));
    }
    nest(&mut rows, "", members, fold, paint);
    rows
}

fn nest<'a>(
    rows: &mut Vec<Row<'a>>,
    indent: &str,
    members: Vec<RowKind<'a>>,
    fold: Fold,
    paint: Paint,
) {
    let [middle, last, through, blank] = paint.branches();
    let count = members.len();
    for (index, kind) in members.into_iter().enumerate() {
        let is_last = index + 1 == count;
        let inner = match kind {
            RowKind::Item(item) => shown_members(item, fold),
            RowKind::Count(..) => Vec::new(),
        };
        rows.push(Row {
            indent: format!("{indent}{}", if is_last { last } else { middle }),
            kind,
        });
        let indent = format!("{indent}{}", if is_last { blank } else { through });
        nest(rows, &indent, inner, fold, paint);
    }
}

fn shown_members(item: &Item, fold: Fold) -> Vec<RowKind<'_>> {
    let is_fine = is_settled(item.phase) && !is_unsuccessful(item.phase);
    // The steps of a skipped job say nothing that the job does not say.
    if item.phase == "Skipped" || (fold >= Fold::FinishedSteps && is_fine) {
        return Vec::new();
    }
    let idle = |step: &Item| step.phase != "Running" && !is_unsuccessful(step.phase);
    item.items
        .iter()
        .filter(|step| fold < Fold::IdleSteps || !idle(step))
        .map(RowKind::Item)
        .collect()
}

fn line(row: &Row<'_>, now: Duration, columns: usize, paint: Paint) -> String {
    let item = match row.kind {
        RowKind::Count(count, what) => {
            let jobs = if count == 1 { "job" } else { "jobs" };
            let text = format!("{}{count} {jobs} {what}", row.indent);
            return paint.faint(&cut(&text, columns, paint));
        }
        RowKind::Item(item) => item,
    };
    let phase = format!("{} {:<PHASE_WIDTH$}", paint.glyph(item.phase), item.phase);
    let indent = row.indent.chars().count();
    let width = NAME_WIDTH.saturating_sub(indent);
    let name = format!("{:<width$}", item.name);
    let ran = item.ran(now).map(compact).unwrap_or_default();
    let note = note(item);
    let rest = format!(" {name} {ran:>6}  {note}");
    let used = indent + phase.chars().count();
    let rest = cut(rest.trim_end(), columns.saturating_sub(used), paint);
    let strong = row.indent.is_empty();
    let rest = if strong { paint.strong(&rest) } else { rest };
    format!("{}{}{rest}", row.indent, paint.phase(item.phase, &phase))
}

/// What stands behind the duration: why, or what is going on.
fn note(item: &Item) -> String {
    if is_settled(item.phase) && item.phase != "Succeeded" {
        return item
            .message
            .clone()
            .or_else(|| item.reason.clone())
            .unwrap_or_default();
    }
    if item.phase == "Running" {
        return item.last_line.clone().unwrap_or_default();
    }
    String::new()
}

/// Cuts a text to a number of columns.
fn cut(text: &str, columns: usize, paint: Paint) -> String {
    let text = text.lines().next().unwrap_or_default();
    if text.chars().count() <= columns {
        return text.to_owned();
    }
    let mark = paint.ellipsis();
    let kept = columns.saturating_sub(mark.chars().count());
    text.chars()
        .take(kept)
        .chain(mark.chars())
        .take(columns)
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value, json};

    use kruntimes_embedded::StepPath;

    use super::*;
    use crate::board::tests::{board, moved};

    const NOW: Duration = Duration::from_millis(3310);
    const ROOM: Room = Room {
        rows: 24,
        columns: 80,
    };

    fn drawn(board: &Board, rows: usize) -> String {
        frame(board, NOW, Room { rows, ..ROOM }, Paint::default())
    }

    #[test]
    fn c_48_a_frame_shows_jobs_steps_times_and_reasons() {
        insta::assert_snapshot!(drawn(&board(), 24));
    }

    #[test]
    fn c_50_a_low_terminal_folds_what_is_finished_and_keeps_what_failed() {
        for rows in [9, 7, 5, 3] {
            let frame = drawn(&board(), rows);
            assert!(frame.lines().count() <= rows, "{rows}: {frame}");
            assert!(frame.contains("Failed    unit"), "{rows}: {frame}");
        }
        insta::assert_snapshot!(drawn(&board(), 7));
    }

    /// A WorkflowRun of 60 jobs with 30 steps each: 20 finished, one failed, three running.
    fn large() -> Board {
        let steps: Vec<Value> = (0..30)
            .map(|i| json!({"name": format!("s{i:02}")}))
            .collect();
        let jobs: Map<String, Value> = (0..60)
            .map(|i| (format!("j{i:02}"), json!({"steps": steps})))
            .collect();
        let object = json!({"metadata": {"name": "large"}, "spec": {"jobs": jobs}});
        let mut board = Board::new(&[object]);
        let mut go = |path: StepPath, to| {
            board.apply(0, &moved(path, None, to, None, None), Duration::ZERO);
        };
        go(StepPath::default(), "Running");
        for index in 0..24 {
            let job = format!("j{index:02}");
            let end = match index {
                0..20 => "Succeeded",
                20 => "Failed",
                _ => "Running",
            };
            for step in 0..30 {
                let phase = match (end, step) {
                    ("Succeeded", _) | (_, 0..10) => "Succeeded",
                    (_, 10) => end,
                    _ => "Pending",
                };
                go(StepPath::step(&job, &format!("s{step:02}")), phase);
            }
            go(StepPath::job(&job), "Running");
            go(StepPath::job(&job), end);
        }
        board
    }

    #[test]
    fn c_50_1800_steps_fit_24_rows() {
        let frame = drawn(&large(), 23);
        insta::assert_snapshot!(frame);
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        let mut board = board();
        board.targets[0].items[1].items[0].last_line = Some("ä".repeat(300));
        for columns in [10, 40, 80] {
            let room = Room { columns, ..ROOM };
            let frame = frame(&board, NOW, room, Paint::default());
            for line in frame.lines() {
                let limit = columns.max(4 + 6 + 2 + PHASE_WIDTH);
                assert!(line.chars().count() <= limit, "{columns}: {line}");
            }
        }
    }

    #[test]
    fn c_10_a_frame_can_be_ascii() {
        let paint = Paint {
            color: false,
            ascii: true,
        };
        assert!(frame(&board(), NOW, ROOM, paint).is_ascii());
    }
}
