//! Accepts or refuses a definition and lays out its initial status.

use std::collections::BTreeMap;
use std::sync::Arc;

use kruntimes_core::api::{
    Job, JobPhase, JobStatus, StepPhase, StepStatus, WorkflowRunPhase, WorkflowRunStatus,
};
use kruntimes_core::condition::{self, ConditionStatus, Fact};
use kruntimes_core::keys::{CONDITION_ACCEPTED, LABEL_WORKFLOW_RUN_UID};
use kruntimes_core::names;

use super::derive::complete;
use super::{Action, Initialize, State, message};
use crate::bind::from_annotations;
use crate::graph::{self, Invalid, Problem};
use crate::location::Location;
use crate::snapshot::{FrozenSpec, Snapshot};

/// Largest spec plus finished status without outputs, in bytes.
///
/// With all outputs (512 KiB) the object still fits the 1.5 MiB of a store.
const OBJECT_MAX_BYTES: usize = 1_000_000;

/// Initializes a WorkflowRun (W-65), from its snapshot if a crash left one (W-55).
pub(super) fn initialize(state: &State) -> (WorkflowRunStatus, Action) {
    let written = state.snapshot.is_some();
    let snapshot = match &state.snapshot {
        Some(snapshot) => supported(&snapshot.spec.jobs).map(|()| Arc::clone(snapshot)),
        None => freeze(state).map(Arc::new),
    };
    let snapshot = match snapshot {
        Ok(snapshot) => snapshot,
        Err(invalid) => return (refused(state, &invalid), Action::None),
    };
    let name = names::snapshot(&state.name, &state.uid);
    let status = accepted(state, &snapshot, &name);
    let action = Action::Initialize(Initialize {
        labels: [(LABEL_WORKFLOW_RUN_UID.to_owned(), state.uid.clone())].into(),
        snapshot: (!written).then_some(snapshot),
        name,
    });
    (status, action)
}

fn freeze(state: &State) -> Result<Snapshot, Invalid> {
    let jobs = &state.spec.jobs;
    graph::validate(jobs)?;
    supported(jobs)?;
    let snapshot = Snapshot {
        actions: BTreeMap::new(),
        outputs: from_annotations(&state.annotations),
        spec: FrozenSpec { jobs: jobs.clone() },
    };
    snapshot.check_size()?;
    check_growth(state, &snapshot)?;
    Ok(snapshot)
}

/// Refuses by name what this version does not run.
fn supported(jobs: &BTreeMap<String, Job>) -> Result<(), Invalid> {
    for (name, job) in jobs {
        if let Some(workflow) = &job.uses {
            let problem = Problem::CallUnsupported {
                job: name.clone(),
                workflow: workflow.clone(),
            };
            return Err(problem.at(Location::job(name).field("uses")));
        }
        for step in &job.steps {
            let location = Location::job(name).step(&step.name);
            if let Some(action) = &step.uses {
                let problem = Problem::ActionUnsupported {
                    job: name.clone(),
                    step: step.name.clone(),
                    action: action.clone(),
                };
                return Err(problem.at(location.field("uses")));
            }
            if !step.artifacts.is_empty() {
                let problem = Problem::ArtifactsUnsupported {
                    job: name.clone(),
                    step: step.name.clone(),
                };
                return Err(problem.at(location.field("artifacts")));
            }
        }
    }
    Ok(())
}

/// Refuses a graph whose finished status would not fit the store, instead of failing midway.
fn check_growth(state: &State, snapshot: &Snapshot) -> Result<(), Invalid> {
    let run_name = names::child_run(&state.name, "", "", "").len();
    let steps = snapshot.spec.jobs.values().flat_map(|job| &job.steps);
    let finished: usize = steps
        .map(|step| {
            "{'name':'','phase':'Succeeded','runName':''},".len() + step.name.len() + run_name
        })
        .sum();
    let bytes = snapshot.to_bytes().len() + finished;
    let limit = OBJECT_MAX_BYTES;
    if bytes <= limit {
        return Ok(());
    }
    Err(Problem::StatusTooLarge { bytes, limit }.at(Location::default()))
}

fn accepted(state: &State, snapshot: &Snapshot, name: &str) -> WorkflowRunStatus {
    let mut status = state.status.clone();
    let jobs = snapshot.spec.jobs.iter();
    status.phase = WorkflowRunPhase::Pending;
    status.message = None;
    status.snapshot_name = Some(name.to_owned());
    status.jobs = Some(
        jobs.map(|(name, job)| (name.clone(), initial(job)))
            .collect(),
    );
    let reason = message::REASON_ACCEPTED;
    let fact = Fact::new(
        CONDITION_ACCEPTED,
        ConditionStatus::True,
        reason,
        message::ACCEPTED,
    );
    let now = state.now.to_seconds();
    condition::set(
        &mut status.conditions,
        &fact.observed(state.generation),
        now,
    );
    status
}

/// Lays out one job (W-66).
fn initial(job: &Job) -> JobStatus {
    let pre = graph::needs(job);
    let step = |step: &kruntimes_core::api::Step| StepStatus {
        name: step.name.clone(),
        phase: StepPhase::Pending,
        ..StepStatus::default()
    };
    JobStatus {
        phase: if pre.is_empty() {
            JobPhase::Pending
        } else {
            JobPhase::Waiting
        },
        pre,
        steps: job.steps.iter().map(step).collect(),
        ..JobStatus::default()
    }
}

/// Refuses for good (W-16): no jobs, no snapshot, no child.
fn refused(state: &State, invalid: &Invalid) -> WorkflowRunStatus {
    let mut status = state.status.clone();
    let text = message::fit(&invalid.to_string());
    let reason = message::REASON_VALIDATION_FAILED;
    let now = state.now.to_seconds();
    let fact = Fact::new(CONDITION_ACCEPTED, ConditionStatus::False, reason, &text);
    condition::set(
        &mut status.conditions,
        &fact.observed(state.generation),
        now,
    );
    status.phase = WorkflowRunPhase::Failed;
    complete(&mut status, reason, &text, now);
    status.message = Some(text);
    status
}
