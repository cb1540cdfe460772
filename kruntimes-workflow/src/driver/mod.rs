//! A ready-made loop around the turn, for programs that have no Kubernetes.
//!
//! Three small traits are all a program brings: an [`Executor`] that runs
//! steps, a [`Source`] of definitions and a [`Store`] of states. [`Driver`] is
//! the blocking flavour, [`future`] the same with futures of any runtime, and
//! [`Session`] is what both are made of: it decides, they carry out.
//!
//! What a step does to the world cannot be undone, so it is recorded before it
//! is begun. After a crash [`Driver::run`] goes on from the stored state: what
//! was recorded as finished is never begun again, and what was under way is
//! looked for with [`Executor::attach`].
//!
//! ```
//! use std::collections::BTreeMap;
//! use kruntimes_workflow::driver::{Closure, Driver, End, MemoryStore, Shelf};
//! use kruntimes_workflow::model::{Job, Step};
//!
//! let step = Step { name: "greet".into(), run: Some("hello".into()), ..Step::default() };
//! let job = Job { runs_on: Some("any".into()), steps: vec![step], ..Job::default() };
//! let steps = Closure::new(|launch| End::succeeded([("said", launch.script())]));
//! let mut driver = Driver::new(steps, Shelf::default(), MemoryStore::default());
//! driver.submit("demo", BTreeMap::from([("only".to_owned(), job)])).unwrap();
//! let end = driver.run("demo").unwrap();
//! assert_eq!(end.status.phase.as_str(), "Succeeded");
//! ```

mod by_runtime;
mod closure;
mod error;
mod execution;
#[cfg(test)]
mod extended_tests;
pub mod future;
mod launch;
mod resolver;
mod session;
mod shelf;
mod store;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use kruntimes_core::api::{ActionSpec, Job, WorkflowRunSpec, WorkflowRunStatus, WorkflowSpec};
use kruntimes_core::time::Time;

use crate::definitions::Definitions;
use crate::extend::Extensions;
use crate::trigger::{self, Naming, TriggerError};

pub use by_runtime::{ByRuntime, RouteError};
pub use closure::Closure;
pub use error::{Error, Outside};
pub use execution::{Execution, StateError, StepRun};
pub use launch::{Attached, End, Launch, News};
pub use resolver::{ResolveError, Resolver};
pub use session::{Command, Interrupted, Session};
pub use shelf::Shelf;
#[cfg(feature = "directory")]
pub use store::{DirectoryError, DirectoryStore};
pub use store::{MemoryStore, NeverFails};

/// Runs steps.
///
/// An error of any method stops the driver and leaves the stored state as it
/// is; a step that cannot be run is told by [`News::Ended`] instead.
pub trait Executor {
    /// Why nothing can be run at all.
    type Error: std::error::Error + Send + Sync + 'static;

    /// Begins a step and returns at once. Called once per name unless a crash intervened.
    ///
    /// # Errors
    ///
    /// Fails when nothing can be run at all.
    fn start(&mut self, launch: &Launch) -> Result<(), Self::Error>;

    /// Looks for a step that was under way when the process ended.
    ///
    /// Without an implementation nothing survives, and [`Interrupted`] decides.
    ///
    /// # Errors
    ///
    /// Fails when that cannot be known now.
    fn attach(&mut self, _launch: &Launch) -> Result<Attached, Self::Error> {
        Ok(Attached::Gone)
    }

    /// Asks a step to end; its end is told by [`Executor::wait`] as ever.
    ///
    /// # Errors
    ///
    /// Fails when it cannot be asked.
    fn cancel(&mut self, run: &str) -> Result<(), Self::Error>;

    /// Waits until something happens. Only called while a step is under way.
    ///
    /// # Errors
    ///
    /// Fails when that cannot be known any more.
    fn wait(&mut self) -> Result<News, Self::Error>;

    /// Waits until something happens, at most until a deadline passes (W-209).
    ///
    /// Without an implementation a deadline is noticed with the next news.
    ///
    /// # Errors
    ///
    /// Fails when that cannot be known any more.
    fn wait_until(&mut self, _deadline: Time) -> Result<Option<News>, Self::Error> {
        self.wait().map(Some)
    }
}

/// Knows reusable definitions.
pub trait Source {
    /// Why it cannot be asked.
    type Error: std::error::Error + Send + Sync + 'static;

    /// Reads a Workflow; `None` when there is none of that name.
    ///
    /// # Errors
    ///
    /// Fails when that cannot be known now.
    fn workflow(&mut self, name: &str) -> Result<Option<WorkflowSpec>, Self::Error>;

    /// Reads an Action; `None` when there is none of that name.
    ///
    /// # Errors
    ///
    /// Fails when that cannot be known now.
    fn action(&mut self, name: &str) -> Result<Option<ActionSpec>, Self::Error>;
}

/// Keeps states between two lives of the process.
pub trait Store {
    /// Why it does not work.
    type Error: std::error::Error + Send + Sync + 'static;

    /// Returns what was last saved under a name.
    ///
    /// # Errors
    ///
    /// Fails when that cannot be known now.
    fn load(&mut self, name: &str) -> Result<Option<String>, Self::Error>;

    /// Saves a state for good: either the old text or the new one is there after a crash.
    ///
    /// # Errors
    ///
    /// Fails when it is not certain that the text was saved.
    fn save(&mut self, name: &str, text: &str) -> Result<(), Self::Error>;
}

type Observer = Box<dyn FnMut(&str, &WorkflowRunStatus) + Send>;

/// Drives executions to their end, one at a time.
pub struct Driver<E, S, T> {
    executor: E,
    source: S,
    store: T,
    clock: Box<dyn FnMut() -> Time + Send>,
    interrupted: Interrupted,
    extensions: Extensions,
    observer: Observer,
}

impl<E: Executor, S: Source, T: Store> Driver<E, S, T> {
    /// Makes a driver whose clock stands still; see [`Driver::clock`].
    pub fn new(executor: E, source: S, store: T) -> Self {
        Self {
            executor,
            source,
            store,
            clock: Box::new(Time::default),
            interrupted: Interrupted::default(),
            extensions: Extensions::none(),
            observer: Box::new(|_, _| {}),
        }
    }

    /// Dates the conditions of a status.
    pub fn clock(mut self, clock: impl FnMut() -> Time + Send + 'static) -> Self {
        self.clock = Box::new(clock);
        self
    }

    /// Decides what becomes of steps that a crash interrupted.
    pub fn interrupted(mut self, interrupted: Interrupted) -> Self {
        self.interrupted = interrupted;
        self
    }

    /// Accepts more than the built-in API (section 18.1).
    pub fn extensions(mut self, extensions: Extensions) -> Self {
        self.extensions = extensions;
        self
    }

    /// Shows every stored status; [`crate::explain::changes`] turns two of them into events.
    pub fn observer(mut self, see: impl FnMut(&str, &WorkflowRunStatus) + Send + 'static) -> Self {
        self.observer = Box::new(see);
        self
    }

    /// Gives the parts back.
    pub fn into_parts(self) -> (E, S, T) {
        (self.executor, self.source, self.store)
    }

    /// Stores a new execution of a Workflow with its inputs filled in.
    ///
    /// # Errors
    ///
    /// Fails when there is no such Workflow, when one it calls is missing, when
    /// the values do not fit its inputs, or as [`Driver::submit`] does.
    pub fn trigger(
        &mut self,
        name: &str,
        workflow: &str,
        inputs: &BTreeMap<String, String>,
    ) -> Result<(), Error> {
        let mut known = Definitions::default();
        let naming = Naming::Named(name.to_owned());
        let triggered = loop {
            match trigger::trigger_with(workflow, &known, inputs, &naming, &self.extensions) {
                Err(TriggerError::Unread(names)) => {
                    for name in names {
                        let found = self.source.workflow(&name).map_err(Error::source)?;
                        known.workflows.insert(name, found.map(Arc::new));
                    }
                }
                decided => break decided?,
            }
        };
        self.create(&Execution::of_spec(
            name,
            triggered.spec,
            triggered.annotations,
            &self.extensions,
        )?)
    }

    /// Stores a new execution of inline jobs.
    ///
    /// # Errors
    ///
    /// Fails when the jobs are invalid, the name is taken, or the store fails.
    pub fn submit(&mut self, name: &str, jobs: BTreeMap<String, Job>) -> Result<(), Error> {
        let spec = WorkflowRunSpec {
            jobs,
            ..WorkflowRunSpec::default()
        };
        self.submit_spec(name, spec, BTreeMap::new())
    }

    /// Stores a new execution of a whole spec, such as that of a [`crate::rerun::Rerun`].
    ///
    /// # Errors
    ///
    /// Fails as [`Driver::submit`] does.
    pub fn submit_spec(
        &mut self,
        name: &str,
        spec: WorkflowRunSpec,
        annotations: BTreeMap<String, String>,
    ) -> Result<(), Error> {
        self.create(&Execution::of_spec(
            name,
            spec,
            annotations,
            &self.extensions,
        )?)
    }

    fn create(&mut self, execution: &Execution) -> Result<(), Error> {
        let name = &execution.name;
        if self.store.load(name).map_err(Error::store)?.is_some() {
            return Err(Error::Conflict(name.clone()));
        }
        let saved = self.store.save(name, &execution.to_json());
        saved.map_err(Error::store)
    }

    /// Asks a stored execution to cancel; the next [`Driver::run`] carries it out.
    ///
    /// # Errors
    ///
    /// Fails when there is no such execution or the store fails.
    pub fn cancel(&mut self, name: &str) -> Result<(), Error> {
        let mut execution = self.load(name)?;
        execution.spec.cancel_requested = true;
        let saved = self.store.save(name, &execution.to_json());
        saved.map_err(Error::store)
    }

    /// Reads a stored execution.
    ///
    /// # Errors
    ///
    /// Fails when there is no such execution, or when it cannot be read.
    pub fn load(&mut self, name: &str) -> Result<Execution, Error> {
        let text = self.store.load(name).map_err(Error::store)?;
        let text = text.ok_or_else(|| Error::Unknown(name.to_owned()))?;
        Ok(Execution::from_json(&text)?)
    }

    /// Drives a stored execution to its end, from wherever it is.
    ///
    /// # Errors
    ///
    /// Fails when a part of the driver does. The state stays stored and can be run again.
    pub fn run(&mut self, name: &str) -> Result<Execution, Error> {
        let mut session = Session::new(self.load(name)?, self.interrupted);
        session.accept(self.extensions.clone());
        loop {
            match session.next((self.clock)())? {
                Command::Save { name, text } => {
                    self.store.save(&name, &text).map_err(Error::store)?;
                    if let Some(execution) = session.execution(&name) {
                        (self.observer)(&name, &execution.status);
                    }
                }
                Command::Load(name) => {
                    let text = self.store.load(&name).map_err(Error::store)?;
                    session.loaded(&name, text.as_deref())?;
                }
                Command::ReadWorkflow(name) => {
                    let found = self.source.workflow(&name).map_err(Error::source)?;
                    session.workflow(&name, found);
                }
                Command::ReadAction(name) => {
                    let found = self.source.action(&name).map_err(Error::source)?;
                    session.action(&name, found);
                }
                Command::Attach(launch) => {
                    let found = self.executor.attach(&launch).map_err(Error::executor)?;
                    session.attached(&launch.name, found);
                }
                Command::Start(launch) => {
                    self.executor.start(&launch).map_err(Error::executor)?;
                }
                Command::Cancel(run) => {
                    self.executor.cancel(&run).map_err(Error::executor)?;
                }
                Command::Wait => {
                    let news = self.executor.wait().map_err(Error::executor)?;
                    session.tell(news);
                }
                Command::WaitUntil(deadline) => {
                    let news = self
                        .executor
                        .wait_until(deadline)
                        .map_err(Error::executor)?;
                    if let Some(news) = news {
                        session.tell(news);
                    }
                }
                Command::Done => return Ok(session.into_execution()),
            }
        }
    }
}
