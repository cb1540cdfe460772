//! The goals of performance, measured one after another.

use std::io;
use std::process::{Command, ExitStatus};

use crate::root;

/// Programs that measure, by package and bench, with the goals each knows.
const PROGRAMS: [(&str, &str, &[&str]); 2] = [
    (
        "kruntimes-sched",
        "moon",
        &["S1", "S2", "S3", "S-176", "M1", "X1"],
    ),
    ("kruntimes-workflow", "moon", &["W2", "X1"]),
];

/// Why the goals were not measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum Error {
    /// No program measures it.
    #[error("no goal is called \"{0}\"; there are {known}", known = known().join(", "))]
    Unknown(String),
    /// Cargo cannot be started.
    #[error("cannot start cargo")]
    Cargo(#[source] io::Error),
    /// A program did not end well.
    #[error("the measurement ended with {0}")]
    Ended(ExitStatus),
}

fn known() -> Vec<&'static str> {
    let mut known = Vec::new();
    for goal in PROGRAMS.iter().flat_map(|(.., goals)| goals.iter()) {
        // One goal may have parts in several programs.
        if !known.contains(goal) {
            known.push(*goal);
        }
    }
    known
}

/// Builds what measures the goals, all if none is named, and lets it print one table each.
///
/// # Errors
///
/// Fails before anything is built when a goal is unknown.
pub(crate) fn run(asked: &[&str]) -> Result<(), Error> {
    for (package, bench, goals) in selected(asked)? {
        let status = Command::new("cargo")
            .args(["bench", "--package", package, "--bench", bench, "--"])
            .args(goals)
            .current_dir(root::path())
            .status()
            .map_err(Error::Cargo)?;
        if !status.success() {
            return Err(Error::Ended(status));
        }
    }
    Ok(())
}

/// A program and the goals it is to measure.
type Selected = (&'static str, &'static str, Vec<&'static str>);

fn selected(asked: &[&str]) -> Result<Vec<Selected>, Error> {
    if let Some(goal) = asked.iter().find(|goal| !known().contains(*goal)) {
        return Err(Error::Unknown((*goal).to_owned()));
    }
    let wanted = |goal: &&str| asked.is_empty() || asked.contains(goal);
    let programs = PROGRAMS.iter().map(|(package, bench, goals)| {
        let goals: Vec<&str> = goals.iter().copied().filter(wanted).collect();
        (*package, *bench, goals)
    });
    Ok(programs.filter(|(.., goals)| !goals.is_empty()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goals_are_measured_by_the_program_that_knows_them() {
        let all = selected(&[]).unwrap();
        assert_eq!(all.len(), PROGRAMS.len());
        let one = selected(&["S2"]).unwrap();
        assert_eq!(one, [("kruntimes-sched", "moon", vec!["S2"])]);
        let both: Vec<_> = selected(&["X1"])
            .unwrap()
            .into_iter()
            .map(|(of, ..)| of)
            .collect();
        assert_eq!(both, ["kruntimes-sched", "kruntimes-workflow"]);
    }

    #[test]
    fn an_unknown_goal_is_refused_with_those_there_are() {
        let error = selected(&["S1", "S9"]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "no goal is called \"S9\"; there are S1, S2, S3, S-176, M1, X1, W2"
        );
    }
}
