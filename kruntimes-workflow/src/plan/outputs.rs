//! Evaluates declared outputs of jobs, Actions and frozen contracts.

use std::collections::BTreeMap;

use kruntimes_core::api::{Job, JobStatus, Output};
use kruntimes_core::keys::{ANNOTATION_WORKFLOW_OUTPUT_PREFIX, OUTPUT_ENV_PREFIX};
use kruntimes_core::limits::OUTPUTS_MAX_KEYS;
use kruntimes_core::message::quoted;

use super::budget::{Budget, bytes};
use super::scopes::{Jobs, Steps};
use super::{Reason, message};
use crate::expr::{Error, Scope, evaluate, measure};
use crate::graph::is_output_name;

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
    let whose = || format!("job {}", quoted(name));
    evaluate_all(whose, declared, Outputs::new(), &scope, budget).map_err(|(reason, cause)| {
        if reason == Reason::OutputsTooLarge {
            return (reason, cause);
        }
        (reason, message::resolve_outputs(name, &cause))
    })
}

/// Evaluates a frozen contract against the jobs of the WorkflowRun that carries it (W-86, W-104).
///
/// The cause of an evaluation that fails has no prefix but `output "<n>": `.
pub(super) fn of_contract(
    whose: impl Fn() -> String,
    contract: &BTreeMap<String, Output>,
    jobs: &Jobs<'_>,
    budget: &mut Budget,
) -> Result<Outputs, (Reason, String)> {
    if let Some(name) = contract.keys().find(|name| !is_output_name(name)) {
        let key = format!("{ANNOTATION_WORKFLOW_OUTPUT_PREFIX}{name}");
        let text = message::malformed_contract(&key);
        return Err((Reason::OutputEvaluationFailed, text));
    }
    let scope = Scope {
        jobs: Some(jobs),
        ..Scope::default()
    };
    let declared = contract.iter();
    let declared = declared.map(|(name, output)| (name.as_str(), output.value.as_str()));
    evaluate_all(whose, declared, Outputs::new(), &scope, budget)
}

/// Evaluates declared outputs and puts them beside `given` ones, within the budget (W-84).
///
/// Everything is measured before anything is built: templates can multiply large values.
pub(super) fn evaluate_all<'a>(
    whose: impl Fn() -> String,
    declared: impl Iterator<Item = (&'a str, &'a str)> + Clone,
    given: Outputs,
    scope: &Scope<'_>,
    budget: &mut Budget,
) -> Result<Outputs, (Reason, String)> {
    let unresolved = |cause: String| (Reason::OutputEvaluationFailed, cause);
    let size = total(declared.clone(), scope).map_err(unresolved)?;
    let too_large = |cause: String| (Reason::OutputsTooLarge, cause);
    let keys = declared.clone().count() + given.len();
    if keys > OUTPUTS_MAX_KEYS {
        return Err(too_large(message::too_many_keys(&whose(), keys)));
    }
    budget
        .take(whose, size.saturating_add(bytes(&given)))
        .map_err(too_large)?;
    let mut outputs = given;
    outputs.extend(all(declared, scope).map_err(|error| unresolved(error.to_string()))?);
    Ok(outputs)
}

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
