//! One git process with its group: bounded in time, output and disk, and gone when it returns (node, N-49 to N-54).

use std::io;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitOptions};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::GitTool;

/// Bytes of messages that are kept (N-52).
const OUTPUT_MAX_BYTES: usize = 64 * 1024;
/// Bytes of an answer that are kept.
const ANSWER_MAX_BYTES: usize = 16 * 1024 * 1024;
const TRUNCATED: &str = "\n[git output truncated]\n";
/// Where git and ssh are looked for.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";
/// Distance of two looks at the size of what has arrived.
const LOOK: Duration = Duration::from_millis(50);
/// How long output may stay open after its process ended.
const DRAIN: Duration = Duration::from_secs(1);
/// How long members of a killed group may take to vanish.
const REAP: Duration = Duration::from_secs(2);

/// Limits the size of each file and lets the group of the volume write, then becomes git.
const WRAPPER: &str = "umask 002; ulimit -f \"$1\" || exit 125; shift; exec \"$@\"";

/// Settings that no repository can change (N-49).
const SETTINGS: &[&str] = &[
    "protocol.allow=never",
    "protocol.https.allow=always",
    "protocol.ssh.allow=always",
    "credential.helper=",
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.askPass=",
    "submodule.recurse=false",
    "fetch.recurseSubmodules=false",
    "filter.lfs.smudge=",
    "filter.lfs.process=",
    "filter.lfs.required=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "advice.detachedHead=false",
    "init.defaultBranch=main",
];

/// How a process ended before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    TimedOut,
    TooLarge,
    Abandoned,
}

/// What a process came to.
pub(super) enum End {
    /// It ended by itself.
    Exited {
        status: ExitStatus,
        stdout: String,
        stderr: String,
    },
    /// It was ended.
    Stopped(Stop),
}

/// Where and how long a process may work.
pub(super) struct Bounds<'a> {
    pub(super) directory: &'a Path,
    pub(super) until: Instant,
    pub(super) abandoned: &'a CancellationToken,
}

/// Kills a process group when it is dropped before it was given up.
struct Group(Option<Pid>);

impl Group {
    fn kill(&self) {
        if let Some(pid) = self.0 {
            // It may be gone already.
            let _ = rustix::process::kill_process_group(pid, Signal::KILL);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}

impl GitTool {
    fn command(&self, directory: &Path, args: &[&str]) -> Command {
        let mut command = Command::new("/bin/sh");
        // One more than the limit, so that what reaches it is seen to exceed the limit.
        let blocks = self.size_limit / 512 + 2048;
        command.args(["-c", WRAPPER, "sh", &blocks.to_string()]);
        command.arg(&self.program);
        for setting in SETTINGS {
            command.args(["-c", setting]);
        }
        command
            .args(args)
            .current_dir(directory)
            .env_clear()
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .env("PATH", PATH)
            .env("HOME", "/nonexistent")
            .env("LC_ALL", "C")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env(
                "GIT_CEILING_DIRECTORIES",
                directory.parent().unwrap_or(directory),
            )
            .env("GIT_ALLOW_PROTOCOL", "https:ssh")
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_ASKPASS", "/bin/false")
            .env("SSH_ASKPASS", "/bin/false")
            .env("SSH_ASKPASS_REQUIRE", "never")
            .env("GIT_LFS_SKIP_SMUDGE", "1")
            .env(
                "GIT_SSH_COMMAND",
                "ssh -oBatchMode=yes -oControlMaster=no -oControlPath=none -oConnectTimeout=20",
            )
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        command
    }

    /// Runs git to its end or to the end of its bounds; no process of it is left when this returns.
    pub(super) async fn run(&self, bounds: &Bounds<'_>, args: &[&str]) -> io::Result<End> {
        let mut child = self.command(bounds.directory, args).spawn()?;
        let leader = child
            .id()
            .and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let mut group = Group(leader);
        let output = tokio::spawn(keep(child.stdout.take(), ANSWER_MAX_BYTES));
        let errors = tokio::spawn(keep(child.stderr.take(), OUTPUT_MAX_BYTES));
        let stop = tokio::select! {
            biased;
            status = child.wait() => {
                let status = status?;
                // Its number may mean another process from here on.
                group.0 = None;
                let end = End::Exited { status, stdout: text(output).await, stderr: text(errors).await };
                return Ok(end);
            }
            () = bounds.abandoned.cancelled() => Stop::Abandoned,
            () = tokio::time::sleep_until(bounds.until) => Stop::TimedOut,
            () = outgrown(bounds.directory, self.size_limit) => Stop::TooLarge,
        };
        group.kill();
        reap(&mut child, &mut group).await;
        output.abort();
        errors.abort();
        Ok(End::Stopped(stop))
    }
}

/// Collects what is left of a killed group, as far as it is this process's to collect.
async fn reap(child: &mut Child, group: &mut Group) {
    let leader = group.0.take();
    if let Err(error) = child.wait().await {
        tracing::warn!(%error, "git cannot be waited for");
    }
    let Some(leader) = leader else { return };
    let end = Instant::now() + REAP;
    // Children of git come to this process only where it is the first of its namespace or a subreaper.
    while let Ok(found) = rustix::process::waitpgid(leader, WaitOptions::NOHANG) {
        if found.is_none() {
            if Instant::now() >= end {
                return;
            }
            sleep(Duration::from_millis(5)).await;
        }
    }
}

/// Returns when more than `limit` bytes of regular files lie below a directory (N-53).
async fn outgrown(directory: &Path, limit: u64) {
    loop {
        sleep(LOOK).await;
        if super::size::measure(directory, limit).await > limit {
            return;
        }
    }
}

/// Reads to the end and keeps the beginning.
async fn keep(stream: Option<impl AsyncRead + Unpin>, most: usize) -> Vec<u8> {
    let mut kept = Vec::new();
    let Some(mut stream) = stream else {
        return kept;
    };
    let mut chunk = vec![0; 8192];
    let mut truncated = false;
    while let Ok(read @ 1..) = stream.read(&mut chunk).await {
        let room = most.saturating_sub(kept.len());
        kept.extend_from_slice(&chunk[..read.min(room)]);
        truncated |= read > room;
    }
    if truncated {
        kept.extend_from_slice(TRUNCATED.as_bytes());
    }
    kept
}

async fn text(mut reader: tokio::task::JoinHandle<Vec<u8>>) -> String {
    let Ok(kept) = timeout(DRAIN, &mut reader).await else {
        reader.abort();
        return String::new();
    };
    String::from_utf8_lossy(&kept.unwrap_or_default()).into_owned()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[tokio::test]
    async fn n_52_output_is_kept_up_to_a_bound() {
        let short = keep(Some(&b"abc"[..]), OUTPUT_MAX_BYTES).await;
        assert_eq!(short, b"abc");
        let exact = vec![b'x'; OUTPUT_MAX_BYTES];
        assert_eq!(keep(Some(&exact[..]), OUTPUT_MAX_BYTES).await, exact);
        let long = vec![b'x'; 3 * OUTPUT_MAX_BYTES];
        let kept = keep(Some(&long[..]), OUTPUT_MAX_BYTES).await;
        assert_eq!(kept.len(), OUTPUT_MAX_BYTES + TRUNCATED.len());
        assert!(kept.ends_with(b"x\n[git output truncated]\n"));
    }

    #[tokio::test]
    async fn n_49_n_54_a_stopped_process_takes_its_group_along() {
        let temp = tempfile::tempdir().unwrap();
        let (alive, up) = (temp.path().join("alive"), temp.path().join("up"));
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        let kind = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, &alive, kind, mode, 0).unwrap();
        let program = temp.path().join("git");
        // A stand-in that tells what it was given, starts a deaf child, and stays; both hold the pipe.
        let script = "#!/bin/sh\nenv > env; exec 9> alive; (trap '' TERM; exec sleep 600) &\n\
                      echo up > up; wait\n";
        std::fs::write(&program, script).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let tool = GitTool {
            program,
            ..GitTool::default()
        };
        let abandoned = CancellationToken::new();
        let bounds = Bounds {
            directory: temp.path(),
            until: Instant::now() + Duration::from_secs(60),
            abandoned: &abandoned,
        };
        let ended = tokio::task::spawn_blocking(move || std::fs::read(alive));
        let started = async {
            while std::fs::read_to_string(&up).unwrap_or_default().is_empty() {
                tokio::task::yield_now().await;
            }
            abandoned.cancel();
        };
        let (end, ()) = tokio::join!(tool.run(&bounds, &[]), started);
        assert!(matches!(end.unwrap(), End::Stopped(Stop::Abandoned)));
        let ended = timeout(Duration::from_secs(10), ended).await;
        assert!(ended.is_ok(), "nothing of the group is left");
        let env = std::fs::read_to_string(temp.path().join("env")).unwrap();
        for want in [
            "GIT_TERMINAL_PROMPT=0",
            "GIT_ASKPASS=/bin/false",
            "GIT_CONFIG_NOSYSTEM=1",
            "GIT_CONFIG_GLOBAL=/dev/null",
            "GIT_ALLOW_PROTOCOL=https:ssh",
        ] {
            assert!(env.lines().any(|line| line == want), "{want} in {env}");
        }
        assert!(env.contains("BatchMode=yes"));
    }
}
