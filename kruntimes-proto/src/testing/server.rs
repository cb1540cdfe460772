//! The scripted server itself: state, time and faults.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::script::{Call, Dialect, Fault, Method, Script};
use crate::client::{ClientError, EventStream, RuntimeClient};
use crate::events::EventHub;
use crate::execution::{Event, ExecuteRequest, Execution, ExecutionState, Health};

type Handler = Box<dyn Fn(&ExecuteRequest) -> Script + Send + Sync>;

/// Plays a Runtime Server in process. Clones are the same server.
///
/// Time passes on the tokio clock, so a paused test decides when work ends. Dropping the last clone
/// ends everything that runs.
#[derive(Clone)]
pub struct ScriptedServer {
    inner: Arc<Inner>,
}

struct Inner {
    handler: Handler,
    events: EventHub,
    state: Mutex<State>,
}

struct State {
    dialect: Dialect,
    watchable: bool,
    health: Health,
    entries: BTreeMap<String, Entry>,
    scripts: BTreeMap<String, VecDeque<Script>>,
    faults: BTreeMap<Method, VecDeque<Fault>>,
    calls: Vec<Call>,
    /// Counts executions ever begun; an end that carries an old number is ignored.
    begun: u64,
    started: BTreeMap<String, usize>,
}

struct Entry {
    number: u64,
    execution: Execution,
    cancel_takes: Duration,
    /// When a cancel that is under way will have stopped the work, whoever still waits for it.
    dies_at: Option<Instant>,
    /// Ends the execution when its time has come.
    timer: Option<AbortHandle>,
}

impl Drop for Entry {
    fn drop(&mut self) {
        if let Some(timer) = self.timer.take() {
            timer.abort();
        }
    }
}

impl fmt::Debug for ScriptedServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state();
        f.debug_struct("ScriptedServer")
            .field("executions", &state.entries.keys())
            .finish_non_exhaustive()
    }
}

impl Default for ScriptedServer {
    /// Makes a server whose executions all succeed at once.
    fn default() -> Self {
        Self::new(|_| Script::exits(0))
    }
}

impl ScriptedServer {
    /// Makes a server that asks `handler` how each execution goes.
    ///
    /// The handler must not call the server.
    pub fn new(handler: impl Fn(&ExecuteRequest) -> Script + Send + Sync + 'static) -> Self {
        let state = State {
            dialect: Dialect::default(),
            watchable: true,
            health: Health {
                healthy: true,
                message: String::new(),
            },
            entries: BTreeMap::new(),
            scripts: BTreeMap::new(),
            faults: BTreeMap::new(),
            calls: Vec::new(),
            begun: 0,
            started: BTreeMap::new(),
        };
        Self {
            inner: Arc::new(Inner {
                handler: Box::new(handler),
                events: EventHub::new(),
                state: Mutex::new(state),
            }),
        }
    }

    /// Chooses the manners for repeated `execute` and for `cancel`.
    pub fn speak(self, dialect: Dialect) -> Self {
        self.state().dialect = dialect;
        self
    }

    /// Makes a server without `RuntimeEvents`: `watch` answers `Unimplemented`.
    pub fn without_events(self) -> Self {
        self.state().watchable = false;
        self
    }

    /// Prepares the script of the next `execute` of `id`, ahead of the handler. Several queue up.
    pub fn script(&self, id: &str, script: Script) {
        let mut state = self.state();
        state
            .scripts
            .entry(id.to_owned())
            .or_default()
            .push_back(script);
    }

    /// Breaks the next call of `method`; several faults queue up.
    pub fn break_next(&self, method: Method, fault: Fault) {
        let mut state = self.state();
        state.faults.entry(method).or_default().push_back(fault);
    }

    /// Sets what `health` answers.
    pub fn set_health(&self, health: Health) {
        self.state().health = health;
    }

    /// Restarts: every execution is lost and every watch ends. Scripts, faults and records stay.
    pub fn restart(&self) {
        self.state().entries.clear();
        self.inner.events.hang_up();
    }

    /// Returns all calls so far, in order.
    pub fn calls(&self) -> Vec<Call> {
        self.state().calls.clone()
    }

    /// Counts how often work was really begun for `id`; refused calls do not count.
    pub fn executed(&self, id: &str) -> usize {
        self.state().started.get(id).copied().unwrap_or(0)
    }

    /// Returns the ids whose work has not ended.
    pub fn live(&self) -> Vec<String> {
        let state = self.state();
        let live = state.entries.iter().filter(|(_, entry)| !entry.is_final());
        live.map(|(id, _)| id.clone()).collect()
    }

    /// Ends live work now, as its script would have; returns whether there was any.
    pub fn finish(&self, id: &str, exit_code: i32) -> bool {
        let mut state = self.state();
        let Some(entry) = state.entries.get_mut(id).filter(|entry| !entry.is_final()) else {
            return false;
        };
        entry.end(exit_code, "");
        let event = entry.event();
        self.inner.events.publish(&event, true);
        true
    }

    /// Appends to the standard output of live work and tells the watchers.
    pub fn print(&self, id: &str, text: &str) -> bool {
        let mut state = self.state();
        let Some(entry) = state.entries.get_mut(id).filter(|entry| !entry.is_final()) else {
            return false;
        };
        entry.execution.stdout.push_str(text);
        let event = Event {
            output: true,
            ..entry.event()
        };
        self.inner.events.publish(&event, false);
        true
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.inner.state()
    }

    /// Notes the call, then lets the next fault of its method act.
    async fn enter(&self, call: Call) -> Result<Answer, ClientError> {
        let method = call.method();
        let fault = {
            let mut state = self.state();
            state.calls.push(call);
            state.faults.get_mut(&method).and_then(VecDeque::pop_front)
        };
        match fault {
            None => Ok(Answer::Given),
            Some(Fault::Refuse(error)) => Err(error),
            Some(Fault::LoseAnswer) => Ok(Answer::Lost),
            Some(Fault::Delay(wait)) => {
                tokio::time::sleep(wait).await;
                Ok(Answer::Given)
            }
            Some(Fault::Crash) => {
                self.restart();
                Err(unavailable("the server restarted"))
            }
        }
    }

    fn begin(&self, request: &ExecuteRequest) -> Result<(), ClientError> {
        let mut state = self.state();
        if request.id.is_empty() {
            let message = "id is empty".to_owned();
            return Err(ClientError::InvalidArgument { message });
        }
        if state.dialect == Dialect::Python && state.entries.contains_key(&request.id) {
            let message = format!("execution {} exists", request.id);
            return Err(ClientError::AlreadyExists { message });
        }
        let queued = state.scripts.get_mut(&request.id);
        let script = queued.and_then(VecDeque::pop_front);
        let script = script.unwrap_or_else(|| (self.inner.handler)(request));
        if let Some(error) = script.refusal {
            return Err(error);
        }
        state.begun += 1;
        *state.started.entry(request.id.clone()).or_default() += 1;
        let mut entry = Entry::running(state.begun, &request.id, &script);
        self.inner.events.publish(&entry.event(), true);
        entry.timer = self.schedule(request, script, state.begun);
        state.entries.insert(request.id.clone(), entry);
        Ok(())
    }

    /// Begins to stop work, which goes on when the caller gives up; returns when it will be stopped.
    fn condemn(&self, id: &str) -> Option<(u64, Option<Instant>)> {
        let mut state = self.state();
        let entry = state.entries.get_mut(id)?;
        let number = entry.number;
        if !entry.is_final() && !entry.cancel_takes.is_zero() && entry.dies_at.is_none() {
            let dies_at = Instant::now() + entry.cancel_takes;
            entry.dies_at = Some(dies_at);
            let (inner, id) = (Arc::downgrade(&self.inner), id.to_owned());
            tokio::spawn(async move {
                tokio::time::sleep_until(dies_at).await;
                if let Some(inner) = inner.upgrade() {
                    inner.stop(&id, number);
                }
            });
        }
        Some((number, entry.dies_at.filter(|_| !entry.is_final())))
    }

    /// Sleeps until the script or the time limit ends the execution; work without either needs no task.
    fn schedule(
        &self,
        request: &ExecuteRequest,
        script: Script,
        number: u64,
    ) -> Option<AbortHandle> {
        let (wait, timed_out) = match (script.duration, request.timeout) {
            (Some(work), Some(limit)) if limit < work => (limit, true),
            (Some(work), _) => (work, false),
            (None, Some(limit)) => (limit, true),
            (None, None) => return None,
        };
        let inner = Arc::downgrade(&self.inner);
        let id = request.id.clone();
        let task = tokio::spawn(async move {
            if !wait.is_zero() {
                tokio::time::sleep(wait).await;
            }
            Inner::end(&inner, &id, number, script, timed_out);
        });
        Some(task.abort_handle())
    }
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stops one execution in the manners of its server; a later one of this id is left alone.
    fn stop(&self, id: &str, number: u64) {
        let mut state = self.state();
        let keeps = state.dialect == Dialect::Python;
        let entry = state.entries.get_mut(id);
        let Some(entry) = entry.filter(|entry| entry.number == number) else {
            return;
        };
        let mut event = entry.event();
        if keeps {
            if !entry.is_final() {
                entry.end(-1, "cancelled");
            }
            event = entry.event();
        } else {
            event.state = ExecutionState::GONE;
            state.entries.remove(id);
        }
        self.events.publish(&event, true);
    }

    fn end(this: &Weak<Self>, id: &str, number: u64, script: Script, timed_out: bool) {
        let Some(this) = this.upgrade() else { return };
        let mut state = this.state();
        let entry = state.entries.get_mut(id);
        let Some(entry) = entry.filter(|entry| entry.number == number && !entry.is_final()) else {
            return;
        };
        if timed_out {
            entry.end(-1, "timeout");
        } else {
            if let Some(act) = script.on_finish {
                act();
            }
            entry.end(script.exit_code, &script.error_message);
        }
        this.events.publish(&entry.event(), true);
    }
}

impl Entry {
    fn running(number: u64, id: &str, script: &Script) -> Self {
        Self {
            number,
            execution: Execution {
                id: id.to_owned(),
                state: ExecutionState::Running,
                exit_code: 0,
                stdout: script.stdout.clone(),
                stderr: script.stderr.clone(),
                error_message: String::new(),
            },
            cancel_takes: script.cancel_takes,
            dies_at: None,
            timer: None,
        }
    }

    fn is_final(&self) -> bool {
        self.execution.state.is_final()
    }

    fn end(&mut self, exit_code: i32, message: &str) {
        let well = exit_code == 0 && message.is_empty();
        self.execution.state = if well {
            ExecutionState::Succeeded
        } else {
            ExecutionState::Failed
        };
        self.execution.exit_code = exit_code;
        message.clone_into(&mut self.execution.error_message);
    }

    fn event(&self) -> Event {
        Event {
            id: self.execution.id.clone(),
            state: self.execution.state,
            output: false,
        }
    }
}

/// Whether the caller gets to see what was done.
#[derive(Clone, Copy)]
enum Answer {
    Given,
    Lost,
}

impl Answer {
    fn send<T>(self, value: Result<T, ClientError>) -> Result<T, ClientError> {
        match self {
            Self::Given => value,
            Self::Lost => Err(unavailable("the answer was lost")),
        }
    }
}

fn unavailable(message: &str) -> ClientError {
    ClientError::Unavailable {
        message: message.to_owned(),
    }
}

fn unknown(id: &str) -> ClientError {
    ClientError::NotFound {
        message: format!("execution {id} is not known"),
    }
}

#[async_trait]
impl RuntimeClient for ScriptedServer {
    async fn execute(&self, request: ExecuteRequest) -> Result<(), ClientError> {
        let answer = self.enter(Call::Execute(request.clone())).await?;
        answer.send(self.begin(&request))
    }

    async fn status(&self, id: &str) -> Result<Execution, ClientError> {
        let answer = self
            .enter(Call::Other(Method::Status, id.to_owned()))
            .await?;
        let state = self.state();
        let entry = state.entries.get(id).ok_or_else(|| unknown(id));
        answer.send(entry.map(|entry| entry.execution.clone()))
    }

    async fn list(&self) -> Result<Vec<Execution>, ClientError> {
        let answer = self.enter(Call::Other(Method::List, String::new())).await?;
        let state = self.state();
        let all = state.entries.values().map(|entry| entry.execution.clone());
        answer.send(Ok(all.collect()))
    }

    async fn cancel(&self, id: &str) -> Result<(), ClientError> {
        let answer = self
            .enter(Call::Other(Method::Cancel, id.to_owned()))
            .await?;
        let Some((number, dies_at)) = self.condemn(id) else {
            return answer.send(Err(unknown(id)));
        };
        if let Some(dies_at) = dies_at {
            tokio::time::sleep_until(dies_at).await;
        }
        self.inner.stop(id, number);
        answer.send(Ok(()))
    }

    async fn forget(&self, id: &str) -> Result<(), ClientError> {
        let answer = self
            .enter(Call::Other(Method::Forget, id.to_owned()))
            .await?;
        let mut state = self.state();
        let done = match state.entries.get(id).map(Entry::is_final) {
            None => Err(unknown(id)),
            Some(false) => Err(ClientError::FailedPrecondition {
                message: format!("execution {id} has not ended"),
            }),
            Some(true) => {
                state.entries.remove(id);
                let event = Event {
                    id: id.to_owned(),
                    state: ExecutionState::GONE,
                    output: false,
                };
                self.inner.events.publish(&event, true);
                Ok(())
            }
        };
        answer.send(done)
    }

    async fn health(&self) -> Result<Health, ClientError> {
        let answer = self
            .enter(Call::Other(Method::Health, String::new()))
            .await?;
        answer.send(Ok(self.state().health.clone()))
    }

    async fn watch(&self, ids: &[String]) -> Result<EventStream, ClientError> {
        let answer = self
            .enter(Call::Other(Method::Watch, String::new()))
            .await?;
        if !self.state().watchable {
            let message = "no event service".to_owned();
            return Err(ClientError::Unimplemented { message });
        }
        let known = || self.state().entries.values().map(Entry::event).collect();
        let events = self.inner.events.subscribe(ids, known);
        answer.send(Ok(events.map(Ok).boxed()))
    }
}
