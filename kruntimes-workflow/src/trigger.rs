//! Turns a Workflow into a WorkflowRun: definitions and inputs in, one inline object out (section 14).
//!
//! ```
//! use kruntimes_core::api::{Job, WorkflowSpec};
//! use kruntimes_workflow::definitions::Definitions;
//! use kruntimes_workflow::trigger::{Naming, trigger};
//!
//! let jobs = [("greet".to_owned(), Job::default())].into();
//! let workflow = WorkflowSpec { jobs, ..WorkflowSpec::default() };
//! let known = Definitions::default().with_workflow("hello", workflow);
//! let run = trigger("hello", &known, &[].into(), &Naming::Generated).unwrap();
//! assert_eq!(run.generate_name.as_deref(), Some("hello-"));
//! ```

use std::collections::{BTreeMap, BTreeSet};

use kruntimes_core::api::{API_VERSION, WorkflowRunSpec};
use serde_json::{Value, json};

use crate::bind::{MaterializeError, render_workflow_with};
use crate::definitions::{Definitions, Lookup};
use crate::extend::Extensions;
use crate::graph::{CallError, calls};

/// How the WorkflowRun is called (W-147).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Naming {
    /// By the API, from `<workflow>-`.
    #[default]
    Generated,
    /// Exactly so.
    Named(String),
}

/// A WorkflowRun to create.
///
/// Nothing in it refers to the Workflow any more: later edits change nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct Triggered {
    /// Its name, unless that is generated.
    pub name: Option<String>,
    /// What the API generates its name from.
    pub generate_name: Option<String>,
    /// The frozen output contract (W-148).
    pub annotations: BTreeMap<String, String>,
    /// Inline jobs.
    pub spec: WorkflowRunSpec,
}

impl Triggered {
    /// Returns the object as it is sent to an API; its namespace is left to the request.
    ///
    /// # Panics
    ///
    /// Never: the content is text, lists and maps with text keys.
    pub fn to_value(&self) -> Value {
        let mut metadata = json!({});
        for (key, name) in [("name", &self.name), ("generateName", &self.generate_name)] {
            if let Some(name) = name {
                metadata[key] = json!(name);
            }
        }
        if !self.annotations.is_empty() {
            metadata["annotations"] = json!(self.annotations);
        }
        json!({
            "apiVersion": API_VERSION,
            "kind": "WorkflowRun",
            "metadata": metadata,
            "spec": self.spec,
        })
    }
}

/// Why a Workflow cannot be triggered; nothing was created (W-145).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TriggerError {
    /// These Workflows have to be read first: add them and ask again.
    #[error("workflows are not read yet: {}", .0.iter().cloned().collect::<Vec<_>>().join(", "))]
    Unread(BTreeSet<String>),
    /// The Workflow does not exist.
    #[error("get workflow {0}: not found")]
    NotFound(String),
    /// What it calls is not sound.
    #[error(transparent)]
    Calls(CallError),
    /// Its inputs, texts or outputs are refused.
    #[error("{}", .cause.for_trigger(.workflow))]
    Materialize {
        /// The Workflow.
        workflow: String,
        /// What is wrong.
        cause: MaterializeError,
    },
}

/// Builds the WorkflowRun that executes a Workflow with these inputs (W-144, W-149).
///
/// # Errors
///
/// Definitions that are missing, a call graph that is not sound, inputs that do
/// not fit, in this order (W-145).
pub fn trigger(
    workflow: &str,
    definitions: &Definitions,
    inputs: &BTreeMap<String, String>,
    naming: &Naming,
) -> Result<Triggered, TriggerError> {
    trigger_with(workflow, definitions, inputs, naming, &Extensions::none())
}

/// Does what [`trigger`] does, for an engine that knows further types of inputs (W-206).
///
/// # Errors
///
/// Those of [`trigger`].
pub fn trigger_with(
    workflow: &str,
    definitions: &Definitions,
    inputs: &BTreeMap<String, String>,
    naming: &Naming,
    extensions: &Extensions,
) -> Result<Triggered, TriggerError> {
    if definitions.workflow(workflow) == Lookup::Absent {
        return Err(TriggerError::NotFound(workflow.to_owned()));
    }
    calls(workflow, definitions).map_err(|error| match error {
        CallError::Unread(names) => TriggerError::Unread(names),
        CallError::NameRequired
        | CallError::NotFound(_)
        | CallError::Cycle(_)
        | CallError::TooDeep(_)
        | CallError::TooMany => TriggerError::Calls(error),
    })?;
    let Lookup::Found(spec) = definitions.workflow(workflow) else {
        return Err(TriggerError::NotFound(workflow.to_owned()));
    };
    let rendered = render_workflow_with(spec, inputs, &extensions.input_types);
    let rendered = rendered.map_err(|cause| TriggerError::Materialize {
        workflow: workflow.to_owned(),
        cause,
    })?;
    let (name, generate_name) = match naming {
        Naming::Generated => (None, Some(format!("{workflow}-"))),
        Naming::Named(name) => (Some(name.clone()), None),
    };
    Ok(Triggered {
        name,
        generate_name,
        annotations: rendered.annotations,
        spec: rendered.spec,
    })
}

#[cfg(test)]
mod tests {
    use kruntimes_core::api::{Input, Job, Output, WorkflowSpec};

    use super::*;
    use crate::testing::{a_job, jobs};

    fn workflow() -> WorkflowSpec {
        let input = Input {
            required: true,
            ..Input::default()
        };
        let output = Output {
            value: "${{ inputs.tag }} ${{ jobs.a.outputs.x }}".into(),
        };
        WorkflowSpec {
            inputs: [("tag".to_owned(), input)].into(),
            outputs: [("image".to_owned(), output)].into(),
            jobs: jobs([("a", a_job().step("s", "tag ${{ inputs.tag }}"))]),
            ..WorkflowSpec::default()
        }
    }

    fn calling(workflow: &str) -> WorkflowSpec {
        let job = Job {
            uses: Some(workflow.to_owned()),
            ..Job::default()
        };
        WorkflowSpec {
            jobs: [("j".to_owned(), job)].into(),
            ..WorkflowSpec::default()
        }
    }

    #[test]
    fn w_144_w_147_w_148_w_149_a_workflow_becomes_one_inline_object() {
        let known = Definitions::default().with_workflow("w", workflow());
        let inputs = [("tag".to_owned(), "v=1".to_owned())].into();
        let run = trigger("w", &known, &inputs, &Naming::Generated).unwrap();
        let value = run.to_value();
        assert_eq!(value["metadata"]["generateName"], "w-");
        assert_eq!(value["metadata"]["name"], Value::Null);
        assert_eq!(value["kind"], "WorkflowRun");
        assert_eq!(value["apiVersion"], "kruntimes.io/v1alpha1");
        assert_eq!(
            value["metadata"]["annotations"]["kruntimes.io/workflow-output.image"],
            "v=1 ${{ jobs.a.outputs.x }}"
        );
        assert_eq!(value["spec"]["jobs"]["a"]["steps"][0]["run"], "tag v=1");
        let named = trigger("w", &known, &inputs, &Naming::Named("mine".into())).unwrap();
        assert_eq!(named.name.as_deref(), Some("mine"));
        assert_eq!(named.generate_name, None);
    }

    #[test]
    fn w_145_w_101_w_174_whatever_is_wrong_creates_nothing() {
        let mut known = Definitions::default()
            .with_workflow("w", workflow())
            .with_workflow("a", calling("b"))
            .with_workflow("b", calling("a"))
            .with_workflow("lost", calling("ghost"))
            .with_workflow("reading", calling("unread"));
        known.workflows.insert("ghost".to_owned(), None);
        let text = |name: &str, inputs: &[(&str, &str)]| {
            let own = |&(k, v): &(&str, &str)| (k.to_owned(), v.to_owned());
            let inputs = inputs.iter().map(own).collect();
            let error = trigger(name, &known, &inputs, &Naming::Generated).unwrap_err();
            error.to_string()
        };
        assert_eq!(text("ghost", &[]), "get workflow ghost: not found");
        assert_eq!(text("lost", &[]), "get workflow \"ghost\": not found");
        assert_eq!(text("a", &[]), "workflow call cycle: a -> b -> a");
        assert_eq!(
            text("w", &[]),
            "materialize workflow w: missing required input \"tag\""
        );
        assert_eq!(
            text("w", &[("tag", ""), ("x", "")]),
            "materialize workflow w: unknown input \"x\""
        );
        assert_eq!(text("reading", &[]), "workflows are not read yet: unread");
        assert_eq!(text("", &[]), "workflow name is required");
    }
}
