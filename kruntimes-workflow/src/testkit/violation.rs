//! What the explorer reports.

use std::fmt;

/// A rule of the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Rule {
    /// A definition is accepted and its turns can be calculated.
    Calculates,
    /// No child is created twice.
    CreatedOnce,
    /// No child is asked to cancel twice.
    AskedOnce,
    /// No job begins before everything it needs has succeeded.
    NeedsFirst,
    /// Equal states give equal decisions, whatever the order of the observations.
    OrderIndependent,
    /// A final phase never changes, and nothing is started behind it.
    TerminalIsStable,
    /// When no child is left, the end is reached.
    Finishes,
    /// No job is left running under an end.
    NoJobLeftRunning,
    /// Every order and every crash leads to the same end.
    SameEnd,
    /// The number of worlds stays below the limit that was set.
    Bounded,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Calculates => "the turn can be calculated",
            Self::CreatedOnce => "no child is created twice",
            Self::AskedOnce => "no child is asked to cancel twice",
            Self::NeedsFirst => "no job begins before what it needs has succeeded",
            Self::OrderIndependent => "the order of observations does not matter",
            Self::TerminalIsStable => "an end never changes",
            Self::Finishes => "the end is reached when no child is left",
            Self::NoJobLeftRunning => "no job is left running under an end",
            Self::SameEnd => "every order and every crash leads to the same end",
            Self::Bounded => "the number of worlds stays below the limit",
        })
    }
}

/// A broken rule and the way that leads there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{rule}: {found}\n  after {}", .way.join("\n  after "))]
pub struct Violation {
    /// The rule.
    pub rule: Rule,
    /// What was found instead.
    pub found: String,
    /// What happened, from the beginning.
    pub way: Vec<String>,
}
