//! The mask of signals a process starts with, and names of signals for messages.

use nix::sys::signal::SigSet;

/// Lets every signal through that the starter of this process had blocked.
///
/// A mask outlives `exec`, so a program started by a careless supervisor would never hear that a child
/// ended, nor be told to stop, and would hand the same mask to everything it runs. For the first lines
/// of a binary, before it has other threads: later threads inherit the mask of their creator.
///
/// # Errors
///
/// Fails when the kernel refuses, which it does not do for a valid set.
pub fn unblock_signals() -> std::io::Result<()> {
    Ok(SigSet::all().thread_unblock()?)
}

/// Returns the conventional name, such as `SIGKILL`, or the number.
pub(super) fn name(number: i32) -> String {
    let name = match number {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        5 => "SIGTRAP",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL",
        10 => "SIGUSR1",
        11 => "SIGSEGV",
        12 => "SIGUSR2",
        13 => "SIGPIPE",
        14 => "SIGALRM",
        15 => "SIGTERM",
        24 => "SIGXCPU",
        25 => "SIGXFSZ",
        31 => "SIGSYS",
        other => return format!("signal {other}"),
    };
    name.to_owned()
}
