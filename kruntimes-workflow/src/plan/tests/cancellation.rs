//! Cancellation in every window.

use super::*;

fn cancel(world: &mut World) {
    world.state.spec.cancel_requested = true;
}

#[test]
fn w_92_cancelled_before_initialization_leaves_nothing() {
    let mut world = World::new(jobs([("a", a_job())]));
    cancel(&mut world);
    assert_eq!(world.turn(), Action::None);
    assert_eq!(world.phase(), WorkflowRunPhase::Cancelled);
    assert!(world.status().jobs.is_none() && world.status().snapshot_name.is_none());
    assert_eq!(world.condition("Accepted"), None);
    assert_eq!(
        world.condition("Completed").unwrap().1,
        "WorkflowRunCancelled"
    );
    world.idle_turn();
}

#[test]
fn w_177_between_initialization_and_the_first_start_nothing_starts() {
    let mut world = World::accepted(jobs([("a", a_job()), ("b", a_job().needs(&["a"]))]));
    cancel(&mut world);
    assert_eq!(world.turn(), Action::None);
    assert_eq!(world.phase(), WorkflowRunPhase::Cancelled);
    // W-90: jobs that never started keep their phase.
    assert_eq!(
        world.phases(),
        [("a", JobPhase::Pending), ("b", JobPhase::Waiting)]
    );
    assert!(world.created.is_empty());
}

#[test]
fn w_88_w_89_case_041_children_are_asked_once_and_their_end_decides_nothing() {
    for end in [
        RunPhase::Succeeded,
        RunPhase::Failed,
        RunPhase::Timeout,
        RunPhase::Cancelled,
    ] {
        let mut world = World::accepted(jobs([
            ("a", a_job()),
            ("b", a_job()),
            ("c", a_job().needs(&["a"])),
        ]));
        world.turn();
        cancel(&mut world);
        let step = world.decide();
        assert_eq!(step.stage, Stage::Cancelling);
        assert_eq!(World::names(&world.turn()).len(), 2);
        world.idle_turn();
        // Not Cancelled while a child is left.
        assert_eq!(world.phase(), WorkflowRunPhase::Running);
        assert_eq!(world.message(), "cancelling, 2 children left");
        world.end("a", "s", end);
        world.turn();
        assert_eq!(world.message(), "cancelling, 1 child left");
        world.end("b", "s", end);
        world.turn();
        assert_eq!(world.phase(), WorkflowRunPhase::Cancelled);
        assert_eq!(world.job("c").phase, JobPhase::Waiting);
        world.idle_turn();
    }
}

#[test]
fn w_90_a_job_whose_step_was_cancelled_is_failed() {
    let mut world = World::accepted(jobs([("a", a_job()), ("b", a_job().needs(&["a"]))]));
    world.turn();
    cancel(&mut world);
    world.turn();
    world.end("a", "s", RunPhase::Cancelled);
    world.turn();
    assert_eq!(world.job("a").reason.as_deref(), Some("StepCancelled"));
    assert_eq!(
        world.phases(),
        [("a", JobPhase::Failed), ("b", JobPhase::Waiting)]
    );
    assert_eq!(
        world.condition("Completed").unwrap().1,
        "WorkflowRunCancelled"
    );
}

#[test]
fn w_91_w_177_case_043_between_two_steps_the_job_fails_as_cancelled() {
    let mut world = World::accepted(jobs([("a", a_job().step("s", "1").step("t", "2"))]));
    world.turn();
    world.succeed("a", "s", &[]);
    // W-87: it takes precedence although `t` became ready in the same turn.
    cancel(&mut world);
    assert_eq!(world.turn(), Action::None);
    assert_eq!(world.phase(), WorkflowRunPhase::Cancelled);
    let job = world.job("a");
    assert_eq!(
        (job.phase, job.reason.as_deref()),
        (JobPhase::Failed, Some("Cancelled"))
    );
    assert_eq!(
        world.step_phases("a"),
        [StepPhase::Succeeded, StepPhase::Pending]
    );
    assert_eq!(world.created.len(), 1);
}

#[test]
fn w_88_a_child_asked_by_other_means_is_not_asked_again() {
    let mut world = World::accepted(jobs([("a", a_job()), ("b", a_job())]));
    world.turn();
    world.run("a", "s").cancel_asked = true;
    cancel(&mut world);
    let b = world.run("b", "s").name.clone();
    assert_eq!(World::names(&world.turn()), [b]);
}

#[test]
fn w_93_a_phase_that_was_already_final_is_preserved() {
    let mut world = World::accepted(jobs([("a", a_job())]));
    world.turn();
    world.succeed("a", "s", &[]);
    world.turn();
    cancel(&mut world);
    world.idle_turn();
    assert_eq!(world.phase(), WorkflowRunPhase::Succeeded);
}

#[test]
fn w_94_a_late_child_is_still_asked() {
    let mut world = World::accepted(jobs([("a", a_job())]));
    cancel(&mut world);
    world.turn();
    assert_eq!(world.phase(), WorkflowRunPhase::Cancelled);
    world.state.children.push(Child {
        name: "late".into(),
        job: "a".into(),
        step: "s".into(),
        ..Child::default()
    });
    let step = world.decide();
    assert_eq!(step.stage, Stage::Cancelling);
    assert_eq!(World::names(&world.turn()), ["late"]);
    world.idle_turn();
    world.end("a", "s", RunPhase::Succeeded);
    world.idle_turn();
    assert_eq!(world.phase(), WorkflowRunPhase::Cancelled);
}

#[test]
fn w_95_cancelling_one_child_is_an_ordinary_step_cancellation() {
    let mut world = World::accepted(jobs([("a", a_job()), ("b", a_job())]));
    world.turn();
    world.end("a", "s", RunPhase::Cancelled);
    world.turn();
    assert_eq!(world.step_phases("a"), [StepPhase::Cancelled]);
    assert_eq!(world.job("a").phase, JobPhase::Failed);
    assert_eq!(world.job("b").phase, JobPhase::Running);
}

#[test]
fn a_recorded_run_nobody_has_seen_delays_the_end() {
    let mut world = World::accepted(jobs([("a", a_job())]));
    world.turn();
    cancel(&mut world);
    world.state.children.clear();
    let step = calculate(&world.state);
    assert_eq!(step.needs.len(), 1);
    assert_eq!(step.desired.phase, WorkflowRunPhase::Running);
    world.turn();
    assert_eq!(world.phase(), WorkflowRunPhase::Cancelled);
    assert_eq!(world.job("a").reason.as_deref(), Some("ChildMissing"));
}
