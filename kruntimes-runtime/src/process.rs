//! Process groups: start, notice the end, leave nothing behind.
//!
//! A [`Group`] is one program and everything it starts. Three facts make its end exact:
//!
//! - The leader is reaped last. A zombie keeps its number, so the group id cannot come to mean
//!   somebody else's processes while signals are sent to it.
//! - The calling process is a child subreaper: a descendant whose parent died becomes our child. The
//!   members are found by descent from the leader and from such adopted children; an environment
//!   variable ([`MARK`]) that every descendant inherits says whose they are.
//! - Waiting is done on pidfds, never by asking again and again.
//!
//! **Sharing the process.** Other code may have children too (tokio's, a host's). Only these are ever
//! reaped here: leaders of groups, members of a group that was found as above, adopted children in
//! the process group of a live leader, and adopted children of another session than ours, which safe
//! Rust cannot start. A program that does nothing else may say so with [`own_all_children`].
//!
//! **After a kill.** When this process itself is killed, groups live on. [`end_leftovers`] lets the next
//! life end them, given the [`Identity`] of the former one.

mod group;
mod identity;
mod leftovers;
mod procfs;
mod reaper;
mod signal;
mod warm;

pub use group::{Command, Exit, Group, MARK, Pipes, SpawnError};
pub use identity::{Identity, NoIdentity};
pub use leftovers::{LeftoversError, end_leftovers};
pub use reaper::{own_all_children, reap_orphans};
pub use signal::unblock_signals;
pub use warm::Warm;
