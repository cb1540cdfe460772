//! Affinity between Runs, required and preferred (scheduler, sections 8.3, 9.1 and 11).

use std::borrow::Borrow;
use std::sync::Arc;

use kruntimes_core::api::{Affinity, RunAffinity, RunAffinityTerm, WeightedRunAffinityTerm};
use kruntimes_core::label::{LabelRequirement, LabelSelector};
use kruntimes_sched::plugins::standard;
use kruntimes_sched::testing::{
    RunBuilder, SnapshotBuilder, a_pod, a_run, a_snapshot, active, elsewhere, namespace, rejected,
    term, total, waits, winner,
};
use kruntimes_sched::{Action, Book, Decision, Profile, Scored, plugins::by_maximum};

fn profile() -> Profile {
    standard().build().unwrap()
}

fn decide(snapshot: &SnapshotBuilder, run: impl Borrow<RunBuilder>) -> Decision {
    snapshot.decide(run.borrow(), &profile())
}

fn build(name: &str) -> RunBuilder {
    a_run(name).label("stage", "build")
}

const AFFINITY: &str =
    "waiting for available runtime pods satisfying required Run affinity for runtime \"python\"";
const ANTI: &str = "waiting for available runtime pods satisfying required Run anti-affinity for runtime \"python\"";

#[test]
fn s_57_every_required_term_needs_a_target_on_the_pod() {
    let snapshot = a_snapshot()
        .pod(a_pod("a").holds(build("one")))
        .pod(a_pod("b").holds(build("two").label("zone", "blue")))
        .pod(a_pod("c"));
    let run = a_run("r").near("stage", "build");
    assert_eq!(winner(&decide(&snapshot, run.clone())), Some("a"));
    let both = run.near("zone", "blue");
    assert_eq!(winner(&decide(&snapshot, both.clone())), Some("b"));
    let decision = decide(&snapshot, both.near("zone", "red"));
    assert_eq!(waits(&decision), Some(("UnsatisfiedRunAffinity", AFFINITY)));
    assert_eq!(
        rejected(&decision, "RunAffinity", "UnsatisfiedRunAffinity"),
        3
    );
}

#[test]
fn s_58_v7_anti_affinity_comes_after_affinity() {
    let snapshot = a_snapshot()
        .pod(a_pod("a").holds(build("one")))
        .pod(a_pod("b").holds(build("two").label("blocked", "true")))
        .pod(a_pod("c"));
    let run = a_run("r")
        .near("stage", "build")
        .far_from("blocked", "true");
    let decision = decide(&snapshot, run.clone());
    assert_eq!(winner(&decision), Some("a"));
    let count = |reason| rejected(&decision, "RunAffinity", reason);
    assert_eq!(count("UnsatisfiedRunAffinity"), 1, "c");
    assert_eq!(count("UnsatisfiedRunAntiAffinity"), 1, "b");
    let only = a_snapshot().pod(a_pod("b").holds(build("two").label("blocked", "true")));
    let told = ("UnsatisfiedRunAntiAffinity", ANTI);
    assert_eq!(waits(&decide(&only, run)), Some(told));
}

#[test]
fn s_46_v6_preferred_terms_rank_and_never_remove() {
    let snapshot = a_snapshot()
        .pod(a_pod("a").holds(build("one").label("zone", "blue")))
        .pod(a_pod("b").holds(build("two")));
    let run = a_run("r").near("stage", "build").likes(1, "zone", "blue");
    assert_eq!(winner(&decide(&snapshot, run)), Some("a"));
    let nowhere = a_run("r").likes(100, "zone", "green");
    assert_eq!(winner(&decide(&snapshot, nowhere)), Some("a"));
}

#[test]
fn s_68_v5_preference_does_not_outrank_load() {
    let a = a_run("on-a").label("zone", "blue").label("tier", "gold");
    let snapshot = a_snapshot()
        .pod(a_pod("A").offers("runs", 2).holds(a))
        .pod(
            a_pod("B")
                .offers("runs", 4)
                .holds(a_run("b1"))
                .holds(a_run("b2")),
        )
        .pod(
            a_pod("C")
                .offers("runs", 4)
                .holds(a_run("c1").label("zone", "blue")),
        );
    let run = a_run("r").likes(1, "zone", "blue").likes(1, "tier", "gold");
    let decision = decide(&snapshot, run);
    let totals = ["A", "B", "C"].map(|pod| total(&decision, pod));
    assert_eq!(totals, [Some(100), Some(50), Some(150)]);
    assert_eq!(winner(&decision), Some("C"));
    let json = serde_json::to_value(&decision.explanation).unwrap();
    let raw = |pod: &str| json["pods"][pod]["Scored"]["scores"][0]["normalized"].clone();
    assert_eq!([raw("A"), raw("B"), raw("C")], [100, 0, 50]);
}

#[test]
fn s_70_a_preference_to_stay_away_counts_where_nothing_is() {
    let profile = standard().remove("LeastLoaded").build().unwrap();
    let run = a_run("r").dislikes(3, "zone", "blue").likes(1, "x", "y");
    let empty = a_snapshot().pod(a_pod("a")).pod(a_pod("b"));
    let decision = empty.decide(&run, &profile);
    let both = (total(&decision, "a"), total(&decision, "b"));
    assert_eq!(both, (Some(100), Some(100)));
    let one = a_snapshot()
        .pod(a_pod("a").holds(a_run("t").label("zone", "blue").label("x", "y")))
        .pod(a_pod("b"));
    let decision = one.decide(&run, &profile);
    assert_eq!(total(&decision, "a"), Some(33), "1 of 3, truncated");
    assert_eq!(total(&decision, "b"), Some(100));
}

#[test]
fn s_69_a_negative_raw_score_is_an_error_and_zeros_stay() {
    let scored = |pod: &str, score| Scored {
        pod: pod.into(),
        score,
    };
    let mut zeros = [scored("a", 0), scored("b", 0)];
    by_maximum(&mut zeros).unwrap();
    assert_eq!(zeros.map(|s| s.score), [0, 0]);
    let mut negative = [scored("c", 5), scored("b", -1)];
    let error = by_maximum(&mut negative).unwrap_err();
    assert_eq!(error.to_string(), "negative raw score for pod \"b\"");
}

#[test]
fn s_55_s_91_s_92_s_95_an_assumed_target_attracts_before_its_write_is_visible() {
    let snapshot = a_snapshot().pod(a_pod("a")).pod(a_pod("b"));
    let mut book = Book::new();
    book.reserve(&build("first").shared(), &a_pod("b").build())
        .unwrap();
    let run = a_run("r").near("stage", "build");
    let decision = kruntimes_sched::calculate(
        &snapshot.build_from(&book),
        &run.clone().build(),
        &profile(),
    );
    assert_eq!(winner(&decision), Some("b"));
    // S-92: there, but full.
    book.reserve(&a_run("second").shared(), &a_pod("b").build())
        .unwrap();
    let decision =
        kruntimes_sched::calculate(&snapshot.build_from(&book), &run.build(), &profile());
    // S-95: the affinity message is shown.
    assert_eq!(waits(&decision), Some(("UnsatisfiedRunAffinity", AFFINITY)));
    let count = |plugin, reason| rejected(&decision, plugin, reason);
    assert_eq!(count("RuntimePodAvailability", "RuntimePodUnavailable"), 1);
    assert_eq!(count("RunAffinity", "UnsatisfiedRunAffinity"), 1);
}

#[test]
fn s_35_a_run_is_no_target_of_its_own_affinity() {
    let snapshot = a_snapshot().pod(a_pod("a")).pod(a_pod("b"));
    let run = build("r").far_from("stage", "build").build();
    let mut book = Book::new();
    book.reserve(&Arc::new(run.clone()), &a_pod("a").build())
        .unwrap();
    let decision = kruntimes_sched::calculate(&snapshot.build_from(&book), &run, &profile());
    assert_eq!(winner(&decision), Some("a"));
}

#[test]
fn s_94_s_100_s_101_only_a_run_that_satisfies_its_own_term_seeds_an_empty_cohort() {
    let empty = a_snapshot().pod(a_pod("a").unready()).pod(a_pod("b"));
    let seed = build("r").near("stage", "build");
    assert_eq!(winner(&decide(&empty, seed.clone())), Some("b"));
    let stranger = a_run("r").label("stage", "test").near("stage", "build");
    let told = Some(("UnsatisfiedRunAffinity", AFFINITY));
    assert_eq!(waits(&decide(&empty, stranger)), told);
    // A target on the Pod of another Runtime prevents seeding (S-61, S-100).
    let other = a_pod("bash-pod").build();
    let mut book = Book::new();
    let target = build("t").runtime("bash").shared();
    book.observe(&active(Arc::clone(&target), &other));
    let snapshot = empty.build_from(&book);
    let run = seed.clone().build();
    let decision = kruntimes_sched::calculate(&snapshot, &run, &profile());
    assert_eq!(waits(&decision), told);
    // S-94: once it has ended, the cohort is empty again.
    book.observe(&elsewhere(target));
    let snapshot = empty.build_from(&book);
    let decision = kruntimes_sched::calculate(&snapshot, &run, &profile());
    assert_eq!(winner(&decision), Some("b"));
}

#[test]
fn s_99_one_term_may_be_seeded_while_another_has_targets() {
    let snapshot = a_snapshot()
        .pod(a_pod("a"))
        .pod(a_pod("b").holds(build("t")));
    let run = a_run("r")
        .label("cohort", "new")
        .near("cohort", "new")
        .near("stage", "build");
    assert_eq!(winner(&decide(&snapshot, run)), Some("b"));
}

#[test]
fn s_93_two_runs_that_need_each_other_both_wait() {
    let snapshot = a_snapshot().pod(a_pod("a"));
    for (own, other) in [("x", "y"), ("y", "x")] {
        let run = a_run(own).label("name", own).near("name", other);
        let told = Some(("UnsatisfiedRunAffinity", AFFINITY));
        assert_eq!(waits(&decide(&snapshot, run)), told);
    }
}

#[test]
fn s_96_self_matching_anti_affinity_spreads_a_cohort() {
    let snapshot = a_snapshot().pod(a_pod("a")).pod(a_pod("b")).pod(a_pod("c"));
    let mut book = Book::new();
    let mut used = Vec::new();
    for name in ["r1", "r2", "r3", "r4"] {
        let run = build(name).far_from("stage", "build").shared();
        let built = snapshot.build_from(&book);
        let decision = kruntimes_sched::calculate(&built, &run, &profile());
        match decision.action {
            Action::Bind { pod, .. } => {
                book.reserve(&run, &built.pod(&pod).unwrap().pod).unwrap();
                used.push(pod.to_string());
            }
            other => used.push(format!("{other:?}")[..4].to_owned()),
        }
    }
    assert_eq!(used, ["a", "b", "c", "Wait"]);
}

#[test]
fn s_97_affinity_and_anti_affinity_on_one_selector_exclude_each_other() {
    let run = build("r").near("stage", "build").far_from("stage", "build");
    let empty = a_snapshot().pod(a_pod("a")).pod(a_pod("b"));
    assert_eq!(winner(&decide(&empty, run.clone())), Some("a"), "seeds");
    let held = a_snapshot()
        .pod(a_pod("a").holds(build("t")))
        .pod(a_pod("b"));
    assert!(waits(&decide(&held, run)).is_some());
}

#[test]
fn s_60_a_placed_run_stays_when_its_targets_go() {
    let target = build("t").shared();
    let pod = a_pod("a").build();
    let mut book = Book::new();
    book.observe(&active(Arc::clone(&target), &pod));
    let run = a_run("r").near("stage", "build").shared();
    book.reserve(&run, &pod).unwrap();
    book.observe(&elsewhere(target));
    assert!(book.hold(&namespace(), &run.uid).is_some());
}

#[test]
fn s_90_s_138_a_target_keeps_the_labels_it_was_reserved_with() {
    let snapshot = a_snapshot().pod(a_pod("a"));
    let mut book = Book::new();
    book.reserve(&build("t").shared(), &a_pod("a").build())
        .unwrap();
    let edited = a_run("t").label("stage", "other").shared();
    book.observe(&kruntimes_sched::testing::pending(edited));
    let run = a_run("r").near("stage", "build").build();
    let decision = kruntimes_sched::calculate(&snapshot.build_from(&book), &run, &profile());
    assert_eq!(winner(&decision), Some("a"));
    // S-138: labels the waiting Run itself gained count on the next cycle.
    let late = build("late").near("stage", "build");
    assert_eq!(winner(&decide(&snapshot, late)), Some("a"));
}

#[test]
fn s_13_a_target_without_uid_counts_for_every_pod_of_its_name() {
    let observation = kruntimes_sched::Observation {
        run: build("t").shared(),
        state: kruntimes_sched::RunState::Holding {
            pod: "a".into(),
            pod_uid: None,
        },
    };
    let run = a_run("r").near("stage", "build").build();
    let mut book = Book::new();
    book.observe(&observation);
    let snapshot = a_snapshot().pod(a_pod("a")).build_from(&book);
    let decision = kruntimes_sched::calculate(&snapshot, &run, &profile());
    assert_eq!(winner(&decision), Some("a"));
    book.observe(&active(
        build("t").shared(),
        &a_pod("a").uid("older").build(),
    ));
    let snapshot = a_snapshot().pod(a_pod("a")).build_from(&book);
    let decision = kruntimes_sched::calculate(&snapshot, &run, &profile());
    assert!(waits(&decision).is_some(), "a namesake is another Pod");
}

fn with(required: Vec<RunAffinityTerm>, preferred: Vec<WeightedRunAffinityTerm>) -> RunAffinity {
    RunAffinity {
        required,
        preferred,
    }
}

#[test]
fn s_39_s_42_s_109_affinity_without_meaning_ends_the_run() {
    let host = RunAffinityTerm {
        topology_key: "kubernetes.io/\"hostname\"".into(),
        ..term("a", "b")
    };
    let bare = RunAffinityTerm {
        label_selector: None,
        ..term("a", "b")
    };
    let empty = RunAffinityTerm {
        label_selector: Some(LabelSelector::default()),
        ..term("a", "b")
    };
    let odd = RunAffinityTerm {
        label_selector: Some(LabelSelector {
            match_expressions: vec![LabelRequirement {
                key: "a".into(),
                operator: "Near".into(),
                values: Vec::new(),
            }],
            ..LabelSelector::default()
        }),
        ..term("a", "b")
    };
    let heavy = |weight| WeightedRunAffinityTerm {
        weight,
        run_affinity_term: term("a", "b"),
    };
    let no_selector = "run affinity term has no label selector";
    let topology = "unsupported run affinity topology key \"kubernetes.io/\\\"hostname\\\"\"";
    let parse = "parse run affinity selector: \"Near\" is not a valid label selector operator";
    let weight = "preferred run affinity weight 101 is outside 1..100";
    let none = || with(vec![], vec![]);
    let preferred = |term: &RunAffinityTerm| WeightedRunAffinityTerm {
        weight: 1,
        run_affinity_term: term.clone(),
    };
    for (towards, away, text) in [
        (with(vec![host.clone()], vec![]), none(), topology),
        (none(), with(vec![bare.clone()], vec![]), no_selector),
        (with(vec![empty], vec![]), none(), no_selector),
        (none(), with(vec![odd], vec![]), parse),
        (with(vec![], vec![preferred(&host)]), none(), topology),
        (none(), with(vec![], vec![preferred(&bare)]), no_selector),
        (with(vec![], vec![heavy(101)]), none(), weight),
    ] {
        let run = a_run("r").affinity(Affinity {
            run_affinity: Some(towards),
            run_anti_affinity: Some(away),
        });
        // Said before any Pod is looked at, so also without one.
        for snapshot in [a_snapshot(), a_snapshot().pod(a_pod("p"))] {
            let want = Action::Fail {
                reason: "InvalidAffinity",
                message: format!("pod selection failed: pre-filter run affinity: {text}"),
            };
            assert_eq!(decide(&snapshot, run.clone()).action, want);
        }
    }
}

#[test]
fn s_41_s_42_missing_lists_mean_nothing() {
    let snapshot = a_snapshot().pod(a_pod("a"));
    for affinity in [
        Affinity::default(),
        Affinity {
            run_affinity: Some(with(vec![], vec![])),
            run_anti_affinity: None,
        },
    ] {
        let run = a_run("r").affinity(affinity);
        assert_eq!(winner(&decide(&snapshot, run)), Some("a"));
    }
}

#[test]
fn s_59_selectors_take_expressions() {
    let expression = |operator: &str, values: &[&str]| RunAffinityTerm {
        label_selector: Some(LabelSelector {
            match_expressions: vec![LabelRequirement {
                key: "stage".into(),
                operator: operator.into(),
                values: values.iter().map(|&v| v.into()).collect(),
            }],
            ..LabelSelector::default()
        }),
        ..term("a", "b")
    };
    let snapshot = a_snapshot()
        .pod(a_pod("a").holds(build("one")))
        .pod(a_pod("b").holds(a_run("two")));
    for (case, term, want) in [
        ("in", expression("In", &["build", "test"]), "a"),
        ("not in", expression("NotIn", &["build"]), "b"),
        ("exists", expression("Exists", &[]), "a"),
        ("does not exist", expression("DoesNotExist", &[]), "b"),
    ] {
        let run = a_run("r").label("stage", "x").affinity(Affinity {
            run_affinity: Some(with(vec![term], vec![])),
            run_anti_affinity: None,
        });
        assert_eq!(winner(&decide(&snapshot, run)), Some(want), "{case}");
    }
}
