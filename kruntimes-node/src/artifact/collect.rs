//! Storing what a task left behind, beside the reconcile of its Run (node, section 12.1).

use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Seek, SeekFrom};
use std::sync::Arc;

use kruntimes_core::api::{ArtifactRef, ArtifactType};
use kruntimes_core::crd::Run;
use kruntimes_core::message::quoted;
use kruntimes_core::names;
use kruntimes_core::time::Time;
use kruntimes_k8s::cache::ObjectKey;
use kube::ResourceExt as _;
use rustix::fs::FileType;
use tokio_util::sync::CancellationToken;

use super::content::{SNIFF_BYTES, media_type};
use super::reference::is_component;
use super::{About, Artifacts, COUNT_MAX, Item, Store, StoreError, Stored, archive};
use crate::files::RunDir;
use crate::folder::Folder;
use crate::node::Node;

/// One collection on its way.
pub(crate) struct Collection {
    pub(crate) run: Arc<Run>,
    pub(crate) uid: String,
    /// The attempt it belongs to.
    pub(crate) epoch: u64,
    pub(crate) dir: RunDir,
}

/// How a collection ended.
#[derive(Clone, Debug)]
pub(crate) enum Collected {
    /// Everything is stored.
    Done(Vec<ArtifactRef>),
    /// Something breaks a rule; nothing is stored (N-143).
    Invalid(String),
    /// The store failed; nothing is stored, and it is tried again.
    Failed(String),
}

/// Checks number and names of what was left behind, and puts them into their order (N-135 to N-137).
pub(crate) fn order(names: Vec<OsString>) -> Result<Vec<String>, String> {
    if names.len() > COUNT_MAX {
        return Err(format!("more than {COUNT_MAX} artifacts"));
    }
    let mut ordered = Vec::new();
    for name in names {
        let text = name.to_string_lossy();
        if !is_component(&text) || name.to_str().is_none() {
            return Err(format!("artifact name {} is not allowed", quoted(&text)));
        }
        ordered.push(text.into_owned());
    }
    ordered.sort_unstable();
    Ok(ordered)
}

/// Begins a collection; the entry must be marked as collecting before.
pub(crate) fn spawn(node: &Arc<Node>, artifacts: Artifacts, collection: Collection) {
    let shared = Arc::clone(node);
    node.tasks
        .spawn(async move { collection.perform(&shared, artifacts).await });
}

impl Collection {
    async fn perform(self, node: &Node, artifacts: Artifacts) {
        let abandoned = CancellationToken::new();
        let mut work = std::pin::pin!(self.store(node, artifacts.clone(), abandoned.clone()));
        let stored = tokio::select! {
            biased;
            stored = &mut work => stored,
            () = node.table.unwanted(&self.uid, self.epoch) => {
                abandoned.cancel();
                work.await
            }
        };
        let result = match stored {
            Ok(references) => Collected::Done(references),
            Err(error) => {
                let left = roll_back(&artifacts, &self.run, &self.uid).await;
                let text = joined(&error, left);
                match error {
                    StoreError::Invalid(_) => Collected::Invalid(text),
                    StoreError::Failed { .. } | StoreError::Abandoned => Collected::Failed(text),
                }
            }
        };
        node.table.update(&self.uid, |entry| {
            entry.upload.busy = false;
            if entry.epoch == self.epoch {
                entry.upload.result = Some(result);
            }
        });
        node.queue.add(ObjectKey::of(self.run.as_ref()));
    }

    async fn store(
        &self,
        node: &Node,
        artifacts: Artifacts,
        abandoned: CancellationToken,
    ) -> Result<Vec<ArtifactRef>, StoreError> {
        let upload = Upload {
            artifacts,
            run: Arc::clone(&self.run),
            namespace: self.run.namespace().unwrap_or_default(),
            uid: self.uid.clone(),
            dir: self.dir.clone(),
            abandoned,
            now: Time(node.clock.now()),
        };
        tokio::task::spawn_blocking(move || upload.all())
            .await
            .unwrap_or_else(|error| {
                Err(StoreError::Failed {
                    what: "collect",
                    source: io::Error::other(error),
                })
            })
    }
}

/// Words an error with its cause, and with what went wrong afterwards (N-142).
pub(super) fn joined(error: &StoreError, left: Result<(), StoreError>) -> String {
    let word = |error: &StoreError| match error {
        StoreError::Failed { source, .. } => format!("{error}: {source}"),
        StoreError::Invalid(_) | StoreError::Abandoned => error.to_string(),
    };
    match left {
        Ok(()) => word(error),
        Err(left) => format!(
            "{}; and what was stored stays: {}",
            word(error),
            word(&left)
        ),
    }
}

/// Removes everything of a Run from the store.
async fn roll_back(artifacts: &Artifacts, run: &Run, uid: &str) -> Result<(), StoreError> {
    let namespace = run.namespace().unwrap_or_default();
    remove_run(Arc::clone(&artifacts.store), &namespace, uid).await
}

/// Removes everything of a Run from a store, on a thread that may block.
pub(super) async fn remove_run(
    store: Arc<dyn Store>,
    namespace: &str,
    uid: &str,
) -> Result<(), StoreError> {
    let (namespace, uid) = (namespace.to_owned(), uid.to_owned());
    tokio::task::spawn_blocking(move || store.delete_run(&namespace, &uid))
        .await
        .unwrap_or_else(|error| {
            Err(StoreError::Failed {
                what: "delete the artifacts of a run",
                source: io::Error::other(error),
            })
        })
}

/// Removes what a Run that did not succeed has in the store, and tells whether it is gone; a failure is
/// logged, its finalizer stays (N-142).
pub(crate) async fn discard(artifacts: &Artifacts, run: &Run, uid: &str) -> bool {
    let left = roll_back(artifacts, run, uid).await;
    if let Err(error) = &left {
        tracing::warn!(uid, %error, "artifacts of a run that did not succeed stay");
    }
    left.is_ok()
}

struct Upload {
    artifacts: Artifacts,
    run: Arc<Run>,
    namespace: String,
    uid: String,
    dir: RunDir,
    abandoned: CancellationToken,
    now: Time,
}

/// Reads until nobody wants it any more.
struct Watched<'a, R> {
    inner: R,
    abandoned: &'a CancellationToken,
}

impl<R: Read> Read for Watched<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.abandoned.is_cancelled() {
            return Err(io::Error::other(StoreError::Abandoned));
        }
        self.inner.read(buffer)
    }
}

impl<R: Seek> Seek for Watched<'_, R> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.inner.seek(to)
    }
}

fn local(source: io::Error) -> StoreError {
    StoreError::Failed {
        what: "make an archive",
        source,
    }
}

impl Upload {
    fn all(&self) -> Result<Vec<ArtifactRef>, StoreError> {
        let unreadable =
            |error: io::Error| StoreError::Invalid(format!("artifacts cannot be read: {error}"));
        let Some(folder) = self.dir.open_artifacts().map_err(unreadable)? else {
            return Ok(Vec::new());
        };
        let names = order(folder.names().map_err(unreadable)?).map_err(StoreError::Invalid)?;
        let mut left = self.artifacts.all_max_bytes;
        let mut references = Vec::new();
        for name in names {
            let limit = self.artifacts.one_max_bytes.min(left);
            let (kind, media, stored) = self.one(&folder, &name, limit)?;
            left = left.saturating_sub(stored.size_bytes);
            let reference = ArtifactRef {
                name,
                driver: self.artifacts.store.settings().driver,
                artifact_type: kind,
                location: stored.location,
                size_bytes: i64::try_from(stored.size_bytes).unwrap_or(i64::MAX),
                created_at: self.now,
                digest: Some(stored.digest),
                content_type: Some(media.to_owned()),
            };
            super::reference::check(&reference)?;
            references.push(reference);
        }
        Ok(references)
    }

    fn one(
        &self,
        folder: &Folder,
        name: &str,
        limit: u64,
    ) -> Result<(ArtifactType, &'static str, Stored), StoreError> {
        let named = |error: StoreError| match error {
            StoreError::Invalid(text) => {
                StoreError::Invalid(format!("artifact {}: {text}", quoted(name)))
            }
            other => other,
        };
        let invalid = |text: &str| named(StoreError::Invalid(text.to_owned()));
        let kind = folder
            .kind(name)
            .map_err(|error| invalid(&error.to_string()))?;
        match kind {
            Some(FileType::RegularFile) => {
                let (media, stored) = self.file(folder, name, limit).map_err(named)?;
                Ok((ArtifactType::File, media, stored))
            }
            Some(FileType::Directory) => {
                let stored = self.directory(folder, name, limit).map_err(named)?;
                Ok((ArtifactType::Directory, "application/gzip", stored))
            }
            Some(_) => Err(invalid("it is neither a regular file nor a directory")),
            None => Err(invalid("it vanished while it was collected")),
        }
    }

    fn put(
        &self,
        name: &str,
        (kind, media): (&str, &str),
        file: std::fs::File,
        limit: u64,
    ) -> Result<Stored, StoreError> {
        let item = Item {
            namespace: &self.namespace,
            run_uid: &self.uid,
            name,
            about: About {
                run_name: self.run.metadata.name.as_deref().unwrap_or_default(),
                runtime: &self.run.spec.runtime,
                kind,
                content_type: media,
                retention_seconds: self.run.spec.ttl_seconds_after_finished.map(i64::from),
            },
        };
        let mut content = Watched {
            inner: file,
            abandoned: &self.abandoned,
        };
        self.artifacts.store.put(item, &mut content, limit)
    }

    fn file(
        &self,
        folder: &Folder,
        name: &str,
        limit: u64,
    ) -> Result<(&'static str, Stored), StoreError> {
        let unreadable = |error: io::Error| StoreError::Invalid(error.to_string());
        let changed = || StoreError::Invalid("it changed while it was collected".to_owned());
        let mut file = folder.read(name).map_err(unreadable)?.ok_or_else(changed)?;
        let size = file.metadata().map_err(unreadable)?.len();
        let mut start = Vec::new();
        let sniffed = u64::try_from(SNIFF_BYTES).unwrap_or(u64::MAX);
        (&mut file)
            .take(sniffed)
            .read_to_end(&mut start)
            .map_err(unreadable)?;
        file.rewind().map_err(unreadable)?;
        let media = media_type(name, &start);
        // Refused before anything is stored; what grows is refused by the store.
        if size > limit {
            return Err(StoreError::Invalid(format!(
                "it has {size} bytes, {limit} are left for it"
            )));
        }
        let stored = self.put(name, ("file", media), file, limit)?;
        if stored.size_bytes == size {
            Ok((media, stored))
        } else {
            Err(changed())
        }
    }

    fn directory(&self, folder: &Folder, name: &str, limit: u64) -> Result<Stored, StoreError> {
        let tree = folder
            .enter(name)
            .map_err(|error| StoreError::Invalid(error.to_string()))?;
        let own = self.dir.open().map_err(local)?;
        let temporary = format!(".kruntime-artifact-{}.tar.gz", names::hash(name, 16));
        own.remove(&temporary).map_err(local)?;
        let out = own.create(&temporary, 0o600).map_err(local)?;
        let back = own.read(OsStr::new(&temporary)).map_err(local);
        // N-147: without a name it cannot be left behind.
        own.remove(&temporary).map_err(local)?;
        let Some(back) = back? else {
            return Err(local(io::ErrorKind::NotFound.into()));
        };
        let wanted = || {
            if self.abandoned.is_cancelled() {
                Err(StoreError::Abandoned)
            } else {
                Ok(())
            }
        };
        archive::write(&tree, io::BufWriter::new(out), limit, &wanted)?;
        self.put(name, ("directory", "application/gzip"), back, limit)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt as _;

    use super::*;

    #[test]
    fn n_135_n_136_n_137_names_are_few_plain_and_ordered() {
        let names = |names: &[&str]| names.iter().map(OsString::from).collect::<Vec<_>>();
        assert_eq!(
            order(names(&["b", "B", "a.txt", "a"])).unwrap(),
            ["B", "a", "a.txt", "b"]
        );
        let many: Vec<OsString> = (0..33).map(|n| n.to_string().into()).collect();
        assert!(order(many[..32].to_vec()).is_ok());
        assert_eq!(order(many).unwrap_err(), "more than 32 artifacts");
        let long = "x".repeat(255);
        assert!(order(names(&[&long])).is_ok());
        assert!(order(names(&["a\\b"])).is_err());
        assert!(order(vec![OsString::from_vec(b"\xff".to_vec())]).is_err());
    }
}
