//! Calls of Actions: one logical step made of several Runs (section 12).

use std::collections::BTreeMap;

use kruntimes_core::api::{JobStatus, Step};
use kruntimes_core::limits::SCRIPT_MAX_CHARS;
use kruntimes_core::message::quoted;

use super::budget::Budget;
use super::run_spec::resolve;
use super::scopes::{Jobs, Steps};
use super::{Reason, environment, message, outputs};
use crate::bind::bind_with;
use crate::expr::Scope;
use crate::extend::Extensions;
use crate::snapshot::{FrozenAction, Snapshot, call_site};

type Values = BTreeMap<String, String>;

/// A call step of a job, with everything its texts may read.
pub(super) struct ActionCall<'a> {
    /// Name of the calling job.
    pub(super) job: &'a str,
    /// State of the calling job.
    pub(super) status: &'a JobStatus,
    /// Position of the call step.
    pub(super) index: usize,
    /// The call step as defined.
    pub(super) step: &'a Step,
    /// Dependency jobs.
    pub(super) jobs: &'a Jobs<'a>,
    /// What an embedder adds.
    pub(super) extensions: &'a Extensions,
}

/// Why a call step fails.
pub(super) struct Failure {
    pub(super) reason: Reason,
    /// The whole message of the job.
    pub(super) text: String,
}

impl<'a> ActionCall<'a> {
    /// Finds the frozen Action, whose steps must be those of the status (W-115).
    pub(super) fn frozen(&self, snapshot: &'a Snapshot) -> Result<&'a FrozenAction, Failure> {
        let found = snapshot.actions.get(&call_site(self.job, &self.step.name));
        let listed = &self.status.steps[self.index].action_steps;
        let same = |action: &&FrozenAction| action.spec.steps.len() == listed.len();
        found.filter(same).ok_or_else(|| {
            let action = self.step.uses.as_deref().unwrap_or_default();
            Failure {
                reason: Reason::StepFailed,
                text: message::action_not_frozen(action, self.job, &self.step.name),
            }
        })
    }

    /// Earlier steps of the calling job.
    pub(super) fn caller(&self) -> Steps<'a, kruntimes_core::api::StepStatus> {
        Steps {
            all: &self.status.steps,
            before: self.index,
        }
    }

    /// Evaluates `with` in the caller's context and binds it to the declared inputs (W-111).
    ///
    /// The error is a cause for W-39.
    pub(super) fn inputs(&self, action: &FrozenAction) -> Result<Values, (Reason, String)> {
        let caller = self.caller();
        let scope = Scope {
            inputs: None,
            steps: Some(&caller),
            jobs: Some(self.jobs),
            extra: Some(&self.extensions.contexts),
        };
        let cause = |text: String| message::action_inputs(&action.name, &text);
        let values = values(&self.step.with, &scope)
            .map_err(|text| (Reason::InvalidExpression, cause(text)))?;
        bind_with(&action.spec.inputs, &values, &self.extensions.input_types)
            .map_err(|error| (Reason::InputBindingFailed, cause(error.to_string())))
    }

    /// Yields the outputs of a finished call: the declared ones and the published variables
    /// (W-114, W-134).
    pub(super) fn outputs(
        &self,
        action: &FrozenAction,
        budget: &mut Budget,
    ) -> Result<Values, Failure> {
        let unresolved =
            |cause: &str| message::resolve_action_outputs(self.job, &self.step.name, cause);
        let inputs = self.inputs(action).map_err(|(reason, cause)| Failure {
            reason,
            text: unresolved(&cause),
        })?;
        let own = &self.status.steps[self.index].action_steps;
        let steps = Steps {
            all: own,
            before: own.len(),
        };
        let scope = Scope {
            inputs: Some(&inputs),
            steps: Some(&steps),
            jobs: Some(self.jobs),
            extra: Some(&self.extensions.contexts),
        };
        let declared = action.spec.outputs.iter();
        let declared = declared.map(|(name, output)| (name.as_str(), output.value.as_str()));
        let variables: Values = environment::published(own)
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        let whose = || {
            let (step, job) = (quoted(&self.step.name), quoted(self.job));
            format!("step {step} in job {job}")
        };
        outputs::evaluate_all(whose, declared, variables, &scope, budget).map_err(
            |(reason, cause)| Failure {
                text: if reason == Reason::OutputsTooLarge {
                    cause
                } else {
                    unresolved(&cause)
                },
                reason,
            },
        )
    }
}

/// Evaluates the values of a call, sorted by name (W-32).
pub(super) fn values(with: &Values, scope: &Scope<'_>) -> Result<Values, String> {
    with.iter()
        .map(|(name, text)| {
            let field = format!("input {}", quoted(name));
            let value = resolve(&field, text, SCRIPT_MAX_CHARS, scope)?;
            Ok((name.clone(), value))
        })
        .collect()
}
