//! Artifacts of other Runs, put in place before the work starts (node, section 6.4).

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt as _;

use flate2::read::GzDecoder;
use kruntimes_core::api::{ArtifactInput, ArtifactRef, ArtifactType};
use tar::EntryType;

use super::archive::Wanted;
use super::digest::Summed;
use super::reference::is_component;
use super::{Store, StoreError};
use crate::folder::Folder;

/// Mode of unpacked directories (N-58).
const DIRECTORY: u32 = 0o750;
/// Mode of files.
const FILE: u32 = 0o640;
/// The same for a program.
const PROGRAM: u32 = 0o740;
/// Mode of directories on the way to an input.
const PARENT: u32 = 0o2770;
/// What an entry counts at least, so that empty ones are bounded too.
const ENTRY_BYTES: u64 = 512;

/// What is staged, and how much one input may become.
pub(crate) struct Inputs<'a> {
    pub(crate) store: &'a dyn Store,
    pub(crate) list: &'a [ArtifactInput],
    pub(crate) limit: u64,
}

/// Something that was made and goes when a later step fails.
struct Made {
    folder: Folder,
    name: OsString,
}

fn invalid(text: impl Into<String>) -> StoreError {
    StoreError::Invalid(text.into())
}

fn disk(source: io::Error) -> StoreError {
    StoreError::Failed {
        what: "write an input",
        source,
    }
}

/// Stages all inputs into the working directory, or none: what was made goes again on a failure.
///
/// The error tells which input it was.
pub(crate) fn stage(inputs: &Inputs<'_>, work: &Folder, wanted: Wanted<'_>) -> Result<(), String> {
    let mut made = Vec::new();
    for (place, input) in inputs.list.iter().enumerate() {
        let staged = stage_one(inputs, input, work, wanted, &mut made);
        if let Err(error) = staged {
            for made in made.iter().rev() {
                if let Err(error) = made.folder.remove(&made.name) {
                    tracing::warn!(%error, "part of an input stays");
                }
            }
            let why = match &error {
                StoreError::Failed { source, .. } => format!("{error}: {source}"),
                StoreError::Invalid(_) | StoreError::Abandoned => error.to_string(),
            };
            return Err(format!("artifactInputs[{place}]: {why}"));
        }
    }
    Ok(())
}

fn stage_one(
    inputs: &Inputs<'_>,
    input: &ArtifactInput,
    work: &Folder,
    wanted: Wanted<'_>,
    made: &mut Vec<Made>,
) -> Result<(), StoreError> {
    wanted()?;
    let reference = &input.reference;
    super::reference::check(reference)?;
    let (parent, name) = parent(&input.path, work, made)?;
    let taken = parent.kind(name).map_err(disk)?;
    if taken.is_some() {
        return Err(invalid("the destination exists"));
    }
    let content = inputs.store.open(reference)?;
    made.push(Made {
        folder: parent.walk(std::path::Path::new("")).map_err(disk)?,
        name: name.into(),
    });
    let mut content = Summed::new(content);
    match reference.artifact_type {
        ArtifactType::Directory => {
            let target = parent.make(name, DIRECTORY).map_err(disk)?;
            unpack(&mut content, &target, inputs.limit, wanted)?;
        }
        ArtifactType::File | ArtifactType::Archive | ArtifactType::Blob => {
            let size = u64::try_from(reference.size_bytes).unwrap_or_default();
            let mut file = parent.create(name, FILE).map_err(disk)?;
            let mut rest = (&mut content).take(size.min(inputs.limit));
            copy(&mut rest, &mut file, wanted)?;
        }
    }
    verify(content, reference, wanted)
}

/// Walks to the directory a destination lies in, making what is missing (N-57).
fn parent<'a>(
    path: &'a str,
    work: &Folder,
    made: &mut Vec<Made>,
) -> Result<(Folder, &'a str), StoreError> {
    if !path.split('/').all(is_component) {
        return Err(invalid("path must be relative and clean"));
    }
    let mut at = work.walk(std::path::Path::new("")).map_err(disk)?;
    let (way, name) = path.rsplit_once('/').unwrap_or(("", path));
    let mut is_new = false;
    for part in way.split('/').filter(|part| !part.is_empty()) {
        let exists = at.kind(part).map_err(disk)?.is_some();
        let next = at
            .make_or_enter(part, PARENT)
            .map_err(|error| invalid(format!("path leads through something else: {error}")))?;
        if !exists && !is_new {
            is_new = true;
            made.push(Made {
                folder: at,
                name: part.into(),
            });
        }
        at = next;
    }
    Ok((at, name))
}

fn copy(from: &mut dyn Read, to: &mut dyn Write, wanted: Wanted<'_>) -> Result<u64, StoreError> {
    let mut chunk = vec![0; 64 * 1024];
    let mut total = 0_u64;
    loop {
        wanted()?;
        let read = match from.read(&mut chunk) {
            Ok(0) => return Ok(total),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(source) => {
                return Err(StoreError::Failed {
                    what: "read an artifact",
                    source,
                });
            }
        };
        to.write_all(&chunk[..read]).map_err(disk)?;
        total += u64::try_from(read).unwrap_or(u64::MAX);
    }
}

/// Reads what is left and compares size and digest with the reference (N-60).
fn verify(
    mut content: Summed<Box<dyn Read + Send>>,
    reference: &ArtifactRef,
    wanted: Wanted<'_>,
) -> Result<(), StoreError> {
    copy(&mut content, &mut io::sink(), wanted)?;
    let (size, digest) = content.sum();
    let right_size = u64::try_from(reference.size_bytes).is_ok_and(|want| want == size);
    let right_digest = reference.digest.as_ref().is_none_or(|want| *want == digest);
    if right_size && right_digest {
        Ok(())
    } else {
        Err(invalid(
            "size or digest of the artifact differ from its reference",
        ))
    }
}

/// Unpacks an archive, entry by entry, below a new directory (N-58, N-59).
fn unpack(
    content: &mut dyn Read,
    target: &Folder,
    limit: u64,
    wanted: Wanted<'_>,
) -> Result<(), StoreError> {
    let torn = |error: io::Error| invalid(format!("archive cannot be read: {error}"));
    let mut archive = tar::Archive::new(GzDecoder::new(content));
    let mut seen = BTreeSet::new();
    let mut left = limit;
    for entry in archive.entries().map_err(torn)? {
        wanted()?;
        let mut entry = entry.map_err(torn)?;
        let path = entry.path_bytes().into_owned();
        let parts = parts(&path)?;
        let kind = entry.header().entry_type();
        // The size an entry states is what its content has, so it is enough to check it first.
        left = entry
            .size()
            .checked_add(ENTRY_BYTES)
            .and_then(|bytes| left.checked_sub(bytes))
            .ok_or_else(|| invalid(format!("archive holds more than {limit} bytes")))?;
        let Some((name, way)) = parts.split_last() else {
            return Err(invalid("archive has an entry without a name"));
        };
        if !seen.insert(parts.iter().map(|part| part.to_vec()).collect::<Vec<_>>()) {
            return Err(invalid("archive has an entry twice"));
        }
        let mut at = target.walk(std::path::Path::new("")).map_err(disk)?;
        for part in way {
            at = at
                .make_or_enter(OsStr::from_bytes(part), DIRECTORY)
                .map_err(disk)?;
        }
        match kind {
            EntryType::Directory => {
                at.make_or_enter(OsStr::from_bytes(name), DIRECTORY)
                    .map_err(disk)?;
            }
            EntryType::Regular | EntryType::Continuous => {
                let program = entry.header().mode().is_ok_and(|mode| mode & 0o100 != 0);
                let mode = if program { PROGRAM } else { FILE };
                let mut file = at.create(OsStr::from_bytes(name), mode).map_err(disk)?;
                copy(&mut entry, &mut file, wanted)?;
            }
            _ => return Err(invalid("archive holds something else than files")),
        }
    }
    Ok(())
}

/// Splits the path of an entry; anything that could lead elsewhere is refused.
fn parts(path: &[u8]) -> Result<Vec<&[u8]>, StoreError> {
    let refused = || {
        let path = kruntimes_core::message::quoted(&String::from_utf8_lossy(path));
        invalid(format!("archive entry {path} would leave the destination"))
    };
    let path = path.strip_suffix(b"/").unwrap_or(path);
    let parts: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
    for part in &parts {
        if matches!(*part, b"" | b"." | b"..") || part.contains(&0) {
            return Err(refused());
        }
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::path::Path;

    use super::super::digest::digest;
    use super::super::reference::tests::reference;
    use super::super::{Content, Item, Stored};
    use super::*;
    use kruntimes_core::api::ArtifactStore;

    /// Gives the same bytes for every reference.
    struct Fixed(Vec<u8>);

    impl Store for Fixed {
        fn settings(&self) -> ArtifactStore {
            unreachable!("nobody asks")
        }
        fn put(&self, _: Item<'_>, _: &mut dyn Content, _: u64) -> Result<Stored, StoreError> {
            unreachable!("nothing is stored")
        }
        fn open(&self, _: &ArtifactRef) -> Result<Box<dyn Read + Send>, StoreError> {
            Ok(Box::new(io::Cursor::new(self.0.clone())))
        }
        fn delete(&self, _: &ArtifactRef) -> Result<(), StoreError> {
            unreachable!("nothing is deleted")
        }
        fn delete_run(&self, _: &str, _: &str) -> Result<(), StoreError> {
            unreachable!("nothing is deleted")
        }
    }

    fn input(bytes: &[u8], kind: ArtifactType, path: &str) -> ArtifactInput {
        ArtifactInput {
            reference: ArtifactRef {
                artifact_type: kind,
                size_bytes: i64::try_from(bytes.len()).unwrap(),
                digest: Some(digest(bytes)),
                ..reference("namespaces/ns/runs/u/a")
            },
            path: path.into(),
        }
    }

    fn staged(bytes: &[u8], inputs: &[ArtifactInput], root: &Path) -> Result<(), String> {
        let inputs = Inputs {
            store: &Fixed(bytes.to_vec()),
            list: inputs,
            limit: 100_000,
        };
        stage(&inputs, &Folder::open(root).unwrap(), &|| Ok(()))
    }

    type Entry<'a> = (&'a str, EntryType, u32, &'a [u8]);

    fn archive(entries: &[Entry<'_>]) -> Vec<u8> {
        let gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        let mut tar = tar::Builder::new(gzip);
        for (path, kind, mode, content) in entries {
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(*kind);
            header.set_mode(*mode);
            header.set_size(u64::try_from(content.len()).unwrap());
            if matches!(kind, EntryType::Symlink | EntryType::Link) {
                header.set_link_name("/etc/passwd").unwrap();
            }
            // Written by hand, because the library refuses what is tested here.
            header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
            header.set_cksum();
            tar.append(&header, *content).unwrap();
        }
        tar.into_inner().unwrap().finish().unwrap()
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn n_56_n_58_files_and_directories_are_put_in_place() {
        let temp = tempfile::tempdir().unwrap();
        let bytes = archive(&[
            ("d/", EntryType::Directory, 0o777, b""),
            ("d/tool", EntryType::Regular, 0o755, b"#!"),
            ("deep/down/x", EntryType::Regular, 0o600, b"x"),
        ]);
        let inputs = [
            input(&bytes, ArtifactType::Directory, "in/tree"),
            input(&bytes, ArtifactType::File, "in/raw.tgz"),
            input(&bytes, ArtifactType::Blob, "blob"),
        ];
        staged(&bytes, &inputs, temp.path()).unwrap();
        let tree = temp.path().join("in/tree");
        assert_eq!(fs::read(temp.path().join("in/raw.tgz")).unwrap(), bytes);
        assert_eq!(mode(&temp.path().join("blob")), 0o640);
        for (path, want) in [
            ("", 0o750),
            ("d", 0o750),
            ("d/tool", 0o740),
            ("deep/down", 0o750),
            ("deep/down/x", 0o640),
        ] {
            assert_eq!(mode(&tree.join(path)), want, "{path}");
        }
    }

    #[test]
    fn n_57_destinations_stay_inside_and_are_new() {
        let temp = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        symlink(outside.path(), temp.path().join("link")).unwrap();
        symlink("nowhere", temp.path().join("dangling")).unwrap();
        fs::write(temp.path().join("file"), "mine").unwrap();
        for path in [
            "", "/x", "../x", "a/../x", "a//x", "./x", "x/", "link/x", "link", "dangling", "file",
            "file/x",
        ] {
            let refused = staged(b"x", &[input(b"x", ArtifactType::File, path)], temp.path());
            assert!(refused.is_err(), "{path:?}");
        }
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
        assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 3);
        assert_eq!(
            fs::read_to_string(temp.path().join("file")).unwrap(),
            "mine"
        );
    }

    #[test]
    fn n_58_n_59_case_124_hostile_archives_leave_nothing() {
        let large = vec![0; 200_000];
        let many: Vec<String> = (0..300).map(|n| format!("f{n}")).collect();
        let many: Vec<Entry<'_>> = many
            .iter()
            .map(|name| (&**name, EntryType::Regular, 0o644, &b""[..]))
            .collect();
        for entries in [
            &[("../x", EntryType::Regular, 0o644, &b"x"[..])][..],
            &[("/abs", EntryType::Regular, 0o644, b"x")],
            &[("a/./b", EntryType::Regular, 0o644, b"x")],
            &[
                ("ok", EntryType::Regular, 0o644, b"x"),
                ("a", EntryType::Symlink, 0o777, b""),
            ],
            &[("a", EntryType::Link, 0o644, b"")],
            &[("a", EntryType::Char, 0o644, b"")],
            &[("a", EntryType::Fifo, 0o644, b"")],
            &[
                ("a", EntryType::Regular, 0o644, b"1"),
                ("a", EntryType::Regular, 0o644, b"2"),
            ],
            &[
                ("a", EntryType::Regular, 0o644, b"1"),
                ("a/b", EntryType::Regular, 0o644, b"2"),
            ],
            &[("bomb", EntryType::Regular, 0o644, &large)],
            &many,
        ] {
            let temp = tempfile::tempdir().unwrap();
            let bytes = archive(entries);
            let inputs = [
                input(&bytes, ArtifactType::File, "first"),
                input(&bytes, ArtifactType::Directory, "p/q/tree"),
            ];
            let error = staged(&bytes, &inputs, temp.path()).unwrap_err();
            assert!(error.starts_with("artifactInputs[1]: "), "{error}");
            let left = fs::read_dir(temp.path()).unwrap().count();
            assert_eq!(left, 0, "{error}");
        }
    }

    #[test]
    fn n_60_what_differs_from_its_reference_is_not_used() {
        let temp = tempfile::tempdir().unwrap();
        let tree = archive(&[("x", EntryType::Regular, 0o644, b"x")]);
        for kind in [ArtifactType::File, ArtifactType::Directory] {
            for bytes in [
                &[&*tree, b"more"].concat(),
                &tree[..tree.len() - 1],
                &b""[..],
            ] {
                let refused = staged(bytes, &[input(&tree, kind, "x")], temp.path());
                assert!(refused.is_err(), "{kind:?} {}", bytes.len());
            }
        }
        let mut other = input(b"x", ArtifactType::File, "x");
        other.reference.digest = Some(format!("sha256:{}", "0".repeat(64)));
        assert!(staged(b"x", &[other], temp.path()).is_err());
        assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 0);
    }
}
