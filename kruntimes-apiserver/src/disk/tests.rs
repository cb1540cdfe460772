//! What is on disk equals what was in memory, and a failing disk is never taken for a working one.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use futures::{FutureExt as _, StreamExt as _};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    api::{ListParams, PostParams, WatchParams},
};
use proptest::prelude::*;
use redb::StorageBackend;
use serde_json::json;

use super::*;
use crate::{ApiServer, object::Key, store::Store};

/// One write of a history: kind, name, number of owners, or a removal; or a restart.
#[derive(Clone, Debug)]
enum Step {
    Put(usize, usize, usize),
    Remove(usize, usize),
    Restart,
}

const NAMES: [&str; 5] = ["v", "w", "x", "y", "z"];

fn any_step() -> impl Strategy<Value = Step> {
    let (shelf, name) = (0..2_usize, 0..NAMES.len());
    prop_oneof![
        6 => (shelf.clone(), name.clone(), 0..3_usize)
            .prop_map(|(shelf, name, owners)| Step::Put(shelf, name, owners)),
        3 => (shelf, name).prop_map(|(shelf, name)| Step::Remove(shelf, name)),
        1 => Just(Step::Restart),
    ]
}

fn resources() -> Resources {
    [("pods", "v1"), ("runs.example.org", "example.org/v1")]
        .map(|(name, api_version)| Resource {
            name: name.to_owned(),
            api_version: api_version.to_owned(),
        })
        .to_vec()
}

fn open_store(path: &Path, window: usize) -> (Store, Writer) {
    let (disk, contents) = Disk::open(path, &resources()).unwrap();
    let mut store = Store::new(2, window);
    store.restore(contents);
    let writer = Writer::start(disk, store.keep_journal()).unwrap();
    (store, writer)
}

/// Everything a store can be asked.
fn told(store: &Store) -> Vec<String> {
    let mut lines = vec![store.version().to_string()];
    for shelf in 0..2 {
        for object in store.list(shelf, None, None) {
            let text = String::from_utf8(object.json().to_vec()).unwrap();
            let (facts, tree) = (&object.facts, &*object.value);
            lines.push(format!(
                "{shelf} {:?} {} {text}",
                object.key, object.version
            ));
            lines.push(format!("{facts:?} {tree}"));
        }
        for name in NAMES {
            let uid = format!("{shelf}-{name}");
            let place = store
                .by_uid(&uid)
                .map(|(shelf, object)| (shelf, Arc::clone(&object.key)));
            lines.push(format!("{uid}: {place:?} {:?}", store.dependents(&uid)));
        }
    }
    lines
}

fn carry_out(store: &mut Store, step: &Step) {
    match *step {
        Step::Put(shelf, name, owners) => {
            let owners: Vec<_> = (1..=owners)
                .map(|n| json!({ "uid": format!("0-{}", NAMES[(name + n) % NAMES.len()]) }))
                .collect();
            let name = NAMES[name];
            let value = json!({ "metadata": {
                "name": name, "uid": format!("{shelf}-{name}"), "ownerReferences": owners,
            }});
            store.put(shelf, &Key::new("a", name), value);
        }
        Step::Remove(shelf, name) => {
            store.remove(shelf, &Key::new("a", NAMES[name]));
        }
        Step::Restart => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// After any history, with restarts at any point, disk and memory say the same.
    #[test]
    fn a_restart_changes_nothing(
        steps in prop::collection::vec(any_step(), 1..60), window in 1..8_usize,
    ) {
        let directory = tempfile::tempdir().unwrap();
        let (mut store, mut writer) = open_store(directory.path(), window);
        let mut memory = Store::new(2, window);
        for step in steps.iter().chain([&Step::Restart]) {
            carry_out(&mut store, step);
            carry_out(&mut memory, step);
            if matches!(step, Step::Restart) {
                drop(writer);
                (store, writer) = open_store(directory.path(), window);
                prop_assert_eq!(told(&store), told(&memory));
            }
        }
    }
}

#[test]
fn objects_follow_their_kind_to_another_api_version() {
    let directory = tempfile::tempdir().unwrap();
    let (mut store, writer) = open_store(directory.path(), 5);
    let value = json!({ "apiVersion": "v1", "metadata": { "name": "x", "uid": "0-x" } });
    let version = store.put(0, &Key::new("a", "x"), value).version;
    drop(writer);
    let mut resources = resources();
    resources[0].api_version = "v2".to_owned();
    let (_, contents) = Disk::open(directory.path(), &resources).unwrap();
    let [object] = &contents.objects[0][..] else {
        panic!("there is one object");
    };
    assert_eq!(object.value["apiVersion"], "v2");
    assert_eq!((object.version, object.uid()), (version, "0-x"));
}

/// Which calls to the disk fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Write,
    Grow,
    Sync,
}

#[derive(Debug)]
struct Plan {
    fault: Fault,
    on: AtomicBool,
    refused: AtomicUsize,
}

impl Plan {
    fn meet(&self, fault: Fault) -> io::Result<()> {
        if fault != self.fault || !self.on.load(Ordering::SeqCst) {
            return Ok(());
        }
        self.refused.fetch_add(1, Ordering::SeqCst);
        let error = rustix::io::Errno::NOSPC;
        Err(error.into())
    }
}

#[derive(Debug)]
struct Faulty {
    inner: FileBackend,
    plan: Arc<Plan>,
}

impl StorageBackend for Faulty {
    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.inner.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.plan.meet(Fault::Grow)?;
        self.inner.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.plan.meet(Fault::Sync)?;
        self.inner.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.plan.meet(Fault::Write)?;
        self.inner.write(offset, data)
    }
}

fn faulty_server(path: &Path, plan: &Arc<Plan>) -> ApiServer {
    let library = |file| {
        Database::builder().create_with_backend(Faulty {
            inner: FileBackend::new(file)?,
            plan: Arc::clone(plan),
        })
    };
    let server = ApiServer::builder()
        .build_on(|resources| Disk::open_through(&library, path, resources).map(Some));
    server.unwrap()
}

/// A map of that name, large enough that a few of them make the file grow.
fn a_map(name: &str) -> ConfigMap {
    let text = "x".repeat(400_000);
    serde_json::from_value(json!({ "metadata": { "name": name }, "data": { "text": text } }))
        .unwrap()
}

async fn refused<T: std::fmt::Debug>(answer: impl Future<Output = kube::Result<T>>) -> String {
    match answer.await {
        Err(kube::Error::Api(status)) if status.code == 500 => status.message.clone(),
        other => panic!("not refused: {other:?}"),
    }
}

async fn a_disk_that_fails(fault: Fault) {
    let directory = tempfile::tempdir().unwrap();
    let plan = Arc::new(Plan {
        fault,
        on: AtomicBool::new(false),
        refused: AtomicUsize::new(0),
    });
    let server = faulty_server(directory.path(), &plan);
    let maps: Api<ConfigMap> = Api::default_namespaced(server.client());
    let params = PostParams::default();
    let kept = maps.create(&params, &a_map("kept")).await.unwrap();
    let version = kept.metadata.resource_version.clone().unwrap();
    let mut watch = maps
        .watch(&WatchParams::default(), &version)
        .await
        .unwrap()
        .boxed();

    plan.on.store(true, Ordering::SeqCst);
    let mut why = String::new();
    for n in 0..20 {
        let name = format!("lost-{n}");
        match maps.create(&params, &a_map(&name)).await {
            Ok(_) => {
                let event = watch.next().await;
                assert!(event.unwrap().is_ok(), "what was written is told");
            }
            Err(kube::Error::Api(status)) => {
                why.clone_from(&status.message);
                refused(maps.get(&name)).await;
                break;
            }
            Err(other) => panic!("{other}"),
        }
    }
    assert!(why.contains("No space left on device"), "{fault:?}: {why}");
    assert!(matches!(server.failed().await, StoreError::Write { .. }));
    let once = plan.refused.load(Ordering::SeqCst);
    assert_eq!(maps.get("kept").await.unwrap(), kept);
    refused(maps.list(&ListParams::default())).await;
    plan.on.store(false, Ordering::SeqCst);
    refused(maps.create(&params, &a_map("late"))).await;
    assert!(watch.next().now_or_never().is_none(), "nothing is told");
    drop((watch, maps));
    plan.on.store(true, Ordering::SeqCst);
    drop(server);
    tokio::task::yield_now().await;
    assert_eq!(
        plan.refused.load(Ordering::SeqCst),
        once,
        "nothing was tried again"
    );

    let server = ApiServer::builder().data_dir(directory.path()).build();
    let maps: Api<ConfigMap> = Api::default_namespaced(server.unwrap().client());
    assert_eq!(maps.get("kept").await.unwrap(), kept);
    assert!(maps.get_opt("late").await.unwrap().is_none());
}

#[tokio::test]
async fn a_full_disk_ends_all_writes_and_acknowledges_nothing() {
    a_disk_that_fails(Fault::Write).await;
    a_disk_that_fails(Fault::Grow).await;
}

#[tokio::test]
async fn a_failed_sync_is_not_tried_again() {
    a_disk_that_fails(Fault::Sync).await;
}
