//! The loop without its effects: what to do next, and what came of it.

use std::collections::VecDeque;
use std::sync::Arc;

use kruntimes_core::time::Time;

use super::{Attached, End, Error, Execution, Launch, News, StepRun};
use crate::plan::{Action, Child, Need, Outcome, StartStep, State, Step, calculate, merge};

/// Namespace of everything a driver runs; it only shows in messages.
const NAMESPACE: &str = "local";
/// How often one turn may ask for more facts.
const ASKED_MAX: usize = 1000;

/// What the owner of a [`Session`] has to do next.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Command {
    /// Store the text under the name before anything else.
    Save {
        /// Name of the execution.
        name: String,
        /// Its state.
        text: String,
    },
    /// Look for a step that was under way and tell [`Session::attached`].
    Attach(Launch),
    /// Begin a step.
    Start(Launch),
    /// Ask a step to end, by the name of its launch.
    Cancel(String),
    /// Wait for [`News`] and hand them to [`Session::tell`].
    Wait,
    /// Nothing: the end is reached and stored.
    Done,
}

/// What becomes of a step that was under way when the process ended and that nobody knows any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Interrupted {
    /// It is begun again: right for steps that may run twice.
    #[default]
    Again,
    /// It counts as failed.
    Fail,
}

/// Decides about one execution, step by step.
#[derive(Debug)]
pub struct Session {
    execution: Execution,
    interrupted: Interrupted,
    queue: VecDeque<Command>,
    /// Whether something changed since the last turn.
    dirty: bool,
}

impl Session {
    /// Goes on with an execution, new or stored.
    pub fn new(execution: Execution, interrupted: Interrupted) -> Self {
        let runs = execution.runs.iter();
        let open = runs.filter(|(_, run)| !run.phase.is_terminal());
        let launches = open.filter_map(|(name, _)| execution.launch(name));
        let queue = launches.map(Command::Attach).collect();
        Self {
            execution,
            interrupted,
            queue,
            dirty: true,
        }
    }

    /// Returns an execution of this session.
    pub fn execution(&self, name: &str) -> Option<&Execution> {
        (self.execution.name == name).then_some(&self.execution)
    }

    /// Ends the session.
    pub fn into_execution(self) -> Execution {
        self.execution
    }

    /// Returns what to do next. Nothing else may be asked before it is done.
    ///
    /// # Errors
    ///
    /// Fails when the stored state contradicts itself.
    pub fn next(&mut self, now: Time) -> Result<Command, Error> {
        loop {
            if let Some(command) = self.queue.pop_front() {
                return Ok(command);
            }
            if self.dirty {
                self.turn(now)?;
                continue;
            }
            let mut runs = self.execution.runs.values();
            let waits = runs.any(|run| !run.phase.is_terminal());
            return Ok(if waits { Command::Wait } else { Command::Done });
        }
    }

    /// Takes what an executor found.
    pub fn attached(&mut self, run: &str, found: Attached) {
        let asked = self
            .execution
            .runs
            .get(run)
            .is_some_and(|run| run.cancel_asked);
        match (found, self.interrupted) {
            (Attached::Running, _) if asked => {
                self.queue.push_back(Command::Cancel(run.to_owned()));
            }
            (Attached::Running, _) => {}
            (Attached::Ended(end), _) => self.end(run, end),
            (Attached::Gone, _) if asked => self.end(run, End::cancelled()),
            (Attached::Gone, Interrupted::Fail) => {
                self.end(run, End::failed("it was interrupted and is not run again"));
            }
            (Attached::Gone, Interrupted::Again) => {
                self.queue
                    .extend(self.execution.launch(run).map(Command::Start));
            }
        }
    }

    /// Takes what happened.
    pub fn tell(&mut self, news: News) {
        match news {
            News::Ended { run, end } => self.end(&run, end),
            News::CancelRequested => {
                self.execution.spec.cancel_requested = true;
                self.dirty = true;
            }
        }
    }

    fn end(&mut self, run: &str, end: End) {
        if let Some(run) = self.execution.runs.get_mut(run) {
            run.end(end);
            self.dirty = true;
        }
    }

    fn turn(&mut self, now: Time) -> Result<(), Error> {
        let step = self.decide(now)?;
        let before = self.execution.status.clone();
        let (outcomes, effects) = self.record(step.action);
        self.execution.status = merge(step.desired, &outcomes);
        let changed = before != self.execution.status || !effects.is_empty();
        if changed {
            self.queue.push_back(Command::Save {
                name: self.execution.name.clone(),
                text: self.execution.to_json(),
            });
        }
        self.queue.extend(effects);
        self.dirty = changed;
        Ok(())
    }

    /// Calculates with everything that is known; what a driver did not begin does not exist.
    fn decide(&self, now: Time) -> Result<Step, Error> {
        let mut state = self.state(now);
        state.check()?;
        for _ in 0..ASKED_MAX {
            let step = calculate(&state);
            if step.needs.is_empty() {
                return Ok(step);
            }
            for need in step.needs {
                let Need::ConfirmRun(name) = need;
                state.absent.insert(name);
            }
        }
        Err(Error::Unsettled(self.execution.name.clone()))
    }

    fn state(&self, now: Time) -> State {
        let execution = &self.execution;
        State {
            now,
            namespace: NAMESPACE.to_owned(),
            name: execution.name.clone(),
            uid: execution.uid.clone(),
            annotations: execution.annotations.clone(),
            spec: execution.spec.clone(),
            status: execution.status.clone(),
            snapshot: execution.snapshot.clone().map(Arc::new),
            children: execution.runs.iter().map(child).collect(),
            ..State::default()
        }
    }

    /// Writes an action down; returns what came of it and what is still to be carried out.
    fn record(&mut self, action: Action) -> (Vec<Outcome>, Vec<Command>) {
        match action {
            Action::None => (Vec::new(), Vec::new()),
            Action::Initialize(initialize) => {
                if let Some(snapshot) = initialize.snapshot {
                    self.execution.snapshot = Some(Arc::unwrap_or_clone(snapshot));
                }
                (Vec::new(), Vec::new())
            }
            Action::StartRunnableSteps(starts) => {
                let both = starts.into_iter().map(|start| self.begin(start));
                both.unzip()
            }
            Action::RequestChildCancellation(names) => {
                for name in &names {
                    if let Some(run) = self.execution.runs.get_mut(name) {
                        run.cancel_asked = true;
                    }
                }
                (Vec::new(), names.into_iter().map(Command::Cancel).collect())
            }
        }
    }

    fn begin(&mut self, start: StartStep) -> (Outcome, Command) {
        let run = StepRun {
            job: start.key.job.clone(),
            step: start.key.step.clone(),
            action_step: start.key.action_step.clone(),
            spec: start.spec.clone(),
            ..StepRun::default()
        };
        self.execution.runs.insert(start.name.clone(), run);
        let launch = Launch {
            execution: self.execution.name.clone(),
            key: start.key.clone(),
            name: start.name.clone(),
            spec: start.spec,
        };
        let (key, name) = (start.key, start.name);
        (Outcome::Started { key, name }, Command::Start(launch))
    }
}

fn child((name, run): (&String, &StepRun)) -> Child {
    Child {
        name: name.clone(),
        uid: name.clone(),
        job: run.job.clone(),
        step: run.step.clone(),
        action_step: run.action_step.clone(),
        phase: run.phase,
        outputs: run.outputs.clone(),
        artifacts: run.artifacts.clone(),
        cancel_asked: run.cancel_asked,
        message: run.message.clone(),
        ..Child::default()
    }
}
