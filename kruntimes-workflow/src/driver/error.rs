//! Why a driver stops.

use super::StateError;
use crate::graph::Invalid;
use crate::snapshot::SnapshotError;
use crate::trigger::TriggerError;

/// Why an execution cannot be stored, read or driven on (W-190).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The jobs cannot be run; the problem has its location.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The name does not fit.
    #[error("execution name {} is not a valid name", kruntimes_core::message::quoted(.0))]
    Name(String),
    /// A Workflow and the given values do not make an execution, or a definition does not exist.
    #[error(transparent)]
    Trigger(#[from] TriggerError),
    /// The name is taken.
    #[error("execution {} exists already", kruntimes_core::message::quoted(.0))]
    Conflict(String),
    /// There is no such execution.
    #[error("execution {} does not exist", kruntimes_core::message::quoted(.0))]
    Unknown(String),
    /// A stored state cannot be read.
    #[error("stored state cannot be read")]
    State(#[from] StateError),
    /// A stored state contradicts itself.
    #[error("stored state cannot be continued")]
    Snapshot(#[from] SnapshotError),
    /// The turn asks for the same facts again and again: a defect of this crate.
    #[error("execution {} does not settle", kruntimes_core::message::quoted(.0))]
    Unsettled(String),
    /// A part that the program brought failed; the state is stored and can be run again.
    #[error("{part} failed")]
    Outside {
        /// Which part.
        part: Outside,
        /// What it says.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// A part of the driver that the program brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outside {
    /// It runs steps.
    Executor,
    /// It knows definitions.
    Source,
    /// It keeps states.
    Store,
}

impl std::fmt::Display for Outside {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Executor => "the executor",
            Self::Source => "the source of definitions",
            Self::Store => "the store",
        })
    }
}

impl Error {
    pub(super) fn executor(source: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self::outside(Outside::Executor, source)
    }

    pub(super) fn source(source: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self::outside(Outside::Source, source)
    }

    pub(super) fn store(source: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self::outside(Outside::Store, source)
    }

    fn outside(part: Outside, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        let source = Box::new(source);
        Self::Outside { part, source }
    }
}
