//! Accepts or refuses a definition and lays out its initial status.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kruntimes_core::api::{
    ActionStepStatus, Job, JobPhase, JobStatus, Reused, Step, StepPhase, StepStatus,
    WorkflowRunPhase, WorkflowRunStatus,
};
use kruntimes_core::condition::{self, ConditionStatus, Fact};
use kruntimes_core::keys::{CONDITION_ACCEPTED, LABEL_WORKFLOW_RUN_UID};
use kruntimes_core::names;

use super::derive::complete;
use super::{Action, CallValidation, Initialize, Need, State, call, message, rules};
use crate::bind::from_annotations;
use crate::definitions::Lookup;
use crate::expansion::{Legs, expand};
use crate::extend::refuse_spec;
use crate::graph::{self, Invalid, Problem};
use crate::location::Location;
use crate::snapshot::{FrozenAction, FrozenSpec, Snapshot, call_site};

/// Largest spec plus finished status without outputs, in bytes.
///
/// With all outputs (512 KiB) the object still fits the 1.5 MiB of a store.
const OBJECT_MAX_BYTES: usize = 1_000_000;

/// Why a definition is not frozen now.
enum Held {
    /// Something has to be read first.
    Needs(Vec<Need>),
    /// It never will.
    Refused(Invalid),
}

impl From<Invalid> for Held {
    fn from(invalid: Invalid) -> Self {
        Self::Refused(invalid)
    }
}

/// Initializes a WorkflowRun (W-65), from its snapshot if a crash left one (W-55).
pub(super) fn initialize(state: &State, status: &mut WorkflowRunStatus) -> (Action, Vec<Need>) {
    let written = state.snapshot.is_some();
    let snapshot = match &state.snapshot {
        Some(snapshot) => Ok(Arc::clone(snapshot)),
        None => freeze(state).map(Arc::new),
    };
    let snapshot = match snapshot {
        Ok(snapshot) => snapshot,
        Err(Held::Needs(needs)) => return (Action::None, needs),
        Err(Held::Refused(invalid)) => {
            *status = refused(state, &invalid);
            return (Action::None, Vec::new());
        }
    };
    let name = names::snapshot(&state.name, &state.uid);
    *status = accepted(state, &snapshot, &name);
    let action = Action::Initialize(Initialize {
        labels: [(LABEL_WORKFLOW_RUN_UID.to_owned(), state.uid.clone())].into(),
        snapshot: (!written).then_some(snapshot),
        name,
    });
    (action, Vec::new())
}

fn freeze(state: &State) -> Result<Snapshot, Held> {
    let extensions = &state.policy.extensions;
    refuse_spec(&state.spec, extensions)?;
    let (jobs, legs) = concrete(&state.spec.jobs)?;
    let jobs = &*jobs;
    graph::validate_with(jobs, extensions)?;
    reusable(state, jobs)?;
    let actions = resolve(state, jobs)?;
    graph::artifact_edges(jobs)?;
    for (site, action) in &actions {
        let (name, step) = site;
        let job = &jobs[*name];
        let location = Location::job(name).step(step);
        for step in &action.spec.steps {
            graph::imports(name, job, step, &location)?;
        }
    }
    let sites = actions.into_iter();
    let snapshot = Snapshot {
        actions: sites
            .map(|((job, step), action)| (call_site(job, step), action))
            .collect(),
        legs,
        outputs: from_annotations(&state.annotations),
        spec: FrozenSpec { jobs: jobs.clone() },
    };
    snapshot.check_size()?;
    check_growth(state, &snapshot)?;
    check_calls(state, jobs)?;
    Ok(snapshot)
}

type Jobs = BTreeMap<String, Job>;

/// Replaces jobs with a matrix by their legs (W-200).
fn concrete(jobs: &Jobs) -> Result<(Cow<'_, Jobs>, Legs), Invalid> {
    if jobs.values().all(|job| job.matrix.is_none()) {
        return Ok((Cow::Borrowed(jobs), Legs::new()));
    }
    let expanded = expand(jobs)?;
    Ok((Cow::Owned(expanded.jobs), expanded.legs))
}

/// Checks that results to be reused fit the jobs (W-207).
fn reusable(state: &State, jobs: &Jobs) -> Result<(), Invalid> {
    for (name, reused) in &state.spec.reuse {
        let refuse = |rule| {
            let job = name.clone();
            let location = Location::default().field(format!("reuse.{name}"));
            Err(Problem::Reuse { job, rule }.at(location))
        };
        let Some(job) = jobs.get(name) else {
            return refuse("names no job");
        };
        let count = reused.steps.len();
        let first = job.steps.iter().take(count).map(|step| &step.name);
        let fits = count < job.steps.len() && first.eq(reused.steps.iter().map(|step| &step.name));
        if count > 0 && !fits {
            return refuse("must name the first steps of the job, and not all");
        }
    }
    Ok(())
}

type Frozen<'a> = BTreeMap<(&'a str, &'a str), FrozenAction>;

/// Freezes the Action of every call site, in job and step order (W-109).
fn resolve<'a>(state: &State, jobs: &'a Jobs) -> Result<Frozen<'a>, Held> {
    let sites = || {
        jobs.iter().flat_map(|(name, job)| {
            let calls = job.steps.iter().filter_map(|step| {
                let action = step.uses.as_deref()?;
                Some((name.as_str(), step.name.as_str(), action))
            });
            calls.collect::<Vec<_>>()
        })
    };
    let unread: BTreeSet<&str> = sites()
        .map(|(_, _, action)| action)
        .filter(|action| state.definitions.action(action) == Lookup::Unread)
        .collect();
    if !unread.is_empty() {
        let needs = unread.into_iter().map(|name| Need::Action(name.to_owned()));
        return Err(Held::Needs(needs.collect()));
    }
    let mut frozen = BTreeMap::new();
    for (job, step, action) in sites() {
        let location = || Location::job(job).step(step).field("uses");
        let own = || (job.to_owned(), step.to_owned(), action.to_owned());
        let Lookup::Found(spec) = state.definitions.action(action) else {
            let (job, step, action) = own();
            let problem = Problem::ActionMissing { job, step, action };
            return Err(problem.at(location()).into());
        };
        graph::action_with(spec, &state.policy.extensions).map_err(|cause| {
            let (job, step, action) = own();
            let cause = Box::new(cause);
            let problem = Problem::ActionInvalid {
                job,
                step,
                action,
                cause,
            };
            problem.at(location())
        })?;
        let (name, spec) = (action.to_owned(), spec.as_ref().clone());
        frozen.insert((job, step), FrozenAction { name, spec });
    }
    Ok(frozen)
}

/// Looks at every call now, where the operator wants that (W-18).
fn check_calls(state: &State, jobs: &Jobs) -> Result<(), Held> {
    match state.policy.call_validation {
        CallValidation::AtCall => return Ok(()),
        CallValidation::AtInitialize => {}
    }
    for (name, job) in jobs {
        let Some(workflow) = &job.uses else { continue };
        call::callable(state, workflow, name).map_err(|held| match held {
            call::Held::Needs(needs) => Held::Needs(needs),
            call::Held::Failed(_, text) => {
                Held::Refused(Problem::Call(text).at(Location::job(name).field("uses")))
            }
        })?;
    }
    Ok(())
}

/// Refuses a graph whose finished status would not fit the store, instead of failing midway.
fn check_growth(state: &State, snapshot: &Snapshot) -> Result<(), Invalid> {
    let run_name = names::child_run(&state.name, "", "", "").len();
    let finished =
        |step: &str| "{'name':'','phase':'Succeeded','runName':''},".len() + step.len() + run_name;
    let steps = snapshot.spec.jobs.values().flat_map(|job| &job.steps);
    let steps: usize = steps.map(|step| finished(&step.name)).sum();
    let inner = snapshot
        .actions
        .values()
        .flat_map(|action| &action.spec.steps);
    let inner: usize = inner.map(|step| finished(&step.name)).sum();
    let bytes = snapshot.to_bytes().len() + steps + inner;
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
        jobs.map(|(name, job)| {
            let mut laid_out = initial(name, job, snapshot);
            if let Some(reused) = state.spec.reuse.get(name) {
                reuse(&mut laid_out, reused);
            }
            (name.clone(), laid_out)
        })
        .collect(),
    );
    status.deadline = rules::deadline(state);
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
fn initial(name: &str, job: &Job, snapshot: &Snapshot) -> JobStatus {
    let pre = graph::needs(job);
    let inner = |step: &Step| ActionStepStatus {
        name: step.name.clone(),
        ..ActionStepStatus::default()
    };
    let step = |step: &Step| {
        let action = snapshot.actions.get(&call_site(name, &step.name));
        let steps = action.map_or(&[][..], |action| &action.spec.steps);
        StepStatus {
            name: step.name.clone(),
            action_steps: steps.iter().map(inner).collect(),
            ..StepStatus::default()
        }
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

/// Takes over what an earlier execution left of a job, or of its first steps (W-207).
fn reuse(job: &mut JobStatus, reused: &Reused) {
    if reused.steps.is_empty() {
        job.phase = JobPhase::Succeeded;
        job.outputs.clone_from(&reused.outputs);
        job.artifacts.clone_from(&reused.artifacts);
        job.steps.iter_mut().for_each(done);
        return;
    }
    for (step, reused) in job.steps.iter_mut().zip(&reused.steps) {
        done(step);
        step.outputs.clone_from(&reused.outputs);
    }
}

fn done(step: &mut StepStatus) {
    step.phase = StepPhase::Succeeded;
    for inner in &mut step.action_steps {
        inner.phase = StepPhase::Succeeded;
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
