//! What can be wrong with an expression, in the exact words of the specification.

use kruntimes_core::message::quoted;

/// An expression that cannot be evaluated, and where it stands.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind}")]
pub struct Error {
    /// Byte offset of the opening `${{` in the scanned text.
    pub offset: usize,
    /// What is wrong.
    pub kind: ErrorKind,
}

/// What is wrong with an expression (W-29, W-31).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// `}}` is missing.
    #[error("unterminated expression")]
    Unterminated,
    /// The body is blank.
    #[error("empty expression")]
    Empty,
    /// `inputs` without a well-formed name.
    #[error("invalid inputs ref: {0} (expected inputs.<name>)")]
    InvalidInputs(String),
    /// `steps` in another shape than `steps.<name>.outputs.<key>`.
    #[error("invalid steps ref: {0} (expected steps.<name>.outputs.<key>)")]
    InvalidSteps(String),
    /// `jobs` in another shape than `jobs.<name>.outputs.<key>`.
    #[error("invalid jobs ref: {0} (expected jobs.<name>.outputs.<key>)")]
    InvalidJobs(String),
    /// This text has no inputs.
    #[error("no inputs available")]
    NoInputs,
    /// The input is not bound.
    #[error("no input {}", quoted(.0))]
    NoInput(String),
    /// This text may not read outputs of that context.
    #[error("no outputs available")]
    NoOutputs,
    /// The step or job is unknown, not visible here, or has no outputs.
    #[error("no outputs for {0}")]
    NoOutputsFor(String),
    /// A registered context has no such value (W-201).
    #[error("no value {0}")]
    NoValue(String),
    /// A registered function refuses its arguments (W-201).
    #[error("function {} failed: {said}", quoted(.name))]
    Function {
        /// Name of the function.
        name: String,
        /// What it says.
        said: String,
    },
    /// The step or job has outputs, but not this one.
    #[error("no output {} in {name}", quoted(.key))]
    NoOutput {
        /// Key that was asked for.
        key: String,
        /// Step or job that was asked.
        name: String,
    },
    /// Neither `inputs`, `steps` nor `jobs`.
    #[error("unknown ref prefix: {0} (expected inputs, steps, or jobs)")]
    UnknownPrefix(String),
}
