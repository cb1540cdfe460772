//! Inputs, template rendering and frozen output contracts.
//!
//! [`render_workflow`] turns a `Workflow` and caller values into the spec and
//! annotations of an inline `WorkflowRun`; its parts are usable alone.

mod contract;
mod input_type;
mod inputs;
mod render;

use std::collections::BTreeMap;

use kruntimes_core::api::{WorkflowRunSpec, WorkflowSpec};

pub use contract::{ContractError, annotations, from_annotations};
pub use input_type::{InputTypes, ReadInput};
pub use inputs::{BindError, bind, bind_with};
pub use render::{RenderError, RenderProblem, jobs, outputs, text, text_of};

/// A Workflow with its inputs filled in.
#[derive(Clone, Debug, PartialEq)]
pub struct Rendered {
    /// Inline jobs, free of `inputs.*`.
    pub spec: WorkflowRunSpec,
    /// The frozen output contract as annotations (W-103).
    pub annotations: BTreeMap<String, String>,
}

/// Why a Workflow cannot become a WorkflowRun.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MaterializeError {
    /// The values do not fit the declared inputs.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// A text refers to an undeclared input or is malformed.
    #[error(transparent)]
    Render(#[from] RenderError),
    /// The outputs cannot be frozen.
    #[error(transparent)]
    Contract(#[from] ContractError),
}

impl MaterializeError {
    /// Says the problem as `krt workflow trigger` does (W-145).
    pub fn for_trigger(&self, workflow: &str) -> String {
        format!("materialize workflow {workflow}: {self}")
    }

    /// Says the problem as a call job does (section 11, steps 5 and 6).
    pub fn for_call(&self, workflow: &str, job: &str) -> String {
        use kruntimes_core::message::quoted;
        let (workflow, job) = (quoted(workflow), quoted(job));
        match self {
            Self::Bind(_) | Self::Render(_) => {
                format!("materialize reusable workflow {workflow} for job {job}: {self}")
            }
            Self::Contract(_) => format!(
                "materialize output contract for reusable workflow {workflow} and job {job}: {self}"
            ),
        }
    }
}

/// Binds `values` to the declared inputs and renders jobs and outputs (W-19, W-102, W-103).
///
/// # Errors
///
/// The first problem: binding, then jobs sorted by name, then outputs.
pub fn render_workflow(
    spec: &WorkflowSpec,
    values: &BTreeMap<String, String>,
) -> Result<Rendered, MaterializeError> {
    render_workflow_with(spec, values, &InputTypes::default())
}

/// Does what [`render_workflow`] does, with types of inputs beyond `string` (W-206).
///
/// # Errors
///
/// Those of [`render_workflow`].
pub fn render_workflow_with(
    spec: &WorkflowSpec,
    values: &BTreeMap<String, String>,
    types: &InputTypes,
) -> Result<Rendered, MaterializeError> {
    let bound = bind_with(&spec.inputs, values, types)?;
    let jobs = jobs(&spec.jobs, &bound)?;
    let outputs = outputs(&spec.outputs, &bound)?;
    let annotations = annotations(&outputs)?;
    Ok(Rendered {
        spec: WorkflowRunSpec {
            jobs,
            strategy: render::strategy(spec.strategy.as_deref(), &bound)?.map(Box::new),
            ..WorkflowRunSpec::default()
        },
        annotations,
    })
}

#[cfg(test)]
mod tests {
    use kruntimes_core::api::{Input, Job, Output, Step};

    use super::*;

    fn workflow() -> WorkflowSpec {
        WorkflowSpec {
            inputs: [(
                "image".to_owned(),
                Input {
                    required: true,
                    ..Input::default()
                },
            )]
            .into(),
            outputs: [(
                "image".to_owned(),
                Output {
                    value: "${{ inputs.image }}@${{ jobs.build.outputs.digest }}".into(),
                },
            )]
            .into(),
            jobs: [(
                "build".to_owned(),
                Job {
                    runs_on: Some("bash".into()),
                    steps: vec![Step {
                        name: "pack".into(),
                        run: Some("echo ${{ inputs.image }} ${{ steps.x.outputs.y }}".into()),
                        ..Step::default()
                    }],
                    ..Job::default()
                },
            )]
            .into(),
            ..WorkflowSpec::default()
        }
    }

    #[test]
    fn w_102_w_148_case_023_only_inputs_are_bound_early() {
        let values = [("image".to_owned(), "agent:v1".to_owned())].into();
        let rendered = render_workflow(&workflow(), &values).unwrap();
        assert_eq!(
            rendered.spec.jobs["build"].steps[0].run.as_deref(),
            Some("echo agent:v1 ${{ steps.x.outputs.y }}")
        );
        assert_eq!(
            rendered.annotations["kruntimes.io/workflow-output.image"],
            "agent:v1@${{ jobs.build.outputs.digest }}"
        );
    }

    #[test]
    fn each_failure_has_its_text_for_trigger_and_call() {
        let error = render_workflow(&workflow(), &BTreeMap::new()).unwrap_err();
        assert_eq!(
            error.for_trigger("w"),
            "materialize workflow w: missing required input \"image\""
        );
        assert_eq!(
            error.for_call("w", "j"),
            "materialize reusable workflow \"w\" for job \"j\": missing required input \"image\""
        );
        let mut broken = workflow();
        let output = broken.outputs.remove("image").unwrap();
        broken.outputs.insert("-".into(), output);
        let values = [("image".to_owned(), String::new())].into();
        assert_eq!(
            render_workflow(&broken, &values)
                .unwrap_err()
                .for_call("w", "j"),
            "materialize output contract for reusable workflow \"w\" and job \"j\": \
             output name \"-\" cannot be represented as a WorkflowRun annotation"
        );
    }
}
