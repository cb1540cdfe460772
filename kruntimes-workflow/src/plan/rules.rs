//! What extensions change about a turn: who may enter, who may start, and who has to stop.

use std::collections::BTreeMap;

use kruntimes_core::api::{
    Decision, Job, JobPhase, JobStatus, Strategy, WorkflowRunPhase, WorkflowRunStatus,
};
use kruntimes_core::time::Time;

use super::children::Children;
use super::derive::{Derivation, JobStates, complete, fail};
use super::{Action, ChildNames, Ownership, Reason, State, message};
use crate::concurrency::{Admission, Contender, admit, pick};
use crate::condition::Condition;
use crate::extend::Extension;
use crate::snapshot::Snapshot;

/// Returns what the concurrency group says, when the WorkflowRun is in one.
pub(super) fn admission(state: &State) -> Admission {
    let strategy = strategy(state, Extension::Concurrency);
    let group = strategy.and_then(|strategy| strategy.concurrency.as_ref());
    let over = state.status.phase.is_terminal() || state.spec.cancel_requested;
    match group {
        Some(group) if !over => {
            let own = Contender {
                name: state.name.clone(),
                created: state.created,
                policy: group.policy,
                holds: state.status.jobs.is_some(),
                cancelling: false,
            };
            admit(&own, &state.rivals)
        }
        Some(_) | None => Admission::Run,
    }
}

/// Returns the rules for the whole execution, if the extension is on.
fn strategy(state: &State, extension: Extension) -> Option<&Strategy> {
    let on = state.policy.extensions.has(extension);
    state.spec.strategy.as_deref().filter(|_| on)
}

/// Why a job is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    WorkflowTimeout,
    JobTimeout,
    FailFast,
}

impl Stop {
    fn reason(self) -> Reason {
        match self {
            Self::WorkflowTimeout => Reason::WorkflowTimeout,
            Self::JobTimeout => Reason::JobTimeout,
            Self::FailFast => Reason::FailFast,
        }
    }

    fn text(self, job: &str) -> String {
        match self {
            Self::WorkflowTimeout => message::workflow_timed_out(job),
            Self::JobTimeout => message::job_timed_out(job),
            Self::FailFast => message::failed_fast(job),
        }
    }
}

/// The rules of one turn, as far as they depend on the status.
pub(super) struct Rules {
    now: Time,
    late: bool,
    failed: bool,
}

impl Rules {
    /// Looks at a status; without extensions nothing is ever stopped.
    pub(super) fn of(state: &State, status: &WorkflowRunStatus) -> Self {
        let now = state.now;
        let fast = strategy(state, Extension::FailFast).is_some_and(|rules| rules.fail_fast);
        let jobs = || status.jobs.iter().flat_map(BTreeMap::values);
        Self {
            now,
            late: is_past(status.deadline, now),
            failed: fast && jobs().any(|job| job.conclusion() == JobPhase::Failed),
        }
    }

    /// Says whether a job that is not settled has to stop, and why.
    pub(super) fn stop(&self, definition: Option<&Job>, job: &JobStatus) -> Option<Stop> {
        if self.late {
            return Some(Stop::WorkflowTimeout);
        }
        if is_past(job.deadline, self.now) {
            return Some(Stop::JobTimeout);
        }
        (self.failed && !cleans_up(definition)).then_some(Stop::FailFast)
    }
}

/// Tells whether a job asks how others ended: such jobs run after a failure as well.
fn cleans_up(definition: Option<&Job>) -> bool {
    let condition = definition.and_then(|job| job.condition.as_deref());
    let read = condition.map(Condition::parse);
    matches!(read, Some(Ok(condition)) if condition.asks_status())
}

fn is_past(deadline: Option<Time>, now: Time) -> bool {
    deadline.is_some_and(|deadline| deadline <= now)
}

/// Names the unfinished children, not yet asked to cancel, of jobs that have to stop.
pub(super) fn stopped(
    state: &State,
    snapshot: &Snapshot,
    children: &Children<'_>,
    status: &WorkflowRunStatus,
) -> ChildNames {
    let rules = Rules::of(state, status);
    let mut found = ChildNames::default();
    for (name, job) in status.jobs.iter().flatten() {
        let definition = snapshot.spec.jobs.get(name);
        if job.phase != JobPhase::Running || rules.stop(definition, job).is_none() {
            continue;
        }
        let open = children.runs(name).filter(|run| !run.phase.is_terminal());
        let unasked = open.filter(|run| !run.cancel_asked);
        found.runs.extend(unasked.map(|run| run.name.clone()));
        let child = open_call(state, job).filter(|child| !child.cancel_asked);
        found
            .workflow_runs
            .extend(child.map(|child| child.name.clone()));
    }
    found
}

fn open_call<'a>(state: &'a State, job: &JobStatus) -> Option<&'a super::Called> {
    let name = job.workflow_run_name.as_deref()?;
    let open = |child: &&super::Called| {
        child.name == name
            && child.ownership != Ownership::Foreign
            && !child.status.phase.is_terminal()
    };
    state.calls.iter().find(open)
}

impl Derivation<'_> {
    /// Stops what has to stop, and concludes failures that are allowed.
    pub(super) fn halt(&mut self, status: &mut WorkflowRunStatus) {
        let state = self.state;
        if state.policy.extensions.is_empty() {
            return;
        }
        let snapshot = state.snapshot.as_deref();
        let definition = |name: &str| snapshot.and_then(|found| found.spec.jobs.get(name));
        conclude(status, definition);
        let rules = Rules::of(state, status);
        for (name, job) in status.jobs.iter_mut().flatten() {
            let Some(stop) = rules.stop(definition(name), job) else {
                continue;
            };
            let (reason, text) = (stop.reason(), stop.text(name));
            match job.phase {
                JobPhase::Pending | JobPhase::Waiting => {
                    job.phase = JobPhase::Skipped;
                    job.reason = Some(reason.as_str().to_owned());
                    job.message = Some(text);
                }
                JobPhase::Running => {
                    let open = |run: &super::Child| !run.phase.is_terminal();
                    if self.children.runs(name).any(open) || open_call(state, job).is_some() {
                        job.reason = Some(reason.as_str().to_owned());
                        job.message = Some(text);
                    } else {
                        fail(job, reason, text);
                    }
                }
                JobPhase::Succeeded | JobPhase::Failed | JobPhase::Skipped => {}
            }
        }
        conclude(status, definition);
    }
}

/// Lets failed jobs that may fail count as successes.
fn conclude<'a>(status: &mut WorkflowRunStatus, definition: impl Fn(&str) -> Option<&'a Job>) {
    for (name, job) in status.jobs.iter_mut().flatten() {
        let allowed = definition(name).is_some_and(|job| job.continue_on_error);
        if job.phase == JobPhase::Failed && allowed {
            job.conclusion = Some(JobPhase::Succeeded);
        }
    }
}

/// Lets unsuccessful steps that may fail count as successes.
pub(super) fn conclude_steps(definition: Option<&Job>, job: &mut JobStatus) {
    let steps = definition.map_or(&[][..], |job| &job.steps);
    for (step, status) in steps.iter().zip(&mut job.steps) {
        if step.continue_on_error && status.phase.is_unsuccessful() && status.conclusion.is_none() {
            status.conclusion = Some(kruntimes_core::api::StepPhase::Succeeded);
            // What there is to say about it is no longer about the job.
            job.reason = None;
            job.message = None;
        }
    }
}

/// Tells whether the end is a failure although no job failed: jobs were skipped for want of time.
pub(super) fn ran_out_of_time(jobs: &JobStates) -> bool {
    let reason = Reason::WorkflowTimeout.as_str();
    jobs.values()
        .any(|job| job.reason.as_deref() == Some(reason))
}

/// Ends a WorkflowRun whose time was over.
pub(super) fn end_late(status: &mut WorkflowRunStatus, now: Time) {
    status.phase = WorkflowRunPhase::Failed;
    status.message = Some(message::TIMED_OUT.to_owned());
    complete(status, message::REASON_TIMED_OUT, message::TIMED_OUT, now);
}

/// What stands at a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gate {
    Open,
    Closed,
    Denied,
}

/// Looks at the gate of a job or step (W-202).
pub(super) fn gate(state: &State, name: Option<&str>) -> Gate {
    let Some(name) = name else { return Gate::Open };
    let stored = state.spec.decisions.get(name);
    match stored.or_else(|| state.decisions.get(name)) {
        None => Gate::Closed,
        Some(Decision::Approved) => Gate::Open,
        Some(Decision::Denied) => Gate::Denied,
    }
}

/// Leaves of the jobs that are ready those that may go on or start now (W-203).
pub(super) fn admitted<'a>(
    state: &State,
    snapshot: &Snapshot,
    jobs: &JobStates,
    ready: Vec<&'a str>,
) -> Vec<&'a str> {
    let status = WorkflowRunStatus {
        deadline: state.status.deadline,
        ..WorkflowRunStatus::default()
    };
    let extensions = &state.policy.extensions;
    if extensions.is_empty() {
        return ready;
    }
    if state.spec.suspend {
        return Vec::new();
    }
    let mut rules = Rules::of(state, &status);
    let fast = strategy(state, Extension::FailFast).is_some_and(|rules| rules.fail_fast);
    rules.failed = fast
        && jobs
            .values()
            .any(|job| job.conclusion() == JobPhase::Failed);
    let goes_on = |name: &&str| {
        let (definition, job) = (snapshot.spec.jobs.get(*name), &jobs[*name]);
        let gate = definition.and_then(|job| job.gate.as_deref());
        let started = job.phase == JobPhase::Running;
        rules.stop(definition, job).is_none() && (started || gate_is_decided(state, gate))
    };
    let ready: Vec<&str> = ready.into_iter().filter(goes_on).collect();
    let (mut going, fresh): (Vec<&str>, Vec<&str>) = ready
        .into_iter()
        .partition(|name| jobs[*name].phase == JobPhase::Running);
    let max = strategy(state, Extension::MaxParallel).and_then(|rules| rules.max_parallel);
    let choose = extensions.choose.as_deref();
    going.extend(pick(jobs, fresh, max, choose));
    going.sort_unstable();
    going
}

fn gate_is_decided(state: &State, name: Option<&str>) -> bool {
    gate(state, name) != Gate::Closed
}

/// Gives jobs that start, or were found started, the deadline that goes with them.
pub(super) fn set_deadlines(state: &State, action: &Action, status: &mut WorkflowRunStatus) {
    let Some(snapshot) = &state.snapshot else {
        return;
    };
    if !state.policy.extensions.has(Extension::Timeouts) || status.phase.is_terminal() {
        return;
    }
    let starting = |name: &str| match action {
        Action::StartRunnableSteps(targets) => {
            targets.steps.iter().any(|start| start.key.job == name)
                || targets.calls.iter().any(|call| call.job == name)
        }
        Action::None
        | Action::Initialize(_)
        | Action::RequestChildCancellation(_)
        | Action::CancelItself { .. } => false,
    };
    for (name, job) in status.jobs.iter_mut().flatten() {
        let definition = snapshot.spec.jobs.get(name);
        let timeout = definition.and_then(|job| job.timeout);
        let (Some(timeout), None) = (timeout, job.deadline) else {
            continue;
        };
        if job.phase == JobPhase::Running || starting(name) {
            job.deadline = Some(after(state.now, timeout));
        }
    }
}

/// Returns the deadline of a WorkflowRun that is accepted now.
pub(super) fn deadline(state: &State) -> Option<Time> {
    let timeout = strategy(state, Extension::Timeouts)?.timeout?;
    Some(after(state.now, timeout))
}

/// A status holds whole seconds; a deadline is never earlier than asked for.
fn after(now: Time, timeout: kruntimes_core::duration::Duration) -> Time {
    let exact = Time(timeout.after(now.0));
    let whole = exact.to_seconds();
    if whole == exact {
        return whole;
    }
    Time(kruntimes_core::duration::Duration::from_secs(1).after(whole.0))
}

/// Returns when the next deadline passes, so that somebody looks then (W-209).
pub(super) fn wake(state: &State, status: &WorkflowRunStatus) -> Option<Time> {
    let over = matches!(
        status.phase,
        WorkflowRunPhase::Succeeded | WorkflowRunPhase::Failed | WorkflowRunPhase::Cancelled
    );
    if over || state.spec.cancel_requested || !state.policy.extensions.has(Extension::Timeouts) {
        return None;
    }
    let jobs = status.jobs.iter().flat_map(BTreeMap::values);
    let open = jobs.filter(|job| !job.phase.is_settled());
    let deadlines = open.filter_map(|job| job.deadline).chain(status.deadline);
    deadlines.filter(|deadline| *deadline > state.now).min()
}
