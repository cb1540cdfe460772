//! Finds what may start: steps of jobs, steps of Actions, calls of Workflows.

use std::collections::BTreeMap;

use kruntimes_core::api::{
    Affinity, Job, JobPhase, JobStatus, RunAffinity, RunAffinityTerm, RunSpec, Step, StepPhase,
    WeightedRunAffinityTerm, WorkflowRunPhase, WorkflowRunStatus,
};
use kruntimes_core::keys::{
    LABEL_WORKFLOW_ACTION_STEP, LABEL_WORKFLOW_JOB, LABEL_WORKFLOW_RUN_UID, LABEL_WORKFLOW_STEP,
    TOPOLOGY_RUNTIME_POD,
};
use kruntimes_core::label::LabelSelector;
use kruntimes_core::names;

use super::action_call::{ActionCall, Failure};
use super::call::{self, Held};
use super::children::Children;
use super::conditions::{self, Settled};
use super::derive::{explain, fail};
use super::rules::{self, Gate};
use super::run_spec::run_spec;
use super::scopes::{Jobs, Steps, Within};
use super::{
    Need, Reason, StartCall, StartStep, State, StepKey, Targets, artifacts, environment, message,
    workspace,
};
use crate::expr::Scope;
use crate::extend::{Extension, Verdict};
use crate::snapshot::Snapshot;

type JobStates = BTreeMap<String, JobStatus>;

/// What became of the attempt to start something in one job.
pub(super) enum Attempt {
    /// The Run of a step.
    Step(Box<StartStep>),
    /// The child of a call.
    Call(Box<StartCall>),
    /// A call that does not start now.
    Held(Held),
    /// A step that fails; with an Action step where that is what failed.
    Refused(usize, Option<usize>, Failure),
    /// Steps that their conditions decided.
    Settled(Box<JobStatus>),
    /// A job that a predicate skips.
    Skipped(String),
}

/// Returns what may start, at most one target per job (W-60, W-78), and what to read before more can.
///
/// A step or call whose texts do not evaluate is recorded as failed in `status`
/// and does not stop the others (W-39, W-62).
pub(super) fn targets(
    state: &State,
    snapshot: &Snapshot,
    children: &Children<'_>,
    status: &mut WorkflowRunStatus,
) -> (Targets, Vec<Need>) {
    let Some(mut jobs) = status.jobs.take() else {
        return (Targets::default(), Vec::new());
    };
    let mut attempts = Vec::new();
    let definitions = &snapshot.spec.jobs;
    let ready = |(name, definition): &(&String, &Job)| {
        let job = jobs.get(*name);
        job.is_some_and(|job| is_ready(state, snapshot, (name, definition), &jobs, job))
    };
    let ready = definitions.iter().filter(ready);
    let ready = ready.map(|(name, _)| name.as_str()).collect();
    for name in rules::admitted(state, snapshot, &jobs, ready) {
        let position = Position {
            state,
            snapshot,
            children,
            name,
            definition: &definitions[name],
            job: &jobs[name],
            jobs: &Jobs::seen_from(name, definitions, &jobs).with_legs(&snapshot.legs),
        };
        let found = position.attempts().into_iter();
        attempts.extend(found.map(|attempt| (name, attempt)));
    }
    let (mut targets, mut needs) = (Targets::default(), Vec::new());
    for (name, attempt) in attempts {
        let Some(job) = jobs.get_mut(name) else {
            continue;
        };
        if !attempt.record(job, &mut targets, &mut needs) {
            status.phase = WorkflowRunPhase::Running;
        }
    }
    status.jobs = Some(jobs);
    explain(status);
    (targets, needs)
}

impl Attempt {
    /// Adds what it yields; `false` when the job failed instead.
    pub(super) fn record(
        self,
        job: &mut JobStatus,
        targets: &mut Targets,
        needs: &mut Vec<Need>,
    ) -> bool {
        match self {
            Self::Step(step) => targets.steps.push(*step),
            Self::Call(call) => targets.calls.push(*call),
            Self::Held(Held::Needs(more)) => needs.extend(more),
            Self::Held(Held::Failed(reason, text)) => {
                fail(job, reason, text);
                return false;
            }
            Self::Refused(index, inner, failure) => {
                refuse(job, index, inner, failure.reason, failure.text);
                return false;
            }
            Self::Settled(settled) => {
                *job = *settled;
                job.phase = JobPhase::Running;
                return false;
            }
            Self::Skipped(text) => Settled::Skipped(Reason::ConditionFalse, text).record(job),
        }
        true
    }
}

/// Fails a step for good without a Run; aggregation follows in the next turn (W-79).
pub(super) fn refuse(
    job: &mut JobStatus,
    index: usize,
    inner: Option<usize>,
    reason: Reason,
    text: String,
) {
    job.phase = JobPhase::Running;
    job.reason = Some(reason.as_str().to_owned());
    job.message = Some(text);
    let Some(step) = job.steps.get_mut(index) else {
        return;
    };
    step.phase = StepPhase::Failed;
    if let Some(inner) = inner.and_then(|inner| step.action_steps.get_mut(inner)) {
        inner.phase = StepPhase::Failed;
    }
}

/// Tells whether a job has started or may start (W-76, W-198).
fn is_ready(
    state: &State,
    snapshot: &Snapshot,
    (name, definition): (&str, &Job),
    jobs: &JobStates,
    job: &JobStatus,
) -> bool {
    let done = |need: &String| {
        let need = jobs.get(need);
        need.is_some_and(|need| need.conclusion() == JobPhase::Succeeded)
    };
    let conditional = || {
        let on = state.policy.extensions.has(Extension::Conditions);
        definition.condition.is_some() && on
    };
    match job.phase {
        JobPhase::Running => true,
        // A condition that does not hold has settled the job by now.
        JobPhase::Pending | JobPhase::Waiting if conditional() => {
            conditions::before_is_settled(snapshot, name, jobs)
        }
        JobPhase::Pending | JobPhase::Waiting => job.pre.iter().all(done),
        JobPhase::Succeeded | JobPhase::Failed | JobPhase::Skipped => false,
    }
}

/// One job that may have something to start.
pub(super) struct Position<'a> {
    pub(super) state: &'a State,
    pub(super) snapshot: &'a Snapshot,
    pub(super) children: &'a Children<'a>,
    pub(super) name: &'a str,
    pub(super) definition: &'a Job,
    pub(super) job: &'a JobStatus,
    pub(super) jobs: &'a Jobs<'a>,
}

impl Position<'_> {
    /// Builds what a job yields: what its conditions decide, and what it starts next.
    fn attempts(&self) -> Vec<Attempt> {
        if let Some(refusal) = self.entry() {
            return vec![refusal];
        }
        if !conditions::is_conditional(self.state, self.definition) {
            return self.attempt().into_iter().collect();
        }
        let mut settled = Box::new(self.job.clone());
        let own = (self.name, self.definition);
        if !conditions::settle_steps(self.state, self.snapshot, own, self.jobs, &mut settled) {
            return self.attempt().into_iter().collect();
        }
        let next = Position {
            state: self.state,
            snapshot: self.snapshot,
            children: self.children,
            name: self.name,
            definition: self.definition,
            job: &settled,
            jobs: self.jobs,
        };
        let next = next.attempt();
        [Attempt::Settled(settled)]
            .into_iter()
            .chain(next)
            .collect()
    }

    /// Says what keeps a job from starting for good: a gate, or a predicate.
    fn entry(&self) -> Option<Attempt> {
        if self.job.phase == JobPhase::Running {
            return None;
        }
        let failed = |reason, text| Some(Attempt::Held(Held::Failed(reason, text)));
        if rules::gate(self.state, self.definition.gate.as_deref()) == Gate::Denied {
            return failed(Reason::GateDenied, message::gate_denied(self.name));
        }
        match conditions::decide_job(self.state, self.name, self.job) {
            Verdict::Run => None,
            Verdict::Skip(why) => Some(Attempt::Skipped(message::fit(&why))),
            Verdict::Fail(why) => {
                let text = message::condition_invalid(self.name, &why);
                failed(Reason::InvalidExpression, text)
            }
        }
    }

    /// Builds what a ready job starts next, if nothing stands for it yet (W-77).
    fn attempt(&self) -> Option<Attempt> {
        if self.definition.uses.is_none() {
            let listed = self.job.steps.iter().map(|step| &step.name);
            let defined = self.definition.steps.iter().map(|step| &step.name);
            return listed.eq(defined).then(|| self.step())?;
        }
        self.call()
    }

    /// Builds the child of a call that has not started.
    pub(super) fn call(&self) -> Option<Attempt> {
        if self.job.phase == JobPhase::Running {
            return None;
        }
        let call = call::prepare(self.state, self.name, self.definition, self.jobs);
        Some(match call {
            Ok(call) => Attempt::Call(Box::new(call)),
            Err(held) => Attempt::Held(held),
        })
    }

    /// Builds the first step that is not done, if nothing stands for it yet.
    ///
    /// The steps of the status are those of the definition.
    pub(super) fn step(&self) -> Option<Attempt> {
        let mut steps = self.job.steps.iter();
        let index = if conditions::is_conditional(self.state, self.definition) {
            // Failed steps may lie before it; what may not start has been decided.
            let open = |phase| matches!(phase, StepPhase::Pending | StepPhase::Running);
            steps.position(|step| open(step.phase))?
        } else {
            steps.position(|step| !step.conclusion().is_done())?
        };
        let status = &self.job.steps[index];
        let step = &self.definition.steps[index];
        let gate = (status.phase == StepPhase::Pending).then_some(&step.gate);
        match rules::gate(self.state, gate.and_then(Option::as_deref)) {
            Gate::Open => {}
            Gate::Closed => return None,
            Gate::Denied => {
                let reason = Reason::GateDenied;
                return Some(self.refused(index, None, reason, message::GATE_DENIED));
            }
        }
        if step.uses.is_some() {
            return self.action_step(index);
        }
        if status.phase != StepPhase::Pending || status.run_name.is_some() {
            return None;
        }
        let before = Steps {
            all: &self.job.steps,
            before: index,
        };
        let scope = Scope {
            inputs: None,
            steps: Some(&before),
            jobs: Some(self.jobs),
            extra: Some(&self.state.policy.extensions.contexts),
        };
        let spec = self
            .published(index)
            .map_err(|cause| (Reason::InvalidExpression, cause))
            .and_then(|published| self.spec(step, published, &scope));
        Some(match spec {
            Ok(spec) => self.start(&step.name, None, spec),
            Err((reason, cause)) => self.refused(index, None, reason, &cause),
        })
    }

    /// Builds the first step of an Action that is not done (W-111).
    fn action_step(&self, index: usize) -> Option<Attempt> {
        let status = &self.job.steps[index];
        let call = ActionCall {
            job: self.name,
            status: self.job,
            index,
            step: &self.definition.steps[index],
            jobs: self.jobs,
            extensions: &self.state.policy.extensions,
        };
        if !matches!(status.phase, StepPhase::Pending | StepPhase::Running) {
            return None;
        }
        let action = match call.frozen(self.snapshot) {
            Ok(action) => action,
            Err(failure) => return Some(Attempt::Refused(index, None, failure)),
        };
        let mut inner = status.action_steps.iter();
        let at = inner.position(|inner| inner.phase != StepPhase::Succeeded)?;
        let open = &status.action_steps[at];
        if open.phase != StepPhase::Pending || open.run_name.is_some() {
            return None;
        }
        let step = &action.spec.steps[at];
        let inputs = match call.inputs(action) {
            Ok(inputs) => inputs,
            Err((reason, cause)) => return Some(self.refused(index, None, reason, &cause)),
        };
        let within = Within {
            own: Steps {
                all: &status.action_steps,
                before: at,
            },
            caller: call.caller(),
        };
        let scope = Scope {
            inputs: Some(&inputs),
            steps: Some(&within),
            jobs: Some(self.jobs),
            extra: Some(&self.state.policy.extensions.contexts),
        };
        let published = self.published(index).and_then(|mut published| {
            environment::publish(&mut published, &status.action_steps[..at])?;
            Ok(published)
        });
        let spec = published
            .map_err(|cause| (Reason::InvalidExpression, cause))
            .and_then(|published| self.spec(step, published, &scope));
        Some(match spec {
            Ok(spec) => self.start(&status.name, Some(&step.name), spec),
            Err((reason, cause)) => self.refused(index, Some(at), reason, &cause),
        })
    }

    fn published(&self, index: usize) -> Result<BTreeMap<String, String>, String> {
        let mut published = BTreeMap::new();
        environment::publish(&mut published, &self.job.steps[..index])?;
        Ok(published)
    }

    fn spec(
        &self,
        step: &Step,
        published: BTreeMap<String, String>,
        scope: &Scope<'_>,
    ) -> Result<RunSpec, (Reason, String)> {
        let runtime = self.definition.runs_on.as_deref().unwrap_or_default();
        let spec = run_spec(runtime, step, published, scope)
            .map_err(|cause| (Reason::InvalidExpression, cause))?;
        Ok(RunSpec {
            artifact_inputs: artifacts::imports(step, self.jobs.status)?,
            ..spec
        })
    }

    fn refused(&self, index: usize, inner: Option<usize>, reason: Reason, cause: &str) -> Attempt {
        let text = message::resolve_step(self.name, &self.job.steps[index].name, cause);
        Attempt::Refused(index, inner, Failure { reason, text })
    }

    /// Prefers, and never requires, to be where Runs of the same job are (W-126).
    fn brothers(&self) -> Affinity {
        let label = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let labels = [
            label(LABEL_WORKFLOW_RUN_UID, &self.state.uid),
            label(LABEL_WORKFLOW_JOB, self.name),
        ];
        let term = RunAffinityTerm {
            label_selector: Some(LabelSelector {
                match_labels: labels.into(),
                ..LabelSelector::default()
            }),
            topology_key: TOPOLOGY_RUNTIME_POD.to_owned(),
        };
        let preferred = WeightedRunAffinityTerm {
            weight: 100,
            run_affinity_term: term,
        };
        Affinity {
            run_affinity: Some(RunAffinity {
                preferred: vec![preferred],
                ..RunAffinity::default()
            }),
            run_anti_affinity: None,
        }
    }

    fn start(&self, step: &str, action_step: Option<&str>, mut spec: RunSpec) -> Attempt {
        let Self {
            state,
            snapshot,
            children,
            name,
            definition,
            ..
        } = self;
        let shared = workspace::of(state, snapshot, children, name, definition);
        let (reference, workspace) = shared.unzip();
        spec.workspace = reference;
        if self.state.policy.affinity_hint && spec.workspace.is_none() {
            spec.affinity = Some(self.brothers());
        }
        let label = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let mut labels = BTreeMap::from([
            label(LABEL_WORKFLOW_RUN_UID, &self.state.uid),
            label(LABEL_WORKFLOW_JOB, self.name),
            label(LABEL_WORKFLOW_STEP, step),
        ]);
        labels.extend(action_step.map(|inner| label(LABEL_WORKFLOW_ACTION_STEP, inner)));
        let inner = action_step.unwrap_or_default();
        Attempt::Step(Box::new(StartStep {
            key: StepKey {
                job: self.name.to_owned(),
                step: step.to_owned(),
                action_step: action_step.map(str::to_owned),
            },
            name: names::child_run(&self.state.name, self.name, step, inner),
            labels,
            spec,
            workspace: workspace.flatten(),
        }))
    }
}
