//! Processes that end with their owner.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::AsyncReadExt as _;
use tokio::process::{Child, Command};

use super::Error;
use crate::root;

/// How many lines of a log are shown when something fails.
const SHOWN_LINES: usize = 15;

/// A process in a group of its own. Dropping it kills the whole group.
pub(super) struct Process {
    child: Child,
    group: Option<Pid>,
}

impl Process {
    /// Starts a command.
    pub(super) fn start(command: &mut Command) -> Result<Self, Error> {
        let child = command
            .stdin(Stdio::null())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(|source| Error::Start {
                program: command.as_std().get_program().display().to_string(),
                source,
            })?;
        let group = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        Ok(Self { child, group })
    }

    /// Reads what it says on standard error, and waits for its end.
    pub(super) async fn complained(&mut self) -> Result<(ExitStatus, String), Error> {
        let mut said = Vec::new();
        if let Some(mut stderr) = self.child.stderr.take() {
            stderr.read_to_end(&mut said).await?;
        }
        let status = self.wait().await?;
        Ok((status, String::from_utf8_lossy(&said).into_owned()))
    }

    /// Reads what it says on standard output, and waits for its end.
    pub(super) async fn said(&mut self) -> Result<(ExitStatus, String), Error> {
        let mut said = Vec::new();
        if let Some(mut stdout) = self.child.stdout.take() {
            stdout.read_to_end(&mut said).await?;
        }
        let status = self.wait().await?;
        Ok((status, String::from_utf8_lossy(&said).into_owned()))
    }

    /// Waits for its end.
    pub(super) async fn wait(&mut self) -> Result<ExitStatus, Error> {
        let status = self.child.wait().await?;
        self.group = None;
        Ok(status)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(group) = self.group {
            // It may have ended by itself in this very moment.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

/// A part of the control plane, which should not end before the tests do.
pub(super) struct Part {
    name: &'static str,
    log: PathBuf,
    process: Process,
}

impl Part {
    /// Starts `program`, with everything it says in `<name>.log`.
    pub(super) fn start<I>(
        name: &'static str,
        program: &Path,
        arguments: I,
        directory: &Path,
    ) -> Result<Self, Error>
    where
        I: IntoIterator,
        I::Item: AsRef<OsStr>,
    {
        let log = directory.join(format!("{name}.log"));
        let file = File::create(&log).map_err(root::Error::at(&log))?;
        let copy = file.try_clone().map_err(root::Error::at(&log))?;
        let mut command = Command::new(program);
        let command = command.args(arguments).current_dir(directory);
        let process = Process::start(command.stdout(file).stderr(copy))?;
        Ok(Self { name, log, process })
    }

    /// Waits until it ends, which nobody wants.
    pub(super) async fn ended(&mut self) -> Error {
        match self.process.wait().await {
            Ok(status) => Error::Ended {
                name: self.name,
                status: status.to_string(),
                log: self.last_lines(),
            },
            Err(error) => error,
        }
    }

    /// The end of its log.
    pub(super) fn last_lines(&self) -> String {
        last_lines(&String::from_utf8_lossy(
            &fs::read(&self.log).unwrap_or_default(),
        ))
    }
}

/// The end of a text, indented.
pub(super) fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let shown = &lines[lines.len().saturating_sub(SHOWN_LINES)..];
    let shown: Vec<String> = shown.iter().map(|line| format!("  {line}")).collect();
    shown.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_end_of_a_long_log_is_shown() {
        let text: Vec<String> = (0..100).map(|line| line.to_string()).collect();
        let shown = last_lines(&text.join("\n"));
        assert_eq!(shown.lines().count(), SHOWN_LINES);
        assert!(shown.ends_with("\n  99"));
        assert_eq!(last_lines(""), "");
    }

    #[tokio::test]
    async fn a_dropped_process_takes_its_children_along() {
        let (reader, writer) = std::io::pipe().unwrap();
        let mut command = Command::new("sh");
        command
            .args(["-c", "cat /dev/zero >/dev/null & wait"])
            .stdout(writer);
        let process = Process::start(&mut command).unwrap();
        drop(command);
        drop(process);
        // The pipe is at its end only when nobody holds it any more.
        let read = tokio::task::spawn_blocking(move || std::io::read_to_string(reader));
        assert_eq!(read.await.unwrap().unwrap(), "");
    }

    #[tokio::test]
    async fn an_early_end_shows_how_and_the_log() {
        let directory = tempfile::tempdir().unwrap();
        let arguments = ["-c", "echo no such flag; exit 7"];
        let part = Part::start("part", Path::new("sh"), arguments, directory.path());
        let told = part.unwrap().ended().await.to_string();
        assert!(told.contains("part ended") && told.contains('7'), "{told}");
        assert!(told.ends_with("  no such flag"), "{told}");
    }
}
