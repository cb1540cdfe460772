//! Plans for many Runs (scheduler, section 16.2).

use std::sync::Arc;

use kruntimes_core::duration::Duration;
use kruntimes_sched::batch::{
    BatchPlan, Candidate, Fleet, Limits, Outcome, Planned, plan_batch, reserve_plan,
};
use kruntimes_sched::plugins::standard;
use kruntimes_sched::testing::{NAMESPACE, PodBuilder, RunBuilder, a_pod, a_run, active, at};
use kruntimes_sched::{Action, Book, Gate, Profile, ReserveError, Run, Splitter, calculate};
use proptest::prelude::*;

fn profile() -> Profile {
    standard().build().unwrap()
}

fn fleet(pods: impl IntoIterator<Item = PodBuilder>) -> Fleet {
    let pods = pods.into_iter().map(PodBuilder::build);
    Fleet::new(at(0), Book::new()).pool(NAMESPACE, "python", pods)
}

fn plan(fleet: &Fleet, runs: impl IntoIterator<Item = RunBuilder>) -> BatchPlan {
    let candidates = runs.into_iter().map(|run| Candidate::new(run.build()));
    plan_batch(fleet, candidates, &profile(), Limits::default())
}

/// One word per Run, in the order of the plan.
fn words(plan: &BatchPlan) -> Vec<String> {
    let word = |planned: &Planned| {
        let end = match (&planned.pod, &planned.outcome) {
            (Some(pod), _) => pod.name.to_string(),
            (None, Outcome::Decided(decision)) => match &decision.action {
                Action::Wait { condition, .. } => (*condition).to_owned(),
                other => format!("{other:?}"),
            },
            (None, Outcome::Deferred) => "deferred".to_owned(),
            (None, other) => format!("{other:?}"),
        };
        format!("{} {end}", planned.run.name)
    };
    plan.planned.iter().map(word).collect()
}

#[test]
fn s_171_case_091_of_two_groups_one_has_all_it_needs_and_the_other_leaves_the_slack_to_others() {
    let fleet = fleet([a_pod("a").offers("runs", 2), a_pod("b").offers("runs", 2)]);
    let member = |(name, second): (&str, i64)| {
        let group = if name.starts_with('g') { "g" } else { "h" };
        a_run(name).group(group).created(second)
    };
    // The members take turns, so that each group could get hold of two places.
    let members = [
        ("g1", 1),
        ("h1", 2),
        ("g2", 3),
        ("h2", 4),
        ("g3", 5),
        ("h3", 6),
    ];
    let alone = a_run("alone").created(7);
    let plan = plan(&fleet, members.map(member).into_iter().chain([alone]));
    let placed: Vec<&str> = plan.binds().map(|(run, _)| run.name.as_str()).collect();
    assert_eq!(placed, ["g1", "g2", "g3", "alone"]);
    let waiting = words(&plan);
    let waiting = waiting
        .iter()
        .filter(|word| word.ends_with("GroupIncomplete"));
    assert_eq!(waiting.count(), 3);
}

#[test]
fn s_176_a_thousand_runs_on_two_hundred_pods_are_planned_at_once() {
    let fleet = fleet((0..200).map(|pod| a_pod(&format!("pod-{pod:03}")).offers("runs", 5)));
    let runs = (0..1000).map(|run| Candidate::new(a_run(&format!("run-{run:04}")).build()));
    let profile = profile().to_builder().explain(false).build().unwrap();
    let limits = Limits {
        runs: 1000,
        ..Limits::default()
    };
    let plan = plan_batch(&fleet, runs, &profile, limits);
    assert_eq!(plan.binds().count(), 1000);
}

#[test]
fn s_167_each_decision_sees_the_earlier_ones_of_its_batch() {
    let fleet = fleet([a_pod("a").offers("runs", 1), a_pod("b").offers("runs", 1)]);
    let runs = ["r3", "r1", "r2"].map(a_run);
    let told = words(&plan(&fleet, runs));
    assert_eq!(told, ["r1 a", "r2 b", "r3 InsufficientCapacity"]);
    let twice = ["r1", "r1"].map(a_run);
    assert_eq!(words(&plan(&fleet, twice)), ["r1 a"], "by UID");
}

#[test]
fn s_159_important_then_old_then_uid() {
    let fleet = fleet([a_pod("a").offers("runs", 9)]);
    let runs = [
        a_run("d"),
        a_run("old").created(5),
        a_run("young").created(9),
        a_run("urgent").created(99).priority(1),
        a_run("c"),
    ];
    let told = words(&plan(&fleet, runs));
    assert_eq!(told, ["urgent a", "old a", "young a", "c a", "d a"]);
}

#[test]
fn s_167_closed_gates_and_held_runs_are_told_apart() {
    let fleet = fleet([a_pod("a")]);
    let wait = Gate::Backoff(Duration::from_secs(1));
    let gated = |name: &str, gate| Candidate::gated(a_run(name).build(), gate);
    let candidates = [
        gated("cancelled", Gate::Cancel),
        gated("ready", Gate::Cycle([].into())),
        gated("later", wait.clone()),
    ];
    let plan = plan_batch(&fleet, candidates, &profile(), Limits::default());
    let outcomes: Vec<_> = plan.planned.iter().map(|p| &p.outcome).collect();
    assert!(plan.planned[0].pod.is_some());
    assert_eq!(
        outcomes[1..],
        [&Outcome::Gated(Gate::Cancel), &Outcome::Gated(wait)]
    );
}

#[test]
fn s_170_a_later_target_settles_an_earlier_run() {
    let fleet = fleet([a_pod("a").offers("runs", 9), a_pod("b").offers("runs", 9)]);
    let chain = [
        a_run("r1").label("n", "1").near("n", "2"),
        a_run("r2").label("n", "2").near("n", "3"),
        a_run("r3").label("n", "3"),
        a_run("r4").near("n", "nobody"),
    ];
    let plan = plan(&fleet, chain);
    let told = words(&plan);
    let want = ["r3 a", "r4 UnsatisfiedRunAffinity", "r2 a", "r1 a"];
    assert_eq!(told, want, "a chain settles pass by pass");
}

#[test]
fn s_171_a_group_is_placed_completely_or_not_at_all() {
    let fleet = fleet([a_pod("a").offers("runs", 2), a_pod("b").offers("runs", 1)]);
    let member = |name: &str| a_run(name).group("g");
    let four = ["g1", "g2", "g3", "g4"].map(member);
    let told = words(&plan(&fleet, four.into_iter().chain([a_run("later")])));
    assert_eq!(
        told,
        [
            "g1 GroupIncomplete",
            "g2 GroupIncomplete",
            "g3 GroupIncomplete",
            "g4 GroupIncomplete",
            "later a"
        ],
        "its capacity is offered to those who follow"
    );
    let three = ["g1", "g2", "g3"].map(member);
    let told = words(&plan(&fleet, three.into_iter().chain([a_run("later")])));
    assert_eq!(told, ["g1 a", "g2 a", "g3 b", "later InsufficientCapacity"]);
    // Members that attract each other settle within the group.
    let pair = [
        member("g1").label("n", "1").near("n", "2"),
        member("g2").label("n", "2"),
    ];
    assert_eq!(words(&plan(&fleet, pair)), ["g2 a", "g1 a"]);
}

#[test]
fn s_172_what_a_limit_cuts_off_is_deferred_and_never_dropped() {
    let fleet = fleet([a_pod("a").offers("runs", 9), a_pod("b").offers("runs", 9)]);
    let runs = || (0..5).map(|n| Candidate::new(a_run(&format!("r{n}")).build()));
    let planned = |limits| {
        let plan = plan_batch(&fleet, runs(), &profile(), limits);
        assert_eq!(plan.planned.len(), 5);
        let deferred = plan
            .planned
            .iter()
            .filter(|p| p.outcome == Outcome::Deferred);
        (deferred.count(), plan.evaluations)
    };
    let limits = Limits::default();
    assert_eq!(planned(limits), (0, 10));
    assert_eq!(planned(Limits { runs: 2, ..limits }), (3, 4));
    let few = |evaluations| Limits {
        evaluations,
        ..limits
    };
    assert_eq!(planned(few(7)), (2, 6));
    assert_eq!(planned(few(0)), (4, 2), "the first takes place in any case");
    let group = ["g1", "g2", "g3"].map(|n| Candidate::new(a_run(n).group("g").build()));
    let limits = Limits { runs: 2, ..limits };
    let plan = plan_batch(&fleet, group.into_iter().chain(runs()), &profile(), limits);
    assert_eq!(plan.binds().count(), 3, "the first group is not cut");
    assert_eq!(Limits::default().runs, 256);
}

/// By namespace-like label `tenant`; `big` has twice the share.
struct Tenants;

impl Splitter for Tenants {
    fn name(&self) -> &'static str {
        "Tenants"
    }

    fn tenant(&self, run: &Run) -> Arc<str> {
        run.labels.get("tenant").map_or("", String::as_str).into()
    }

    fn weight(&self, tenant: &str) -> u32 {
        if tenant == "big" { 2 } else { 0 }
    }
}

#[test]
fn s_175_tenants_take_turns_by_weight() {
    let fleet = fleet([a_pod("a").offers("runs", 99)]);
    let profile = standard().splitter(Tenants).build().unwrap();
    let runs = ["b1", "b2", "b3", "b4", "b5", "s1", "s2"].map(|name| {
        let tenant = if name.starts_with('b') {
            "big"
        } else {
            "small"
        };
        Candidate::new(a_run(name).label("tenant", tenant).build())
    });
    let plan = plan_batch(&fleet, runs, &profile, Limits::default());
    let order: Vec<_> = plan.binds().map(|(run, _)| run.name.as_str()).collect();
    assert_eq!(order, ["b1", "b2", "s1", "b3", "b4", "s2", "b5"]);
}

#[test]
fn s_174_a_conflict_affects_its_run_and_its_group_only() {
    let fleet = fleet([a_pod("a").offers("runs", 4), a_pod("b").offers("runs", 1)]);
    let runs = [
        a_run("g1").group("g"),
        a_run("g2").group("g"),
        a_run("g3").group("g"),
        a_run("solo"),
    ];
    let plan = plan(&fleet, runs);
    assert_eq!(words(&plan), ["g1 a", "g2 a", "g3 a", "solo a"]);
    // Meanwhile somebody else took two of the four places.
    let mut book = Book::new();
    let pod = a_pod("a").offers("runs", 4).build();
    for name in ["x", "y"] {
        book.observe(&active(a_run(name).shared(), &pod));
    }
    let applied = reserve_plan(&plan, &profile(), &mut book, at(0));
    let names = |runs: Vec<&Run>| runs.iter().map(|r| r.name.to_string()).collect::<Vec<_>>();
    let reserved = applied.reserved.iter().map(|p| p.run.as_ref()).collect();
    assert_eq!(names(reserved), ["solo"]);
    let refused = applied
        .refused
        .iter()
        .map(|(p, _)| p.run.as_ref())
        .collect();
    assert_eq!(names(refused), ["g2", "g1", "g3"]);
    let group = (applied.refused.iter()).filter(|(_, error)| *error == ReserveError::Group);
    assert_eq!(group.count(), 2);
    assert_eq!(book.assumed(), 1);
}

#[test]
fn a_profile_without_the_test_for_room_still_overcommits_nothing() {
    let fleet = fleet([a_pod("a").offers("runs", 1)]);
    let profile = Profile::builder().build().unwrap();
    let runs = ["r1", "r2"].map(|name| Candidate::new(a_run(name).build()));
    let plan = plan_batch(&fleet, runs, &profile, Limits::default());
    assert_eq!(plan.binds().count(), 1);
    let second = &plan.planned[1].outcome;
    assert!(matches!(second, Outcome::Taken(_, _)), "{second:?}");
}

/// A Run of one of two Runtimes, with labels and terms out of a small world.
fn any_run() -> impl Strategy<Value = (i64, i32, usize, Option<usize>, Option<usize>, bool)> {
    let term = || prop::option::weighted(0.3, 0..3_usize);
    (
        1..3_i64,
        0..3_i32,
        0..3_usize,
        term(),
        term(),
        any::<bool>(),
    )
}

fn a_random_run(
    name: &str,
    (asked, priority, label, near, far, bash): (
        i64,
        i32,
        usize,
        Option<usize>,
        Option<usize>,
        bool,
    ),
) -> RunBuilder {
    const STAGES: [&str; 3] = ["build", "test", "ship"];
    let mut run = a_run(name).asks("runs", asked).priority(priority);
    run = run.label("stage", STAGES[label]);
    run = near.map_or(run.clone(), |at| run.near("stage", STAGES[at]));
    run = far.map_or(run.clone(), |at| run.far_from("stage", STAGES[at]));
    if bash { run.runtime("bash") } else { run }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn s_168_a_plan_equals_single_cycles_in_its_order(
        runs in prop::collection::vec(any_run(), 1..14),
        capacities in prop::collection::vec(1_i64..5, 1..5),
    ) {
        let pods: Vec<_> = capacities.iter().enumerate()
            .map(|(at, capacity)| a_pod(&format!("p{at}")).offers("runs", *capacity).build())
            .collect();
        let other = a_pod("bash-pod").offers("runs", 3).build();
        let fleet = Fleet::new(at(0), Book::new())
            .pool(NAMESPACE, "python", pods)
            .pool(NAMESPACE, "bash", [other]);
        let profile = profile();
        let candidates = runs.into_iter().enumerate()
            .map(|(at, run)| Candidate::new(a_random_run(&format!("r{at:02}"), run).build()));
        let plan = plan_batch(&fleet, candidates, &profile, Limits::default());
        let mut book = Book::new();
        for planned in &plan.planned {
            let Outcome::Decided(decision) = &planned.outcome else {
                panic!("nothing is deferred: {planned:?}");
            };
            let single = calculate(&fleet.snapshot(&book, &planned.run), &planned.run, &profile);
            prop_assert_eq!(decision, &single);
            if let Some(pod) = &planned.pod {
                book.observe(&active(Arc::clone(&planned.run), pod));
            }
        }
    }

    #[test]
    fn s_168_a_plan_from_an_index_equals_single_cycles(
        runs in prop::collection::vec(any_run(), 8..40),
        held in prop::collection::vec(any_run(), 0..6),
        capacities in prop::collection::vec(1_i64..9, 1..9),
    ) {
        let pods: Vec<_> = capacities.iter().enumerate()
            .map(|(at, capacity)| a_pod(&format!("p{at}")).offers("runs", *capacity).build())
            .collect();
        let mut book = Book::new();
        for (at, run) in held.into_iter().enumerate() {
            let run = a_random_run(&format!("h{at}"), run).shared();
            book.observe(&active(run, &pods[at % pods.len()]));
        }
        let other = a_pod("bash-pod").offers("runs", 3).build();
        let fleet = Fleet::new(at(0), book.clone())
            .pool(NAMESPACE, "python", pods)
            .pool(NAMESPACE, "bash", [other]);
        let profile = standard().explain(false).build().unwrap();
        let candidates = runs.into_iter().enumerate()
            .map(|(at, run)| Candidate::new(a_random_run(&format!("r{at:02}"), run).build()));
        let limits = Limits { runs: 30, ..Limits::default() };
        let plan = plan_batch(&fleet, candidates, &profile, limits);
        for planned in &plan.planned {
            let Outcome::Decided(decision) = &planned.outcome else {
                prop_assert_eq!(&planned.outcome, &Outcome::Deferred);
                continue;
            };
            let snapshot = fleet.snapshot(&book, &planned.run);
            let mut single = calculate(&snapshot, &planned.run, &profile);
            if let Action::Bind { pod, scores, .. } = &mut single.action {
                scores.retain(|name, _| name == pod);
            }
            prop_assert_eq!(decision, &single);
            if let Some(pod) = &planned.pod {
                book.reserve(&planned.run, pod).unwrap();
            }
        }
    }

    #[test]
    fn s_173_namespaces_are_planned_independently(
        runs in prop::collection::vec(any_run(), 1..10),
        split in prop::collection::vec(any::<bool>(), 10),
    ) {
        let pods = || ["a", "b"].map(|name| a_pod(name).offers("runs", 3).build());
        let spaces = ["one", "two"];
        let fleet = spaces.iter().fold(Fleet::new(at(0), Book::new()), |fleet, space| {
            fleet.pool(*space, "python", pods()).pool(*space, "bash", pods())
        });
        let runs: Vec<Run> = runs.into_iter().enumerate().map(|(at, run)| {
            let space = spaces[usize::from(split[at])];
            a_random_run(&format!("r{at:02}"), run).namespace(space).build()
        }).collect();
        let plan = |runs: Vec<Run>| {
            let candidates = runs.into_iter().map(Candidate::new);
            plan_batch(&fleet, candidates, &profile(), Limits::default()).planned
        };
        let together = plan(runs.clone());
        for space in spaces {
            let of_space = |run: &Run| run.namespace.as_str() == space;
            let apart = plan(runs.iter().filter(|run| of_space(run)).cloned().collect());
            let part: Vec<_> =
                together.iter().filter(|planned| of_space(&planned.run)).cloned().collect();
            prop_assert_eq!(part, apart);
        }
    }
}
