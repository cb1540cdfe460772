//! Derives status from what is observed: Runs, then jobs, then skipping, then the end.
//!
//! Deriving is no action and never costs a turn of its own (W-59).

use std::collections::BTreeMap;

use kruntimes_core::api::{
    JobPhase, JobStatus, RunPhase, StepPhase, StepStatus, WorkflowRunPhase, WorkflowRunStatus,
};
use kruntimes_core::condition::{self, ConditionStatus, Fact};
use kruntimes_core::keys::CONDITION_COMPLETED;
use kruntimes_core::message::quoted;

use super::budget::Budget;
use super::children::Children;
use super::{Need, Reason, State, cancel, message, outputs};

type JobStates = BTreeMap<String, JobStatus>;

/// A status in the making and what is missing to complete it.
pub(super) struct Derivation<'a> {
    state: &'a State,
    children: Children<'a>,
    budget: Budget,
    needs: Vec<Need>,
    adopt: Vec<String>,
}

/// What a derivation yields.
pub(super) struct Derived {
    pub(super) status: WorkflowRunStatus,
    pub(super) needs: Vec<Need>,
    pub(super) adopt: Vec<String>,
}

/// Derives the status of a WorkflowRun. A final phase never changes (W-83).
pub(super) fn derive(state: &State) -> Derived {
    let mut derivation = Derivation {
        state,
        children: Children::index(state),
        budget: Budget::of(&state.status),
        needs: Vec::new(),
        adopt: Vec::new(),
    };
    let mut status = state.status.clone();
    if !status.phase.is_terminal() {
        derivation.advance(&mut status);
    }
    let Derivation {
        mut needs,
        mut adopt,
        ..
    } = derivation;
    needs.sort();
    needs.dedup();
    adopt.sort();
    adopt.dedup();
    Derived {
        status,
        needs,
        adopt,
    }
}

impl Derivation<'_> {
    fn advance(&mut self, status: &mut WorkflowRunStatus) {
        if let Some(jobs) = &mut status.jobs {
            for (name, job) in jobs.iter_mut().filter(|(_, job)| !job.phase.is_settled()) {
                self.observe(name, job);
                self.aggregate(name, job);
            }
            if jobs.values().any(|job| job.phase == JobPhase::Running) {
                status.phase = WorkflowRunPhase::Running;
            }
        }
        if self.state.spec.cancel_requested {
            cancel::derive(self.state, status, self.needs.is_empty());
            return;
        }
        if let Some(jobs) = &mut status.jobs {
            skip(jobs);
        }
        explain(status);
        self.finish(status);
    }

    /// Copies what child Runs report to their steps (W-72).
    fn observe(&mut self, job_name: &str, job: &mut JobStatus) {
        for index in 0..job.steps.len() {
            let step = &mut job.steps[index];
            if step.phase == StepPhase::Succeeded || step.phase.is_unsuccessful() {
                continue;
            }
            let before = step.phase;
            let failure = self.observe_step(job_name, step);
            if job.phase != JobPhase::Running && step.phase != before {
                job.phase = JobPhase::Running;
            }
            if let Some((reason, text)) = failure {
                job.reason = Some(reason.as_str().to_owned());
                job.message = Some(text);
            }
        }
    }

    fn observe_step(&mut self, job: &str, step: &mut StepStatus) -> Option<(Reason, String)> {
        let place = (job, step.name.as_str(), None);
        let Some(child) = self.children.of(place, step.run_name.as_deref()) else {
            return self.missing(step);
        };
        if child.ownership == super::Ownership::Orphan {
            self.adopt.push(child.name.clone());
        }
        if step.run_name.is_none() {
            step.run_name = Some(child.name.clone());
        }
        step.phase = match child.phase {
            RunPhase::Pending
            | RunPhase::Scheduled
            | RunPhase::Running
            | RunPhase::Ready
            | RunPhase::Finalizing => {
                step.phase = StepPhase::Running;
                return None;
            }
            RunPhase::Succeeded => StepPhase::Succeeded,
            RunPhase::Failed => StepPhase::Failed,
            RunPhase::Timeout => StepPhase::Timeout,
            RunPhase::Cancelled => StepPhase::Cancelled,
        };
        let whose = format!("step {} in job {}", quoted(&step.name), quoted(job));
        match self.budget.take_map(&whose, &child.outputs) {
            Ok(()) => {
                step.outputs.clone_from(&child.outputs);
                None
            }
            Err(text) => {
                step.phase = StepPhase::Failed;
                Some((Reason::OutputsTooLarge, text))
            }
        }
    }

    /// A recorded Run that no list shows: ask, and believe only an uncached answer (W-82).
    fn missing(&mut self, step: &mut StepStatus) -> Option<(Reason, String)> {
        let name = step.run_name.as_ref()?;
        if !self.children.is_absent(name) {
            self.needs.push(Need::ConfirmRun(name.clone()));
            return None;
        }
        step.phase = StepPhase::Failed;
        Some((
            Reason::ChildMissing,
            message::child_missing(name, &step.name),
        ))
    }

    /// Settles a job whose steps leave no choice (section 9).
    fn aggregate(&mut self, name: &str, job: &mut JobStatus) {
        if let Some(step) = job.steps.iter().find(|step| step.phase.is_unsuccessful()) {
            let place = (name, step.name.as_str(), None);
            let child = self.children.of(place, step.run_name.as_deref());
            let said = child.map_or("", |child| child.message.as_str());
            let text = || message::step_ended(name, &step.name, step.phase, said);
            let reason = || Reason::of_step(step.phase).as_str().to_owned();
            job.message = job.message.take().or_else(|| Some(text()));
            job.reason = job.reason.take().or_else(|| Some(reason()));
            job.phase = JobPhase::Failed;
            return;
        }
        let done = |step: &StepStatus| step.phase == StepPhase::Succeeded;
        if job.steps.is_empty() || !job.steps.iter().all(done) {
            return;
        }
        let snapshot = self.state.snapshot.as_ref();
        let Some(definition) = snapshot.and_then(|snapshot| snapshot.spec.jobs.get(name)) else {
            return;
        };
        match outputs::of_job(name, definition, job, &mut self.budget) {
            Ok(outputs) => {
                job.phase = JobPhase::Succeeded;
                job.outputs = outputs;
            }
            Err((reason, text)) => fail(job, reason, text),
        }
    }

    /// Settles the WorkflowRun once every job is (section 9).
    fn finish(&mut self, status: &mut WorkflowRunStatus) {
        let Some(jobs) = status.jobs.as_ref().filter(|jobs| !jobs.is_empty()) else {
            return;
        };
        if !jobs.values().all(|job| job.phase.is_settled()) {
            return;
        }
        let now = self.state.now.to_seconds();
        if jobs.values().any(|job| job.phase == JobPhase::Failed) {
            status.phase = WorkflowRunPhase::Failed;
            let text = status.message.clone().unwrap_or_default();
            complete(status, message::REASON_JOB_FAILED, &text, now);
            return;
        }
        if let Some(snapshot) = self.state.snapshot.as_ref() {
            match outputs::of_contract(snapshot, jobs, &mut self.budget) {
                Ok(outputs) => status.outputs = outputs,
                Err(cause) => {
                    let reason = Reason::OutputEvaluationFailed.as_str();
                    let cause = message::fit(&cause);
                    let kind = message::CONDITION_OUTPUTS_RESOLVED;
                    let fact = Fact::new(kind, ConditionStatus::False, reason, &cause);
                    condition::set(&mut status.conditions, &fact, now);
                }
            }
        }
        status.phase = WorkflowRunPhase::Succeeded;
        complete(status, message::REASON_SUCCEEDED, message::SUCCEEDED, now);
    }
}

/// Records a job's failure.
pub(super) fn fail(job: &mut JobStatus, reason: Reason, text: String) {
    job.phase = JobPhase::Failed;
    job.reason = Some(reason.as_str().to_owned());
    job.message = Some(text);
}

/// Records the end of the WorkflowRun (W-80).
pub(super) fn complete(
    status: &mut WorkflowRunStatus,
    reason: &str,
    text: &str,
    now: kruntimes_core::time::Time,
) {
    let holds = match status.phase {
        WorkflowRunPhase::Succeeded => ConditionStatus::True,
        WorkflowRunPhase::Pending
        | WorkflowRunPhase::Running
        | WorkflowRunPhase::Failed
        | WorkflowRunPhase::Cancelled => ConditionStatus::False,
    };
    let fact = Fact::new(CONDITION_COMPLETED, holds, reason, text);
    condition::set(&mut status.conditions, &fact, now);
}

/// Skips jobs behind a failed or skipped one, to a fixed point (W-74).
fn skip(jobs: &mut JobStates) {
    loop {
        let blocked: Vec<_> = jobs
            .iter()
            .filter(|(_, job)| matches!(job.phase, JobPhase::Pending | JobPhase::Waiting))
            .filter_map(|(name, job)| {
                let (need, phase) = blocker(jobs, job)?;
                Some((
                    name.clone(),
                    message::dependency(name, need, phase.as_str()),
                ))
            })
            .collect();
        if blocked.is_empty() {
            return;
        }
        for (name, text) in blocked {
            if let Some(job) = jobs.get_mut(&name) {
                job.phase = JobPhase::Skipped;
                job.reason = Some(Reason::DependencyFailed.as_str().to_owned());
                job.message = Some(text);
            }
        }
    }
}

/// Names the job to blame: a failed one before a skipped one.
fn blocker<'a>(jobs: &'a JobStates, job: &'a JobStatus) -> Option<(&'a str, JobPhase)> {
    let with = |wanted: JobPhase| {
        let mut pre = job.pre.iter();
        let found = pre.find(|need| jobs.get(*need).is_some_and(|job| job.phase == wanted));
        found.map(|need| (need.as_str(), wanted))
    };
    with(JobPhase::Failed).or_else(|| with(JobPhase::Skipped))
}

/// Shows the message of the first failed job, sorted, that has one (W-81).
pub(super) fn explain(status: &mut WorkflowRunStatus) {
    let jobs = status.jobs.iter().flatten();
    let mut failed = jobs.map(|(_, job)| job).filter(|job| {
        job.phase == JobPhase::Failed || job.steps.iter().any(|step| step.phase.is_unsuccessful())
    });
    let first = failed.find_map(|job| job.message.clone());
    if let Some(text) = first {
        status.message = Some(text);
    }
}
