//! Extension points: each off by default, each reachable without a fork (section 18.1).
//!
//! [`Extensions`] is one value of an engine's policy. It says which fields of a
//! definition are accepted ([`Extension`]), and carries what an embedder plugs
//! in: a predicate, an order of jobs, contexts and functions of expressions, types
//! of inputs, forms of references. An engine without an extension refuses its
//! fields by name ([`refuse`]), exactly as it refuses what it never heard of (W-6).
//!
//! ```
//! use kruntimes_workflow::extend::{Extension, Extensions};
//!
//! let extensions: Extensions = "conditions,matrix".parse().unwrap();
//! assert!(extensions.has(Extension::Matrix) && !extensions.has(Extension::Timeouts));
//! assert_eq!(extensions.to_string(), "conditions,matrix");
//! ```

mod fields;
mod plugin;

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use kruntimes_core::message::quoted;

pub(crate) use fields::refuse_strategy;
pub use fields::{refuse, refuse_spec, refuse_steps};
pub use plugin::{Choose, Plugin, Predicate, Subject, Verdict};

use crate::bind::InputTypes;
use crate::expr::Contexts;
use crate::graph::References;

/// Fields of definitions that an engine may accept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Extension {
    /// `if` of jobs and steps (W-198).
    Conditions,
    /// `continueOnError` of jobs and steps (W-199).
    ContinueOnError,
    /// `strategy.failFast` (W-199).
    FailFast,
    /// `retry` of steps (W-199).
    StepRetry,
    /// `matrix` of jobs (W-200).
    Matrix,
    /// `gate` of jobs and steps, `suspend` and `decisions` (W-202).
    Gates,
    /// `strategy.maxParallel` (W-203).
    MaxParallel,
    /// `strategy.concurrency` (W-203).
    Concurrency,
    /// `reuse` (W-207).
    Rerun,
    /// `timeout` of steps, jobs and the whole (W-209).
    Timeouts,
}

impl Extension {
    /// Every extension, in the order of the specification.
    pub const ALL: [Self; 10] = [
        Self::Conditions,
        Self::ContinueOnError,
        Self::FailFast,
        Self::StepRetry,
        Self::Matrix,
        Self::Gates,
        Self::MaxParallel,
        Self::Concurrency,
        Self::Rerun,
        Self::Timeouts,
    ];

    /// Returns the word of flags and messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Conditions => "conditions",
            Self::ContinueOnError => "continue-on-error",
            Self::FailFast => "fail-fast",
            Self::StepRetry => "step-retry",
            Self::Matrix => "matrix",
            Self::Gates => "gates",
            Self::MaxParallel => "max-parallel",
            Self::Concurrency => "concurrency",
            Self::Rerun => "rerun",
            Self::Timeouts => "timeouts",
        }
    }
}

impl fmt::Display for Extension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A word that names no extension.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown workflow extension {}, expected all or some of {}", quoted(.0), names())]
pub struct UnknownExtension(String);

fn names() -> String {
    Extension::ALL.map(Extension::as_str).join(", ")
}

impl FromStr for Extension {
    type Err = UnknownExtension;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        let mut all = Self::ALL.into_iter();
        let found = all.find(|one| one.as_str() == word);
        found.ok_or_else(|| UnknownExtension(word.to_owned()))
    }
}

/// What an engine accepts beyond the built-in API, and what is plugged into it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extensions {
    on: BTreeSet<Extension>,
    /// Decides about jobs and steps beside their `if` (W-198).
    pub predicate: Option<Plugin<dyn Predicate>>,
    /// Orders jobs that wait for a place among the parallel ones (W-203); by name unless given.
    pub choose: Option<Plugin<dyn Choose>>,
    /// Contexts and functions of expressions (W-201).
    pub contexts: Arc<Contexts>,
    /// Types of inputs beyond `string` (W-206).
    pub input_types: InputTypes,
    /// What `uses` may say beyond local names (W-205).
    pub references: References,
}

impl Extensions {
    /// Nothing beyond the built-in API.
    pub fn none() -> Self {
        Self::default()
    }

    /// Every extension of the API; nothing is plugged in.
    pub fn all() -> Self {
        Extension::ALL.into_iter().collect()
    }

    /// Adds one.
    pub fn with(mut self, extension: Extension) -> Self {
        self.on.insert(extension);
        self
    }

    /// Tells whether one is on.
    pub fn has(&self, extension: Extension) -> bool {
        self.on.contains(&extension)
    }

    /// Tells whether none of the API is on.
    pub fn is_empty(&self) -> bool {
        self.on.is_empty()
    }
}

impl FromIterator<Extension> for Extensions {
    fn from_iter<I: IntoIterator<Item = Extension>>(extensions: I) -> Self {
        Self {
            on: extensions.into_iter().collect(),
            ..Self::default()
        }
    }
}

impl FromStr for Extensions {
    type Err = UnknownExtension;

    /// Reads a list with commas; `all` is every one, an empty text none.
    fn from_str(list: &str) -> Result<Self, Self::Err> {
        let words = list.split(',').map(str::trim);
        let words = words.filter(|word| !word.is_empty());
        let mut on = BTreeSet::new();
        for word in words {
            match word {
                "all" => on.extend(Extension::ALL),
                word => {
                    on.insert(word.parse()?);
                }
            }
        }
        Ok(on.into_iter().collect())
    }
}

impl fmt::Display for Extensions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, extension) in self.on.iter().enumerate() {
            write!(f, "{}{extension}", if index == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_and_written() {
        let all: Extensions = "all".parse().unwrap();
        assert_eq!(all, Extensions::all());
        assert_eq!(all.to_string().parse::<Extensions>().unwrap(), all);
        assert!("".parse::<Extensions>().unwrap().is_empty());
        let error = "matrix, loops".parse::<Extensions>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "unknown workflow extension \"loops\", expected all or some of conditions, continue-on-error, \
             fail-fast, step-retry, matrix, gates, max-parallel, concurrency, rerun, timeouts"
        );
    }
}
