//! Following one target: its phases, its output, its end.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::{Stream, StreamExt as _};
use kruntimes_core::api::{RunPhase, WorkflowRunStatus};
use kruntimes_core::crd::{Run, WorkflowRun};
use kruntimes_core::{condition, keys};
use kruntimes_k8s::cache::{Cache, Change};
use kruntimes_k8s::clock::Clock;
use kruntimes_node::{LogRecord, RunEnd};
use kube::runtime::watcher;
use kube::{Client, Resource, ResourceExt as _};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::logs::LogNews;
use crate::progress::{
    DELETED, Ending, Failure, OutputStream, Progress, StepPath, Target, TargetKind,
};

/// Lines of standard error kept per step.
const STDERR_TAIL: usize = 20;
/// Records of unknown Runs that are kept until their Run is known.
const PARKED_MAX: usize = 4096;
/// Longest wait for the rest of the output after the target is terminal.
const OUTPUT_GRACE: Duration = Duration::from_secs(2);

/// A stream of [`Progress`]; dropping it ends the following.
pub struct Following {
    news: mpsc::UnboundedReceiver<Progress>,
    task: tokio::task::JoinHandle<()>,
}

impl Stream for Following {
    type Item = Progress;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Progress>> {
        self.news.poll_recv(context)
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Starts to follow a target. What `lines` has heard already counts.
pub(crate) fn follow(
    client: Client,
    clock: Clock,
    lines: mpsc::UnboundedReceiver<LogNews>,
    target: Target,
) -> Following {
    let (sender, news) = mpsc::unbounded_channel();
    let follower = Follower {
        clock,
        target,
        sender,
        started: Instant::now(),
        phases: BTreeMap::new(),
        runs: BTreeMap::new(),
        parked: VecDeque::new(),
        workflow_run: None,
        run: None,
        gone: false,
    };
    let task = tokio::spawn(follower.run(client, lines));
    Following { news, task }
}

struct Follower {
    clock: Clock,
    target: Target,
    sender: mpsc::UnboundedSender<Progress>,
    started: Instant,
    /// Last phase and since when, by path.
    phases: BTreeMap<StepPath, (&'static str, Instant)>,
    /// What is known of the Runs of the target, by UID.
    runs: BTreeMap<String, RunView>,
    /// Output of Runs that are not known to belong to anybody yet.
    parked: VecDeque<LogNews>,
    workflow_run: Option<Arc<WorkflowRun>>,
    run: Option<Arc<Run>>,
    /// The target does not exist any more.
    gone: bool,
}

#[derive(Default)]
struct RunView {
    path: StepPath,
    phase: RunPhase,
    reason: Option<String>,
    message: Option<String>,
    started: bool,
    ended: Option<RunEnd>,
    stderr: VecDeque<String>,
}

impl Follower {
    async fn run(mut self, client: Client, mut lines: mpsc::UnboundedReceiver<LogNews>) {
        let namespace = self.target.namespace.clone();
        let by_name =
            watcher::Config::default().fields(&format!("metadata.name={}", self.target.name));
        let (mut objects, mut runs) = match self.target.kind {
            TargetKind::WorkflowRun => {
                let of_uid = format!("{}={}", keys::LABEL_WORKFLOW_RUN_UID, self.target.uid);
                let objects = Cache::<WorkflowRun>::default()
                    .follow(client.clone(), Some(&namespace), by_name)
                    .boxed();
                let config = watcher::Config::default().labels(&of_uid);
                let runs = Cache::<Run>::default().follow(client, Some(&namespace), config);
                (objects, runs.boxed())
            }
            TargetKind::Run => {
                let runs = Cache::<Run>::default().follow(client, Some(&namespace), by_name);
                (futures::stream::pending().boxed(), runs.boxed())
            }
        };
        let mut deadline: Option<Instant> = None;
        loop {
            let wait = deadline.unwrap_or_else(|| Instant::now() + Duration::from_secs(3600));
            tokio::select! {
                Some(change) = objects.next() => self.workflow_run_changed(change),
                Some(change) = runs.next() => self.run_changed(change),
                Some(news) = lines.recv() => self.heard(news),
                () = tokio::time::sleep_until(wait), if deadline.is_some() => {}
            }
            if self.is_over() {
                let deadline = *deadline.get_or_insert_with(|| Instant::now() + OUTPUT_GRACE);
                if self.is_complete() || Instant::now() >= deadline {
                    let ending = Box::new(self.ending());
                    // Nobody may listen any more, which is no error.
                    let _ = self.sender.send(Progress::Ended(ending));
                    return;
                }
            }
        }
    }

    fn workflow_run_changed(&mut self, change: Change<WorkflowRun>) {
        self.gone |= self.has_lost(&change, self.workflow_run.is_some());
        let Change::Applied { new, .. } = change else {
            return;
        };
        if new.uid().as_deref() != Some(&self.target.uid) {
            return;
        }
        let status = new.status.clone().unwrap_or_default();
        self.workflow_run = Some(new);
        self.report_jobs(&status);
        let reason = condition::get(&status.conditions, keys::CONDITION_COMPLETED)
            .map(|completed| completed.reason.clone());
        self.moved(
            StepPath::default(),
            status.phase.as_str(),
            reason,
            status.message,
        );
    }

    fn report_jobs(&mut self, status: &WorkflowRunStatus) {
        for (name, job) in status.jobs.iter().flatten() {
            for step in &job.steps {
                self.moved(
                    StepPath::step(name, &step.name),
                    step.phase.as_str(),
                    None,
                    None,
                );
                for inner in &step.action_steps {
                    let path = StepPath {
                        action_step: Some(inner.name.clone()),
                        ..StepPath::step(name, &step.name)
                    };
                    self.moved(path, inner.phase.as_str(), None, None);
                }
            }
            self.moved(
                StepPath::job(name),
                job.phase.as_str(),
                job.reason.clone(),
                job.message.clone(),
            );
        }
    }

    fn run_changed(&mut self, change: Change<Run>) {
        if self.target.kind == TargetKind::Run {
            self.gone |= self.has_lost(&change, self.run.is_some());
        }
        let Change::Applied { new, .. } = change else {
            return;
        };
        let uid = new.uid().unwrap_or_default();
        if self.target.kind == TargetKind::Run && uid != self.target.uid {
            return;
        }
        let status = new.status.clone().unwrap_or_default();
        let reason = failure_reason(&new);
        let view = self.runs.entry(uid).or_default();
        view.path = path_of(&new);
        view.phase = status.phase;
        view.reason.clone_from(&reason);
        view.message.clone_from(&status.message);
        view.started |= status.start_time.is_some();
        if self.target.kind == TargetKind::Run {
            self.run = Some(new);
            self.moved(
                StepPath::default(),
                status.phase.as_str(),
                reason,
                status.message,
            );
        }
        for news in std::mem::take(&mut self.parked) {
            self.heard(news);
        }
    }

    /// Tells whether a change of the target's name says that the target does not exist any more.
    fn has_lost<K: Resource>(&self, change: &Change<K>, seen: bool) -> bool {
        let is_target = |object: &K| object.meta().uid.as_deref() == Some(&self.target.uid);
        match change {
            // Another object has the name by now.
            Change::Applied { new, .. } => !is_target(new),
            Change::Deleted(old) => is_target(old),
            // The complete list did not show it.
            Change::Synced => !seen,
            Change::Undecodable { .. } => false,
        }
    }

    fn moved(
        &mut self,
        path: StepPath,
        to: &'static str,
        reason: Option<String>,
        message: Option<String>,
    ) {
        let now = Instant::now();
        let before = self.phases.get(&path).copied();
        if before.is_some_and(|(phase, _)| phase == to) {
            return;
        }
        self.phases.insert(path.clone(), (to, now));
        // Nobody may listen any more, which is no error.
        let _ = self.sender.send(Progress::Transition {
            path,
            from: before.map(|(phase, _)| phase),
            to,
            at: self.clock.now(),
            took: before.map(|(_, since)| now - since),
            reason,
            message,
        });
    }

    fn heard(&mut self, news: LogNews) {
        let uid = match &news {
            LogNews::Line(record) => &record.run_uid,
            LogNews::End(end) => &end.run_uid,
        };
        let Some(view) = self.runs.get_mut(uid) else {
            // The Run may become known later; other targets' Runs never do.
            if self.parked.len() == PARKED_MAX {
                self.parked.pop_front();
            }
            self.parked.push_back(news);
            return;
        };
        match news {
            LogNews::Line(record) => {
                let stream = stream_of(&record);
                if stream == OutputStream::Stderr {
                    if view.stderr.len() == STDERR_TAIL {
                        view.stderr.pop_front();
                    }
                    view.stderr.push_back(record.message.clone());
                }
                let _ = self.sender.send(Progress::Output {
                    path: view.path.clone(),
                    stream,
                    line: record.message,
                });
            }
            LogNews::End(end) => view.ended = Some(*end),
        }
    }

    fn is_over(&self) -> bool {
        self.gone || self.is_terminal()
    }

    fn is_terminal(&self) -> bool {
        match self.target.kind {
            TargetKind::WorkflowRun => self
                .workflow_run
                .as_ref()
                .and_then(|object| object.status.as_ref())
                .is_some_and(|status| status.phase.is_terminal()),
            TargetKind::Run => self
                .run
                .as_ref()
                .and_then(|object| object.status.as_ref())
                .is_some_and(|status| status.phase.is_terminal()),
        }
    }

    /// Tells whether every Run that was executed is terminal and its output complete.
    fn is_complete(&self) -> bool {
        let expected = self.expected_runs();
        let seen: BTreeSet<StepPath> = self.runs.values().map(|run| run.path.clone()).collect();
        expected.is_subset(&seen)
            && self
                .runs
                .values()
                .all(|run| run.phase.is_terminal() && (!run.started || run.ended.is_some()))
    }

    /// Paths of the steps whose Runs the status names.
    fn expected_runs(&self) -> BTreeSet<StepPath> {
        let status = self
            .workflow_run
            .as_ref()
            .and_then(|object| object.status.as_ref());
        let jobs = status.and_then(|status| status.jobs.as_ref());
        let mut paths = BTreeSet::new();
        for (name, job) in jobs.into_iter().flatten() {
            for step in job.steps.iter().filter(|step| step.run_name.is_some()) {
                paths.insert(StepPath::step(name, &step.name));
            }
        }
        paths
    }

    fn ending(&mut self) -> Ending {
        let (phase, message, object) = match (&self.workflow_run, &self.run) {
            (Some(object), _) => {
                let status = object.status.clone().unwrap_or_default();
                (
                    status.phase.as_str(),
                    status.message,
                    serde_json::to_value(object.as_ref()),
                )
            }
            (None, Some(object)) => {
                let status = object.status.clone().unwrap_or_default();
                (
                    status.phase.as_str(),
                    status.message,
                    serde_json::to_value(object.as_ref()),
                )
            }
            (None, None) => (DELETED, None, Ok(Value::Null)),
        };
        let (phase, message) = if self.is_terminal() {
            (phase, message)
        } else {
            (DELETED, Some("deleted before it ended".to_owned()))
        };
        let mut failures: Vec<Failure> = self
            .runs
            .values_mut()
            .filter_map(RunView::failure)
            .collect();
        failures.sort_by(|a, b| a.path.cmp(&b.path));
        Ending {
            phase,
            message,
            wall: self.started.elapsed(),
            object: object.unwrap_or_default(),
            failures,
        }
    }
}

impl RunView {
    fn failure(&mut self) -> Option<Failure> {
        if self.phase == RunPhase::Succeeded {
            return None;
        }
        Some(Failure {
            path: self.path.clone(),
            phase: self.phase.as_str(),
            reason: self.reason.take(),
            message: self.message.take(),
            exit_code: self.ended.as_ref().and_then(|end| end.exit_code),
            stderr_tail: std::mem::take(&mut self.stderr).into(),
        })
    }
}

fn path_of(run: &Run) -> StepPath {
    let label = |key: &str| run.labels().get(key).cloned();
    StepPath {
        job: label(keys::LABEL_WORKFLOW_JOB),
        step: label(keys::LABEL_WORKFLOW_STEP),
        action_step: label(keys::LABEL_WORKFLOW_ACTION_STEP),
    }
}

fn failure_reason(run: &Run) -> Option<String> {
    let status = run.status.as_ref()?;
    if !status.phase.is_terminal() || status.phase == RunPhase::Succeeded {
        return None;
    }
    condition::get(&status.conditions, keys::CONDITION_COMPLETED)
        .map(|completed| completed.reason.clone())
}

fn stream_of(record: &LogRecord) -> OutputStream {
    match record.stream {
        kruntimes_node::LogStream::Stderr => OutputStream::Stderr,
        kruntimes_node::LogStream::Stdout | kruntimes_node::LogStream::Audit => {
            OutputStream::Stdout
        }
    }
}
