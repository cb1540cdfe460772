//! One file per state. The only place of the crate that touches a disk.
#![expect(
    clippy::disallowed_types,
    reason = "a store has files; everything else of the crate has none"
)]

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::driver::Store;
use crate::graph::is_definition_name;

/// Keeps every state as `<name>.json` in a directory.
///
/// A state is written beside the old one and renamed onto it, with file and
/// directory forced to the disk: after a crash the old text or the new one is
/// there. One process at a time may use the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryStore {
    directory: PathBuf,
}

/// Why a state cannot be read from or written to a directory.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DirectoryError {
    /// The name would leave the directory.
    #[error("{0:?} is not a valid name of a state")]
    Name(String),
    /// The system refuses.
    #[error("cannot access {}", .path.display())]
    Access {
        /// What was accessed.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
}

impl DirectoryStore {
    /// Uses a directory, and creates it when it is missing.
    ///
    /// # Errors
    ///
    /// Fails when it is missing and cannot be created.
    pub fn open(directory: impl Into<PathBuf>) -> Result<Self, DirectoryError> {
        let directory = directory.into();
        fs::create_dir_all(&directory).map_err(failed(&directory))?;
        Ok(Self { directory })
    }

    fn path(&self, name: &str) -> Result<PathBuf, DirectoryError> {
        if !is_definition_name(name) {
            return Err(DirectoryError::Name(name.to_owned()));
        }
        Ok(self.directory.join(format!("{name}.json")))
    }
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> DirectoryError {
    let path = path.to_owned();
    |source| DirectoryError::Access { path, source }
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

impl Store for DirectoryStore {
    type Error = DirectoryError;

    fn load(&mut self, name: &str) -> Result<Option<String>, DirectoryError> {
        let path = self.path(name)?;
        match fs::read_to_string(&path) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed(&path)(error)),
        }
    }

    fn save(&mut self, name: &str, text: &str) -> Result<(), DirectoryError> {
        let path = self.path(name)?;
        // No valid name begins with a dot, so this is never taken for a state.
        let new = self.directory.join(format!(".{name}.new"));
        write(&new, text).map_err(failed(&new))?;
        fs::rename(&new, &path).map_err(failed(&path))?;
        let directory = File::open(&self.directory).and_then(|opened| opened.sync_all());
        directory.map_err(failed(&self.directory))
    }
}
