//! The legs of one matrix: their values, order and names.

use std::collections::{BTreeMap, BTreeSet};

use kruntimes_core::api::Matrix;
use kruntimes_core::limits::{JOBS_MAX, LABEL_MAX};
use kruntimes_core::message::quoted;
use kruntimes_core::names;

use crate::bind::RenderProblem;
use crate::graph::is_input_name;

/// Combinations that are looked at before some are excluded.
const COMBINATIONS_MAX: usize = 1024;

/// One combination of values and the name of its job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leg {
    /// Name of the concrete job.
    pub name: String,
    /// Values by axis, those that `include` adds among them.
    pub values: BTreeMap<String, String>,
}

/// Why a matrix cannot be expanded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MatrixError {
    /// It yields no job.
    #[error("has no legs")]
    Empty,
    /// An axis cannot be called so.
    #[error("axis {} is not a valid name", quoted(.0))]
    Axis(String),
    /// There are too many combinations to look at.
    #[error("has more than {COMBINATIONS_MAX} combinations")]
    TooManyCombinations,
    /// It yields too many jobs.
    #[error("has {count} legs, exceeds {JOBS_MAX}")]
    TooManyLegs {
        /// How many.
        count: usize,
    },
    /// Together with the other jobs there are too many.
    #[error("makes more than {0} jobs")]
    TooManyJobs(usize),
    /// One combination occurs twice.
    #[error("has the leg {} twice", quoted(.0))]
    Twice(String),
    /// Another job has the name of a leg.
    #[error("leg {} has the name of another job", quoted(.0))]
    Taken(String),
    /// A text names a value that the leg does not have.
    #[error("leg {} {field}: {cause}", quoted(.leg))]
    Text {
        /// Name of the leg.
        leg: String,
        /// Which text.
        field: &'static str,
        /// What is wrong.
        cause: RenderProblem,
    },
}

/// Returns the legs of a job, in their order.
///
/// # Errors
///
/// Fails on axes that cannot be named, on no legs, and on too many.
pub fn legs(job: &str, matrix: &Matrix) -> Result<Vec<Leg>, MatrixError> {
    let entries = matrix.include.iter().chain(&matrix.exclude);
    let mut keys = matrix.axes.keys().chain(entries.flat_map(BTreeMap::keys));
    if let Some(axis) = keys.find(|axis| !is_input_name(axis)) {
        return Err(MatrixError::Axis(axis.clone()));
    }
    let mut found: Vec<Leg> = combinations(matrix)?
        .into_iter()
        .filter(|values| !matrix.exclude.iter().any(|entry| fits(values, entry)))
        .map(|values| Leg {
            name: name(job, &values, true),
            values,
        })
        .collect();
    let own = found.len();
    for entry in &matrix.include {
        let axes = entry
            .iter()
            .filter(|(key, _)| matrix.axes.contains_key(*key));
        let axes: BTreeMap<String, String> = axes
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        let mut fitting = found[..own]
            .iter_mut()
            .filter(|leg| fits(&leg.values, &axes))
            .peekable();
        if fitting.peek().is_none() {
            drop(fitting);
            let (name, values) = (name(job, entry, false), entry.clone());
            found.push(Leg { name, values });
            continue;
        }
        for leg in fitting {
            leg.values.extend(entry.clone());
        }
    }
    checked(found)
}

fn checked(legs: Vec<Leg>) -> Result<Vec<Leg>, MatrixError> {
    let count = legs.len();
    if count == 0 {
        return Err(MatrixError::Empty);
    }
    if count > JOBS_MAX {
        return Err(MatrixError::TooManyLegs { count });
    }
    let mut names = BTreeSet::new();
    match legs.iter().find(|leg| !names.insert(leg.name.as_str())) {
        Some(leg) => Err(MatrixError::Twice(leg.name.clone())),
        None => Ok(legs),
    }
}

/// Multiplies the axes.
fn combinations(matrix: &Matrix) -> Result<Vec<BTreeMap<String, String>>, MatrixError> {
    let sizes = matrix.axes.values().map(Vec::len);
    let count = sizes.fold(1, usize::saturating_mul);
    if count > COMBINATIONS_MAX {
        return Err(MatrixError::TooManyCombinations);
    }
    if matrix.axes.is_empty() {
        return Ok(Vec::new());
    }
    let mut found = vec![BTreeMap::new()];
    for (axis, values) in &matrix.axes {
        let longer = found.iter().flat_map(|shorter: &BTreeMap<String, String>| {
            values.iter().map(move |value| {
                let mut longer = shorter.clone();
                longer.insert(axis.clone(), value.clone());
                longer
            })
        });
        found = longer.collect();
    }
    Ok(found)
}

/// Tells whether a combination has all values of an entry.
fn fits(values: &BTreeMap<String, String>, entry: &BTreeMap<String, String>) -> bool {
    entry
        .iter()
        .all(|(key, value)| values.get(key) == Some(value))
}

/// Names a leg by its values; a hash is added where they could be read in two ways.
fn name(job: &str, values: &BTreeMap<String, String>, own: bool) -> String {
    let plain = |value: &String| {
        !value.is_empty()
            && value
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "_.".contains(c))
    };
    let listed: Vec<&str> = values.values().map(String::as_str).collect();
    let joined = listed.join("-");
    let clear =
        own && values.values().all(plain) && joined.ends_with(|c: char| c.is_ascii_alphanumeric());
    let name = format!("{job}.{joined}");
    if clear && name.len() <= LABEL_MAX {
        return name;
    }
    let told = serde_json::json!([job, values]).to_string();
    let hash = names::hex10(&told);
    let letter = |c: char| {
        if c.is_ascii_alphanumeric() || "_.-".contains(c) {
            c
        } else {
            '_'
        }
    };
    let name: String = name.chars().map(letter).collect();
    let kept = names::trim(&name, LABEL_MAX - hash.len() - 1);
    format!("{kept}-{hash}")
}
