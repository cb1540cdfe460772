//! A new WorkflowRun from a finished one: what succeeded is reused, the rest repeated (W-207).
//!
//! The old object is only read. The new one has the same jobs and carries, in
//! `spec.reuse`, outputs and artifact references of the jobs that are not
//! repeated; to their dependents they look as if they had just succeeded.
//! Artifacts stay where they are: they go with the old WorkflowRun. Files of a
//! job's workspace are not carried, also not when a job is repeated from a step.

use std::collections::{BTreeMap, BTreeSet};

use kruntimes_core::api::{
    Job, JobPhase, JobStatus, Reused, ReusedStep, StepPhase, WorkflowRunSpec, WorkflowRunStatus,
};
use kruntimes_core::keys::{ANNOTATION_RERUN_OF, ANNOTATION_WORKFLOW_OUTPUT_PREFIX};
use kruntimes_core::message::quoted;

use crate::expansion::{Expanded, expand};

/// Which jobs are repeated. Jobs behind a repeated one are repeated as well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Which {
    /// All of them.
    All,
    /// Those that did not succeed.
    Failed,
    /// This job, from this step on when one is given, and those that did not succeed.
    From {
        /// Name of the job, or of the job that legs were made of.
        job: String,
        /// Name of the step.
        step: Option<String>,
    },
}

/// A WorkflowRun that is over.
#[derive(Clone, Copy, Debug)]
pub struct Finished<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its annotations; the output contract is taken over.
    pub annotations: &'a BTreeMap<String, String>,
    /// Its spec.
    pub spec: &'a WorkflowRunSpec,
    /// Its status.
    pub status: &'a WorkflowRunStatus,
}

/// The WorkflowRun to create.
#[derive(Clone, Debug, PartialEq)]
pub struct Rerun {
    /// What the API generates its name from.
    pub generate_name: String,
    /// The output contract, and where it came from.
    pub annotations: BTreeMap<String, String>,
    /// The same jobs, without any request of the old one.
    pub spec: WorkflowRunSpec,
}

/// Why there is nothing to create.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RerunError {
    /// It is not over.
    #[error("WorkflowRun {} has not ended", quoted(.0))]
    NotFinished(String),
    /// There is nothing to repeat.
    #[error("every job of WorkflowRun {} succeeded", quoted(.0))]
    NothingFailed(String),
    /// It has no such job.
    #[error("there is no job {}", quoted(.0))]
    UnknownJob(String),
    /// The job has no such step.
    #[error("job {} has no step {}", quoted(.job), quoted(.step))]
    UnknownStep {
        /// The job.
        job: String,
        /// The step.
        step: String,
    },
    /// A step before the one to begin with did not succeed.
    #[error("job {} cannot begin with step {}: step {} before it did not succeed", quoted(.job), quoted(.step), quoted(.before))]
    StepBefore {
        /// The job.
        job: String,
        /// The step.
        step: String,
        /// The earlier step.
        before: String,
    },
    /// Its jobs cannot be expanded any more.
    #[error("{0}")]
    Invalid(#[from] crate::graph::Invalid),
}

/// Builds the WorkflowRun that repeats a part of a finished one.
///
/// # Errors
///
/// Fails when the old one is not over, has nothing to repeat, or not the job
/// or step that is asked for.
pub fn rerun(old: &Finished<'_>, which: &Which) -> Result<Rerun, RerunError> {
    if !old.status.phase.is_terminal() {
        return Err(RerunError::NotFinished(old.name.to_owned()));
    }
    let Expanded { jobs, legs } = expand(&old.spec.jobs)?;
    let none = BTreeMap::new();
    let status = old.status.jobs.as_ref().unwrap_or(&none);
    let succeeded = |name: &String| {
        let job = status.get(name);
        job.is_some_and(|job| job.phase == JobPhase::Succeeded)
    };
    let mut repeated: BTreeSet<String> = match which {
        Which::All => jobs.keys().cloned().collect(),
        Which::Failed | Which::From { .. } => jobs
            .keys()
            .filter(|name| !succeeded(name))
            .cloned()
            .collect(),
    };
    let mut partial = BTreeMap::new();
    match which {
        Which::Failed if repeated.is_empty() => {
            return Err(RerunError::NothingFailed(old.name.to_owned()));
        }
        Which::All | Which::Failed => {}
        Which::From { job, step } => {
            let own = [job.clone()];
            let names = legs.get(job).map_or(&own[..], Vec::as_slice);
            for name in names {
                let definition = jobs
                    .get(name)
                    .ok_or_else(|| RerunError::UnknownJob(name.clone()))?;
                if let Some(step) = step {
                    let steps = before(name, definition, status.get(name), step)?;
                    partial.insert(name.clone(), steps);
                }
                repeated.insert(name.clone());
            }
        }
    }
    spread(&jobs, &mut repeated);
    // What a job read of others is old when they are repeated: then it begins anew.
    partial.retain(|name, steps: &mut Vec<ReusedStep>| {
        !steps.is_empty() && !jobs[name].needs.iter().any(|need| repeated.contains(need))
    });
    let whole = status.iter().filter(|(name, _)| !repeated.contains(*name));
    let whole = whole.map(|(name, job)| (name.clone(), of_job(job)));
    let partial = partial.into_iter().map(|(name, steps)| {
        let reused = Reused {
            steps,
            ..Reused::default()
        };
        (name, reused)
    });
    Ok(finished(old, whole.chain(partial).collect()))
}

fn finished(old: &Finished<'_>, reuse: BTreeMap<String, Reused>) -> Rerun {
    let contract = old.annotations.iter();
    let contract = contract.filter(|(key, _)| key.starts_with(ANNOTATION_WORKFLOW_OUTPUT_PREFIX));
    let mut annotations: BTreeMap<String, String> = contract
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    annotations.insert(ANNOTATION_RERUN_OF.to_owned(), old.name.to_owned());
    Rerun {
        generate_name: format!("{}-", old.name),
        annotations,
        spec: WorkflowRunSpec {
            jobs: old.spec.jobs.clone(),
            strategy: old.spec.strategy.clone(),
            reuse,
            ..WorkflowRunSpec::default()
        },
    }
}

/// Adds every job that needs a repeated one, to a fixed point.
fn spread(jobs: &BTreeMap<String, Job>, repeated: &mut BTreeSet<String>) {
    loop {
        let behind = |job: &Job| job.needs.iter().any(|need| repeated.contains(need));
        let more: Vec<String> = jobs
            .iter()
            .filter(|(name, job)| !repeated.contains(*name) && behind(job))
            .map(|(name, _)| name.clone())
            .collect();
        if more.is_empty() {
            return;
        }
        repeated.extend(more);
    }
}

fn of_job(job: &JobStatus) -> Reused {
    Reused {
        outputs: job.outputs.clone(),
        artifacts: job.artifacts.clone(),
        steps: Vec::new(),
    }
}

/// Returns the steps before one, which all must have succeeded.
fn before(
    name: &str,
    job: &Job,
    status: Option<&JobStatus>,
    step: &str,
) -> Result<Vec<ReusedStep>, RerunError> {
    let at = job.steps.iter().position(|found| found.name == step);
    let at = at.ok_or_else(|| RerunError::UnknownStep {
        job: name.to_owned(),
        step: step.to_owned(),
    })?;
    let reused = job.steps[..at].iter().map(|earlier| {
        let mut known = status.iter().flat_map(|job| &job.steps);
        let found = known.find(|known| known.name == earlier.name);
        let found = found.filter(|known| known.phase == StepPhase::Succeeded);
        let found = found.ok_or_else(|| RerunError::StepBefore {
            job: name.to_owned(),
            step: step.to_owned(),
            before: earlier.name.clone(),
        })?;
        Ok(ReusedStep {
            name: found.name.clone(),
            outputs: found.outputs.clone(),
        })
    });
    reused.collect()
}

#[cfg(test)]
mod tests {
    use kruntimes_core::api::{Matrix, StepStatus, WorkflowRunPhase};

    use super::*;
    use crate::testing::{a_job, jobs};

    fn step(name: &str, phase: StepPhase) -> StepStatus {
        StepStatus {
            name: name.to_owned(),
            phase,
            outputs: [("k".to_owned(), format!("of {name}"))].into(),
            ..StepStatus::default()
        }
    }

    fn job(phase: JobPhase, steps: Vec<StepStatus>) -> JobStatus {
        let outputs = (phase == JobPhase::Succeeded).then(|| ("o".to_owned(), "1".to_owned()));
        JobStatus {
            phase,
            steps,
            outputs: outputs.into_iter().collect(),
            ..JobStatus::default()
        }
    }

    /// `a` succeeded, `b` needs it and failed in its second step, `c` needs `b`, `d` is free.
    fn old() -> (WorkflowRunSpec, WorkflowRunStatus) {
        let spec = WorkflowRunSpec {
            jobs: jobs([
                ("a", a_job()),
                ("b", a_job().needs(&["a"]).step("one", "1").step("two", "2")),
                ("c", a_job().needs(&["b"])),
                ("d", a_job()),
            ]),
            cancel_requested: true,
            ..WorkflowRunSpec::default()
        };
        let of_b = vec![
            step("one", StepPhase::Succeeded),
            step("two", StepPhase::Failed),
        ];
        let status = WorkflowRunStatus {
            phase: WorkflowRunPhase::Failed,
            jobs: Some(
                [
                    (
                        "a",
                        job(JobPhase::Succeeded, vec![step("s", StepPhase::Succeeded)]),
                    ),
                    ("b", job(JobPhase::Failed, of_b)),
                    ("c", job(JobPhase::Skipped, vec![])),
                    ("d", job(JobPhase::Succeeded, vec![])),
                ]
                .map(|(name, job)| (name.to_owned(), job))
                .into(),
            ),
            ..WorkflowRunStatus::default()
        };
        (spec, status)
    }

    fn made(
        spec: &WorkflowRunSpec,
        status: &WorkflowRunStatus,
        which: &Which,
    ) -> Result<Rerun, String> {
        let annotations = [("kruntimes.io/workflow-output.x", "v"), ("mine", "w")];
        let annotations = annotations
            .map(|(k, v)| (k.to_owned(), v.to_owned()))
            .into();
        let old = Finished {
            name: "ci",
            annotations: &annotations,
            spec,
            status,
        };
        rerun(&old, which).map_err(|error| error.to_string())
    }

    fn from(job: &str, step: Option<&str>) -> Which {
        Which::From {
            job: job.to_owned(),
            step: step.map(str::to_owned),
        }
    }

    #[test]
    fn w_207_what_succeeded_is_reused_and_the_rest_repeated() {
        let (spec, status) = old();
        for (case, which, want) in [
            ("all", Which::All, &[][..]),
            ("failed", Which::Failed, &["a", "d"]),
            ("from the failed one", from("b", None), &["a", "d"]),
            (
                "from its second step",
                from("b", Some("two")),
                &["a", "b:one", "d"],
            ),
            ("from its first step", from("b", Some("one")), &["a", "d"]),
            ("from one that succeeded", from("a", None), &["d"]),
            ("from a free one", from("d", None), &["a"]),
        ] {
            let made = made(&spec, &status, &which).unwrap();
            let shown = made.spec.reuse.iter().map(|(name, reused)| {
                let steps: Vec<&str> = reused.steps.iter().map(|step| step.name.as_str()).collect();
                if steps.is_empty() {
                    assert_eq!(reused.outputs["o"], "1");
                    return name.clone();
                }
                format!("{name}:{}", steps.join(","))
            });
            assert_eq!(shown.collect::<Vec<_>>(), want, "{case}");
            assert_eq!(made.spec.jobs, spec.jobs);
        }
    }

    /// Neither the request to cancel nor anything else of the old object comes along.
    #[test]
    fn w_207_case_049_the_new_object_knows_where_it_came_from_and_has_no_requests() {
        let (spec, status) = old();
        let made = made(&spec, &status, &Which::Failed).unwrap();
        assert!(!made.spec.cancel_requested && !made.spec.suspend);
        assert_eq!(made.generate_name, "ci-");
        let keys: Vec<_> = made
            .annotations
            .iter()
            .map(|(k, v)| format!("{k}={v}"))
            .collect();
        assert_eq!(
            keys,
            [
                "kruntimes.io/rerun-of=ci",
                "kruntimes.io/workflow-output.x=v"
            ]
        );
    }

    #[test]
    fn w_207_what_cannot_be_repeated_is_refused() {
        let (spec, mut status) = old();
        let said =
            |status: &WorkflowRunStatus, which: &Which| made(&spec, status, which).unwrap_err();
        assert_eq!(said(&status, &from("x", None)), "there is no job \"x\"");
        assert_eq!(
            said(&status, &from("b", Some("x"))),
            "job \"b\" has no step \"x\""
        );
        status.jobs.as_mut().unwrap().get_mut("b").unwrap().steps[0].phase = StepPhase::Failed;
        assert_eq!(
            said(&status, &from("b", Some("two"))),
            "job \"b\" cannot begin with step \"two\": step \"one\" before it did not succeed"
        );
        for job in status.jobs.as_mut().unwrap().values_mut() {
            job.phase = JobPhase::Succeeded;
        }
        assert_eq!(
            said(&status, &Which::Failed),
            "every job of WorkflowRun \"ci\" succeeded"
        );
        status.phase = WorkflowRunPhase::Running;
        assert_eq!(
            said(&status, &Which::All),
            "WorkflowRun \"ci\" has not ended"
        );
    }

    #[test]
    fn w_207_legs_of_a_matrix_are_reused_one_by_one() {
        let mut spec = WorkflowRunSpec {
            jobs: jobs([("t", a_job()), ("z", a_job().needs(&["t"]))]),
            ..WorkflowRunSpec::default()
        };
        let axes = [("v".to_owned(), vec!["1".to_owned(), "2".to_owned()])].into();
        let matrix = Matrix {
            axes,
            ..Matrix::default()
        };
        spec.jobs.get_mut("t").unwrap().matrix = Some(Box::new(matrix));
        let phases = [
            ("t.1", JobPhase::Succeeded),
            ("t.2", JobPhase::Failed),
            ("z", JobPhase::Skipped),
        ];
        let status = WorkflowRunStatus {
            phase: WorkflowRunPhase::Failed,
            jobs: Some(
                phases
                    .map(|(name, phase)| (name.to_owned(), job(phase, vec![])))
                    .into(),
            ),
            ..WorkflowRunStatus::default()
        };
        let reuse = |which: &Which| {
            let made = made(&spec, &status, which).unwrap();
            made.spec.reuse.into_keys().collect::<Vec<_>>()
        };
        assert_eq!(reuse(&Which::Failed), ["t.1"]);
        assert_eq!(reuse(&from("t", None)), Vec::<String>::new());
        assert_eq!(reuse(&from("t.2", None)), ["t.1"]);
    }
}
