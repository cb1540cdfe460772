//! The repository on disk.

use std::path::{Path, PathBuf};
use std::{fs, io};

/// Why a file or directory of the repository could not be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot access {}", path.display())]
pub(crate) struct Error {
    path: PathBuf,
    source: io::Error,
}

impl Error {
    /// Turns an I/O error about `path` into this error.
    pub(crate) fn at(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self { path, source }
    }
}

/// Returns the directory of the workspace manifest.
pub(crate) fn path() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

/// Returns the files below `directory`, sorted, without what git does not hold.
///
/// # Errors
///
/// Fails when a directory cannot be read.
pub(crate) fn files(directory: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut found = Vec::new();
    let mut open = vec![directory.to_owned()];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(&next).map_err(Error::at(&next))? {
            let entry = entry.map_err(Error::at(&next))?;
            let kind = entry.file_type().map_err(Error::at(&next))?;
            let name = entry.file_name();
            if kind.is_dir() {
                if name != "target" && name != ".git" {
                    open.push(entry.path());
                }
            } else if kind.is_file() && name != ".git" {
                found.push(entry.path());
            }
        }
    }
    found.sort();
    Ok(found)
}
