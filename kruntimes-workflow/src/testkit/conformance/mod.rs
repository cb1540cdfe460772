//! Does a driver do what the specification says? Sections 3 to 13 and 16, item by item (W-210).
//!
//! An embedder implements [`Subject`] over its own driver and store; [`run`]
//! plays every check against it and says which items failed. Nothing is asked
//! that a driver could not know: definitions go in, Runs come out, their ends go
//! back in, and the status is looked at.

mod calls;
mod cancellation;
mod checks;
mod library;

use std::fmt;

use kruntimes_core::api::{
    ActionSpec, JobPhase, JobStatus, RunSpec, WorkflowRunPhase, WorkflowRunSpec, WorkflowRunStatus,
    WorkflowSpec,
};
use serde_json::Value;

use crate::driver::End;
pub use library::Library;

/// One Run that a driver has begun.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    /// Its name.
    pub name: String,
    /// `<job>/<step>`, and `/<action step>` for one of an Action.
    pub place: String,
    /// What was begun.
    pub spec: RunSpec,
    /// Whether it has not ended.
    pub open: bool,
    /// Whether it was asked to cancel.
    pub cancel_asked: bool,
}

/// A driver under test.
pub trait Subject {
    /// Forgets everything: a new driver over an empty store.
    fn reset(&mut self);

    /// Stores a Workflow, or replaces it.
    fn define_workflow(&mut self, name: &str, spec: WorkflowSpec);

    /// Stores an Action, or replaces it.
    fn define_action(&mut self, name: &str, spec: ActionSpec);

    /// Stores an execution.
    ///
    /// # Errors
    ///
    /// A driver that judges at once returns the text of the refusal.
    fn submit(&mut self, name: &str, spec: WorkflowRunSpec) -> Result<(), String>;

    /// Asks a stored execution to cancel.
    fn cancel(&mut self, name: &str);

    /// Lets the driver do everything that it can do without further news.
    fn settle(&mut self);

    /// Kills the driver; a new one goes on from the store with the next [`Subject::settle`].
    fn crash(&mut self);

    /// Lists the Runs of an execution.
    fn runs(&mut self, of: &str) -> Vec<Seen>;

    /// Ends a Run.
    fn end(&mut self, run: &str, end: End);

    /// Returns the status of an execution.
    fn status(&mut self, name: &str) -> WorkflowRunStatus;
}

/// Why a check fails.
type Checked = Result<(), String>;

/// One check and the items it shows.
struct Check {
    items: &'static [u16],
    name: &'static str,
    play: fn(&mut Scene<'_>) -> Checked,
}

/// A check that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Numbers of the items, `210` for W-210.
    pub items: &'static [u16],
    /// What was checked.
    pub check: &'static str,
    /// What was found instead.
    pub found: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for item in self.items {
            write!(f, "W-{item} ")?;
        }
        write!(f, "{}: {}", self.check, self.found)
    }
}

/// What came of all checks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Checks that were played.
    pub checks: usize,
    /// Those that failed, in order.
    pub failures: Vec<Failure>,
}

impl Report {
    /// Returns the numbers of the items that failed, sorted and unique.
    pub fn failed_items(&self) -> Vec<u16> {
        let mut items: Vec<u16> = self
            .failures
            .iter()
            .flat_map(|one| one.items.iter().copied())
            .collect();
        items.sort_unstable();
        items.dedup();
        items
    }
}

/// Plays every check against a driver.
pub fn run(subject: &mut dyn Subject) -> Report {
    let mut report = Report::default();
    let all = checks::CHECKS
        .iter()
        .chain(calls::CHECKS)
        .chain(cancellation::CHECKS);
    for check in all {
        subject.reset();
        let mut scene = Scene { subject };
        report.checks += 1;
        if let Err(found) = (check.play)(&mut scene) {
            report.failures.push(Failure {
                items: check.items,
                check: check.name,
                found,
            });
        }
    }
    report
}

/// The execution that most checks are about.
const NAME: &str = "wfr";

/// A driver and one execution of it.
struct Scene<'a> {
    subject: &'a mut dyn Subject,
}

/// Compares, and says both when they differ.
fn same<T: PartialEq + fmt::Debug>(what: &str, found: &T, want: &T) -> Checked {
    if found == want {
        return Ok(());
    }
    Err(format!("{what} is {found:?}, not {want:?}"))
}

impl Scene<'_> {
    /// Submits jobs and lets the driver begin.
    fn begin(&mut self, jobs: Value) -> Checked {
        self.submit(jobs)?;
        self.subject.settle();
        Ok(())
    }

    fn submit(&mut self, jobs: Value) -> Checked {
        let spec = WorkflowRunSpec {
            jobs: read(jobs)?,
            ..WorkflowRunSpec::default()
        };
        self.subject.submit(NAME, spec)
    }

    fn workflow(&mut self, name: &str, spec: Value) -> Checked {
        self.subject.define_workflow(name, read(spec)?);
        Ok(())
    }

    fn action(&mut self, name: &str, spec: Value) -> Checked {
        self.subject.define_action(name, read(spec)?);
        Ok(())
    }

    fn places(&mut self, of: &str) -> Vec<String> {
        let mut places: Vec<String> = self
            .subject
            .runs(of)
            .into_iter()
            .map(|run| run.place)
            .collect();
        places.sort();
        places
    }

    /// The Runs are exactly these, sorted.
    fn runs_are(&mut self, want: &[&str]) -> Checked {
        same(
            "the list of Runs",
            &self.places(NAME),
            &want.iter().map(|&one| one.to_owned()).collect(),
        )
    }

    fn run_of(&mut self, of: &str, place: &str) -> Result<Seen, String> {
        let runs = self.subject.runs(of);
        let found = runs.into_iter().find(|run| run.place == place);
        found.ok_or_else(|| format!("there is no Run {place} of {of}"))
    }

    fn run(&mut self, place: &str) -> Result<Seen, String> {
        self.run_of(NAME, place)
    }

    fn script(&mut self, place: &str) -> Result<String, String> {
        let source = self.run(place)?.spec.source;
        Ok(source.and_then(|source| source.inline).unwrap_or_default())
    }

    fn end_of(&mut self, of: &str, place: &str, end: End) -> Checked {
        let run = self.run_of(of, place)?;
        self.subject.end(&run.name, end);
        self.subject.settle();
        Ok(())
    }

    fn end(&mut self, place: &str, end: End) -> Checked {
        self.end_of(NAME, place, end)
    }

    fn succeed(&mut self, place: &str, outputs: &[(&str, &str)]) -> Checked {
        self.end(place, End::succeeded(outputs.iter().copied()))
    }

    fn job(&mut self, name: &str) -> Result<JobStatus, String> {
        let jobs = self.subject.status(NAME).jobs.unwrap_or_default();
        jobs.get(name)
            .cloned()
            .ok_or_else(|| format!("there is no job {name}"))
    }

    fn job_is(&mut self, name: &str, phase: JobPhase, reason: &str, message: &str) -> Checked {
        let job = self.job(name)?;
        same(&format!("the phase of job {name}"), &job.phase, &phase)?;
        let found = job.reason.unwrap_or_default();
        same(
            &format!("the reason of job {name}"),
            &found.as_str(),
            &reason,
        )?;
        let found = job.message.unwrap_or_default();
        same(
            &format!("the message of job {name}"),
            &found.as_str(),
            &message,
        )
    }

    fn phase_is(&mut self, phase: WorkflowRunPhase) -> Checked {
        same("the phase", &self.subject.status(NAME).phase, &phase)
    }

    /// Refused as a whole, at once or by its status, and nothing was begun (W-16).
    fn refused(&mut self, jobs: Value, text: &str) -> Checked {
        if let Err(said) = self.begin(jobs) {
            return same("the refusal", &said.as_str(), &text);
        }
        let status = self.subject.status(NAME);
        same("the phase", &status.phase, &WorkflowRunPhase::Failed)?;
        same(
            "the message",
            &status.message.unwrap_or_default().as_str(),
            &text,
        )?;
        same("the state of jobs", &status.jobs, &None)?;
        self.runs_are(&[])
    }
}

fn read<T: serde::de::DeserializeOwned>(value: Value) -> Result<T, String> {
    serde_json::from_value(value).map_err(|error| format!("the check is wrong: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The driver of this crate, in memory and killed at will (W-186).
    #[test]
    fn w_210_w_186_the_driver_of_this_crate_passes() {
        let report = run(&mut Library::default());
        let shown: Vec<String> = report.failures.iter().map(ToString::to_string).collect();
        assert_eq!(shown, Vec::<String>::new());
        assert!(report.checks >= 25);
    }

    /// A driver that forgets to tell ends is found out, with the numbers of the items.
    #[test]
    fn w_210_a_driver_that_is_wrong_is_told_which_items_it_breaks() {
        let mut deaf = Library::deaf();
        let failed = run(&mut deaf).failed_items();
        assert!(failed.contains(&74) && failed.contains(&104), "{failed:?}");
    }
}
