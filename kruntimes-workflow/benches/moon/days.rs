//! Executions from the first step to the end, with an executor that does nothing.

use std::collections::{BTreeMap, VecDeque};

use kruntimes_core::api::{Job, RunPhase, WorkflowRunPhase};
use kruntimes_workflow::graph::{Ending, Graph, Next, Progress};
use kruntimes_workflow::plan::{
    Action, Child, Compiled, Engine, Observation, Outcome, StartStep, State, Turn, Workspace,
    calculate, merge,
};

/// The Run of a step, at its end.
fn ended(start: StartStep) -> Child {
    Child {
        name: start.name,
        job: start.key.job,
        step: start.key.step,
        phase: RunPhase::Succeeded,
        workspace: start.spec.workspace.map(|used| used.name),
        ..Child::default()
    }
}

/// Lives a whole execution with an engine; a step that starts and one that ends are a transition each.
pub(crate) fn folded(compiled: &Compiled<'_>, state: State) -> usize {
    let mut engine = Engine::resume(compiled, state).expect("it was accepted");
    let mut transitions = 0;
    // The step that became possible first ends first.
    let mut running = VecDeque::new();
    let mut turn = Turn::default();
    loop {
        engine.turn_into(&mut turn);
        for mut start in turn.targets.steps.drain(..) {
            if let Some(workspace) = start.workspace.take() {
                engine.observe(Observation::Workspace(Workspace {
                    name: workspace.name,
                    ..Workspace::default()
                }));
            }
            let (key, name) = (start.key.clone(), start.name.clone());
            engine.observe(Observation::Outcome(Outcome::Started { key, name }));
            transitions += 1;
            running.push_back(start);
        }
        let Some(start) = running.pop_front() else {
            break;
        };
        engine.observe(Observation::Run(ended(start)));
        transitions += 1;
    }
    assert_eq!(engine.phase(), WorkflowRunPhase::Succeeded);
    transitions
}

/// Lives a whole execution by order alone, without texts and names.
pub(crate) fn ordered(graph: &Graph<'_>, jobs: &BTreeMap<String, Job>) -> usize {
    let mut next = Vec::new();
    let mut progress = Progress::new(graph, jobs, &mut next);
    let (mut transitions, mut at) = (0, 0);
    let child = Child {
        phase: RunPhase::Succeeded,
        ..Child::default()
    };
    while let Some(one) = next.get(at).copied() {
        at += 1;
        if let Next::Start(job, step) = one {
            progress.see(job, step, &child, &mut next);
            transitions += 2;
        }
    }
    assert_eq!(next.last(), Some(&Next::Ended(Ending::Succeeded)));
    transitions
}

/// The state in which the most is known and something is still to be started.
pub(crate) fn latest(state: State) -> State {
    let mut state = state;
    let mut before = state.clone();
    loop {
        let step = calculate(&state);
        let Action::StartRunnableSteps(targets) = step.action else {
            return before;
        };
        before.clone_from(&state);
        let mut outcomes = Vec::new();
        for mut start in targets.steps {
            let (key, name) = (start.key.clone(), start.name.clone());
            outcomes.push(Outcome::Started { key, name });
            if let Some(workspace) = start.workspace.take() {
                state.workspaces.push(Workspace {
                    name: workspace.name,
                    ..Workspace::default()
                });
            }
            state.children.push(ended(start));
        }
        state.status = merge(step.desired, &outcomes);
    }
}
