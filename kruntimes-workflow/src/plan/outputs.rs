//! Evaluates declared outputs of jobs and of the frozen contract.

use std::collections::BTreeMap;

use kruntimes_core::api::{Job, JobStatus};
use kruntimes_core::keys::{ANNOTATION_WORKFLOW_OUTPUT_PREFIX, OUTPUT_ENV_PREFIX};
use kruntimes_core::message::quoted;

use super::budget::Budget;
use super::scopes::{Jobs, Steps};
use super::{Reason, message};
use crate::expr::{Error, Scope, evaluate, measure};
use crate::graph::is_output_name;
use crate::snapshot::Snapshot;

type Outputs = BTreeMap<String, String>;

/// Evaluates the outputs of a job whose steps all succeeded.
pub(super) fn of_job(
    name: &str,
    job: &Job,
    status: &JobStatus,
    budget: &mut Budget,
) -> Result<Outputs, (Reason, String)> {
    let steps = Steps {
        all: &status.steps,
        before: status.steps.len(),
    };
    let scope = Scope {
        steps: Some(&steps),
        ..Scope::default()
    };
    let declared = job
        .outputs
        .iter()
        .filter(|(key, _)| !key.starts_with(OUTPUT_ENV_PREFIX));
    let declared = declared.map(|(key, template)| (key.as_str(), template.as_str()));
    let size = total(declared.clone(), &scope).map_err(|cause| {
        let text = message::resolve_outputs(name, &cause);
        (Reason::OutputEvaluationFailed, text)
    })?;
    let whose = format!("job {}", quoted(name));
    let room = budget.take(&whose, size);
    room.map_err(|text| (Reason::OutputsTooLarge, text))?;
    all(declared, &scope).map_err(|cause| {
        let text = message::resolve_outputs(name, &cause.to_string());
        (Reason::OutputEvaluationFailed, text)
    })
}

/// Evaluates the frozen contract of a succeeded WorkflowRun (W-86).
///
/// The error is the cause for the condition `OutputsResolved`.
pub(super) fn of_contract(
    snapshot: &Snapshot,
    status: &BTreeMap<String, JobStatus>,
    budget: &mut Budget,
) -> Result<Outputs, String> {
    if let Some(name) = snapshot.outputs.keys().find(|name| !is_output_name(name)) {
        let key = format!("{ANNOTATION_WORKFLOW_OUTPUT_PREFIX}{name}");
        return Err(message::malformed_contract(&key));
    }
    let jobs = Jobs {
        defined: &snapshot.spec.jobs,
        visible: None,
        status,
    };
    let scope = Scope {
        jobs: Some(&jobs),
        ..Scope::default()
    };
    let declared = snapshot.outputs.iter();
    let declared = declared.map(|(name, output)| (name.as_str(), output.value.as_str()));
    budget.take("the WorkflowRun", total(declared.clone(), &scope)?)?;
    all(declared, &scope).map_err(|error| error.to_string())
}

/// Measures before anything is built: templates can multiply large values.
fn total<'a>(
    declared: impl Iterator<Item = (&'a str, &'a str)>,
    scope: &Scope<'_>,
) -> Result<usize, String> {
    let mut bytes: usize = 0;
    for (name, template) in declared {
        let size = measure(template, scope)
            .map_err(|error| format!("output {}: {error}", quoted(name)))?;
        bytes = bytes.saturating_add(name.len() + size.bytes);
    }
    Ok(bytes)
}

fn all<'a>(
    declared: impl Iterator<Item = (&'a str, &'a str)>,
    scope: &Scope<'_>,
) -> Result<Outputs, Error> {
    declared
        .map(|(name, template)| Ok((name.to_owned(), evaluate(template, scope)?)))
        .collect()
}
