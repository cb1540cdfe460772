//! What a process that was killed left running.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use rustix::process::{Pid, Signal, getpid, pidfd_send_signal};
use tokio::io::unix::AsyncFd;
use tokio::time::timeout;

use super::group::{MARK, ended, open};
use super::identity::Identity;
use super::procfs::{Stat, all, has_variable_from};

/// Looks for processes that were born while the others were stopped.
const ROUNDS: usize = 64;

/// Time for killed processes to be gone; only one that hangs in the kernel needs it.
const GONE_WITHIN: Duration = Duration::from_secs(5);

/// Why leftovers of a former life may still run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LeftoversError {
    /// The kernel does not show its processes.
    #[error("cannot look at the processes of this machine")]
    Unseen(#[source] io::Error),
    /// The caller may not end some, or they do not end.
    #[error("processes {pids:?} of an earlier life still run and cannot be ended")]
    Stay {
        /// Their numbers.
        pids: Vec<i32>,
    },
}

/// Kills everything that `former` started and that outlived it; returns how many processes that were.
///
/// Found are the leaders recorded in `records` (see [`Command::records`](super::Command::records)) with
/// their groups, whatever carries the mark of `former` in its environment, and all their descendants. A
/// number that means somebody else by now is left alone, because starts are compared as well. The calling
/// process and its ancestors are never taken. Not found is what has cleared its environment, left its
/// group and lost its parent.
///
/// `former` itself must have ended.
///
/// # Errors
///
/// [`LeftoversError`]; what could be ended is ended then.
pub async fn end_leftovers(former: &Identity, records: &Path) -> Result<usize, LeftoversError> {
    if !former.is_of_this_boot().map_err(LeftoversError::Unseen)? {
        return Ok(0);
    }
    let search = Search {
        mark: format!("{MARK}={}.", former.mark()),
        leaders: recorded(records),
    };
    let mut stopped = BTreeMap::new();
    for _ in 0..ROUNDS {
        let found = search.find().map_err(LeftoversError::Unseen)?;
        let fresh = |stat: &Stat| stopped.get(&stat.pid) != Some(&stat.started);
        let fresh: Vec<Stat> = found.into_iter().filter(fresh).collect();
        if fresh.is_empty() {
            break;
        }
        // Stopped first, so that none is born while the others are killed.
        for stat in fresh {
            if let Some(process) = open(stat) {
                let _ = pidfd_send_signal(process.get_ref(), Signal::STOP);
            }
            stopped.insert(stat.pid, stat.started);
        }
    }
    let stay = kill(&stopped).await;
    if stay.is_empty() {
        Ok(stopped.len())
    } else {
        Err(LeftoversError::Stay { pids: stay })
    }
}

/// Kills processes and returns those that do not end.
async fn kill(stopped: &BTreeMap<i32, u64>) -> Vec<i32> {
    let same = |(pid, started): (&i32, &u64)| {
        Stat::read(*pid).filter(|stat| stat.started == *started && !stat.zombie)
    };
    let living: Vec<(i32, AsyncFd<_>)> = stopped
        .iter()
        .filter_map(same)
        .filter_map(|stat| Some((stat.pid, open(stat)?)))
        .collect();
    for (_, process) in &living {
        let _ = pidfd_send_signal(process.get_ref(), Signal::KILL);
    }
    let mut stay = Vec::new();
    let deadline = tokio::time::Instant::now() + GONE_WITHIN;
    for (pid, process) in &living {
        let left = deadline.saturating_duration_since(tokio::time::Instant::now());
        if timeout(left, ended(process)).await.is_err() {
            stay.push(*pid);
        }
    }
    stay
}

struct Search {
    /// `NAME=value` up to the part that tells groups apart.
    mark: String,
    /// Recorded leaders by number, with their starts.
    leaders: BTreeMap<i32, u64>,
}

impl Search {
    /// Finds the living leftovers.
    fn find(&self) -> io::Result<Vec<Stat>> {
        let all: BTreeMap<i32, Stat> = all()?.into_iter().map(|stat| (stat.pid, stat)).collect();
        let ours = ancestry(&all);
        let is_leader = |stat: &Stat| self.leaders.get(&stat.pid) == Some(&stat.started);
        let has_mark = |stat: &Stat| has_variable_from(stat.pid, &self.mark);
        let mut found: BTreeSet<i32> = all
            .values()
            .filter(|stat| !ours.contains(&stat.pid))
            .filter(|stat| is_leader(stat) || has_mark(stat))
            .map(|stat| stat.pid)
            .collect();
        // While its leader exists a group number means that leader's group.
        let groups: BTreeSet<i32> = found
            .iter()
            .copied()
            .filter(|pid| all[pid].group == *pid)
            .collect();
        loop {
            let belongs = |stat: &&Stat| {
                !found.contains(&stat.pid)
                    && !ours.contains(&stat.pid)
                    && (groups.contains(&stat.group) || found.contains(&stat.parent))
            };
            let more: Vec<i32> = all.values().filter(belongs).map(|stat| stat.pid).collect();
            if more.is_empty() {
                break;
            }
            found.extend(more);
        }
        let stats = found.into_iter().filter_map(|pid| all.get(&pid).copied());
        Ok(stats.filter(|stat| !stat.zombie).collect())
    }
}

/// The calling process and those it descends from.
fn ancestry(all: &BTreeMap<i32, Stat>) -> BTreeSet<i32> {
    let mut line = BTreeSet::new();
    let mut next = Some(getpid().as_raw_pid());
    while let Some(pid) = next.filter(|pid| line.insert(*pid)) {
        next = all.get(&pid).map(|stat| stat.parent);
    }
    line
}

fn recorded(records: &Path) -> BTreeMap<i32, u64> {
    let Ok(entries) = fs::read_dir(records) else {
        return BTreeMap::new();
    };
    let leader = |entry: fs::DirEntry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let started = fs::read_to_string(entry.path()).ok()?.parse().ok()?;
        Some((pid, started))
    };
    entries.flatten().filter_map(leader).collect()
}

/// Notes a leader in a directory, where [`end_leftovers`] finds it.
pub(super) fn record(records: &Path, leader: Pid) -> io::Result<std::path::PathBuf> {
    let pid = leader.as_raw_pid();
    let started = Stat::read(pid).map_or(0, |stat| stat.started);
    let path = records.join(pid.to_string());
    fs::write(&path, started.to_string())?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader};
    use std::os::unix::process::CommandExt as _;
    use std::process::{Child, Command, Stdio};

    use super::*;

    /// A process that has lived and is gone.
    fn former() -> Identity {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let identity = Identity::of(child.id()).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        identity
    }

    /// Starts a shell that has said so, with what it started.
    fn shell(script: &str, mark: &str) -> (Child, Vec<u32>) {
        let mut child = Command::new("bash")
            .args(["-c", script])
            .env(MARK, mark)
            .process_group(0)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        out.read_line(&mut line).unwrap();
        let pids = line.split_whitespace().map(|pid| pid.parse().unwrap());
        (child, pids.collect())
    }

    #[tokio::test]
    async fn everything_with_the_mark_is_ended_and_nothing_else() {
        let (former, records) = (former(), tempfile::tempdir().unwrap());
        let mark = format!("{}.1", former.mark());
        // One in the group, one in a session of its own, one that cleared its environment.
        let script = "sleep 600 & a=$!; setsid sleep 600 & b=$!; env -i sleep 600 & c=$!
            echo $$ $a $b $c; wait";
        let (mut ours, pids) = shell(script, &mark);
        let members: Vec<Identity> = pids.iter().map(|pid| Identity::of(*pid).unwrap()).collect();
        let next = format!("{}0.1", former.mark());
        let strangers = [next.as_str(), "1-1.1"];
        let strangers = strangers.map(|mark| shell("echo $$; exec sleep 600", mark).0);
        assert_eq!(members.len(), 4);
        let count = end_leftovers(&former, records.path()).await.unwrap();
        // `setsid` may have forked.
        assert!((4..=5).contains(&count), "{count}");
        assert!(members.iter().all(|member| !member.is_alive()));
        ours.wait().unwrap();
        assert_eq!(end_leftovers(&former, records.path()).await.unwrap(), 0);
        for mut stranger in strangers {
            assert!(stranger.try_wait().unwrap().is_none());
            stranger.kill().unwrap();
            stranger.wait().unwrap();
        }
    }

    #[tokio::test]
    async fn a_recorded_leader_without_a_mark_is_ended_but_not_who_has_its_number_now() {
        let (former, records) = (former(), tempfile::tempdir().unwrap());
        let start = || shell("echo $$; exec env -i sleep 600", "1-1.1");
        let ((mut ours, _), (mut reused, _)) = (start(), start());
        let pid = |child: &Child| Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
        record(records.path(), pid(&ours)).unwrap();
        let path = record(records.path(), pid(&reused)).unwrap();
        fs::write(path, "1").unwrap();
        assert_eq!(end_leftovers(&former, records.path()).await.unwrap(), 1);
        ours.wait().unwrap();
        assert!(reused.try_wait().unwrap().is_none());
        reused.kill().unwrap();
        reused.wait().unwrap();
    }
}
