//! What can be wrong with a definition, in the exact words of the specification.

use std::fmt;

use kruntimes_core::keys::OUTPUT_ENV_PREFIX;
use kruntimes_core::message::quoted;

use crate::condition::ConditionError;
use crate::expansion::MatrixError;
use crate::extend::Extension;
use crate::location::Location;

/// A definition that may not run, and where it is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem}")]
pub struct Invalid {
    /// Where.
    pub location: Box<Location>,
    /// What.
    pub problem: Problem,
}

/// What is wrong with a definition (section 3).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// A call job with `runs-on` or `steps`.
    #[error("job {} uses reusable workflow {} and may not set runs-on or steps", quoted(.job), quoted(.workflow))]
    CallWithSteps {
        /// The job.
        job: String,
        /// The Workflow it calls.
        workflow: String,
    },
    /// An inline job without runtime.
    #[error("job {} must set runs-on before creating child Runs", quoted(.job))]
    NoRuntime {
        /// The job.
        job: String,
    },
    /// An inline job without steps.
    #[error("job {} must contain at least one step before creating child Runs", quoted(.job))]
    NoSteps {
        /// The job.
        job: String,
    },
    /// Two steps of one job with one name.
    #[error("job {} step name {} is duplicated", quoted(.job), quoted(.step))]
    DuplicateStep {
        /// The job.
        job: String,
        /// The name.
        step: String,
    },
    /// A dependency that is not a job.
    #[error("job {} needs unknown job {}", quoted(.job), quoted(.need))]
    UnknownNeed {
        /// The job.
        job: String,
        /// The name that is no job.
        need: String,
    },
    /// Jobs that need each other.
    #[error("workflow job dependency cycle: {}", .0.join(" -> "))]
    Cycle(Vec<String>),
    /// An Action without steps.
    #[error("Action must contain at least one step")]
    ActionWithoutSteps,
    /// An Action step that is not a plain script.
    #[error("Action step {} must set run and may not use another Action", quoted(.0))]
    ActionStepNotRun(String),
    /// Two steps of one Action with one name.
    #[error("Action step name {} is duplicated", quoted(.0))]
    DuplicateActionStep(String),
    /// A name that does not fit its place.
    #[error("{subject}: {what} {} is not a valid name", quoted(.name))]
    Name {
        /// Whose member holds the name.
        subject: Subject,
        /// Which member.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// Members that exclude or require each other.
    #[error("{subject} {rule}")]
    Shape {
        /// What has the wrong shape.
        subject: Subject,
        /// The rule it breaks.
        rule: &'static str,
    },
    /// Too many entries or too long a text.
    #[error("{subject} {what} is {actual}, exceeds {limit}")]
    Limit {
        /// What is too large.
        subject: Subject,
        /// Which of its members.
        what: &'static str,
        /// Its size.
        actual: usize,
        /// The largest size allowed.
        limit: usize,
    },
    /// An expression in a text that is never evaluated (W-36).
    #[error("{subject} {what} may not contain an expression")]
    Expression {
        /// Whose text.
        subject: Subject,
        /// Which text.
        what: &'static str,
    },
    /// An output name that does not fit an annotation (W-103).
    #[error("output name {} cannot be represented as a WorkflowRun annotation", quoted(.0))]
    OutputName(String),
    /// An Action that does not exist.
    #[error("Action {} for step {} in job {} does not exist", quoted(.action), quoted(.step), quoted(.job))]
    ActionMissing {
        /// The job.
        job: String,
        /// The step.
        step: String,
        /// The Action it calls.
        action: String,
    },
    /// An Action that may not be used.
    #[error("validate Action {} for step {} in job {}: {cause}", quoted(.action), quoted(.step), quoted(.job))]
    ActionInvalid {
        /// The job.
        job: String,
        /// The step.
        step: String,
        /// The Action it calls.
        action: String,
        /// What is wrong with the Action.
        cause: Box<Invalid>,
    },
    /// An output that would pass for a published variable.
    #[error("output {} may not use the reserved prefix {OUTPUT_ENV_PREFIX}", quoted(.0))]
    ReservedOutput(String),
    /// An artifact import of another form than `jobs.<job>.artifacts.<name>`.
    #[error("invalid artifact source {} (expected jobs.<job-id>.artifacts.<name>)", quoted(.0))]
    ArtifactSource(String),
    /// An artifact import from a job that is no direct dependency.
    #[error("job {} artifact input {} must reference a direct needs dependency", quoted(.job), quoted(.from))]
    ArtifactEdge {
        /// The job.
        job: String,
        /// What it imports.
        from: String,
    },
    /// A destination outside the work directory.
    #[error("artifact path {} {rule}", quoted(.path))]
    ArtifactPath {
        /// The path.
        path: String,
        /// The rule it breaks.
        rule: &'static str,
    },
    /// A field of an extension that this engine has off (W-6).
    #[error("{subject} {field} is not supported: workflow extension {extension} is off")]
    ExtensionOff {
        /// Whose field.
        subject: Subject,
        /// The field.
        field: &'static str,
        /// What would have to be on.
        extension: Extension,
    },
    /// A condition that cannot be read or names what does not exist.
    #[error("{subject} if: {cause}")]
    Condition {
        /// Whose condition.
        subject: Subject,
        /// What is wrong with it.
        cause: Box<ConditionError>,
    },
    /// A matrix that cannot be expanded.
    #[error("job {} matrix {cause}", quoted(.job))]
    Matrix {
        /// The job.
        job: String,
        /// What is wrong with it.
        cause: Box<MatrixError>,
    },
    /// Results to be reused that fit no job.
    #[error("reuse of job {} {rule}", quoted(.job))]
    Reuse {
        /// The job.
        job: String,
        /// The rule it breaks.
        rule: &'static str,
    },
    /// A type of an input that nobody defined.
    #[error("input {} type {} is unknown", quoted(.input), quoted(.name))]
    InputType {
        /// The input.
        input: String,
        /// The type.
        name: String,
    },
    /// A call that the operator wants refused at once (W-18), in the words of the call itself.
    #[error("{0}")]
    Call(String),
    /// A definition too large to freeze.
    #[error("workflow snapshot is {bytes} bytes, exceeds {limit} byte limit")]
    SnapshotTooLarge {
        /// Its serialized size.
        bytes: usize,
        /// The largest size allowed.
        limit: usize,
    },
    /// A graph whose finished status would not fit the store.
    #[error("workflow status may grow to {bytes} bytes, exceeds {limit} byte limit")]
    StatusTooLarge {
        /// The size it may reach.
        bytes: usize,
        /// The largest size allowed.
        limit: usize,
    },
}

impl Problem {
    /// Says where the problem is.
    pub fn at(self, location: Location) -> Invalid {
        Invalid {
            location: Box::new(location),
            problem: self,
        }
    }
}

/// Whatever a problem is about, as it is called in its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The whole object.
    Object,
    /// A job.
    Job(String),
    /// A step of a job.
    Step(String, String),
    /// A step of an Action.
    ActionStep(String),
    /// An input.
    Input(String),
    /// An output.
    Output(String),
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Object => f.write_str("definition"),
            Self::Job(job) => write!(f, "job {}", quoted(job)),
            Self::Step(job, step) => write!(f, "job {} step {}", quoted(job), quoted(step)),
            Self::ActionStep(step) => write!(f, "Action step {}", quoted(step)),
            Self::Input(name) => write!(f, "input {}", quoted(name)),
            Self::Output(name) => write!(f, "output {}", quoted(name)),
        }
    }
}
