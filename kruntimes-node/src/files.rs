//! The only directories runtimed touches: one per Run, below the workspace root (node, section 6).

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags};

use crate::plan::SCRIPT;

/// Mode of a Run's directory: the group shares it with the Runtime container (N-39).
const SHARED: u32 = 0o2770;
/// Mode of a private `TMPDIR` (N-69).
const PRIVATE: u32 = 0o700;
/// Mode of the tool cache, which all users of the Pod share (N-261).
const OPEN: u32 = 0o777;
/// Entries up to which a directory is removed on the spot.
const FEW: usize = 16;

/// The workspace root of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeDirs {
    workspace: PathBuf,
}

/// A Run UID that is no single path component (N-40).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("run UID {} is not a safe file name", kruntimes_core::message::quoted(.0))]
pub(crate) struct UnsafeUid(String);

/// The directory of one Run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RunDir {
    path: PathBuf,
    tool_cache: PathBuf,
}

impl Default for NodeDirs {
    fn default() -> Self {
        Self::new("/workspace")
    }
}

impl NodeDirs {
    /// Uses `workspace`, which the Runtime Server must see under the same absolute path.
    pub fn new(workspace: impl Into<PathBuf>) -> Self {
        Self {
            workspace: workspace.into(),
        }
    }

    /// Returns the workspace root.
    pub fn workspace(&self) -> &Path {
        &self.workspace
    }

    fn tool_cache(&self) -> PathBuf {
        self.workspace.join(".kruntimes").join("tool-cache")
    }

    /// Names the directory of a Run.
    pub(crate) fn run(&self, uid: &str) -> Result<RunDir, UnsafeUid> {
        if uid.is_empty() || uid == "." || uid == ".." || uid.contains(['/', '\\', '\0']) {
            return Err(UnsafeUid(uid.to_owned()));
        }
        Ok(RunDir {
            path: self.workspace.join(uid),
            tool_cache: self.tool_cache(),
        })
    }

    /// Makes what all Runs share.
    pub(crate) fn make_shared(&self) -> io::Result<()> {
        fs::create_dir_all(self.tool_cache())?;
        chmod(&self.tool_cache(), OPEN)
    }

    /// Removes the directories of Runs that are not in `keep`, and leaves everything else (N-127).
    pub(crate) fn sweep(&self, keep: &BTreeSet<String>) {
        let entries = match fs::read_dir(&self.workspace) {
            Ok(entries) => entries,
            Err(error) => {
                tracing::warn!(path = %self.workspace.display(), %error, "workspace cannot be read");
                return;
            }
        };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let orphan = name
                .to_str()
                .is_some_and(|name| has_uid_form(name) && !keep.contains(name));
            if orphan && let Err(error) = remove_any(&entry.path()) {
                let path = entry.path();
                tracing::warn!(path = %path.display(), %error, "directory of a former run stays");
            }
        }
    }
}

/// Tells whether a name has the form the API server gives to UIDs: 8-4-4-4-12 hex digits.
fn has_uid_form(name: &str) -> bool {
    let groups: Vec<&str> = name.split('-').collect();
    groups.iter().map(|group| group.len()).eq([8, 4, 4, 4, 12])
        && groups.concat().bytes().all(|byte| byte.is_ascii_hexdigit())
}

impl RunDir {
    /// Working directory of the process.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// File the task writes its outputs to (N-38).
    pub(crate) fn outputs(&self) -> PathBuf {
        self.path.join("outputs")
    }

    /// Private directory for temporary files.
    pub(crate) fn tmp(&self) -> PathBuf {
        self.path.join(".tmp")
    }

    /// Directory all Runs of the Pod share.
    pub(crate) fn tool_cache(&self) -> &Path {
        &self.tool_cache
    }

    /// Makes an empty directory and writes the script, if any; whatever was there is removed (N-37, N-42).
    ///
    /// Blocks for a few file operations of bounded size.
    pub(crate) fn prepare(&self, script: Option<&str>) -> io::Result<()> {
        if let Some(root) = self.path.parent() {
            fs::create_dir_all(root)?;
        }
        remove_any(&self.path)?;
        DirBuilder::new().mode(0o770).create(&self.path)?;
        chmod(&self.path, SHARED)?;
        DirBuilder::new().mode(PRIVATE).create(self.tmp())?;
        let Some(script) = script else { return Ok(()) };
        let dir = self.open()?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let mode = Mode::from_raw_mode(0o644);
        let fd = rustix::fs::openat(&dir, SCRIPT, flags | OFlags::CLOEXEC, mode)?;
        // The process mask must not decide what the Runtime container can read.
        rustix::fs::fchmod(&fd, mode)?;
        File::from(fd).write_all(script.as_bytes())
    }

    /// Removes what an earlier attempt reported (N-73).
    pub(crate) fn reset(&self) -> io::Result<()> {
        remove_any(&self.outputs())
    }

    fn open(&self) -> io::Result<rustix::fd::OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(rustix::fs::open(&self.path, flags, Mode::empty())?)
    }

    /// Opens the outputs file for reading. Never blocks and never follows a link (N-132).
    ///
    /// `Ok(None)` when there is none; an error of kind `InvalidInput` when it is no regular file.
    pub(crate) fn open_outputs(&self) -> io::Result<Option<File>> {
        let no_file =
            || io::Error::new(io::ErrorKind::InvalidInput, "outputs is not a regular file");
        let missing = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
        let dir = match self.open() {
            Ok(dir) => dir,
            Err(error) if missing(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        let kind = match rustix::fs::statat(&dir, "outputs", AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => FileType::from_raw_mode(stat.st_mode),
            Err(rustix::io::Errno::NOENT) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        if kind != FileType::RegularFile {
            return Err(no_file());
        }
        // The name may have changed its meaning since: open it so that nothing can block or lead away.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match rustix::fs::openat(&dir, "outputs", flags, Mode::empty()) {
            Ok(fd) => File::from(fd),
            Err(rustix::io::Errno::NOENT) => return Ok(None),
            Err(rustix::io::Errno::LOOP) => return Err(no_file()),
            Err(error) => return Err(error.into()),
        };
        if file.metadata()?.is_file() {
            Ok(Some(file))
        } else {
            Err(no_file())
        }
    }

    /// Removes the directory with everything in it; a failure is logged (N-126).
    pub(crate) async fn remove(&self) {
        let removed = if is_small(&self.path) {
            remove_any(&self.path)
        } else {
            let path = self.path.clone();
            tokio::task::spawn_blocking(move || remove_any(&path))
                .await
                .unwrap_or_else(|error| Err(io::Error::other(error)))
        };
        if let Err(error) = removed {
            tracing::warn!(path = %self.path.display(), %error, "directory of a run stays");
        }
    }
}

fn chmod(path: &Path, mode: u32) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

/// Removes a file, a link or a tree, following nothing; what is not there is removed already.
fn remove_any(path: &Path) -> io::Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Tells whether a tree has few entries and is shallow, so that removing it takes no time to speak of.
fn is_small(path: &Path) -> bool {
    let count = |path: &Path| fs::read_dir(path).map_or(0, |entries| entries.take(FEW + 1).count());
    let Ok(entries) = fs::read_dir(path) else {
        return true;
    };
    let mut total = 0;
    for entry in entries.flatten() {
        total += 1;
        let nested = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if total > FEW || (nested && count(&entry.path()) > 0) {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn dirs() -> (tempfile::TempDir, NodeDirs) {
        let temp = tempfile::tempdir().unwrap();
        let dirs = NodeDirs::new(temp.path().join("workspace"));
        (temp, dirs)
    }

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn n_40_a_uid_is_one_path_component() {
        let dirs = NodeDirs::default();
        for uid in ["", ".", "..", "a/b", "../x", "a\0", "a\\b"] {
            assert!(dirs.run(uid).is_err(), "{uid:?}");
        }
        let dir = dirs.run("u-1").unwrap();
        assert_eq!(dir.path(), Path::new("/workspace/u-1"));
    }

    #[test]
    fn n_37_n_42_preparation_starts_from_nothing() {
        let (_temp, dirs) = dirs();
        let dir = dirs.run("u").unwrap();
        for text in ["first", ""] {
            dir.prepare(Some(text)).unwrap();
            let script = dir.path().join("script");
            assert_eq!(fs::read_to_string(&script).unwrap(), text, "N-46");
            assert_eq!(mode(&script), 0o644);
            assert_eq!(mode(dir.path()), 0o770);
            assert_eq!(mode(&dir.tmp()), 0o700, "N-69");
            fs::write(dir.path().join("left"), "x").unwrap();
        }
        dir.prepare(None).unwrap();
        let names: Vec<_> = fs::read_dir(dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(names, [".tmp"], "N-41");
    }

    #[test]
    fn a_link_in_place_of_the_directory_is_replaced_not_followed() {
        let (temp, dirs) = dirs();
        let outside = temp.path().join("outside");
        fs::create_dir(&outside).unwrap();
        fs::create_dir(dirs.workspace()).unwrap();
        symlink(&outside, dirs.workspace().join("u")).unwrap();
        let dir = dirs.run("u").unwrap();
        dir.prepare(Some("x")).unwrap();
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
        assert!(dir.path().join("script").is_file());
    }

    #[test]
    fn n_132_only_a_regular_outputs_file_is_read() {
        let (temp, dirs) = dirs();
        let dir = dirs.run("u").unwrap();
        assert!(dir.open_outputs().unwrap().is_none(), "no directory");
        dir.prepare(None).unwrap();
        assert!(dir.open_outputs().unwrap().is_none(), "no file");
        fs::write(dir.outputs(), "A=1").unwrap();
        assert!(dir.open_outputs().unwrap().is_some());
        let secret = temp.path().join("secret");
        fs::write(&secret, "A=1").unwrap();
        for make in [
            &(|path: &Path| fs::create_dir(path)) as &dyn Fn(&Path) -> io::Result<()>,
            &|path| symlink(&secret, path),
            &|path| {
                let mode = Mode::from_raw_mode(0o600);
                Ok(rustix::fs::mknodat(
                    rustix::fs::CWD,
                    path,
                    FileType::Fifo,
                    mode,
                    0,
                )?)
            },
        ] {
            dir.reset().unwrap();
            make(&dir.outputs()).unwrap();
            let error = dir.open_outputs().unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        }
        dir.reset().unwrap();
        assert!(secret.exists(), "a link is removed, not what it points to");
    }

    #[test]
    fn n_127_only_directories_of_former_runs_are_swept() {
        let (_temp, dirs) = dirs();
        dirs.make_shared().unwrap();
        let (kept, old) = (
            "6f1c2d3e-0000-4000-8000-000000000001",
            "6f1c2d3e-0000-4000-8000-000000000002",
        );
        for name in [kept, old, "persistent", "lost+found"] {
            fs::create_dir(dirs.workspace().join(name)).unwrap();
        }
        dirs.sweep(&BTreeSet::from([kept.to_owned()]));
        let exists = |name: &str| dirs.workspace().join(name).exists();
        assert!(
            exists(kept) && exists("persistent") && exists(".kruntimes") && exists("lost+found")
        );
        assert!(!exists(old));
    }

    #[tokio::test]
    async fn n_126_removal_takes_everything() {
        let (_temp, dirs) = dirs();
        let dir = dirs.run("u").unwrap();
        dir.prepare(Some("x")).unwrap();
        fs::create_dir_all(dir.path().join("a/b/c")).unwrap();
        dir.remove().await;
        assert!(!dir.path().exists());
        dir.remove().await;
    }
}
