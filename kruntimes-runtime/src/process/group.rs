//! One program with everything it starts.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process_group, pidfd_open,
    pidfd_send_signal, waitid,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::net::unix::pipe;
use tokio::time::{Instant, timeout_at};

use super::procfs::{Stat, children, has_variable};
use super::warm::Warm;
use super::{identity, leftovers, reaper};

/// Names the environment variable by which descendants are recognised; its value is opaque.
pub const MARK: &str = "KRUNTIME_PROCESS_GROUP";

/// After SIGKILL members are looked for again this often, in case one was being born.
const KILL_AGAIN: Duration = Duration::from_secs(1);

/// Pause before the next look when nothing could be waited for.
pub(super) const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Looks for survivors of a dropped group; each round ends at least the oldest generation.
const KILL_ROUNDS: usize = 64;

/// Waited for at once; the others are found by the next look.
const WATCHED_AT_ONCE: usize = 128;

/// Describes a program to start.
#[derive(Clone, Debug, Default)]
pub struct Command {
    /// Absolute path of the program.
    pub program: PathBuf,
    /// Arguments after the program's name.
    pub args: Vec<OsString>,
    /// Where it starts.
    pub directory: PathBuf,
    /// Laid over the environment of this process; a value here wins.
    pub env: BTreeMap<String, String>,
    /// Directory that gets a file for as long as the leader lives, for
    /// [`end_leftovers`](super::end_leftovers) after a kill of this process.
    pub records: Option<PathBuf>,
}

/// Says why a program could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpawnError {
    /// This process cannot adopt orphans, so their end could not be guaranteed.
    #[error("cannot become a child subreaper")]
    Subreaper(#[source] io::Error),
    /// The program cannot be started.
    #[error("cannot start {}", program.display())]
    Start {
        /// The program.
        program: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The program was started and ended again because it could not be watched.
    #[error("cannot watch the new process")]
    Watch(#[source] io::Error),
}

/// Tells how a leader ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exit {
    /// With this code.
    Code(i32),
    /// By a signal; this is its name, such as `SIGSEGV`.
    Signal(String),
}

/// Owns a started program and all its descendants.
///
/// Dropping it kills all of them at once; [`end`](Group::end) is the polite way.
#[derive(Debug)]
pub struct Group {
    leader: Pid,
    exit: AsyncFd<OwnedFd>,
    mark: String,
    record: Option<PathBuf>,
    /// Members seen so far, by number and start: an ended one shows its mark no more.
    seen: Mutex<BTreeMap<i32, u64>>,
    reaped: bool,
}

/// Carries what a leader writes.
#[derive(Debug)]
pub struct Pipes {
    /// Standard output.
    pub stdout: pipe::Receiver,
    /// Standard error.
    pub stderr: pipe::Receiver,
}

impl Group {
    /// Starts a program as leader of a new process group, without standard input.
    ///
    /// Nothing runs between fork and exec, so the standard library can use `posix_spawn`. Blocks for the
    /// time that takes.
    ///
    /// # Errors
    ///
    /// [`SpawnError`]; nothing is left running then.
    ///
    /// # Panics
    ///
    /// Panics outside a tokio runtime with I/O.
    pub fn spawn(command: &Command) -> Result<(Self, Pipes), SpawnError> {
        reaper::adopt_orphans().map_err(|error| SpawnError::Subreaper(error.into()))?;
        let value = format!("{}.{}", identity::own_mark(), reaper::next_number());
        let mut process = std::process::Command::new(&command.program);
        process
            .args(&command.args)
            .current_dir(&command.directory)
            .envs(&command.env)
            .env(MARK, &value)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        let mut child = reaper::give_birth(&mut process).map_err(|source| SpawnError::Start {
            program: command.program.clone(),
            source,
        })?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let group = Self::watched(Pid::from_child(&child), command, &value)?;
        let pipes = stdout.zip(stderr).ok_or(io::ErrorKind::BrokenPipe.into());
        // From here on the group reaps the leader; the handle of the standard library does nothing when dropped.
        let pipes = pipes.and_then(|(out, err)| Pipes::new(out.into(), err.into()));
        Ok((group, pipes.map_err(SpawnError::Watch)?))
    }

    /// Forks a program from a warm process; starts it as [`spawn`](Self::spawn) does when that cannot be.
    ///
    /// Blocks for the time that takes.
    ///
    /// # Errors
    ///
    /// As `spawn`.
    ///
    /// # Panics
    ///
    /// Panics outside a tokio runtime with I/O.
    pub fn fork(command: &Command, warm: &Warm) -> Result<(Self, Pipes), SpawnError> {
        reaper::adopt_orphans().map_err(|error| SpawnError::Subreaper(error.into()))?;
        let value = format!("{}.{}", identity::own_mark(), reaper::next_number());
        let Some(forked) = warm.fork(command, &value) else {
            return Self::spawn(command);
        };
        let group = Self::watched(forked.leader, command, &value)?;
        // Dropping the group ends what has not begun.
        let pipes = forked.go().and_then(|(out, err)| Pipes::new(out, err));
        Ok((group, pipes.map_err(SpawnError::Watch)?))
    }

    /// Takes charge of a leader that has just been started.
    fn watched(leader: Pid, command: &Command, value: &str) -> Result<Self, SpawnError> {
        let record = command.records.as_ref();
        let record = record.and_then(|records| note(records, leader));
        match watch(leader) {
            Ok(exit) => Ok(Self {
                leader,
                exit,
                mark: format!("{MARK}={value}"),
                record,
                seen: Mutex::default(),
                reaped: false,
            }),
            Err(error) => {
                let _ = kill_process_group(leader, Signal::KILL);
                let _ = reaper::bury(leader);
                forget(record.as_deref());
                Err(SpawnError::Watch(error))
            }
        }
    }

    /// Waits until the leader has ended. It stays unreaped; other members may live on.
    pub async fn leader_ended(&self) {
        while !self.has_ended() {
            ended(&self.exit).await;
        }
    }

    /// Tells whether the leader has ended.
    pub fn has_ended(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        self.reaped || !matches!(waitid(WaitId::Pid(self.leader), options), Ok(None))
    }

    /// Ends whatever is left of the group and returns how the leader ended.
    ///
    /// SIGTERM to all, up to `grace` of waiting, SIGKILL to all, then waiting until no member is left
    /// (N-219). Without living members this takes no time. May be dropped midway: the group is killed.
    ///
    /// # Errors
    ///
    /// Fails when the leader cannot be reaped, which only happens if somebody else reaped it.
    pub async fn end(mut self, grace: Duration) -> io::Result<Exit> {
        if !self.has_ended() || !self.living().is_empty() {
            self.signal(Signal::TERM);
            let mut gone = self.gone_by(Instant::now() + grace).await;
            while !gone {
                self.signal(Signal::KILL);
                gone = self.gone_by(Instant::now() + KILL_AGAIN).await;
            }
        }
        self.reap()
    }

    fn reap(&mut self) -> io::Result<Exit> {
        self.reaped = true;
        // While the record exists, its number means this leader.
        forget(self.record.as_deref());
        reaper::bury(self.leader)
    }

    /// Waits until nobody is left, at most until `deadline`.
    async fn gone_by(&self, deadline: Instant) -> bool {
        loop {
            let ended_before = self.has_ended();
            let living = self.living();
            if living.is_empty() && ended_before {
                return true;
            }
            if timeout_at(deadline, self.some_ended(&living))
                .await
                .is_err()
            {
                return false;
            }
        }
    }

    /// Waits for the ends of the leader and of those members that can be watched.
    async fn some_ended(&self, living: &[Stat]) {
        let mut waited = !self.has_ended();
        self.leader_ended().await;
        let watched = living.iter().take(WATCHED_AT_ONCE);
        for member in watched.filter_map(|member| open(*member)) {
            ended(&member).await;
            waited = true;
        }
        if !waited {
            // All gone in this moment, or no descriptor is free.
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// Reaps members that ended and are ours to reap; returns the others that live.
    fn living(&self) -> Vec<Stat> {
        let mut members = self.members();
        members.retain(|member| {
            if member.zombie {
                reaper::reap(*member);
            }
            !member.zombie
        });
        members
    }

    /// Signals the whole group, and one by one those who left it.
    fn signal(&self, what: Signal) {
        let _ = kill_process_group(self.leader, what);
        let left = |stat: &Stat| !stat.zombie && stat.group != self.leader.as_raw_pid();
        for member in self.members().into_iter().filter(left) {
            if let Some(member) = open(member) {
                let _ = pidfd_send_signal(member.get_ref(), what);
            }
        }
    }

    /// Finds all descendants of the leader except itself.
    ///
    /// A process whose parent ends while they are being looked for changes its place, and can be in neither when each
    /// is looked at; so nothing is not believed at once.
    fn members(&self) -> Vec<Stat> {
        let members = self.look();
        if members.is_empty() {
            self.look()
        } else {
            members
        }
    }

    fn look(&self) -> Vec<Stat> {
        let leader = self.leader.as_raw_pid();
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let mut members = reaper::strangers();
        members.retain(|child| {
            child.group == leader
                || seen.get(&child.pid) == Some(&child.started)
                || has_variable(child.pid, &self.mark)
        });
        members.extend(children(leader).into_iter().filter_map(Stat::read));
        let mut found: BTreeSet<i32> = members.iter().map(|member| member.pid).collect();
        let mut next = 0;
        while let Some(member) = members.get(next) {
            let below = children(member.pid)
                .into_iter()
                .filter(|pid| found.insert(*pid));
            let below: Vec<Stat> = below.filter_map(Stat::read).collect();
            members.extend(below);
            next += 1;
        }
        seen.extend(members.iter().map(|member| (member.pid, member.started)));
        members
    }
}

impl Drop for Group {
    /// Kills what is left; blocks for the moment that takes.
    fn drop(&mut self) {
        if self.reaped {
            return;
        }
        self.signal(Signal::KILL);
        let _ = waitid(
            WaitId::Pid(self.leader),
            WaitIdOptions::EXITED | WaitIdOptions::NOWAIT,
        );
        for _ in 0..KILL_ROUNDS {
            let members = self.members();
            if members.is_empty() {
                break;
            }
            self.signal(Signal::KILL);
            members.into_iter().for_each(reaper::wait_for);
        }
        let _ = self.reap();
    }
}

/// Notes a leader; without the note it is still found by its mark.
fn note(records: &Path, leader: Pid) -> Option<PathBuf> {
    let noted = leftovers::record(records, leader);
    let noted = noted.inspect_err(|error| tracing::warn!(%error, "a leader cannot be noted"));
    noted.ok()
}

fn forget(record: Option<&Path>) {
    if let Some(record) = record {
        // Left behind it is harmless: it names the start as well.
        let _ = std::fs::remove_file(record);
    }
}

/// Opens a member for waiting and signals; none when it is gone or the number means another by now.
pub(super) fn open(stat: Stat) -> Option<AsyncFd<OwnedFd>> {
    let fd = watch(Pid::from_raw(stat.pid)?).ok()?;
    let now = Stat::read(stat.pid)?;
    (now.started == stat.started).then_some(fd)
}

#[expect(
    deprecated,
    reason = "its danger is a type that gives up its descriptor; an OwnedFd keeps it"
)]
fn watch(pid: Pid) -> io::Result<AsyncFd<OwnedFd>> {
    let fd = pidfd_open(pid, PidfdFlags::NONBLOCK)?;
    AsyncFd::with_interest(fd, Interest::READABLE)
}

/// Waits until the process behind a pidfd has ended.
pub(super) async fn ended(fd: &AsyncFd<OwnedFd>) {
    // Readiness is kept, not cleared: a process ends only once.
    let _ = fd.readable().await;
}

impl Pipes {
    fn new(stdout: OwnedFd, stderr: OwnedFd) -> io::Result<Self> {
        Ok(Self {
            stdout: pipe::Receiver::from_owned_fd(stdout)?,
            stderr: pipe::Receiver::from_owned_fd(stderr)?,
        })
    }
}
