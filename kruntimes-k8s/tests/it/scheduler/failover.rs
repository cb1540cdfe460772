//! Two schedulers on one API whose terms overlap: no Run is bound twice (S-98, S-124 to S-127).

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use futures::StreamExt as _;
use http::{Method, Request, Response};
use k8s_openapi::api::coordination::v1::Lease;
use kruntimes_apiserver::{AnswerBody, ApiService, BoxError};
use kruntimes_core::crd::Run;
use kruntimes_k8s::lease::{self, End, lead};
use kruntimes_k8s::scheduler::{Config, Scheduler};
use kube::api::Api;
use kube::client::Body;
use kube::runtime::watcher::{self, watcher};
use kube::{Client, ResourceExt as _};
use tokio::task::{AbortHandle, JoinSet};
use tower::{Layer, Service, ServiceExt as _};

use super::*;

/// Delivers status writes after a while, whether or not their sender still lives.
#[derive(Clone, Default)]
struct Post {
    delay: Arc<Mutex<Duration>>,
    delivered: Arc<Mutex<Vec<http::StatusCode>>>,
}

impl Post {
    fn slow(&self, delay: Duration) {
        *self.delay.lock().unwrap() = delay;
    }

    fn delivered(&self) -> Vec<http::StatusCode> {
        self.delivered.lock().unwrap().clone()
    }
}

impl Layer<ApiService> for Post {
    type Service = Posted;

    fn layer(&self, inner: ApiService) -> Posted {
        Posted {
            inner,
            post: self.clone(),
        }
    }
}

#[derive(Clone)]
struct Posted {
    inner: ApiService,
    post: Post,
}

impl Service<Request<Body>> for Posted {
    type Response = Response<AnswerBody>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let this = self.clone();
        let (writes, path) = (request.method() == Method::PATCH, request.uri().path());
        if !(writes && path.ends_with("/status")) {
            return Box::pin(async move { this.inner.oneshot(request).await.map_err(Into::into) });
        }
        let delay = *this.post.delay.lock().unwrap();
        let sent = tokio::spawn(async move {
            tokio::time::sleep(delay).await;
            let answer = this.inner.oneshot(request).await;
            if let Ok(answer) = &answer {
                this.post.delivered.lock().unwrap().push(answer.status());
            }
            answer
        });
        Box::pin(async move { sent.await?.map_err(Into::into) })
    }
}

/// Stops a process without its knowing.
#[derive(Clone, Default)]
struct Freezer(Arc<Mutex<(bool, Option<Waker>)>>);

impl Freezer {
    fn freeze(&self) {
        self.0.lock().unwrap().0 = true;
    }

    fn thaw(&self) {
        let mut state = self.0.lock().unwrap();
        state.0 = false;
        if let Some(waker) = state.1.take() {
            waker.wake();
        }
    }

    async fn hold<T>(self, work: impl Future<Output = T>) -> T {
        let mut work = Box::pin(work);
        std::future::poll_fn(move |context| {
            {
                let mut state = self.0.lock().unwrap();
                if state.0 {
                    state.1 = Some(context.waker().clone());
                    return Poll::Pending;
                }
            }
            work.as_mut().poll(context)
        })
        .await
    }
}

/// A process that contends for the lease and schedules through its own post.
struct Process {
    post: Post,
    freezer: Freezer,
    handle: AbortHandle,
}

fn process(world: &World, name: &str, crew: &mut JoinSet<(String, End<()>)>) -> Process {
    let (post, freezer) = (Post::default(), Freezer::default());
    let client = world.server.client_with(&post);
    let clock = world.clock();
    let config = lease::Config::new("default", "the-lease", name);
    let scheduler = Scheduler::new(client, Config::default(), clock.clone()).unwrap();
    let stop = std::future::pending();
    let leading = lead(world.client(), config, clock, stop, |_| scheduler.run());
    let (name, held) = (name.to_owned(), freezer.clone());
    let handle = crew.spawn(async move { (name, held.hold(leading).await) });
    Process {
        post,
        freezer,
        handle,
    }
}

/// Gives the lease away behind the back of its holder.
async fn steal(client: &Client, thief: &str) {
    let leases: Api<Lease> = Api::default_namespaced(client.clone());
    let patch = Patch::Merge(json!({"spec": {"holderIdentity": thief}}));
    let params = PatchParams::default();
    leases.patch("the-lease", &params, &patch).await.unwrap();
}

/// Follows where every Run is assigned, by UID and attempt.
type Places = Arc<Mutex<BTreeMap<(String, i32), Vec<String>>>>;

fn follow(client: Client, crew: &mut JoinSet<()>) -> Places {
    let places = Places::default();
    let seen = Arc::clone(&places);
    let runs: Api<Run> = Api::default_namespaced(client);
    crew.spawn(async move {
        let mut events = Box::pin(watcher(runs, watcher::Config::default()));
        while let Some(event) = events.next().await {
            let (watcher::Event::Apply(run) | watcher::Event::InitApply(run)) = event.unwrap()
            else {
                continue;
            };
            let status = run.status.clone().unwrap_or_default();
            if let Some(pod) = status.assigned_pod {
                let key = (run.uid().unwrap(), status.attempt.unwrap_or(1));
                let mut seen = seen.lock().unwrap();
                let places = seen.entry(key).or_default();
                if places.last() != Some(&pod) {
                    places.push(pod);
                }
            }
        }
    });
    places
}

fn assert_bound_once(places: &Places, count: usize, case: &str) {
    let places = places.lock().unwrap();
    assert_eq!(places.len(), count, "{case}: every run is bound");
    for (run, places) in places.iter() {
        assert_eq!(places.len(), 1, "{case}: {run:?} was moved: {places:?}");
    }
}

async fn without_scheduler() -> World {
    let mut world = World::new().await;
    world.stop().await;
    world
}

#[tokio::test(start_paused = true)]
async fn s_124_s_126_a_bind_in_flight_of_a_leader_without_lease_is_refused_by_its_version() {
    let world = without_scheduler().await;
    let (mut crew, mut watching) = (JoinSet::new(), JoinSet::new());
    let places = follow(world.client(), &mut watching);
    let old = process(&world, "old", &mut crew);
    world.pass(1).await;
    old.post.slow(Duration::from_secs(60));
    world.ready_pod("p", 1).await;
    world.run("r", json!({})).await;
    world.pass(1).await;
    let _new = process(&world, "new", &mut crew);
    steal(&world.client(), "new").await;
    let status = world.until_scheduled("r").await;
    assert_eq!(status.assigned_pod.as_deref(), Some("p"));
    assert!(old.post.delivered().is_empty(), "its bind is on its way");
    let ended = crew.join_next().await.unwrap().unwrap();
    assert_eq!(ended, ("old".to_owned(), End::Lost));
    let version = world.runs().get("r").await.unwrap().resource_version();
    world.pass(90).await;
    assert_eq!(old.post.delivered(), [http::StatusCode::CONFLICT]);
    let after = world.runs().get("r").await.unwrap().resource_version();
    assert_eq!(after, version, "nothing was written any more");
    assert_bound_once(&places, 1, "in flight");
}

#[tokio::test(start_paused = true)]
async fn s_124_s_126_a_leader_that_wakes_up_late_writes_nothing() {
    let world = without_scheduler().await;
    let mut crew = JoinSet::new();
    let old = process(&world, "old", &mut crew);
    world.pass(1).await;
    old.freezer.freeze();
    world.ready_pod("p", 2).await;
    for name in ["a", "b"] {
        world.run(name, json!({})).await;
    }
    let new = process(&world, "new", &mut crew);
    world.pass(14).await;
    assert_eq!(world.writes(), 0, "the lease has not run out");
    world.ready("p").await;
    for name in ["a", "b"] {
        world.until_scheduled(name).await;
    }
    world.run("c", json!({})).await;
    world.until_waiting("c").await;
    let writes = world.writes();
    old.freezer.thaw();
    let ended = crew.join_next().await.unwrap().unwrap();
    assert_eq!(ended, ("old".to_owned(), End::Lost));
    world.pass(5).await;
    assert_eq!(world.writes(), writes);
    assert!(old.post.delivered().is_empty());
    assert!(!new.handle.is_finished());
}

#[tokio::test(start_paused = true)]
async fn s_126_s_127_leases_that_change_hands_all_the_time_bind_no_run_twice() {
    const RUNS: usize = 12;
    for seed in 0..6_u64 {
        let world = without_scheduler().await;
        let (mut crew, mut watching) = (JoinSet::new(), JoinSet::new());
        let places = follow(world.client(), &mut watching);
        for pod in ["p", "q", "s"] {
            world.pod(pod, 9).await;
        }
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut draw = |bound: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % bound
        };
        let mut lives = Vec::new();
        for round in 0..RUNS {
            for pod in ["p", "q", "s"] {
                world.ready(pod).await;
            }
            let name = format!("leader{round}");
            let next = process(&world, &name, &mut crew);
            next.post.slow(Duration::from_millis(draw(9_000)));
            world.run(&format!("r{round}"), json!({})).await;
            if draw(3) > 0 {
                steal_if_held(&world, &name).await;
            }
            lives.push(next);
            world.pass(1 + draw(4)).await;
        }
        for life in &lives {
            life.post.slow(Duration::ZERO);
        }
        for _ in 0..12 {
            for pod in ["p", "q", "s"] {
                world.ready(pod).await;
            }
            world.pass(5).await;
        }
        assert_bound_once(&places, RUNS, &format!("seed {seed}"));
        let delivered = lives.iter().flat_map(|life| life.post.delivered());
        let bound = delivered.filter(http::StatusCode::is_success).count();
        assert!(bound >= RUNS, "seed {seed}");
        crew.shutdown().await;
    }
}

async fn steal_if_held(world: &World, thief: &str) {
    let leases: Api<Lease> = Api::default_namespaced(world.client());
    if leases.get_opt("the-lease").await.unwrap().is_some() {
        steal(&world.client(), thief).await;
    }
}

#[tokio::test(start_paused = true)]
async fn s_98_s_125_s_127_a_new_leader_knows_what_is_written_and_nothing_else() {
    let world = without_scheduler().await;
    let mut crew = JoinSet::new();
    let old = process(&world, "old", &mut crew);
    world.pass(1).await;
    old.post.slow(Duration::from_secs(600));
    world.ready_pod("p", 1).await;
    // A target for others, reserved and never written.
    world.run("target", json!({})).await;
    world.edit("target").await;
    world.pass(1).await;
    old.handle.abort();
    let cancel = Patch::Merge(json!({"spec": {"cancelRequested": true}}));
    let params = PatchParams::default();
    world
        .runs()
        .patch("target", &params, &cancel)
        .await
        .unwrap();
    let term = json!({
        "labelSelector": {"matchLabels": {"edited": "yes"}},
        "topologyKey": "kruntimes.io/runtime-pod",
    });
    let required = json!({"requiredDuringSchedulingIgnoredDuringExecution": [term]});
    let beside = json!({"affinity": {"runAffinity": required}});
    world.run("beside", beside).await;
    let _new = process(&world, "new", &mut crew);
    steal(&world.client(), "new").await;
    world
        .until("target", |status| status.phase.is_terminal())
        .await;
    let status = world.until_waiting("beside").await;
    assert_eq!(reason(&status), Some(("False", "UnsatisfiedRunAffinity")));
    // What the old one had reserved holds nobody back.
    world.run("next", json!({})).await;
    world.until_scheduled("next").await;
}
