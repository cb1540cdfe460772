//! Executions by id: one critical section per id, no lock across a wait.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use kruntimes_proto::{
    ClientError, EventHub, EventStream, ExecuteRequest, Execution, Health, RuntimeClient,
};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::adapter::{Adapter, Manners, Plan, Program};
use crate::directory::{NoDirectory, WorkRoot};
use crate::process::{Command, Group, Pipes, SpawnError, Warm, reap_orphans};
use crate::run::{Run, Stop, Terms, drive};
use crate::work::{self, Work};

/// Sets how executions are supervised.
#[derive(Clone, Debug)]
pub struct Options {
    /// Between SIGTERM and SIGKILL (N-219).
    pub termination_grace: Duration,
    /// Directory with a file per living process group; see [`Command::records`].
    pub records: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            termination_grace: Duration::from_secs(2),
            records: None,
        }
    }
}

/// Keeps the executions of one server and their processes.
///
/// Clones share them. When the last clone is gone, everything that runs is stopped as by
/// [`shutdown`](Self::shutdown), and killed at once if the tokio runtime ends before that.
#[derive(Clone)]
pub struct Supervisor {
    inner: Arc<Inner>,
}

struct Inner {
    adapter: Box<dyn Adapter>,
    root: WorkRoot,
    options: Options,
    hub: Arc<EventHub>,
    table: Mutex<Table>,
    shutdown: CancellationToken,
    tasks: TaskTracker,
}

#[derive(Default)]
struct Table {
    closing: bool,
    runs: BTreeMap<String, Arc<Run>>,
    /// Serialises `execute` per id; an entry lives as long as somebody waits or works.
    turns: BTreeMap<String, Arc<tokio::sync::Mutex<()>>>,
}

impl fmt::Debug for Supervisor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let table = self.inner.table();
        f.debug_struct("Supervisor")
            .field("root", &self.inner.root)
            .field("executions", &table.runs.keys())
            .finish_non_exhaustive()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.shutdown.cancel();
        self.hub.close();
    }
}

impl Inner {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, id: &str) -> Result<Arc<Run>, ClientError> {
        let run = self.table().runs.get(id).cloned();
        run.ok_or_else(|| ClientError::NotFound {
            message: format!("execution {id} is not known"),
        })
    }
}

impl Supervisor {
    /// Starts without executions; `adapter` decides what requests mean, `root` where they may live.
    ///
    /// # Panics
    ///
    /// Panics outside a tokio runtime.
    pub fn new(adapter: impl Adapter, root: WorkRoot, options: Options) -> Self {
        let inner = Inner {
            adapter: Box::new(adapter),
            root,
            options,
            hub: Arc::new(EventHub::new()),
            table: Mutex::default(),
            shutdown: CancellationToken::new(),
            tasks: TaskTracker::new(),
        };
        // Ended by the token, which fires when the supervisor is dropped.
        let shutdown = inner.shutdown.clone();
        tokio::spawn(async move {
            let sweeping = shutdown.run_until_cancelled(reap_orphans());
            if let Some(Err(error)) = sweeping.await {
                tracing::warn!(%error, "orphans are reaped only at the end of their execution");
            }
        });
        Self {
            inner: Arc::new(inner),
        }
    }

    /// Refuses new work, stops all running work and returns when every process is gone.
    ///
    /// Results stay readable; streams of events end. May be called again.
    pub async fn shutdown(&self) {
        self.inner.table().closing = true;
        self.inner.shutdown.cancel();
        self.inner.tasks.close();
        self.inner.tasks.wait().await;
        self.inner.hub.close();
    }

    /// Counts the executions that have not ended.
    pub fn live(&self) -> usize {
        let table = self.inner.table();
        table.runs.values().filter(|run| !run.is_final()).count()
    }

    /// Starts what was decided, under the turn of the id; nothing here waits.
    fn start(&self, request: &ExecuteRequest, decided: Decided) -> Result<(), ClientError> {
        let run = Run::new(request.id.clone(), Arc::clone(&self.inner.hub));
        let begun = match decided {
            Decided::Start(command, warm) => {
                let started = match warm {
                    Some(warm) => Group::fork(&command, &warm),
                    None => Group::spawn(&command),
                };
                started
                    .map(|(group, pipes)| Begun::Process(Box::new(group), pipes))
                    .map_err(|error| start_message(&error))
            }
            Decided::Work(work) => Ok(Begun::Work(work)),
            Decided::Fail(message) => Err(message),
        };
        let mut table = self.inner.table();
        if table.closing {
            // Dropping the group, if there is one, kills it.
            return Err(closing());
        }
        if let Some(old) = table.runs.insert(request.id.clone(), Arc::clone(&run)) {
            old.unlist(false);
        }
        let terms = Terms {
            timeout: request.timeout,
            grace: self.inner.options.termination_grace,
        };
        let (tasks, shutdown) = (&self.inner.tasks, self.inner.shutdown.clone());
        match begun {
            Ok(Begun::Process(group, pipes)) => {
                run.list();
                tasks.spawn(drive(run, *group, pipes, terms, shutdown));
            }
            Ok(Begun::Work(work)) => {
                run.list();
                tasks.spawn(work::drive(run, work, terms, shutdown));
            }
            Err(message) => {
                run.fail(message);
                run.list();
            }
        }
        Ok(())
    }

    /// Stops the old execution completely, then starts the new one in its place (N-228).
    ///
    /// The old record is never seen to end: its caller asks about the new one by now.
    async fn replace(&self, old: Arc<Run>, request: ExecuteRequest) -> Result<(), ClientError> {
        old.unlist(false);
        old.stop(Stop::Replaced);
        old.ended().await;
        // Decided again, as the old execution may have changed the files.
        let decided = self
            .decide(&request)
            .unwrap_or_else(|refusal| Decided::Fail(refusal.to_string()));
        let started = self.start(&request, decided);
        if started.is_err() {
            old.fail("server shutdown".to_owned());
        }
        started
    }

    /// Judges a request.
    fn decide(&self, request: &ExecuteRequest) -> Result<Decided, ClientError> {
        check_strings(request)?;
        let directory: PathBuf = match self.inner.root.enter(&request.working_dir) {
            Ok(directory) => directory,
            Err(NoDirectory::Refused(refusal)) => return Err(invalid(refusal.message)),
            Err(NoDirectory::Failed(error)) => {
                return Ok(Decided::Fail(format!("mkdir: {error}")));
            }
        };
        let plan = self.inner.adapter.plan(request, &directory);
        let command = |program: Program| Command {
            program: program.path,
            args: program.args,
            directory: directory.clone(),
            env: request.env.clone(),
            records: self.inner.options.records.clone(),
        };
        Ok(match plan.map_err(|refusal| invalid(refusal.message))? {
            Plan::Start(program) => Decided::Start(command(program), None),
            Plan::Fork(warm, program) => Decided::Start(command(program), Some(warm)),
            Plan::Work(work) => Decided::Work(work),
            Plan::Fail(message) => Decided::Fail(message),
        })
    }
}

/// What becomes of a request that is not refused.
enum Decided {
    Start(Command, Option<Arc<Warm>>),
    Work(Work),
    Fail(String),
}

/// What is under way once a request is accepted.
enum Begun {
    Process(Box<Group>, Pipes),
    Work(Work),
}

/// Holds the turn of one id; dropping it forgets the turn unless others wait for it.
struct Turn<'a> {
    inner: &'a Inner,
    id: &'a str,
    lock: Option<Arc<tokio::sync::Mutex<()>>>,
}

impl<'a> Turn<'a> {
    fn of(inner: &'a Inner, id: &'a str) -> Self {
        let mut table = inner.table();
        let lock = Arc::clone(table.turns.entry(id.to_owned()).or_default());
        let lock = Some(lock);
        drop(table);
        Self { inner, id, lock }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut table = self.inner.table();
        drop(self.lock.take());
        if table
            .turns
            .get(self.id)
            .is_some_and(|lock| Arc::strong_count(lock) == 1)
        {
            table.turns.remove(self.id);
        }
    }
}

fn invalid(message: impl Into<String>) -> ClientError {
    ClientError::InvalidArgument {
        message: message.into(),
    }
}

fn closing() -> ClientError {
    ClientError::Unavailable {
        message: "the server is shutting down".to_owned(),
    }
}

fn start_message(error: &SpawnError) -> String {
    match std::error::Error::source(error) {
        Some(cause) => format!("start: {error}: {cause}"),
        None => format!("start: {error}"),
    }
}

/// Refuses what no process can be given.
fn check_strings(request: &ExecuteRequest) -> Result<(), ClientError> {
    if request.id.is_empty() {
        return Err(invalid("id is empty"));
    }
    let wrong = |name: &str| name.is_empty() || name.contains(['=', '\0']);
    if let Some(name) = request.env.keys().find(|name| wrong(name)) {
        return Err(invalid(format!("environment name {name:?} is not usable")));
    }
    let texts = request.args.iter().chain(request.env.values());
    let mut texts = texts.chain([&request.working_dir, &request.entrypoint]);
    if texts.any(|text| text.contains('\0')) {
        return Err(invalid("a text contains the NUL character"));
    }
    Ok(())
}

#[async_trait]
impl RuntimeClient for Supervisor {
    async fn execute(&self, request: ExecuteRequest) -> Result<(), ClientError> {
        if self.inner.table().closing {
            return Err(closing());
        }
        let decided = self.decide(&request)?;
        let turn = Turn::of(&self.inner, &request.id);
        let lock = turn.lock.clone();
        let _held = match &lock {
            Some(lock) => Some(lock.lock().await),
            None => None,
        };
        let old = self.inner.table().runs.get(&request.id).cloned();
        match (old, self.inner.adapter.manners()) {
            (Some(_), Manners::Keep) => Err(ClientError::AlreadyExists {
                message: format!("execution {} exists", request.id),
            }),
            (Some(old), Manners::Replace) if !old.is_final() => {
                // In a task of its own: a caller that leaves must not leave the id without a process.
                let this = self.clone();
                let copy = request.clone();
                let task = self
                    .inner
                    .tasks
                    .spawn(async move { this.replace(old, copy).await });
                task.await.unwrap_or_else(|_| Err(closing()))
            }
            (Some(_), Manners::Replace) | (None, _) => self.start(&request, decided),
        }
    }

    async fn status(&self, id: &str) -> Result<Execution, ClientError> {
        Ok(self.inner.find(id)?.snapshot())
    }

    async fn list(&self) -> Result<Vec<Execution>, ClientError> {
        let runs: Vec<Arc<Run>> = self.inner.table().runs.values().cloned().collect();
        Ok(runs.iter().map(|run| run.snapshot()).collect())
    }

    async fn cancel(&self, id: &str) -> Result<(), ClientError> {
        let run = self.inner.find(id)?;
        run.stop(Stop::Cancelled);
        run.ended().await;
        if self.inner.adapter.manners() == Manners::Replace {
            let mut table = self.inner.table();
            if table.runs.get(id).is_some_and(|now| Arc::ptr_eq(now, &run)) {
                table.runs.remove(id);
                run.unlist(true);
            }
        }
        Ok(())
    }

    async fn forget(&self, id: &str) -> Result<(), ClientError> {
        let mut table = self.inner.table();
        let Some(run) = table.runs.get(id) else {
            drop(table);
            return self.inner.find(id).map(|_| ());
        };
        if !run.is_final() {
            return Err(ClientError::FailedPrecondition {
                message: format!("execution {id} has not ended"),
            });
        }
        run.unlist(true);
        table.runs.remove(id);
        Ok(())
    }

    async fn health(&self) -> Result<Health, ClientError> {
        let closing = self.inner.table().closing;
        let message = if closing { "shutting down" } else { "" };
        Ok(Health {
            healthy: !closing,
            message: message.to_owned(),
        })
    }

    async fn watch(&self, ids: &[String]) -> Result<EventStream, ClientError> {
        let known = || {
            self.inner
                .table()
                .runs
                .values()
                .map(|run| run.event())
                .collect()
        };
        let events = self.inner.hub.subscribe(ids, known);
        Ok(events.map(Ok).boxed())
    }
}
