//! Permit, the waiting room, and gangs by permission alone (scheduler, S-161).

use std::sync::Arc;

use kruntimes_core::duration::Duration;
use kruntimes_sched::plugins::{Gang, standard};
use kruntimes_sched::testing::{
    NAMESPACE, RunBuilder, a_pod, a_run, a_snapshot, at, namespace, winner,
};
use kruntimes_sched::{
    Action, Book, Permission, Permit, Permitted, Placement, Pod, Profile, Question, Run, Snapshot,
    WaitingRoom, calculate, permit, reserve, unreserve,
};

fn gang_profile() -> Profile {
    let gang = Gang::new("size").timeout(Duration::from_secs(10));
    standard().permit(gang).build().unwrap()
}

fn member(name: &str, group: &str, size: &str) -> RunBuilder {
    a_run(name).group(group).label("size", size)
}

/// A scheduler in small: decides, reserves and asks for permission.
struct World {
    profile: Profile,
    pods: Vec<Arc<Pod>>,
    book: Book,
    room: WaitingRoom,
}

impl World {
    fn new(profile: Profile, capacity: i64) -> Self {
        Self {
            profile,
            pods: vec![Arc::new(a_pod("p").offers("runs", capacity).build())],
            book: Book::new(),
            room: WaitingRoom::new(),
        }
    }

    /// Returns how far the Run gets; nothing when nothing fits.
    fn place(&mut self, run: &Arc<Run>, second: i64) -> Option<Permitted> {
        let view = self.book.view(NAMESPACE);
        let snapshot = Snapshot::new(at(second), self.pods.iter().cloned(), view);
        let decision = calculate(&snapshot, run, &self.profile);
        drop(snapshot);
        winner(&decision)?;
        let pod = Arc::clone(&self.pods[0]);
        reserve(&self.profile, &mut self.book, run, &pod, at(second)).unwrap();
        let placement = Placement {
            run: Arc::clone(run),
            pod,
        };
        let view = self.book.view(NAMESPACE);
        let profile = &self.profile;
        let permitted = permit(profile, &mut self.room, &view, &placement, at(second)).unwrap();
        if matches!(permitted, Permitted::Denied { .. }) {
            unreserve(&self.profile, &mut self.book, run);
        }
        Some(permitted)
    }

    /// Gives up whoever waited too long; returns their names in that order.
    fn expire(&mut self, second: i64) -> Vec<String> {
        let expired = self.room.take_expired(&self.profile, at(second));
        for placement in &expired {
            unreserve(&self.profile, &mut self.book, &placement.run);
        }
        expired.iter().map(|p| p.run.name.to_string()).collect()
    }
}

fn waits_until(second: i64) -> Permitted {
    Permitted::Waits { until: at(second) }
}

#[test]
fn s_161_the_last_member_allows_all() {
    let mut world = World::new(gang_profile(), 9);
    let [a, b, c] = ["a", "b", "c"].map(|name| member(name, "g", "3").shared());
    assert_eq!(world.place(&a, 0), Some(waits_until(10)));
    assert_eq!(
        world.place(&b, 4),
        Some(waits_until(10)),
        "the deadline is shared"
    );
    assert_eq!(world.room.next_deadline(), Some(at(10)));
    assert_eq!(world.book.assumed(), 2, "who waits keeps its place");
    let stranger = a_run("stranger").shared();
    assert_eq!(world.place(&stranger, 5), Some(Permitted::Now));
    assert!(world.room.take_allowed().is_empty());
    assert_eq!(world.place(&c, 6), Some(Permitted::Now));
    let allowed = world.room.take_allowed();
    let names: Vec<_> = allowed.iter().map(|p| p.run.name.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(world.room.waiting().count(), 0);
    assert!(world.expire(99).is_empty());
}

#[test]
fn s_161_the_deadline_frees_both_of_two_gangs_and_the_later_one_yields_first() {
    let mut world = World::new(gang_profile(), 4);
    let first = ["a1", "a2", "a3"].map(|name| member(name, "a", "3").created(1).shared());
    let second = ["b1", "b2", "b3"].map(|name| member(name, "b", "3").created(2).shared());
    for at in 0..2 {
        assert_eq!(world.place(&first[at], 0), Some(waits_until(10)));
        assert_eq!(world.place(&second[at], 0), Some(waits_until(10)));
    }
    assert_eq!(
        world.place(&first[2], 1),
        None,
        "each holds half of the pod"
    );
    assert!(world.expire(9).is_empty());
    assert_eq!(world.expire(10), ["b2", "b1", "a2", "a1"]);
    assert_eq!(world.book.assumed(), 0);
    // In queue order, the first gang is complete before the second one starts.
    let ends: Vec<_> = first.iter().map(|run| world.place(run, 11)).collect();
    assert_eq!(ends[2], Some(Permitted::Now));
    assert_eq!(world.room.take_allowed().len(), 2);
}

#[test]
fn s_161_others_allow_or_deny_by_key() {
    let mut world = World::new(gang_profile(), 4);
    let [a, b] = ["a", "b"].map(|name| member(name, "g", "3").shared());
    world.place(&a, 0);
    world.place(&b, 0);
    world.room.allow(&namespace(), &a.uid, Some("Another"));
    assert!(
        world.room.take_allowed().is_empty(),
        "not in the name of Gang"
    );
    world.room.allow(&namespace(), &a.uid, Some("Gang"));
    assert_eq!(world.room.take_allowed()[0].run, a);
    let denied = world.room.deny(&namespace(), &b.uid).unwrap();
    unreserve(&world.profile, &mut world.book, &denied.run);
    assert_eq!(world.book.assumed(), 1, "the allowed one keeps its place");
    assert_eq!(world.room.deny(&namespace(), &b.uid), None);
}

#[test]
fn a_run_without_group_or_size_does_not_wait() {
    let mut world = World::new(gang_profile(), 9);
    for run in [
        a_run("alone").label("size", "3"),
        a_run("unsized").group("g"),
        member("odd", "g", "three"),
    ] {
        assert_eq!(world.place(&run.shared(), 0), Some(Permitted::Now));
    }
}

/// Denies, or panics.
struct Guard(bool);

impl Permit for Guard {
    fn name(&self) -> &'static str {
        "Guard"
    }

    fn permit(&self, question: &Question<'_>) -> Permission {
        assert!(!self.0, "scripted");
        assert!(
            question
                .view
                .holds()
                .any(|hold| hold.run.uid == question.run.uid)
        );
        Permission::Deny("NotToday")
    }
}

#[test]
fn s_153_s_161_a_denial_gives_the_place_up_and_a_panic_is_contained() {
    let mut world = World::new(standard().permit(Guard(false)).build().unwrap(), 1);
    let run = a_run("r").shared();
    let denied = Permitted::Denied {
        plugin: "Guard",
        reason: "NotToday",
    };
    assert_eq!(world.place(&run, 0), Some(denied));
    assert_eq!(world.book.assumed(), 0);
    let profile = standard().permit(Guard(true)).build().unwrap();
    let placement = Placement {
        run,
        pod: Arc::new(a_pod("p").build()),
    };
    let view = world.book.view(NAMESPACE);
    let error = permit(&profile, &mut world.room, &view, &placement, at(0)).unwrap_err();
    assert_eq!(error.to_string(), "plugin \"Guard\" panicked");
    assert_eq!(world.room.waiting().count(), 0);
    let decision = a_snapshot().decide(&a_run("r"), &profile);
    assert!(matches!(decision.action, Action::Wait { .. }));
}
