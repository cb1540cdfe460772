//! What Runs that wait are told (scheduler, section 13).

use kruntimes_sched::plugins::standard;
use kruntimes_sched::testing::{a_pod, a_run, a_snapshot, rejected, waits};
use kruntimes_sched::{
    Filter, Heartbeat, PrepareError, Prepared, Profile, Reason, Run, Snapshot, Verdict,
};

const DEFAULT: &str = "waiting for available runtime pods for runtime \"python\"";

#[test]
fn s_111_the_condition_says_what_is_missing() {
    let profile = standard().build().unwrap();
    let dead = || a_pod("dead").heartbeat(Heartbeat::Missing);
    let full = || a_pod("full").offers("runs", 1).holds(a_run("other"));
    for (case, snapshot, want) in [
        (
            "no runtime",
            a_snapshot().without_runtime(),
            "RuntimeNotFound",
        ),
        ("no pods", a_snapshot(), "NoReadyPods"),
        (
            "none ready",
            a_snapshot().pod(a_pod("p").unready()),
            "NoReadyPods",
        ),
        ("none alive", a_snapshot().pod(dead()), "HeartbeatStale"),
        (
            "full and too small",
            a_snapshot().pod(full().offers("gpu", 3)),
            "RequestExceedsCapacity",
        ),
        (
            "large enough but dead",
            a_snapshot()
                .pod(a_pod("small"))
                .pod(dead().offers("gpu", 4)),
            "RequestExceedsCapacity",
        ),
        (
            "full",
            a_snapshot().pod(full().offers("gpu", 4)),
            "InsufficientCapacity",
        ),
    ] {
        let decision = snapshot.decide(&a_run("r").asks("gpu", 4), &profile);
        assert_eq!(waits(&decision), Some((want, DEFAULT)), "{case}");
    }
}

#[test]
fn s_130_an_empty_pool_waits_and_rejects_nothing() {
    let decision = a_snapshot().decide(&a_run("r"), &standard().build().unwrap());
    assert_eq!(waits(&decision), Some(("NoReadyPods", DEFAULT)));
    assert_eq!(decision.rejections, []);
}

#[test]
fn s_47_every_rejected_pod_counts_once() {
    let snapshot = a_snapshot()
        .pod(a_pod("a").unready())
        .pod(a_pod("b").unready())
        .pod(a_pod("c"));
    let decision = snapshot.decide(&a_run("r"), &standard().build().unwrap());
    let refused = rejected(&decision, "RuntimePodAvailability", "RuntimePodUnavailable");
    assert_eq!(refused, 2);
}

/// Rejects every Pod with the reason named by the Run's label `why`.
struct Because;

impl Filter for Because {
    fn name(&self) -> &'static str {
        "Because"
    }

    fn reasons(&self) -> &'static [Reason] {
        const REASONS: &[Reason] = &[
            Reason::new("Plain"),
            Reason::new("Told")
                .message("waiting for {runtime} and {workspace}")
                .condition("Told"),
            Reason::new("Early").first_condition("Early"),
        ];
        REASONS
    }

    fn prepare<'a>(&'a self, _: &'a Snapshot, run: &'a Run) -> Result<Prepared<'a>, PrepareError> {
        let why = run.labels.get("why").map(String::as_str);
        let reason = self.reasons().iter().map(Reason::name);
        let reason = reason.into_iter().find(|name| Some(*name) == why);
        Ok(Prepared::Check(Box::new(move |_| {
            Verdict::Rejects(reason.unwrap_or("Plain"))
        })))
    }
}

#[test]
fn s_113_a_reason_speaks_only_through_its_registered_template() {
    let profile = Profile::builder().filter(Because).build().unwrap();
    let told = "waiting for \"python\" and \"w\\\"1\"";
    for (why, condition, message) in [
        ("Plain", "InsufficientCapacity", DEFAULT),
        ("Told", "Told", told),
        ("Early", "Early", DEFAULT),
    ] {
        let run = a_run("r").workspace("w\"1").label("why", why);
        let decision = a_snapshot().pod(a_pod("p")).decide(&run, &profile);
        assert_eq!(waits(&decision), Some((condition, message)), "{why}");
    }
}

#[test]
fn s_111_a_first_condition_outranks_the_pool_and_others_do_not() {
    let profile = standard().filter_before("RuntimePodAvailability", Because);
    let profile = profile.build().unwrap();
    for (why, want) in [("Early", "Early"), ("Told", "NoReadyPods")] {
        let run = a_run("r").label("why", why);
        let decision = a_snapshot()
            .pod(a_pod("p").unready())
            .decide(&run, &profile);
        assert_eq!(waits(&decision).unwrap().0, want, "{why}");
    }
}
