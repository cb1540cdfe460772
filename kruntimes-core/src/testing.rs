//! Builders of valid API objects for tests; they read like sentences.
//!
//! ```
//! use kruntimes_core::testing::{a_job, a_run, a_step, a_workflow_run};
//!
//! let run = a_run().on("python").requesting("gpu", "2").lasting("90s").build();
//! assert_eq!(run.runtime, "python");
//!
//! let spec = a_workflow_run()
//!     .with("build", a_job().with(a_step("compile").running("make")))
//!     .with("test", a_job().after("build").with(a_step("check")))
//!     .build();
//! assert_eq!(spec.jobs["test"].needs, ["build"]);
//! ```

use std::collections::BTreeMap;

use crate::api::{
    Affinity, EnvVar, FunctionMode, Job, Mode, Resources, RetryPolicy, RunAffinity,
    RunAffinityTerm, RunSpec, SessionMode, Source, Step, StepArtifact, TaskMode, Termination,
    TerminationMode, WorkflowRunSpec, WorkspaceRef,
};
use crate::keys::TOPOLOGY_RUNTIME_POD;
use crate::label::LabelSelector;

/// Starts a task Run on runtime `bash` with an inline script.
pub fn a_run() -> RunBuilder {
    RunBuilder(RunSpec {
        runtime: "bash".to_owned(),
        mode: Mode {
            task: Some(TaskMode::default()),
            ..Mode::default()
        },
        source: Some(Source {
            inline: Some("true".to_owned()),
            ..Source::default()
        }),
        ..RunSpec::default()
    })
}

/// Starts a WorkflowRun; without any job of its own it gets one job `main`.
pub fn a_workflow_run() -> WorkflowRunBuilder {
    WorkflowRunBuilder(WorkflowRunSpec::default())
}

/// Starts an inline job on runtime `bash`; without any step of its own it gets one step `main`.
pub fn a_job() -> JobBuilder {
    JobBuilder(Job {
        runs_on: Some("bash".to_owned()),
        ..Job::default()
    })
}

/// Starts a job that calls a Workflow.
pub fn a_call(workflow: &str) -> JobBuilder {
    JobBuilder(Job {
        uses: Some(workflow.to_owned()),
        ..Job::default()
    })
}

/// Starts a step that runs `true`.
pub fn a_step(name: &str) -> StepBuilder {
    StepBuilder(Step {
        name: name.to_owned(),
        run: Some("true".to_owned()),
        ..Step::default()
    })
}

/// Builds the spec of a Run.
#[derive(Clone, Debug)]
pub struct RunBuilder(RunSpec);

impl RunBuilder {
    /// Names the runtime.
    pub fn on(mut self, runtime: &str) -> Self {
        runtime.clone_into(&mut self.0.runtime);
        self
    }

    /// Makes it a task that executes an inline script.
    pub fn running(mut self, script: &str) -> Self {
        self.0.mode = Mode {
            task: Some(TaskMode::default()),
            ..Mode::default()
        };
        self.0.source = Some(Source {
            inline: Some(script.to_owned()),
            ..Source::default()
        });
        self
    }

    /// Makes it a function with this handler, whose code is the inline file `main.py`.
    pub fn serving(mut self, handler: &str) -> Self {
        self.0.mode = Mode {
            function: Some(FunctionMode {
                handler: Some(handler.to_owned()),
                ..FunctionMode::default()
            }),
            ..Mode::default()
        };
        self.0.source = Some(Source {
            inline: Some("def handle(event): return event".to_owned()),
            inline_path: Some("main.py".to_owned()),
            ..Source::default()
        });
        self
    }

    /// Makes it a session without source.
    pub fn in_session(mut self) -> Self {
        self.0.mode = Mode {
            session: Some(SessionMode::default()),
            ..Mode::default()
        };
        self.0.source = None;
        self
    }

    /// Requests an amount of a logical resource.
    ///
    /// # Panics
    ///
    /// Panics when `amount` is no quantity.
    pub fn requesting(mut self, resource: &str, amount: &str) -> Self {
        let amount = amount.parse().expect("the test gives a quantity");
        let resources = self.0.resources.get_or_insert_with(Resources::default);
        resources.requests.insert(resource.to_owned(), amount);
        self
    }

    /// Limits the time from the start.
    ///
    /// # Panics
    ///
    /// Panics when `timeout` is no duration.
    pub fn lasting(mut self, timeout: &str) -> Self {
        self.0.timeout = Some(timeout.parse().expect("the test gives a duration"));
        self
    }

    /// Allows this many attempts, the first included.
    pub fn trying(mut self, attempts: i32) -> Self {
        let policy = self.0.retry_policy.get_or_insert_with(RetryPolicy::default);
        policy.max_attempts = Some(attempts);
        self
    }

    /// Adds an environment variable.
    pub fn with_env(mut self, name: &str, value: &str) -> Self {
        self.0.env.push(EnvVar {
            name: name.to_owned(),
            value: Some(value.to_owned()),
            value_from: None,
        });
        self
    }

    /// Uses a PersistentWorkspace.
    pub fn in_workspace(mut self, name: &str) -> Self {
        self.0.workspace = Some(WorkspaceRef {
            name: name.to_owned(),
            ..WorkspaceRef::default()
        });
        self
    }

    /// Requires a Pod that holds a Run with this label.
    pub fn near(mut self, label: &str, value: &str) -> Self {
        let affinity = self.0.affinity.get_or_insert_with(Affinity::default);
        let near = affinity
            .run_affinity
            .get_or_insert_with(RunAffinity::default);
        near.required.push(term(label, value));
        self
    }

    /// Requires a Pod that holds no Run with this label.
    pub fn away_from(mut self, label: &str, value: &str) -> Self {
        let affinity = self.0.affinity.get_or_insert_with(Affinity::default);
        let away = affinity
            .run_anti_affinity
            .get_or_insert_with(RunAffinity::default);
        away.required.push(term(label, value));
        self
    }

    /// Asks for cancellation.
    pub fn cancelled(mut self) -> Self {
        self.0.cancel_requested = true;
        self
    }

    /// Asks for draining; only sessions may.
    pub fn draining(mut self) -> Self {
        self.0.termination = Some(Termination {
            mode: TerminationMode::Drain,
        });
        self
    }

    /// Deletes the Run this many seconds after its end.
    pub fn kept_for(mut self, seconds: i32) -> Self {
        self.0.ttl_seconds_after_finished = Some(seconds);
        self
    }

    /// Ends the sentence.
    pub fn build(self) -> RunSpec {
        self.0
    }
}

fn term(label: &str, value: &str) -> RunAffinityTerm {
    RunAffinityTerm {
        label_selector: Some(LabelSelector {
            match_labels: BTreeMap::from([(label.to_owned(), value.to_owned())]),
            match_expressions: Vec::new(),
        }),
        topology_key: TOPOLOGY_RUNTIME_POD.to_owned(),
    }
}

/// Builds the spec of a WorkflowRun.
#[derive(Clone, Debug)]
pub struct WorkflowRunBuilder(WorkflowRunSpec);

impl WorkflowRunBuilder {
    /// Adds a job.
    pub fn with(mut self, name: &str, job: JobBuilder) -> Self {
        self.0.jobs.insert(name.to_owned(), job.build());
        self
    }

    /// Asks for cancellation.
    pub fn cancelled(mut self) -> Self {
        self.0.cancel_requested = true;
        self
    }

    /// Ends the sentence.
    pub fn build(mut self) -> WorkflowRunSpec {
        if self.0.jobs.is_empty() {
            self.0.jobs.insert("main".to_owned(), a_job().build());
        }
        self.0
    }
}

/// Builds a job.
#[derive(Clone, Debug)]
pub struct JobBuilder(Job);

impl JobBuilder {
    /// Names the runtime of every step.
    pub fn on(mut self, runtime: &str) -> Self {
        self.0.runs_on = Some(runtime.to_owned());
        self
    }

    /// Adds a predecessor.
    pub fn after(mut self, job: &str) -> Self {
        self.0.needs.push(job.to_owned());
        self
    }

    /// Adds a step.
    pub fn with(mut self, step: StepBuilder) -> Self {
        self.0.steps.push(step.build());
        self
    }

    /// Gives an input to the called Workflow.
    pub fn given(mut self, input: &str, value: &str) -> Self {
        self.0.with.insert(input.to_owned(), value.to_owned());
        self
    }

    /// Adds an output expression.
    pub fn yielding(mut self, output: &str, expression: &str) -> Self {
        let expression = expression.to_owned();
        self.0.outputs.insert(output.to_owned(), expression);
        self
    }

    /// Ends the sentence.
    pub fn build(mut self) -> Job {
        if self.0.uses.is_none() && self.0.steps.is_empty() {
            self.0.steps.push(a_step("main").build());
        }
        self.0
    }
}

/// Builds a step.
#[derive(Clone, Debug)]
pub struct StepBuilder(Step);

impl StepBuilder {
    /// Sets the script.
    pub fn running(mut self, script: &str) -> Self {
        self.0.run = Some(script.to_owned());
        self
    }

    /// Makes it a call of an Action.
    pub fn calling(mut self, action: &str) -> Self {
        self.0.run = None;
        self.0.uses = Some(action.to_owned());
        self
    }

    /// Gives an input to the called Action.
    pub fn given(mut self, input: &str, value: &str) -> Self {
        self.0.with.insert(input.to_owned(), value.to_owned());
        self
    }

    /// Adds an argument.
    pub fn with_arg(mut self, arg: &str) -> Self {
        self.0.args.push(arg.to_owned());
        self
    }

    /// Adds an environment variable.
    pub fn with_env(mut self, name: &str, value: &str) -> Self {
        self.0.env.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Stages an artifact of another job.
    pub fn staging(mut self, from: &str, path: &str) -> Self {
        self.0.artifacts.push(StepArtifact {
            from: from.to_owned(),
            path: path.to_owned(),
        });
        self
    }

    /// Ends the sentence.
    pub fn build(self) -> Step {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_sets_what_it_says_and_nothing_else() {
        let run = a_run().on("python").near("team", "a").trying(3).build();
        assert_eq!(run.runtime, "python");
        assert_eq!(run.retry_policy.unwrap().max_attempts, Some(3));
        let near = run.affinity.unwrap();
        assert_eq!(near.run_affinity.unwrap().required.len(), 1);
        assert_eq!(near.run_anti_affinity, None);
        assert_eq!(run.timeout, None);
    }

    #[test]
    fn each_mode_replaces_the_one_before() {
        let session = a_run().serving("a.b").in_session().build();
        assert_eq!(
            (session.mode.task, session.mode.function, session.source),
            (None, None, None)
        );
        assert!(session.mode.session.is_some());
    }

    #[test]
    fn jobs_and_steps_are_valid_by_default() {
        let run = a_workflow_run().build();
        assert_eq!(run.jobs["main"].steps[0].run.as_deref(), Some("true"));
        let call = a_call("w").given("a", "1").build();
        assert!(call.steps.is_empty() && call.runs_on.is_none());
        let step = a_step("s").calling("x").build();
        assert_eq!((step.run, step.uses.as_deref()), (None, Some("x")));
    }
}
