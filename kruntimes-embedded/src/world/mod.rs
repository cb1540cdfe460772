//! The simulated world: the whole engine on one thread, with a paused clock and seeded bad days.
//!
//! [`simulate`] runs the shipped controllers, scheduler, local node and
//! runtimed over the in-process API service. Faults come from a seed: lost
//! answers, conflicts, delays, stalled and cut watches, crashes of the
//! scheduler, the controllers and the daemons, and templates that change and
//! replace all Pods. A checker looks at every change; at a random time the
//! faults stop, and then everything must come to its end.
//!
//! [`live_through`] is the other half: thousands of small worlds with one
//! trouble each, at a place that the schedule names.

mod backend;
mod checker;
mod dice;
mod plan;
mod schedule;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use jiff::Timestamp;
use kruntimes_apiserver::fault::{FaultHandle, FaultLayer, FaultPlan};
use kruntimes_apiserver::{ApiServer, Kinds, SeededIds};
use kruntimes_k8s::clock::Clock;
use kube::Client;
use serde_json::Value;

pub use backend::{Ledger, SimulatedBackend};
pub use checker::{Checker, Violation};
pub use dice::Dice;
pub use plan::{Intent, Plan};
pub use schedule::{Broken, PER_WORLD, Shown, every_kind, live_through};

use crate::engine::{self, Clients};
use crate::logs::LogHub;
use crate::node::{NodeConfig, NodeHandle};
use crate::submit;
use crate::supervisor::Supervisor;

/// Components that a simulation crashes, besides daemons.
const CRASHABLE: &[&str] = &["scheduler", "workflow", "runtime", "pool"];
/// Longest virtual time from the end of the faults to the end of all work.
const SETTLE: Duration = Duration::from_secs(900);
/// Virtual time without a write that counts as rest.
const REST: Duration = Duration::from_secs(90);

/// What one simulated day showed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Targets that came to their end.
    pub targets: usize,
    /// Faults injected into requests and watches.
    pub faults: u64,
    /// Components and daemons crashed.
    pub crashes: u64,
    /// Times that all Pods were replaced.
    pub rolls: u64,
    /// Changes looked at by the checker.
    pub changes: u64,
    /// Executions begun by the Runtime Servers.
    pub executions: usize,
}

/// Runs one simulated day on a runtime of its own.
///
/// # Errors
///
/// Returns the first broken invariant.
///
/// # Panics
///
/// Panics when the runtime cannot be built.
pub fn simulate(seed: u64) -> Result<Report, Violation> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .expect("a current-thread runtime needs nothing from the machine");
    let report = runtime.block_on(async { World::new(seed).live().await });
    // Tasks of the world hold its temporary files; they end here and not at some later time.
    runtime.shutdown_background();
    report
}

struct World {
    dice: Dice,
    plan: Plan,
    server: ApiServer,
    client: Client,
    faults: Vec<FaultHandle>,
    supervisor: Supervisor,
    node: NodeHandle,
    ledger: Arc<Ledger>,
    crashes: u64,
    rolls: u64,
    _directory: tempfile::TempDir,
}

struct WorldClock(Clock);

impl kruntimes_apiserver::Clock for WorldClock {
    fn now(&self) -> Timestamp {
        self.0.now()
    }
}

/// The trouble of a bad day.
fn bad_day() -> FaultPlan {
    FaultPlan {
        delay: 0.1,
        delay_for: Duration::from_millis(1)..=Duration::from_millis(300),
        lost_request: 0.03,
        lost_answer: 0.05,
        conflict: 0.05,
        page_expired: 0.05,
        too_many_requests: 0.01,
        internal_error: 0.02,
        watch_expired: 0.05,
        watch_cut: 0.2,
        watch_cut_after: Duration::from_millis(1)..=Duration::from_secs(20),
        watch_stall: 0.05,
        watch_replay: 0.05,
        watch_replay_by: 1..=30,
    }
}

impl World {
    fn new(seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let plan = Plan::draw(&mut dice);
        let (server, clock) = serve(seed);
        let mut faults = Vec::new();
        let mut faulty = |label: &str, salt: u64| {
            let layer = FaultLayer::new(seed ^ salt, bad_day()).labelled(label);
            faults.push(layer.handle());
            server.client_with(&layer)
        };
        let clients = Clients {
            scheduler: faulty("scheduler", 1 << 60),
            controllers: faulty("controllers", 2 << 60),
            node: faulty("node", 3 << 60),
            runtimed: faulty("runtimed", 4 << 60),
        };
        let directory = tempfile::tempdir().expect("a temporary directory can be made");
        let ledger = Arc::new(Ledger::default());
        let node = NodeHandle::default();
        let supervisor = Supervisor::default();
        let config = NodeConfig {
            client: clients.node.clone(),
            runtimed_client: clients.runtimed.clone(),
            clock: clock.clone(),
            backend: Arc::new(SimulatedBackend::new(directory.path(), &ledger)),
            logs: Arc::new(LogHub::default()),
            handle: node.clone(),
        };
        let plain = kruntimes_workflow::extend::Extensions::none();
        engine::start_components(&supervisor, &server, &clients, (&clock, &plain), config);
        Self {
            dice,
            plan,
            client: server.client(),
            server,
            faults,
            supervisor,
            node,
            ledger,
            crashes: 0,
            rolls: 0,
            _directory: directory,
        }
    }

    async fn live(mut self) -> Result<Report, Violation> {
        let mut checker = Checker::new(&self.client, Arc::clone(&self.ledger), self.plan.slots);
        self.submit().await;
        self.bad_times(&mut checker).await?;
        for fault in &self.faults {
            fault.set_active(false);
        }
        let targets = self.good_times(&mut checker).await?;
        self.rest(&mut checker).await?;
        checker.finish(&self.server.snapshot())?;
        self.supervisor.stop().await;
        Ok(Report {
            targets,
            faults: self.faults.iter().map(|fault| fault.counts().total()).sum(),
            crashes: self.crashes,
            rolls: self.rolls,
            changes: checker.changes(),
            executions: self.ledger.total(),
        })
    }

    async fn submit(&self) {
        let runtime = self.plan.runtime();
        submit::create(&self.client, runtime)
            .await
            .expect("a drawn Runtime is valid");
        for target in self.plan.targets() {
            submit::create(&self.client, target)
                .await
                .expect("a drawn target is valid");
        }
    }

    /// Faults and crashes, until the plan says that they stop.
    async fn bad_times(&mut self, checker: &mut Checker) -> Result<(), Violation> {
        let end = tokio::time::Instant::now() + self.plan.trouble_lasts;
        let mut cancels = self.plan.cancels();
        while tokio::time::Instant::now() < end {
            let pause = Duration::from_millis(self.dice.between(50, 3000));
            checker.watch_for(pause).await?;
            if self.dice.chance(30) {
                self.crash_something();
            }
            if self.dice.chance(8) {
                self.roll().await;
            }
            if self.dice.chance(30)
                && let Some(cancel) = cancels.pop()
            {
                self.cancel(&cancel).await;
            }
        }
        for cancel in cancels {
            self.cancel(&cancel).await;
        }
        Ok(())
    }

    fn crash_something(&mut self) {
        let pods = self.node.pods();
        let choice = self.dice.below(CRASHABLE.len() + pods.len());
        let crashed = match CRASHABLE.get(choice) {
            Some(component) => self.supervisor.crash(component),
            None => self.node.crash_daemon(&pods[choice - CRASHABLE.len()]),
        };
        self.crashes += u64::from(crashed);
    }

    /// Changes the template of the pool, which replaces every Pod.
    async fn roll(&mut self) {
        self.rolls += 1;
        let labels = serde_json::json!({"revision": self.rolls.to_string()});
        let patch = serde_json::json!({"spec": {"template": {"metadata": {"labels": labels}}}});
        let runtime = self.plan.runtime();
        let name = runtime["metadata"]["name"].as_str().unwrap_or_default();
        let written = submit::patch(&self.client, "Runtime", name, patch).await;
        written.expect("another label is always taken");
    }

    async fn cancel(&self, intent: &Intent) {
        let patch = serde_json::json!({"spec": {"cancelRequested": true}});
        let written = submit::patch(&self.client, &intent.kind, &intent.name, patch).await;
        written.expect("a cancellation is always taken");
    }

    /// Without faults everything must come to its end within a bounded time (invariant 7).
    async fn good_times(&self, checker: &mut Checker) -> Result<usize, Violation> {
        let end = tokio::time::Instant::now() + SETTLE;
        loop {
            checker.watch_for(Duration::from_secs(1)).await?;
            let open = unfinished(&self.server);
            if open.is_empty() {
                return Ok(self.plan.targets().len());
            }
            if tokio::time::Instant::now() > end {
                return Err(Violation::NeverSettled { open });
            }
        }
    }

    /// At rest nothing is written any more (invariant 13); heartbeats are no news.
    async fn rest(&self, checker: &mut Checker) -> Result<(), Violation> {
        checker.watch_for(Duration::from_secs(30)).await?;
        let before = self.versions();
        checker.watch_for(REST).await?;
        let after = self.versions();
        if before == after {
            return Ok(());
        }
        let changed = after.into_iter().filter(|entry| !before.contains(entry));
        Err(Violation::Restless {
            written: changed.map(|(object, _)| object).collect(),
        })
    }

    fn versions(&self) -> Vec<(String, String)> {
        let snapshot = self.server.snapshot();
        let mut versions = Vec::new();
        for (resource, objects) in snapshot.resources() {
            // Pods carry the heartbeat; Events age on their own.
            if resource == "pods" || resource.starts_with("events") {
                continue;
            }
            for object in objects {
                let version = object["metadata"]["resourceVersion"].as_str();
                versions.push((
                    format!("{resource} {}", describe(object)),
                    version.unwrap_or_default().to_owned(),
                ));
            }
        }
        versions
    }
}

/// Starts an API service with a clock that follows the timers.
fn serve(seed: u64) -> (ApiServer, Clock) {
    let epoch = Timestamp::from_second(1_800_000_000).expect("a year this century is in range");
    let clock = Clock::virtual_from(epoch);
    let server = ApiServer::builder()
        .kinds(kinds())
        .clock(Arc::new(WorldClock(clock.clone())))
        .ids(Arc::new(SeededIds::new(seed)))
        .without_field_managers()
        .build();
    (server.expect("nothing is compiled and nothing read"), clock)
}

/// The kinds of every world, compiled once.
fn kinds() -> Kinds {
    static KINDS: OnceLock<Kinds> = OnceLock::new();
    let compile = || {
        let builder = ApiServer::builder();
        let builder = kruntimes_core::crd::all()
            .into_iter()
            .fold(builder, kruntimes_apiserver::Builder::crd);
        builder.build().expect("the CRDs are valid").kinds()
    };
    KINDS.get_or_init(compile).clone()
}

/// Lists what has not come to its end.
fn unfinished(server: &ApiServer) -> Vec<String> {
    let snapshot = server.snapshot();
    let terminal = ["Succeeded", "Failed", "Timeout", "Cancelled"];
    let open = |resource| {
        let objects = snapshot.objects(resource).iter();
        objects
            .filter(|object| {
                let phase = object["status"]["phase"].as_str();
                !phase.is_some_and(|phase| terminal.contains(&phase))
            })
            .map(|object| describe(object))
            .collect::<Vec<_>>()
    };
    let mut all = open("workflowruns.kruntimes.io");
    all.extend(open("runs.kruntimes.io"));
    all
}

/// Names an object with its phase and message, for the reader of a failed seed.
fn describe(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    format!(
        "{} [{}] {}",
        text(&object["metadata"]["name"]),
        text(&object["status"]["phase"]),
        text(&object["status"]["message"]),
    )
}
