//! Why a data directory cannot be opened, or can no longer be written to.

use std::{io, path::PathBuf, sync::Arc};

use thiserror::Error;

/// Why objects cannot be kept in a data directory.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Another server has the directory. It has to end first.
    #[error("data directory {} is in use by {}", directory.display(), holder(*pid))]
    InUse {
        /// The directory.
        directory: PathBuf,
        /// The process that holds it, when it could be found out.
        pid: Option<u32>,
    },
    /// The directory, or a file in it, cannot be made, opened or read.
    #[error("cannot {doing} {}", path.display())]
    Unusable {
        /// What was attempted.
        doing: &'static str,
        /// On which file or directory.
        path: PathBuf,
        /// Why it failed.
        source: Arc<io::Error>,
    },
    /// The file is something else, or its first bytes are damaged. It was not changed.
    #[error("{} is not a store of objects: {detail}", file.display())]
    Foreign {
        /// The file.
        file: PathBuf,
        /// What gave it away.
        detail: String,
    },
    /// The file was written by a newer program. It was not changed.
    #[error("{} has format {found}, the newest this program knows is {known}", file.display())]
    Newer {
        /// The file.
        file: PathBuf,
        /// The format of the file.
        found: u32,
        /// The newest known format.
        known: u32,
    },
    /// The content of the file contradicts its checksums or itself. Only a backup helps.
    #[error("{} is damaged: {detail}", file.display())]
    Damaged {
        /// The file.
        file: PathBuf,
        /// What does not fit.
        detail: String,
    },
    /// The file is older than what was acknowledged from this directory: it was damaged, removed or replaced.
    #[error(
        "{} ends at version {found}, but version {acknowledged} was acknowledged; \
         to go on with an older copy, remove the file `acknowledged` beside it",
        file.display()
    )]
    Lost {
        /// The file.
        file: PathBuf,
        /// The newest version in the file.
        found: u64,
        /// A version that clients have seen.
        acknowledged: u64,
    },
    /// The file holds objects of a kind that the server does not serve.
    #[error("{} holds objects of {resource}, which this server does not serve", file.display())]
    Unserved {
        /// The file.
        file: PathBuf,
        /// The resource, as `{plural}.{group}`.
        resource: String,
    },
    /// A write failed. Nothing was acknowledged since, and nothing is written any more.
    #[error("writing to {} failed, so no further writes are taken", file.display())]
    Write {
        /// The file.
        file: PathBuf,
        /// Why it failed.
        source: Cause,
    },
}

fn holder(pid: Option<u32>) -> String {
    match pid {
        Some(pid) => format!("process {pid}"),
        None => "another process".to_owned(),
    }
}

/// What the storage library reported.
#[derive(Clone, Debug, Error)]
#[error(transparent)]
pub struct Cause(Arc<CauseKind>);

#[derive(Debug, Error)]
enum CauseKind {
    #[error("{0}")]
    Storage(redb::Error),
    #[error("{0}")]
    Panic(String),
}

impl Cause {
    pub(super) fn panic(message: String) -> Self {
        Self(Arc::new(CauseKind::Panic(message)))
    }

    pub(super) fn of(error: impl Into<redb::Error>) -> Self {
        Self(Arc::new(CauseKind::Storage(error.into())))
    }
}
