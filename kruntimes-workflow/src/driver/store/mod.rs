//! Stores that are provided.

#[cfg(feature = "directory")]
mod directory;

use std::collections::BTreeMap;

use super::Store;

#[cfg(feature = "directory")]
pub use directory::{DirectoryError, DirectoryStore};

/// The error of what cannot fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NeverFails {}

/// Keeps states as long as the program lives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryStore {
    texts: BTreeMap<String, String>,
}

impl MemoryStore {
    /// Returns the names of everything stored, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.texts.keys().map(String::as_str)
    }
}

impl Store for MemoryStore {
    type Error = NeverFails;

    fn load(&mut self, name: &str) -> Result<Option<String>, NeverFails> {
        Ok(self.texts.get(name).cloned())
    }

    fn save(&mut self, name: &str, text: &str) -> Result<(), NeverFails> {
        self.texts.insert(name.to_owned(), text.to_owned());
        Ok(())
    }
}
