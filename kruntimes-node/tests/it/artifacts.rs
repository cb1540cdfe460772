//! Artifacts of tasks, from their staging directory into a store and from there to other Runs.

use std::fs;
use std::io::Read;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kruntimes_core::api::{ArtifactInput, ArtifactRef, ArtifactStore, RunPhase, RunSpec};
use kruntimes_core::crd::Run;
use kruntimes_node::{
    Artifacts, Content, FilesystemStore, Item, MaintainError, Maintainer, Store, StoreError, Stored,
};
use kruntimes_proto::ExecuteRequest;
use kruntimes_proto::testing::{Script, ScriptedServer};
use kube::ResourceExt as _;

use crate::bash::real_on;
use crate::world::{World, conditions, message, retried, script, status};

const FINALIZER: &str = "kruntimes.io/artifact-cleanup";

/// A store of files that can be made to fail.
struct Faulty {
    inner: FilesystemStore,
    down: AtomicBool,
    /// Names that are refused, each once.
    refuse: Mutex<Vec<String>>,
    /// The next call does not return until nobody wants its result.
    stuck: AtomicBool,
    puts: AtomicU32,
    /// Run whose artifacts cannot be deleted.
    kept: Mutex<String>,
}

fn broken() -> StoreError {
    StoreError::Failed {
        what: "put",
        source: std::io::ErrorKind::ConnectionRefused.into(),
    }
}

impl Store for Faulty {
    fn settings(&self) -> ArtifactStore {
        self.inner.settings()
    }

    fn put(
        &self,
        item: Item<'_>,
        content: &mut dyn Content,
        limit: u64,
    ) -> Result<Stored, StoreError> {
        self.puts.fetch_add(1, Ordering::SeqCst);
        if self.down.load(Ordering::SeqCst) {
            return Err(broken());
        }
        let mut refuse = self.refuse.lock().unwrap();
        if let Some(place) = refuse.iter().position(|name| name == item.name) {
            refuse.remove(place);
            return Err(broken());
        }
        drop(refuse);
        if self.stuck.swap(false, Ordering::SeqCst) {
            loop {
                // Ends when the reader says that nobody wants it any more.
                let mut byte = [0];
                content.read(&mut byte).map_err(|error| {
                    let inner = error.into_inner().unwrap();
                    *inner.downcast::<StoreError>().unwrap()
                })?;
                std::thread::yield_now();
            }
        }
        self.inner.put(item, content, limit)
    }

    fn open(&self, reference: &ArtifactRef) -> Result<Box<dyn Read + Send>, StoreError> {
        self.inner.open(reference)
    }

    fn delete(&self, reference: &ArtifactRef) -> Result<(), StoreError> {
        self.inner.delete(reference)
    }

    fn delete_run(&self, namespace: &str, run_uid: &str) -> Result<(), StoreError> {
        if *self.kept.lock().unwrap() == run_uid {
            return Err(broken());
        }
        self.inner.delete_run(namespace, run_uid)
    }
}

struct Place {
    world: World,
    store: Arc<Faulty>,
    root: PathBuf,
}

async fn place() -> Place {
    let mut world = World::new(8).await;
    let root = world.path("store");
    fs::create_dir(&root).unwrap();
    let store = Arc::new(Faulty {
        inner: FilesystemStore::new(&root, "claim").unwrap(),
        down: AtomicBool::new(false),
        refuse: Mutex::default(),
        stuck: AtomicBool::new(false),
        puts: AtomicU32::new(0),
        kept: Mutex::default(),
    });
    let mut artifacts = Artifacts::new(Arc::clone(&store) as Arc<dyn Store>);
    artifacts.one_max_bytes = 1000;
    artifacts.all_max_bytes = 2500;
    world.artifacts = Some(artifacts);
    Place { world, store, root }
}

impl Place {
    /// Tells whether the store has anything of a Run.
    fn has(&self, run: &Run) -> bool {
        let runs = self.root.join("namespaces/default/runs");
        runs.join(run.uid().unwrap()).exists()
    }
}

/// Leaves something in the artifact directory when the work ends.
fn leaves(request: &ExecuteRequest, make: impl FnOnce(&Path) + Send + 'static) -> Script {
    let path = PathBuf::from(&request.env["KRUNTIME_ARTIFACTS_DIR"]);
    Script::exits(0).on_finish(move || make(&path))
}

fn write(path: &Path, bytes: usize) {
    fs::write(path, vec![b'x'; bytes]).unwrap();
}

#[tokio::test(start_paused = true)]
async fn n_139_n_141_n_142_n_149_what_a_task_leaves_is_kept() {
    let place = place().await;
    let server = ScriptedServer::new(|request| {
        leaves(request, |path| {
            write(&path.join("b.txt"), 10);
            fs::create_dir(path.join("a")).unwrap();
            write(&path.join("a/inner"), 20);
        })
    });
    let _daemon = place.world.daemon(server.clone());
    let run = place.world.submit("a", script("x")).await;
    let done = place.world.until_over("a").await;
    assert_eq!(
        status(&done).phase,
        RunPhase::Succeeded,
        "{}",
        message(&done)
    );
    assert_eq!(done.finalizers(), [FINALIZER]);
    let settings = status(&done).artifact_store.clone().unwrap();
    assert_eq!(settings.filesystem.unwrap().volume_claim_name, "claim");
    let references = &status(&done).artifact_refs;
    let names: Vec<_> = references
        .iter()
        .map(|r| (&*r.name, r.content_type.as_deref()))
        .collect();
    assert_eq!(
        names,
        [
            ("a", Some("application/gzip")),
            ("b.txt", Some("text/plain; charset=utf-8"))
        ]
    );
    let uid = run.uid().unwrap();
    let path = &references[1].location.filesystem.as_ref().unwrap().path;
    assert_eq!(*path, format!("namespaces/default/runs/{uid}/b.txt"));
    assert_eq!(references[1].size_bytes, 10);
    assert_eq!(server.executed(&uid), 1);
}

#[tokio::test(start_paused = true)]
async fn n_135_case_121_a_run_without_artifacts_carries_no_finalizer() {
    let place = place().await;
    let _daemon = place
        .world
        .daemon(ScriptedServer::new(|_| Script::exits(0)));
    place.world.submit("a", script("x")).await;
    let done = place.world.until_over("a").await;
    assert!(done.finalizers().is_empty(), "N-168");
    assert_eq!(status(&done).artifact_store, None);
    assert!(status(&done).artifact_refs.is_empty());
}

type Make = fn(&Path);

/// Names of cases, the beginnings of their messages, and what they leave.
fn refused() -> [(&'static str, &'static str, Make); 7] {
    [
        ("count", "more than 32 artifacts", |path| {
            (0..33).for_each(|n| write(&path.join(n.to_string()), 1));
        }),
        ("link", "artifact \"l\": it is neither", |path| {
            write(&path.join("a"), 1);
            symlink("/etc/passwd", path.join("l")).unwrap();
        }),
        ("inner", "artifact \"d\": \"l\" is neither", |path| {
            fs::create_dir(path.join("d")).unwrap();
            symlink("/etc/passwd", path.join("d/l")).unwrap();
        }),
        (
            "size",
            "artifact \"b\": it has 1001 bytes, 1000 are left",
            |path| {
                write(&path.join("a"), 1000);
                write(&path.join("b"), 1001);
            },
        ),
        (
            "total",
            "artifact \"c\": it has 501 bytes, 500 are left",
            |path| {
                write(&path.join("a"), 1000);
                write(&path.join("b"), 1000);
                write(&path.join("c"), 501);
            },
        ),
        ("name", "artifact name \"a\\\\b\" is not allowed", |path| {
            write(&path.join("a\\b"), 1);
        }),
        ("file", "artifacts cannot be read", |path| {
            fs::remove_dir(path).unwrap();
            fs::write(path, "x").unwrap();
        }),
    ]
}

#[tokio::test(start_paused = true)]
async fn n_136_n_138_n_140_n_143_what_breaks_a_rule_is_refused_as_a_whole() {
    let cases = refused();
    let place = place().await;
    let server = ScriptedServer::new(move |request| {
        let name = fs::read_to_string(format!("{}/script", request.working_dir)).unwrap();
        let case = cases.iter().find(|case| case.0 == name).unwrap();
        leaves(request, case.2)
    });
    let _daemon = place.world.daemon(server.clone());
    for (name, want, _) in cases {
        let run = place
            .world
            .submit(name, retried(name, 3, Duration::ZERO))
            .await;
        let done = place.world.until_over(name).await;
        assert_eq!(status(&done).phase, RunPhase::Failed, "{name}");
        assert!(
            message(&done).starts_with(want),
            "{name}: {}",
            message(&done)
        );
        assert!(conditions(&done).contains(&"Completed=False ArtifactInvalid".to_owned()));
        assert_eq!(status(&done).attempt, Some(1), "never repeated");
        assert!(status(&done).artifact_refs.is_empty());
        assert!(!place.has(&run), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn n_142_n_168_what_is_refused_after_its_upload_began_keeps_no_finalizer() {
    let place = place().await;
    let server = ScriptedServer::new(|request| {
        leaves(request, |path| {
            write(&path.join("a"), 10);
            write(&path.join("b"), 1001);
        })
    });
    let _daemon = place.world.daemon(server);
    let run = place.world.submit("r", script("x")).await;
    let done = place.world.until_over("r").await;
    assert!(conditions(&done).contains(&"Completed=False ArtifactInvalid".to_owned()));
    assert!(
        place.store.puts.load(Ordering::SeqCst) > 0,
        "the first one was stored"
    );
    let free = |run: Option<&Run>| run.is_some_and(|run| run.finalizers().is_empty());
    let waiting = kube::runtime::wait::await_condition(place.world.runs.clone(), "r", free);
    let free = tokio::time::timeout(Duration::from_secs(60), Box::pin(waiting)).await;
    assert!(free.unwrap().is_ok());
    assert!(!place.has(&run));
}

#[tokio::test(start_paused = true)]
async fn n_136_n_140_what_just_fits_is_kept() {
    let place = place().await;
    let server = ScriptedServer::new(|request| {
        leaves(request, |path| {
            write(&path.join("0"), 1000);
            write(&path.join("1"), 1000);
            (2..32).for_each(|n| write(&path.join(n.to_string()), 0));
            write(&path.join("9"), 500);
        })
    });
    let _daemon = place.world.daemon(server);
    place.world.submit("a", script("x")).await;
    let done = place.world.until_over("a").await;
    assert_eq!(status(&done).artifact_refs.len(), 32, "{}", message(&done));
}

#[tokio::test(start_paused = true)]
async fn n_142_n_143_n_144_case_125_a_store_that_fails_costs_time_and_nothing_else() {
    let place = place().await;
    let server = ScriptedServer::new(|request| {
        let outputs = request.env["KRUNTIME_OUTPUTS"].clone();
        leaves(request, move |path| {
            fs::write(outputs, "A=1").unwrap();
            for name in ["a", "b", "c"] {
                write(&path.join(name), 5);
            }
        })
    });
    place.store.refuse.lock().unwrap().push("c".into());
    let daemon = place.world.daemon(server.clone());
    let run = place.world.submit("partly", script("x")).await;
    let done = place.world.until_over("partly").await;
    assert_eq!(status(&done).artifact_refs.len(), 3, "{}", message(&done));
    assert_eq!(place.store.puts.load(Ordering::SeqCst), 6);
    assert_eq!(server.executed(&run.uid().unwrap()), 1);
    place.store.down.store(true, Ordering::SeqCst);
    let run = place.world.submit("down", script("x")).await;
    place.world.pass(Duration::from_secs(20)).await;
    let waiting = place.world.get("down").await;
    assert_eq!(status(&waiting).phase, RunPhase::Running);
    assert!(!place.has(&run) && status(&waiting).artifact_refs.is_empty());
    assert_eq!(waiting.finalizers(), [FINALIZER]);
    // The process does not matter either.
    daemon.kill().await;
    place.store.down.store(false, Ordering::SeqCst);
    let _daemon = place.world.daemon(server.clone());
    let done = place.world.until_over("down").await;
    assert_eq!(status(&done).phase, RunPhase::Succeeded);
    assert_eq!(status(&done).artifact_refs.len(), 3);
    assert_eq!(status(&done).outputs["A"], "1");
    assert_eq!(server.executed(&run.uid().unwrap()), 1);
}

#[tokio::test(start_paused = true)]
async fn n_143_a_deadline_ends_the_wait_for_a_store() {
    let place = place().await;
    place.store.down.store(true, Ordering::SeqCst);
    let server = ScriptedServer::new(|request| leaves(request, |path| write(&path.join("a"), 1)));
    let _daemon = place.world.daemon(server);
    let mut spec = script("x");
    spec.timeout = Some(Duration::from_secs(10).into());
    let run = place.world.submit("a", spec).await;
    let done = place.world.until_over("a").await;
    assert_eq!(status(&done).phase, RunPhase::Timeout);
    assert_eq!(message(&done), "timeout after 10s");
    let dir = place.world.run_dir(&run);
    place
        .world
        .eventually("nothing is left", || !dir.exists())
        .await;
}

#[tokio::test]
async fn n_116_an_upload_is_abandoned_by_a_cancel() {
    let place = place().await;
    let server = ScriptedServer::new(|request| {
        leaves(request, |path| {
            write(&path.join("a"), 1);
            write(&path.join("b"), 1);
        })
    });
    place.store.stuck.store(true, Ordering::SeqCst);
    let _daemon = place.world.daemon(server);
    let run = place.world.submit("a", script("x")).await;
    let puts = || place.store.puts.load(Ordering::SeqCst) > 0;
    place.world.eventually("it is stored", puts).await;
    place.world.submit("other", script("x")).await;
    let other = place.world.until_over("other").await;
    assert_eq!(status(&other).phase, RunPhase::Succeeded, "N-24");
    place.world.cancel("a").await;
    let done = place.world.until_over("a").await;
    assert_eq!(status(&done).phase, RunPhase::Cancelled);
    let dir = place.world.run_dir(&run);
    place
        .world
        .eventually("its files are gone", || !dir.exists())
        .await;
    assert!(!place.has(&run));
}

#[tokio::test]
async fn n_56_n_61_n_73_artifacts_travel_from_run_to_run() {
    let Place { world, .. } = place().await;
    let real = real_on(world, Duration::from_millis(200));
    let make = "test -z \"$(ls \"$KRUNTIME_ARTIFACTS_DIR\")\" || exit 9
        echo first > \"$KRUNTIME_ARTIFACTS_DIR/f\"; mkdir \"$KRUNTIME_ARTIFACTS_DIR/d\"
        printf 'echo I run' > \"$KRUNTIME_ARTIFACTS_DIR/d/tool\"; chmod 755 \"$KRUNTIME_ARTIFACTS_DIR/d/tool\"
        test -e again || { touch again; echo x > \"$KRUNTIME_ARTIFACTS_DIR/old\"; exit 1; }";
    real.world
        .submit("make", retried(make, 2, Duration::from_millis(20)))
        .await;
    let made = real.world.until_over("make").await;
    assert_eq!(
        status(&made).phase,
        RunPhase::Succeeded,
        "{}",
        message(&made)
    );
    let references = status(&made).artifact_refs.clone();
    let names: Vec<_> = references.iter().map(|r| r.name.as_str()).collect();
    assert_eq!(names, ["d", "f"], "nothing of the first attempt");
    let inputs = |paths: [&str; 2]| {
        let pairs = references.iter().cloned().zip(paths);
        pairs
            .map(|(reference, path)| ArtifactInput {
                reference,
                path: path.into(),
            })
            .collect()
    };
    let spec = RunSpec {
        artifact_inputs: inputs(["tools", "in/f"]),
        ..script("echo \"SAYS=$(bash tools/tool) $(cat in/f)\" >> \"$KRUNTIME_OUTPUTS\"")
    };
    real.world.submit("use", spec).await;
    let used = real.world.until_over("use").await;
    assert_eq!(
        status(&used).phase,
        RunPhase::Succeeded,
        "{}",
        message(&used)
    );
    assert_eq!(status(&used).outputs["SAYS"], "I run first");
    for (name, paths) in [("taken", ["x", "script"]), ("same", ["x", "x"])] {
        let spec = RunSpec {
            artifact_inputs: inputs(paths),
            ..script("true")
        };
        real.world.submit(name, spec).await;
        let done = real.world.until_over(name).await;
        assert_eq!(message(&done), "artifactInputs[1]: the destination exists");
        assert!(conditions(&done).contains(&"Completed=False RuntimeExecute".to_owned()));
    }
}

#[tokio::test(start_paused = true)]
async fn n_68_without_a_store_there_is_no_directory_for_artifacts() {
    let world = World::new(2).await;
    let server = ScriptedServer::new(|request| {
        let given = request.env.contains_key("KRUNTIME_ARTIFACTS_DIR");
        Script::exits(i32::from(given))
    });
    let _daemon = world.daemon(server);
    let spec = crate::world::with_env(script("x"), &[("KRUNTIME_ARTIFACTS_DIR", "/tmp")]);
    world.submit("a", spec).await;
    let done = world.until_over("a").await;
    assert_eq!(
        status(&done).phase,
        RunPhase::Succeeded,
        "{}",
        message(&done)
    );
}

#[tokio::test(start_paused = true)]
async fn n_168_n_172_n_174_case_122_data_goes_with_its_run_and_holds_up_no_other() {
    let place = place().await;
    let server = ScriptedServer::new(|request| leaves(request, |path| write(&path.join("a"), 1)));
    let _daemon = place.world.daemon(server);
    let store = Arc::clone(&place.store) as Arc<dyn Store>;
    let maintainer = tokio::spawn(kruntimes_node::maintain(place.world.client.clone(), store));
    let mut runs = Vec::new();
    for name in ["stuck", "b", "c"] {
        place.world.submit(name, script("x")).await;
        runs.push(place.world.until_over(name).await);
    }
    *place.store.kept.lock().unwrap() = runs[0].uid().unwrap();
    for name in ["stuck", "b", "c"] {
        place.world.delete(name).await;
    }
    let gone = async |name: &str| place.world.runs.get_opt(name).await.unwrap().is_none();
    place.world.pass(Duration::from_secs(5)).await;
    assert!(gone("b").await && gone("c").await);
    assert!(!gone("stuck").await);
    assert!(place.has(&runs[0]) && !place.has(&runs[1]) && !place.has(&runs[2]));
    let told = place.world.events().await;
    assert!(
        told.contains(&"Warning ArtifactCleanupRetry".to_owned()),
        "{told:?}"
    );
    place.store.kept.lock().unwrap().clear();
    place.world.pass(Duration::from_secs(120)).await;
    assert!(gone("stuck").await && !place.has(&runs[0]));
    maintainer.abort();
}

#[tokio::test(start_paused = true)]
async fn n_172_n_173_a_maintainer_leaves_runs_of_other_stores_alone() {
    let place = place().await;
    let server = ScriptedServer::new(|request| leaves(request, |path| write(&path.join("a"), 1)));
    let _daemon = place.world.daemon(server);
    let run = place.world.submit("r", script("x")).await;
    place.world.until_over("r").await;
    let uid = run.uid().unwrap();
    let maintainer = || {
        let store = Arc::clone(&place.store) as Arc<dyn Store>;
        Maintainer::new(place.world.client.clone(), store).in_namespace("default")
    };
    let not_yet = maintainer().once(&uid).await.unwrap_err();
    assert!(
        matches!(not_yet, MaintainError::NoRun { .. }),
        "it is not deleted"
    );
    place.world.delete("r").await;
    let other = maintainer().for_hash("0123456789abcdef");
    let refused = other.once(&uid).await.unwrap_err();
    assert!(matches!(refused, MaintainError::NoRun { .. }));
    let other = tokio::spawn(other.run());
    place.world.pass(Duration::from_secs(60)).await;
    assert!(place.has(&run));
    *place.store.kept.lock().unwrap() = uid.clone();
    let failed = maintainer().once(&uid).await.unwrap_err();
    assert!(matches!(failed, MaintainError::Store(_)), "{failed}");
    place.store.kept.lock().unwrap().clear();
    maintainer().once(&uid).await.unwrap();
    assert!(!place.has(&run));
    assert!(place.world.runs.get_opt("r").await.unwrap().is_none());
    other.abort();
}
