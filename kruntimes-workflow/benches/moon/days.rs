//! Executions from the first step to the end, with an executor that does nothing.

use kruntimes_core::api::{RunPhase, WorkflowRunPhase};
use kruntimes_workflow::plan::{
    Action, Child, Compiled, Engine, Observation, Outcome, StartStep, State, Workspace, calculate,
    merge,
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
    let mut running = std::collections::VecDeque::new();
    loop {
        let turn = engine.turn();
        for mut start in turn.targets.steps {
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
    assert_eq!(engine.status().phase, WorkflowRunPhase::Succeeded);
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
