//! The directory: made for its owner only, held by one process, and remembering what was acknowledged.
//!
//! | file | content |
//! | --- | --- |
//! | `objects.redb` | everything that matters |
//! | `objects.redb.new` | an `objects.redb` in the making, removed at the next start |
//! | `lock` | locked for as long as a server has the directory; the number of its process |
//! | `acknowledged` | a version that has been acknowledged; the file must hold at least that |

use std::{
    fs::{DirBuilder, File, OpenOptions, TryLockError},
    io::{self, Read as _, Write as _},
    os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use super::StoreError;

/// Permissions of the directory: what is in it includes Secrets.
const DIRECTORY_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;
/// Most bytes read to find the process number in the lock file.
const PID_MAX_BYTES: u64 = 20;

/// A directory that this process holds; the hold ends with the value or with the process.
#[derive(Debug)]
pub(super) struct Directory {
    path: PathBuf,
    mark: File,
    _lock: File,
}

impl Directory {
    /// Makes the directory when it is missing and takes hold of it.
    pub(super) fn hold(path: &Path) -> Result<Self, StoreError> {
        DirBuilder::new()
            .recursive(true)
            .mode(DIRECTORY_MODE)
            .create(path)
            .map_err(unusable("create directory", path))?;
        let lock = path.join("lock");
        let mut file = open(&lock, "open the lock file")?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(StoreError::InUse {
                    directory: path.to_owned(),
                    pid: read_pid(&mut file),
                });
            }
            Err(TryLockError::Error(error)) => return Err(unusable("lock", &lock)(error)),
        }
        // Nobody but a person who wonders reads the number, so a torn one does no harm.
        file.set_len(0)
            .and_then(|()| writeln!(file, "{}", std::process::id()))
            .map_err(unusable("write", &lock))?;
        let mark = open(&path.join("acknowledged"), "open")?;
        Ok(Self {
            path: path.to_owned(),
            mark,
            _lock: file,
        })
    }

    /// Returns the path of the file with the objects.
    pub(super) fn objects(&self) -> PathBuf {
        self.path.join("objects.redb")
    }

    /// Opens an empty file that becomes the one with the objects when it is [published](Self::publish).
    pub(super) fn draft(&self) -> Result<File, StoreError> {
        let path = self.draft_path();
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(unusable("remove", &path)(error));
            }
            _ => {}
        }
        open(&path, "create")
    }

    /// Gives the draft its name, for good.
    pub(super) fn publish(&self) -> Result<(), StoreError> {
        std::fs::rename(self.draft_path(), self.objects())
            .and_then(|()| File::open(&self.path)?.sync_all())
            .map_err(unusable("rename a file in", &self.path))
    }

    fn draft_path(&self) -> PathBuf {
        self.path.join("objects.redb.new")
    }

    /// Returns a version that was acknowledged, zero when none is known.
    ///
    /// The file is written after every commit and never forced out: a killed process loses none of it, a machine
    /// that loses power goes back by some seconds. It is a lower bound either way.
    pub(super) fn acknowledged(&self) -> u64 {
        let mut bytes = [0; 16];
        match self.mark.read_exact_at(&mut bytes, 0) {
            Ok(()) => read_mark(bytes),
            Err(_) => 0,
        }
    }

    /// Notes a version just before it is acknowledged.
    pub(super) fn acknowledge(&self, version: u64) -> io::Result<()> {
        self.mark.write_all_at(&write_mark(version), 0)
    }
}

/// The version and its complement, so that a damaged mark is not taken for a version.
fn write_mark(version: u64) -> [u8; 16] {
    ((u128::from(!version) << 64) | u128::from(version)).to_le_bytes()
}

fn read_mark(bytes: [u8; 16]) -> u64 {
    let both = u128::from_le_bytes(bytes);
    let low = |number: u128| u64::try_from(number & u128::from(u64::MAX)).unwrap_or_default();
    let version = low(both);
    if low(both >> 64) == !version {
        version
    } else {
        0
    }
}

fn open(path: &Path, doing: &'static str) -> Result<File, StoreError> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(FILE_MODE)
        .open(path)
        .map_err(unusable(doing, path))
}

fn read_pid(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.take(PID_MAX_BYTES).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

pub(super) fn unusable(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StoreError {
    move |error| StoreError::Unusable {
        doing,
        path: path.to_owned(),
        source: Arc::new(error),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_held_directory_is_private_and_names_its_holder() {
        let room = tempfile::tempdir().unwrap();
        let path = room.path().join("a/b");
        let held = Directory::hold(&path).unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, DIRECTORY_MODE);
        let refused = Directory::hold(&path).unwrap_err();
        assert!(
            matches!(&refused, StoreError::InUse { pid: Some(pid), .. } if *pid == std::process::id()),
            "{refused}"
        );
        drop(held);
        Directory::hold(&path).unwrap();
    }

    #[test]
    fn a_mark_outlives_its_holder_and_a_damaged_one_says_nothing() {
        let room = tempfile::tempdir().unwrap();
        let held = Directory::hold(room.path()).unwrap();
        assert_eq!(held.acknowledged(), 0);
        held.acknowledge(41).unwrap();
        held.acknowledge(42).unwrap();
        drop(held);
        let held = Directory::hold(room.path()).unwrap();
        assert_eq!(held.acknowledged(), 42);
        held.mark.write_all_at(&[9], 3).unwrap();
        assert_eq!(held.acknowledged(), 0);
    }
}
