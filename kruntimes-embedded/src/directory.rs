//! Where the Pods of an engine live, and what of it is left at the end.

use std::path::{Path, PathBuf};

use crate::engine::{Options, StartError};
use crate::home::Home;

/// What the end of the engine left behind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShutdownReport {
    /// Directory that was kept.
    pub kept: Option<PathBuf>,
    /// Why the directory could not be removed.
    pub problem: Option<String>,
}

/// The directory of the engine's Pods.
#[derive(Debug)]
pub(crate) struct RuntimeDirectory {
    path: PathBuf,
    temporary: Option<tempfile::TempDir>,
    keep: bool,
    /// Belongs to an engine that stays, which says itself where it lives.
    stays: bool,
}

impl RuntimeDirectory {
    /// Makes the directory that the options ask for; in the home, when there is one.
    pub(crate) fn new(options: &Options, home: Option<&Home>) -> Result<Self, StartError> {
        let refused = |path: &Path, source| StartError::Directory {
            path: path.to_owned(),
            source,
        };
        if let Some(path) = home
            .map(Home::pods)
            .as_ref()
            .or(options.runtime_dir.as_ref())
        {
            std::fs::create_dir_all(path).map_err(|error| refused(path, error))?;
            let path = path.canonicalize().map_err(|error| refused(path, error))?;
            return Ok(Self {
                path,
                temporary: None,
                keep: options.keep,
                stays: home.is_some(),
            });
        }
        let temporary = tempfile::Builder::new()
            .prefix("krt-")
            .tempdir()
            .map_err(|error| refused(&std::env::temp_dir(), error))?;
        Ok(Self {
            path: temporary.path().to_owned(),
            temporary: Some(temporary),
            keep: options.keep,
            stays: false,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Removes what is temporary, and tells what stays.
    pub(crate) fn close(mut self) -> ShutdownReport {
        let mut report = ShutdownReport::default();
        match self.temporary.take() {
            Some(temporary) if self.keep => report.kept = Some(temporary.keep()),
            Some(temporary) => {
                report.problem = temporary.close().err().map(|error| error.to_string());
            }
            None if self.stays => {}
            None => report.kept = Some(self.path),
        }
        report
    }
}
