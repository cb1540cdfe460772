//! What an executor is given and what it tells.

use std::collections::BTreeMap;

use kruntimes_core::api::{ArtifactRef, RunPhase, RunSpec};

use crate::plan::StepKey;

/// One step to run.
#[derive(Clone, Debug, PartialEq)]
pub struct Launch {
    /// Name of the execution.
    pub execution: String,
    /// Which step it is.
    pub key: StepKey,
    /// Unique name; equal for the same step after a crash, so that work can be found again.
    pub name: String,
    /// Everything about it: runtime, script, arguments, environment.
    pub spec: RunSpec,
}

impl Launch {
    /// Returns the resolved script.
    pub fn script(&self) -> &str {
        let source = self.spec.source.as_ref();
        let inline = source.and_then(|source| source.inline.as_deref());
        inline.unwrap_or_default()
    }

    /// Returns the runtime that the job asks for.
    pub fn runs_on(&self) -> &str {
        &self.spec.runtime
    }

    /// Iterates over the environment, sorted by name.
    pub fn env(&self) -> impl Iterator<Item = (&str, &str)> {
        let variables = self.spec.env.iter();
        variables.map(|one| (one.name.as_str(), one.value.as_deref().unwrap_or_default()))
    }
}

/// How a step ended.
#[derive(Clone, Debug, PartialEq)]
pub struct End {
    /// A final phase; one that is not final counts as `Failed`.
    pub phase: RunPhase,
    /// Its outputs.
    pub outputs: BTreeMap<String, String>,
    /// References to what it made, by name.
    pub artifacts: Vec<ArtifactRef>,
    /// What there is to say about it.
    pub message: String,
}

impl End {
    fn of(phase: RunPhase, message: impl Into<String>) -> Self {
        Self {
            phase,
            outputs: BTreeMap::new(),
            artifacts: Vec::new(),
            message: message.into(),
        }
    }

    /// It did what it should.
    pub fn succeeded<K, V>(outputs: impl IntoIterator<Item = (K, V)>) -> Self
    where
        K: Into<String>,
        V: Into<String>,
    {
        let outputs = outputs.into_iter();
        Self {
            outputs: outputs.map(|(k, v)| (k.into(), v.into())).collect(),
            ..Self::of(RunPhase::Succeeded, "")
        }
    }

    /// It did not; `message` says why.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::of(RunPhase::Failed, message)
    }

    /// It took too long.
    pub fn timed_out(message: impl Into<String>) -> Self {
        Self::of(RunPhase::Timeout, message)
    }

    /// It was cancelled.
    pub fn cancelled() -> Self {
        Self::of(RunPhase::Cancelled, "")
    }

    /// Reads the outputs file of a step that ended well (W-137).
    pub fn from_outputs_file(file: &[u8]) -> Self {
        match kruntimes_core::outputs::parse(file) {
            Ok(outputs) => Self::succeeded(outputs),
            Err(error) => Self::failed(format!("{}: {error}", error.reason())),
        }
    }
}

/// What became of a step that was under way.
#[derive(Clone, Debug, PartialEq)]
pub enum Attached {
    /// It still runs and its end will be told.
    Running,
    /// It ended meanwhile.
    Ended(End),
    /// Nobody knows anything of it.
    Gone,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq)]
pub enum News {
    /// A step ended.
    Ended {
        /// Name of the launch.
        run: String,
        /// How.
        end: End,
    },
    /// Somebody wants the whole execution cancelled.
    CancelRequested,
}
