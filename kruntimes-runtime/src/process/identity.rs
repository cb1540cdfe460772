//! Names a process for good: its number alone comes to mean another one.

use std::fmt;
use std::fs;
use std::io;
use std::str::FromStr;
use std::sync::OnceLock;

use rustix::process::{Signal, pidfd_send_signal};

use super::group::{ended, open};
use super::procfs::Stat;

/// One process of this machine, told from every other that had or will have its number.
///
/// Its text form, `<boot id>_<number>_<start>`, is fit for a file name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Identity {
    boot: String,
    pid: i32,
    /// Clock ticks after boot.
    started: u64,
}

/// The text is no identity.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} names no process")]
pub struct NoIdentity(String);

impl Identity {
    /// Names the calling process.
    ///
    /// # Errors
    ///
    /// Fails when the kernel does not show its processes.
    pub fn own() -> io::Result<Self> {
        Self::of(std::process::id())
    }

    /// Names the process that has this number now.
    ///
    /// # Errors
    ///
    /// Fails when there is none, or the kernel does not show its processes.
    pub fn of(pid: u32) -> io::Result<Self> {
        let gone = || {
            io::Error::new(
                io::ErrorKind::NotFound,
                format!("there is no process {pid}"),
            )
        };
        let stat = i32::try_from(pid).ok().and_then(Stat::read);
        let stat = stat.ok_or_else(gone)?;
        Ok(Self {
            boot: boot()?,
            pid: stat.pid,
            started: stat.started,
        })
    }

    /// Returns the number, which says little without the rest.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Tells whether the machine has not been started again since.
    ///
    /// # Errors
    ///
    /// Fails when the kernel does not tell.
    pub fn is_of_this_boot(&self) -> io::Result<bool> {
        Ok(self.boot == boot()?)
    }

    /// Tells whether the process still runs.
    pub fn is_alive(&self) -> bool {
        self.stat().is_some()
    }

    /// Asks the process to end; tells whether it was still there.
    ///
    /// # Errors
    ///
    /// Fails when the caller may not signal it.
    pub fn terminate(&self) -> io::Result<bool> {
        self.signal(Signal::TERM)
    }

    /// Kills the process; tells whether it was still there.
    ///
    /// # Errors
    ///
    /// Fails when the caller may not signal it.
    pub fn kill(&self) -> io::Result<bool> {
        self.signal(Signal::KILL)
    }

    /// Waits until the process has ended.
    ///
    /// # Panics
    ///
    /// Panics outside a tokio runtime with I/O.
    pub async fn gone(&self) {
        while let Some(stat) = self.stat() {
            match open(stat) {
                Some(process) => ended(&process).await,
                None => tokio::time::sleep(super::group::LOOK_AGAIN).await,
            }
        }
    }

    /// The start of the marks that its descendants carry.
    pub(super) fn mark(&self) -> String {
        mark(self.pid, self.started)
    }

    fn stat(&self) -> Option<Stat> {
        let stat = Stat::read(self.pid)?;
        let same = stat.started == self.started && !stat.zombie;
        (same && self.is_of_this_boot().unwrap_or(false)).then_some(stat)
    }

    fn signal(&self, signal: Signal) -> io::Result<bool> {
        let Some(process) = self.stat().and_then(open) else {
            return Ok(false);
        };
        match pidfd_send_signal(process.get_ref(), signal) {
            Ok(()) => Ok(true),
            Err(rustix::io::Errno::SRCH) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}_{}_{}", self.boot, self.pid, self.started)
    }
}

impl FromStr for Identity {
    type Err = NoIdentity;

    fn from_str(text: &str) -> Result<Self, NoIdentity> {
        let parse = || {
            let mut parts = text.split('_');
            let identity = Self {
                boot: parts.next().filter(|boot| !boot.is_empty())?.to_owned(),
                pid: parts.next()?.parse().ok().filter(|pid| *pid > 0)?,
                started: parts.next()?.parse().ok()?,
            };
            parts.next().is_none().then_some(identity)
        };
        parse().ok_or_else(|| NoIdentity(text.chars().take(128).collect()))
    }
}

/// The mark of everything that this process starts.
pub(super) fn own_mark() -> &'static str {
    static MARK: OnceLock<String> = OnceLock::new();
    MARK.get_or_init(|| {
        let pid = i32::try_from(std::process::id()).unwrap_or_default();
        mark(pid, Stat::read(pid).map_or(0, |stat| stat.started))
    })
}

fn mark(pid: i32, started: u64) -> String {
    format!("{pid}-{started}")
}

fn boot() -> io::Result<String> {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    Ok(id.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_comes_back_from_its_text_and_other_text_is_none() {
        let own = Identity::own().unwrap();
        assert_eq!(own.to_string().parse::<Identity>().unwrap(), own);
        assert!(own.is_alive());
        for text in ["", "x", "_1_2", "b_0_2", "b_1_", "b_1_2_3", "b_-1_2"] {
            assert!(text.parse::<Identity>().is_err(), "{text}");
        }
    }

    #[tokio::test]
    async fn another_start_or_boot_is_another_process() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let child_is = Identity::of(child.id()).unwrap();
        let reused = Identity {
            started: child_is.started + 1,
            ..child_is.clone()
        };
        let before_boot = Identity {
            boot: "other".into(),
            ..child_is.clone()
        };
        for stranger in [reused, before_boot] {
            assert!(!stranger.is_alive());
            assert!(!stranger.kill().unwrap());
            stranger.gone().await;
        }
        assert!(child_is.is_alive());
        assert!(child_is.terminate().unwrap());
        child_is.gone().await;
        child.wait().unwrap();
        assert!(!child_is.kill().unwrap());
    }
}
