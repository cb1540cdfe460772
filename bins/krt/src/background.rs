//! The engine in a process of its own: its start, and how it tells that it is ready.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::process::Stdio;

use kruntimes_embedded::home::{self, Presence};
use tokio::io::AsyncReadExt as _;
use tokio::process::{Child, Command};

use crate::args::Up;
use crate::exit::Exit;
use crate::place::{Place, quoted};
use crate::say;
use crate::signals::Signals;
use crate::up;

/// What the process in the background says first when all went well.
const READY: &str = "ready\n";
/// A log larger than this is put aside at the next start.
const LOG_MAX_BYTES: u64 = 4 << 20;

/// Starts the engine in the background; returns when it is ready, or has said why not.
pub(crate) async fn start(request: &Up, place: &Place) -> Exit {
    if let Err(error) = home::prepare(&place.dir) {
        say::notice(&say::problem(&error, &place.next(&error)));
        return Exit::NotCarriedOut;
    }
    let log = place.dir.join("engine.log");
    let begun = Signals::listen().and_then(|signals| Ok((signals, spawn(request, place, &log)?)));
    let (mut signals, mut child) = match begun {
        Ok(begun) => begun,
        Err(error) => {
            let next = "start it in the foreground, without --detach";
            say::notice(&say::problem(&error, next));
            return Exit::NotCarriedOut;
        }
    };
    tokio::select! {
        biased;
        exit = signals.next() => {
            let _ = child.kill().await;
            exit
        }
        said = read(&mut child) => tell(&said, place, &log),
    }
}

fn spawn(request: &Up, place: &Place, log: &Path) -> io::Result<Child> {
    if log.metadata().is_ok_and(|log| log.len() > LOG_MAX_BYTES) {
        std::fs::rename(log, log.with_extension("log.old"))?;
    }
    let mut options = OpenOptions::new();
    let log = options.create(true).append(true).mode(0o600).open(log)?;
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["local", "up", "--background", "--dir"]);
    command.arg(&place.dir);
    command.args(["--port", &request.port.to_string()]);
    if let Some(slots) = request.slots {
        command.args(["--slots", &slots.to_string()]);
    }
    if !request.extensions.is_empty() {
        command.args(["--workflow-extensions", &request.extensions.to_string()]);
    }
    command
        .current_dir(&place.dir)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()
}

/// Reads until the process has said that it is ready, or has ended.
async fn read(child: &mut Child) -> String {
    let mut said = Vec::new();
    if let Some(out) = &mut child.stdout {
        // What cannot be read has not been said.
        while said != READY.as_bytes() && out.read_buf(&mut said).await.is_ok_and(|n| n > 0) {}
    }
    String::from_utf8_lossy(&said).into_owned()
}

fn tell(said: &str, place: &Place, log: &Path) -> Exit {
    let log = quoted(log);
    if said != READY {
        let said = if said.is_empty() {
            "krt: the engine ended"
        } else {
            said
        };
        say::notice(&format!("{}\n  its log is {log}", said.trim_end()));
        return Exit::NotCarriedOut;
    }
    let Ok(Presence::Somebody(Some(record))) = place.look() else {
        say::notice(&format!("krt: the engine ended again\n  its log is {log}"));
        return Exit::NotCarriedOut;
    };
    if let (Some(endpoint), Some(kubeconfig)) = (&record.endpoint, &record.kubeconfig) {
        let text = up::how_to_use(endpoint, &quoted(kubeconfig), place);
        say::notice(&format!("{text}\n  its log is {log}"));
    }
    Exit::Done
}

/// Parts from the terminal, so that what happens there does not reach the engine.
pub(crate) fn leave_session() {
    // Refused for the leader of a group, which a process started by this file is not.
    let _ = rustix::process::setsid();
}

/// Tells the process that started this one that the engine is ready.
pub(crate) fn report_ready() {
    say::data(READY);
}

/// Tells the process that started this one why there will be no engine.
pub(crate) fn report_failure(text: &str) {
    say::data(text);
}
