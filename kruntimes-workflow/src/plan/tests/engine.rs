//! The engine decides what the turn decides: every day of random graphs is lived by both.

use std::sync::Arc;

use proptest::prelude::*;
use proptest::sample::Index;

use super::laws::{any_event, any_graph_with};
use super::*;
use crate::graph::{Graph, Next, Progress};
use crate::snapshot::Snapshot;

/// One execution as an engine lives it, told by a world what happens there.
struct Mirror<'a> {
    engine: Engine<'a>,
    created: Vec<StartStep>,
}

impl Mirror<'_> {
    /// Tells what a world that settled shows, and carries out what becomes possible.
    ///
    /// What an engine starts must exist in the world: the world is one turn ahead.
    fn follow(&mut self, world: &World, seen: &mut Vec<Child>) {
        let here = |child: &Child| {
            world
                .state
                .children
                .iter()
                .any(|one| one.name == child.name)
        };
        for gone in seen.extract_if(.., |child| !here(child)) {
            self.created.retain(|start| start.name != gone.name);
            self.engine.observe(Observation::RunGone {
                key: StepKey {
                    job: gone.job,
                    step: gone.step,
                    action_step: gone.action_step,
                },
                name: gone.name,
            });
        }
        loop {
            for child in &world.state.children {
                let old = seen.iter_mut().find(|old| old.name == child.name);
                match old {
                    Some(old) if old == child => {}
                    Some(old) => {
                        old.clone_from(child);
                        self.engine.observe(Observation::Run(child.clone()));
                    }
                    // It is told with the outcome of its start.
                    None => {}
                }
            }
            let turn = self.engine.turn();
            assert_eq!(turn.needs, [], "everything was told");
            if turn.targets.is_empty() {
                return;
            }
            for start in turn.targets.steps {
                let child = world.state.children.iter();
                let child = child.clone().find(|child| child.name == start.name);
                if let Some(workspace) = &start.workspace {
                    self.engine.observe(Observation::Workspace(Workspace {
                        name: workspace.name.clone(),
                        ..Workspace::default()
                    }));
                }
                let (key, name) = (start.key.clone(), start.name.clone());
                self.created.push(start);
                self.engine
                    .observe(Observation::Outcome(Outcome::Started { key, name }));
                let child = child.expect("the world started it too").clone();
                self.engine.observe(Observation::Run(child.clone()));
                seen.push(child);
            }
        }
    }
}

fn sorted(mut created: Vec<StartStep>) -> Vec<StartStep> {
    created.sort_by(|a, b| a.key.cmp(&b.key));
    created
}

/// Texts that read other steps and jobs, some of which do not evaluate.
const SCRIPTS: [&str; 6] = [
    "true",
    "echo ${{ steps.s0.outputs.o }}",
    "echo ${{ jobs.j0.outputs.o }}",
    "echo ${{ steps.nobody.outputs.o }}",
    "${{ '${{' }}",
    "echo ${{",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    /// After everything that happens, both have started the same with the same words, and
    /// both states are equal to the last byte.
    #[test]
    fn w_182_w_196_the_incremental_fold_gives_what_the_full_derivation_gives(
        graph in any_graph_with(&SCRIPTS),
        days in prop::collection::vec(prop::collection::vec(any_event(), 1..3), 0..24),
        takeover in any::<Index>(),
    ) {
        let mut world = World::accepted_or_not(graph);
        prop_assume!(world.status().jobs.is_some());
        let snapshot: Arc<Snapshot> = world.state.snapshot.clone().unwrap();
        let compiled = Compiled::new(&snapshot).unwrap();
        let engine = Engine::resume(&compiled, world.state.clone()).unwrap();
        let mut mirror = Mirror { engine, created: Vec::new() };
        let mut seen = Vec::new();
        let changed = takeover.index(days.len() + 1);
        for (day, events) in days.iter().enumerate() {
            world.settle();
            mirror.follow(&world, &mut seen);
            prop_assert_eq!(&mirror.engine.status(), world.status());
            prop_assert_eq!(sorted(mirror.created.clone()), sorted(world.created.clone()));
            if world.phase().is_terminal() {
                break;
            }
            if day == changed {
                // The state goes back and forth between the two.
                let state = mirror.engine.into_state();
                mirror.engine = Engine::resume(&compiled, state).unwrap();
            }
            for event in events {
                world.suffer_what_ends(event);
            }
        }
        world.settle();
        mirror.follow(&world, &mut seen);
        // What is cancelled is given back, and all children are where they were.
        let mut other = world.clone();
        other.state = mirror.engine.into_state();
        for world in [&mut world, &mut other] {
            world.state.spec.cancel_requested = true;
            world.settle();
            while world.succeed_any() {
                world.settle();
            }
        }
        prop_assert_eq!(other.status(), world.status());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// The course that knows no texts takes every job where the turn takes it.
    #[test]
    fn w_187_w_196_the_course_of_plain_jobs_is_that_of_the_turn(
        graph in any_graph_with(&["true"]),
        ends in prop::collection::vec((any::<Index>(), prop::bool::weighted(0.8)), 64),
    ) {
        let mut world = World::accepted(graph.clone());
        let compiled = Graph::compile(&graph).unwrap();
        let mut next = Vec::new();
        let mut progress = Progress::new(&compiled, &graph, &mut next);
        for (which, well) in ends {
            world.settle();
            let idle = |phase| if phase == JobPhase::Pending { JobPhase::Waiting } else { phase };
            for (name, phase) in world.phases() {
                let job = compiled.find(name).unwrap();
                prop_assert_eq!(progress.phase(job), idle(phase), "{}", name);
            }
            let open: Vec<usize> = (0..world.state.children.len())
                .filter(|at| !world.state.children[*at].phase.is_terminal())
                .collect();
            if open.is_empty() {
                break;
            }
            let child = &mut world.state.children[open[which.index(open.len())]];
            child.phase = if well { RunPhase::Succeeded } else { RunPhase::Failed };
            let job = compiled.find(&child.job).unwrap();
            let step = graph[&child.job].steps.iter().position(|step| step.name == child.step);
            progress.see(job, step.unwrap(), child, &mut next);
        }
        prop_assert!(world.phase().is_terminal());
        let ended = next.iter().filter(|next| matches!(next, Next::Ended(_))).count();
        prop_assert_eq!(ended, 1);
    }
}

fn engine_of(world: &World, check: impl FnOnce(Engine<'_>)) {
    let snapshot = world.state.snapshot.clone().unwrap();
    let compiled = Compiled::new(&snapshot).unwrap();
    check(Engine::resume(&compiled, world.state.clone()).unwrap());
}

#[test]
fn w_61_what_could_not_be_started_is_yielded_again() {
    let world = World::accepted(jobs([("a", a_job()), ("b", a_job())]));
    engine_of(&world, |mut engine| {
        let first = engine.turn();
        assert_eq!(first.targets.steps.len(), 2);
        assert_eq!(engine.turn(), Turn::default());
        engine.observe(Observation::NotStarted("a".into()));
        let again = engine.turn();
        assert_eq!(again.targets.steps, first.targets.steps[..1]);
    });
}

#[test]
fn w_82_w_125_what_is_gone_ends_its_job_in_an_engine_too() {
    let two = || a_job().step("one", "1").step("two", "2");
    let mut world = World::accepted(jobs([("a", two()), ("b", two())]));
    world.settle();
    engine_of(&world, |mut engine| {
        engine.turn();
        let run = world.job("a").steps[0].run_name.clone().unwrap();
        engine.observe(Observation::RunGone {
            key: StepKey {
                job: "a".into(),
                step: "one".into(),
                action_step: None,
            },
            name: run,
        });
        let workspace = kruntimes_core::names::job_workspace("wfr", "b");
        engine.observe(Observation::WorkspaceGone(workspace));
        let turn = engine.turn();
        let run = world.job("b").steps[0].run_name.clone().unwrap();
        assert_eq!(turn.cancel.runs, [run.as_str()]);
        let status = engine.status();
        let jobs = status.jobs.unwrap();
        assert_eq!(jobs["a"].reason.as_deref(), Some("ChildMissing"));
        assert_eq!(jobs["b"].reason.as_deref(), Some("WorkspaceLost"));
        let mut ended = world.state.children[1].clone();
        ended.phase = RunPhase::Cancelled;
        engine.observe(Observation::Run(ended));
        engine.turn();
        assert_eq!(engine.status().phase, WorkflowRunPhase::Failed);
    });
}

#[test]
fn w_96_w_183_an_engine_asks_for_what_a_call_needs() {
    let call = |workflow: &str| {
        let mut job = a_job().build();
        job.runs_on = None;
        job.steps.clear();
        job.uses = Some(workflow.to_owned());
        job
    };
    let world = World::accepted(BTreeMap::from([("c".to_owned(), call("lib"))]));
    let child = kruntimes_core::names::child_workflow_run("wfr", "c");
    engine_of(&world, |mut engine| {
        assert_eq!(
            engine.turn().needs,
            [Need::ConfirmWorkflowRun(child.clone())]
        );
        engine.observe(Observation::CallGone(child.clone()));
        assert_eq!(engine.turn().needs, [Need::Workflow("lib".into())]);
        let jobs = jobs([("inner", a_job())]);
        let spec = kruntimes_core::api::WorkflowSpec {
            jobs,
            ..Default::default()
        };
        engine.observe(Observation::Workflow("lib".into(), Some(Arc::new(spec))));
        let turn = engine.turn();
        assert_eq!(turn.needs, []);
        assert_eq!(turn.targets.calls[0].name, child);
        let called = Outcome::Called {
            job: "c".into(),
            name: child.clone(),
        };
        engine.observe(Observation::Outcome(called));
        let ended = |phase| Called {
            name: child.clone(),
            status: WorkflowRunStatus {
                phase,
                ..WorkflowRunStatus::default()
            },
            ..Called::default()
        };
        engine.observe(Observation::Call(ended(WorkflowRunPhase::Running)));
        assert_eq!(engine.turn(), Turn::default());
        engine.observe(Observation::Call(ended(WorkflowRunPhase::Succeeded)));
        engine.turn();
        assert_eq!(engine.status().phase, WorkflowRunPhase::Succeeded);
    });
    engine_of(&world, |mut engine| {
        engine.observe(Observation::CallGone(child));
        engine.turn();
        engine.observe(Observation::Workflow("lib".into(), None));
        engine.turn();
        let status = engine.status();
        assert_eq!(status.phase, WorkflowRunPhase::Failed);
        assert_eq!(
            status.jobs.unwrap()["c"].reason.as_deref(),
            Some("CallNotFound")
        );
    });
}

#[test]
fn an_engine_refuses_a_state_that_is_not_its_own() {
    let mut world = World::accepted(jobs([("a", a_job())]));
    let snapshot = world.state.snapshot.clone().unwrap();
    let compiled = Compiled::new(&snapshot).unwrap();
    let refused = |state: &State| Engine::resume(&compiled, state.clone()).unwrap_err();
    let other = World::accepted(jobs([("b", a_job())]));
    assert_eq!(refused(&other.state), Unfit::Different);
    assert_eq!(
        refused(&World::new(jobs([("a", a_job())])).state),
        Unfit::Empty
    );
    world.state.spec.cancel_requested = true;
    assert_eq!(refused(&world.state), Unfit::Ending);
}
