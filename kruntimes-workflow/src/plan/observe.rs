//! Copies what child Runs report to the steps they stand for (W-72, W-113).

use std::collections::BTreeMap;
use std::ops::Range;

use kruntimes_core::api::{ActionStepStatus, JobPhase, JobStatus, RunPhase, StepPhase, StepStatus};
use kruntimes_core::message::quoted;

use super::action_call::ActionCall;
use super::children::Place;
use super::derive::{Derivation, Named};
use super::scopes::{Jobs, States};
use super::{Need, Ownership, Reason, message};

/// Why a step failed although no Run says so.
type Failure = (Reason, String);

/// A step or Action step and the status it has so far.
struct Slot<'a> {
    job: &'a str,
    place: Place<'a>,
    phase: &'a mut StepPhase,
    run_name: &'a mut Option<String>,
    outputs: &'a mut BTreeMap<String, String>,
}

impl Derivation<'_> {
    /// Observes steps of a job; `others` are the remaining jobs.
    pub(super) fn observe(
        &mut self,
        (name, definition): Named<'_>,
        job: &mut JobStatus,
        steps: Range<usize>,
        others: &dyn States,
    ) {
        for index in steps {
            let step = &mut job.steps[index];
            if step.phase == StepPhase::Succeeded || step.phase.is_unsuccessful() {
                continue;
            }
            let before = step.phase;
            let failure = if step.action_steps.is_empty() {
                self.observe_step(name, step)
            } else {
                self.observe_action(name, step)
                    .or_else(|| self.conclude((name, definition), job, index, others))
            };
            if job.phase != JobPhase::Running && job.steps[index].phase != before {
                job.phase = JobPhase::Running;
            }
            if let Some((reason, text)) = failure {
                job.reason = Some(reason.as_str().to_owned());
                job.message = Some(text);
            }
        }
    }

    fn observe_step(&mut self, job: &str, step: &mut StepStatus) -> Option<Failure> {
        self.observe_run(Slot {
            job,
            place: (&step.name, None),
            phase: &mut step.phase,
            run_name: &mut step.run_name,
            outputs: &mut step.outputs,
        })
    }

    /// Observes the Runs of an Action; the call step fails with the first that does (W-113).
    fn observe_action(&mut self, job: &str, step: &mut StepStatus) -> Option<Failure> {
        let mut failure = None;
        for inner in &mut step.action_steps {
            if inner.phase == StepPhase::Succeeded || inner.phase.is_unsuccessful() {
                continue;
            }
            let found = self.observe_run(Slot {
                job,
                place: (&step.name, Some(&inner.name)),
                phase: &mut inner.phase,
                run_name: &mut inner.run_name,
                outputs: &mut inner.outputs,
            });
            failure = failure.or(found);
        }
        let mut inner = step.action_steps.iter().map(|inner| inner.phase);
        if inner.clone().any(StepPhase::is_unsuccessful) {
            step.phase = StepPhase::Failed;
        } else if inner.any(|phase| phase != StepPhase::Pending) {
            step.phase = StepPhase::Running;
        }
        failure
    }

    fn observe_run(&mut self, mut slot: Slot<'_>) -> Option<Failure> {
        let Some(child) = self
            .children
            .of(slot.job, slot.place, slot.run_name.as_deref())
        else {
            return self.missing(&mut slot);
        };
        if child.ownership == Ownership::Orphan {
            self.adopt.runs.push(child.name.clone());
        }
        slot.run_name.get_or_insert_with(|| child.name.clone());
        *slot.phase = match child.phase {
            RunPhase::Pending
            | RunPhase::Scheduled
            | RunPhase::Running
            | RunPhase::Ready
            | RunPhase::Finalizing => StepPhase::Running,
            RunPhase::Succeeded => StepPhase::Succeeded,
            RunPhase::Failed => StepPhase::Failed,
            RunPhase::Timeout => StepPhase::Timeout,
            RunPhase::Cancelled => StepPhase::Cancelled,
        };
        if *slot.phase == StepPhase::Running {
            return None;
        }
        match self
            .budget
            .take_map(|| whose(slot.job, slot.place), &child.outputs)
        {
            Ok(()) => {
                slot.outputs.clone_from(&child.outputs);
                None
            }
            Err(text) => {
                *slot.phase = StepPhase::Failed;
                Some((Reason::OutputsTooLarge, text))
            }
        }
    }

    /// A recorded Run that no list shows: ask, and believe only an uncached answer (W-82).
    fn missing(&mut self, slot: &mut Slot<'_>) -> Option<Failure> {
        let name = slot.run_name.as_ref()?;
        if !self.children.is_absent(name) {
            self.needs.push(Need::ConfirmRun(name.clone()));
            return None;
        }
        *slot.phase = StepPhase::Failed;
        let text = message::child_missing(name, slot.place.0);
        Some((Reason::ChildMissing, text))
    }

    /// Ends a call step whose Action steps all succeeded (W-113, W-163).
    fn conclude(
        &mut self,
        (name, definition): Named<'_>,
        job: &mut JobStatus,
        index: usize,
        others: &dyn States,
    ) -> Option<Failure> {
        let done = |inner: &ActionStepStatus| inner.phase == StepPhase::Succeeded;
        if !job.steps[index].action_steps.iter().all(done) {
            return None;
        }
        let snapshot = self.state.snapshot.as_ref()?;
        let defined = &snapshot.spec.jobs;
        let named = |step: &&kruntimes_core::api::Step| step.name == job.steps[index].name;
        let step = definition?.steps.iter().find(named)?;
        let jobs = Jobs::seen_from(name, defined, others).with_legs(&snapshot.legs);
        let call = ActionCall {
            job: name,
            status: job,
            index,
            step,
            jobs: &jobs,
            extensions: &self.state.policy.extensions,
        };
        let outputs = call
            .frozen(snapshot)
            .and_then(|action| call.outputs(action, &mut self.budget));
        let step = &mut job.steps[index];
        match outputs {
            Ok(outputs) => {
                step.phase = StepPhase::Succeeded;
                step.outputs = outputs;
                None
            }
            Err(failure) => {
                step.phase = StepPhase::Failed;
                Some((failure.reason, failure.text))
            }
        }
    }

    /// Says why a step was unsuccessful, from what its Run says.
    pub(super) fn blame(&self, job: &str, step: &StepStatus) -> Failure {
        let mut inner = step.action_steps.iter();
        let inner = inner.find(|inner| inner.phase.is_unsuccessful());
        let (run, phase) = match inner {
            Some(inner) => (&inner.run_name, inner.phase),
            None => (&step.run_name, step.phase),
        };
        let action_step = inner.map(|inner| inner.name.as_str());
        let place = (step.name.as_str(), action_step);
        let child = self.children.of(job, place, run.as_deref());
        let said = child.map_or("", |child| child.message.as_str());
        let text = match action_step {
            Some(inner) => message::action_step_ended(job, &step.name, inner, phase, said),
            None => message::step_ended(job, &step.name, phase, said),
        };
        (Reason::of_step(phase), text)
    }
}

fn whose(job: &str, (step, action_step): Place<'_>) -> String {
    let (step, job) = (quoted(step), quoted(job));
    match action_step {
        Some(inner) => format!("Action step {} of step {step} in job {job}", quoted(inner)),
        None => format!("step {step} in job {job}"),
    }
}
