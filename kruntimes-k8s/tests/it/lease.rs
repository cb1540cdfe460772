//! Leader election against the in-process API service, on a paused clock (S-124 to S-127).

use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kruntimes_apiserver::ApiServer;
use kruntimes_apiserver::fault::{FaultLayer, FaultPlan};
use kruntimes_k8s::clock::Clock;
use kruntimes_k8s::lease::{Config, End, Term, lead};
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Who worked from when to when, in seconds since the start.
type Shifts = Arc<Mutex<Vec<(&'static str, u64, Option<u64>)>>>;

/// Writes down the end of a shift however it ends.
struct Shift {
    index: usize,
    start: Instant,
    shifts: Shifts,
}

impl Drop for Shift {
    fn drop(&mut self) {
        self.shifts.lock().unwrap()[self.index].2 = Some(self.start.elapsed().as_secs());
    }
}

struct World {
    server: ApiServer,
    start: Instant,
    shifts: Shifts,
    crew: JoinSet<End<()>>,
}

impl World {
    fn new() -> Self {
        Self {
            server: ApiServer::builder().build().unwrap(),
            start: Instant::now(),
            shifts: Arc::default(),
            crew: JoinSet::new(),
        }
    }

    /// Lets somebody contend, who stops when the sender does.
    fn contend(&mut self, name: &'static str, client: Client) -> oneshot::Sender<()> {
        let config = Config::new("default", "the-lease", name);
        let clock = Clock::virtual_from(jiff::Timestamp::UNIX_EPOCH);
        let (ask, asked) = oneshot::channel();
        let (start, shifts) = (self.start, Arc::clone(&self.shifts));
        let stop = async move {
            let _ = asked.await;
        };
        self.crew
            .spawn(lead(client, config, clock, stop, move |_: Term| {
                let index = {
                    let mut known = shifts.lock().unwrap();
                    known.push((name, start.elapsed().as_secs(), None));
                    known.len() - 1
                };
                let shift = Shift {
                    index,
                    start,
                    shifts,
                };
                async move {
                    let _shift = shift;
                    pending::<()>().await;
                }
            }));
        ask
    }

    async fn pass(&self, seconds: u64) {
        let time = Duration::from_secs(seconds);
        tokio::time::timeout(time, pending::<()>())
            .await
            .unwrap_err();
    }

    fn shifts(&self) -> Vec<(&'static str, u64, Option<u64>)> {
        self.shifts.lock().unwrap().clone()
    }

    fn leases(&self) -> Api<Lease> {
        Api::default_namespaced(self.server.client())
    }
}

#[tokio::test(start_paused = true)]
async fn s_124_of_several_contenders_one_leads() {
    let mut world = World::new();
    let mut asks = Vec::new();
    for name in ["a", "b", "c"] {
        asks.push(world.contend(name, world.server.client()));
    }
    world.pass(120).await;
    assert_eq!(world.shifts().len(), 1, "{:?}", world.shifts());
}

#[tokio::test(start_paused = true)]
async fn c_133_a_leader_that_is_asked_to_stop_gives_the_lease_back() {
    let mut world = World::new();
    let ask = world.contend("a", world.server.client());
    world.pass(1).await;
    let _ask = world.contend("b", world.server.client());
    world.pass(60).await;
    ask.send(()).unwrap();
    assert_eq!(world.crew.join_next().await.unwrap().unwrap(), End::Stopped);
    world.pass(3).await;
    let shifts = world.shifts();
    assert_eq!(shifts[0], ("a", 0, Some(61)));
    assert_eq!((shifts[1].0, shifts[1].2), ("b", None));
    assert!(shifts[1].1 <= 63, "{shifts:?}");
    let spec = world.leases().get("the-lease").await.unwrap().spec.unwrap();
    assert_eq!(spec.holder_identity.as_deref(), Some("b"));
    assert_eq!(spec.lease_transitions, Some(1));
}

#[tokio::test(start_paused = true)]
async fn s_126_a_leader_that_is_cut_off_has_stopped_before_another_begins() {
    for lost in [
        FaultPlan {
            lost_request: 1.0,
            ..FaultPlan::default()
        },
        FaultPlan {
            delay: 1.0,
            delay_for: Duration::from_secs(500)..=Duration::from_secs(500),
            ..FaultPlan::default()
        },
    ] {
        let mut world = World::new();
        let faults = FaultLayer::new(1, FaultPlan::default());
        let handle = faults.handle();
        let _first = world.contend("a", world.server.client_with(&faults));
        world.pass(1).await;
        let _second = world.contend("b", world.server.client());
        world.pass(20).await;
        handle.set_plan(lost);
        assert_eq!(world.crew.join_next().await.unwrap().unwrap(), End::Lost);
        world.pass(30).await;
        let shifts = world.shifts();
        let [("a", 0, Some(end)), ("b", begin, None)] = shifts[..] else {
            panic!("{shifts:?}");
        };
        assert!((29..=32).contains(&end), "{shifts:?}");
        assert!(begin > end, "{shifts:?}");
        assert!(begin <= 40, "{shifts:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn s_126_a_lease_that_somebody_else_took_ends_the_work_at_the_next_renewal() {
    let mut world = World::new();
    let _ask = world.contend("a", world.server.client());
    world.pass(5).await;
    let taken = Patch::Merge(json!({"spec": {"holderIdentity": "thief"}}));
    let params = PatchParams::default();
    world
        .leases()
        .patch("the-lease", &params, &taken)
        .await
        .unwrap();
    assert_eq!(world.crew.join_next().await.unwrap().unwrap(), End::Lost);
    assert!(world.start.elapsed() <= Duration::from_secs(8));
}

#[tokio::test(start_paused = true)]
async fn s_126_lost_answers_and_foreign_edits_do_not_end_the_work() {
    let mut world = World::new();
    let faults = FaultLayer::new(
        7,
        FaultPlan {
            lost_answer: 0.05,
            ..FaultPlan::default()
        },
    );
    let handle = faults.handle();
    let _ask = world.contend("a", world.server.client_with(&faults));
    world.pass(60).await;
    for n in 0..20 {
        let edit = Patch::Merge(json!({"metadata": {"labels": {"n": n.to_string()}}}));
        let params = PatchParams::default();
        world
            .leases()
            .patch("the-lease", &params, &edit)
            .await
            .unwrap();
        world.pass(3).await;
    }
    let shifts = world.shifts();
    assert_eq!(shifts.len(), 1, "{shifts:?}");
    assert_eq!(shifts[0].2, None);
    assert!(handle.counts().total() > 0);
}
