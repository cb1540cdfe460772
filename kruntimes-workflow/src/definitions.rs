//! The reusable definitions a decision may look at, as far as they were read.
//!
//! Deciding never reads anything itself: what is missing is named, the caller
//! reads it, adds it here and asks again (W-183).

use std::collections::BTreeMap;
use std::sync::Arc;

use kruntimes_core::api::{ActionSpec, WorkflowSpec};

/// Workflows and Actions of one namespace. An entry without a spec was looked for and does not exist.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Definitions {
    /// Workflows by name.
    pub workflows: BTreeMap<String, Option<Arc<WorkflowSpec>>>,
    /// Actions by name.
    pub actions: BTreeMap<String, Option<Arc<ActionSpec>>>,
}

/// What is known about one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup<'a, T> {
    /// Nobody looked yet.
    Unread,
    /// There is no such object.
    Absent,
    /// Its spec.
    Found(&'a Arc<T>),
}

impl Definitions {
    /// Adds a Workflow that was read.
    pub fn with_workflow(mut self, name: &str, spec: WorkflowSpec) -> Self {
        self.workflows.insert(name.to_owned(), Some(Arc::new(spec)));
        self
    }

    /// Adds an Action that was read.
    pub fn with_action(mut self, name: &str, spec: ActionSpec) -> Self {
        self.actions.insert(name.to_owned(), Some(Arc::new(spec)));
        self
    }

    /// Looks a Workflow up.
    pub fn workflow(&self, name: &str) -> Lookup<'_, WorkflowSpec> {
        lookup(&self.workflows, name)
    }

    /// Looks an Action up.
    pub fn action(&self, name: &str) -> Lookup<'_, ActionSpec> {
        lookup(&self.actions, name)
    }
}

fn lookup<'a, T>(known: &'a BTreeMap<String, Option<Arc<T>>>, name: &str) -> Lookup<'a, T> {
    match known.get(name) {
        None => Lookup::Unread,
        Some(None) => Lookup::Absent,
        Some(Some(spec)) => Lookup::Found(spec),
    }
}
