//! Tables of the reaper's decisions.

use super::*;
use crate::api::{Endpoint, EndpointProtocol, Termination, TerminationMode};
use crate::testing::a_run;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn secs(seconds: i64) -> Duration {
    Duration::from_secs(seconds)
}

fn pod() -> PodView {
    PodView {
        uid: "u".into(),
        terminating: None,
        ready: Some(true),
        settled: secs(600),
        silent: secs(1),
    }
}

fn not_ready(age: i64) -> PodView {
    PodView {
        ready: Some(false),
        settled: secs(age),
        ..pod()
    }
}

fn silent(age: i64) -> PodView {
    PodView {
        silent: secs(age),
        ..pod()
    }
}

fn terminating(age: i64, serving: bool) -> PodView {
    PodView {
        terminating: Some(secs(age)),
        ready: Some(serving),
        ..pod()
    }
}

fn assigned(phase: RunPhase) -> RunStatus {
    let mut status = RunStatus {
        phase,
        assigned_pod: Some("p".into()),
        assigned_pod_uid: Some("u".into()),
        ..RunStatus::default()
    };
    let holds = |status: &mut RunStatus, kind| {
        let fact = Fact::new(kind, ConditionStatus::True, "Because", "");
        condition::set(&mut status.conditions, &fact, Time(at(1)));
    };
    holds(&mut status, CONDITION_SCHEDULED);
    if phase != RunPhase::Scheduled {
        holds(&mut status, CONDITION_RUNNING);
        status.start_time = Some(Time(at(2)));
    }
    if matches!(phase, RunPhase::Ready | RunPhase::Finalizing) {
        holds(&mut status, CONDITION_READY);
        status.endpoint = Some(Endpoint {
            protocol: EndpointProtocol::Https,
            url: "https://gateway/u".into(),
            ca_bundle: None,
        });
    }
    status
}

fn look(spec: &RunSpec, status: &RunStatus, pod: Option<&PodView>) -> Verdict {
    calculate(&Seen {
        spec,
        status,
        deleting: false,
        registered: false,
        pod,
        threshold: THRESHOLD,
        now: at(1000),
    })
}

/// Fate, phase and reason of a write.
fn written(verdict: &Verdict) -> Option<(Fate, RunPhase, &'static str)> {
    let Verdict::Write(write) = verdict else {
        return None;
    };
    Some((write.fate, write.status.phase, write.failure.reason))
}

fn status_of(verdict: Verdict) -> RunStatus {
    let Verdict::Write(write) = verdict else {
        panic!("nothing is written: {verdict:?}");
    };
    write.status
}

fn task(attempts: i32) -> RunSpec {
    a_run().on("bash").trying(attempts).build()
}

fn is_false(status: &RunStatus, kind: &str, reason: &str) -> bool {
    condition::get(&status.conditions, kind)
        .is_some_and(|found| found.status == ConditionStatus::False && found.reason == reason)
}

#[test]
fn n_200_n_208_a_pod_is_judged_by_what_was_seen_of_it() {
    let sound = |left| Health::Sound(secs(left));
    for (case, pod, want) in [
        ("gone", None, Health::Lost(Loss::Gone)),
        (
            "replaced",
            Some(PodView {
                uid: "v".into(),
                ..pod()
            }),
            Health::Lost(Loss::Replaced),
        ),
        (
            "terminating",
            Some(terminating(3, true)),
            Health::Lost(Loss::Terminating {
                age: secs(3),
                serving: true,
            }),
        ),
        ("well", Some(pod()), sound(29)),
        (
            "no Ready condition",
            Some(PodView {
                ready: None,
                ..silent(99)
            }),
            sound(30),
        ),
        ("not ready for a while", Some(not_ready(29)), sound(1)),
        (
            "not ready for long",
            Some(not_ready(30)),
            Health::Lost(Loss::NotReady { age: secs(30) }),
        ),
        ("silent for a while", Some(silent(29)), sound(1)),
        (
            "silent for long",
            Some(silent(31)),
            Health::Lost(Loss::Silent { age: secs(31) }),
        ),
        (
            "silent, but ready only now",
            Some(PodView {
                settled: secs(5),
                ..silent(99)
            }),
            sound(25),
        ),
    ] {
        assert_eq!(examine(Some("u"), pod.as_ref(), THRESHOLD), want, "{case}");
    }
    assert_eq!(examine(None, Some(&pod()), THRESHOLD), sound(29));
}

#[test]
fn n_200_only_active_runs_with_a_pod_are_watched() {
    let spec = task(1);
    for phase in [RunPhase::Pending, RunPhase::Succeeded, RunPhase::Failed] {
        assert_eq!(
            look(&spec, &assigned(phase), None),
            Verdict::Nothing,
            "{phase}"
        );
    }
    let nowhere = RunStatus {
        phase: RunPhase::Running,
        ..RunStatus::default()
    };
    assert_eq!(look(&spec, &nowhere, None), Verdict::Nothing);
    for phase in [
        RunPhase::Scheduled,
        RunPhase::Running,
        RunPhase::Ready,
        RunPhase::Finalizing,
    ] {
        assert_eq!(
            look(&spec, &assigned(phase), Some(&pod())),
            Verdict::Sound(secs(29)),
            "{phase}"
        );
    }
}

#[test]
fn s_117_n_201_an_unclaimed_run_is_placed_again_without_using_an_attempt() {
    let replaced = PodView {
        uid: "v".into(),
        ..pod()
    };
    for (case, pod, reason) in [
        ("gone", None, "PodGone"),
        ("replaced", Some(replaced), "PodGone"),
        ("terminating", Some(terminating(0, true)), "PodTerminating"),
        ("unhealthy", Some(silent(30)), "PodUnhealthy"),
    ] {
        let verdict = look(&task(1), &assigned(RunPhase::Scheduled), pod.as_ref());
        let want = Some((Fate::Released, RunPhase::Pending, reason));
        assert_eq!(written(&verdict), want, "{case}");
        let status = status_of(verdict);
        assert_eq!((status.assigned_pod, status.assigned_pod_uid), (None, None));
        assert_eq!(status.attempt, None, "{case}");
        let running = condition::get(&status.conditions, CONDITION_RUNNING);
        assert_eq!(running, None, "no wait is recorded");
    }
}

#[test]
fn n_202_a_lost_task_is_retried_as_long_as_its_policy_allows() {
    let running = assigned(RunPhase::Running);
    let verdict = look(&task(2), &running, None);
    assert_eq!(
        written(&verdict),
        Some((Fate::Retried, RunPhase::Pending, "PodGone"))
    );
    let status = status_of(verdict);
    assert_eq!(status.attempt, Some(2));
    assert_eq!(
        (&status.assigned_pod, &status.assigned_pod_uid),
        (&None, &None)
    );
    assert_eq!((status.start_time, &status.endpoint), (None, &None));
    assert_eq!(status.message.as_deref(), Some("assigned pod was deleted"));
    assert!(is_false(&status, CONDITION_RUNNING, "PodGone"));
    assert!(is_false(&status, CONDITION_SCHEDULED, "PodGone"));
    let since = condition::get(&status.conditions, CONDITION_RUNNING).unwrap();
    assert_eq!(
        since.last_transition_time,
        Time(at(1000)),
        "the wait starts now"
    );
    let second = RunStatus {
        attempt: Some(2),
        ..running.clone()
    };
    let verdict = look(&task(2), &second, None);
    assert_eq!(
        written(&verdict),
        Some((Fate::Ended, RunPhase::Failed, "PodGone"))
    );
    let status = status_of(verdict);
    assert_eq!(status.completion_time, Some(Time(at(1000))));
    assert_eq!(status.attempt, Some(2));
    let mut picky = task(5);
    picky.retry_policy.as_mut().unwrap().retryable_reasons = vec!["Timeout".into()];
    let verdict = look(&picky, &running, None);
    assert_eq!(
        written(&verdict),
        Some((Fate::Ended, RunPhase::Failed, "PodGone"))
    );
}

#[test]
fn n_198_a_claimed_task_has_the_window_of_its_terminating_daemon() {
    let running = assigned(RunPhase::Running);
    let in_window = look(&task(2), &running, Some(&terminating(5, true)));
    assert_eq!(in_window, Verdict::Wait(secs(15)));
    let after = look(&task(2), &running, Some(&terminating(20, true)));
    assert_eq!(
        written(&after),
        Some((Fate::Retried, RunPhase::Pending, "PodTerminating"))
    );
    let last = look(&task(1), &running, Some(&terminating(20, true)));
    assert_eq!(
        written(&last),
        Some((Fate::Ended, RunPhase::Failed, "PodTerminating"))
    );
}

#[test]
fn n_203_without_a_fence_a_task_waits_twice_as_long_before_it_starts_elsewhere() {
    let running = assigned(RunPhase::Running);
    for pod in [not_ready(40), silent(40)] {
        assert_eq!(
            look(&task(2), &running, Some(&pod)),
            Verdict::Wait(secs(20))
        );
        let verdict = look(&task(1), &running, Some(&pod));
        let failed = Some((Fate::Ended, RunPhase::Failed, "PodUnhealthy"));
        assert_eq!(
            written(&verdict),
            failed,
            "failing starts nothing elsewhere"
        );
    }
    for pod in [not_ready(60), silent(61)] {
        let verdict = look(&task(2), &running, Some(&pod));
        assert_eq!(
            written(&verdict),
            Some((Fate::Retried, RunPhase::Pending, "PodUnhealthy"))
        );
    }
}

#[test]
fn n_203_functions_and_sessions_are_not_touched_without_a_fence() {
    let function = a_run().serving("a.b").trying(9).build();
    let session = a_run().in_session().trying(9).build();
    for spec in [&function, &session] {
        for phase in [RunPhase::Scheduled, RunPhase::Running, RunPhase::Ready] {
            for pod in [not_ready(999), silent(999)] {
                let verdict = look(spec, &assigned(phase), Some(&pod));
                assert_eq!(verdict, Verdict::Wait(THRESHOLD), "{phase}");
            }
        }
        let served = look(
            spec,
            &assigned(RunPhase::Running),
            Some(&terminating(99, true)),
        );
        assert_eq!(
            served,
            Verdict::Wait(THRESHOLD),
            "callers are still led to it"
        );
    }
}

#[test]
fn n_204_a_function_moves_and_a_session_that_was_ready_does_not() {
    let function = a_run().serving("a.b").trying(2).build();
    let session = a_run().in_session().trying(2).build();
    let moved = Some((Fate::Retried, RunPhase::Pending, "PodTerminating"));
    let failed = Some((Fate::Ended, RunPhase::Failed, "PodTerminating"));
    let pod = terminating(1, false);
    for (spec, phase, want) in [
        (&function, RunPhase::Running, moved),
        (&function, RunPhase::Ready, moved),
        (&session, RunPhase::Running, moved),
        (&session, RunPhase::Ready, failed),
        (&session, RunPhase::Finalizing, failed),
    ] {
        let verdict = look(spec, &assigned(phase), Some(&pod));
        assert_eq!(written(&verdict), want, "{phase}");
        let status = status_of(verdict);
        assert_eq!(status.endpoint, None);
        let ready = condition::get(&status.conditions, CONDITION_READY);
        assert!(ready.is_none_or(|ready| ready.status == ConditionStatus::False));
    }
    // It was ready once, whatever its phase says now.
    let mut once = assigned(RunPhase::Ready);
    once.phase = RunPhase::Running;
    assert_eq!(written(&look(&session, &once, Some(&pod))), failed);
}

#[test]
fn n_205_termination_on_a_lost_pod_is_a_cancellation() {
    let cancelled = Some((Fate::Ended, RunPhase::Cancelled, "Cancelled"));
    let mut task = task(5);
    task.cancel_requested = true;
    for phase in [RunPhase::Scheduled, RunPhase::Running] {
        let verdict = look(&task, &assigned(phase), None);
        assert_eq!(written(&verdict), cancelled, "{phase}");
        let status = status_of(verdict);
        assert_eq!(status.message.as_deref(), Some("cancelled by user"));
    }
    let unhealthy = look(&task, &assigned(RunPhase::Running), Some(&silent(30)));
    assert_eq!(written(&unhealthy), cancelled);
    let mut session = a_run().in_session().trying(5).build();
    session.termination = Some(Termination {
        mode: TerminationMode::Drain,
    });
    assert_eq!(
        written(&look(&session, &assigned(RunPhase::Running), None)),
        cancelled
    );
    let ready = look(&session, &assigned(RunPhase::Ready), None);
    assert_eq!(
        written(&ready),
        Some((Fate::Ended, RunPhase::Failed, "PodGone"))
    );
}

#[test]
fn n_206_a_registration_is_given_up_only_behind_a_fence() {
    let function = a_run().serving("a.b").trying(2).build();
    let look = |status: &RunStatus, deleting, pod: Option<&PodView>| {
        calculate(&Seen {
            spec: &function,
            status,
            deleting,
            registered: true,
            pod,
            threshold: THRESHOLD,
            now: at(1000),
        })
    };
    let ready = assigned(RunPhase::Ready);
    let failed = assigned(RunPhase::Failed);
    for (status, deleting) in [(&ready, true), (&failed, false), (&failed, true)] {
        assert_eq!(look(status, deleting, None), Verdict::Unregister);
        assert_eq!(
            look(status, deleting, Some(&terminating(1, false))),
            Verdict::Unregister
        );
        assert_eq!(
            look(status, deleting, Some(&terminating(1, true))),
            Verdict::Wait(THRESHOLD)
        );
        assert_eq!(
            look(status, deleting, Some(&silent(999))),
            Verdict::Wait(THRESHOLD)
        );
        assert_eq!(
            look(status, deleting, Some(&pod())),
            Verdict::Sound(secs(29))
        );
    }
    let requeued = status_of(look(&ready, false, None));
    assert_eq!(look(&requeued, false, None), Verdict::Unregister);
    assert!(is_registered([&FINALIZER_REGISTRATION.to_owned()]));
    assert!(!is_registered(
        [&"kruntimes.io/artifact-cleanup".to_owned()]
    ));
}

/// What was carried out leaves nothing to do, attempts never fall, and a terminal phase is final.
#[test]
fn every_decision_settles() {
    let specs = [
        task(1),
        task(3),
        a_run().serving("a.b").trying(2).build(),
        a_run().in_session().trying(2).build(),
    ];
    let pods = [
        None,
        Some(terminating(0, true)),
        Some(terminating(99, false)),
        Some(not_ready(31)),
        Some(silent(61)),
    ];
    let phases = [
        RunPhase::Scheduled,
        RunPhase::Running,
        RunPhase::Ready,
        RunPhase::Finalizing,
    ];
    let mut writes = 0;
    for spec in &specs {
        for pod in &pods {
            for phase in phases {
                let before = assigned(phase);
                let verdict = look(spec, &before, pod.as_ref());
                assert_eq!(
                    verdict,
                    look(spec, &before, pod.as_ref()),
                    "equal states, equal verdicts"
                );
                if let Verdict::Write(write) = verdict {
                    writes += 1;
                    let after = write.status;
                    assert!(after.attempt.unwrap_or(1) >= before.attempt.unwrap_or(1));
                    assert_eq!(after.assigned_pod.is_some(), after.phase.is_terminal());
                    assert_eq!(look(spec, &after, pod.as_ref()), Verdict::Nothing);
                }
            }
        }
    }
    assert!(writes > 20, "{writes}");
}
