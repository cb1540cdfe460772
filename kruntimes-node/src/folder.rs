//! Directories held open: every step below one goes by descriptor and follows no link (node, section 6).
//!
//! Whoever shares the volume may swap a directory for a link at any moment. A path would be resolved anew
//! by each call; a descriptor stays what was checked.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Component, Path};

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

/// Directories held open at once while a tree is removed; what lies deeper is moved up first.
const DEPTH: usize = 64;
/// How often a directory that fills while it is removed is read again.
const AGAIN: usize = 3;

/// One open directory.
#[derive(Debug)]
pub(crate) struct Folder(OwnedFd);

impl AsFd for Folder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn enter(at: BorrowedFd<'_>, name: impl rustix::path::Arg) -> io::Result<Folder> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match rustix::fs::openat(at, name, flags, Mode::empty()) {
        Ok(fd) => Ok(Folder(fd)),
        Err(Errno::LOOP | Errno::NOTDIR) => Err(io::Error::new(
            io::ErrorKind::NotADirectory,
            "not a directory",
        )),
        Err(error) => Err(error.into()),
    }
}

impl Folder {
    /// Opens a directory that is trusted up to its last component, which must be no link.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        enter(rustix::fs::CWD, path)
    }

    /// Opens a directory of this one.
    pub(crate) fn enter(&self, name: impl AsRef<OsStr>) -> io::Result<Self> {
        enter(self.as_fd(), name.as_ref())
    }

    /// Opens the directory at the end of a relative way.
    pub(crate) fn walk(&self, way: &Path) -> io::Result<Self> {
        let mut at = Self(self.0.try_clone()?);
        for part in way.components() {
            at = match part {
                Component::Normal(name) => at.enter(name)?,
                Component::CurDir => at,
                Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                    return Err(io::Error::new(
                        io::ErrorKind::InvalidInput,
                        "not a relative path without `..`",
                    ));
                }
            };
        }
        Ok(at)
    }

    /// Makes a directory that must not exist yet. The process mask does not count.
    pub(crate) fn make(&self, name: impl AsRef<OsStr>, mode: u32) -> io::Result<Self> {
        let name = name.as_ref();
        rustix::fs::mkdirat(self, name, Mode::from_raw_mode(0o700))?;
        let made = self.enter(name)?;
        rustix::fs::fchmod(&made, Mode::from_raw_mode(mode))?;
        Ok(made)
    }

    /// Opens a directory and makes it first when it is missing.
    pub(crate) fn make_or_enter(&self, name: impl AsRef<OsStr>, mode: u32) -> io::Result<Self> {
        let name = name.as_ref();
        match self.make(name, mode) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => self.enter(name),
            made => made,
        }
    }

    /// Makes a file that must not exist yet. The process mask does not count.
    pub(crate) fn create(&self, name: impl AsRef<OsStr>, mode: u32) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let mode = Mode::from_raw_mode(mode);
        let fd = rustix::fs::openat(self, name.as_ref(), flags | OFlags::CLOEXEC, mode)?;
        rustix::fs::fchmod(&fd, mode)?;
        Ok(fd.into())
    }

    /// Opens a regular file for reading. Never blocks and never follows a link.
    ///
    /// `Ok(None)` when there is none; an error of kind `InvalidInput` when it is something else.
    pub(crate) fn read(&self, name: impl AsRef<OsStr>) -> io::Result<Option<File>> {
        let name = name.as_ref();
        let other = || io::Error::new(io::ErrorKind::InvalidInput, "not a regular file");
        match self.kind(name)? {
            None => return Ok(None),
            Some(FileType::RegularFile) => {}
            Some(_) => return Err(other()),
        }
        // The name may have changed its meaning since: open it so that nothing can block or lead away.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match rustix::fs::openat(self, name, flags, Mode::empty()) {
            Ok(fd) => File::from(fd),
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::LOOP | Errno::NXIO) => return Err(other()),
            Err(error) => return Err(error.into()),
        };
        if file.metadata()?.is_file() {
            Ok(Some(file))
        } else {
            Err(other())
        }
    }

    /// Tells what a name stands for; nothing when it is free.
    pub(crate) fn kind(&self, name: impl AsRef<OsStr>) -> io::Result<Option<FileType>> {
        match rustix::fs::statat(self, name.as_ref(), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(FileType::from_raw_mode(stat.st_mode))),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Gives a name of this directory to what another name of it stands for, replacing a file.
    pub(crate) fn rename(&self, old: impl AsRef<OsStr>, new: impl AsRef<OsStr>) -> io::Result<()> {
        Ok(rustix::fs::renameat(
            self,
            old.as_ref(),
            self,
            new.as_ref(),
        )?)
    }

    /// Returns the names in this directory, unsorted.
    pub(crate) fn names(&self) -> io::Result<Vec<OsString>> {
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::read_from(self)? {
            let name = entry?.file_name().to_bytes().to_vec();
            if name != b"." && name != b".." {
                names.push(OsString::from_vec(name));
            }
        }
        Ok(names)
    }

    /// Removes a file, a link or a tree of any depth; what is not there is removed already.
    pub(crate) fn remove(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        let name = name.as_ref();
        match rustix::fs::unlinkat(self, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(Errno::ISDIR | Errno::PERM) => self.remove_tree(name),
            Err(error) => Err(error.into()),
        }
    }

    fn remove_tree(&self, name: &OsStr) -> io::Result<()> {
        let mut way = vec![Level::open(self, name)?];
        let mut moved = 0_u64;
        while let Some(deep) = way.len().checked_sub(1) {
            let Some(child) = way[deep].pending.pop() else {
                let done = way.pop();
                let parent = way.last().map_or(self, |level| &level.folder);
                if let Some(unfinished) = done.map_or(Ok(None), |done| done.leave(parent))? {
                    way.push(unfinished);
                }
                continue;
            };
            if way.len() < DEPTH {
                match Level::open(&way[deep].folder, &child) {
                    Ok(level) => way.push(level),
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => return Err(error),
                }
            } else {
                let up = OsString::from(format!(".kruntime-removed-{moved}"));
                moved += 1;
                rustix::fs::renameat(&way[deep].folder, &child, &way[0].folder, &up)?;
                way[0].pending.push(up);
            }
        }
        Ok(())
    }
}

/// A directory on the way of a removal.
struct Level {
    folder: Folder,
    name: OsString,
    /// Directories in it that are still to be removed.
    pending: Vec<OsString>,
    tries: usize,
}

impl Level {
    /// Opens a directory and removes everything in it that is none.
    fn open(parent: &Folder, name: &OsStr) -> io::Result<Self> {
        let folder = match parent.enter(name) {
            // Its owner may have taken even his own rights away.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                rustix::fs::chmodat(
                    parent,
                    name,
                    Mode::from_raw_mode(0o700),
                    AtFlags::SYMLINK_NOFOLLOW,
                )
                .or_else(|_| {
                    rustix::fs::chmodat(parent, name, Mode::from_raw_mode(0o700), AtFlags::empty())
                })?;
                parent.enter(name)?
            }
            folder => folder?,
        };
        // Tools protect their trees from change; it is ours to remove. What forbids it shows below.
        let _ = rustix::fs::fchmod(&folder, Mode::from_raw_mode(0o700));
        let mut level = Self {
            folder,
            name: name.to_owned(),
            pending: Vec::new(),
            tries: 0,
        };
        level.empty()?;
        Ok(level)
    }

    fn empty(&mut self) -> io::Result<()> {
        for name in self.folder.names()? {
            match rustix::fs::unlinkat(&self.folder, &name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(Errno::ISDIR | Errno::PERM) => self.pending.push(name),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Removes the directory itself; gives it back when something was put in meanwhile.
    fn leave(mut self, parent: &Folder) -> io::Result<Option<Self>> {
        match rustix::fs::unlinkat(parent, &self.name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => Ok(None),
            Err(Errno::NOTEMPTY | Errno::EXIST) if self.tries < AGAIN => {
                self.tries += 1;
                self.empty()?;
                Ok(Some(self))
            }
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn folder() -> (tempfile::TempDir, Folder) {
        let temp = tempfile::tempdir().unwrap();
        fs::create_dir(temp.path().join("in")).unwrap();
        let folder = Folder::open(&temp.path().join("in")).unwrap();
        (temp, folder)
    }

    #[test]
    fn links_are_never_followed() {
        let (temp, folder) = folder();
        let outside = temp.path().join("outside");
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("secret"), "x").unwrap();
        symlink(&outside, temp.path().join("in/link")).unwrap();
        symlink(outside.join("secret"), temp.path().join("in/file")).unwrap();
        assert!(folder.enter("link").is_err());
        assert!(folder.make_or_enter("link", 0o700).is_err());
        assert!(folder.walk(Path::new("link/x")).is_err());
        assert!(folder.walk(Path::new("../outside")).is_err());
        assert!(folder.create("file", 0o600).is_err());
        let error = folder.read("file").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        folder.remove("link").unwrap();
        folder.remove("file").unwrap();
        assert!(outside.join("secret").exists());
        assert!(Folder::open(&temp.path().join("in/missing")).is_err());
    }

    #[test]
    fn trees_of_any_depth_are_removed() {
        let (temp, folder) = folder();
        let mut at = folder.make("deep", 0o700).unwrap();
        for _ in 0..3 * DEPTH {
            drop(at.create("file", 0o600).unwrap());
            at.make("other", 0o700).unwrap();
            at = at.make("x".repeat(40), 0o700).unwrap();
        }
        folder.remove("deep").unwrap();
        assert_eq!(fs::read_dir(temp.path().join("in")).unwrap().count(), 0);
        folder.remove("deep").unwrap();
    }

    #[test]
    fn trees_that_resist_are_removed() {
        let (temp, folder) = folder();
        let path = temp.path().join("in/mod");
        fs::create_dir_all(path.join("a/b")).unwrap();
        fs::write(path.join("a/b/c"), "x").unwrap();
        for dir in ["a/b", "a", ""] {
            fs::set_permissions(path.join(dir), fs::Permissions::from_mode(0o555)).unwrap();
        }
        fs::set_permissions(path.join("a"), fs::Permissions::from_mode(0o0)).unwrap();
        folder.remove("mod").unwrap();
        assert!(!path.exists());
    }
}
