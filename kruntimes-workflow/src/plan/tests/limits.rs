//! The largest and the longest that must still work.

use super::*;

#[test]
fn w_168_the_widest_graph_is_planned_and_finishes() {
    let wide = |steps: usize| {
        (0..64)
            .map(|n| {
                let add =
                    |job: crate::testing::JobBuilder, s: usize| job.step(&format!("s{s}"), "true");
                (format!("j{n:02}"), (0..steps).fold(a_job(), add).build())
            })
            .collect()
    };
    let mut world = World::accepted(wide(128));
    assert_eq!(World::names(&world.turn()).len(), 64);
    for n in 0..64 {
        world.succeed(&format!("j{n:02}"), "s0", &[]);
    }
    assert_eq!(World::names(&world.turn()).len(), 64);
    let mut world = World::accepted(wide(3));
    for _ in 0..4 {
        world.turn();
        while world.succeed_any() {}
    }
    assert_eq!(world.phase(), WorkflowRunPhase::Succeeded);
    assert_eq!(world.created.len(), 192);
}

#[test]
fn w_168_a_chain_of_64_jobs_finishes() {
    let chain = (0..64).map(|n| {
        let previous = format!("j{:02}", n - 1);
        let needs = if n == 0 {
            vec![]
        } else {
            vec![previous.as_str()]
        };
        (format!("j{n:02}"), a_job().needs(&needs).build())
    });
    let mut world = World::accepted(chain.collect());
    let mut turns = 0;
    while world.phase() != WorkflowRunPhase::Succeeded {
        world.turn();
        world.succeed_any();
        turns += 1;
    }
    assert_eq!((turns, world.created.len()), (65, 64));
}

#[test]
fn w_74_a_failure_at_the_head_skips_the_whole_chain_whatever_the_names() {
    // Names run against the order of dependency.
    let chain = (0..64).map(|n: usize| {
        let previous = format!("j{:02}", 64 - n);
        let needs = if n == 0 {
            vec![]
        } else {
            vec![previous.as_str()]
        };
        (format!("j{:02}", 63 - n), a_job().needs(&needs).build())
    });
    let mut world = World::accepted(chain.collect());
    world.turn();
    world.end("j63", "s", RunPhase::Failed);
    world.turn();
    assert_eq!(world.phase(), WorkflowRunPhase::Failed);
    assert_eq!(world.job("j00").phase, JobPhase::Skipped);
}

#[test]
fn case_038_a_graph_whose_status_cannot_fit_is_refused_with_a_number() {
    let name = |n: usize| format!("{n:060}");
    let graph = (0..64).map(|j| {
        let add = |job: crate::testing::JobBuilder, s: usize| job.step(&name(s), "true");
        (name(j), (0..128).fold(a_job(), add).build())
    });
    let mut world = World::new(graph.collect());
    world.turn();
    assert_eq!(world.phase(), WorkflowRunPhase::Failed);
    assert!(
        world.message().starts_with("workflow status may grow to 1")
            && world
                .message()
                .ends_with(" bytes, exceeds 1000000 byte limit"),
        "{}",
        world.message()
    );
}

#[test]
fn w_71_w_179_long_texts_are_cut_so_the_status_can_be_written() {
    let mut world = World::accepted(jobs([("a", a_job())]));
    world.turn();
    world.end("a", "s", RunPhase::Failed);
    world.run("a", "s").message = "é".repeat(150 * 1024);
    world.turn();
    assert!(world.message().len() <= 4096 && world.message().ends_with("..."));
    let completed = world.condition("Completed").unwrap().2;
    assert!(completed.len() <= 4096);
}

#[test]
fn w_179_long_names_and_a_large_rendered_script_work() {
    let large = "${{ steps.s.outputs.k }}".repeat(25);
    let mut world = World::new(jobs([("a", a_job().step("s", "1").step("t", &large))]));
    world.state.name = "n".repeat(253);
    world.turn();
    world.turn();
    world.succeed("a", "s", &[("k", &"v".repeat(8192))]);
    world.starts(&["a/t"]);
    assert!(world.created.iter().all(|run| run.name.len() <= 253));
    let source = world.created[1].spec.source.as_ref().unwrap();
    assert_eq!(source.inline.as_ref().unwrap().len(), 25 * 8192);
}

#[test]
fn w_57_nonsense_does_not_panic() {
    let mut world = World::accepted(jobs([("a", a_job())]));
    let states = world.state.status.jobs.as_mut().unwrap();
    states.insert(
        "ghost".into(),
        JobStatus {
            pre: vec!["nobody".into()],
            ..JobStatus::default()
        },
    );
    states.insert(
        "empty".into(),
        JobStatus {
            phase: JobPhase::Running,
            ..JobStatus::default()
        },
    );
    let mut without_snapshot = world.state.clone();
    without_snapshot.snapshot = None;
    assert!(without_snapshot.check().is_err());
    assert_eq!(calculate(&without_snapshot).action, Action::None);
    assert_eq!(World::names(&calculate(&world.state).action), ["a/s"]);
    assert!(
        merge(
            WorkflowRunStatus::default(),
            &[Outcome::Started {
                key: StepKey::default(),
                name: "x".into(),
            }]
        )
        .jobs
        .is_none()
    );
}

#[test]
fn w_54_a_picture_that_contradicts_itself_is_refused() {
    let world = World::accepted(jobs([("a", a_job())]));
    let mut state = world.state.clone();
    state.snapshot = None;
    let named = state.status.snapshot_name.clone().unwrap();
    assert_eq!(
        state.check().unwrap_err().to_string(),
        format!("workflow snapshot ns/{named} does not exist")
    );
    state.status.snapshot_name = None;
    assert_eq!(
        state.check().unwrap_err().to_string(),
        "workflowrun ns/wfr has initialized jobs without an execution snapshot"
    );
    state.status.phase = WorkflowRunPhase::Succeeded;
    assert!(state.check().is_ok());
}
