//! `krt workflow run retry`: a finished WorkflowRun once more, or a part of it (W-207).

use kruntimes_core::api::{API_VERSION, WorkflowRunSpec, WorkflowRunStatus};
use kruntimes_workflow::expansion::expand;
use kruntimes_workflow::rerun::{Finished, Rerun, RerunError, Which, rerun};
use kube::ResourceExt as _;
use serde_json::{Value, json};

use super::connect::Server;
use super::objects::{TOKEN, random};
use super::problem::Problem;
use super::{Kind, workflow_runs, workflows};
use crate::args::workflows::Retry;
use crate::exit::Exit;

/// Makes a new WorkflowRun of one that has ended.
pub(super) async fn retry(server: &Server, request: Retry) -> Result<Exit, Problem> {
    let old = server.get(Kind::WorkflowRun, &request.name).await?;
    let spec: WorkflowRunSpec = part(&old.data["spec"], &request.name)?;
    let status: WorkflowRunStatus = part(&old.data["status"], &request.name)?;
    let which = which(&request, &spec);
    let finished = Finished {
        name: &request.name,
        annotations: old.annotations(),
        spec: &spec,
        status: &status,
    };
    let rerun = rerun(&finished, &which).map_err(|error| refused(&request.name, &error))?;
    let made = server.create(Kind::WorkflowRun, object(&rerun)).await?;
    workflows::print_made(Kind::WorkflowRun, &made, request.output);
    let names = [made.name_any()];
    workflow_runs::waited(server, &names, request.wait, request.wait_timeout).await
}

fn part<T: serde::de::DeserializeOwned + Default>(value: &Value, name: &str) -> Result<T, Problem> {
    if value.is_null() {
        return Ok(T::default());
    }
    serde_json::from_value(value.clone()).map_err(|error| {
        let text = format!("krt: WorkflowRun {name} cannot be read: {error}");
        Problem::new(text, "a newer krt may understand it").exit(Exit::Refused)
    })
}

/// Names may have dots: what is a job as a whole is one, else the longest job in front of a dot.
fn which(request: &Retry, spec: &WorkflowRunSpec) -> Which {
    let Some(from) = &request.from else {
        return if request.failed {
            Which::Failed
        } else {
            Which::All
        };
    };
    let expanded = expand(&spec.jobs).unwrap_or_default();
    let is_job = |name: &str| spec.jobs.contains_key(name) || expanded.jobs.contains_key(name);
    let mut cuts = from.rmatch_indices('.').map(|(at, _)| at);
    let cut = cuts.find(|&at| is_job(&from[..at]));
    match cut.filter(|_| !is_job(from)) {
        Some(at) => Which::From {
            job: from[..at].to_owned(),
            step: Some(from[at + 1..].to_owned()),
        },
        None => Which::From {
            job: from.clone(),
            step: None,
        },
    }
}

fn refused(name: &str, error: &RerunError) -> Problem {
    let next = match error {
        RerunError::NotFinished(_) => format!("wait for it with `krt wait wfr/{name}`"),
        RerunError::NothingFailed(_) => "leave --failed out to repeat everything".to_owned(),
        _ => format!("see its jobs and steps with `krt wf run get {name}`"),
    };
    Problem::new(format!("krt: {error}"), &next).exit(Exit::Refused)
}

/// The object to create, with a name of its own so that a repeated request makes it once.
fn object(rerun: &Rerun) -> Value {
    let mut annotations = json!(rerun.annotations);
    annotations[TOKEN] = json!(random(16));
    json!({
        "apiVersion": API_VERSION,
        "kind": "WorkflowRun",
        "metadata": {
            "name": format!("{}{}", rerun.generate_name, random(8)),
            "annotations": annotations,
        },
        "spec": rerun.spec,
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use kruntimes_core::testing::{a_job, a_workflow_run};

    use super::*;
    use crate::args::workflows::Retry;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        retry: Retry,
    }

    #[test]
    fn w_207_from_names_a_job_or_a_step_of_it_dots_and_all() {
        let spec = a_workflow_run()
            .with("build", a_job())
            .with("build.fast", a_job())
            .build();
        let told = |line: &str| which(&Line::parse_from(line.split(' ')).retry, &spec);
        let from = |job: &str, step: Option<&str>| Which::From {
            job: job.to_owned(),
            step: step.map(str::to_owned),
        };
        for (line, want) in [
            ("retry ci", Which::All),
            ("retry ci --failed", Which::Failed),
            ("retry ci --from build", from("build", None)),
            ("retry ci --from build.one", from("build", Some("one"))),
            ("retry ci --from build.fast", from("build.fast", None)),
            (
                "retry ci --from build.fast.one.two",
                from("build.fast", Some("one.two")),
            ),
            ("retry ci --from ghost.one", from("ghost.one", None)),
        ] {
            assert_eq!(told(line), want, "{line}");
        }
        assert!(Line::try_parse_from("retry ci --failed --from a".split(' ')).is_err());
    }
}
