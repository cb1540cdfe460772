//! Artifacts for other components of the cluster, over gRPC (node, section 12.6).

use std::io::Read;
use std::sync::Arc;

use kruntimes_core::api::{ArtifactRef, ArtifactType};
use kruntimes_core::crd::Run;
use kruntimes_k8s::cache::{Cache, ObjectKey};
use kruntimes_proto::artifact::v1 as proto;
use proto::artifact_service_server::ArtifactService;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::codegen::BoxStream;
use tonic::{Request, Response, Status};

use super::digest::Summed;
use super::{Store, StoreError};

/// Bytes of one frame (N-165).
const FRAME_BYTES: usize = 65_536;

type Frame = Result<proto::DownloadResponse, Status>;

/// Serves the artifacts of one Runtime in one namespace.
#[derive(Clone)]
pub(crate) struct Downloads {
    pub(crate) namespace: String,
    pub(crate) runtime: String,
    pub(crate) runs: Cache<Run>,
    pub(crate) store: Option<Arc<dyn Store>>,
}

impl Downloads {
    /// Finds what is asked for; the store is not touched (N-164).
    fn find(
        &self,
        asked: &proto::DownloadRequest,
    ) -> Result<(Arc<dyn Store>, ArtifactRef), Status> {
        for (name, value) in [
            ("namespace", &asked.namespace),
            ("run_name", &asked.run_name),
            ("artifact_name", &asked.artifact_name),
        ] {
            if value.is_empty() {
                return Err(Status::invalid_argument(format!("{name} is missing")));
            }
        }
        let Some(store) = &self.store else {
            return Err(Status::failed_precondition("there is no artifact store"));
        };
        if asked.namespace != self.namespace {
            return Err(Status::permission_denied("the run is in another namespace"));
        }
        let key = ObjectKey::new(&asked.namespace, &asked.run_name);
        let run = self.runs.get(&key);
        let run = run.ok_or_else(|| Status::not_found("there is no such run"))?;
        if run.spec.runtime != self.runtime {
            return Err(Status::permission_denied("the run has another runtime"));
        }
        let references = run.status.iter().flat_map(|status| &status.artifact_refs);
        let found = { references }.find(|found| found.name == asked.artifact_name);
        let found = found.ok_or_else(|| Status::not_found("the run has no such artifact"))?;
        Ok((Arc::clone(store), found.clone()))
    }
}

fn metadata(reference: &ArtifactRef) -> proto::ArtifactMetadata {
    let kind = match reference.artifact_type {
        ArtifactType::File => "file",
        ArtifactType::Directory => "directory",
        ArtifactType::Archive => "archive",
        ArtifactType::Blob => "blob",
    };
    proto::ArtifactMetadata {
        name: reference.name.clone(),
        r#type: kind.to_owned(),
        content_type: reference.content_type.clone().unwrap_or_default(),
        size_bytes: reference.size_bytes,
        digest: reference.digest.clone().unwrap_or_default(),
    }
}

fn refused(error: &StoreError) -> Status {
    match error {
        StoreError::Invalid(text) => Status::failed_precondition(text.clone()),
        StoreError::Failed { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
            Status::data_loss("the artifact is missing in its store")
        }
        StoreError::Failed { .. } | StoreError::Abandoned => Status::unavailable(error.to_string()),
    }
}

/// Sends frames until the end or until nobody reads any more; holds one frame at a time (N-167).
fn send(store: &dyn Store, reference: &ArtifactRef, out: &mpsc::Sender<Frame>) {
    let content = match store.open(reference) {
        Ok(content) => content,
        Err(error) => {
            let _ = out.blocking_send(Err(refused(&error)));
            return;
        }
    };
    let first = proto::DownloadResponse {
        metadata: Some(metadata(reference)),
        data: Vec::new(),
    };
    if out.blocking_send(Ok(first)).is_err() {
        return;
    }
    let differs = || Status::data_loss("the artifact differs from its reference");
    let size = u64::try_from(reference.size_bytes).unwrap_or_default();
    let mut content = Summed::new(content.take(size.saturating_add(1)));
    let mut sent = 0_u64;
    loop {
        let mut data = vec![0; FRAME_BYTES];
        let read = match content.read(&mut data) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => {
                let _ = out.blocking_send(Err(Status::unavailable(error.to_string())));
                return;
            }
        };
        sent += u64::try_from(read).unwrap_or(u64::MAX);
        if sent > size {
            let _ = out.blocking_send(Err(differs()));
            return;
        }
        data.truncate(read);
        let frame = proto::DownloadResponse {
            metadata: None,
            data,
        };
        if out.blocking_send(Ok(frame)).is_err() {
            return;
        }
    }
    let (found, digest) = content.sum();
    let right = reference.digest.as_ref().is_none_or(|want| *want == digest);
    if found != size || !right {
        let _ = out.blocking_send(Err(differs()));
    }
}

#[tonic::async_trait]
impl ArtifactService for Downloads {
    async fn download(
        &self,
        request: Request<proto::DownloadRequest>,
    ) -> Result<Response<BoxStream<proto::DownloadResponse>>, Status> {
        let (store, reference) = self.find(request.get_ref())?;
        let (out, frames) = mpsc::channel(1);
        tokio::task::spawn_blocking(move || send(store.as_ref(), &reference, &out));
        Ok(Response::new(Box::pin(ReceiverStream::new(frames))))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use futures::StreamExt as _;
    use kruntimes_core::api::{ArtifactStore, RunSpec, RunStatus};
    use tonic::Code;

    use super::super::{About, Content, FilesystemStore, Item, Stored};
    use super::*;

    struct Place {
        _temp: tempfile::TempDir,
        store: Arc<FilesystemStore>,
        downloads: Downloads,
    }

    fn place() -> Place {
        let temp = tempfile::tempdir().unwrap();
        let store = Arc::new(FilesystemStore::new(temp.path(), "claim").unwrap());
        let downloads = Downloads {
            namespace: "ns".into(),
            runtime: "bash".into(),
            runs: Cache::new(&[]),
            store: Some(store.clone()),
        };
        Place {
            _temp: temp,
            store,
            downloads,
        }
    }

    impl Place {
        fn run(&self, name: &str, runtime: &str, references: Vec<ArtifactRef>) {
            let spec = RunSpec {
                runtime: runtime.into(),
                ..RunSpec::default()
            };
            let mut run = Run::new(name, spec);
            run.metadata.namespace = Some("ns".into());
            run.metadata.uid = Some(name.into());
            run.metadata.resource_version = Some("1".into());
            run.status = Some(RunStatus {
                artifact_refs: references,
                ..RunStatus::default()
            });
            self.downloads.runs.written(run);
        }

        fn stored(&self, name: &str, bytes: &[u8]) -> ArtifactRef {
            let item = Item {
                namespace: "ns",
                run_uid: "u",
                name,
                about: About::default(),
            };
            let stored = self
                .store
                .put(item, &mut std::io::Cursor::new(bytes), 1 << 20)
                .unwrap();
            ArtifactRef {
                name: name.into(),
                location: stored.location,
                size_bytes: i64::try_from(stored.size_bytes).unwrap(),
                digest: Some(stored.digest),
                content_type: Some("text/plain".into()),
                ..super::super::reference::tests::reference("x")
            }
        }

        async fn ask(
            &self,
            namespace: &str,
            run: &str,
            artifact: &str,
        ) -> Result<Vec<Frame>, Code> {
            let request = proto::DownloadRequest {
                namespace: namespace.into(),
                run_name: run.into(),
                artifact_name: artifact.into(),
            };
            match self.downloads.download(Request::new(request)).await {
                Ok(stream) => Ok(stream.into_inner().collect().await),
                Err(status) => Err(status.code()),
            }
        }
    }

    #[tokio::test]
    async fn n_164_checks_come_in_their_order() {
        let mut place = place();
        let artifact = place.stored("a", b"x");
        place.run("mine", "bash", vec![artifact.clone()]);
        place.run("other", "python", vec![artifact]);
        for (namespace, run, name, want) in [
            ("", "mine", "a", Code::InvalidArgument),
            ("ns", "", "a", Code::InvalidArgument),
            ("ns", "mine", "", Code::InvalidArgument),
            ("else", "mine", "a", Code::PermissionDenied),
            ("ns", "none", "a", Code::NotFound),
            ("ns", "other", "none", Code::PermissionDenied),
            ("ns", "mine", "b", Code::NotFound),
        ] {
            let found = place.ask(namespace, run, name).await;
            assert_eq!(found.unwrap_err(), want, "{namespace}/{run}/{name}");
        }
        assert!(place.ask("ns", "mine", "a").await.is_ok());
        place.downloads.store = None;
        let without = place.ask("else", "mine", "a").await;
        assert_eq!(without.unwrap_err(), Code::FailedPrecondition, "N-7");
        assert_eq!(
            place.ask("", "", "").await.unwrap_err(),
            Code::InvalidArgument
        );
    }

    #[tokio::test]
    async fn n_165_metadata_comes_first_then_bounded_frames() {
        let place = place();
        let bytes: Vec<u8> = (0..150_000_u32).map(|n| n.to_be_bytes()[3]).collect();
        let references = vec![place.stored("big", &bytes), place.stored("empty", b"")];
        let digest = references[0].digest.clone().unwrap();
        place.run("mine", "bash", references);
        let frames = place.ask("ns", "mine", "big").await.unwrap();
        let frames: Vec<_> = frames.into_iter().map(Result::unwrap).collect();
        let told = frames[0].metadata.clone().unwrap();
        assert_eq!((told.name.as_str(), told.size_bytes), ("big", 150_000));
        assert_eq!((told.r#type.as_str(), told.digest), ("file", digest));
        assert!(frames[0].data.is_empty());
        assert!(
            frames[1..]
                .iter()
                .all(|f| f.metadata.is_none() && f.data.len() <= FRAME_BYTES)
        );
        let data: Vec<u8> = frames.into_iter().flat_map(|frame| frame.data).collect();
        assert_eq!(data, bytes);
        assert_eq!(place.ask("ns", "mine", "empty").await.unwrap().len(), 1);
    }

    #[tokio::test]
    async fn n_166_what_differs_ends_in_data_loss() {
        let place = place();
        let good = place.stored("a", b"hello");
        let of = |change: &dyn Fn(&mut ArtifactRef)| {
            let mut changed = good.clone();
            change(&mut changed);
            changed
        };
        for (name, reference) in [
            ("short", of(&|r| r.size_bytes = 9)),
            ("long", of(&|r| r.size_bytes = 3)),
            (
                "digest",
                of(&|r| r.digest = Some(format!("sha256:{}", "0".repeat(64)))),
            ),
        ] {
            place.run(name, "bash", vec![reference]);
            let frames = place.ask("ns", name, "a").await.unwrap();
            let last = frames.last().unwrap().as_ref().unwrap_err();
            assert_eq!(last.code(), Code::DataLoss, "{name}");
        }
    }

    /// A store of one endless artifact that counts what is read of it.
    struct Endless {
        settings: ArtifactStore,
        read: Counted,
    }

    #[derive(Clone, Default)]
    struct Counted(Arc<AtomicU64>);

    impl Read for Counted {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            let bytes = u64::try_from(buffer.len()).unwrap();
            self.0.fetch_add(bytes, Ordering::SeqCst);
            Ok(buffer.len())
        }
    }

    impl Store for Endless {
        fn settings(&self) -> ArtifactStore {
            self.settings.clone()
        }

        fn put(&self, _: Item<'_>, _: &mut dyn Content, _: u64) -> Result<Stored, StoreError> {
            Err(StoreError::Abandoned)
        }

        fn open(&self, _: &ArtifactRef) -> Result<Box<dyn Read + Send>, StoreError> {
            Ok(Box::new(self.read.clone()))
        }

        fn delete(&self, _: &ArtifactRef) -> Result<(), StoreError> {
            Err(StoreError::Abandoned)
        }

        fn delete_run(&self, _: &str, _: &str) -> Result<(), StoreError> {
            Err(StoreError::Abandoned)
        }
    }

    #[test]
    fn n_167_a_client_that_stops_reading_holds_one_frame() {
        let read = Counted::default();
        let store = Endless {
            settings: place().store.settings(),
            read: read.clone(),
        };
        let reference = ArtifactRef {
            size_bytes: 1 << 40,
            ..super::super::reference::tests::reference("x")
        };
        let (out, mut frames) = mpsc::channel(1);
        let sender = std::thread::spawn(move || send(&store, &reference, &out));
        for _ in 0..3 {
            assert!(frames.blocking_recv().unwrap().is_ok());
        }
        // It reads no more and goes away: that ends the sender, however much is left.
        drop(frames);
        sender.join().unwrap();
        let frames = read.0.load(Ordering::SeqCst) / FRAME_BYTES as u64;
        assert!((2..=4).contains(&frames), "{frames} frames were read");
    }
}
