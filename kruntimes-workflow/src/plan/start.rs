//! Finds the steps that may start and builds their Runs.

use std::collections::BTreeMap;

use kruntimes_core::api::{
    EnvVar, Job, JobPhase, JobStatus, Mode, RunSpec, Source, Step, StepPhase, TaskMode,
    WorkflowRunPhase, WorkflowRunStatus,
};
use kruntimes_core::keys::{LABEL_WORKFLOW_JOB, LABEL_WORKFLOW_RUN_UID, LABEL_WORKFLOW_STEP};
use kruntimes_core::limits::{ARG_MAX_CHARS, ENV_MAX, SCRIPT_MAX_CHARS};
use kruntimes_core::names;

use super::derive::explain;
use super::scopes::{Jobs, Steps};
use super::{Reason, StartStep, State, StepKey, environment, message};
use crate::expr::{Scope, evaluate, measure};
use crate::graph;
use crate::snapshot::Snapshot;

/// Returns what may start, sorted by job, at most one step per job (W-60, W-78).
///
/// A step whose texts do not evaluate is recorded as failed in `status` and
/// does not stop the others (W-39, W-62).
pub(super) fn targets(
    state: &State,
    snapshot: &Snapshot,
    status: &mut WorkflowRunStatus,
) -> Vec<StartStep> {
    let Some(mut jobs) = status.jobs.take() else {
        return Vec::new();
    };
    let mut targets = Vec::new();
    let mut failures = Vec::new();
    for (name, definition) in &snapshot.spec.jobs {
        let Some(index) = jobs.get(name).and_then(|job| next(&jobs, definition, job)) else {
            continue;
        };
        let position = Position {
            state,
            snapshot,
            jobs: &jobs,
            job: name,
            index,
        };
        match position.run_spec(definition) {
            Ok(spec) => targets.push(position.start(definition, spec)),
            Err(cause) => failures.push((name, index, cause)),
        }
    }
    for (name, index, cause) in failures {
        if let Some(job) = jobs.get_mut(name) {
            let text = message::resolve_step(name, &job.steps[index].name, &cause);
            refuse(job, index, Reason::InvalidExpression, text);
            status.phase = WorkflowRunPhase::Running;
        }
    }
    status.jobs = Some(jobs);
    explain(status);
    targets
}

/// Fails a step for good without a Run; aggregation follows in the next turn (W-79).
pub(super) fn refuse(job: &mut JobStatus, index: usize, reason: Reason, text: String) {
    job.phase = JobPhase::Running;
    job.reason = Some(reason.as_str().to_owned());
    job.message = Some(text);
    if let Some(step) = job.steps.get_mut(index) {
        step.phase = StepPhase::Failed;
    }
}

/// Returns the step of a job that may start now (W-76, W-77).
fn next(jobs: &BTreeMap<String, JobStatus>, definition: &Job, job: &JobStatus) -> Option<usize> {
    let done = |need: &String| {
        let need = jobs.get(need);
        need.is_some_and(|need| need.phase == JobPhase::Succeeded)
    };
    match job.phase {
        JobPhase::Running => {}
        JobPhase::Pending | JobPhase::Waiting if job.pre.iter().all(done) => {}
        JobPhase::Pending
        | JobPhase::Waiting
        | JobPhase::Succeeded
        | JobPhase::Failed
        | JobPhase::Skipped => return None,
    }
    let unfinished = |step: &kruntimes_core::api::StepStatus| step.phase != StepPhase::Succeeded;
    let index = job.steps.iter().position(unfinished)?;
    let step = &job.steps[index];
    let free = step.phase == StepPhase::Pending && step.run_name.is_none();
    let listed = || job.steps.iter().map(|step| &step.name);
    let exact = || listed().eq(definition.steps.iter().map(|step| &step.name));
    (free && exact()).then_some(index)
}

/// One step about to start.
struct Position<'a> {
    state: &'a State,
    snapshot: &'a Snapshot,
    jobs: &'a BTreeMap<String, JobStatus>,
    job: &'a str,
    index: usize,
}

impl Position<'_> {
    fn start(&self, definition: &Job, spec: RunSpec) -> StartStep {
        let step = &definition.steps[self.index].name;
        let label = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        StartStep {
            key: StepKey {
                job: self.job.to_owned(),
                step: step.clone(),
                action_step: None,
            },
            name: names::child_run(&self.state.name, self.job, step, ""),
            labels: [
                label(LABEL_WORKFLOW_RUN_UID, &self.state.uid),
                label(LABEL_WORKFLOW_JOB, self.job),
                label(LABEL_WORKFLOW_STEP, step),
            ]
            .into(),
            spec,
        }
    }

    /// Builds the Run of the step (W-119). The error is a cause for W-39.
    fn run_spec(&self, definition: &Job) -> Result<RunSpec, String> {
        let steps = Steps {
            all: &self.jobs[self.job].steps,
            before: self.index,
        };
        let jobs = Jobs {
            defined: &self.snapshot.spec.jobs,
            visible: Some(graph::ancestors(&self.snapshot.spec.jobs, self.job)),
            status: self.jobs,
        };
        let scope = Scope {
            inputs: None,
            steps: Some(&steps),
            jobs: Some(&jobs),
        };
        let step = &definition.steps[self.index];
        let script = step.run.as_deref().unwrap_or_default();
        let script = resolve("run", script, SCRIPT_MAX_CHARS, &scope)?;
        let args = step.args.iter().enumerate();
        let args = args
            .map(|(at, arg)| resolve(&format!("arg[{at}]"), arg, ARG_MAX_CHARS, &scope))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(RunSpec {
            runtime: definition.runs_on.clone().unwrap_or_default(),
            mode: Mode {
                task: Some(TaskMode {
                    entrypoint: None,
                    args,
                }),
                ..Mode::default()
            },
            source: Some(Source {
                inline: Some(script),
                ..Source::default()
            }),
            env: self.environment(step, &scope)?,
            ..RunSpec::default()
        })
    }

    /// Merges published variables with the step's own, which win (W-132).
    fn environment(&self, step: &Step, scope: &Scope<'_>) -> Result<Vec<EnvVar>, String> {
        let mut own = BTreeMap::new();
        for (name, template) in &step.env {
            let value = resolve(
                &format!("env[{name}]"),
                template,
                ENV_VALUE_MAX_CHARS,
                scope,
            )?;
            own.insert(name.clone(), value);
        }
        let mut merged = environment::published(&self.jobs[self.job].steps[..self.index])?;
        merged.extend(own);
        if merged.len() > ENV_MAX {
            let count = merged.len();
            return Err(format!(
                "rendered env has {count} entries, exceeds {ENV_MAX}"
            ));
        }
        let variable = |(name, value)| EnvVar {
            name,
            value: Some(value),
            value_from: None,
        };
        Ok(merged.into_iter().map(variable).collect())
    }
}

/// Longest evaluated variable: what a process can be given as one string (128 KiB) without its name.
const ENV_VALUE_MAX_CHARS: usize = 131_072;

fn resolve(field: &str, text: &str, limit: usize, scope: &Scope<'_>) -> Result<String, String> {
    let located = |error| format!("{field}: {error}");
    let size = measure(text, scope).map_err(located)?;
    if size.chars > limit {
        let bytes = size.bytes;
        return Err(format!(
            "rendered {field} is {bytes} bytes, exceeds {limit}"
        ));
    }
    evaluate(text, scope).map_err(located)
}
