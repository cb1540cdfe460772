//! One life of the writer, from its start to its end by SIGKILL.

use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Command, Stdio},
    sync::mpsc,
    time::Duration,
};

use crate::dice::Dice;

/// Environment variable that makes the program a writer in this directory.
pub(crate) const DIRECTORY: &str = "KRUNTIMES_CRASH_DIRECTORY";
/// Environment variable with the seed of the writer.
pub(crate) const SEED: &str = "KRUNTIMES_CRASH_SEED";

/// Longest wait for a line; a writer that is silent for so long hangs.
const PATIENCE: Duration = Duration::from_secs(20);

/// What the writer has said.
pub(crate) struct Life {
    pub(crate) lines: Vec<String>,
    /// It was killed before it could answer anything.
    pub(crate) early: bool,
}

/// Starts a writer, kills it at a random moment and returns everything it has said.
pub(crate) fn live_and_die(directory: &Path, dice: &mut Dice) -> Life {
    let program = std::env::current_exe().expect("the program knows its own path");
    let mut child = Command::new(program)
        .env(DIRECTORY, directory)
        .env(SEED, dice.draw().to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program can be started once more");
    let output = child.stdout.take().expect("the output is a pipe");
    let (sender, receiver) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    let mut lines = Vec::new();
    let mut listen = |patience: Duration, wanted: u64| {
        while (lines.len() as u64) < wanted {
            match receiver.recv_timeout(patience) {
                Ok(line) => lines.push(line),
                Err(_) => break,
            }
        }
    };
    if dice.below(4) == 0 {
        // During the start, or soon after.
        listen(Duration::from_micros(dice.below(30_000)), 1);
    } else {
        let lines = 1 + dice.below(250);
        listen(PATIENCE, lines);
        // Not always right after a line.
        listen(Duration::from_micros(dice.below(1_500)), lines + 3);
    }
    child.kill().expect("a child can be killed");
    child.wait().expect("a killed child ends");
    reader.join().expect("the reader ends with the pipe");
    lines.extend(receiver.try_iter());
    let early = !lines.iter().any(|line| line.starts_with("ack"));
    Life { lines, early }
}
