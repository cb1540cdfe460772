//! One execution as it is stored: versioned JSON that tells what it is.

use std::collections::BTreeMap;
use std::sync::Arc;

use kruntimes_core::api::{
    ArtifactRef, Job, RunPhase, RunSpec, WorkflowRunSpec, WorkflowRunStatus,
};
use kruntimes_core::time::Time;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{End, Error, Launch};
use crate::expansion::expand;
use crate::extend::{Extensions, refuse_spec};
use crate::graph::{self, is_definition_name};
use crate::plan::{Called, Child, JobWorkspace, Policy, StartCall, StartStep, State, StepKey};
use crate::snapshot::Snapshot;
use crate::trigger::Triggered;

/// Namespace of everything a driver runs; it only shows in messages.
pub(super) const NAMESPACE: &str = "local";

/// What a stored state calls itself.
const FORMAT: &str = "kruntimes.io/workflow-state";
/// Major and minor version of the format this crate writes.
const VERSION: (u32, u32) = (1, 0);

/// One execution: what was asked for, where it is, and every step that was begun.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Execution {
    /// Name; unique in its store.
    pub name: String,
    /// Fences reuse of the name.
    pub uid: String,
    /// The execution that called it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// The frozen output contract, as a WorkflowRun carries it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// What is to be run.
    pub spec: WorkflowRunSpec,
    /// Where it is.
    #[serde(default)]
    pub status: WorkflowRunStatus,
    /// The frozen definition, once accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<Snapshot>,
    /// Steps that were begun, by the name of their launch.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub runs: BTreeMap<String, StepRun>,
    /// Members that a newer version wrote; they are written back.
    #[serde(skip)]
    unknown: Value,
}

/// One step that was begun.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StepRun {
    /// Name of the job.
    pub job: String,
    /// Name of the step.
    pub step: String,
    /// Step of the called Action.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action_step: Option<String>,
    /// What was begun.
    pub spec: RunSpec,
    /// Where it is; `Pending` until its end is known.
    #[serde(default)]
    pub phase: RunPhase,
    /// Its outputs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub outputs: BTreeMap<String, String>,
    /// References to what it made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<ArtifactRef>,
    /// Whether it was asked to end.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cancel_asked: bool,
    /// Attempts that ended badly and were followed by another one (W-199).
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failed_attempts: i32,
    /// What it said about its end.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// Why a stored state cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// It is no JSON, or not of this shape.
    #[error("it is not a workflow state")]
    Undecodable(#[from] serde_json::Error),
    /// It is something else.
    #[error("its format is {0}, not {FORMAT}")]
    Format(String),
    /// A version wrote it whose states this one does not know.
    #[error("it has version {0}; this program reads version 1")]
    Version(String),
}

impl Execution {
    /// Makes an execution of inline jobs.
    ///
    /// # Errors
    ///
    /// Fails when the name is none or the jobs cannot be run.
    pub fn of_jobs(name: &str, jobs: BTreeMap<String, Job>) -> Result<Self, Error> {
        let spec = WorkflowRunSpec {
            jobs,
            ..WorkflowRunSpec::default()
        };
        Self::of_spec(name, spec, BTreeMap::new(), &Extensions::none())
    }

    /// Makes an execution of a whole spec, for a driver that accepts extensions.
    ///
    /// # Errors
    ///
    /// Fails when the name is none or the spec cannot be run.
    pub fn of_spec(
        name: &str,
        spec: WorkflowRunSpec,
        annotations: BTreeMap<String, String>,
        extensions: &Extensions,
    ) -> Result<Self, Error> {
        if !is_definition_name(name) {
            return Err(Error::Name(name.to_owned()));
        }
        refuse_spec(&spec, extensions)?;
        graph::validate_with(&expand(&spec.jobs)?.jobs, extensions)?;
        Ok(Self {
            name: name.to_owned(),
            uid: name.to_owned(),
            annotations,
            spec,
            ..Self::default()
        })
    }

    /// Makes an execution of a Workflow that was triggered.
    ///
    /// # Errors
    ///
    /// Fails as [`Execution::of_jobs`] does.
    pub fn of_trigger(name: &str, triggered: Triggered) -> Result<Self, Error> {
        let none = Extensions::none();
        Self::of_spec(name, triggered.spec, triggered.annotations, &none)
    }

    /// Makes the execution that a call job creates; it judges itself when it is accepted.
    pub(super) fn called(owner: &str, call: &StartCall) -> Self {
        Self {
            name: call.name.clone(),
            uid: call.name.clone(),
            owner: Some(owner.to_owned()),
            annotations: call.annotations.clone(),
            spec: call.spec.clone(),
            ..Self::default()
        }
    }

    /// Writes a step down as begun.
    pub(super) fn begin(&mut self, start: &StartStep) -> Launch {
        let run = StepRun {
            job: start.key.job.clone(),
            step: start.key.step.clone(),
            action_step: start.key.action_step.clone(),
            spec: start.spec.clone(),
            ..StepRun::default()
        };
        self.runs.insert(start.name.clone(), run);
        Launch {
            execution: self.name.clone(),
            key: start.key.clone(),
            name: start.name.clone(),
            spec: start.spec.clone(),
        }
    }

    /// Describes the execution for a turn; `all` holds those it called.
    pub(super) fn state<'a>(
        &self,
        now: Time,
        all: impl Iterator<Item = &'a Self>,
        extensions: &Extensions,
    ) -> State {
        let called = all.filter(|other| other.owner.as_ref() == Some(&self.name));
        State {
            now,
            namespace: NAMESPACE.to_owned(),
            name: self.name.clone(),
            uid: self.uid.clone(),
            annotations: self.annotations.clone(),
            spec: self.spec.clone(),
            status: self.status.clone(),
            snapshot: self.snapshot.clone().map(Arc::new),
            children: self.runs.iter().map(child).collect(),
            calls: called.map(Self::as_called).collect(),
            // Where steps of one job find each other's files is the executor's business.
            policy: Policy {
                job_workspace: JobWorkspace::Never,
                extensions: extensions.clone(),
                ..Policy::default()
            },
            ..State::default()
        }
    }

    fn as_called(&self) -> Called {
        Called {
            name: self.name.clone(),
            uid: self.uid.clone(),
            annotations: self.annotations.clone(),
            status: self.status.clone(),
            cancel_asked: self.spec.cancel_requested,
            ..Called::default()
        }
    }

    /// Writes the state; equal states give equal text.
    ///
    /// # Panics
    ///
    /// Never: the content is text, lists and maps with text keys.
    pub fn to_json(&self) -> String {
        let mut value = serde_json::to_value(self).expect("text-keyed maps serialize");
        if let Some(members) = value.as_object_mut() {
            let (major, minor) = VERSION;
            members.insert("format".into(), FORMAT.into());
            members.insert("version".into(), format!("{major}.{minor}").into());
        }
        restore(&mut value, &self.unknown);
        serde_json::to_string_pretty(&value).expect("a JSON value serializes")
    }

    /// Reads a state that any minor version of this format wrote.
    ///
    /// # Errors
    ///
    /// Fails on anything else.
    pub fn from_json(text: &str) -> Result<Self, StateError> {
        let value: Value = serde_json::from_str(text)?;
        let told = |name: &str| value[name].as_str().unwrap_or("missing").to_owned();
        if told("format") != FORMAT {
            return Err(StateError::Format(told("format")));
        }
        let version = told("version");
        let major = version.split('.').next().and_then(|part| part.parse().ok());
        if major != Some(VERSION.0) {
            return Err(StateError::Version(version));
        }
        let mut execution = Self::deserialize(&value)?;
        let known = serde_json::to_value(&execution)?;
        let mut unknown = rest(&value, &known);
        if let Some(members) = unknown.as_object_mut() {
            members.remove("format");
            members.remove("version");
        }
        execution.unknown = unknown;
        Ok(execution)
    }

    /// Describes a step that was begun.
    pub(super) fn launch(&self, run: &str) -> Option<Launch> {
        let found = self.runs.get(run)?;
        Some(Launch {
            execution: self.name.clone(),
            key: StepKey {
                job: found.job.clone(),
                step: found.step.clone(),
                action_step: found.action_step.clone(),
            },
            name: run.to_owned(),
            spec: found.spec.clone(),
        })
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_zero(count: &i32) -> bool {
    *count == 0
}

impl StepRun {
    /// Tells whether its retry policy asks for another attempt, and counts it.
    ///
    /// Backoff and reasons are the business of the executor, which knows them.
    pub(super) fn again(&mut self, end: &End) -> bool {
        let policy = self.spec.retry_policy.as_ref();
        let most = policy.and_then(|policy| policy.max_attempts).unwrap_or(1);
        let failed = matches!(end.phase, RunPhase::Failed | RunPhase::Timeout);
        let again = failed
            && !self.cancel_asked
            && !self.phase.is_terminal()
            && self.failed_attempts + 1 < most;
        self.failed_attempts += i32::from(again);
        again
    }

    /// Records the end. An end that was recorded before stays.
    pub(super) fn end(&mut self, end: End) {
        if self.phase.is_terminal() {
            return;
        }
        self.phase = if end.phase.is_terminal() {
            end.phase
        } else {
            RunPhase::Failed
        };
        self.outputs = end.outputs;
        self.artifacts = end.artifacts;
        self.message = end.message;
    }
}

fn child((name, run): (&String, &StepRun)) -> Child {
    Child {
        name: name.clone(),
        uid: name.clone(),
        job: run.job.clone(),
        step: run.step.clone(),
        action_step: run.action_step.clone(),
        phase: run.phase,
        outputs: run.outputs.clone(),
        artifacts: run.artifacts.clone(),
        cancel_asked: run.cancel_asked,
        message: run.message.clone(),
        ..Child::default()
    }
}

/// Returns what `all` has and `known` has not. Elements of lists are told apart by their names.
fn rest(all: &Value, known: &Value) -> Value {
    match (all, known) {
        (Value::Object(all), Value::Object(known)) => {
            let mut left = Map::new();
            for (name, value) in all {
                let found = match known.get(name) {
                    Some(known) => rest(value, known),
                    None => value.clone(),
                };
                if !found.is_null() {
                    left.insert(name.clone(), found);
                }
            }
            if left.is_empty() {
                Value::Null
            } else {
                Value::Object(left)
            }
        }
        (Value::Array(all), Value::Array(known)) => {
            let known: Map<String, Value> = named(known);
            rest(&Value::Object(named(all)), &Value::Object(known))
        }
        _ => Value::Null,
    }
}

/// Lists elements by their names, else by their places.
fn named(list: &[Value]) -> Map<String, Value> {
    let name = |(at, value): (usize, &Value)| {
        let name = value["name"].as_str().map(str::to_owned);
        (name.unwrap_or_else(|| format!("#{at}")), value.clone())
    };
    list.iter().enumerate().map(name).collect()
}

/// Adds what [`rest`] kept, where its place still exists and is not taken.
fn restore(value: &mut Value, kept: &Value) {
    let Value::Object(kept) = kept else { return };
    match value {
        Value::Object(members) => {
            for (name, kept) in kept {
                match members.get_mut(name) {
                    Some(member) => restore(member, kept),
                    None => {
                        members.insert(name.clone(), kept.clone());
                    }
                }
            }
        }
        Value::Array(elements) => {
            for (at, element) in elements.iter_mut().enumerate() {
                let name = element["name"].as_str().map(str::to_owned);
                let name = name.unwrap_or_else(|| format!("#{at}"));
                if let Some(kept) = kept.get(&name) {
                    restore(element, kept);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
