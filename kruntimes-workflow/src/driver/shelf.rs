//! Definitions in memory.

use std::collections::BTreeMap;

use kruntimes_core::api::{ActionSpec, WorkflowSpec};

use super::{NeverFails, Source};

/// Reusable definitions by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shelf {
    workflows: BTreeMap<String, WorkflowSpec>,
    actions: BTreeMap<String, ActionSpec>,
}

impl Shelf {
    /// Adds a Workflow.
    pub fn with_workflow(mut self, name: &str, spec: WorkflowSpec) -> Self {
        self.workflows.insert(name.to_owned(), spec);
        self
    }

    /// Adds an Action.
    pub fn with_action(mut self, name: &str, spec: ActionSpec) -> Self {
        self.actions.insert(name.to_owned(), spec);
        self
    }

    /// Takes the reusable definitions of a file; WorkflowRuns are left out.
    #[cfg(feature = "yaml")]
    pub fn with_definitions(
        self,
        definitions: impl IntoIterator<Item = crate::yaml::Definition>,
    ) -> Self {
        use crate::yaml::Definition;

        definitions.into_iter().fold(self, |shelf, one| match one {
            Definition::Workflow(named) => shelf.with_workflow(&named.name, named.spec),
            Definition::Action(named) => shelf.with_action(&named.name, named.spec),
            Definition::WorkflowRun(_) => shelf,
        })
    }
}

impl Source for Shelf {
    type Error = NeverFails;

    fn workflow(&mut self, name: &str) -> Result<Option<WorkflowSpec>, NeverFails> {
        Ok(self.workflows.get(name).cloned())
    }

    fn action(&mut self, name: &str) -> Result<Option<ActionSpec>, NeverFails> {
        Ok(self.actions.get(name).cloned())
    }
}
