//! The extension points that only a shell can serve (S-159 to S-162, and the table of section 16.1).

use std::cmp::Ordering;
use std::sync::{Arc, Mutex};

use futures::future::BoxFuture;
use jiff::Timestamp;
use kruntimes_k8s::scheduler::{IntentError, Performer};
use kruntimes_sched::plugins::standard;
use kruntimes_sched::{
    Admittance, Bind, Binding, Broken, EventKind, Intent, Permission, Permit, Placement, PostBind,
    PreBind, PreEnqueue, Profile, Question, QueueSort, Reason, Run,
};

use super::*;

/// What happened, in order.
type Diary = Arc<Mutex<Vec<String>>>;

/// A plugin of every point that a test asks for; it writes down what it is asked.
#[derive(Clone, Default)]
struct Custom(Diary);

impl Custom {
    fn note(&self, what: String) {
        self.0.lock().unwrap().push(what);
    }
}

impl QueueSort for Custom {
    fn name(&self) -> &'static str {
        "Custom"
    }

    fn compare(&self, a: &Run, b: &Run, _: Timestamp) -> Ordering {
        b.name.cmp(&a.name)
    }
}

impl PreEnqueue for Custom {
    fn name(&self) -> &'static str {
        "Custom"
    }

    fn reasons(&self) -> &'static [Reason] {
        const REASONS: &[Reason] = &[Reason::new("NotEdited")];
        REASONS
    }

    fn admit(&self, run: &Run, _: Timestamp) -> Admittance {
        self.note(format!("admit {}", run.name));
        if run.labels.contains_key("edited") {
            return Admittance::Admit;
        }
        Admittance::Hold("NotEdited")
    }

    fn events(&self) -> &'static [EventKind] {
        &[]
    }
}

/// Lets Runs start in pairs.
impl Permit for Custom {
    fn name(&self) -> &'static str {
        "Custom"
    }

    fn permit(&self, question: &Question<'_>) -> Permission {
        let others: Vec<_> = (question.room.waiting())
            .map(|waiter| waiter.placement.run.uid.clone())
            .collect();
        if !others.is_empty() {
            return Permission::AllowAlso(others);
        }
        let until = question.now + jiff::SignedDuration::from_secs(20);
        Permission::Wait { until }
    }
}

impl PreBind for Custom {
    fn name(&self) -> &'static str {
        "Custom"
    }

    fn intents(&self, placement: &Placement, _: Timestamp) -> Result<Vec<Intent>, Broken> {
        let run = ("run".to_owned(), placement.run.name.to_string());
        Ok(vec![Intent::Custom {
            kind: "before",
            arguments: [run].into(),
        }])
    }
}

impl Bind for Custom {
    fn name(&self) -> &'static str {
        "Custom"
    }

    fn bind(&self, placement: &Placement, _: Timestamp) -> Result<Binding, Broken> {
        self.note(format!("bind {}", placement.run.name));
        Ok(Binding::Skip)
    }
}

impl PostBind for Custom {
    fn name(&self) -> &'static str {
        "Custom"
    }

    fn bound(&self, placement: &Placement) {
        self.note(format!("bound {}", placement.run.name));
    }
}

/// Performs what it is asked to, except for the first time.
impl Performer for Custom {
    fn perform<'a>(
        &'a self,
        namespace: &'a str,
        intent: &'a Intent,
    ) -> BoxFuture<'a, Result<(), IntentError>> {
        let Intent::Custom { kind, .. } = intent else {
            return Box::pin(std::future::ready(Err("unknown intent".into())));
        };
        let mut diary = self.0.lock().unwrap();
        let first = diary.is_empty();
        diary.push(format!("{kind} in {namespace}"));
        let done = if first { Err("not yet".into()) } else { Ok(()) };
        Box::pin(std::future::ready(done))
    }
}

async fn world_with(profile: Profile) -> World {
    let mut world = World::new().await;
    world
        .start_with(|scheduler| scheduler.profile(profile))
        .await;
    world
}

#[tokio::test(start_paused = true)]
async fn s_159_the_order_of_the_profile_decides_who_gets_what_is_scarce() {
    let mut world = World::new().await;
    world.stop().await;
    world.ready_pod("p", 1).await;
    for name in ["a", "c", "b"] {
        world.run(name, json!({})).await;
    }
    let profile = standard().queue_sort(Custom::default()).build().unwrap();
    world
        .start_with(|scheduler| scheduler.profile(profile))
        .await;
    for name in ["c", "b", "a"] {
        world.until_scheduled(name).await;
        let placed = placed(&world, "one slot").await;
        assert_eq!(placed, [name]);
        world.report(name, json!({"phase": "Succeeded"})).await;
        world.ready("p").await;
    }
}

#[tokio::test(start_paused = true)]
async fn s_163_a_run_that_is_held_back_costs_no_cycle_until_it_changes() {
    let custom = Custom::default();
    let world = world_with(standard().pre_enqueue(custom.clone()).build().unwrap()).await;
    world.run("r", json!({})).await;
    let status = world.until_waiting("r").await;
    assert_eq!(reason(&status), Some(("False", "NotEdited")));
    world.ready_pod("p", 1).await;
    world.pass(120).await;
    let asked = custom.0.lock().unwrap().len();
    assert_eq!(asked, 1, "no event asked for it, and no timer");
    world.ready("p").await;
    world.edit("r").await;
    world.until_scheduled("r").await;
}

#[tokio::test(start_paused = true)]
async fn s_161_a_run_keeps_its_place_until_it_is_allowed_or_its_time_is_up() {
    let world = world_with(standard().permit(Custom::default()).build().unwrap()).await;
    world.ready_pod("p", 2).await;
    world.run("a", json!({})).await;
    world.pass(5).await;
    assert_eq!(world.status("a").await.phase, RunPhase::Pending);
    let start = Instant::now();
    world.run("b", json!({})).await;
    world.until_scheduled("a").await;
    world.until_scheduled("b").await;
    assert_eq!(start.elapsed().as_nanos(), 0, "no timer was needed");
    for name in ["a", "b"] {
        world.report(name, json!({"phase": "Succeeded"})).await;
    }
    // One that is cancelled gives its place back, and one that is deleted does too.
    world
        .run("c", json!({"resources": {"requests": {"runs": "2"}}}))
        .await;
    world.pass(1).await;
    let cancel = Patch::Merge(json!({"spec": {"cancelRequested": true}}));
    let params = PatchParams::default();
    world.runs().patch("c", &params, &cancel).await.unwrap();
    world.until("c", |status| status.phase.is_terminal()).await;
    world.run("d", json!({})).await;
    world.pass(1).await;
    let params = DeleteParams::default();
    world.runs().delete("d", &params).await.unwrap();
    world.ready("p").await;
    for name in ["e", "f"] {
        world.run(name, json!({})).await;
    }
    for name in ["e", "f"] {
        world.until_scheduled(name).await;
    }
}

#[tokio::test(start_paused = true)]
async fn s_161_the_deadline_frees_the_place_for_others() {
    let world = world_with(standard().permit(Custom::default()).build().unwrap()).await;
    world.ready_pod("p", 1).await;
    world.run("a", json!({})).await;
    world.pass(1).await;
    world.run("b", json!({})).await;
    let status = world.until_waiting("b").await;
    assert_eq!(reason(&status), Some(("False", "InsufficientCapacity")));
    world.pass(15).await;
    world.ready("p").await;
    world.pass(5).await;
    let a = world.status("a").await;
    assert_eq!(a.phase, RunPhase::Pending);
    // Each has held the place in vain by now: a second slot lets both in.
    world.ready_pod("q", 1).await;
    world.until_scheduled("a").await;
    world.until_scheduled("b").await;
}

#[tokio::test(start_paused = true)]
async fn s_162_intents_are_performed_before_the_write_and_the_bind_is_told_after_it() {
    let custom = Custom::default();
    let profile = standard()
        .pre_bind(custom.clone())
        .bind(custom.clone())
        .post_bind(custom.clone());
    let profile = profile.build().unwrap();
    let mut world = World::new().await;
    let performer = Arc::new(custom.clone());
    world
        .start_with(|scheduler| scheduler.profile(profile).performer(performer))
        .await;
    world.ready_pod("p", 1).await;
    world.run("r", json!({})).await;
    world.until_scheduled("r").await;
    world.pass(1).await;
    let diary = custom.0.lock().unwrap().clone();
    let want = [
        "before in default",
        "before in default",
        "bind r",
        "bound r",
    ];
    assert_eq!(diary, want, "the first refusal is repeated");
    assert_eq!(world.writes(), 1);
}

#[tokio::test(start_paused = true)]
async fn s_162_without_a_performer_the_place_is_given_up_and_nothing_is_written() {
    let world = world_with(standard().pre_bind(Custom::default()).build().unwrap()).await;
    world.ready_pod("p", 1).await;
    world.run("r", json!({})).await;
    world.pass(10).await;
    assert_eq!(world.status("r").await.phase, RunPhase::Pending);
    assert_eq!(world.writes(), 0);
}
