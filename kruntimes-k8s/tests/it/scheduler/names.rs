//! The scheduler and its pieces in somebody else's cluster (S-156, S-157).

use k8s_openapi::api::core::v1::Pod;
use kruntimes_apiserver::ApiServer;
use kruntimes_core::crd::Run;
use kruntimes_k8s::cache::{Named, ObjectKey};
use kruntimes_k8s::clock::Clock;
use kruntimes_k8s::queue::WorkQueue;
use kruntimes_k8s::scheduler::events::{Wake, pod_changed, run_changed};
use kruntimes_k8s::scheduler::load::{Objects, snapshot};
use kruntimes_k8s::scheduler::{Config, Names, Scheduler, Writer, Written, seen, status};
use kruntimes_sched::plugins::standard;
use kruntimes_sched::{Action, Book, Gate, Profile, calculate};
use kube::Client;
use kube::api::{Api, DynamicObject, PostParams};
use kube::core::ApiResource;
use tokio::task::JoinSet;

use super::world::parsed;
use super::*;

/// Tasks on the Pods of queues.
fn foreign() -> Names {
    let kind = |kind: &str, plural: &str| ApiResource {
        group: "acme.example".into(),
        version: "v1alpha1".into(),
        api_version: "acme.example/v1alpha1".into(),
        kind: kind.into(),
        plural: plural.into(),
    };
    Names {
        runtime_label: "acme.example/queue".into(),
        capacity_prefix: "acme.example/room.".into(),
        heartbeat_condition: "acme.example/Alive".into(),
        scheduled_condition: "Placed".into(),
        running_condition: "Working".into(),
        completed_condition: "Done".into(),
        topology_key: "acme.example/host".into(),
        runs: kind("Task", "tasks"),
        runtimes: kind("Queue", "queues"),
        workspaces: kind("Desk", "desks"),
    }
}

/// An API that knows nothing of our kinds.
fn server() -> ApiServer {
    let names = foreign();
    let mut builder = ApiServer::builder();
    for mut crd in kruntimes_core::crd::all() {
        let names = match crd.spec.names.kind.as_str() {
            "Run" => &names.runs,
            "Runtime" => &names.runtimes,
            "PersistentWorkspace" => &names.workspaces,
            _ => continue,
        };
        crd.metadata.name = Some(format!("{}.{}", names.plural, names.group));
        crd.spec.group.clone_from(&names.group);
        let called = &mut crd.spec.names;
        called.kind.clone_from(&names.kind);
        called.list_kind = Some(format!("{}List", names.kind));
        called.plural.clone_from(&names.plural);
        called.singular = Some(names.kind.to_lowercase());
        called.short_names = None;
        // Affinity terms may state both keys, so that it is the scheduler that judges.
        let text = serde_json::to_string(&crd).unwrap();
        let both = r#"["kruntimes.io/runtime-pod","acme.example/host"]"#;
        let text = text.replace(r#"["kruntimes.io/runtime-pod"]"#, both);
        builder = builder.crd(serde_json::from_str(&text).unwrap());
    }
    builder.build().unwrap()
}

fn tasks(client: &Client) -> Api<DynamicObject> {
    Api::default_namespaced_with(client.clone(), &foreign().runs)
}

async fn create(client: &Client, names: &ApiResource, name: &str, spec: serde_json::Value) {
    let api: Api<DynamicObject> = Api::default_namespaced_with(client.clone(), names);
    let object = DynamicObject::new(name, names).data(json!({ "spec": spec }));
    api.create(&PostParams::default(), &object).await.unwrap();
}

async fn task(client: &Client, name: &str) {
    let spec = json!({"runtime": "python", "mode": {"task": {}}});
    create(client, &foreign().runs, name, spec).await;
}

/// Creates a Pod with this much room, ready and alive by the names of the place.
async fn pod(client: &Client, name: &str, room: &str, clock: &Clock) {
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let pod: Pod = parsed(json!({
        "metadata": {
            "name": name,
            "labels": {"acme.example/queue": "python"},
            "annotations": {"acme.example/room.runs": room, "kruntimes.io/capacity.runs": "9"},
        },
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }));
    pods.create(&PostParams::default(), &pod).await.unwrap();
    let condition =
        |kind: &str| json!({"type": kind, "status": "True", "lastProbeTime": clock.now()});
    let patch = Patch::Merge(json!({"status": {
        "phase": "Running",
        "conditions": [condition("Ready"), condition("acme.example/Alive")],
    }}));
    let params = PatchParams::default();
    pods.patch_status(name, &params, &patch).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn s_157_the_whole_scheduler_works_under_other_names() {
    let server = server();
    let client = server.client();
    let clock = Clock::virtual_from("2026-01-01T00:00:00Z".parse().unwrap());
    let template = json!({"spec": {"containers": [{"name": "runtime", "image": "i"}]}});
    let queue = json!({"template": template});
    create(&client, &foreign().runtimes, "python", queue).await;
    let config = Config {
        names: foreign(),
        heartbeat_staleness: kruntimes_core::duration::Duration::from_secs(3600),
        ..Config::default()
    };
    let scheduler = Scheduler::new(client.clone(), config, clock.clone()).unwrap();
    let mut working = JoinSet::new();
    working.spawn(scheduler.run());
    let moment = || tokio::time::timeout(Duration::from_secs(1), std::future::pending::<()>());
    task(&client, "first").await;
    pod(&client, "p", "1", &clock).await;
    moment().await.unwrap_err();
    task(&client, "second").await;
    moment().await.unwrap_err();
    let told = async |name: &str| {
        let task = tasks(&client).get(name).await.unwrap();
        let status = &task.data["status"];
        let placed = status["conditions"][0].clone();
        let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        (
            text(&placed["type"]),
            text(&placed["status"]),
            text(&status["assignedPod"]),
        )
    };
    let (placed, no, yes) = ("Placed".to_owned(), "False".to_owned(), "True".to_owned());
    assert_eq!(
        told("first").await,
        (placed.clone(), yes.clone(), "p".into())
    );
    assert_eq!(told("second").await, (placed.clone(), no, String::new()));
    let patch = Patch::Merge(json!({"status": {"phase": "Succeeded"}}));
    let params = PatchParams::default();
    tasks(&client)
        .patch_status("first", &params, &patch)
        .await
        .unwrap();
    moment().await.unwrap_err();
    assert_eq!(told("second").await, (placed, yes, "p".into()));
}

#[tokio::test(start_paused = true)]
async fn s_39_s_106_s_157_topology_and_ends_go_by_other_names() {
    let server = server();
    let client = server.client();
    let clock = Clock::virtual_from("2026-01-01T00:00:00Z".parse().unwrap());
    let template = json!({"spec": {"containers": [{"name": "runtime", "image": "i"}]}});
    let queue = json!({"template": template});
    create(&client, &foreign().runtimes, "python", queue).await;
    let config = Config {
        names: foreign(),
        heartbeat_staleness: kruntimes_core::duration::Duration::from_secs(3600),
        ..Config::default()
    };
    let scheduler = Scheduler::new(client.clone(), config, clock.clone()).unwrap();
    let mut working = JoinSet::new();
    working.spawn(scheduler.run());
    pod(&client, "p", "3", &clock).await;
    let apart = |key: &str| {
        let term = json!({"labelSelector": {"matchLabels": {"a": "b"}}, "topologyKey": key});
        let lists = json!({"requiredDuringSchedulingIgnoredDuringExecution": [term]});
        json!({
            "runtime": "python", "mode": {"task": {}}, "affinity": {"runAntiAffinity": lists},
        })
    };
    let runs = foreign().runs;
    create(&client, &runs, "theirs", apart("acme.example/host")).await;
    create(&client, &runs, "ours", apart("kruntimes.io/runtime-pod")).await;
    tokio::time::timeout(Duration::from_secs(1), std::future::pending::<()>())
        .await
        .unwrap_err();
    let status = async |name: &str| {
        let task = tasks(&client).get(name).await.unwrap();
        task.data["status"].clone()
    };
    assert_eq!(status("theirs").await["assignedPod"], "p");
    let ended = status("ours").await;
    assert_eq!(ended["phase"], "Failed");
    let message = "pod selection failed: pre-filter run affinity: unsupported run affinity \
                   topology key \"kruntimes.io/runtime-pod, here acme.example/host\"";
    assert_eq!(ended["message"], message);
    let conditions = ended["conditions"].as_array().unwrap();
    let told: Vec<_> = conditions.iter().map(|found| &found["type"]).collect();
    assert_eq!(told, ["Working", "Done"]);
}

/// Puts the keys of what was seen into a queue.
fn queued(names: &Names, runs: &[Run], pod: &Pod) -> WorkQueue<ObjectKey> {
    let queue = WorkQueue::new();
    for run in runs {
        for wake in run_changed(None, Some(run)) {
            let Wake::Run(key) = wake else {
                panic!("{wake:?}");
            };
            queue.add(key);
        }
    }
    let limit = kruntimes_core::duration::Duration::from_secs(15);
    assert_eq!(pod_changed(names, None, Some(pod), limit).len(), 1);
    let ours = pod_changed(&Names::default(), None, Some(pod), limit);
    assert_eq!(ours, [], "by our names it is no Runtime Pod");
    queue
}

/// What a loop of one's own has.
struct Own {
    writer: Writer,
    names: Names,
    profile: Profile,
    book: Book,
    pods: Vec<Pod>,
    runs: Vec<Run>,
}

impl Own {
    /// Takes one Run from its key to a write, and tells how it ended.
    async fn turn(&mut self, key: &ObjectKey, now: jiff::Timestamp) -> &'static str {
        let (names, writer) = (&self.names, &self.writer);
        let run = writer.read(key).await.unwrap().unwrap();
        let Gate::Cycle(request) = seen::gate_of(names, &run, now) else {
            panic!("it may be placed");
        };
        let objects = Objects {
            pods: &self.pods,
            runs: &self.runs,
            runtime_exists: true,
            workspace: None,
        };
        let snapshot = snapshot(names, &run, &objects, &mut self.book, now);
        let mut decided = seen::run(&run, request);
        names.adopt(&mut decided);
        let decided = std::sync::Arc::new(decided);
        let written = match calculate(&snapshot, &decided, &self.profile).action {
            Action::Bind { pod, .. } => {
                assert_eq!(pod.as_str(), "p");
                let pod = seen::pod(names, &self.pods[0]);
                self.book.reserve(&decided, &pod).unwrap();
                let first = writer.bind(&run, &pod, now).await.unwrap();
                let again = writer.bind(&run, &pod, now).await.unwrap();
                assert!(matches!(again, Written::Conflict), "it changed: {again:?}");
                (first, "bound")
            }
            Action::Wait {
                message, condition, ..
            } => {
                let current = run.status.clone().unwrap_or_default();
                let next = status::waiting(names, &current, &message, condition, now).unwrap();
                (writer.write(&run, &next).await.unwrap(), "waits")
            }
            other => panic!("{other:?}"),
        };
        assert!(matches!(written.0, Written::Done(_)));
        written.1
    }
}

#[tokio::test(start_paused = true)]
async fn s_157_events_snapshot_bind_and_status_are_usable_one_by_one() {
    let server = server();
    let client = server.client();
    let clock = Clock::virtual_from("2026-01-01T00:00:00Z".parse().unwrap());
    let names = foreign();
    for name in ["first", "second"] {
        task(&client, name).await;
    }
    pod(&client, "p", "1", &clock).await;
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let runs: Api<Named<Run>> = Api::default_namespaced_with(client.clone(), &names.runs);
    let list = runs.list(&ListParams::default()).await.unwrap();
    let mut own = Own {
        writer: Writer::new(client.clone(), names.clone()),
        profile: standard().build().unwrap(),
        book: Book::new(),
        pods: pods.list(&ListParams::default()).await.unwrap().items,
        runs: list.items.into_iter().map(|Named(run)| run).collect(),
        names,
    };
    let queue = queued(&own.names, &own.runs, &own.pods[0]);
    let mut ends = Vec::new();
    for _ in 0..2 {
        let lease = queue.next().await;
        ends.push(own.turn(lease.key(), clock.now()).await);
    }
    assert_eq!(ends, ["bound", "waits"], "the assumption counts at once");
    let second = tasks(&client).get("second").await.unwrap();
    assert_eq!(second.data["status"]["conditions"][0]["type"], "Placed");
}

#[tokio::test(start_paused = true)]
async fn s_156_without_recorder_logger_or_performer_everything_works_and_says_nothing() {
    let mut world = World::new().await;
    world.start_with(|scheduler| scheduler).await;
    let told = world.counts.get("duration python");
    world.ready_pod("p", 1).await;
    world.run("r", json!({})).await;
    world.until_scheduled("r").await;
    assert_eq!(world.counts.get("duration python"), told);
    // The clock is the one that was given: it stamps what is written.
    let status = world.status("r").await;
    let stamp = status.conditions[0].last_transition_time.0;
    assert_eq!(stamp.to_string().get(..10), Some("2026-01-01"));
}
