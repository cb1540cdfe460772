//! One execution from its start to its record.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kruntimes_proto::{Event, EventHub, Execution, ExecutionState};
use tokio::net::unix::pipe;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::capture::Capture;
use crate::process::{Exit, Group, Pipes};

/// Most that the last reading takes in: what a pipe can hold. Bounds it while an escaped descendant writes.
const PIPE_MAX_BYTES: usize = 1 << 20;

const READ_BYTES: usize = 32 * 1024;

/// Why the server ends an execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    Cancelled,
    /// Another execution takes the id; the record stays as it is until then.
    Replaced,
    Timeout,
    Shutdown,
}

impl Stop {
    fn message(self) -> &'static str {
        match self {
            Self::Cancelled | Self::Replaced => "cancelled",
            Self::Timeout => "timeout",
            Self::Shutdown => "server shutdown",
        }
    }
}

/// The part of an execution that callers see; its process belongs to the task that drives it.
#[derive(Debug)]
pub(crate) struct Run {
    id: String,
    hub: Arc<EventHub>,
    pub(crate) stdout: Capture,
    pub(crate) stderr: Capture,
    record: Mutex<Record>,
    stop: watch::Sender<Option<Stop>>,
    ended: watch::Sender<bool>,
}

#[derive(Debug)]
struct Record {
    result: Option<Execution>,
    /// False while the id means another execution or nothing; watchers are told nothing then.
    listed: bool,
}

impl Run {
    pub(crate) fn new(id: String, hub: Arc<EventHub>) -> Arc<Self> {
        Arc::new(Self {
            id,
            hub,
            stdout: Capture::default(),
            stderr: Capture::default(),
            record: Mutex::new(Record {
                result: None,
                listed: false,
            }),
            stop: watch::Sender::new(None),
            ended: watch::Sender::new(false),
        })
    }

    fn record(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, state: ExecutionState, output: bool, changed: bool) {
        let event = Event {
            id: self.id.clone(),
            state,
            output,
        };
        self.hub.publish(&event, changed);
    }

    /// Puts the execution in front of callers, who are told where it stands.
    pub(crate) fn list(&self) {
        let mut record = self.record();
        record.listed = true;
        let state = record
            .result
            .as_ref()
            .map_or(ExecutionState::Running, |result| result.state);
        self.tell(state, false, true);
    }

    pub(crate) fn tell_output(&self) {
        let record = self.record();
        if record.listed && record.result.is_none() {
            self.tell(ExecutionState::Running, true, false);
        }
    }

    /// Takes the execution off the list; `gone` tells the watchers that its id means nothing now.
    pub(crate) fn unlist(&self, gone: bool) {
        let mut record = self.record();
        if std::mem::take(&mut record.listed) && gone {
            self.tell(ExecutionState::GONE, false, true);
        }
    }

    /// Reads the execution without waiting for anything (N-212).
    pub(crate) fn snapshot(&self) -> Execution {
        let record = self.record();
        record.result.clone().unwrap_or_else(|| Execution {
            id: self.id.clone(),
            state: ExecutionState::Running,
            exit_code: 0,
            stdout: self.stdout.so_far(),
            stderr: self.stderr.so_far(),
            error_message: String::new(),
        })
    }

    /// Reads the state alone.
    pub(crate) fn event(&self) -> Event {
        let record = self.record();
        let result = record.result.as_ref();
        Event {
            id: self.id.clone(),
            state: result.map_or(ExecutionState::Running, |result| result.state),
            output: false,
        }
    }

    pub(crate) fn is_final(&self) -> bool {
        self.record().result.is_some()
    }

    /// Asks for the end; the first reason counts.
    pub(crate) fn stop(&self, why: Stop) {
        self.stop.send_if_modified(|stop| {
            let first = stop.is_none();
            stop.get_or_insert(why);
            first
        });
    }

    /// Waits until the execution is final and no member of its group is left.
    pub(crate) async fn ended(&self) {
        // The sender lives in `self`, so this cannot fail.
        let _ = self.ended.subscribe().wait_for(|ended| *ended).await;
    }

    /// Records an execution that never had a process.
    pub(crate) fn fail(&self, message: String) {
        self.conclude(ExecutionState::Failed, -1, message);
    }

    pub(crate) fn conclude(&self, state: ExecutionState, exit_code: i32, error_message: String) {
        let mut record = self.record();
        if record.result.is_none() {
            record.result = Some(Execution {
                id: self.id.clone(),
                state,
                exit_code,
                stdout: self.stdout.finish(),
                stderr: self.stderr.finish(),
                error_message,
            });
            if record.listed {
                self.tell(state, false, true);
            }
        }
        drop(record);
        self.ended.send_replace(true);
    }

    /// Records that the server ended the execution.
    pub(crate) fn conclude_stopped(&self, why: Stop) {
        match why {
            Stop::Replaced => {
                self.ended.send_replace(true);
            }
            Stop::Cancelled | Stop::Timeout | Stop::Shutdown => self.fail(why.message().to_owned()),
        }
    }

    fn conclude_with(&self, exit: io::Result<Exit>, stop: Option<Stop>) {
        match (stop, exit) {
            (Some(why), _) => self.conclude_stopped(why),
            (None, Ok(Exit::Code(0))) => self.conclude(ExecutionState::Succeeded, 0, String::new()),
            (None, Ok(Exit::Code(code))) => {
                self.conclude(ExecutionState::Failed, code, String::new());
            }
            (None, Ok(Exit::Signal(name))) => self.fail(format!("killed by {name}")),
            (None, Err(error)) => self.fail(format!("wait: {error}")),
        }
    }

    /// Waits until the server has a reason to end the execution.
    pub(crate) async fn stopped(&self, terms: Terms, shutdown: &CancellationToken) -> Stop {
        let mut asked = self.stop.subscribe();
        tokio::select! {
            biased;
            asked = asked.wait_for(Option::is_some) => {
                asked.ok().and_then(|why| *why).unwrap_or(Stop::Shutdown)
            }
            () = limit(terms.timeout) => Stop::Timeout,
            () = shutdown.cancelled() => Stop::Shutdown,
        }
    }
}

/// Limits that one execution is driven under.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub(crate) timeout: Option<Duration>,
    pub(crate) grace: Duration,
}

/// Watches a process until its end, ends it when asked, and records the result.
///
/// Dropping the future kills the group and records that.
pub(crate) async fn drive(
    run: Arc<Run>,
    group: Group,
    pipes: Pipes,
    terms: Terms,
    shutdown: CancellationToken,
) {
    // Dropped after the group, which is killed by then: what is recorded as ended has no process.
    let _record = Unfinished(Arc::clone(&run));
    let group = group;
    let gone = CancellationToken::new();
    let mut readers = JoinSet::new();
    readers.spawn(read(
        Arc::clone(&run),
        pipes.stdout,
        |run| &run.stdout,
        gone.clone(),
    ));
    readers.spawn(read(
        Arc::clone(&run),
        pipes.stderr,
        |run| &run.stderr,
        gone.clone(),
    ));
    let stop = tokio::select! {
        biased;
        () = group.leader_ended() => None,
        why = run.stopped(terms, &shutdown) => Some(why),
    };
    // An end that came first stands, whatever was asked at the same time (N-224).
    let stop = stop.filter(|_| !group.has_ended());
    let exit = group.end(terms.grace).await;
    // An escaped descendant may hold the pipes for ever, so their end is not waited for.
    gone.cancel();
    while readers.join_next().await.is_some() {}
    run.conclude_with(exit, stop);
}

/// Ends the record of an execution whose driver was lost, so that nobody waits for it for ever.
pub(crate) struct Unfinished(pub(crate) Arc<Run>);

impl Drop for Unfinished {
    fn drop(&mut self) {
        if !*self.0.ended.borrow() {
            self.0
                .fail("the supervision of this execution was lost".to_owned());
        }
    }
}

async fn limit(timeout: Option<Duration>) {
    match timeout {
        Some(timeout) => tokio::time::sleep(timeout).await,
        None => std::future::pending().await,
    }
}

/// Reads one stream to its end, or until nothing is left in it once the group is `gone`.
///
/// What does not fit is read all the same (N-222).
async fn read(
    run: Arc<Run>,
    pipe: pipe::Receiver,
    stream: fn(&Run) -> &Capture,
    gone: CancellationToken,
) {
    let take = |bytes: &[u8]| {
        if stream(&run).push(bytes) {
            run.tell_output();
        }
    };
    let mut buffer = Vec::new();
    while let Some(Ok(())) = gone.run_until_cancelled(pipe.readable()).await {
        // Memory is taken when there is something to read, so silent executions cost none.
        buffer.resize(READ_BYTES, 0);
        match pipe.try_read(&mut buffer) {
            Ok(0) => return,
            Ok(length) => take(&buffer[..length]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return,
        }
    }
    buffer.resize(READ_BYTES, 0);
    let mut total = 0;
    // Past tokio, which does not know yet of what arrived in this moment.
    while let Ok(length @ 1..) = rustix::io::read(&pipe, &mut buffer) {
        take(&buffer[..length]);
        total += length;
        if total >= PIPE_MAX_BYTES {
            return;
        }
    }
}
