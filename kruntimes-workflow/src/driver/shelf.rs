//! Definitions in memory.

use std::collections::BTreeMap;

use kruntimes_core::api::WorkflowSpec;

use super::{NeverFails, Source};

/// Reusable definitions by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shelf {
    workflows: BTreeMap<String, WorkflowSpec>,
}

impl Shelf {
    /// Adds a Workflow.
    pub fn with_workflow(mut self, name: &str, spec: WorkflowSpec) -> Self {
        self.workflows.insert(name.to_owned(), spec);
        self
    }

    /// Takes the Workflows of a file; everything else is left out.
    #[cfg(feature = "yaml")]
    pub fn with_definitions(
        self,
        definitions: impl IntoIterator<Item = crate::yaml::Definition>,
    ) -> Self {
        use crate::yaml::Definition;

        definitions.into_iter().fold(self, |shelf, one| match one {
            Definition::Workflow(named) => shelf.with_workflow(&named.name, named.spec),
            Definition::Action(_) | Definition::WorkflowRun(_) => shelf,
        })
    }
}

impl Source for Shelf {
    type Error = NeverFails;

    fn workflow(&mut self, name: &str) -> Result<Option<WorkflowSpec>, NeverFails> {
        Ok(self.workflows.get(name).cloned())
    }
}
