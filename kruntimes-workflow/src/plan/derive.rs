//! Derives status from what is observed: Runs, Actions, calls, then jobs, skipping, the end.
//!
//! Deriving is no action and never costs a turn of its own (W-59).

use std::collections::BTreeMap;
use std::ops::Range;

use kruntimes_core::api::{
    Job, JobPhase, JobStatus, StepStatus, WorkflowRunPhase, WorkflowRunStatus,
};
use kruntimes_core::condition::{self, ConditionStatus, Fact};
use kruntimes_core::keys::CONDITION_COMPLETED;

use super::budget::Budget;
use super::children::Children;
use super::conditions::Settled;
use super::scopes::{Jobs, States};
use super::{
    ChildNames, Need, Reason, State, artifacts, cancel, conditions, message, outputs, rules,
};
use crate::extend::Extension;

pub(super) type JobStates = BTreeMap<String, JobStatus>;

/// A status in the making and what is missing to complete it.
pub(super) struct Derivation<'a> {
    pub(super) state: &'a State,
    pub(super) children: Children<'a>,
    pub(super) budget: Budget,
    pub(super) needs: Vec<Need>,
    pub(super) adopt: ChildNames,
}

/// A job and what the definition says about it, if it does.
pub(super) type Named<'a> = (&'a str, Option<&'a Job>);

/// What a derivation yields.
pub(super) struct Derived<'a> {
    pub(super) status: WorkflowRunStatus,
    pub(super) needs: Vec<Need>,
    pub(super) adopt: ChildNames,
    pub(super) children: Children<'a>,
}

/// Derives the status of a WorkflowRun. A final phase never changes (W-83).
pub(super) fn derive(state: &State) -> Derived<'_> {
    let mut derivation = Derivation {
        state,
        children: Children::index(state),
        budget: Budget::of(&state.status),
        needs: Vec::new(),
        adopt: ChildNames::default(),
    };
    let mut status = state.status.clone();
    if !status.phase.is_terminal() {
        derivation.advance(&mut status);
    }
    let Derivation {
        mut needs,
        mut adopt,
        children,
        ..
    } = derivation;
    needs.sort();
    needs.dedup();
    for names in [&mut adopt.runs, &mut adopt.workflow_runs] {
        names.sort();
        names.dedup();
    }
    Derived {
        status,
        needs,
        adopt,
        children,
    }
}

impl Derivation<'_> {
    fn advance(&mut self, status: &mut WorkflowRunStatus) {
        if let Some(jobs) = &mut status.jobs {
            let open = jobs.iter().filter(|(_, job)| !job.phase.is_settled());
            let open: Vec<String> = open.map(|(name, _)| name.clone()).collect();
            let snapshot = self.state.snapshot.as_ref();
            for name in open {
                // What a job may read of others was settled before it started.
                let Some(mut job) = jobs.remove(&name) else {
                    continue;
                };
                let definition = snapshot.and_then(|snapshot| snapshot.spec.jobs.get(&name));
                let steps = 0..job.steps.len();
                self.advance_job((&name, definition), &mut job, steps, jobs);
                jobs.insert(name, job);
            }
            if jobs.values().any(|job| job.phase == JobPhase::Running) {
                status.phase = WorkflowRunPhase::Running;
            }
        }
        self.halt(status);
        if self.state.spec.cancel_requested {
            cancel::derive(self.state, status, self.needs.is_empty());
            return;
        }
        if let Some(jobs) = &mut status.jobs {
            self.skip(jobs);
        }
        explain(status);
        self.finish(status);
    }

    /// Derives one job, looking for the Runs of the given `steps`.
    pub(super) fn advance_job(
        &mut self,
        (name, definition): Named<'_>,
        job: &mut JobStatus,
        steps: Range<usize>,
        others: &dyn States,
    ) {
        self.observe((name, definition), job, steps, others);
        self.follow(name, definition, job);
        self.watch_workspace(name, job);
        self.aggregate((name, definition), job);
    }

    /// Settles a job whose steps leave no choice (section 9).
    fn aggregate(&mut self, (name, definition): Named<'_>, job: &mut JobStatus) {
        if job.phase.is_settled() {
            return;
        }
        if self.state.policy.extensions.has(Extension::ContinueOnError) {
            rules::conclude_steps(definition, job);
        }
        let failed = |step: &&StepStatus| step.conclusion().is_unsuccessful();
        if let Some(step) = job.steps.iter().find(failed) {
            if conditions::may_go_on(self.state, definition, job) {
                return;
            }
            if job.reason.is_none() || job.message.is_none() {
                let (reason, text) = self.blame(name, step);
                job.reason = job.reason.take().or(Some(reason.as_str().to_owned()));
                job.message = job.message.take().or(Some(text));
            }
            job.phase = JobPhase::Failed;
            return;
        }
        let done = |step: &StepStatus| step.conclusion().is_done();
        if job.steps.is_empty() || !job.steps.iter().all(done) {
            return;
        }
        let Some(definition) = definition else {
            return;
        };
        let artifacts = artifacts::of_job(name, job, &self.children, &mut self.budget);
        let mut outputs = || outputs::of_job(name, definition, job, &mut self.budget);
        match artifacts.and_then(|artifacts| Ok((artifacts, outputs()?))) {
            Ok((artifacts, outputs)) => {
                job.phase = JobPhase::Succeeded;
                job.artifacts = artifacts;
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
        let failed = jobs
            .values()
            .any(|job| job.conclusion() == JobPhase::Failed);
        if rules::ran_out_of_time(jobs) {
            rules::end_late(status, self.state.now.to_seconds());
            return;
        }
        let Some(jobs) = status.jobs.take() else {
            return;
        };
        self.end(status, failed, &jobs);
        status.jobs = Some(jobs);
    }

    /// Ends the WorkflowRun, all of whose `jobs` are settled.
    pub(super) fn end(&mut self, status: &mut WorkflowRunStatus, failed: bool, jobs: &dyn States) {
        let now = self.state.now.to_seconds();
        if failed {
            status.phase = WorkflowRunPhase::Failed;
            let text = status.message.clone().unwrap_or_default();
            complete(status, message::REASON_JOB_FAILED, &text, now);
            return;
        }
        if let Some(snapshot) = self.state.snapshot.as_ref() {
            let contract = &snapshot.outputs;
            let whose = || "the WorkflowRun".to_owned();
            let seen = Jobs::all(jobs).with_legs(&snapshot.legs);
            match outputs::of_contract(whose, contract, &seen, &mut self.budget) {
                Ok(outputs) => status.outputs = outputs,
                Err((_, cause)) => {
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

impl Derivation<'_> {
    /// Skips jobs behind a failed or skipped one, to a fixed point (W-74), or as their conditions say.
    fn skip(&self, jobs: &mut JobStates) {
        loop {
            let blocked: Vec<_> = jobs
                .iter()
                .filter(|(_, job)| matches!(job.phase, JobPhase::Pending | JobPhase::Waiting))
                .filter_map(|(name, job)| Some((name.clone(), self.settle(name, job, jobs)?)))
                .collect();
            if blocked.is_empty() {
                return;
            }
            for (name, settled) in blocked {
                if let Some(job) = jobs.get_mut(&name) {
                    settled.record(job);
                }
            }
        }
    }

    fn settle(&self, name: &str, job: &JobStatus, jobs: &JobStates) -> Option<Settled> {
        if let Some(decided) = self.conditional(name, job, jobs) {
            return (!matches!(decided, Settled::Open)).then_some(decided);
        }
        let text = skip_text(name, job, jobs)?;
        Some(Settled::Skipped(Reason::DependencyFailed, text))
    }
}

/// Records that a job will not run.
pub(super) fn skip_job(job: &mut JobStatus, text: String) {
    job.phase = JobPhase::Skipped;
    job.reason = Some(Reason::DependencyFailed.as_str().to_owned());
    job.message = Some(text);
}

/// Says which job keeps another from running, if one does.
pub(super) fn skip_text(name: &str, job: &JobStatus, jobs: &dyn States) -> Option<String> {
    let (need, phase) = blocker(jobs, job)?;
    Some(message::dependency(name, need, phase.as_str()))
}

/// Names the job to blame: a failed one before a skipped one.
fn blocker<'a>(jobs: &dyn States, job: &'a JobStatus) -> Option<(&'a str, JobPhase)> {
    let with = |wanted: JobPhase| {
        let mut pre = job.pre.iter();
        let found = pre.find(|need| jobs.job(need).is_some_and(|job| job.conclusion() == wanted));
        found.map(|need| (need.as_str(), wanted))
    };
    with(JobPhase::Failed).or_else(|| with(JobPhase::Skipped))
}

/// Shows the message of the first failed job, sorted, that has one (W-81).
pub(super) fn explain(status: &mut WorkflowRunStatus) {
    let jobs = status.jobs.iter().flatten();
    let mut failed = jobs.map(|(_, job)| job).filter(|job| {
        let failed = |step: &StepStatus| step.conclusion().is_unsuccessful();
        job.conclusion() == JobPhase::Failed
            || (job.conclusion.is_none() && job.steps.iter().any(failed))
    });
    let first = failed.find_map(|job| job.message.clone());
    if let Some(text) = first {
        status.message = Some(text);
    }
}
