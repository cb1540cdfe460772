//! A scheduler of one's own: a filter and a scorer beside the default plugins.
//!
//! `cargo run -p kruntimes-examples --bin own_scheduler` serves the current cluster instead of the shipped
//! scheduler. With the argument `demo` it needs no cluster and prints where a Run goes.

use std::error::Error;

use k8s_openapi::api::core::v1::Pod;
use kruntimes_apiserver::ApiServer;
use kruntimes_core::crd::{self, Run as ApiRun};
use kruntimes_k8s::clock::Clock;
use kruntimes_k8s::scheduler::{Config, Scheduler};
use kruntimes_sched::plugins::standard;
use kruntimes_sched::{
    Broken, EventKind, Filter, PodState, PrepareError, Prepared, Profile, ProfileError, Reason,
    Run, Score, Scorer, Snapshot, Verdict,
};
use kube::Client;
use kube::api::{Api, PostParams};
use kube::runtime::wait::await_condition;
use serde_json::{Value, json};

/// Keeps a Run that names a machine type on Pods of that type.
struct Machine;

impl Filter for Machine {
    fn name(&self) -> &'static str {
        "Machine"
    }

    fn reasons(&self) -> &'static [Reason] {
        const REASONS: &[Reason] = &[Reason::new("OtherMachine").condition("OtherMachine")];
        REASONS
    }

    fn prepare<'a>(&'a self, _: &'a Snapshot, run: &'a Run) -> Result<Prepared<'a>, PrepareError> {
        let Some(wanted) = run.labels.get("machine") else {
            return Ok(Prepared::Skip);
        };
        Ok(Prepared::Check(Box::new(move |state: &PodState| {
            if state.pod.labels.get("machine") == Some(wanted) {
                Verdict::Fits
            } else {
                Verdict::Rejects("OtherMachine")
            }
        })))
    }

    fn events(&self) -> &'static [EventKind] {
        &[EventKind::PodChanged]
    }
}

/// Prefers Pods that have the repositories at hand.
struct WarmMirror;

impl Score for WarmMirror {
    fn name(&self) -> &'static str {
        "WarmMirror"
    }

    fn prepare<'a>(
        &'a self,
        _: &'a Snapshot,
        _: &'a Run,
    ) -> Result<Box<dyn Scorer + 'a>, PrepareError> {
        Ok(Box::new(Self))
    }
}

impl Scorer for WarmMirror {
    fn score(&self, state: &PodState) -> Result<i64, Broken> {
        let warm = state.pod.labels.contains_key("warm-mirror");
        Ok(if warm { 100 } else { 0 })
    }
}

fn profile() -> Result<Profile, ProfileError> {
    standard().filter(Machine).score(5, WarmMirror).build()
}

fn scheduler(client: Client) -> Result<Scheduler, Box<dyn Error>> {
    let scheduler = Scheduler::new(client, Config::default(), Clock::system())?;
    Ok(scheduler.profile(profile()?))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    if std::env::args().nth(1).as_deref() == Some("demo") {
        return Box::pin(demo()).await;
    }
    scheduler(Client::try_default().await?)?.run().await;
    Ok(())
}

/// Schedules one Run onto one of three Pods of an API service in this process.
async fn demo() -> Result<(), Box<dyn Error>> {
    let mut builder = ApiServer::builder();
    for definition in crd::all() {
        builder = builder.crd(definition);
    }
    let server = builder.build()?;
    let client = server.client();
    let pods = Api::<Pod>::default_namespaced(client.clone());
    for labels in [
        json!({"machine": "small", "warm-mirror": "yes"}),
        json!({"machine": "large"}),
        json!({"machine": "large", "warm-mirror": "yes"}),
    ] {
        let warm = labels.get("warm-mirror").map_or("cold", |_| "warm");
        let name = format!("{}-{warm}", labels["machine"].as_str().unwrap_or_default());
        let params = PostParams::default();
        let mut pod = pods.create(&params, &manifest(&name, labels)?).await?;
        pod.status = serde_json::from_value(alive())?;
        pods.replace_status(&name, &params, &pod).await?;
    }
    let runs = Api::<ApiRun>::default_namespaced(client.clone());
    let run = serde_json::from_value(json!({
        "apiVersion": "kruntimes.io/v1alpha1",
        "kind": "Run",
        "metadata": {"name": "build", "labels": {"machine": "large"}},
        "spec": {"runtime": "bash", "mode": {"task": {}}, "source": {"inline": "make"}},
    }))?;
    runs.create(&PostParams::default(), &run).await?;
    let placed = await_condition(runs, "build", |run: Option<&ApiRun>| pod_of(run).is_some());
    tokio::select! {
        () = scheduler(client)?.run() => {}
        run = placed => println!("build goes to {}", pod_of(run?.as_ref()).unwrap_or("nowhere")),
    }
    Ok(())
}

fn pod_of(run: Option<&ApiRun>) -> Option<&str> {
    run?.status.as_ref()?.assigned_pod.as_deref()
}

fn manifest(name: &str, mut labels: Value) -> Result<Pod, serde_json::Error> {
    labels["runtime"] = "bash".into();
    serde_json::from_value(json!({
        "metadata": {"name": name, "labels": labels},
        "spec": {"containers": [{"name": "runtime", "image": "bash"}]},
    }))
}

/// What the kubelet and runtimed say about a Pod that is ready for work.
fn alive() -> Value {
    let probe = Clock::system().now();
    let told = |kind: &str| json!({"type": kind, "status": "True", "lastProbeTime": probe});
    let conditions = [told("Ready"), told("kruntimes.io/RuntimedReady")];
    json!({"phase": "Running", "conditions": conditions})
}
