//! The directory in which a listener keeps its secrets.

use std::{
    fs::{self, DirBuilder, File, OpenOptions, TryLockError},
    io::{self, Read as _, Write as _},
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use rustls::crypto::ring;

use super::ListenError;

const LOCK: &str = "lock";
const TOKEN: &str = "token";
/// Random bytes in a token.
const TOKEN_BYTES: usize = 32;
/// Largest file that is read: all are far smaller, unless something else lies there.
const FILE_MAX_BYTES: u64 = 64 * 1024;
/// What a secret file may not grant.
const OTHERS: u32 = 0o077;

/// A directory only its owner can enter, held by one listener at a time.
pub(super) struct StateDir {
    path: PathBuf,
    /// Holds the lock for as long as it is open.
    _lock: File,
}

impl StateDir {
    /// Makes the directory if it is missing, and refuses one that others can look into.
    pub(super) fn open(path: &Path) -> Result<Self, ListenError> {
        let failed = |source| ListenError::State {
            path: path.to_owned(),
            source,
        };
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .map_err(failed)?;
        judge(path, &fs::metadata(path).map_err(failed)?)?;
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(path.join(LOCK))
            .map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(ListenError::InUse {
                    path: path.to_owned(),
                });
            }
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        }
        Ok(Self {
            path: path.to_owned(),
            _lock: lock,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Reads a file, refusing one that others can read or that somebody else put there.
    pub(super) fn read(&self, name: &str) -> Result<Option<String>, ListenError> {
        let path = self.path.join(name);
        let failed = |source| ListenError::State {
            path: path.clone(),
            source,
        };
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(failed(source)),
        };
        judge(&path, &file.metadata().map_err(failed)?)?;
        let mut text = String::new();
        file.take(FILE_MAX_BYTES)
            .read_to_string(&mut text)
            .map_err(failed)?;
        Ok(Some(text))
    }

    /// Writes a file that only its owner can read, whole or not at all.
    pub(super) fn write(&self, name: &str, text: &str) -> Result<PathBuf, ListenError> {
        let path = self.path.join(name);
        let draft = self.path.join(format!(".{name}.new"));
        replace(&draft, &path, text).map_err(|source| ListenError::State {
            path: path.clone(),
            source,
        })?;
        Ok(path)
    }

    /// Returns the administrator's token, drawn the first time.
    pub(super) fn token(&self) -> Result<String, ListenError> {
        if let Some(text) = self.read(TOKEN)? {
            let token = text.trim();
            if token.len() >= TOKEN_BYTES && token.bytes().all(|byte| byte.is_ascii_graphic()) {
                return Ok(token.to_owned());
            }
        }
        let mut bytes = [0; TOKEN_BYTES];
        let drawn = ring::default_provider().secure_random.fill(&mut bytes);
        drawn.map_err(|_| ListenError::State {
            path: self.path.join(TOKEN),
            source: io::Error::other("the system has no randomness to give"),
        })?;
        let token = URL_SAFE_NO_PAD.encode(bytes);
        self.write(TOKEN, &format!("{token}\n"))?;
        Ok(token)
    }

    /// Returns the port of the last time, if there was one.
    pub(super) fn port(&self) -> Option<u16> {
        let text = self.read("port").ok().flatten()?;
        text.trim().parse().ok().filter(|port| *port != 0)
    }
}

fn judge(path: &Path, found: &fs::Metadata) -> Result<(), ListenError> {
    let owner = found.uid();
    if owner != rustix::process::geteuid().as_raw() {
        return Err(ListenError::Foreign {
            path: path.to_owned(),
            owner,
        });
    }
    let mode = found.mode() & 0o777;
    if mode & OTHERS != 0 {
        return Err(ListenError::Exposed {
            path: path.to_owned(),
            mode,
        });
    }
    Ok(())
}

fn replace(draft: &Path, path: &Path, text: &str) -> io::Result<()> {
    // A draft of a crashed process may lie there; the lock says that nobody is writing it.
    match fs::remove_file(draft) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let mut file = OpenOptions::new()
        .create_new(true)
        .write(true)
        .mode(0o600)
        .open(draft)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(draft, path)
}
