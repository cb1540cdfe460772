//! Calls of Workflows: prepared when their job is ready, followed until they end (section 11).

use std::collections::BTreeMap;

use kruntimes_core::api::{ArtifactRef, Job, JobPhase, JobStatus, WorkflowRunPhase};
use kruntimes_core::condition::{self, ConditionStatus};
use kruntimes_core::keys::{CONDITION_COMPLETED, LABEL_WORKFLOW_RUN_UID};
use kruntimes_core::message::quoted;
use kruntimes_core::names;

use super::action_call::values;
use super::budget::Budget;
use super::derive::{Derivation, fail};
use super::scopes::Jobs;
use super::{Called, Need, Ownership, Reason, StartCall, State, artifacts, message, outputs};
use crate::bind::{MaterializeError, from_annotations, render_workflow_with};
use crate::definitions::Lookup;
use crate::expr::Scope;
use crate::graph::{CallError, calls};

type Outputs = BTreeMap<String, String>;
type Artifacts = BTreeMap<String, ArtifactRef>;

/// Why a call does not start now.
pub(super) enum Held {
    /// Something has to be read first.
    Needs(Vec<Need>),
    /// It never will (W-96).
    Failed(Reason, String),
}

/// Checks that a Workflow can be called: it exists and its call graph is sound.
pub(super) fn callable(state: &State, workflow: &str, job: &str) -> Result<(), Held> {
    if state.definitions.workflow(workflow) == Lookup::Absent {
        let text = message::call_not_found(workflow, job);
        return Err(Held::Failed(Reason::CallNotFound, text));
    }
    calls(workflow, &state.definitions).map_err(|error| {
        let reason = match &error {
            CallError::Unread(names) => {
                return Held::Needs(names.iter().cloned().map(Need::Workflow).collect());
            }
            CallError::NotFound(_) => Reason::CallNotFound,
            CallError::Cycle(_) => Reason::CallCycle,
            CallError::TooDeep(_) => Reason::CallDepthExceeded,
            CallError::NameRequired | CallError::TooMany => Reason::CallRejected,
        };
        let text = message::call_invalid(workflow, job, &error.to_string());
        Held::Failed(reason, text)
    })
}

/// Builds the child of a call job that is ready.
pub(super) fn prepare(
    state: &State,
    job: &str,
    definition: &Job,
    jobs: &Jobs<'_>,
) -> Result<StartCall, Held> {
    let workflow = definition.uses.as_deref().unwrap_or_default();
    let name = names::child_workflow_run(&state.name, job);
    // The Workflow may have changed or vanished since an earlier child was created (W-160).
    if !state.absent_calls.contains(&name) {
        return Err(Held::Needs(vec![Need::ConfirmWorkflowRun(name)]));
    }
    callable(state, workflow, job)?;
    let Lookup::Found(spec) = state.definitions.workflow(workflow) else {
        return Err(Held::Needs(vec![Need::Workflow(workflow.to_owned())]));
    };
    let scope = Scope {
        jobs: Some(jobs),
        extra: Some(&state.policy.extensions.contexts),
        ..Scope::default()
    };
    let given = values(&definition.with, &scope).map_err(|cause| {
        let text = message::call_inputs(job, &cause);
        Held::Failed(Reason::InvalidExpression, text)
    })?;
    let types = &state.policy.extensions.input_types;
    let rendered = render_workflow_with(spec, &given, types).map_err(|error| {
        let reason = match &error {
            MaterializeError::Bind(_) => Reason::InputBindingFailed,
            MaterializeError::Render(_) | MaterializeError::Contract(_) => Reason::CallRejected,
        };
        Held::Failed(reason, message::fit(&error.for_call(workflow, job)))
    })?;
    Ok(StartCall {
        job: job.to_owned(),
        name,
        labels: [(LABEL_WORKFLOW_RUN_UID.to_owned(), state.uid.clone())].into(),
        annotations: rendered.annotations,
        spec: rendered.spec,
    })
}

impl Derivation<'_> {
    /// Copies what the child of a call job reports to the job (section 9).
    pub(super) fn follow(&mut self, name: &str, definition: Option<&Job>, job: &mut JobStatus) {
        if !is_call(definition, job) {
            return;
        }
        // The recorded name, else the derived one.
        let derived = || names::child_workflow_run(&self.state.name, name);
        let wanted = job.workflow_run_name.clone().unwrap_or_else(derived);
        let Some(found) = self.children.call(&wanted) else {
            self.lost(name, job, wanted);
            return;
        };
        if found.ownership == Ownership::Orphan {
            self.adopt.workflow_runs.push(wanted.clone());
        }
        job.workflow_run_name = Some(wanted);
        job.phase = JobPhase::Running;
        let said = found.status.message.as_deref().unwrap_or_default();
        let ended = |reason| {
            let text = message::call_ended(name, &found.name, found.status.phase, said);
            (reason, text)
        };
        let failure = match found.status.phase {
            WorkflowRunPhase::Pending | WorkflowRunPhase::Running => return,
            WorkflowRunPhase::Succeeded => match self.project(name, found) {
                Ok((outputs, artifacts)) => {
                    job.phase = JobPhase::Succeeded;
                    job.outputs = outputs;
                    job.artifacts = artifacts;
                    return;
                }
                Err(failure) => failure,
            },
            WorkflowRunPhase::Failed => ended(Reason::ChildFailed),
            WorkflowRunPhase::Cancelled => ended(Reason::ChildCancelled),
        };
        fail(job, failure.0, failure.1);
    }

    /// Yields what a succeeded child offers to its caller (W-104, W-131).
    fn project(
        &mut self,
        job: &str,
        child: &Called,
    ) -> Result<(Outputs, Artifacts), (Reason, String)> {
        let outputs = projected(job, child, &mut self.budget)?;
        let none = BTreeMap::new();
        let jobs = child.status.jobs.as_ref().unwrap_or(&none);
        let artifacts = artifacts::of_call(job, jobs, &mut self.budget)?;
        Ok((outputs, artifacts))
    }

    /// A recorded child that no list shows (W-82).
    fn lost(&mut self, name: &str, job: &mut JobStatus, child: String) {
        if job.workflow_run_name.is_none() {
            return;
        }
        if self.state.absent_calls.contains(&child) {
            let text = message::call_missing(&child, name);
            fail(job, Reason::ChildMissing, text);
        } else {
            self.needs.push(Need::ConfirmWorkflowRun(child));
        }
    }
}

/// Tells whether a job is a call, from the snapshot or, without one, from what was recorded.
pub(super) fn calls_workflow(state: &State, name: &str, job: &JobStatus) -> bool {
    let snapshot = state.snapshot.as_ref();
    let defined = snapshot.and_then(|snapshot| snapshot.spec.jobs.get(name));
    is_call(defined, job)
}

fn is_call(definition: Option<&Job>, job: &JobStatus) -> bool {
    definition.map_or(job.workflow_run_name.is_some(), |job| job.uses.is_some())
}

/// Yields the outputs of a succeeded child (W-104, W-105).
fn projected(job: &str, child: &Called, budget: &mut Budget) -> Result<Outputs, (Reason, String)> {
    let unresolved = |cause: &str| {
        let text = message::resolve_outputs(job, cause);
        (Reason::OutputEvaluationFailed, text)
    };
    let status = &child.status;
    let condition = |kind: &str| condition::get(&status.conditions, kind);
    if let Some(found) = condition(message::CONDITION_OUTPUTS_RESOLVED)
        && found.status == ConditionStatus::False
    {
        return Err(unresolved(&found.message));
    }
    let whose = || format!("job {}", quoted(job));
    // What the child's own turn ended, it evaluated from its frozen copy; annotations count no more.
    if !status.outputs.is_empty() || condition(CONDITION_COMPLETED).is_some() {
        let taken = budget.take_map(whose, &status.outputs);
        return match taken {
            Ok(()) => Ok(status.outputs.clone()),
            Err(text) => Err((Reason::OutputsTooLarge, text)),
        };
    }
    let contract = from_annotations(&child.annotations);
    let none = BTreeMap::new();
    let jobs = status.jobs.as_ref().unwrap_or(&none);
    outputs::of_contract(whose, &contract, &Jobs::all(jobs), budget).map_err(|(reason, cause)| {
        if reason == Reason::OutputsTooLarge {
            return (reason, cause);
        }
        unresolved(&cause)
    })
}
