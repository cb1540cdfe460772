//! Directories as archives: the same bytes on every host (node, section 12.2).

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use flate2::{Compression, GzBuilder};
use rustix::fs::FileType;
use tar::{Builder, EntryType, Header};

use super::StoreError;
use super::digest::{Limited, is_full};
use crate::folder::Folder;

/// Directories inside each other; a tree that is deeper is refused.
const DEPTH: usize = 128;

/// Asked between entries; an error ends the work.
pub(super) type Wanted<'a> = &'a dyn Fn() -> Result<(), StoreError>;

fn invalid(text: impl Into<String>) -> StoreError {
    StoreError::Invalid(text.into())
}

/// Writes a tree as gzip over tar, at most `limit` bytes of it (N-145, N-147).
pub(super) fn write(
    tree: &Folder,
    out: impl Write,
    limit: u64,
    wanted: Wanted<'_>,
) -> Result<(), StoreError> {
    let out = Limited {
        inner: out,
        left: limit,
    };
    let gzip = GzBuilder::new()
        .mtime(0)
        .operating_system(255)
        .write(out, Compression::new(6));
    let mut tar = Builder::new(gzip);
    let full = |error: io::Error| written(error, limit);
    add(&mut tar, tree, &mut Vec::new(), DEPTH, wanted, &full)?;
    let gzip = tar.into_inner().map_err(full)?;
    let mut out = gzip.finish().map_err(full)?;
    out.flush().map_err(full)
}

fn written(error: io::Error, limit: u64) -> StoreError {
    if is_full(&error) {
        return invalid(format!(
            "archive is larger than the {limit} bytes that are left for it"
        ));
    }
    StoreError::Failed {
        what: "write an archive",
        source: error,
    }
}

fn add<W: Write>(
    tar: &mut Builder<W>,
    folder: &Folder,
    path: &mut Vec<u8>,
    depth: usize,
    wanted: Wanted<'_>,
    full: &dyn Fn(io::Error) -> StoreError,
) -> Result<(), StoreError> {
    let unreadable = |error: io::Error| invalid(format!("directory cannot be read: {error}"));
    let mut entries = Vec::new();
    for name in folder.names().map_err(unreadable)? {
        let kind = folder.kind(&name).map_err(unreadable)?;
        let mut bytes = name.into_vec();
        match kind {
            Some(FileType::RegularFile) => {}
            // As in the archive, so that the order is that of whole paths.
            Some(FileType::Directory) => bytes.push(b'/'),
            Some(_) => return Err(no_file(path, &bytes)),
            None => return Err(invalid("directory changed while it was archived")),
        }
        entries.push(bytes);
    }
    entries.sort_unstable();
    for entry in entries {
        wanted()?;
        let length = path.len();
        path.extend_from_slice(&entry);
        match entry.strip_suffix(b"/") {
            Some(_) if depth == 0 => return Err(invalid("directory is nested too deeply")),
            Some(name) => {
                let inner = folder
                    .enter(std::ffi::OsStr::from_bytes(name))
                    .map_err(|_| invalid("directory changed while it was archived"))?;
                let stat = rustix::fs::fstat(&inner).map_err(|error| unreadable(error.into()))?;
                let mut header = header(EntryType::Directory, stat.st_mode, 0);
                append(tar, &mut header, path, io::empty()).map_err(full)?;
                add(tar, &inner, path, depth - 1, wanted, full)?;
            }
            None => {
                let file = folder.read(std::ffi::OsStr::from_bytes(&entry));
                let Ok(Some(file)) = file else {
                    return Err(no_file(path, b""));
                };
                add_file(tar, &file, path, full)?;
            }
        }
        path.truncate(length);
    }
    Ok(())
}

fn no_file(path: &[u8], name: &[u8]) -> StoreError {
    let place = [path, name].concat();
    invalid(format!(
        "{} is neither a regular file nor a directory",
        kruntimes_core::message::quoted(&String::from_utf8_lossy(&place))
    ))
}

/// Adds a file and makes sure that it stayed what it was meanwhile (N-148).
fn add_file<W: Write>(
    tar: &mut Builder<W>,
    file: &File,
    path: &[u8],
    full: &dyn Fn(io::Error) -> StoreError,
) -> Result<(), StoreError> {
    let changed = || invalid("file changed while it was archived");
    let before = file.metadata().map_err(|_| changed())?;
    let mut header = header(EntryType::Regular, before.mode(), before.len());
    let mut counted = Counted {
        inner: file.take(before.len()),
        count: 0,
        broken: false,
    };
    let appended = append(tar, &mut header, path, &mut counted);
    if counted.broken || counted.count != before.len() {
        return Err(match appended {
            Err(error) if is_full(&error) => full(error),
            Ok(()) | Err(_) => changed(),
        });
    }
    appended.map_err(full)?;
    let after = file.metadata().map_err(|_| changed())?;
    let stamp = |m: &std::fs::Metadata| (m.len(), m.mtime(), m.mtime_nsec());
    if stamp(&before) == stamp(&after) {
        Ok(())
    } else {
        Err(changed())
    }
}

/// Counts what is read, and remembers that reading failed.
struct Counted<R> {
    inner: R,
    count: u64,
    broken: bool,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer).inspect_err(|error| {
            self.broken |= error.kind() != io::ErrorKind::Interrupted;
        })?;
        self.count += u64::try_from(read).unwrap_or(u64::MAX);
        Ok(read)
    }
}

fn header(kind: EntryType, mode: u32, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode & 0o777);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_size(size);
    header
}

fn append<W: Write>(
    tar: &mut Builder<W>,
    header: &mut Header,
    path: &[u8],
    content: impl Read,
) -> io::Result<()> {
    let path = Path::new(std::ffi::OsStr::from_bytes(path));
    tar.append_data(header, path, content)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::super::digest::digest;
    use super::*;

    fn tree() -> (tempfile::TempDir, Folder) {
        let temp = tempfile::tempdir().unwrap();
        let folder = Folder::open(temp.path()).unwrap();
        (temp, folder)
    }

    fn archive(folder: &Folder) -> Result<Vec<u8>, StoreError> {
        let mut bytes = Vec::new();
        write(folder, &mut bytes, 1 << 20, &|| Ok(()))?;
        Ok(bytes)
    }

    fn fill(root: &Path) {
        for (path, mode, text) in [
            ("a/b.txt", 0o644, "b"),
            ("a.txt", 0o600, "a"),
            ("a-x", 0o755, "x"),
            ("z/empty", 0o640, ""),
        ] {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        }
        for name in ["a", "z"] {
            fs::set_permissions(root.join(name), fs::Permissions::from_mode(0o750)).unwrap();
        }
        let long = root.join("z").join("n".repeat(150));
        fs::write(&long, "long").unwrap();
        fs::set_permissions(&long, fs::Permissions::from_mode(0o644)).unwrap();
    }

    #[test]
    fn n_145_equal_trees_have_equal_bytes() {
        let ((one, first), (two, second)) = (tree(), tree());
        fill(one.path());
        // Another order of making, other times.
        fs::create_dir(two.path().join("z")).unwrap();
        fill(two.path());
        let bytes = archive(&first).unwrap();
        assert_eq!(bytes, archive(&second).unwrap());
        assert_eq!(bytes[..4], [0x1f, 0x8b, 8, 0], "no name");
        assert_eq!(bytes[4..8], [0; 4], "no time");
        assert_eq!(bytes[9], 255, "no system");
        let mut plain = Vec::new();
        flate2::read::GzDecoder::new(&*bytes)
            .read_to_end(&mut plain)
            .unwrap();
        let mut found = Vec::new();
        for entry in tar::Archive::new(&*plain).entries().unwrap() {
            let entry = entry.unwrap();
            let header = entry.header();
            assert_eq!((header.uid().unwrap(), header.gid().unwrap()), (0, 0));
            assert_eq!(header.mtime().unwrap(), 0);
            assert!(header.username_bytes().unwrap().is_empty());
            let path = String::from_utf8(entry.path_bytes().into_owned()).unwrap();
            found.push(format!("{path} {:o}", header.mode().unwrap()));
        }
        let long = format!("z/{} 644", "n".repeat(150));
        let want = [
            "a-x 755",
            "a.txt 600",
            "a/ 750",
            "a/b.txt 644",
            "z/ 750",
            "z/empty 640",
            &*long,
        ];
        assert_eq!(found, want);
    }

    #[test]
    fn n_145_n_146_the_bytes_are_golden() {
        let (temp, folder) = tree();
        fs::create_dir(temp.path().join("d")).unwrap();
        fs::set_permissions(temp.path().join("d"), fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(temp.path().join("d/hello"), "hello\n").unwrap();
        fs::set_permissions(
            temp.path().join("d/hello"),
            fs::Permissions::from_mode(0o644),
        )
        .unwrap();
        let bytes = archive(&folder).unwrap();
        let mut plain = Vec::new();
        flate2::read::GzDecoder::new(&*bytes)
            .read_to_end(&mut plain)
            .unwrap();
        assert_eq!(
            digest(&plain),
            "sha256:c7b577c15064c36851c7f92785d0c04a4b1be2b7a33fb2581c4293d295709fe0"
        );
        assert_eq!(
            digest(&bytes),
            "sha256:9922a58b3acf84b21ddbcf58452055ac36733d27b48cdbcc3091770c45488b63"
        );
    }

    #[test]
    fn n_138_links_and_special_files_are_refused_anywhere() {
        for make in [
            &(|path: &Path| symlink("/etc/passwd", path).unwrap()) as &dyn Fn(&Path),
            &|path| symlink("missing", path).unwrap(),
            &|path| {
                let mode = rustix::fs::Mode::from_raw_mode(0o600);
                rustix::fs::mknodat(rustix::fs::CWD, path, FileType::Fifo, mode, 0).unwrap();
            },
        ] {
            let (temp, folder) = tree();
            fs::create_dir_all(temp.path().join("a/b")).unwrap();
            make(&temp.path().join("a/b/c"));
            let error = archive(&folder).unwrap_err().to_string();
            assert_eq!(error, "\"a/b/c\" is neither a regular file nor a directory");
        }
    }

    #[test]
    fn n_140_n_147_the_limit_is_that_of_the_archive_itself() {
        let (temp, folder) = tree();
        fs::write(temp.path().join("zeros"), vec![0; 1 << 20]).unwrap();
        let size = u64::try_from(archive(&folder).unwrap().len()).unwrap();
        assert!(size < 1 << 16, "zeros are small");
        let to = |limit| write(&folder, io::sink(), limit, &|| Ok(()));
        assert!(to(size).is_ok());
        assert!(matches!(to(size - 1), Err(StoreError::Invalid(_))));
        let stop = write(&folder, io::sink(), size, &|| Err(StoreError::Abandoned));
        assert!(matches!(stop, Err(StoreError::Abandoned)));
    }

    /// Does something to a file as soon as the first bytes of its archive arrive.
    struct Meddler<'a> {
        act: Option<&'a dyn Fn()>,
    }

    impl Write for Meddler<'_> {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if let Some(act) = self.act.take() {
                act();
            }
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn n_148_a_file_that_changes_is_no_archive() {
        let (temp, folder) = tree();
        let path = temp.path().join("f");
        // What does not compress leaves while the file is read.
        let mut seed = 1_u32;
        let noise: Vec<u8> = (0..1 << 20)
            .map(|_| {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                seed.to_be_bytes()[0]
            })
            .collect();
        let resize = |size: u64| {
            let file = File::options().write(true).open(&path).unwrap();
            file.set_len(size).unwrap();
        };
        let (shrink, grow) = (|| resize(1 << 19), || resize(1 << 21));
        for act in [&shrink as &dyn Fn(), &grow] {
            fs::write(&path, &noise).unwrap();
            let out = Meddler { act: Some(act) };
            let error = write(&folder, out, 1 << 21, &|| Ok(())).unwrap_err();
            assert_eq!(error.to_string(), "file changed while it was archived");
        }
        fs::write(&path, &noise).unwrap();
        let vanish = || {
            let _ = fs::remove_file(&path);
            Ok(())
        };
        let gone = write(&folder, io::sink(), 1 << 21, &vanish);
        assert!(matches!(gone, Err(StoreError::Invalid(_))));
    }
}
