//! Artifacts in a bucket, against a server that speaks the protocol of S3 over a real socket.

use std::fs;
use std::io::{self, Cursor, Read};
use std::path::PathBuf;
use std::sync::Arc;

use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use kruntimes_core::api::{
    ArtifactDriver, ArtifactInput, ArtifactLocation, ArtifactRef, ArtifactType, RunPhase, RunSpec,
    S3Location, S3Store as Settings,
};
use kruntimes_node::{About, Artifacts, Item, S3Store, Store, StoreError, Stored};
use kruntimes_proto::testing::{Script, ScriptedServer};
use kube::ResourceExt as _;
use s3s::auth::SimpleAuth;
use s3s::service::S3ServiceBuilder;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::world::{World, script, status};

const BUCKET: &str = "builds";

/// A server on a directory; it ends when this is dropped.
struct Server {
    root: tempfile::TempDir,
    endpoint: String,
    _serving: JoinSet<()>,
}

impl Server {
    async fn start() -> Self {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join(BUCKET)).unwrap();
        let files = s3s_fs::FileSystem::new(root.path()).unwrap();
        let mut builder = S3ServiceBuilder::new(files);
        builder.set_auth(SimpleAuth::from_single("id", "secret"));
        let service = builder.build();
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let service = service.clone();
                connections.spawn(async move {
                    let http = Builder::new(TokioExecutor::new());
                    let _ = http.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Self {
            root,
            endpoint,
            _serving: serving,
        }
    }

    fn store(&self, change: impl FnOnce(&mut Settings)) -> S3Store {
        let mut settings = Settings {
            bucket: BUCKET.into(),
            prefix: Some("team".into()),
            endpoint: Some(self.endpoint.clone()),
            force_path_style: Some(true),
            upload_part_size: Some(5 << 20),
            upload_concurrency: Some(2),
            ..Settings::default()
        };
        change(&mut settings);
        S3Store::with_keys(settings, "id", "secret").unwrap()
    }

    fn object(&self, key: &str) -> PathBuf {
        self.root.path().join(BUCKET).join(key)
    }

    /// Returns everything the server keeps for itself, such as parts of unfinished uploads.
    fn hidden(&self, part_of_name: &str) -> Vec<String> {
        let names = fs::read_dir(self.root.path()).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.contains(part_of_name)).collect()
    }
}

/// Calls a store from a thread that may block.
async fn on<T: Send + 'static>(
    store: &S3Store,
    call: impl FnOnce(&S3Store) -> T + Send + 'static,
) -> T {
    let store = store.clone();
    tokio::task::spawn_blocking(move || call(&store))
        .await
        .unwrap()
}

fn item<'a>(run_uid: &'a str, name: &'a str) -> Item<'a> {
    Item {
        namespace: "ns",
        run_uid,
        name,
        about: About {
            run_name: "r\u{e9}",
            runtime: "bash",
            kind: "file",
            content_type: "text/plain; charset=utf-8",
            retention_seconds: Some(60),
        },
    }
}

fn reference(name: &str, stored: &Stored) -> ArtifactRef {
    ArtifactRef {
        name: name.into(),
        driver: ArtifactDriver::S3,
        artifact_type: ArtifactType::File,
        location: stored.location.clone(),
        size_bytes: i64::try_from(stored.size_bytes).unwrap(),
        created_at: kruntimes_core::time::Time::default(),
        digest: Some(stored.digest.clone()),
        content_type: None,
    }
}

fn bytes_of(store: &S3Store, reference: &ArtifactRef) -> Result<Vec<u8>, StoreError> {
    let mut bytes = Vec::new();
    store.open(reference)?.read_to_end(&mut bytes).unwrap();
    Ok(bytes)
}

#[tokio::test]
async fn n_159_n_160_n_162_an_object_is_stored_told_read_and_deleted() {
    let server = Server::start().await;
    let store = server.store(|_| ());
    let put = |content: &'static [u8]| {
        move |store: &S3Store| store.put(item("u", "a b.txt"), &mut Cursor::new(content), 100)
    };
    let stored = on(&store, put(b"hello")).await.unwrap();
    let key = "team/namespaces/ns/runs/u/a b.txt";
    assert_eq!(
        stored.location,
        ArtifactLocation {
            filesystem: None,
            s3: Some(S3Location {
                bucket: BUCKET.into(),
                key: key.into()
            })
        }
    );
    let hello = "sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
    assert_eq!((stored.size_bytes, &*stored.digest), (5, hello));
    assert_eq!(fs::read(server.object(key)).unwrap(), b"hello");
    // The server keeps what it was told beside the bytes in a file of its own.
    let told = server.hidden("metadata");
    let told = fs::read_to_string(server.root.path().join(&told[0])).unwrap();
    for (name, value) in [
        ("kruntimes-run-name", "r%C3%A9"),
        ("kruntimes-run-uid", "u"),
        ("kruntimes-namespace", "ns"),
        ("kruntimes-runtime", "bash"),
        ("kruntimes-artifact-name", "a b.txt"),
        ("kruntimes-artifact-type", "file"),
        ("kruntimes-digest", hello),
        ("kruntimes-retention-seconds", "60"),
    ] {
        assert!(
            told.contains(name) && told.contains(value),
            "{name}: {told}"
        );
    }
    // N-144: again is the same, and other bytes replace.
    assert_eq!(on(&store, put(b"hello")).await.unwrap(), stored);
    let other = on(&store, put(b"other")).await.unwrap();
    let found = on(&store, {
        let reference = reference("a b.txt", &other);
        move |store| {
            let bytes = bytes_of(store, &reference).unwrap();
            store.delete(&reference).unwrap();
            store.delete(&reference).unwrap();
            let gone = bytes_of(store, &reference).unwrap_err();
            (bytes, gone)
        }
    });
    let (bytes, gone) = found.await;
    assert_eq!(bytes, b"other");
    let StoreError::Failed { source, .. } = gone else {
        panic!("{gone:?}");
    };
    assert_eq!(source.kind(), io::ErrorKind::NotFound);
}

/// Yields its bytes once as they were, and afterwards differently.
struct Fickle {
    inner: Cursor<Vec<u8>>,
    then: Vec<u8>,
}

impl Read for Fickle {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.inner.read(buffer)
    }
}

impl io::Seek for Fickle {
    fn seek(&mut self, to: io::SeekFrom) -> io::Result<u64> {
        self.inner = Cursor::new(std::mem::take(&mut self.then));
        self.inner.seek(to)
    }
}

#[tokio::test]
async fn n_140_n_161_nothing_is_sent_that_is_too_large_and_no_part_stays() {
    let server = Server::start().await;
    let store = server.store(|_| ());
    let big: Vec<u8> = (0..5_500_000_u32).map(|n| n.to_be_bytes()[2]).collect();
    let content = big.clone();
    let put = move |store: &S3Store| {
        let small = store.put(item("u", "big"), &mut Cursor::new(&content), 5_499_999);
        let fits = store.put(item("u", "big"), &mut Cursor::new(&content), 5_500_000);
        (small, fits)
    };
    let (small, fits) = on(&store, put).await;
    assert!(matches!(small, Err(StoreError::Invalid(text)) if text.contains("5499999")));
    let stored = fits.unwrap();
    assert_eq!(stored.size_bytes, 5_500_000);
    let key = "team/namespaces/ns/runs/u/big";
    assert_eq!(fs::read(server.object(key)).unwrap(), big, "two parts");
    // What changes while it is sent is taken back: neither an object nor a part of it stays.
    for size in [100, 5_500_000] {
        let mut content = Fickle {
            inner: Cursor::new(big[..size].to_vec()),
            then: big[1..size].to_vec(),
        };
        let put = move |store: &S3Store| store.put(item("u", "torn"), &mut content, 5_500_000);
        let torn = on(&store, put).await;
        assert!(matches!(torn, Err(StoreError::Invalid(_))), "{torn:?}");
    }
    assert!(!server.object("team/namespaces/ns/runs/u/torn").exists());
    assert_eq!(server.hidden("upload"), Vec::<String>::new());
}

#[tokio::test]
async fn n_163_everything_of_one_run_is_deleted_page_by_page() {
    let server = Server::start().await;
    let store = server.store(|_| ());
    for (uid, count) in [("u", 1_500), ("u2", 1)] {
        let place = server.object(&format!("team/namespaces/ns/runs/{uid}"));
        fs::create_dir_all(&place).unwrap();
        for number in 0..count {
            fs::write(place.join(number.to_string()), "x").unwrap();
        }
    }
    on(&store, |store| {
        store.delete_run("ns", "u").unwrap();
        store.delete_run("ns", "u").unwrap();
        store.delete_run("ns", "never").unwrap();
        assert!(store.delete_run("ns", "..").is_err());
    })
    .await;
    let left = |uid: &str| {
        let place = server.object(&format!("team/namespaces/ns/runs/{uid}"));
        fs::read_dir(place).map_or(0, Iterator::count)
    };
    assert_eq!((left("u"), left("u2")), (0, 1));
}

#[tokio::test]
async fn n_158_wrong_keys_and_a_closed_door_are_failures_that_may_pass() {
    let server = Server::start().await;
    let wrong = Settings {
        bucket: BUCKET.into(),
        endpoint: Some(server.endpoint.clone()),
        force_path_style: Some(true),
        ..Settings::default()
    };
    let wrong = S3Store::with_keys(wrong, "id", "guessed").unwrap();
    let closed = server.store(|s| s.endpoint = Some("http://127.0.0.1:1".into()));
    for store in [wrong, closed] {
        let put = |store: &S3Store| store.put(item("u", "a"), &mut Cursor::new(b"x"), 9);
        let error = on(&store, put).await.unwrap_err();
        assert!(matches!(error, StoreError::Failed { .. }), "{error:?}");
    }
}

/// Does what the script of a Run says with its staging directory.
fn worker() -> ScriptedServer {
    ScriptedServer::new(|request| {
        let staging = PathBuf::from(&request.env["KRUNTIME_ARTIFACTS_DIR"]);
        let input = PathBuf::from(&request.working_dir).join("in/report.txt");
        let text = fs::read_to_string(format!("{}/script", request.working_dir)).unwrap();
        Script::exits(0).on_finish(move || match text.as_str() {
            "make" => {
                fs::write(staging.join("report.txt"), "all is well").unwrap();
                fs::create_dir(staging.join("tree")).unwrap();
                fs::write(staging.join("tree/leaf"), "x").unwrap();
            }
            "take" => {
                let found = fs::read(input).unwrap();
                fs::write(staging.join("copy"), found).unwrap();
            }
            _ => fs::write(staging.join("big"), vec![0; 1001]).unwrap(),
        })
    })
}

#[tokio::test]
async fn n_139_n_141_n_143_n_149_a_task_keeps_and_takes_artifacts_in_a_bucket() {
    let server = Server::start().await;
    let mut world = World::new(2).await;
    let store = Arc::new(server.store(|_| ()));
    let mut artifacts = Artifacts::new(store.clone());
    artifacts.one_max_bytes = 1000;
    world.artifacts = Some(artifacts);
    let _daemon = world.daemon(worker());
    world.submit("maker", script("make")).await;
    let made = world.until_over("maker").await;
    assert_eq!(status(&made).phase, RunPhase::Succeeded);
    let settings = status(&made).artifact_store.clone().unwrap();
    assert_eq!(settings, store.settings(), "N-141");
    assert_eq!(made.finalizers(), ["kruntimes.io/artifact-cleanup"]);
    let references = &status(&made).artifact_refs;
    let told: Vec<_> = references
        .iter()
        .map(|r| (r.name.as_str(), r.driver, r.artifact_type))
        .collect();
    assert_eq!(
        told,
        [
            ("report.txt", ArtifactDriver::S3, ArtifactType::File),
            ("tree", ArtifactDriver::S3, ArtifactType::Directory)
        ]
    );
    let taker = RunSpec {
        artifact_inputs: vec![ArtifactInput {
            reference: references[0].clone(),
            path: "in/report.txt".into(),
        }],
        ..script("take")
    };
    world.submit("taker", taker).await;
    let taken = world.until_over("taker").await;
    assert_eq!(status(&taken).phase, RunPhase::Succeeded);
    assert_eq!(status(&taken).artifact_refs[0].digest, references[0].digest);
    // N-143: the same classification as on a volume.
    let bad = world.submit("bad", script("too much")).await;
    let ended = world.until_over("bad").await;
    assert_eq!(status(&ended).phase, RunPhase::Failed);
    let reasons: Vec<_> = status(&ended)
        .conditions
        .iter()
        .map(|c| &*c.reason)
        .collect();
    assert!(reasons.contains(&"ArtifactInvalid"), "{reasons:?}");
    let place = format!("team/namespaces/default/runs/{}", bad.uid().unwrap());
    assert!(!server.object(&place).exists());
}
