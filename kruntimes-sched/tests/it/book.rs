//! The assumption book and reserving (scheduler, section 10).

use std::sync::Arc;

use jiff::Timestamp;
use kruntimes_core::quantity::Quantity;
use kruntimes_sched::plugins::standard;
use kruntimes_sched::testing::{
    a_pod, a_run, a_snapshot, active, elsewhere, namespace, pending, rejected, winner,
};
use kruntimes_sched::{
    Attempt, Book, Namespace, Observation, Origin, Pod, Refused, Reserve, ReserveError, Run,
    RunState, Taken, reserve, unreserve,
};

fn small() -> Pod {
    a_pod("p").offers("runs", 1).build()
}

fn used(book: &Book, pod: &Pod) -> Quantity {
    let usage = book.occupancy(&namespace(), pod);
    usage.usage().get("runs").copied().unwrap_or_default()
}

fn assumed(book: &Book, run: &Run) -> bool {
    book.hold(&run.namespace, &run.uid)
        .is_some_and(|hold| hold.origin == Origin::Assumed)
}

#[test]
fn s_78_the_handoff_table() {
    let run = a_run("r").attempt(2).shared();
    let other = a_pod("other").build();
    let holding = |pod_uid: Option<&str>| Observation {
        run: Arc::clone(&run),
        state: RunState::Holding {
            pod: "p".into(),
            pod_uid: pod_uid.map(Into::into),
        },
    };
    let renamed = Arc::new(Run {
        name: "renamed".into(),
        ..run.as_ref().clone()
    });
    for (case, seen, kept) in [
        (
            "active on the assumed pod",
            active(Arc::clone(&run), &small()),
            false,
        ),
        ("active there, by name", holding(None), false),
        (
            "assigned elsewhere",
            active(Arc::clone(&run), &other),
            false,
        ),
        ("ended", elsewhere(Arc::clone(&run)), false),
        ("renamed", pending(renamed), false),
        (
            "later attempt",
            pending(a_run("r").attempt(3).shared()),
            false,
        ),
        ("same attempt", pending(Arc::clone(&run)), true),
        (
            "earlier attempt",
            pending(a_run("r").attempt(1).shared()),
            true,
        ),
    ] {
        let mut book = Book::new();
        book.reserve(&run, &small()).unwrap();
        book.observe(&seen);
        assert_eq!(assumed(&book, &run), kept, "{case}");
        book.check().unwrap();
    }
}

#[test]
fn s_78_absent_from_a_complete_list_means_gone() {
    let (run, stays) = (a_run("r").shared(), a_run("s").shared());
    let mut book = Book::new();
    let pod = a_pod("p").build();
    book.reserve(&run, &pod).unwrap();
    book.reserve(&stays, &pod).unwrap();
    book.observe_all(&namespace(), [&pending(Arc::clone(&stays))]);
    assert!(!assumed(&book, &run));
    assert!(assumed(&book, &stays));
}

#[test]
fn s_79_a_run_is_counted_exactly_once_at_every_instant() {
    let (run, pod) = (a_run("r").shared(), small());
    let mut book = Book::new();
    let one = Quantity::from_whole(1);
    book.reserve(&run, &pod).unwrap();
    assert_eq!(used(&book, &pod), one, "assumed");
    book.observe(&pending(Arc::clone(&run)));
    assert_eq!(used(&book, &pod), one, "seen in an old version");
    book.observe(&active(Arc::clone(&run), &pod));
    assert_eq!(used(&book, &pod), one, "handed over");
    book.observe(&active(Arc::clone(&run), &pod));
    assert_eq!(used(&book, &pod), one, "seen again");
    book.release(&run.namespace, &run.uid);
    assert_eq!(used(&book, &pod), one, "only an assumption can be released");
    book.observe(&elsewhere(Arc::clone(&run)));
    assert_eq!(used(&book, &pod), Quantity::ZERO, "ended");
}

#[test]
fn s_80_s_140_case_082_namespaces_never_mix() {
    let pod = small();
    let here = a_run("r").shared();
    let there = a_run("r").namespace("other").shared();
    let elsewhere = Namespace::from("other");
    let mut book = Book::new();
    book.reserve(&here, &pod).unwrap();
    book.reserve(&there, &pod).unwrap();
    book.observe_all(&elsewhere, []);
    assert!(assumed(&book, &here));
    assert!(!assumed(&book, &there));
    book.observe_all(&elsewhere, [&active(Arc::clone(&here), &pod)]);
    assert!(
        assumed(&book, &here),
        "a foreign run in the list is ignored"
    );
    book.forget(&elsewhere, &here.uid);
    assert_eq!(used(&book, &pod), Quantity::from_whole(1));
    assert_eq!(book.view("other").holds().count(), 0);
}

#[test]
fn s_131_s_132_the_second_of_two_waits_for_the_first() {
    let (first, second, pod) = (a_run("1").shared(), a_run("2").shared(), small());
    let mut book = Book::new();
    book.reserve(&first, &pod).unwrap();
    assert_eq!(
        book.reserve(&second, &pod),
        Err(Taken::NoRoom {
            resource: "runs".into(),
            free: Quantity::ZERO,
            asked: Quantity::from_whole(1),
        })
    );
    assert!(!assumed(&book, &second), "nothing is inserted on refusal");
    book.release(&first.namespace, &first.uid);
    book.reserve(&second, &pod).unwrap();
}

#[test]
fn s_133_a_new_uid_under_an_old_name_clears_the_old_assumption() {
    let (old, new, pod) = (a_run("r").shared(), a_run("r").uid("new").shared(), small());
    let mut book = Book::new();
    book.reserve(&old, &pod).unwrap();
    book.observe(&pending(Arc::clone(&new)));
    assert!(!assumed(&book, &old));
    book.reserve(&new, &pod).unwrap();
}

#[test]
fn s_134_a_bind_that_was_undone_between_two_observations_leaves_nothing() {
    let pod = small();
    let mut book = Book::new();
    book.reserve(&a_run("r").shared(), &pod).unwrap();
    book.observe(&pending(a_run("r").attempt(2).shared()));
    assert_eq!(book.assumed(), 0);
    book.reserve(&a_run("r").attempt(2).shared(), &pod).unwrap();
}

#[test]
fn s_139_a_deleted_run_leaves_no_assumption() {
    let (run, pod) = (a_run("r").shared(), small());
    let mut book = Book::new();
    book.reserve(&run, &pod).unwrap();
    book.forget(&run.namespace, &run.uid);
    assert_eq!(used(&book, &pod), Quantity::ZERO);
    assert_eq!(book.assumed(), 0);
}

#[test]
fn s_89_a_second_reserve_replaces_the_first() {
    let (run, a, b) = (a_run("r").shared(), small(), a_pod("q").build());
    let mut book = Book::new();
    book.reserve(&run, &a).unwrap();
    book.reserve(&run, &b).unwrap();
    assert_eq!(used(&book, &a), Quantity::ZERO);
    assert_eq!(used(&book, &b), Quantity::from_whole(1));
    let refused = book.reserve(&a_run("r").asks("runs", 9).shared(), &a);
    assert!(refused.is_err());
    assert_eq!(used(&book, &b), Quantity::from_whole(1), "kept on refusal");
}

#[test]
fn an_active_run_is_not_reserved_again() {
    let (run, pod) = (a_run("r").shared(), a_pod("p").build());
    let mut book = Book::new();
    book.observe(&active(Arc::clone(&run), &pod));
    let again = book.reserve(&run, &pod);
    assert_eq!(again, Err(Taken::AlreadyActive(run.uid.clone())));
}

#[test]
fn s_90_labels_are_those_of_the_reserve() {
    let pod = small();
    let mut book = Book::new();
    book.reserve(&a_run("r").label("stage", "old").shared(), &pod)
        .unwrap();
    book.observe(&pending(a_run("r").label("stage", "new").shared()));
    let view = book.view(kruntimes_sched::testing::NAMESPACE);
    let stages: Vec<_> = view.holds().map(|hold| &hold.run.labels["stage"]).collect();
    assert_eq!(stages, ["old"]);
}

#[test]
fn s_13_a_recorded_uid_counts_against_that_pod_only() {
    let (old, new) = (a_pod("p").uid("old").build(), a_pod("p").uid("new").build());
    let mut book = Book::new();
    book.observe(&active(a_run("a").shared(), &old));
    book.observe(&Observation {
        run: a_run("b").asks("runs", 3).shared(),
        state: RunState::Holding {
            pod: "p".into(),
            pod_uid: None,
        },
    });
    assert_eq!(used(&book, &old), Quantity::from_whole(4));
    assert_eq!(used(&book, &new), Quantity::from_whole(3));
    book.check().unwrap();
}

#[test]
fn s_35_a_leftover_assumption_does_not_block_its_own_run() {
    let snapshot = a_snapshot().pod(a_pod("p").offers("runs", 1));
    let mut book = Book::new();
    book.reserve(&a_run("r").shared(), &small()).unwrap();
    let profile = standard().build().unwrap();
    let frozen = snapshot.build_from(&book);
    let own = kruntimes_sched::calculate(&frozen, &a_run("r").build(), &profile);
    assert_eq!(winner(&own), Some("p"));
    let foreign = kruntimes_sched::calculate(&frozen, &a_run("s").build(), &profile);
    assert_eq!(
        rejected(&foreign, "RuntimePodAvailability", "RuntimePodUnavailable"),
        1
    );
}

#[test]
fn s_33_a_view_does_not_change_with_the_book() {
    let pod = small();
    let mut book = Book::new();
    let before = book.view(kruntimes_sched::testing::NAMESPACE);
    book.reserve(&a_run("a").shared(), &pod).unwrap();
    let between = book.view(kruntimes_sched::testing::NAMESPACE);
    book.release(&namespace(), &"a-uid".into());
    assert_eq!(before.holds().count(), 0);
    assert_eq!(between.occupancy(&pod).holds().count(), 1);
}

#[test]
fn s_54_reserving_repeats_the_exclusivity_test() {
    let pod = a_pod("p").offers("runs", 9).build();
    let mut book = Book::new();
    book.reserve(&a_run("task").shared(), &pod).unwrap();
    let session = a_run("s").exclusive().shared();
    assert_eq!(book.reserve(&session, &pod), Err(Taken::Exclusive));
    book.release(&namespace(), &"task-uid".into());
    book.reserve(&session, &pod).unwrap();
    let late = book.reserve(&a_run("late").shared(), &pod);
    assert_eq!(late, Err(Taken::Exclusive));
}

#[test]
fn s_77_reserving_repeats_the_availability_test_against_the_present() {
    let profile = standard().build().unwrap();
    let run = a_run("r").shared();
    let mut book = Book::new();
    let dying = Arc::new(a_pod("p").unready().build());
    let refused = reserve(&profile, &mut book, &run, &dying, Timestamp::UNIX_EPOCH);
    assert_eq!(
        refused,
        Err(ReserveError::Refused {
            plugin: "RuntimePodAvailability",
            reason: "RuntimePodUnavailable",
        })
    );
    assert_eq!(book.assumed(), 0);
}

/// Writes down what it is asked; refuses or panics where told.
struct Noting {
    name: &'static str,
    log: std::sync::mpsc::Sender<String>,
    answer: fn() -> Result<(), Refused>,
}

impl Reserve for Noting {
    fn name(&self) -> &'static str {
        self.name
    }

    fn reserve(&self, _: &Attempt<'_>) -> Result<(), Refused> {
        self.log.send(format!("+{}", self.name)).unwrap();
        (self.answer)()
    }

    fn unreserve(&self, _: &Run) {
        self.log.send(format!("-{}", self.name)).unwrap();
    }
}

#[test]
fn s_88_what_was_taken_is_given_back_in_reverse_order_exactly_once() {
    let refuses = || Err(Refused("Busy"));
    let panics = || panic!("scripted");
    for (last, capacity, want) in [
        ((|| Ok(())) as fn() -> _, 1, "+a +b +c -c -b -a"),
        (refuses, 1, "+a +b +c -b -a"),
        (panics, 1, "+a +b +c -b -a"),
        (|| Ok(()), 0, "+a +b +c -c -b -a"),
    ] {
        let (log, heard) = std::sync::mpsc::channel();
        let plugin = |name, answer| Noting {
            name,
            log: log.clone(),
            answer,
        };
        let profile = kruntimes_sched::Profile::builder()
            .reserve(plugin("a", || Ok(())))
            .reserve(plugin("b", || Ok(())))
            .reserve(plugin("c", last))
            .build()
            .unwrap();
        let (mut book, run) = (Book::new(), a_run("r").shared());
        let pod = Arc::new(a_pod("p").offers("runs", capacity).build());
        if reserve(&profile, &mut book, &run, &pod, Timestamp::UNIX_EPOCH).is_ok() {
            unreserve(&profile, &mut book, &run);
        }
        assert_eq!(heard.try_iter().collect::<Vec<_>>().join(" "), want);
        assert_eq!(book.assumed(), 0);
    }
}
