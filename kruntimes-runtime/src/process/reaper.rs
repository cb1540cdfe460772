//! Who may be reaped, and the collection of orphans that end while their execution goes on.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use rustix::process::{Pid, WaitId, WaitIdOptions, getpid, set_child_subreaper, waitid};
use tokio::signal::unix::{SignalKind, signal};

use super::group::Exit;
use super::procfs::{Stat, children};
use super::warm::Forked;

/// Leaders that have not been reaped, of every supervisor in this process.
static LEADERS: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());

/// Shared by spawners, exclusive for the collection of orphans: a child that was just born and is not
/// yet in `LEADERS` must not be taken for an orphan.
static BIRTHS: RwLock<()> = RwLock::new(());

static OWNS_ALL: AtomicBool = AtomicBool::new(false);
static NEXT: AtomicU64 = AtomicU64::new(1);

/// How long ends of orphans gather before they are collected together.
const GATHER: Duration = Duration::from_millis(500);

/// Declares that this process has no children but those of this crate.
///
/// Orphans that cannot be told from somebody else's children are then reaped as well. For programs that
/// are nothing but a Runtime Server.
pub fn own_all_children() {
    OWNS_ALL.store(true, Ordering::Relaxed);
}

/// Reaps orphans that ended while their execution goes on; runs until it is dropped.
///
/// Wakes only when a child ends, and then gathers for half a second.
///
/// # Errors
///
/// Fails when the process cannot listen to SIGCHLD.
pub async fn reap_orphans() -> std::io::Result<()> {
    let mut ends = signal(SignalKind::child())?;
    while ends.recv().await.is_some() {
        tokio::time::sleep(GATHER).await;
        sweep();
    }
    Ok(())
}

/// Makes orphans of descendants our children.
pub(super) fn adopt_orphans() -> rustix::io::Result<()> {
    set_child_subreaper(Some(getpid()))
}

/// Number that no other group of this process has.
pub(super) fn next_number() -> u64 {
    NEXT.fetch_add(1, Ordering::Relaxed)
}

fn leaders() -> MutexGuard<'static, BTreeSet<i32>> {
    LEADERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a child and notes it as a leader before anybody could take it for an orphan.
pub(super) fn give_birth(
    command: &mut std::process::Command,
) -> std::io::Result<std::process::Child> {
    let _birth = BIRTHS.read().unwrap_or_else(PoisonError::into_inner);
    let child = command.spawn()?;
    leaders().insert(Pid::from_child(&child).as_raw_pid());
    Ok(child)
}

/// Forks a leader by way of another process and notes it before anybody could take it for an orphan.
pub(super) fn adopt(fork: impl FnOnce() -> std::io::Result<Forked>) -> std::io::Result<Forked> {
    let _birth = BIRTHS.read().unwrap_or_else(PoisonError::into_inner);
    let forked = fork()?;
    leaders().insert(forked.leader.as_raw_pid());
    Ok(forked)
}

/// Reaps a leader that has ended and lets go of its number in one step.
pub(super) fn bury(leader: Pid) -> std::io::Result<Exit> {
    let mut leaders = leaders();
    let status = waitid(WaitId::Pid(leader), WaitIdOptions::EXITED);
    leaders.remove(&leader.as_raw_pid());
    let status = status?.ok_or(std::io::ErrorKind::WouldBlock)?;
    let signal = status.terminating_signal();
    let exit = |number: i32| Exit::Signal(super::signal::name(number));
    Ok(signal.map_or_else(|| Exit::Code(status.exit_status().unwrap_or(-1)), exit))
}

/// Reaps a child that is no leader of a group any more.
pub(super) fn bury_child(child: &mut std::process::Child) -> std::io::Result<()> {
    let mut leaders = leaders();
    let status = child.wait();
    leaders.remove(&Pid::from_child(child).as_raw_pid());
    status.map(drop)
}

/// Returns our children that lead no group, which include all adopted orphans.
pub(super) fn strangers() -> Vec<Stat> {
    let all = children(getpid().as_raw_pid());
    let leaders = leaders();
    let strangers = all.into_iter().filter(|pid| !leaders.contains(pid));
    let strangers: Vec<i32> = strangers.collect();
    drop(leaders);
    strangers.into_iter().filter_map(Stat::read).collect()
}

/// Reaps one ended member that became our child; does nothing if it is not, or not any more.
pub(super) fn reap(member: Stat) {
    let _alone = BIRTHS.write().unwrap_or_else(PoisonError::into_inner);
    reap_alone(member);
}

/// Waits for the end of a member that was sent SIGKILL, if it is our child, and reaps it.
pub(super) fn wait_for(member: Stat) {
    let _alone = BIRTHS.write().unwrap_or_else(PoisonError::into_inner);
    if is_orphan(member) {
        collect(member, WaitIdOptions::EXITED);
    }
}

fn reap_alone(member: Stat) {
    if member.zombie && is_orphan(member) {
        collect(member, WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
    }
}

/// Tells whether the number still means the same process, which is our child and leads no group.
fn is_orphan(member: Stat) -> bool {
    let ours = getpid().as_raw_pid();
    let now = Stat::read(member.pid);
    now.is_some_and(|now| now.started == member.started && now.parent == ours)
        && !leaders().contains(&member.pid)
}

fn collect(member: Stat, options: WaitIdOptions) {
    if let Some(pid) = Pid::from_raw(member.pid) {
        // A failure means that it is reaped already, which is the aim.
        let _ = waitid(WaitId::Pid(pid), options);
    }
}

fn sweep() {
    // Zero when the session's leader is outside our PID namespace, as for a process that a container
    // runtime put into a running container; a `Pid` cannot be zero.
    let ours = Stat::read(getpid().as_raw_pid()).map_or(0, |own| own.session);
    let owns_all = OWNS_ALL.load(Ordering::Relaxed);
    let _alone = BIRTHS.write().unwrap_or_else(PoisonError::into_inner);
    for child in strangers() {
        let adopted = child.session != ours || leaders().contains(&child.group);
        if child.zombie && (adopted || owns_all) {
            reap_alone(child);
        }
    }
}
