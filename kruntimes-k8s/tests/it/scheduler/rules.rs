//! What the scheduler leaves alone, and single rules of its cycle (sections 1, 4 to 6, 10 and 13).

use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use http::{Method, Request};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kruntimes_apiserver::ApiService;
use kruntimes_core::crd::Run;
use kruntimes_k8s::scheduler::{IntentError, Performer, seen};
use kruntimes_sched::plugins::standard;
use kruntimes_sched::{
    Admission, Attempt, Bind, Binding, Broken, Filter, Intent, Placement, PodState, PostBind,
    PreBind, PreFilter, PrepareError, Prepared, Reason, Refused, Reserve, Score, Scored, Scorer,
    Snapshot, Verdict,
};
use kube::client::Body;
use tower::{Layer, Service};

use super::world::{create_pod, create_run, enliven};
use super::*;

/// Notes the requests that are no watches and no lists of everything.
#[derive(Clone, Default)]
struct Witness(Arc<Mutex<Vec<String>>>);

#[derive(Clone)]
struct Watched {
    inner: ApiService,
    witness: Witness,
}

impl Layer<ApiService> for Witness {
    type Service = Watched;

    fn layer(&self, inner: ApiService) -> Watched {
        let witness = self.clone();
        Watched { inner, witness }
    }
}

impl Service<Request<Body>> for Watched {
    type Response = <ApiService as Service<Request<Body>>>::Response;
    type Error = <ApiService as Service<Request<Body>>>::Error;
    type Future = <ApiService as Service<Request<Body>>>::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Service::<Request<Body>>::poll_ready(&mut self.inner, context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let path = request.uri().path();
        if request.method() != Method::GET || path.contains("/namespaces/") {
            let told = format!("{} {path}", request.method());
            self.witness.0.lock().unwrap().push(told);
        }
        self.inner.call(request)
    }
}

#[tokio::test(start_paused = true)]
async fn s_1_s_26_the_scheduler_writes_statuses_of_runs_and_reads_nothing_but_its_watches() {
    let mut world = World::new().await;
    world.stop().await;
    let witness = Witness::default();
    world.start_through(&witness);
    world.workspace("w").await;
    world.ready_pod("p", 1).await;
    world.run("first", json!({})).await;
    world.until_scheduled("first").await;
    world
        .run("second", json!({"workspace": {"name": "w"}}))
        .await;
    world.until_waiting("second").await;
    world.bind_workspace("w", "p").await;
    world.run("third", json!({"cancelRequested": true})).await;
    world
        .until("third", |status| status.phase.is_terminal())
        .await;
    world.report("first", json!({"phase": "Succeeded"})).await;
    world.until_scheduled("second").await;
    let told = witness.0.lock().unwrap().clone();
    assert!(told.len() >= 4, "{told:?}");
    for request in told {
        let path = "PATCH /apis/kruntimes.io/v1alpha1/namespaces/default/runs/";
        let rest = request.strip_prefix(path).expect("a write of a Run");
        assert!(rest.ends_with("/status"), "{request}");
    }
}

fn object(spec: &serde_json::Value) -> Run {
    world::parsed(json!({
        "apiVersion": "kruntimes.io/v1alpha1",
        "kind": "Run",
        "metadata": {"name": "r", "namespace": "ns", "uid": "u", "labels": {"a": "b"}},
        "spec": spec,
    }))
}

#[test]
fn s_2_s_5_workflows_owners_and_templates_are_not_looked_at() {
    let plain = object(&json!({"runtime": "python", "mode": {"task": {}}}));
    let mut owned = plain.clone();
    owned.metadata.owner_references = Some(vec![OwnerReference {
        api_version: "kruntimes.io/v1alpha1".into(),
        kind: "WorkflowRun".into(),
        name: "w".into(),
        uid: "w-uid".into(),
        controller: Some(true),
        ..OwnerReference::default()
    }]);
    let request = kruntimes_core::resources::request(&plain.spec).unwrap();
    let seen_plain = seen::run(&plain, request.clone());
    assert_eq!(seen::run(&owned, request.clone()), seen_plain);
    let labels = owned.metadata.labels.get_or_insert_default();
    labels.insert("kruntimes.io/workflow-job".into(), "build".into());
    let mut labelled = seen::run(&owned, request);
    assert_ne!(labelled.labels, seen_plain.labels, "opaque, but there");
    labelled.labels = Arc::clone(&seen_plain.labels);
    assert_eq!(labelled, seen_plain);

    // A Pod that asks the cluster for much offers no less, and one that asks for nothing no more.
    let pod = |resources: serde_json::Value| {
        let pod = world::parsed(json!({
            "metadata": {"name": "p", "uid": "p"},
            "spec": {"containers": [{"name": "c", "image": "i", "resources": resources}]},
        }));
        seen::pod(&kruntimes_k8s::scheduler::Names::default(), &pod)
    };
    let large = json!({"requests": {"cpu": "64", "memory": "1Ti"}, "limits": {"cpu": "64"}});
    assert_eq!(pod(large), pod(json!({})));
    let function = object(&json!({"runtime": "python", "mode": {"function": {}}}));
    let request = kruntimes_core::resources::request(&function.spec).unwrap();
    let whole: Vec<_> = request.values().map(ToString::to_string).collect();
    assert_eq!(whole, ["1"], "however many invocations it serves");
}

#[tokio::test(start_paused = true)]
async fn s_3_s_140_namesakes_of_another_namespace_change_nothing() {
    let world = World::new().await;
    let other = world.namespace("other").await;
    for client in [&other, &world.client()] {
        create_pod(client, "p", 1).await;
        enliven(client, "p", world.clock().now()).await;
        create_run(client, "first", &json!({})).await;
    }
    world.until_scheduled("first").await;
    world.run("second", json!({})).await;
    let status = world.until_waiting("second").await;
    assert_eq!(reason(&status), Some(("False", "InsufficientCapacity")));
    // A target, a workspace and room elsewhere are of no use here.
    let term = json!({
        "labelSelector": {"matchLabels": {"there": "only"}},
        "topologyKey": "kruntimes.io/runtime-pod",
    });
    let required = json!({"requiredDuringSchedulingIgnoredDuringExecution": [term]});
    let there: kube::Api<Run> = kube::Api::default_namespaced(other);
    let label = Patch::Merge(json!({"metadata": {"labels": {"there": "only"}}}));
    there
        .patch("first", &PatchParams::default(), &label)
        .await
        .unwrap();
    world.ready_pod("q", 5).await;
    world.until_scheduled("second").await;
    world
        .run("near", json!({"affinity": {"runAffinity": required}}))
        .await;
    let status = world.until_waiting("near").await;
    assert_eq!(reason(&status), Some(("False", "UnsatisfiedRunAffinity")));
    there
        .delete("first", &DeleteParams::default())
        .await
        .unwrap();
    world.pass(1).await;
    let still = world.status("first").await;
    assert_eq!(still.phase, RunPhase::Scheduled);
    world
        .run("third", json!({"resources": {"requests": {"runs": "5"}}}))
        .await;
    let status = world.until_waiting("third").await;
    assert_eq!(reason(&status), Some(("False", "InsufficientCapacity")));
}

#[tokio::test(start_paused = true)]
async fn s_4_a_run_that_stays_scheduled_keeps_its_place_and_is_no_error() {
    let world = World::new().await;
    world.ready_pod("p", 1).await;
    world.run("parked", json!({})).await;
    world.until_scheduled("parked").await;
    world.run("next", json!({})).await;
    world.until_waiting("next").await;
    let parked = world.runs().get("parked").await.unwrap();
    for _ in 0..120 {
        world.ready("p").await;
        world.pass(10).await;
    }
    assert_eq!(world.runs().get("parked").await.unwrap(), parked);
    let status = world.status("next").await;
    assert_eq!(reason(&status), Some(("False", "InsufficientCapacity")));
    assert_eq!(world.counts.get("sync python selection_error"), 0);
}

#[tokio::test(start_paused = true)]
async fn s_18_a_dequeue_is_one_cycle_and_an_event_writes_nothing() {
    let world = World::new().await;
    world.run("r", json!({})).await;
    world.until_waiting("r").await;
    world.pass(1).await;
    assert_eq!(
        (world.counts.get("duration python"), world.writes()),
        (1, 1)
    );
    // An event that wakes nobody costs nothing.
    world.pod("p", 1).await;
    world.pass(1).await;
    assert_eq!(
        (world.counts.get("duration python"), world.writes()),
        (1, 1)
    );
    world.ready("p").await;
    world.until_scheduled("r").await;
    world.pass(1).await;
    assert_eq!(
        (world.counts.get("duration python"), world.writes()),
        (2, 2)
    );
}

/// Writes down every stage it is asked at.
#[derive(Clone, Default)]
struct Stages(Arc<Mutex<Vec<&'static str>>>);

impl Stages {
    fn note(&self, stage: &'static str) {
        self.0.lock().unwrap().push(stage);
    }
}

impl PreFilter for Stages {
    fn name(&self) -> &'static str {
        "Stages"
    }

    fn admit(&self, _: &Snapshot, _: &kruntimes_sched::Run) -> Result<Admission, PrepareError> {
        self.note("pre-filter");
        Ok(Admission::All)
    }
}

impl Filter for Stages {
    fn name(&self) -> &'static str {
        "Stages"
    }

    fn reasons(&self) -> &'static [Reason] {
        &[]
    }

    fn prepare<'a>(
        &'a self,
        _: &'a Snapshot,
        _: &'a kruntimes_sched::Run,
    ) -> Result<Prepared<'a>, PrepareError> {
        Ok(Prepared::Check(Box::new(|_| {
            self.note("filter");
            Verdict::Fits
        })))
    }
}

impl Score for Stages {
    fn name(&self) -> &'static str {
        "Stages"
    }

    fn prepare<'a>(
        &'a self,
        _: &'a Snapshot,
        _: &'a kruntimes_sched::Run,
    ) -> Result<Box<dyn Scorer + 'a>, PrepareError> {
        Ok(Box::new(self.clone()))
    }
}

impl Scorer for Stages {
    fn score(&self, _: &PodState) -> Result<i64, Broken> {
        self.note("score");
        Ok(1)
    }

    fn normalize(&self, _: &mut [Scored]) -> Result<(), Broken> {
        self.note("normalize");
        Ok(())
    }
}

impl Reserve for Stages {
    fn name(&self) -> &'static str {
        "Stages"
    }

    fn reserve(&self, _: &Attempt<'_>) -> Result<(), Refused> {
        self.note("reserve");
        Ok(())
    }
}

impl PreBind for Stages {
    fn name(&self) -> &'static str {
        "Stages"
    }

    fn intents(&self, _: &Placement, _: Timestamp) -> Result<Vec<Intent>, Broken> {
        self.note("pre-bind");
        Ok(vec![Intent::Custom {
            kind: "anything",
            arguments: [].into(),
        }])
    }
}

impl Bind for Stages {
    fn name(&self) -> &'static str {
        "Stages"
    }

    fn bind(&self, _: &Placement, _: Timestamp) -> Result<Binding, Broken> {
        self.note("bind");
        Ok(Binding::Write)
    }
}

impl PostBind for Stages {
    fn name(&self) -> &'static str {
        "Stages"
    }

    fn bound(&self, _: &Placement) {
        self.note("post-bind");
    }
}

/// Deletes the first Pod that is about to be used.
struct Vandal {
    pods: kube::Api<k8s_openapi::api::core::v1::Pod>,
    done: Mutex<bool>,
}

impl Performer for Vandal {
    fn perform<'a>(&'a self, _: &'a str, _: &'a Intent) -> BoxFuture<'a, Result<(), IntentError>> {
        Box::pin(async {
            if !std::mem::replace(&mut *self.done.lock().unwrap(), true) {
                let params = DeleteParams::default().grace_period(0);
                self.pods.delete("a", &params).await?;
                // Long enough for the watch to tell.
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            Ok(())
        })
    }
}

#[tokio::test(start_paused = true)]
async fn s_31_s_87_no_stage_is_left_out_and_a_pod_that_went_meanwhile_is_not_bound() {
    let mut world = World::new().await;
    let stages = Stages::default();
    let profile = standard()
        .pre_filter(stages.clone())
        .filter(stages.clone())
        .score(1, stages.clone())
        .reserve(stages.clone())
        .pre_bind(stages.clone())
        .bind(stages.clone())
        .post_bind(stages.clone());
    let profile = profile.build().unwrap();
    let vandal = Vandal {
        pods: world.pods(),
        done: Mutex::new(false),
    };
    world
        .start_with(|scheduler| scheduler.profile(profile).performer(Arc::new(vandal)))
        .await;
    world.ready_pod("a", 1).await;
    world.run("r", json!({})).await;
    world.pass(2).await;
    assert!(world.pods().get_opt("a").await.unwrap().is_none());
    let status = world.status("r").await;
    assert_eq!(
        (status.phase, status.assigned_pod),
        (RunPhase::Pending, None)
    );
    world.ready_pod("b", 1).await;
    let status = world.until_scheduled("r").await;
    assert_eq!(status.assigned_pod.as_deref(), Some("b"));
    world.pass(1).await;
    let noted = stages.0.lock().unwrap().clone();
    let upto = |last| {
        let whole = [
            "pre-filter",
            "filter",
            "score",
            "normalize",
            "reserve",
            "pre-bind",
            "bind",
            "post-bind",
        ];
        whole.into_iter().take(last).collect::<Vec<_>>()
    };
    assert!(noted.starts_with(&upto(7)), "{noted:?}");
    assert!(noted.ends_with(&upto(8)), "{noted:?}");
    let told = noted.iter().filter(|stage| **stage == "post-bind").count();
    assert_eq!(told, 1, "{noted:?}");
}

#[tokio::test(start_paused = true)]
async fn s_36_what_cannot_be_read_leads_to_no_write_and_is_tried_again() {
    let mut world = World::new().await;
    world.stop().await;
    world.ready_pod("p", 1).await;
    world.run("r", json!({})).await;
    let faults = FaultLayer::new(
        1,
        FaultPlan {
            internal_error: 1.0,
            ..FaultPlan::default()
        },
    );
    let handle = faults.handle();
    world.start_behind(&faults).await;
    world.pass(120).await;
    assert!(handle.counts().internal_errors > 4, "it keeps trying");
    assert_eq!(world.writes(), 0);
    assert_eq!(world.status("r").await.conditions, []);
    handle.set_active(false);
    world.ready("p").await;
    world.until_scheduled("r").await;
}

#[tokio::test(start_paused = true)]
async fn s_84_a_bound_run_keeps_its_place_while_the_watch_is_late() {
    let mut world = World::new().await;
    let late = FaultPlan {
        watch_stall: 1.0,
        delay_for: Duration::from_secs(5)..=Duration::from_secs(5),
        ..FaultPlan::default()
    };
    world.start_behind(&FaultLayer::new(1, late)).await;
    world.pass(1).await;
    world.ready_pod("p", 1).await;
    for name in ["a", "b", "c"] {
        world.run(name, json!({})).await;
    }
    for _ in 0..12 {
        world.pass(1).await;
        assert!(placed(&world, "one slot").await.len() <= 1);
    }
    assert_eq!(placed(&world, "one slot").await.len(), 1);
    assert_eq!(world.counts.get("sync python scheduled"), 1);
}

#[tokio::test(start_paused = true)]
async fn s_107_a_conflict_on_any_status_write_is_repeated_in_silence() {
    let world = World::new().await;
    world.meddle(&[Trick::Edit]);
    world.run("waits", json!({})).await;
    let status = world.until_waiting("waits").await;
    assert_eq!(reason(&status), Some(("False", "NoReadyPods")));
    world.meddle(&[Trick::Edit]);
    world.run("ends", json!({"cancelRequested": true})).await;
    let status = world
        .until("ends", |status| status.phase.is_terminal())
        .await;
    assert_eq!(status.phase, RunPhase::Cancelled);
    assert_eq!(world.writes(), 4, "each was written twice");
    assert_eq!(world.counts.get("conflict bind"), 0);
    assert_eq!(world.counts.get("sync python selection_error"), 0);
}
