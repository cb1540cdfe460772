//! Tables and laws of the reducer.

use jiff::Timestamp;
use proptest::prelude::*;

use super::*;
use crate::api::{Mode, RetryPolicy, RunPhase, TaskMode};
use crate::keys::{CONDITION_COMPLETED, CONDITION_RUNTIME_ACCEPTED};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// What a node knows of a first attempt.
fn first() -> Local {
    Local {
        attempt: 1,
        ..Local::default()
    }
}

fn task() -> RunSpec {
    RunSpec {
        mode: Mode {
            task: Some(TaskMode::default()),
            ..Mode::default()
        },
        ..RunSpec::default()
    }
}

fn retried(max: i32) -> RunSpec {
    RunSpec {
        retry_policy: Some(RetryPolicy {
            max_attempts: Some(max),
            backoff: Some(Duration::from_secs(4)),
            ..RetryPolicy::default()
        }),
        ..task()
    }
}

fn scheduled() -> RunStatus {
    RunStatus {
        phase: RunPhase::Scheduled,
        assigned_pod: Some("p".into()),
        ..RunStatus::default()
    }
}

fn running() -> RunStatus {
    claimed(&task(), &scheduled(), at(0)).status
}

fn look<'a>(spec: &'a RunSpec, status: &'a RunStatus, hold: Hold<'a>, now: i64) -> Observed<'a> {
    Observed {
        spec,
        status,
        deleting: false,
        mine: true,
        hold,
        answer: None,
        now: at(now),
    }
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "a move is made and looked at once"
)]
fn change(made: Move) -> Change {
    has_written(&made)
        .unwrap_or_else(|| panic!("{made:?} writes nothing"))
        .clone()
}

fn word(made: &Move) -> String {
    let text = format!("{made:?}");
    text.split(['(', ' ']).next().unwrap_or_default().to_owned()
}

#[test]
fn n_25_a_scheduled_run_is_examined_in_order() {
    let cancelled = RunSpec {
        cancel_requested: true,
        ..task()
    };
    let used_up = RunSpec {
        timeout: Some(Duration::ZERO),
        ..task()
    };
    let local = first();
    let status = scheduled();
    for (case, spec, hold, deleting, mine, want) in [
        ("held", &cancelled, Hold::Held(&local), false, true, "Rest"),
        ("cancelled", &cancelled, Hold::None, true, true, "Write"),
        ("deleting", &task(), Hold::None, true, true, "Rest"),
        ("no budget", &used_up, Hold::None, false, true, "Write"),
        ("free", &task(), Hold::None, false, true, "Claim"),
        ("of another Pod", &task(), Hold::None, false, false, "Rest"),
        (
            "taken away",
            &task(),
            Hold::Held(&local),
            false,
            false,
            "Release",
        ),
    ] {
        let seen = Observed {
            deleting,
            mine,
            ..look(spec, &status, hold, 1)
        };
        assert_eq!(word(&next(&seen)), want, "{case}");
    }
}

#[test]
fn a_run_that_came_back_unseen_is_let_go_before_it_is_claimed_again() {
    // N-202: lost by the reaper's word and bound here again, coalesced into one event.
    let back = RunStatus {
        attempt: Some(2),
        ..scheduled()
    };
    let (old, present) = (
        first(),
        Local {
            attempt: 2,
            ..first()
        },
    );
    let spec = retried(3);
    let made = |hold| word(&next(&look(&spec, &back, hold, 1)));
    assert_eq!(made(Hold::Held(&old)), "Release");
    assert_eq!(made(Hold::Released), "Rest", "until the last one is gone");
    assert_eq!(made(Hold::None), "Claim");
    assert_eq!(made(Hold::Held(&present)), "Rest");
}

#[test]
fn n_26_a_cancel_before_the_claim_is_one_write() {
    let spec = RunSpec {
        cancel_requested: true,
        ..task()
    };
    let status = scheduled();
    let made = change(next(&look(&spec, &status, Hold::None, 5)));
    assert_eq!(made.status.phase, RunPhase::Cancelled);
    assert_eq!(made.status.message.as_deref(), Some("cancelled by user"));
    assert_eq!(made.status.attempt, Some(1));
    assert_eq!(made.status.completion_time, Some(Time(at(5))));
}

#[test]
fn n_33_a_claim_is_one_write() {
    let made = change(next(&look(&task(), &scheduled(), Hold::None, 7)));
    assert_eq!(made.status.phase, RunPhase::Running);
    assert_eq!(made.status.start_time, Some(Time(at(7))));
    assert_eq!(made.status.attempt, None);
    let reasons: Vec<_> = made
        .status
        .conditions
        .iter()
        .map(|c| {
            (
                c.condition_type.as_str(),
                c.status.as_str(),
                c.reason.as_str(),
            )
        })
        .collect();
    assert_eq!(
        reasons,
        [
            ("Running", "True", "Claimed"),
            ("RuntimeAccepted", "False", "Dispatching")
        ]
    );
}

#[test]
fn n_76_n_86_what_not_found_means_depends_on_what_was_seen() {
    let status = running();
    let accepted = observed(&status, at(1)).status;
    let fresh = first();
    let starting = Local {
        starting: true,
        ..first()
    };
    let seen = Local {
        seen: Some(at(1)),
        ..first()
    };
    let recovered = Local {
        recovered: true,
        ..first()
    };
    let lost = "runtime execution not found";
    let restart = "runtime execution not found after runtimed restart";
    for (case, status, local, word_want, text) in [
        ("never started", &status, &fresh, "Start", None),
        ("on its way", &status, &starting, "Wait", None),
        ("seen", &status, &seen, "Write", Some(lost)),
        ("recovered, never seen", &status, &recovered, "Start", None),
        (
            "recovered, seen",
            &accepted,
            &recovered,
            "Write",
            Some(restart),
        ),
    ] {
        let spec = task();
        let made = next(&Observed {
            answer: Some(Answer::NotFound),
            ..look(&spec, status, Hold::Held(local), 3)
        });
        assert_eq!(word(&made), word_want, "{case}");
        if let Some(text) = text {
            let made = change(made);
            assert_eq!(made.status.phase, RunPhase::Failed);
            assert_eq!(made.status.message.as_deref(), Some(text), "{case}");
        }
    }
}

#[test]
fn n_83_n_85_the_observation_is_written_late_or_with_the_result() {
    let (spec, status) = (task(), running());
    let local = Local {
        seen: Some(at(1)),
        ..first()
    };
    let ask = |answer, now| {
        next(&Observed {
            answer: Some(answer),
            ..look(&spec, &status, Hold::Held(&local), now)
        })
    };
    assert_eq!(ask(Answer::Live, 1), Move::Wait(Some(at(2))));
    let late = change(ask(Answer::Live, 2));
    assert_eq!(late.kind, ChangeKind::Observed);
    let short = change(ask(Answer::Failed(Report::default()), 1));
    assert!(condition::is_true(
        &short.status.conditions,
        CONDITION_RUNTIME_ACCEPTED
    ));
    assert_eq!(ask(Answer::Succeeded, 1), Move::Collect);
    assert_eq!(ask(Answer::Silent, 1), Move::AskLater);
    let unknown = change(ask(Answer::Unknown(9), 1)).status.message;
    assert!(unknown.unwrap().ends_with("state 9"));
}

#[test]
fn n_105_n_107_n_108_a_retry_waits_and_begins() {
    let spec = retried(2);
    let first_change = change(next(&Observed {
        answer: Some(Answer::Failed(Report::default())),
        ..look(&spec, &running(), Hold::Held(&first()), 10)
    }));
    assert_eq!(first_change.status.phase, RunPhase::Running);
    assert_eq!(first_change.status.attempt, Some(2));
    let next_try = || Local {
        attempt: 2,
        ..Local::default()
    };
    assert_eq!(
        next(&look(&spec, &first_change.status, Hold::Held(&first()), 20)),
        Move::NextAttempt
    );
    let local = Local {
        failed_at: Some(at(10)),
        ..next_try()
    };
    let unforgotten = Local {
        unforgotten: true,
        ..local.clone()
    };
    let at_ = |local, now| next(&look(&spec, &first_change.status, Hold::Held(local), now));
    assert_eq!(at_(&local, 11), Move::Wait(Some(at(14))));
    // N-106
    assert_eq!(at_(&unforgotten, 20), Move::Wait(None));
    let begun = change(at_(&local, 14));
    assert_eq!(begun.kind, ChangeKind::RetryBegun);
    assert!(!is_in_backoff(&begun.status));
    let last = change(next(&Observed {
        answer: Some(Answer::Failed(Report::default())),
        ..look(&spec, &begun.status, Hold::Held(&next_try()), 15)
    }));
    assert_eq!(last.status.phase, RunPhase::Failed);
    assert_eq!(last.status.attempt, Some(2));
}

#[test]
fn n_114_n_115_the_deadline_ends_everything_but_a_success() {
    let spec = RunSpec {
        timeout: Some(Duration::from_secs(5)),
        ..retried(3)
    };
    let status = running();
    let local = Local {
        claimed_at: Some(at(0)),
        ..first()
    };
    let starting = Local {
        starting: true,
        ..local.clone()
    };
    let ask = |local, answer| {
        next(&Observed {
            answer,
            ..look(&spec, &status, Hold::Held(local), 5)
        })
    };
    assert_eq!(ask(&local, None), Move::AskServer);
    assert_eq!(ask(&local, Some(Answer::Succeeded)), Move::Collect);
    for made in [
        ask(&local, Some(Answer::Live)),
        ask(&local, Some(Answer::Silent)),
        ask(&local, Some(Answer::Failed(Report::default()))),
        ask(&starting, None),
    ] {
        assert_eq!(word(&made), "StopThenWrite");
        let made = change(made);
        assert_eq!(made.status.phase, RunPhase::Timeout);
        assert_eq!(made.status.message.as_deref(), Some("timeout after 5s"));
    }
}

#[test]
fn n_116_a_cancel_is_effective_in_backoff_and_while_starting() {
    let spec = RunSpec {
        cancel_requested: true,
        ..retried(5)
    };
    let waiting = failed(
        &retried(5),
        &running(),
        Failure::new("RuntimeError", "x"),
        true,
        at(1),
    )
    .status;
    let starting = Local {
        starting: true,
        ..first()
    };
    for (status, local) in [(&waiting, &first()), (&running(), &starting)] {
        let made = next(&look(&spec, status, Hold::Held(local), 2));
        assert_eq!(word(&made), "StopThenWrite");
        assert_eq!(change(made).status.phase, RunPhase::Cancelled);
    }
}

#[test]
fn n_131_a_refused_outputs_file_is_never_repeated() {
    let failure = Failure::new("OutputsInvalid", "x");
    let made = failed(&retried(5), &running(), failure, true, at(1));
    assert_eq!(made.status.phase, RunPhase::Failed);
}

const PHASES: [RunPhase; 9] = [
    RunPhase::Pending,
    RunPhase::Scheduled,
    RunPhase::Running,
    RunPhase::Ready,
    RunPhase::Finalizing,
    RunPhase::Succeeded,
    RunPhase::Failed,
    RunPhase::Timeout,
    RunPhase::Cancelled,
];

#[test]
fn case_086_no_phase_is_both_over_and_counted() {
    for phase in PHASES {
        let waits = phase == RunPhase::Pending;
        let kinds = [waits, phase.is_active(), phase.is_terminal()];
        assert_eq!(kinds.iter().filter(|is| **is).count(), 1, "{phase}");
    }
}

/// The part of the phase graph that a node may walk (API reference, section 3.8).
fn is_edge(from: RunPhase, to: RunPhase) -> bool {
    match from {
        RunPhase::Scheduled => matches!(
            to,
            RunPhase::Running | RunPhase::Cancelled | RunPhase::Timeout
        ),
        RunPhase::Running => to == RunPhase::Running || to.is_terminal(),
        RunPhase::Ready | RunPhase::Finalizing => to.is_terminal(),
        RunPhase::Pending
        | RunPhase::Succeeded
        | RunPhase::Failed
        | RunPhase::Timeout
        | RunPhase::Cancelled => false,
    }
}

fn any_spec() -> impl Strategy<Value = RunSpec> {
    (
        prop::option::of(1_i32..5),
        prop::option::of(0_i64..30),
        any::<bool>(),
    )
        .prop_map(|(max, timeout, cancel_requested)| RunSpec {
            timeout: timeout.map(Duration::from_secs),
            cancel_requested,
            ..max.map_or_else(task, retried)
        })
}

fn any_local() -> impl Strategy<Value = Local> {
    (
        prop::option::of(0_i64..40),
        any::<[bool; 4]>(),
        prop::option::of(0_i64..40),
    )
        .prop_map(
            |(seen, [recovered, starting, failure, unforgotten], moment)| Local {
                attempt: 1 + i32::from(recovered),
                seen: seen.map(at),
                recovered,
                starting,
                failure: failure.then(|| Failure::new("RuntimeExecute", "refused")),
                unforgotten,
                claimed_at: moment.map(at),
                failed_at: moment.map(at),
            },
        )
}

fn any_answer() -> impl Strategy<Value = Option<Answer<'static>>> {
    prop::sample::select(vec![
        None,
        Some(Answer::Live),
        Some(Answer::Succeeded),
        Some(Answer::Failed(Report::default())),
        Some(Answer::Failed(Report {
            error_message: "timeout",
            exit_code: -1,
            stderr: "",
        })),
        Some(Answer::Unknown(7)),
        Some(Answer::NotFound),
        Some(Answer::Silent),
    ])
}

fn any_status() -> impl Strategy<Value = RunStatus> {
    (
        prop::sample::select(&PHASES[..]),
        prop::option::of(0_i32..5),
        any::<[bool; 3]>(),
        0_i64..30,
    )
        .prop_map(|(phase, attempt, [started, backoff, accepted], moment)| {
            let mut status = scheduled();
            if started {
                status = claimed(&task(), &status, at(moment)).status;
            }
            if accepted {
                status = observed(&status, at(moment)).status;
            }
            if backoff {
                let failure = Failure::new("RuntimeError", "x");
                status = failed(&retried(9), &status, failure, true, at(moment)).status;
            }
            RunStatus {
                phase,
                attempt,
                ..status
            }
        })
}

fn has_written(made: &Move) -> Option<&Change> {
    match made {
        Move::Claim(change) | Move::Write(change) | Move::StopThenWrite(change) => Some(change),
        Move::Rest
        | Move::Wait(_)
        | Move::AskServer
        | Move::AskLater
        | Move::Adopt
        | Move::NextAttempt
        | Move::Start
        | Move::Collect
        | Move::Release => None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// N-12, and invariants 3 to 5: terminal is final, phases follow the graph, attempts never fall and
    /// never exceed what is allowed, a terminal write is complete.
    #[test]
    fn n_12_every_write_keeps_the_laws(
        spec in any_spec(), status in any_status(), local in any_local(), held in 0..3,
        answer in any_answer(), flags in any::<[bool; 2]>(), now in 0_i64..60,
    ) {
        let hold = match held { 0 => Hold::None, 1 => Hold::Released, _ => Hold::Held(&local) };
        let [deleting, mine] = flags;
        let seen = Observed { deleting, mine, answer, ..look(&spec, &status, hold, now) };
        let made = next(&seen);
        prop_assert_eq!(&made, &next(&seen), "equal pictures give equal moves");
        if status.phase.is_terminal() || !mine {
            prop_assert!(matches!(made, Move::Rest | Move::Release));
        }
        if let Some(change) = has_written(&made) {
            let (before, after) = (
                retry::current_attempt(status.attempt), retry::current_attempt(change.status.attempt),
            );
            prop_assert!(is_edge(status.phase, change.status.phase), "{} to {}", status.phase, change.status.phase);
            prop_assert!(after >= before);
            let allowed = retry::max_attempts(spec.retry_policy.as_ref());
            prop_assert!(after <= allowed.max(before));
            if change.status.phase.is_terminal() {
                // N-10
                prop_assert!(change.status.completion_time >= change.status.start_time);
                prop_assert!(is_in_backoff(&change.status), "Running is False");
                prop_assert!(condition::get(&change.status.conditions, CONDITION_COMPLETED).is_some());
                prop_assert!(change.status.attempt >= Some(1));
            }
        }
    }

    /// A move that asks, adopts or waits for the server is answered by another kind of move.
    #[test]
    fn asking_once_is_enough(
        spec in any_spec(), status in any_status(), local in any_local(),
        answer in any_answer().prop_filter("an answer", Option::is_some), now in 0_i64..60,
    ) {
        let seen = Observed { answer, ..look(&spec, &status, Hold::Held(&local), now) };
        prop_assert!(!matches!(next(&seen), Move::AskServer | Move::Adopt));
    }

    /// A wait that is over leads to something else: no reconcile spins.
    #[test]
    fn a_wait_that_is_over_moves_on(
        spec in any_spec(), status in any_status(), local in any_local(),
        answer in any_answer(), now in 0_i64..60,
    ) {
        let seen = Observed { answer, ..look(&spec, &status, Hold::Held(&local), now) };
        if let Move::Wait(Some(until)) = next(&seen) {
            prop_assert!(until > at(now));
            let later = next(&Observed { now: until, ..seen });
            prop_assert!(later != Move::Wait(Some(until)));
        }
    }

    /// N-104: the wait before an attempt never shrinks and never exceeds its ceiling.
    #[test]
    fn n_104_case_065_backoff_is_monotone(attempt in 2_i32..200, millis in 1_i64..100_000) {
        let policy = RetryPolicy { backoff: Some(Duration::from_millis(millis)), ..RetryPolicy::default() };
        let (one, two) = (retry::backoff(Some(&policy), attempt), retry::backoff(Some(&policy), attempt + 1));
        prop_assert!(one <= two && two <= retry::BACKOFF_MAX && one.is_positive());
    }
}
