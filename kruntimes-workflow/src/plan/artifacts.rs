//! Artifacts: what a finished job offers, and what a starting step imports (section 13.3).
//!
//! Only references travel; the engine never touches a byte of them.

use std::collections::BTreeMap;

use kruntimes_core::api::{ArtifactInput, ArtifactRef, JobPhase, JobStatus, RunPhase, Step};
use kruntimes_core::message::quoted;

use super::budget::Budget;
use super::children::Children;
use super::scopes::States;
use super::{Reason, message};
use crate::graph::{ArtifactSource, destination};

/// Most artifacts of one job.
const ARTIFACTS_MAX: usize = 32;

type Artifacts = BTreeMap<String, ArtifactRef>;

/// Resolves the imports of a step from the jobs it may read (W-130).
///
/// The error is a cause for W-39.
pub(super) fn imports(
    step: &Step,
    jobs: &dyn States,
) -> Result<Vec<ArtifactInput>, (Reason, String)> {
    let import = |artifact: &kruntimes_core::api::StepArtifact| {
        let invalid = |problem: crate::graph::Problem| (Reason::StepFailed, problem.to_string());
        let path = destination(&artifact.path).map_err(invalid)?;
        let source = ArtifactSource::parse(&artifact.from).map_err(invalid)?;
        let job = jobs.job(source.job);
        let Some(job) = job.filter(|job| job.phase == JobPhase::Succeeded) else {
            let text = message::artifact_early(&artifact.from, source.job);
            return Err((Reason::ArtifactMissing, text));
        };
        match job.artifacts.get(source.artifact) {
            Some(reference) => Ok(ArtifactInput {
                reference: reference.clone(),
                path,
            }),
            None => Err((
                Reason::ArtifactMissing,
                message::artifact_missing(&artifact.from),
            )),
        }
    };
    step.artifacts.iter().map(import).collect()
}

/// Collects what the Runs of a succeeded job made; of one name the last in step order (W-131).
pub(super) fn of_job(
    name: &str,
    job: &JobStatus,
    children: &Children<'_>,
    budget: &mut Budget,
) -> Result<Artifacts, (Reason, String)> {
    let mut made = Artifacts::new();
    let mut add = |place, run: &Option<String>| {
        let Some(child) = children.of(name, place, run.as_deref()) else {
            return;
        };
        if child.phase == RunPhase::Succeeded {
            let found = child.artifacts.iter();
            made.extend(found.map(|found| (found.name.clone(), found.clone())));
        }
    };
    for step in &job.steps {
        add((step.name.as_str(), None), &step.run_name);
        for inner in &step.action_steps {
            let place = (step.name.as_str(), Some(inner.name.as_str()));
            add(place, &inner.run_name);
        }
    }
    keep(name, made, budget)
}

/// Collects what the jobs of a succeeded child made: under the bare name where one job made it,
/// else under `<job>.<name>` (W-131).
pub(super) fn of_call(
    name: &str,
    jobs: &BTreeMap<String, JobStatus>,
    budget: &mut Budget,
) -> Result<Artifacts, (Reason, String)> {
    let succeeded = |(_, job): &(&String, &JobStatus)| job.phase == JobPhase::Succeeded;
    let mut makers: BTreeMap<&str, Vec<(&str, &ArtifactRef)>> = BTreeMap::new();
    for (job, status) in jobs.iter().filter(succeeded) {
        for (artifact, reference) in &status.artifacts {
            let made = makers.entry(artifact).or_default();
            made.push((job, reference));
        }
    }
    let mut made = Artifacts::new();
    for (artifact, by) in makers {
        match by[..] {
            [(_, reference)] => {
                made.insert(artifact.to_owned(), reference.clone());
            }
            _ => made.extend(by.into_iter().map(|(job, reference)| {
                let name = format!("{job}.{artifact}");
                (name, reference.clone())
            })),
        }
    }
    keep(name, made, budget)
}

fn keep(name: &str, made: Artifacts, budget: &mut Budget) -> Result<Artifacts, (Reason, String)> {
    let too_large = |text| (Reason::OutputsTooLarge, text);
    if made.len() > ARTIFACTS_MAX {
        let text = message::too_many_artifacts(name, made.len(), ARTIFACTS_MAX);
        return Err(too_large(text));
    }
    let whose = || format!("job {} with its artifacts", quoted(name));
    budget
        .take(whose, super::budget::artifact_bytes(&made))
        .map_err(too_large)?;
    Ok(made)
}
