//! Definitions from elsewhere, under explicit policy (W-205).

use kruntimes_core::api::{ActionSpec, WorkflowSpec};

use super::Source;
use crate::graph::References;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Why a definition cannot be looked for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResolveError {
    /// The source that a reference belongs to failed.
    #[error("the source of {} failed", kruntimes_core::message::quoted(.reference))]
    Source {
        /// What was asked for.
        reference: String,
        /// What it says.
        source: BoxError,
    },
}

trait Boxed {
    fn workflow(&mut self, name: &str) -> Result<Option<WorkflowSpec>, BoxError>;
    fn action(&mut self, name: &str) -> Result<Option<ActionSpec>, BoxError>;
}

impl<S: Source> Boxed for S {
    fn workflow(&mut self, name: &str) -> Result<Option<WorkflowSpec>, BoxError> {
        Source::workflow(self, name).map_err(Into::into)
    }

    fn action(&mut self, name: &str) -> Result<Option<ActionSpec>, BoxError> {
        Source::action(self, name).map_err(Into::into)
    }
}

/// Looks for definitions where their reference points: local names here, others by their prefix.
///
/// [`Resolver::references`] says which forms `uses` may have; hand that to the
/// driver's extensions, for nothing else is allowed by default.
pub struct Resolver {
    local: Box<dyn Boxed + Send>,
    others: Vec<(String, Box<dyn Boxed + Send>)>,
}

impl Resolver {
    /// Only local names.
    pub fn new(local: impl Source + Send + 'static) -> Self {
        Self {
            local: Box::new(local),
            others: Vec::new(),
        }
    }

    /// Adds a source for references that begin so; it is asked for the rest of them.
    pub fn with(mut self, prefix: &str, source: impl Source + Send + 'static) -> Self {
        self.others.push((prefix.to_owned(), Box::new(source)));
        self
    }

    /// Returns which references it can look for.
    pub fn references(&self) -> References {
        let prefixes = self.others.iter().map(|(prefix, _)| prefix);
        prefixes.fold(References::local(), |all, prefix| all.with_prefix(prefix))
    }

    fn ask<T>(
        &mut self,
        reference: &str,
        ask: impl FnOnce(&mut dyn Boxed, &str) -> Result<T, BoxError>,
    ) -> Result<T, ResolveError> {
        let mut others = self.others.iter_mut();
        let found = others.find_map(|(prefix, source)| {
            let rest = reference.strip_prefix(prefix.as_str())?;
            Some((source, rest))
        });
        let (source, name) = found.unwrap_or((&mut self.local, reference));
        ask(source.as_mut(), name).map_err(|source| ResolveError::Source {
            reference: reference.to_owned(),
            source,
        })
    }
}

impl Source for Resolver {
    type Error = ResolveError;

    fn workflow(&mut self, name: &str) -> Result<Option<WorkflowSpec>, ResolveError> {
        self.ask(name, |source, name| source.workflow(name))
    }

    fn action(&mut self, name: &str) -> Result<Option<ActionSpec>, ResolveError> {
        self.ask(name, |source, name| source.action(name))
    }
}
