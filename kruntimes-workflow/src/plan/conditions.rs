//! Decides conditions of jobs and steps from a status (W-198).

use kruntimes_core::api::{Job, JobPhase, JobStatus, StepPhase, StepStatus};

use super::derive::{Derivation, JobStates, fail, skip_text};
use super::scopes::{Jobs, States, Steps};
use super::{Reason, State, message};
use crate::condition::{Condition, ConditionError, Ended, Facts, Outcomes};
use crate::expr::{ErrorKind, Scope, evaluate_body};
use crate::extend::{Extension, Subject, Verdict};
use crate::graph::{self, Reference, StepResult, reference};
use crate::snapshot::Snapshot;

/// Says how a job ended, as conditions see it; `None` while it has not.
fn ended(jobs: &dyn States, name: &str) -> Option<Ended> {
    let job = jobs.job(name)?;
    Some(match job.conclusion() {
        JobPhase::Succeeded => Ended::Success,
        JobPhase::Failed if was_cancelled(job) => Ended::Cancelled,
        JobPhase::Failed => Ended::Failure,
        JobPhase::Skipped => Ended::Skipped {
            behind_failure: behind_failure(jobs, job),
        },
        JobPhase::Pending | JobPhase::Waiting | JobPhase::Running => return None,
    })
}

fn was_cancelled(job: &JobStatus) -> bool {
    let reasons = [
        Reason::StepCancelled,
        Reason::ChildCancelled,
        Reason::Cancelled,
        Reason::FailFast,
    ];
    let reason = job.reason.as_deref();
    reasons.iter().any(|one| reason == Some(one.as_str()))
}

/// Tells whether a job was skipped because of a failed one: its need, or the cause why that was skipped.
fn behind_failure(jobs: &dyn States, job: &JobStatus) -> bool {
    let mut open: Vec<&JobStatus> = vec![job];
    let mut seen = std::collections::BTreeSet::new();
    while let Some(job) = open.pop() {
        if job.reason.as_deref() != Some(Reason::DependencyFailed.as_str()) {
            continue;
        }
        for need in &job.pre {
            let Some(found) = jobs.job(need).filter(|_| seen.insert(need)) else {
                continue;
            };
            match found.conclusion() {
                JobPhase::Failed if !was_cancelled(found) => return true,
                JobPhase::Skipped => open.push(found),
                JobPhase::Pending
                | JobPhase::Waiting
                | JobPhase::Running
                | JobPhase::Succeeded
                | JobPhase::Failed => {}
            }
        }
    }
    false
}

/// Says how a job ended, or all legs of one together: the worst counts.
fn result(snapshot: &Snapshot, jobs: &dyn States, name: &str) -> Option<Ended> {
    let Some(legs) = snapshot.legs.get(name) else {
        return ended(jobs, name);
    };
    let all: Option<Vec<Ended>> = legs.iter().map(|leg| ended(jobs, leg)).collect();
    let rank = |ended: &Ended| match ended {
        Ended::Success => 0,
        Ended::Skipped { .. } => 1,
        Ended::Cancelled => 2,
        Ended::Failure => 3,
    };
    all?.into_iter().max_by_key(rank)
}

fn step_ended(phase: StepPhase) -> Option<Ended> {
    match phase {
        StepPhase::Succeeded => Some(Ended::Success),
        StepPhase::Failed | StepPhase::Timeout => Some(Ended::Failure),
        StepPhase::Cancelled => Some(Ended::Cancelled),
        StepPhase::Skipped => Some(Ended::Skipped {
            behind_failure: false,
        }),
        StepPhase::Pending | StepPhase::Running => None,
    }
}

/// What the condition of a job, or of one of its steps, is decided from.
struct Known<'a> {
    state: &'a State,
    snapshot: &'a Snapshot,
    jobs: &'a Jobs<'a>,
    /// Steps before the one in question; absent for a job.
    steps: Option<&'a [StepStatus]>,
    outcomes: Outcomes,
}

impl Known<'_> {
    fn step(&self, name: &str) -> Option<&StepStatus> {
        self.steps?.iter().find(|step| step.name == name)
    }

    fn evaluate(&self, body: &str) -> Result<String, ConditionError> {
        let steps = self.steps.map(|all| Steps {
            all,
            before: all.len(),
        });
        let scope = Scope {
            inputs: None,
            steps: steps
                .as_ref()
                .map(|steps| steps as &dyn crate::expr::Source),
            jobs: Some(self.jobs),
            extra: Some(&self.state.policy.extensions.contexts),
        };
        match evaluate_body(body, &scope) {
            Ok(value) => Ok(value),
            // Names were checked when the definition was accepted: what is missing was not written.
            Err(ErrorKind::NoOutput { .. } | ErrorKind::NoOutputsFor(_)) => Ok(String::new()),
            Err(kind) => Err(ConditionError::Reference(kind.to_string())),
        }
    }
}

impl Facts for Known<'_> {
    fn outcomes(&self) -> Outcomes {
        self.outcomes
    }

    fn read(&self, text: &str) -> Result<String, ConditionError> {
        let unknown = || ConditionError::Reference(format!("{text} is not known here"));
        match reference(text) {
            Reference::JobResult(name) => {
                let ended = result(self.snapshot, self.jobs.status, name).ok_or_else(unknown)?;
                Ok(ended.as_str().to_owned())
            }
            Reference::StepResult(name, which) => {
                let step = self.step(name).ok_or_else(unknown)?;
                let phase = match which {
                    StepResult::Outcome => step.phase,
                    StepResult::Conclusion => step.conclusion(),
                };
                Ok(step_ended(phase).map_or("", Ended::as_str).to_owned())
            }
            Reference::NeedsOutput(rest) => self.evaluate(&format!("jobs.{rest}")),
            Reference::Expression(text) => self.evaluate(text),
        }
    }

    fn call(&self, name: &str, arguments: &[String]) -> Result<String, ConditionError> {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let called = self.state.policy.extensions.contexts.call(name, &arguments);
        let called = called.ok_or_else(|| ConditionError::UnknownFunction(name.to_owned()))?;
        called.map_err(|kind| ConditionError::Reference(kind.to_string()))
    }
}

/// What a condition makes of a job that could start.
pub(super) enum Settled {
    /// It waits, or starts.
    Open,
    /// It is skipped.
    Skipped(Reason, String),
    /// It fails: its condition cannot be decided.
    Failed(String),
}

impl Settled {
    /// Writes it down.
    pub(super) fn record(self, job: &mut JobStatus) {
        match self {
            Self::Open => {}
            Self::Skipped(reason, text) => {
                job.phase = JobPhase::Skipped;
                job.reason = Some(reason.as_str().to_owned());
                job.message = Some(text);
            }
            Self::Failed(text) => fail(job, Reason::InvalidExpression, text),
        }
    }
}

/// Tells whether a later step of a job with a failed one may still run, or is running.
pub(super) fn may_go_on(state: &State, definition: Option<&Job>, job: &JobStatus) -> bool {
    let open = |step: &StepStatus| matches!(step.phase, StepPhase::Pending | StepPhase::Running);
    definition.is_some_and(|job| is_conditional(state, job)) && job.steps.iter().any(open)
}

impl Derivation<'_> {
    /// Decides a job with a condition once everything before it is settled.
    ///
    /// `None` when it has none.
    pub(super) fn conditional(
        &self,
        name: &str,
        job: &JobStatus,
        jobs: &JobStates,
    ) -> Option<Settled> {
        let snapshot = self.state.snapshot.as_deref()?;
        let definition = snapshot.spec.jobs.get(name)?;
        let text = definition.condition.as_deref()?;
        if !self.state.policy.extensions.has(Extension::Conditions) {
            return None;
        }
        if !before_is_settled(snapshot, name, jobs) {
            return Some(Settled::Open);
        }
        let seen = Jobs::seen_from(name, &snapshot.spec.jobs, jobs).with_legs(&snapshot.legs);
        let known = Known {
            state: self.state,
            snapshot,
            jobs: &seen,
            steps: None,
            outcomes: Outcomes::of_jobs(job.pre.iter().filter_map(|need| ended(jobs, need))),
        };
        let read = Condition::parse(text);
        let decided = read.and_then(|read| Ok((read.asks_ends(), read.holds(&known)?)));
        Some(match decided {
            Ok((_, true)) => Settled::Open,
            Ok((false, false)) if !known.outcomes.success => {
                Settled::Skipped(Reason::DependencyFailed, skip_text(name, job, jobs)?)
            }
            Ok((_, false)) => {
                let text = message::condition_false(name, text);
                Settled::Skipped(Reason::ConditionFalse, text)
            }
            Err(cause) => Settled::Failed(message::condition_invalid(name, &cause.to_string())),
        })
    }
}

/// Tells whether all that a job may read is settled, so that no condition depends on time (W-34).
pub(super) fn before_is_settled(snapshot: &Snapshot, name: &str, jobs: &JobStates) -> bool {
    let mut before = graph::ancestors(&snapshot.spec.jobs, name).into_iter();
    before.all(|need| jobs.get(need).is_some_and(|job| job.phase.is_settled()))
}

/// Tells whether steps of a job may be skipped, or run after a failed one.
pub(super) fn is_conditional(state: &State, definition: &Job) -> bool {
    let extensions = &state.policy.extensions;
    extensions.predicate.is_some()
        || (extensions.has(Extension::Conditions)
            && definition.steps.iter().any(|step| step.condition.is_some()))
}

/// Skips or fails steps up to the first that is to run; whether anything changed.
pub(super) fn settle_steps(
    state: &State,
    snapshot: &Snapshot,
    (name, definition): (&str, &Job),
    jobs: &Jobs<'_>,
    job: &mut JobStatus,
) -> bool {
    let mut changed = false;
    for index in 0..job.steps.len().min(definition.steps.len()) {
        let step = &job.steps[index];
        match step.phase {
            StepPhase::Running => return changed,
            StepPhase::Pending if step.run_name.is_some() => return changed,
            StepPhase::Pending => {}
            StepPhase::Succeeded
            | StepPhase::Skipped
            | StepPhase::Failed
            | StepPhase::Timeout
            | StepPhase::Cancelled => continue,
        }
        let verdict = decide_step(state, snapshot, (name, definition), jobs, (job, index));
        let step = &mut job.steps[index];
        match verdict {
            Verdict::Run => return changed,
            Verdict::Skip(why) => {
                step.phase = StepPhase::Skipped;
                step.reason = Some(message::fit(&why));
            }
            Verdict::Fail(why) => {
                step.phase = StepPhase::Failed;
                job.reason = Some(Reason::InvalidExpression.as_str().to_owned());
                let step = &definition.steps[index].name;
                job.message = Some(message::resolve_step(name, step, &why));
            }
        }
        changed = true;
    }
    changed
}

fn decide_step(
    state: &State,
    snapshot: &Snapshot,
    (name, definition): (&str, &Job),
    jobs: &Jobs<'_>,
    (job, index): (&JobStatus, usize),
) -> Verdict {
    let earlier = &job.steps[..index];
    let ends = earlier
        .iter()
        .filter_map(|step| step_ended(step.conclusion()));
    let known = Known {
        state,
        snapshot,
        jobs,
        steps: Some(earlier),
        outcomes: Outcomes::of_steps(ends),
    };
    let on = state.policy.extensions.has(Extension::Conditions);
    let text = definition.steps[index].condition.as_deref().filter(|_| on);
    let holds = match text.map(Condition::parse) {
        None => Ok(known.outcomes.success),
        Some(read) => read.and_then(|read| read.holds(&known)),
    };
    match (holds, text) {
        (Err(cause), _) => return Verdict::Fail(format!("if: {cause}")),
        (Ok(false), None) => return Verdict::Skip("an earlier step did not succeed".to_owned()),
        (Ok(false), Some(text)) => return Verdict::Skip(format!("condition is false: {text}")),
        (Ok(true), _) => {}
    }
    let subject = Subject {
        job: name,
        step: Some(&job.steps[index].name),
        status: job,
    };
    let predicate = state.policy.extensions.predicate.as_ref();
    predicate.map_or(Verdict::Run, |predicate| predicate.decide(&subject))
}

/// Asks the plugged-in predicate about a job that could start.
pub(super) fn decide_job(state: &State, name: &str, job: &JobStatus) -> Verdict {
    let subject = Subject {
        job: name,
        step: None,
        status: job,
    };
    let predicate = state.policy.extensions.predicate.as_ref();
    let started = job.phase == JobPhase::Running;
    predicate
        .filter(|_| !started)
        .map_or(Verdict::Run, |predicate| predicate.decide(&subject))
}
