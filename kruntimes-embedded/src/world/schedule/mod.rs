//! Small worlds: a scheduler, the pool controllers, one or two Pods, a few Runs, and one trouble each.
//!
//! A number says everything about a schedule. The kinds of trouble are the fault table of the path of a task: crashes
//! before and after every write and every call, lost and late answers, refusals, old lists after a restart, watches
//! that end, stall and repeat, 410, two schedulers, wrong clocks, components that stand still, lost and replaced
//! Pods; users cancel, delete and create again meanwhile.

mod call;
mod draw;
mod part;
mod trouble;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kruntimes_apiserver::ApiServer;
use kruntimes_core::api::API_VERSION;
use kruntimes_core::crd::Run;
use kruntimes_core::keys;
use kruntimes_k8s::clock::Clock;
use kruntimes_node::{NodeDirs, Runtimed};
use kruntimes_proto::RuntimeClient as _;
use kruntimes_proto::testing::ScriptedServer;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt as _};
use serde_json::json;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;

use super::checker::Checker;
use super::{Dice, Ledger, Violation, serve, unfinished};
use crate::logs::LogHub;
use crate::submit::{self, NAMESPACE};
use call::{CallStrike, StruckServer};
use draw::{Act, Draw, draw};
use part::Member;
use trouble::{Part, Trouble};

/// Longest virtual time from the last act to the end of all work.
const SETTLE: Duration = Duration::from_secs(400);
/// Virtual time without a write to a Run that counts as rest.
const REST: Duration = Duration::from_millis(2200);
/// Longest virtual time from the end of a Run until nothing of it is left in its Pod.
const DRAIN: Duration = Duration::from_secs(60);
/// Schedules that one world lives through, one after another.
pub const PER_WORLD: u64 = 25;

/// What one schedule showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// Name of its kind of trouble.
    pub kind: String,
    /// Whether the trouble met anything.
    pub struck: bool,
    /// Virtual time that passed.
    pub time: Duration,
    /// Changes looked at by the checker.
    pub changes: u64,
    /// Executions begun by the Runtime Servers.
    pub executions: usize,
}

/// Lists the names of all kinds of trouble.
pub fn every_kind() -> Vec<String> {
    trouble::table().into_iter().map(|(name, _)| name).collect()
}

/// A schedule that broke an invariant.
#[derive(Debug, thiserror::Error)]
#[error("schedule {number} ({kind}): {violation}")]
pub struct Broken {
    /// Its number.
    pub number: u64,
    /// Its kind of trouble.
    pub kind: String,
    /// The invariant.
    pub violation: Violation,
}

/// Lives through the schedules of one world, from its first to the one of this number.
///
/// # Errors
///
/// Returns the first broken invariant.
///
/// # Panics
///
/// Panics when the runtime cannot be built.
pub fn live_through(last: u64) -> Result<Vec<Shown>, Box<Broken>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a current-thread runtime needs nothing from the machine");
    let shown = runtime.block_on(async {
        let world = Small::new(last / PER_WORLD).await;
        world.live(last).await
    });
    runtime.shutdown_background();
    shown
}

/// A Pod that is there.
struct Home {
    server: ScriptedServer,
    workspace: PathBuf,
    task: AbortHandle,
}

struct Small {
    world: u64,
    pods: u64,
    slots: u64,
    /// Time from the death of a component to its next life.
    restart: Duration,
    server: ApiServer,
    client: Client,
    clock: Clock,
    ledger: Arc<Ledger>,
    members: BTreeMap<Part, Member>,
    calls: Arc<CallStrike>,
    /// The present Pods by name.
    homes: BTreeMap<String, Home>,
    second: Option<AbortHandle>,
    /// Acts that are trouble, done in this schedule.
    done: u64,
    tasks: JoinSet<()>,
    directory: tempfile::TempDir,
}

impl Small {
    async fn new(world: u64) -> Self {
        let mut dice = Dice::new(world);
        let (server, clock) = serve(world);
        let mut world = Self {
            world,
            pods: if dice.chance(65) { 1 } else { 2 },
            slots: dice.between(1, 2),
            restart: Duration::from_millis(dice.between(50, 2500)),
            client: server.client(),
            clock,
            ledger: Arc::default(),
            members: BTreeMap::new(),
            calls: Arc::default(),
            homes: BTreeMap::new(),
            second: None,
            done: 0,
            tasks: JoinSet::new(),
            directory: tempfile::tempdir().expect("a temporary directory can be made"),
            server,
        };
        world.begin().await;
        world
    }

    async fn begin(&mut self) {
        let runtime = json!({
            "apiVersion": API_VERSION,
            "kind": "Runtime",
            "metadata": {"name": "sim", "namespace": NAMESPACE},
            "spec": {"template": {"spec": {"containers": [{"name": "runtime", "image": "sim"}]}}},
        });
        let made = submit::create(&self.client, runtime).await;
        made.expect("the Runtime is valid");
        let scheduler = self.member(Part::Scheduler);
        self.start_scheduler(scheduler);
        let pool = self.member(Part::Pool);
        let life = pool.live(self.server.clone(), |client, clock| {
            let config = kruntimes_k8s::pool::Config::default();
            Box::pin(kruntimes_k8s::pool::run(client, config, clock))
        });
        self.tasks.spawn(life);
        for number in 0..self.pods {
            self.bring_pod(number).await;
        }
    }

    fn member(&mut self, part: Part) -> Member {
        let member = self.stranger(&part.to_string());
        self.members.insert(part, member.clone());
        member
    }

    /// Makes a component that no trouble is planned for.
    fn stranger(&self, label: &str) -> Member {
        Member::new(&self.server, &self.clock, label, self.restart)
    }

    fn start_scheduler(&mut self, member: Member) -> AbortHandle {
        let life = member.live(self.server.clone(), |client, clock| {
            Box::pin(async move {
                let config = kruntimes_k8s::scheduler::Config::default();
                let ended = kruntimes_k8s::scheduler::run(client, config, clock).await;
                tracing::warn!(?ended, "the scheduler ended");
            })
        });
        self.tasks.spawn(life)
    }

    /// Creates a Pod and what lives in it.
    async fn bring_pod(&mut self, number: u64) {
        let name = format!("pod-{number}");
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), NAMESPACE);
        let made = pods.create(&PostParams::default(), &self.pod(&name)).await;
        let uid = made.ok().and_then(|pod| pod.uid());
        let uid = uid.expect("a Pod that is not there can be made");
        let condition = json!({"type": "Ready", "status": "True"});
        let status = json!({"status": {"phase": "Running", "conditions": [condition]}});
        let (params, patch) = (PatchParams::default(), Patch::Merge(&status));
        let ready = pods.patch_status(&name, &params, &patch).await;
        ready.expect("the status of a Pod is taken");
        let server = self.ledger.server(&uid);
        let workspace = self.directory.path().join(&uid);
        std::fs::create_dir_all(&workspace).expect("a workspace can be made");
        // Trouble is for the first Pod.
        let (member, strike) = if number == 0 {
            (self.member(Part::Daemon), Arc::clone(&self.calls))
        } else {
            (self.stranger(&name), Arc::default())
        };
        let mut config = kruntimes_node::Config::new(NAMESPACE, &name);
        config.pod_uid = Some(uid);
        "sim".clone_into(&mut config.runtime);
        config.workers = i64::try_from(self.slots).unwrap_or(1);
        let (runtime, dirs) = (server.clone(), NodeDirs::new(&workspace));
        let daemon = member.handle.clone();
        let life = member.live(self.server.clone(), move |client, clock| {
            let runtime = StruckServer {
                server: runtime.clone(),
                strike: Arc::clone(&strike),
                daemon: daemon.clone(),
            };
            let logs = Arc::new(LogHub::default());
            let (config, dirs) = (config.clone(), dirs.clone());
            let daemon = Runtimed::new(config, client, Arc::new(runtime), clock, logs, dirs);
            Box::pin(daemon.run())
        });
        let task = self.tasks.spawn(life);
        self.homes.insert(
            name,
            Home {
                server,
                workspace,
                task,
            },
        );
    }

    fn pod(&self, name: &str) -> Pod {
        let capacity = format!("{}runs", keys::ANNOTATION_CAPACITY_PREFIX);
        let pod = json!({
            "metadata": {
                "name": name,
                "labels": {keys::LABEL_RUNTIME: "sim"},
                "annotations": {capacity: self.slots.to_string()},
            },
            "spec": {"containers": [{"name": "runtime", "image": "sim"}]},
        });
        serde_json::from_value(pod).expect("the Pod is one")
    }

    /// Ends everything in the first Pod, then its object, as a node does.
    async fn lose_pod(&mut self) {
        let name = "pod-0";
        if let Some(home) = self.homes.remove(name) {
            home.task.abort();
            home.server.restart();
        }
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), NAMESPACE);
        let params = DeleteParams::default().grace_period(0);
        let gone = pods.delete(name, &params).await;
        gone.expect("a Pod can be deleted");
    }

    async fn live(mut self, last: u64) -> Result<Vec<Shown>, Box<Broken>> {
        let mut checker = Checker::new(&self.client, Arc::clone(&self.ledger), self.slots);
        let mut all = Vec::new();
        for number in self.world * PER_WORLD..=last {
            let draw = draw(number);
            let kind = draw.kind.clone();
            let lived = self.live_once(draw, &mut checker).await;
            all.push(lived.map_err(|violation| {
                Box::new(Broken {
                    number,
                    kind,
                    violation,
                })
            })?);
        }
        self.tasks.shutdown().await;
        Ok(all)
    }

    async fn live_once(&mut self, draw: Draw, checker: &mut Checker) -> Result<Shown, Violation> {
        let (changes, executions) = (checker.changes(), self.ledger.total());
        self.arm(&draw);
        checker.forgive(usize::from(draw.trouble.repeats_starts()));
        let begin = Instant::now();
        for (at, act) in draw.acts {
            let left = (begin + at).saturating_duration_since(Instant::now());
            checker.watch_for(left).await?;
            self.perform(act).await;
        }
        self.settle(checker).await?;
        self.rest(checker).await?;
        checker.finish(&self.server.snapshot())?;
        if draw.trouble.is_harmless() {
            checker.check_ends()?;
        }
        self.drain(checker).await?;
        let struck = match draw.trouble {
            Trouble::Call { .. } => self.calls.struck(),
            Trouble::Api(part, _) | Trouble::Relapse(part, _) => {
                self.members[&part].handle.struck()
            }
            _ => self.done > 0,
        };
        self.empty(checker).await?;
        Ok(Shown {
            kind: draw.kind,
            struck,
            time: begin.elapsed(),
            changes: checker.changes() - changes,
            executions: self.ledger.total() - executions,
        })
    }

    /// Plans the trouble of one schedule.
    fn arm(&mut self, draw: &Draw) {
        self.done = 0;
        for (part, member) in &self.members {
            let strike = draw.trouble.strike(*part);
            let relapse = draw.relapse.filter(|_| strike.is_some());
            member.arm(strike, relapse);
        }
        self.calls.arm(match draw.trouble {
            Trouble::Call { nth, blow } => Some((nth, blow)),
            _ => None,
        });
    }

    async fn perform(&mut self, act: Act) {
        let runs: Api<Run> = Api::namespaced(self.client.clone(), NAMESPACE);
        self.done += u64::from(!matches!(
            act,
            Act::Create(_) | Act::Cancel(_) | Act::Delete(_)
        ));
        match act {
            // A name may be taken, or given back before its time.
            Act::Create(object) => drop(submit::create(&self.client, object).await),
            Act::Cancel(name) => {
                let patch = Patch::Merge(json!({"spec": {"cancelRequested": true}}));
                drop(runs.patch(&name, &PatchParams::default(), &patch).await);
            }
            Act::Delete(name) => drop(runs.delete(&name, &DeleteParams::default()).await),
            Act::LosePod => self.lose_pod().await,
            Act::BringPod => self.bring_pod(0).await,
            Act::Freeze(part, time) => self.members[&part].freeze(time),
            Act::Thaw(part) => self.members[&part].thaw(),
            Act::Skew(part, by) => self.members[&part].skew.set(by),
            Act::StartSecondScheduler => {
                let member = self.stranger("second scheduler");
                self.second = Some(self.start_scheduler(member));
            }
            Act::StopSecondScheduler => {
                if let Some(second) = self.second.take() {
                    second.abort();
                }
            }
            Act::Cut(part) => self.members[&part].handle.cut_watches(),
            Act::Compact(part) => {
                self.server.compact();
                self.members[&part].handle.cut_watches();
            }
        }
    }

    /// Without further trouble everything comes to its end within a bounded time (invariant 7).
    async fn settle(&self, checker: &mut Checker) -> Result<(), Violation> {
        let end = Instant::now() + SETTLE;
        loop {
            let open = unfinished(&self.server);
            if open.is_empty() {
                return Ok(());
            }
            if Instant::now() > end {
                return Err(Violation::NeverSettled { open });
            }
            checker.watch_for(Duration::from_millis(700)).await?;
        }
    }

    /// At rest no Run is written any more, except that its time to be kept may end (invariant 13).
    async fn rest(&self, checker: &mut Checker) -> Result<(), Violation> {
        checker.watch_for(Duration::from_millis(500)).await?;
        let before = self.versions();
        checker.watch_for(REST).await?;
        let mut after = self.versions();
        after.retain(|run| !before.contains(run));
        if after.is_empty() {
            return Ok(());
        }
        Err(Violation::Restless { written: after })
    }

    fn versions(&self) -> Vec<String> {
        let snapshot = self.server.snapshot();
        let runs = snapshot.objects("runs.kruntimes.io").iter();
        let text = |run: &Arc<serde_json::Value>| {
            let meta = &run["metadata"];
            format!("{} {}", meta["name"], meta["resourceVersion"])
        };
        runs.map(text).collect()
    }

    /// What Runs have left is gone in time (invariant 15).
    async fn drain(&self, checker: &mut Checker) -> Result<(), Violation> {
        let end = Instant::now() + DRAIN;
        loop {
            match self.check_leaks().await {
                Err(_) if Instant::now() < end => {
                    checker.watch_for(Duration::from_secs(1)).await?;
                }
                checked => return checked,
            }
        }
    }

    /// Nothing of a Run that is over is left in its Pod.
    async fn check_leaks(&self) -> Result<(), Violation> {
        for (name, home) in &self.homes {
            let kept = home.server.list().await.unwrap_or_default();
            if let Some(kept) = kept.first() {
                let text = format!("{name} still knows execution {}", kept.id);
                return Err(Violation::Leaked(text));
            }
            let entries = std::fs::read_dir(&home.workspace).into_iter().flatten();
            for entry in entries.flatten() {
                let file = entry.file_name();
                if file != ".kruntimes" {
                    let text = format!("{name} still has the directory {}", file.display());
                    return Err(Violation::Leaked(text));
                }
            }
        }
        Ok(())
    }

    /// Everything can be deleted (invariant 15).
    async fn empty(&self, checker: &mut Checker) -> Result<(), Violation> {
        let runs: Api<Run> = Api::namespaced(self.client.clone(), NAMESPACE);
        let (params, all) = (DeleteParams::default(), ListParams::default());
        let deleted = runs.delete_collection(&params, &all).await;
        deleted.map_err(|error| Violation::Leaked(error.to_string()))?;
        checker.watch_for(Duration::from_millis(300)).await?;
        let left = self.versions();
        if left.is_empty() {
            return Ok(());
        }
        Err(Violation::Leaked(format!("cannot be deleted: {left:?}")))
    }
}
