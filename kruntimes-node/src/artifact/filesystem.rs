//! A store on a volume (node, section 12.4).

use std::io::{self, Read, Write as _};
use std::path::{Path, PathBuf};

use kruntimes_core::api::{
    ArtifactDriver, ArtifactLocation, ArtifactRef, ArtifactStore, FilesystemLocation,
    FilesystemStore as Settings,
};
use kruntimes_core::names;

use super::digest;
use super::reference::{self, is_component};
use super::store::{Content, Item, Store, StoreError, Stored};
use crate::folder::Folder;

/// Mode of directories the store makes (N-153).
const DIRECTORY: u32 = 0o750;
/// Mode of stored files.
const FILE: u32 = 0o640;

/// Keeps artifacts below one directory of a volume that only the daemon mounts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilesystemStore {
    root: PathBuf,
    claim: String,
}

/// Settings that no store can work with; named as the flags are (N-19).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// The root is missing or relative.
    #[error("--artifact-store-root must be an absolute path")]
    Root,
    /// The claim is missing.
    #[error("--artifact-volume-claim must name the claim of the volume")]
    Claim,
    /// There is a driver but no Runtime whose artifacts it keeps.
    #[error("--artifact-store-driver needs --runtime-name")]
    Runtime,
    /// The driver is none that exists.
    #[error("--artifact-store-driver must be filesystem, s3, or empty for no store")]
    Driver,
    /// A setting of an S3 store is missing or makes no sense (N-158).
    #[error("--artifact-s3-{setting} {problem}")]
    S3 {
        /// The last part of its flag.
        setting: &'static str,
        /// What is wrong.
        problem: &'static str,
    },
    /// The settings of an S3 store contradict each other, or the environment is no place for it.
    #[error("--artifact-store-driver s3: {0}")]
    Client(
        /// What the client says.
        String,
    ),
    /// A limit is zero or negative.
    #[error("{0} must be positive")]
    Limit(
        /// The flag.
        &'static str,
    ),
}

fn failed(what: &'static str) -> impl FnOnce(io::Error) -> StoreError {
    move |source| StoreError::Failed { what, source }
}

fn refused(text: &str) -> StoreError {
    StoreError::Invalid(format!("artifact reference: {text}"))
}

impl FilesystemStore {
    /// Makes a store; nothing is touched yet.
    ///
    /// # Errors
    ///
    /// Returns which setting is missing or makes no sense (N-152).
    pub fn new(root: impl Into<PathBuf>, claim: &str) -> Result<Self, SettingsError> {
        let root = root.into();
        if !root.is_absolute() {
            return Err(SettingsError::Root);
        }
        if claim.is_empty() {
            return Err(SettingsError::Claim);
        }
        Ok(Self {
            root,
            claim: claim.to_owned(),
        })
    }

    /// Names the directory of a Run, relative to the root.
    fn run_way(namespace: &str, run_uid: &str) -> Result<[String; 4], StoreError> {
        if !is_component(namespace) || !is_component(run_uid) {
            return Err(refused("namespace or run UID is no file name"));
        }
        let way = ["namespaces", namespace, "runs", run_uid];
        Ok(way.map(str::to_owned))
    }

    /// Checks a reference and splits its path into directory and name (N-156).
    fn place<'a>(&self, reference: &'a ArtifactRef) -> Result<(&'a Path, &'a str), StoreError> {
        reference::check(reference)?;
        let Some(place) = &reference.location.filesystem else {
            return Err(refused("it belongs to another kind of store"));
        };
        if place.volume_claim_name.as_deref() != Some(&self.claim) {
            return Err(refused("it belongs to another volume"));
        }
        match place.path.rsplit_once('/') {
            Some((way, name)) => Ok((Path::new(way), name)),
            None => Err(refused("it names no artifact of a run")),
        }
    }

    fn copy(
        folder: &Folder,
        temporary: &str,
        content: &mut dyn Read,
        limit: u64,
    ) -> Result<(u64, String), StoreError> {
        let mut file = folder
            .create(temporary, FILE)
            .map_err(failed("make a file"))?;
        let sum = digest::copy(content, limit, |bytes| {
            file.write_all(bytes).map_err(failed("write a file"))
        })?;
        // N-153: nobody may find the name before the bytes are safe.
        file.sync_all().map_err(failed("flush a file"))?;
        Ok(sum)
    }
}

impl Store for FilesystemStore {
    fn settings(&self) -> ArtifactStore {
        ArtifactStore {
            driver: ArtifactDriver::Filesystem,
            filesystem: Some(Settings {
                volume_claim_name: self.claim.clone(),
            }),
            s3: None,
        }
    }

    fn put(
        &self,
        item: Item<'_>,
        content: &mut dyn Content,
        limit: u64,
    ) -> Result<Stored, StoreError> {
        if !is_component(item.name) {
            return Err(refused("the name is no file name"));
        }
        let way = Self::run_way(item.namespace, item.run_uid)?;
        let mut folder = Folder::open(&self.root).map_err(failed("open the root"))?;
        for part in &way {
            folder = folder
                .make_or_enter(part, DIRECTORY)
                .map_err(failed("make a directory"))?;
        }
        // Two names of one Run are never stored at once, so this needs to be unlike the names only.
        let temporary = format!(".artifact-{}", names::hash(item.name, 32));
        folder
            .remove(&temporary)
            .map_err(failed("remove a leftover"))?;
        let copied = Self::copy(&folder, &temporary, content, limit).and_then(|sum| {
            folder
                .rename(&temporary, item.name)
                .map_err(failed("rename a file"))?;
            rustix::fs::fsync(&folder)
                .map_err(|error| failed("flush a directory")(error.into()))?;
            Ok(sum)
        });
        let (size_bytes, digest) = copied.inspect_err(|_| {
            // What stays goes with the Run (N-157).
            let _ = folder.remove(&temporary);
        })?;
        Ok(Stored {
            location: ArtifactLocation {
                filesystem: Some(FilesystemLocation {
                    path: format!("{}/{}", way.join("/"), item.name),
                    volume_claim_name: Some(self.claim.clone()),
                }),
                s3: None,
            },
            size_bytes,
            digest,
        })
    }

    fn open(&self, reference: &ArtifactRef) -> Result<Box<dyn Read + Send>, StoreError> {
        let (way, name) = self.place(reference)?;
        let found = Folder::open(&self.root)
            .and_then(|root| root.walk(way)?.read(name))
            .map_err(failed("open an artifact"))?;
        match found {
            Some(file) => Ok(Box::new(file)),
            None => Err(failed("open an artifact")(io::ErrorKind::NotFound.into())),
        }
    }

    fn delete(&self, reference: &ArtifactRef) -> Result<(), StoreError> {
        let (way, name) = self.place(reference)?;
        let removed = Folder::open(&self.root)
            .and_then(|root| root.walk(way))
            .and_then(|folder| folder.remove(name));
        gone_is_fine(removed).map_err(failed("delete an artifact"))
    }

    fn delete_run(&self, namespace: &str, run_uid: &str) -> Result<(), StoreError> {
        let way = Self::run_way(namespace, run_uid)?;
        let above: PathBuf = way[..3].iter().collect();
        let removed = Folder::open(&self.root)
            .and_then(|root| root.walk(&above))
            .and_then(|folder| folder.remove(run_uid));
        gone_is_fine(removed).map_err(failed("delete the artifacts of a run"))
    }
}

fn gone_is_fine(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::super::About;
    use super::super::reference::tests::reference;
    use super::*;

    fn store() -> (tempfile::TempDir, FilesystemStore) {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().join("store");
        fs::create_dir(&root).unwrap();
        let store = FilesystemStore::new(root, "claim").unwrap();
        (temp, store)
    }

    fn item(name: &str) -> Item<'_> {
        Item {
            namespace: "ns",
            run_uid: "u",
            name,
            about: About::default(),
        }
    }

    fn read(store: &FilesystemStore, reference: &ArtifactRef) -> String {
        let mut text = String::new();
        let mut content = store.open(reference).unwrap();
        content.read_to_string(&mut text).unwrap();
        text
    }

    const PATH: &str = "namespaces/ns/runs/u/a";

    #[test]
    fn n_19_n_152_settings_are_judged_at_start() {
        for (root, claim, want) in [
            (
                "relative",
                "c",
                "--artifact-store-root must be an absolute path",
            ),
            ("", "c", "--artifact-store-root must be an absolute path"),
            (
                "/a",
                "",
                "--artifact-volume-claim must name the claim of the volume",
            ),
        ] {
            let error = FilesystemStore::new(root, claim).unwrap_err();
            assert_eq!(error.to_string(), want);
        }
        let (_temp, store) = store();
        for (namespace, run_uid, name) in [("..", "u", "a"), ("ns", "a/b", "a"), ("ns", "u", "")] {
            let item = Item {
                namespace,
                run_uid,
                name,
                about: About::default(),
            };
            let put = store.put(item, &mut io::Cursor::new(b"x"), 9);
            assert!(matches!(put, Err(StoreError::Invalid(_))));
        }
        assert_eq!(fs::read_dir(&store.root).unwrap().count(), 0);
    }

    #[test]
    fn n_153_n_155_what_is_stored_is_whole_or_absent() {
        let (_temp, store) = store();
        let stored = store
            .put(item("a"), &mut io::Cursor::new(b"first"), 5)
            .unwrap();
        assert_eq!(stored.size_bytes, 5);
        assert_eq!(
            stored.digest,
            "sha256:a7937b64b8caa58f03721bb6bacf5c78cb235febe0e70b1b84cd99541461a08e"
        );
        let place = stored.location.filesystem.unwrap();
        assert_eq!(place.path, PATH);
        assert_eq!(read(&store, &reference(PATH)), "first");
        let larger = store
            .put(item("a"), &mut io::Cursor::new(b"second"), 5)
            .unwrap_err();
        assert!(matches!(larger, StoreError::Invalid(_)));
        assert_eq!(
            read(&store, &reference(PATH)),
            "first",
            "an older one stays"
        );
        store
            .put(item("a"), &mut io::Cursor::new(b"other"), 5)
            .unwrap();
        assert_eq!(read(&store, &reference(PATH)), "other");
        let run = store.root.join("namespaces/ns/runs/u");
        let names: Vec<_> = fs::read_dir(&run)
            .unwrap()
            .map(|e| e.unwrap().file_name())
            .collect();
        assert_eq!(names, ["a"]);
        let mode = fs::metadata(&run).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o750);
    }

    #[test]
    fn n_154_no_link_is_followed() {
        let (temp, store) = store();
        let outside = temp.path().join("outside");
        fs::create_dir_all(outside.join("runs/u")).unwrap();
        fs::write(outside.join("runs/u/a"), "secret").unwrap();
        fs::create_dir(store.root.join("namespaces")).unwrap();
        symlink(&outside, store.root.join("namespaces/ns")).unwrap();
        assert!(store.put(item("a"), &mut io::Cursor::new(b"x"), 9).is_err());
        assert!(store.open(&reference(PATH)).is_err());
        assert!(store.delete(&reference(PATH)).is_err());
        assert!(store.delete_run("ns", "u").is_err());
        assert_eq!(
            fs::read_to_string(outside.join("runs/u/a")).unwrap(),
            "secret"
        );
        fs::remove_file(store.root.join("namespaces/ns")).unwrap();
        store.put(item("b"), &mut io::Cursor::new(b"x"), 9).unwrap();
        let run = store.root.join("namespaces/ns/runs/u");
        symlink(outside.join("runs/u/a"), run.join("a")).unwrap();
        assert!(store.open(&reference(PATH)).is_err());
        store.put(item("a"), &mut io::Cursor::new(b"x"), 9).unwrap();
        assert_eq!(
            fs::read_to_string(outside.join("runs/u/a")).unwrap(),
            "secret"
        );
    }

    #[test]
    fn n_156_references_of_others_are_refused() {
        let (_temp, store) = store();
        store.put(item("a"), &mut io::Cursor::new(b"x"), 9).unwrap();
        let mut other = reference(PATH);
        other
            .location
            .filesystem
            .as_mut()
            .unwrap()
            .volume_claim_name = Some("other".into());
        for wrong in [
            other,
            reference("/namespaces/ns/runs/u/a"),
            reference("../a"),
            reference("a"),
        ] {
            assert!(matches!(store.open(&wrong), Err(StoreError::Invalid(_))));
            assert!(matches!(store.delete(&wrong), Err(StoreError::Invalid(_))));
        }
        assert!(
            store.open(&reference("namespaces/ns/runs/u")).is_err(),
            "a directory"
        );
        assert!(store.open(&reference("namespaces/ns/runs/u/none")).is_err());
    }

    #[test]
    fn n_157_deleting_what_is_missing_succeeds_and_takes_only_the_run() {
        let (_temp, store) = store();
        store.delete_run("ns", "u").unwrap();
        store.delete(&reference(PATH)).unwrap();
        store.put(item("a"), &mut io::Cursor::new(b"x"), 9).unwrap();
        let other = Item {
            run_uid: "u2",
            ..item("a")
        };
        store.put(other, &mut io::Cursor::new(b"x"), 9).unwrap();
        let run = store.root.join("namespaces/ns/runs/u");
        fs::write(run.join(".artifact-torn"), "x").unwrap();
        store.delete(&reference(PATH)).unwrap();
        store.delete_run("ns", "u").unwrap();
        assert!(!run.exists());
        assert!(store.root.join("namespaces/ns/runs/u2/a").exists());
    }
}
