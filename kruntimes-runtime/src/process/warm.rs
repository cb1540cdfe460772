//! Programs that are forked from a process which has started already.

use std::ffi::{OsStr, OsString};
use std::io::{self, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::Pid;

use super::group::{Command, MARK};
use super::reaper;

/// A warm process that does not answer within this is given up.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// So many warm processes in a row that fork nothing are enough.
const TRIES: u32 = 3;

/// As long as any mark, and no mark.
const PLACE: &str = "................................................................";

/// Keeps a process that was started ahead and forks others from it.
///
/// It is started with its end of a socket as standard input and the name of [`MARK`] as its last argument, and
/// follows the protocol of `python_warm.py`. When the socket closes, it ends.
#[derive(Debug)]
pub struct Warm {
    program: PathBuf,
    args: Vec<OsString>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    process: Option<Process>,
    failures: u32,
}

#[derive(Debug)]
struct Process {
    child: Child,
    socket: UnixStream,
    /// It has said that it can fork.
    ready: bool,
}

/// What a fork gives: a process that waits for the sign to begin.
pub(super) struct Forked {
    pub(super) leader: Pid,
    pub(super) stdout: OwnedFd,
    pub(super) stderr: OwnedFd,
    go: OwnedFd,
}

impl Forked {
    /// Lets the program begin.
    pub(super) fn go(self) -> io::Result<(OwnedFd, OwnedFd)> {
        rustix::io::write(&self.go, b"g")?;
        Ok((self.stdout, self.stderr))
    }
}

impl Warm {
    /// Starts the process ahead; while it gets ready nobody waits.
    ///
    /// A failure shows when the first program is to be forked.
    pub fn start(program: PathBuf, args: Vec<OsString>) -> Self {
        let warm = Self {
            program,
            args,
            state: Mutex::default(),
        };
        let mut state = warm.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.process = warm.process().ok();
        drop(state);
        warm
    }

    fn process(&self) -> io::Result<Process> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_read_timeout(Some(ANSWER_WITHIN))?;
        ours.set_write_timeout(Some(ANSWER_WITHIN))?;
        let mut command = std::process::Command::new(&self.program);
        command
            .args(&self.args)
            .arg(MARK)
            .env(MARK, PLACE)
            .current_dir("/")
            .stdin(OwnedFd::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0);
        let child = reaper::give_birth(&mut command)?;
        Ok(Process {
            child,
            socket: ours,
            ready: false,
        })
    }

    /// Forks a process for a command; none when that cannot be had, and it is to be started as usual.
    pub(super) fn fork(&self, command: &Command, mark: &str) -> Option<Forked> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.failures >= TRIES || mark.len() > PLACE.len() {
            return None;
        }
        let mut process = match state.process.take() {
            Some(process) => process,
            None => self.process().ok()?,
        };
        // A replacement is a birth of its own, so it comes after this one.
        match reaper::adopt(|| process.fork(command, mark)) {
            Ok(forked) => {
                state.failures = 0;
                state.process = Some(process);
                Some(forked)
            }
            Err(error) => {
                state.failures += 1;
                tracing::warn!(%error, "a warm process forks nothing");
                // The next one gets ready meanwhile.
                state.process = self.process().ok();
                None
            }
        }
    }
}

impl Process {
    fn fork(&mut self, command: &Command, mark: &str) -> io::Result<Forked> {
        let mut word = [0; 4];
        if !self.ready {
            self.socket.read_exact(&mut word)?;
            self.ready = true;
        }
        let pipe = || pipe_with(PipeFlags::CLOEXEC);
        let ((stdout, out), (stderr, err), (wait, go)) = (pipe()?, pipe()?, pipe()?);
        let body = body(command, mark);
        let length = u32::try_from(body.len()).map_err(io::Error::other)?;
        let fds = [out.as_fd(), err.as_fd(), wait.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        control.push(SendAncillaryMessage::ScmRights(&fds));
        let head = length.to_le_bytes();
        let sent = sendmsg(
            &self.socket,
            &[IoSlice::new(&head)],
            &mut control,
            SendFlags::NOSIGNAL,
        )?;
        self.socket.write_all(&head[sent..])?;
        self.socket.write_all(&body)?;
        self.socket.read_exact(&mut word)?;
        let leader = Pid::from_raw(i32::from_le_bytes(word));
        let leader = leader.ok_or_else(|| io::Error::other("no process was made"))?;
        Ok(Forked {
            leader,
            stdout,
            stderr,
            go,
        })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = reaper::bury_child(&mut self.child);
    }
}

/// Mark, directory, number of arguments, arguments, names and values, each with a NUL after it.
fn body(command: &Command, mark: &str) -> Vec<u8> {
    let count = command.args.len().to_string();
    let head = [
        OsStr::new(mark),
        command.directory.as_os_str(),
        OsStr::new(&count),
    ];
    let args = command.args.iter().map(OsString::as_os_str);
    let pairs = command.env.iter().flat_map(|(name, value)| [name, value]);
    let mut body = Vec::new();
    for field in head.into_iter().chain(args).chain(pairs.map(OsStr::new)) {
        body.extend_from_slice(field.as_bytes());
        body.push(0);
    }
    body
}
