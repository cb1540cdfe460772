//! `RuntimePodAvailability` (scheduler, section 8.2).

use jiff::Timestamp;
use kruntimes_core::duration::Duration;
use kruntimes_sched::plugins::{RuntimePodAvailability, standard, standard_with};
use kruntimes_sched::testing::{
    PodBuilder, RunBuilder, a_pod, a_run, a_snapshot, rejected, winner,
};
use kruntimes_sched::{Heartbeat, Profile};

fn at(second: i64) -> Heartbeat {
    Heartbeat::At(Timestamp::from_second(second).unwrap())
}

fn fits(profile: &Profile, pod: PodBuilder, run: &RunBuilder) -> bool {
    let decision = a_snapshot().at(100).pod(pod).decide(run, profile);
    let fits = winner(&decision).is_some();
    let refused = rejected(&decision, "RuntimePodAvailability", "RuntimePodUnavailable");
    assert_eq!(refused, u64::from(!fits), "a rejection has its reason");
    fits
}

#[test]
fn s_52_s_53_each_defect_alone_makes_a_pod_unavailable() {
    let profile = standard().build().unwrap();
    let gpu = || a_run("r").asks("gpu", 2);
    let pod = || a_pod("p").offers("runs", 2).offers("gpu", 4);
    for (case, pod, want) in [
        ("ready", pod(), true),
        ("fresh", pod().heartbeat(at(99)), true),
        ("exactly at the limit", pod().heartbeat(at(85)), true),
        ("from the future", pod().heartbeat(at(500)), true),
        ("older than the limit", pod().heartbeat(at(84)), false),
        ("no heartbeat", pod().heartbeat(Heartbeat::Missing), false),
        ("not ready", pod().unready(), false),
        ("room for one more", pod().holds(a_run("a")), true),
        (
            "runs full",
            pod().holds(a_run("a")).holds(a_run("b")),
            false,
        ),
        (
            "runs full by one",
            pod().holds(a_run("a").asks("runs", 2)),
            false,
        ),
        (
            "gpu exactly fits",
            pod().holds(a_run("a").asks("gpu", 2)),
            true,
        ),
        (
            "gpu exhausted",
            pod().holds(a_run("a").asks("gpu", 3)),
            false,
        ),
        ("gpu not offered", a_pod("p").offers("runs", 9), false),
    ] {
        assert_eq!(fits(&profile, pod, &gpu()), want, "{case}");
    }
}

#[test]
fn s_12_an_overcommitted_resource_that_is_not_asked_for_does_not_block() {
    let profile = standard().build().unwrap();
    let pod = a_pod("p").offers("runs", 2).offers("gpu", 1);
    let pod = pod.holds(a_run("a").asks("gpu", 5));
    assert!(fits(&profile, pod, &a_run("r")));
}

#[test]
fn s_52_the_limit_is_configurable_and_never_below_one() {
    let pod = || a_pod("p").heartbeat(at(70));
    for (limit, want) in [(0, false), (-1, false), (29, false), (30, true)] {
        let availability = RuntimePodAvailability::new(Duration::from_secs(limit));
        let profile = standard_with(availability).build().unwrap();
        assert_eq!(fits(&profile, pod(), &a_run("r")), want, "{limit}");
    }
}

#[test]
fn s_54_an_exclusive_run_shares_with_nobody() {
    let profile = standard().build().unwrap();
    let pod = || a_pod("p").offers("runs", 9);
    let session = || a_run("s").exclusive();
    for (case, pod, run, want) in [
        ("session on an idle pod", pod(), session(), true),
        (
            "session beside a task",
            pod().holds(a_run("t")),
            session(),
            false,
        ),
        (
            "task beside a session",
            pod().holds(session()),
            a_run("t"),
            false,
        ),
        (
            "session beside a session",
            pod().holds(a_run("other").exclusive()),
            session(),
            false,
        ),
        (
            "task beside a task",
            pod().holds(a_run("t")),
            a_run("u"),
            true,
        ),
    ] {
        assert_eq!(fits(&profile, pod, &run), want, "{case}");
    }
}

#[test]
fn s_137_lowered_capacity_only_blocks_what_is_new() {
    let profile = standard().build().unwrap();
    let shrunk = a_pod("p")
        .offers("runs", 1)
        .holds(a_run("a"))
        .holds(a_run("b"));
    assert!(!fits(&profile, shrunk, &a_run("r")));
}
