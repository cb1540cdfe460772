//! What all parts of one runtimed share.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use kruntimes_core::api::RunPhase;
use kruntimes_core::crd::Run;
use kruntimes_core::quantity::Quantity;
use kruntimes_core::resources::{self, Amounts};
use kruntimes_core::{life, retry};
use kruntimes_k8s::cache::{Cache, ObjectKey};
use kruntimes_k8s::clock::Clock;
use kruntimes_k8s::queue::WorkQueue;
use kruntimes_proto::Execution;
use kube::{Api, ResourceExt as _};
use tokio_util::sync::CancellationToken;

use crate::artifact::Artifacts;
use crate::config::Config;
use crate::events::{Events, Note};
use crate::files::NodeDirs;
use crate::logs::{Line, LogRecord, LogSink, LogStream, RunEnd};
use crate::metrics::Metrics;
use crate::readiness::Pulse;
use crate::server::Server;
use crate::table::{Entry, Table};
use crate::tasks::Tasks;
use crate::workspace::Workspaces;

/// Index of unfinished Runs by assigned Pod.
pub(crate) const BY_POD: &str = "pod";

/// The shared state of one runtimed.
pub(crate) struct Node {
    pub(crate) config: Config,
    pub(crate) pod_uid: String,
    pub(crate) api: Api<Run>,
    pub(crate) runs: Cache<Run>,
    pub(crate) workspaces: Workspaces,
    pub(crate) queue: WorkQueue<ObjectKey>,
    pub(crate) table: Table,
    pub(crate) server: Server,
    pub(crate) events: Events,
    pub(crate) logs: Arc<dyn LogSink>,
    pub(crate) files: NodeDirs,
    /// Where artifacts go, if anywhere.
    pub(crate) artifacts: Option<Artifacts>,
    pub(crate) clock: Clock,
    pub(crate) metrics: Metrics,
    pub(crate) pulse: Pulse,
    pub(crate) tasks: Tasks,
    /// Capacity the Pod advertises; `runs` is the number of workers (N-31).
    pub(crate) capacity: Mutex<Amounts>,
    /// The own Pod is about to go.
    pub(crate) leaving: AtomicBool,
    /// Nothing new is claimed once this is cancelled (N-198).
    pub(crate) draining: CancellationToken,
}

/// Makes the cache of Runs.
///
/// The API offers no field selector for the assigned Pod, so the watch covers the namespace and this
/// index finds the Runs of one Pod without walking the others (N-20).
pub(crate) fn run_cache() -> Cache<Run> {
    Cache::new(&[(BY_POD, |run: &Run| {
        let status = run.status.as_ref();
        status
            .filter(|status| !status.phase.is_terminal())
            .and_then(|status| status.assigned_pod.clone())
            .into_iter()
            .collect()
    })])
}

/// Returns how long it is until `later`; nothing when it has passed.
pub(crate) fn until(now: Timestamp, later: Timestamp) -> Duration {
    Duration::try_from(later.duration_since(now)).unwrap_or(Duration::ZERO)
}

impl Node {
    /// Tells whether a Run is assigned to this very Pod (N-21).
    pub(crate) fn is_mine(&self, run: &Run) -> bool {
        run.status.as_ref().is_some_and(|status| {
            life::is_assigned_to(status, &self.config.pod_name, &self.pod_uid)
        })
    }

    /// Returns the unfinished Runs of this Pod.
    pub(crate) fn my_runs(&self) -> Vec<Arc<Run>> {
        let mut runs = self.runs.by_index(BY_POD, &self.config.pod_name);
        runs.retain(|run| self.is_mine(run));
        runs
    }

    /// Puts the Runs that wait for room back into the queue.
    pub(crate) fn wake_waiting(&self) {
        for run in self.my_runs() {
            let held = run.uid().is_some_and(|uid| self.table.holds(&uid));
            if !held {
                self.queue.add(ObjectKey::of(run.as_ref()));
            }
        }
    }

    pub(crate) fn capacity(&self) -> Amounts {
        self.capacity
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Takes in what the Pod advertises.
    pub(crate) fn set_capacity<'a>(
        &self,
        annotations: impl Iterator<Item = (&'a String, &'a String)>,
    ) {
        let mut capacity = resources::capacity(annotations);
        let runs = Quantity::from_whole(self.config.capacity());
        capacity.insert(resources::RUNS.to_owned(), runs);
        *self.capacity.lock().unwrap_or_else(PoisonError::into_inner) = capacity;
    }

    /// Records an Event.
    pub(crate) fn note(&self, run: &Run, note: &Note) {
        self.events.record(run, note, self.clock.now());
    }

    /// Keeps a report and emits the lines that are complete (N-177).
    pub(crate) fn take_report(&self, run: &Run, uid: &str, report: &Execution) {
        self.emit(run, uid, |entry| {
            // A stopped process has no exit code of its own.
            entry.exit_code =
                (report.state.is_final() && report.exit_code >= 0).then_some(report.exit_code);
            entry.report = Some(report.clone());
            Some((report.clone(), false))
        });
    }

    /// Emits what is left of the present attempt, the unfinished last line included (N-177, N-179).
    pub(crate) fn flush_logs(&self, run: &Run, uid: &str) {
        self.emit(run, uid, |entry| {
            entry.report.take().map(|report| (report, true))
        });
    }

    /// Tells the log sink that an execution is over and its output complete.
    pub(crate) fn tell_end(&self, run: &Run, uid: &str) {
        let told = self
            .table
            .update(uid, |entry| (entry.local.attempt, entry.exit_code));
        let Some((attempt, exit_code)) = told else {
            return;
        };
        self.logs.ended(RunEnd {
            namespace: run.namespace().unwrap_or_default(),
            run_name: run.name_any(),
            run_uid: uid.to_owned(),
            attempt,
            exit_code,
        });
    }

    fn emit(
        &self,
        run: &Run,
        uid: &str,
        what: impl FnOnce(&mut Entry) -> Option<(Execution, bool)>,
    ) {
        let taken = self.table.update(uid, |entry| {
            let (report, end) = what(entry)?;
            Some((
                entry.stdout.take(&report.stdout, end),
                entry.stderr.take(&report.stderr, end),
                entry.local.attempt,
            ))
        });
        let Some((stdout, stderr, attempt)) = taken.flatten() else {
            return;
        };
        self.record(run, (LogStream::Stdout, attempt), stdout);
        self.record(run, (LogStream::Stderr, attempt), stderr);
    }

    fn record(&self, run: &Run, (stream, attempt): (LogStream, i32), lines: Vec<Line>) {
        let ts = self.clock.now();
        for line in lines {
            self.logs.record(LogRecord {
                run_uid: run.uid().unwrap_or_default(),
                run_name: run.name_any(),
                namespace: run.namespace().unwrap_or_default(),
                runtime: run.spec.runtime.clone(),
                pod: self.config.pod_name.clone(),
                assigned_pod_uid: Some(self.pod_uid.clone()),
                stream,
                message: line.text,
                ts,
                seq: line.seq,
                attempt,
                audit: None,
            });
        }
    }
}

/// Makes the entry of a Run that is to be held.
pub(crate) fn entry(run: &Run) -> Result<Entry, resources::InvalidRequest> {
    Ok(Entry {
        key: ObjectKey::of(run),
        amounts: resources::request(&run.spec)?,
        workspace: workspace_of(run),
        exclusive: run.spec.mode.session.is_some(),
        local: life::Local {
            attempt: retry::current_attempt(run.status.as_ref().and_then(|s| s.attempt)),
            ..life::Local::default()
        },
        ..Entry::default()
    })
}

/// Returns the name of the PersistentWorkspace a Run works in.
pub(crate) fn workspace_of(run: &Run) -> Option<String> {
    run.spec
        .workspace
        .as_ref()
        .map(|workspace| workspace.name.clone())
}

/// Returns the phase of a Run; one without status is `Pending`.
pub(crate) fn phase(run: &Run) -> RunPhase {
    run.status.as_ref().map(|s| s.phase).unwrap_or_default()
}
