//! Requests through a client, whatever is behind it.

use std::{
    collections::BTreeMap,
    future::Future,
    time::{Duration, Instant},
};

use futures::{StreamExt, TryStreamExt as _, future::join_all, stream};
use kruntimes_core::api::Run;
use kube::{
    Api, Client, ResourceExt as _,
    api::{ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams},
};
use serde_json::json;

use crate::{median, spread};

/// Requests one after the other.
const SERIAL: usize = 500;
/// Requests of all callers together.
const PARALLEL: usize = 4_000;
const CALLERS: usize = 64;
const LISTED: u32 = 1_000;
const WATCHERS: usize = 50;
const TOLD: usize = 100;

/// What was measured, by name: latencies, and requests per second round by round.
#[derive(Default)]
pub(crate) struct Figures {
    latencies: BTreeMap<&'static str, Vec<Duration>>,
    rates: BTreeMap<&'static str, Vec<f64>>,
}

impl Figures {
    pub(crate) fn print(self, place: &str) {
        for (name, times) in self.latencies {
            let (p50, p99) = spread(times);
            println!("{place:9} {name:32} p50 {p50:?}  p99 {p99:?}");
        }
        for (name, rates) in self.rates {
            println!("{place:9} {name:32} {:.0}/s", median(rates));
        }
    }

    async fn one_by_one<F: Future<Output = kube::Result<()>>>(
        &mut self,
        name: &'static str,
        times: usize,
        request: impl Fn(usize) -> F,
    ) {
        let times_taken = self.latencies.entry(name).or_default();
        for n in 0..times {
            let begun = Instant::now();
            request(n).await.expect("the request is valid");
            times_taken.push(begun.elapsed());
        }
    }

    async fn together<F: Future<Output = kube::Result<()>>>(
        &mut self,
        name: &'static str,
        request: impl Fn(usize) -> F,
    ) {
        let begun = Instant::now();
        let requests = stream::iter(0..PARALLEL).map(request);
        let answers = requests.buffer_unordered(CALLERS).try_collect::<()>().await;
        answers.expect("the requests are valid");
        #[expect(clippy::cast_precision_loss, reason = "a count far below 2^52")]
        let rate = PARALLEL as f64 / begun.elapsed().as_secs_f64();
        self.rates.entry(name).or_default().push(rate);
    }
}

/// Returns a Run of about 1.5 KB as it is stored.
pub(crate) fn a_stored_run(name: &str) -> Run {
    let mut run: Run = serde_json::from_value(json!({
        "apiVersion": "kruntimes.io/v1alpha1",
        "kind": "Run",
        "metadata": { "name": name },
        "spec": {
            "runtime": "bash",
            "mode": { "task": {} },
            "timeout": "90s",
            "env": [{ "name": "GREETING", "value": "hello" }],
            "source": { "inline": "echo one of many lines of a script\n".repeat(22) },
        },
    }))
    .expect("the Run is well-formed");
    for label in ["workflow", "job", "step", "team"] {
        let key = format!("bench.example.org/{label}");
        run.labels_mut().insert(key, format!("{label}-of-{name}"));
    }
    run
}

fn a_status(n: usize) -> Patch<serde_json::Value> {
    Patch::Merge(json!({ "status": { "message": format!("step {n} of many") } }))
}

/// Measures every kind of request once.
pub(crate) async fn measure(client: &Client, figures: &mut Figures) {
    let runs: Api<Run> = Api::default_namespaced(client.clone());
    let (posted, patched) = (PostParams::default(), PatchParams::default());
    let create = async |name: String| runs.create(&posted, &a_stored_run(&name)).await.map(drop);
    let get = async |name: String| runs.get(&name).await.map(drop);
    let patch = async |name: String, n: usize| {
        let status = a_status(n);
        runs.patch_status(&name, &patched, &status).await.map(drop)
    };
    let alone = |n: usize| format!("alone-{n}");
    let many = |n: usize| format!("many-{n}");
    figures
        .one_by_one("create", SERIAL, |n| create(alone(n)))
        .await;
    figures.one_by_one("get", SERIAL, |n| get(alone(n))).await;
    figures
        .one_by_one("patch status", SERIAL, |n| patch(alone(n), n))
        .await;
    figures
        .together("create, 64 callers", |n| create(many(n)))
        .await;
    figures.together("get, 64 callers", |n| get(many(n))).await;
    figures
        .together("patch status, 64 callers", |n| patch(many(n), n))
        .await;
    let page = ListParams::default().limit(LISTED);
    figures
        .one_by_one("list 1,000", 20, async |_| runs.list(&page).await.map(drop))
        .await;
    fan_out(&runs, figures).await;
}

/// Times a write from its request until all watchers have seen it.
async fn fan_out(runs: &Api<Run>, figures: &mut Figures) {
    let listed = runs.list(&ListParams::default().limit(1)).await;
    let listed = listed.expect("the list is valid");
    let version = listed.metadata.resource_version.unwrap_or_default();
    let mut watches = Vec::new();
    for _ in 0..WATCHERS {
        let events = runs.watch(&WatchParams::default(), &version).await;
        watches.push(events.expect("the watch is valid").boxed());
    }
    let times = figures
        .latencies
        .entry("patch until seen by 50 watchers")
        .or_default();
    for n in 0..TOLD {
        let begun = Instant::now();
        let status = a_status(SERIAL + n);
        let params = PatchParams::default();
        let (patched, seen) = futures::join!(
            runs.patch_status("alone-0", &params, &status),
            join_all(watches.iter_mut().map(StreamExt::next))
        );
        times.push(begun.elapsed());
        let version = patched.expect("the patch is valid").resource_version();
        for event in seen {
            assert!(
                matches!(event, Some(Ok(WatchEvent::Modified(run))) if run.resource_version() == version),
                "every watcher is told of every write"
            );
        }
    }
}

/// Creates that many Runs with all callers.
pub(crate) async fn fill(client: &Client, objects: usize) {
    let runs: Api<Run> = Api::default_namespaced(client.clone());
    let params = PostParams::default();
    let create = |n: usize| {
        let (runs, params) = (&runs, &params);
        async move {
            let run = a_stored_run(&format!("run-{n}"));
            runs.create(params, &run).await.map(drop)
        }
    };
    let requests = stream::iter(0..objects).map(create);
    let answers = requests.buffer_unordered(CALLERS).try_collect::<()>().await;
    answers.expect("the requests are valid");
}
