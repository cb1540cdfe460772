//! Builders for tests: jobs that read like a sentence and default to something valid.

use std::collections::BTreeMap;

use kruntimes_core::api::{Job, Step};

/// Makes jobs by name.
pub fn jobs<const N: usize>(jobs: [(&str, JobBuilder); N]) -> BTreeMap<String, Job> {
    jobs.into_iter()
        .map(|(name, job)| (name.to_owned(), job.build()))
        .collect()
}

/// Starts a job on `bash` with one step `s` that runs `true`.
pub fn a_job() -> JobBuilder {
    JobBuilder {
        job: Job {
            runs_on: Some("bash".to_owned()),
            ..Job::default()
        },
    }
}

/// A job in the making.
#[derive(Clone, Debug)]
pub struct JobBuilder {
    job: Job,
}

impl JobBuilder {
    /// Adds predecessors.
    pub fn needs(mut self, needs: &[&str]) -> Self {
        self.job
            .needs
            .extend(needs.iter().map(|&need| need.to_owned()));
        self
    }

    /// Adds a step that runs a script.
    pub fn step(self, name: &str, script: &str) -> Self {
        self.step_with(Step {
            name: name.to_owned(),
            run: Some(script.to_owned()),
            ..Step::default()
        })
    }

    /// Adds a step as it is.
    pub fn step_with(mut self, step: Step) -> Self {
        self.job.steps.push(step);
        self
    }

    /// Declares an output.
    pub fn output(mut self, name: &str, value: &str) -> Self {
        self.job.outputs.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Finishes the job.
    pub fn build(mut self) -> Job {
        if self.job.steps.is_empty() && self.job.uses.is_none() {
            return self.step("s", "true").build();
        }
        self.job.needs.sort();
        self.job
    }
}
