//! What the kernel tells about processes.

use std::fs;
use std::io;

/// One process as `/proc/<pid>/stat` describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stat {
    pub(super) pid: i32,
    pub(super) zombie: bool,
    pub(super) parent: i32,
    pub(super) group: i32,
    pub(super) session: i32,
    /// Clock ticks after boot; with the pid it names a process for good.
    pub(super) started: u64,
}

impl Stat {
    /// Reads one process; none when it is gone.
    pub(super) fn read(pid: i32) -> Option<Self> {
        parse(&fs::read(format!("/proc/{pid}/stat")).ok()?)
    }
}

/// The name in parentheses may hold anything, so fields count from its end.
fn parse(line: &[u8]) -> Option<Stat> {
    let open = line.iter().position(|byte| *byte == b'(')?;
    let close = line.iter().rposition(|byte| *byte == b')')?;
    let pid = std::str::from_utf8(&line[..open])
        .ok()?
        .trim()
        .parse()
        .ok()?;
    let rest = std::str::from_utf8(&line[close + 1..]).ok()?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?;
    Some(Stat {
        pid,
        zombie: matches!(state, "Z" | "X" | "x"),
        parent: fields.next()?.parse().ok()?,
        group: fields.next()?.parse().ok()?,
        session: fields.next()?.parse().ok()?,
        started: fields.nth(15)?.parse().ok()?,
    })
}

/// Returns the direct children of a process.
pub(super) fn children(pid: i32) -> Vec<i32> {
    match listed_children(pid) {
        Some(children) => children,
        None => scanned_children(pid),
    }
}

/// Asks each thread for its children; none when this kernel does not keep such lists.
fn listed_children(pid: i32) -> Option<Vec<i32>> {
    let mut found = Vec::new();
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return Some(found);
    };
    for thread in threads.flatten() {
        match fs::read_to_string(thread.path().join("children")) {
            Ok(list) => found.extend(
                list.split_ascii_whitespace()
                    .filter_map(|pid| pid.parse::<i32>().ok()),
            ),
            // The thread may be gone, or the kernel keeps no lists at all.
            Err(_) if thread.path().exists() => return None,
            Err(_) => {}
        }
    }
    Some(found)
}

fn scanned_children(pid: i32) -> Vec<i32> {
    all()
        .unwrap_or_default()
        .into_iter()
        .filter(|stat| stat.parent == pid)
        .map(|stat| stat.pid)
        .collect()
}

/// Returns all processes that are shown.
pub(super) fn all() -> io::Result<Vec<Stat>> {
    let entries = fs::read_dir("/proc")?.flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    Ok(pids.filter_map(Stat::read).collect())
}

/// Tells whether a process was started with exactly this `NAME=value`.
pub(super) fn has_variable(pid: i32, variable: &str) -> bool {
    variables(pid, |found| found == variable.as_bytes())
}

/// Tells whether a process was started with a variable that begins like this.
pub(super) fn has_variable_from(pid: i32, start: &str) -> bool {
    variables(pid, |found| found.starts_with(start.as_bytes()))
}

/// How often an environment that shows nothing is read again.
const READ_AGAIN: usize = 200;

/// In the middle of `exec` a process shows no environment for a moment, so nothing is not believed at once.
fn variables(pid: i32, wanted: impl Fn(&[u8]) -> bool) -> bool {
    for _ in 0..READ_AGAIN {
        let Ok(environment) = fs::read(format!("/proc/{pid}/environ")) else {
            return false;
        };
        if !environment.is_empty() {
            return environment.split(|byte| *byte == 0).any(wanted);
        }
        if Stat::read(pid).is_none_or(|stat| stat.zombie) {
            return false;
        }
        std::thread::yield_now();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_forge_fields() {
        let line = b"7 (a) Z 1 (x) S 3 7 5 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 999 0 0\n";
        let stat = parse(line).unwrap();
        assert_eq!(
            (stat.pid, stat.parent, stat.group, stat.session),
            (7, 3, 7, 5)
        );
        assert_eq!((stat.zombie, stat.started), (false, 999));
        assert_eq!(parse(b"7 (cut"), None);
    }

    #[test]
    fn both_ways_to_find_children_agree() {
        let me = i32::try_from(std::process::id()).unwrap();
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        assert!(listed_children(me).unwrap().contains(&pid));
        assert!(scanned_children(me).contains(&pid));
        assert_eq!(Stat::read(pid).unwrap().parent, me);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!children(me).contains(&pid));
        assert_eq!(Stat::read(pid), None);
    }
}
