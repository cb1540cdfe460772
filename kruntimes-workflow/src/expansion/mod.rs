//! One job of a definition becomes many: matrices, before anything is frozen (W-200).
//!
//! Every combination of the axes is a *leg*. Legs come in a fixed order: axes
//! sorted by name, values as listed, the last axis fastest; entries of `include`
//! that fit no combination follow. A leg is an ordinary job with a name of its
//! own, made from its values alone, so that adding a value renames no other leg.
//! `${{ matrix.<axis> }}` is replaced when the leg is made. Who needs the job
//! needs all legs, and reads its outputs as lists in leg order.

mod legs;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use kruntimes_core::api::{Job, JobPhase, JobStatus, Step};
use kruntimes_core::limits::JOBS_MAX;

use crate::bind::text_of;
use crate::condition::Condition;
use crate::graph::{Invalid, Problem};
use crate::location::Location;

pub use legs::{Leg, MatrixError, legs};

/// Names of legs by the job they were made of, in leg order.
pub type Legs = BTreeMap<String, Vec<String>>;

/// Prefix of the values of a leg.
const PREFIX: &str = "matrix.";

/// Jobs without matrices.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Expanded {
    /// Concrete jobs by name.
    pub jobs: BTreeMap<String, Job>,
    /// Which of them are legs, and of what.
    pub legs: Legs,
}

/// Replaces every job that has a matrix by its legs.
///
/// # Errors
///
/// The first matrix, jobs sorted by name, that cannot be expanded.
pub fn expand(jobs: &BTreeMap<String, Job>) -> Result<Expanded, Invalid> {
    let mut expanded = Expanded::default();
    for (name, job) in jobs {
        let Some(matrix) = &job.matrix else {
            insert(&mut expanded, name, name.clone(), job.clone())?;
            continue;
        };
        let refused = |cause| refuse(name, cause);
        let found = legs(name, matrix).map_err(refused)?;
        let mut names = Vec::new();
        for leg in found {
            let made = made(job, &leg).map_err(refused)?;
            if jobs.contains_key(&leg.name) {
                return Err(refused(MatrixError::Taken(leg.name)));
            }
            names.push(leg.name.clone());
            insert(&mut expanded, name, leg.name, made)?;
        }
        expanded.legs.insert(name.clone(), names);
        if expanded.jobs.len() > JOBS_MAX {
            return Err(refuse(name, MatrixError::TooManyJobs(JOBS_MAX)));
        }
    }
    for job in expanded.jobs.values_mut() {
        if job
            .needs
            .iter()
            .any(|need| expanded.legs.contains_key(need))
        {
            let needs = job
                .needs
                .iter()
                .flat_map(|need| match expanded.legs.get(need) {
                    Some(legs) => legs.clone(),
                    None => vec![need.clone()],
                });
            job.needs = needs.collect();
        }
    }
    Ok(expanded)
}

fn refuse(job: &str, cause: MatrixError) -> Invalid {
    let (job, cause) = (job.to_owned(), Box::new(cause));
    let location = Location::job(&job).field("matrix");
    Problem::Matrix { job, cause }.at(location)
}

fn insert(expanded: &mut Expanded, of: &str, name: String, job: Job) -> Result<(), Invalid> {
    if expanded.jobs.contains_key(&name) {
        return Err(refuse(of, MatrixError::Taken(name)));
    }
    expanded.jobs.insert(name, job);
    Ok(())
}

/// Makes the job of one leg.
fn made(job: &Job, leg: &Leg) -> Result<Job, MatrixError> {
    let mut job = Job {
        matrix: None,
        ..job.clone()
    };
    let maker = Maker { leg };
    if let Some(runtime) = &mut job.runs_on {
        maker.text(runtime, "runs-on")?;
    }
    maker.condition(&mut job.condition)?;
    maker.texts(job.with.values_mut(), "with")?;
    maker.texts(job.outputs.values_mut(), "outputs")?;
    for step in &mut job.steps {
        maker.step(step)?;
    }
    Ok(job)
}

struct Maker<'a> {
    leg: &'a Leg,
}

impl Maker<'_> {
    fn step(&self, step: &mut Step) -> Result<(), MatrixError> {
        self.texts(&mut step.run, "run")?;
        self.texts(&mut step.args, "args")?;
        self.texts(step.env.values_mut(), "env")?;
        self.texts(step.with.values_mut(), "with")?;
        self.condition(&mut step.condition)
    }

    fn texts<'t>(
        &self,
        texts: impl IntoIterator<Item = &'t mut String>,
        field: &'static str,
    ) -> Result<(), MatrixError> {
        texts
            .into_iter()
            .try_for_each(|text| self.text(text, field))
    }

    fn text(&self, text: &mut String, field: &'static str) -> Result<(), MatrixError> {
        if !text.contains(PREFIX) {
            return Ok(());
        }
        let rendered = text_of(text, PREFIX, &self.leg.values);
        *text = rendered.map_err(|(_, cause)| MatrixError::Text {
            leg: self.leg.name.clone(),
            field,
            cause,
        })?;
        Ok(())
    }

    /// Conditions that cannot be read are judged later, with all others.
    fn condition(&self, condition: &mut Option<String>) -> Result<(), MatrixError> {
        let Some(Ok(read)) = condition.as_deref().map(Condition::parse) else {
            return Ok(());
        };
        let bound = read.bind(PREFIX, &self.leg.values);
        let bound = bound.map_err(|name| MatrixError::Text {
            leg: self.leg.name.clone(),
            field: "if",
            cause: crate::bind::RenderProblem::UnknownValue(format!("{PREFIX}{name}")),
        })?;
        *condition = Some(bound.to_string());
        Ok(())
    }
}

/// Returns the outputs of a job that became legs: lists in leg order, once every leg succeeded.
///
/// A key that a leg did not write is an empty text in its place.
pub fn combined<'a>(
    legs: &[String],
    job: impl Fn(&str) -> Option<&'a JobStatus>,
) -> Option<BTreeMap<String, String>> {
    let found: Option<Vec<&JobStatus>> = legs.iter().map(|leg| job(leg)).collect();
    let found = found?;
    if found.iter().any(|job| job.phase != JobPhase::Succeeded) {
        return None;
    }
    let mut keys: Vec<&String> = found.iter().flat_map(|job| job.outputs.keys()).collect();
    keys.sort_unstable();
    keys.dedup();
    let list = |key: &String| {
        let values = found
            .iter()
            .map(|job| job.outputs.get(key).map_or("", String::as_str));
        values.collect::<serde_json::Value>().to_string()
    };
    Some(
        keys.into_iter()
            .map(|key| (key.clone(), list(key)))
            .collect(),
    )
}
