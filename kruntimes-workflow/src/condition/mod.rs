//! Conditions of jobs and steps: the text of `if`, read and decided (W-198).
//!
//! A condition is a comparison, a status function, or both joined by `&&`, `||`,
//! `!` and brackets. `${{ … }}` around the whole changes nothing; around a part
//! it is an error, and so is a value that stands alone.
//!
//! What the status functions say is a table ([`Outcomes`]). `needs` of a job and
//! the earlier steps of a step are its *sources*:
//!
//! | sources | `success()` | `failure()` | `cancelled()` | `always()` |
//! | --- | --- | --- | --- | --- |
//! | none, or all succeeded | true | false | false | true |
//! | one failed, none was cancelled | false | true | false | true |
//! | one was cancelled, none failed | false | false | true | true |
//! | one failed, one was cancelled | false | true | true | true |
//! | one job was skipped behind a failed one | false | true | false | true |
//! | one job was skipped otherwise | false | false | false | true |
//!
//! A failure that `continueOnError` allows is a success here; a skipped step is
//! no source. A condition that names no status function and reads no end of a
//! source (`needs.<job>.result`, `steps.<step>.outcome` or `.conclusion`) means
//! `success() && (…)`. A request to cancel the whole execution starts nothing
//! any more, whatever a condition says (W-87).

mod parse;
mod token;

use std::collections::BTreeMap;
use std::fmt;

use kruntimes_core::message::quoted;

/// Longest text of a condition, in characters.
pub const CONDITION_MAX_CHARS: usize = 4096;

/// A condition that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    root: Node,
}

/// Why a text is no condition, or why it cannot be decided.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConditionError {
    /// There is nothing.
    #[error("empty condition")]
    Empty,
    /// It is too long.
    #[error("condition is {0} characters, exceeds {CONDITION_MAX_CHARS}")]
    TooLong(usize),
    /// `${{ … }}` stands around a part of it.
    #[error("a condition is one expression: put ${{{{ }}}} around all of it, or leave it out")]
    Half,
    /// A literal has no end.
    #[error("unterminated literal in condition")]
    Unterminated,
    /// A sign has no meaning here.
    #[error("unexpected {} in condition", quoted(.0))]
    Unexpected(String),
    /// It ends too early.
    #[error("condition ends too early")]
    Ended,
    /// A text or reference stands where a truth is asked for.
    #[error("{} alone is no condition; compare it, for example {text} == 'true'", quoted(.text))]
    Alone {
        /// What stands alone.
        text: String,
    },
    /// Brackets or negations are nested too deep.
    #[error("condition is nested deeper than {0}")]
    Nested(usize),
    /// A function that does not exist.
    #[error("unknown function {} in condition", quoted(.0))]
    UnknownFunction(String),
    /// A name that does not exist, or that may not be read here.
    #[error("{0}")]
    Reference(String),
    /// A registered function refuses its arguments.
    #[error("function {} failed: {said}", quoted(.name))]
    Function {
        /// Name of the function.
        name: String,
        /// What it says.
        said: String,
    },
}

/// What a condition asks.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Node {
    Constant(bool),
    Status(StatusFunction),
    Compare {
        left: Operand,
        right: Operand,
        equal: bool,
    },
    Not(Box<Node>),
    All(Vec<Node>),
    Any(Vec<Node>),
}

/// A text, or where one is read.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Operand {
    Text(String),
    Reference(String),
    Call(String, Vec<Operand>),
}

/// A question about what came before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusFunction {
    /// `success()`.
    Success,
    /// `failure()`.
    Failure,
    /// `cancelled()`.
    Cancelled,
    /// `always()`.
    Always,
}

impl StatusFunction {
    fn named(name: &str) -> Option<Self> {
        match name {
            "success" => Some(Self::Success),
            "failure" => Some(Self::Failure),
            "cancelled" => Some(Self::Cancelled),
            "always" => Some(Self::Always),
            _ => None,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Failure => "failure",
            Self::Cancelled => "cancelled",
            Self::Always => "always",
        }
    }
}

/// How one source ended, as conditions see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It succeeded, or its failure is allowed.
    Success,
    /// It failed or timed out.
    Failure,
    /// It was cancelled.
    Cancelled,
    /// It was skipped; `behind_failure` when a failed job is the cause.
    Skipped {
        /// Whether a failed job is the cause.
        behind_failure: bool,
    },
}

impl Ended {
    /// Returns the word of `needs.<job>.result` and `steps.<step>.conclusion`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Failure => "failure",
            Self::Cancelled => "cancelled",
            Self::Skipped { .. } => "skipped",
        }
    }
}

/// What all sources together came to: the table of this module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcomes {
    /// All succeeded.
    pub success: bool,
    /// One failed.
    pub failure: bool,
    /// One was cancelled.
    pub cancelled: bool,
}

impl Outcomes {
    /// Adds up how the `needs` of a job ended.
    pub fn of_jobs(needs: impl IntoIterator<Item = Ended>) -> Self {
        let mut all = Self {
            success: true,
            failure: false,
            cancelled: false,
        };
        for need in needs {
            all.success &= need == Ended::Success;
            all.failure |= matches!(
                need,
                Ended::Failure
                    | Ended::Skipped {
                        behind_failure: true
                    }
            );
            all.cancelled |= need == Ended::Cancelled;
        }
        all
    }

    /// Adds up how the earlier steps of a step ended; skipped ones do not count.
    pub fn of_steps(steps: impl IntoIterator<Item = Ended>) -> Self {
        let counts = |step: &Ended| !matches!(step, Ended::Skipped { .. });
        Self::of_jobs(steps.into_iter().filter(counts))
    }

    /// Answers a status function.
    pub fn say(self, function: StatusFunction) -> bool {
        match function {
            StatusFunction::Success => self.success,
            StatusFunction::Failure => self.failure,
            StatusFunction::Cancelled => self.cancelled,
            StatusFunction::Always => true,
        }
    }
}

/// What a condition is decided from.
pub trait Facts {
    /// How the sources ended.
    fn outcomes(&self) -> Outcomes;

    /// Reads a reference; a known output that was not written is empty.
    ///
    /// # Errors
    ///
    /// Fails on a name that does not exist or may not be read here.
    fn read(&self, reference: &str) -> Result<String, ConditionError>;

    /// Calls a registered function.
    ///
    /// # Errors
    ///
    /// Fails when there is none of that name, or when it refuses its arguments.
    fn call(&self, name: &str, _arguments: &[String]) -> Result<String, ConditionError> {
        Err(ConditionError::UnknownFunction(name.to_owned()))
    }
}

impl Condition {
    /// Reads the text of an `if`.
    ///
    /// # Errors
    ///
    /// The first thing that is wrong with it.
    pub fn parse(text: &str) -> Result<Self, ConditionError> {
        let root = parse::condition(text)?;
        Ok(Self { root })
    }

    /// Tells whether a status function occurs.
    pub fn asks_status(&self) -> bool {
        self.root.any(&|node| matches!(node, Node::Status(_)))
    }

    /// Tells whether it asks how sources ended, by a status function or by reading it; if not,
    /// `success()` is asked as well.
    pub(crate) fn asks_ends(&self) -> bool {
        self.asks_status() || self.references().into_iter().any(is_end)
    }

    /// Decides; parts that no longer matter are not read.
    ///
    /// # Errors
    ///
    /// The first reference or function that cannot be read.
    pub fn holds(&self, facts: &dyn Facts) -> Result<bool, ConditionError> {
        if !self.asks_ends() && !facts.outcomes().success {
            return Ok(false);
        }
        self.root.holds(facts)
    }

    /// Lists the references, in reading order.
    pub fn references(&self) -> Vec<&str> {
        let mut found = Vec::new();
        self.root.operands(&mut |operand| {
            if let Operand::Reference(name) = operand {
                found.push(name.as_str());
            }
        });
        found
    }

    /// Lists the functions that are called with arguments, in reading order.
    pub fn functions(&self) -> Vec<&str> {
        let mut found = Vec::new();
        self.root.operands(&mut |operand| {
            if let Operand::Call(name, _) = operand {
                found.push(name.as_str());
            }
        });
        found
    }

    /// Replaces references below `prefix`, such as `inputs.`, by their values, which stay data (W-26).
    ///
    /// # Errors
    ///
    /// Returns the first name that has no value.
    pub fn bind(mut self, prefix: &str, values: &BTreeMap<String, String>) -> Result<Self, String> {
        let mut unknown = None;
        self.root.operands_mut(&mut |operand| {
            let Operand::Reference(reference) = operand else {
                return;
            };
            let Some(name) = reference.strip_prefix(prefix) else {
                return;
            };
            match values.get(name) {
                Some(value) => *operand = Operand::Text(value.clone()),
                None => unknown = unknown.take().or(Some(name.to_owned())),
            }
        });
        unknown.map_or(Ok(self), Err)
    }
}

/// Tells whether a reference reads how one source ended.
fn is_end(text: &str) -> bool {
    use crate::graph::{Reference, reference};
    let read = reference(text);
    matches!(read, Reference::JobResult(_) | Reference::StepResult(..))
}

impl Node {
    fn holds(&self, facts: &dyn Facts) -> Result<bool, ConditionError> {
        match self {
            Self::Constant(value) => Ok(*value),
            Self::Status(function) => Ok(facts.outcomes().say(*function)),
            Self::Compare { left, right, equal } => {
                Ok((left.value(facts)? == right.value(facts)?) == *equal)
            }
            Self::Not(inner) => Ok(!inner.holds(facts)?),
            Self::All(parts) => {
                for part in parts {
                    if !part.holds(facts)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Self::Any(parts) => {
                for part in parts {
                    if part.holds(facts)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
        }
    }

    fn any(&self, wanted: &dyn Fn(&Self) -> bool) -> bool {
        wanted(self)
            || match self {
                Self::Not(inner) => inner.any(wanted),
                Self::All(parts) | Self::Any(parts) => parts.iter().any(|part| part.any(wanted)),
                Self::Constant(_) | Self::Status(_) | Self::Compare { .. } => false,
            }
    }

    fn operands<'a>(&'a self, see: &mut dyn FnMut(&'a Operand)) {
        match self {
            Self::Constant(_) | Self::Status(_) => {}
            Self::Compare { left, right, .. } => {
                left.visit(see);
                right.visit(see);
            }
            Self::Not(inner) => inner.operands(see),
            Self::All(parts) | Self::Any(parts) => {
                for part in parts {
                    part.operands(see);
                }
            }
        }
    }

    fn operands_mut(&mut self, change: &mut dyn FnMut(&mut Operand)) {
        match self {
            Self::Constant(_) | Self::Status(_) => {}
            Self::Compare { left, right, .. } => {
                left.visit_mut(change);
                right.visit_mut(change);
            }
            Self::Not(inner) => inner.operands_mut(change),
            Self::All(parts) | Self::Any(parts) => {
                for part in parts {
                    part.operands_mut(change);
                }
            }
        }
    }
}

impl Operand {
    fn value(&self, facts: &dyn Facts) -> Result<String, ConditionError> {
        match self {
            Self::Text(text) => Ok(text.clone()),
            Self::Reference(reference) => facts.read(reference),
            Self::Call(name, arguments) => {
                let arguments: Result<Vec<_>, _> =
                    arguments.iter().map(|one| one.value(facts)).collect();
                facts.call(name, &arguments?)
            }
        }
    }

    fn visit<'a>(&'a self, see: &mut dyn FnMut(&'a Self)) {
        see(self);
        if let Self::Call(_, arguments) = self {
            for argument in arguments {
                argument.visit(see);
            }
        }
    }

    fn visit_mut(&mut self, change: &mut dyn FnMut(&mut Self)) {
        change(self);
        if let Self::Call(_, arguments) = self {
            for argument in arguments {
                argument.visit_mut(change);
            }
        }
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.root.fmt(f)
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let joined = |f: &mut fmt::Formatter<'_>, parts: &[Self], sign: &str| {
            for (index, part) in parts.iter().enumerate() {
                let before = if index == 0 { "" } else { sign };
                match part {
                    Self::All(_) | Self::Any(_) => write!(f, "{before}({part})")?,
                    Self::Constant(_) | Self::Status(_) | Self::Compare { .. } | Self::Not(_) => {
                        write!(f, "{before}{part}")?;
                    }
                }
            }
            Ok(())
        };
        match self {
            Self::Constant(value) => write!(f, "{value}"),
            Self::Status(function) => write!(f, "{}()", function.as_str()),
            Self::Compare { left, right, equal } => {
                write!(f, "{left} {} {right}", if *equal { "==" } else { "!=" })
            }
            Self::Not(inner) => write!(f, "!({inner})"),
            Self::All(parts) => joined(f, parts, " && "),
            Self::Any(parts) => joined(f, parts, " || "),
        }
    }
}

impl fmt::Display for Operand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => write!(f, "'{}'", text.replace('\'', "''")),
            Self::Reference(reference) => f.write_str(reference),
            Self::Call(name, arguments) => {
                write!(f, "{name}(")?;
                for (index, argument) in arguments.iter().enumerate() {
                    write!(f, "{}{argument}", if index == 0 { "" } else { ", " })?;
                }
                f.write_str(")")
            }
        }
    }
}

#[cfg(test)]
mod tests;
