//! The loop without its effects: what to do next, and what came of it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use kruntimes_core::api::{ActionSpec, WorkflowSpec};
use kruntimes_core::keys::ANNOTATION_REPLACED_BY;
use kruntimes_core::time::Time;

use super::{Attached, End, Error, Execution, Launch, News};
use crate::definitions::Definitions;
use crate::extend::Extensions;
use crate::plan::{Action, Need, Outcome, State, Step, calculate, merge};

/// How often one turn may ask for more facts: once per definition, and the graph of calls is bounded.
const ASKED_MAX: usize = 10_000;

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
    /// Read what is stored under the name and hand it to [`Session::loaded`].
    Load(String),
    /// Look for a step that was under way and tell [`Session::attached`].
    Attach(Launch),
    /// Begin a step.
    Start(Launch),
    /// Ask a step to end, by the name of its launch.
    Cancel(String),
    /// Read a Workflow and hand it to [`Session::workflow`].
    ReadWorkflow(String),
    /// Read an Action and hand it to [`Session::action`].
    ReadAction(String),
    /// Wait as for [`Command::Wait`], at most until a deadline passes; then ask for the next command.
    WaitUntil(Time),
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

/// Decides about one execution and those it calls, step by step.
#[derive(Debug)]
pub struct Session {
    root: String,
    /// The execution and everything it called, by name.
    executions: BTreeMap<String, Execution>,
    interrupted: Interrupted,
    queue: VecDeque<Command>,
    /// Executions that changed since their last turn.
    dirty: BTreeSet<String>,
    /// What was read for the turn that is being decided.
    facts: Facts,
    asked: usize,
    extensions: Extensions,
    /// When executions are to be looked at although nothing happened.
    wakes: BTreeMap<String, Time>,
}

/// Facts that a turn asked for. They are not used for the next one: definitions may change.
#[derive(Debug, Default)]
struct Facts {
    definitions: Definitions,
    absent: BTreeSet<String>,
    absent_calls: BTreeSet<String>,
    /// Names that are taken by executions of their own.
    foreign: BTreeSet<String>,
}

impl Session {
    /// Goes on with an execution, new or stored.
    pub fn new(execution: Execution, interrupted: Interrupted) -> Self {
        let mut session = Self {
            root: execution.name.clone(),
            executions: BTreeMap::new(),
            interrupted,
            queue: VecDeque::new(),
            dirty: BTreeSet::new(),
            facts: Facts::default(),
            asked: 0,
            extensions: Extensions::none(),
            wakes: BTreeMap::new(),
        };
        session.add(execution);
        session
    }

    /// Accepts more than the built-in API (section 18.1).
    pub fn accept(&mut self, extensions: Extensions) {
        self.extensions = extensions;
    }

    /// Takes an execution in, with the steps that were under way and the executions it called.
    fn add(&mut self, execution: Execution) {
        let open = execution
            .runs
            .iter()
            .filter(|(_, run)| !run.phase.is_terminal());
        let launches = open.filter_map(|(name, _)| execution.launch(name));
        self.queue.extend(launches.map(Command::Attach));
        if !execution.status.phase.is_terminal() {
            let jobs = execution.status.jobs.iter().flat_map(BTreeMap::values);
            let called = jobs.filter_map(|job| job.workflow_run_name.clone());
            self.queue.extend(called.map(Command::Load));
        }
        self.dirty.insert(execution.name.clone());
        self.executions.insert(execution.name.clone(), execution);
    }

    /// Returns an execution of this session.
    pub fn execution(&self, name: &str) -> Option<&Execution> {
        self.executions.get(name)
    }

    /// Ends the session.
    pub fn into_execution(mut self) -> Execution {
        self.executions.remove(&self.root).unwrap_or_default()
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
            let late = self.wakes.iter().filter(|(_, at)| **at <= now);
            let late: Vec<String> = late.map(|(name, _)| name.clone()).collect();
            for name in late {
                self.wakes.remove(&name);
                self.dirty.insert(name);
            }
            if let Some(name) = self.dirty.first().cloned() {
                self.turn(&name, now)?;
                continue;
            }
            let mut runs = self.executions.values().flat_map(|one| one.runs.values());
            if runs.any(|run| !run.phase.is_terminal()) {
                let next = self.wakes.values().min();
                return Ok(next.map_or(Command::Wait, |at| Command::WaitUntil(*at)));
            }
            let root = self.executions.get(&self.root);
            if root.is_some_and(|root| root.status.phase.is_terminal()) {
                return Ok(Command::Done);
            }
            return Err(Error::Unsettled(self.root.clone()));
        }
    }

    /// Takes what an executor found.
    pub fn attached(&mut self, run: &str, found: Attached) {
        let Some(execution) = self.owner(run) else {
            return;
        };
        let asked = execution.runs.get(run).is_some_and(|run| run.cancel_asked);
        let launch = execution.launch(run);
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
                self.queue.extend(launch.map(Command::Start));
            }
        }
    }

    /// Takes what happened.
    pub fn tell(&mut self, news: News) {
        match news {
            News::Ended { run, end } => self.end(&run, end),
            News::CancelRequested => {
                let root = self.root.clone();
                self.cancel(&root);
            }
        }
    }

    /// Takes a stored execution; `None` when there is none.
    ///
    /// # Errors
    ///
    /// Fails when the text is no state.
    pub fn loaded(&mut self, name: &str, text: Option<&str>) -> Result<(), Error> {
        let found = text.map(Execution::from_json).transpose()?;
        match found {
            Some(found) if self.owns(&found) => self.add(found),
            Some(_) => {
                self.facts.foreign.insert(name.to_owned());
                self.facts.absent_calls.insert(name.to_owned());
            }
            None => {
                self.facts.absent_calls.insert(name.to_owned());
            }
        }
        Ok(())
    }

    /// Takes a Workflow; `None` when there is none.
    pub fn workflow(&mut self, name: &str, spec: Option<WorkflowSpec>) {
        let known = &mut self.facts.definitions.workflows;
        known.insert(name.to_owned(), spec.map(Arc::new));
    }

    /// Takes an Action; `None` when there is none.
    pub fn action(&mut self, name: &str, spec: Option<ActionSpec>) {
        let known = &mut self.facts.definitions.actions;
        known.insert(name.to_owned(), spec.map(Arc::new));
    }

    fn owns(&self, found: &Execution) -> bool {
        let owner = found.owner.as_ref();
        owner.is_some_and(|owner| self.executions.contains_key(owner))
    }

    fn owner(&self, run: &str) -> Option<&Execution> {
        let mut all = self.executions.values();
        all.find(|execution| execution.runs.contains_key(run))
    }

    fn end(&mut self, run: &str, end: End) {
        let Some(name) = self.owner(run).map(|execution| execution.name.clone()) else {
            return;
        };
        let Some(execution) = self.executions.get_mut(&name) else {
            return;
        };
        let Some(found) = execution.runs.get_mut(run) else {
            return;
        };
        if found.again(&end) {
            let launch = execution.launch(run);
            let saved = self.save(&name);
            self.queue.extend(saved);
            self.queue.extend(launch.map(Command::Start));
            return;
        }
        found.end(end);
        self.dirty.insert(name);
    }

    fn cancel(&mut self, name: &str) {
        if let Some(execution) = self.executions.get_mut(name) {
            execution.spec.cancel_requested = true;
            self.dirty.insert(name.to_owned());
        }
    }

    /// Decides one turn, unless facts are missing: then they are asked for first.
    fn turn(&mut self, name: &str, now: Time) -> Result<(), Error> {
        let Some(execution) = self.executions.get(name) else {
            self.dirty.remove(name);
            return Ok(());
        };
        let before = execution.status.clone();
        let asked = execution.spec.cancel_requested;
        let Some(step) =
            self.decide(execution.state(now, self.executions.values(), &self.extensions))?
        else {
            return Ok(());
        };
        let foreign = std::mem::take(&mut self.facts).foreign;
        self.asked = 0;
        match step.wake {
            Some(at) => self.wakes.insert(name.to_owned(), at),
            None => self.wakes.remove(name),
        };
        let (outcomes, effects) = self.record(name, step.action, &foreign);
        let Some(execution) = self.executions.get_mut(name) else {
            return Ok(());
        };
        execution.status = merge(step.desired, &outcomes);
        let cancelled = execution.spec.cancel_requested;
        let changed = before != execution.status || !effects.is_empty() || asked != cancelled;
        if changed {
            if let Some(owner) = execution.owner.clone() {
                self.dirty.insert(owner);
            }
            let saved = self.save(name);
            // Children that were called are stored before the state that names them.
            let (saves, others): (Vec<_>, Vec<_>) = effects
                .into_iter()
                .partition(|effect| matches!(effect, Command::Save { .. }));
            self.queue.extend(saves);
            self.queue.extend(saved);
            self.queue.extend(others);
        } else {
            self.dirty.remove(name);
        }
        Ok(())
    }

    fn save(&self, name: &str) -> Option<Command> {
        let execution = self.executions.get(name)?;
        Some(Command::Save {
            name: name.to_owned(),
            text: execution.to_json(),
        })
    }

    /// Calculates with everything that is known; `None` when something is to be read first.
    fn decide(&mut self, mut state: State) -> Result<Option<Step>, Error> {
        state.check()?;
        state.definitions = self.facts.definitions.clone();
        state.absent_calls.clone_from(&self.facts.absent_calls);
        loop {
            state.absent.clone_from(&self.facts.absent);
            self.asked += 1;
            if self.asked > ASKED_MAX {
                return Err(Error::Unsettled(state.name));
            }
            let step = calculate(&state);
            if step.needs.is_empty() {
                return Ok(Some(step));
            }
            for need in step.needs {
                match need {
                    // What this driver did not begin does not exist.
                    Need::ConfirmRun(name) => {
                        self.facts.absent.insert(name);
                    }
                    Need::ConfirmWorkspace(name) => {
                        state.absent_workspaces.insert(name);
                    }
                    Need::ConfirmWorkflowRun(name) => self.queue.push_back(Command::Load(name)),
                    Need::Workflow(name) => self.queue.push_back(Command::ReadWorkflow(name)),
                    Need::Action(name) => self.queue.push_back(Command::ReadAction(name)),
                }
            }
            if !self.queue.is_empty() {
                return Ok(None);
            }
        }
    }

    /// Writes an action down; returns what came of it and what is still to be carried out.
    fn record(
        &mut self,
        name: &str,
        action: Action,
        foreign: &BTreeSet<String>,
    ) -> (Vec<Outcome>, Vec<Command>) {
        let (mut outcomes, mut effects) = (Vec::new(), Vec::new());
        let Some(execution) = self.executions.get_mut(name) else {
            return (outcomes, effects);
        };
        match action {
            Action::None => {}
            Action::Initialize(initialize) => {
                if let Some(snapshot) = initialize.snapshot {
                    execution.snapshot = Some(Arc::unwrap_or_clone(snapshot));
                }
            }
            Action::StartRunnableSteps(targets) => {
                for start in targets.steps {
                    let launch = execution.begin(&start);
                    let (key, name) = (start.key, start.name);
                    outcomes.push(Outcome::Started { key, name });
                    effects.push(Command::Start(launch));
                }
                let full_name = format!("{}/{name}", super::execution::NAMESPACE);
                for call in targets.calls {
                    if foreign.contains(&call.name) {
                        outcomes.push(Outcome::ForeignCall {
                            job: call.job,
                            child: format!("{}/{}", super::execution::NAMESPACE, call.name),
                            owner: full_name.clone(),
                        });
                        continue;
                    }
                    let child = Execution::called(name, &call);
                    self.dirty.insert(child.name.clone());
                    self.executions.insert(child.name.clone(), child);
                    effects.extend(self.save(&call.name));
                    let (job, name) = (call.job, call.name);
                    outcomes.push(Outcome::Called { job, name });
                }
            }
            Action::CancelItself { replaced_by } => {
                let key = ANNOTATION_REPLACED_BY.to_owned();
                execution.annotations.insert(key, replaced_by);
                execution.spec.cancel_requested = true;
            }
            Action::RequestChildCancellation(names) => {
                for run in names.runs {
                    if let Some(run) = execution.runs.get_mut(&run) {
                        run.cancel_asked = true;
                    }
                    effects.push(Command::Cancel(run));
                }
                for child in names.workflow_runs {
                    self.cancel(&child);
                    effects.extend(self.save(&child));
                }
            }
        }
        (outcomes, effects)
    }
}
