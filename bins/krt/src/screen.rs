//! Where text goes: data to standard output, everything else to standard error (C-9).

use std::fmt::Write as _;
use std::io::IsTerminal as _;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::time::Instant;

use crate::args::{Format, LocalRun};
use crate::paint::{Paint, Wishes};
use crate::tree::Room;

/// Shortest time between two frames. One with lines above it draws twice, so ten times a second is the most.
const FRAME: Duration = Duration::from_millis(200);
/// Longest time between two frames, so that durations move.
const SECOND: Duration = Duration::from_secs(1);
/// Room where nobody tells how large the terminal is.
const FALLBACK: Room = Room {
    rows: 24,
    columns: 80,
};

/// The two standard streams, and the live tree on a terminal.
pub(crate) struct Screen {
    /// How standard output is written.
    pub(crate) out: Paint,
    /// How standard error is written.
    pub(crate) err: Paint,
    /// Output of steps is no data when the data is a JSON document.
    only_data: bool,
    out_is_terminal: bool,
    live: Option<Live>,
}

struct Live {
    bar: ProgressBar,
    /// Lines that appear above the tree with the next frame.
    above: Vec<String>,
    drawn: Instant,
    changed: bool,
}

impl Screen {
    /// Looks at the streams and the wishes of the caller.
    pub(crate) fn open(request: &LocalRun) -> Self {
        let out_is_terminal = std::io::stdout().is_terminal();
        let err_is_terminal = std::io::stderr().is_terminal();
        let wishes = Wishes::read();
        let paint = |terminal| Paint::decide(request.color, wishes, terminal, request.ascii);
        Self {
            out: paint(out_is_terminal),
            err: paint(err_is_terminal),
            only_data: request.format == Format::Json,
            out_is_terminal,
            live: (err_is_terminal && !wishes.dumb).then(Live::new),
        }
    }

    /// Tells whether there is a tree to draw instead of lines about transitions.
    pub(crate) fn is_live(&self) -> bool {
        self.live.is_some()
    }

    /// Writes data: results, and standard output of steps.
    pub(crate) fn data(&mut self, text: &str) {
        match &mut self.live {
            Some(live) if self.out_is_terminal => live.print(text),
            _ => write_line(&mut std::io::stdout().lock(), text),
        }
    }

    /// Writes standard output of a step.
    pub(crate) fn workload(&mut self, text: &str) {
        if self.only_data {
            self.notice(text);
        } else {
            self.data(text);
        }
    }

    /// Writes progress, notices and problems, and standard error of steps.
    pub(crate) fn notice(&mut self, text: &str) {
        match &mut self.live {
            Some(live) => live.print(text),
            None => write_line(&mut std::io::stderr().lock(), text),
        }
    }

    /// When the next frame is due.
    pub(crate) fn due(&self) -> Option<Instant> {
        let live = self.live.as_ref()?;
        let wait = if live.changed { FRAME } else { SECOND };
        Some(live.drawn + wait)
    }

    /// Notes that the tree is out of date.
    pub(crate) fn touch(&mut self) {
        if let Some(live) = &mut self.live {
            live.changed = true;
        }
    }

    /// Draws a frame, with the waiting lines above it.
    pub(crate) fn draw(&mut self, frame: String) {
        if let Some(live) = &mut self.live {
            live.flush();
            live.bar.set_message(frame);
            live.drawn = Instant::now();
            live.changed = false;
        }
    }

    /// Takes the tree away; lines are written at once from now on.
    pub(crate) fn close(&mut self) {
        if let Some(mut live) = self.live.take() {
            live.flush();
            live.bar.finish_and_clear();
        }
    }
}

impl Live {
    fn new() -> Self {
        // Frames are timed here; the target must not drop one of them.
        let target = ProgressDrawTarget::stderr_with_hz(50);
        let bar = ProgressBar::with_draw_target(None, target);
        if let Ok(style) = ProgressStyle::with_template("{msg}") {
            bar.set_style(style);
        }
        Self {
            bar,
            above: Vec::new(),
            drawn: Instant::now(),
            changed: true,
        }
    }

    fn print(&mut self, text: &str) {
        // A carriage return would write over the tree.
        self.above.push(text.replace('\r', " "));
        self.changed = true;
    }

    fn flush(&mut self) {
        if self.above.is_empty() {
            return;
        }
        let mut text = String::new();
        for (index, line) in self.above.drain(..).enumerate() {
            let separator = if index == 0 { "" } else { "\n" };
            let _ = write!(text, "{separator}{}", line.trim_end_matches('\n'));
        }
        self.bar.println(text);
    }
}

/// Room for the tree on the terminal of standard error; one row is left for the cursor.
pub(crate) fn room() -> Room {
    let Ok(size) = rustix::termios::tcgetwinsize(std::io::stderr()) else {
        return FALLBACK;
    };
    if size.ws_row == 0 || size.ws_col == 0 {
        return FALLBACK;
    }
    Room {
        rows: usize::from(size.ws_row).saturating_sub(1).max(1),
        columns: usize::from(size.ws_col),
    }
}

/// Nobody reads on is no reason to stop the work.
fn write_line(to: &mut impl std::io::Write, text: &str) {
    let _ = writeln!(to, "{}", text.trim_end_matches('\n'));
    let _ = to.flush();
}
