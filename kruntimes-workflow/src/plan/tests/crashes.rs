//! The restart windows of section 16: the first write is there, the next is not.

use super::*;

/// Decides and applies `writes` single writes, then loses everything else.
fn crash(world: &mut World, writes: usize) {
    let step = world.decide();
    world.apply(step.action, writes);
}

fn diamond() -> World {
    World::new(jobs([
        ("a", a_job()),
        ("l", a_job().needs(&["a"])),
        ("r", a_job().needs(&["a"])),
        (
            "z",
            a_job().needs(&["l", "r"]).step("one", "1").step("two", "2"),
        ),
    ]))
}

fn undisturbed() -> WorkflowRunStatus {
    let mut world = diamond();
    loop {
        world.settle();
        if !world.succeed_any() {
            return world.state.status;
        }
    }
}

#[test]
fn w_156_w_55_a_snapshot_without_status_is_continued_from() {
    let mut world = diamond();
    crash(&mut world, 1);
    assert!(world.state.snapshot.is_some() && world.status().jobs.is_none());
    // Not validated again, not read again: the spec could not even be accepted any more.
    world.state.spec.jobs.clear();
    let Action::Initialize(initialize) = world.turn() else {
        panic!("it continues to initialize")
    };
    assert_eq!(initialize.snapshot, None);
    assert_eq!(world.status().jobs.as_ref().unwrap().len(), 4);
}

#[test]
fn w_158_a_run_without_status_is_found_by_its_labels() {
    let mut world = diamond();
    world.turn();
    crash(&mut world, 1);
    assert_eq!(world.status().phase, WorkflowRunPhase::Pending);
    assert_eq!(world.turn(), Action::None);
    assert_eq!(world.step_phases("a"), [StepPhase::Running]);
    assert_eq!(
        world.job("a").steps[0].run_name.as_ref(),
        Some(&world.created[0].name)
    );
    assert_eq!(world.phase(), WorkflowRunPhase::Running);
}

#[test]
fn w_159_a_run_that_finished_meanwhile_goes_straight_to_its_end() {
    let mut world = diamond();
    world.turn();
    crash(&mut world, 1);
    world.succeed("a", "s", &[("k", "v")]);
    world.starts(&["l/s", "r/s"]);
    assert_eq!(world.job("a").phase, JobPhase::Succeeded);
    assert_eq!(world.job("a").steps[0].outputs["k"], "v");
}

#[test]
fn w_161_missing_children_of_one_action_are_created_and_others_reused() {
    let mut world = World::accepted(jobs([("a", a_job()), ("b", a_job()), ("c", a_job())]));
    crash(&mut world, 2);
    world.starts(&["c/s"]);
    let running = [
        ("a", JobPhase::Running),
        ("b", JobPhase::Running),
        ("c", JobPhase::Running),
    ];
    assert_eq!(world.phases(), running);
}

#[test]
fn w_162_the_rest_is_cancelled_and_none_twice() {
    let mut world = World::accepted(jobs([("a", a_job()), ("b", a_job()), ("c", a_job())]));
    world.turn();
    world.state.spec.cancel_requested = true;
    crash(&mut world, 1);
    assert_eq!(World::names(&world.turn()).len(), 2);
    assert_eq!(world.asked.len(), 3);
}

#[test]
fn w_164_a_crash_after_any_write_of_any_turn_changes_nothing_in_the_end() {
    let want = undisturbed();
    for window in 0..24 {
        for writes in 0..3 {
            let mut world = diamond();
            let mut turns = 0;
            loop {
                if turns == window {
                    crash(&mut world, writes);
                } else {
                    world.turn();
                }
                turns += 1;
                let before = world.state.status.clone();
                let quiet = world.decide();
                if quiet.action == Action::None && quiet.desired == before && !world.succeed_any() {
                    break;
                }
            }
            assert_eq!(world.state.status, want, "window {window}, {writes} writes");
            assert_eq!(world.created.len(), 5);
        }
    }
}
