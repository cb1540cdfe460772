//! Artifacts: what a task leaves behind, kept in a store, and handed to others (node, sections 6.4 and 12).

mod archive;
mod collect;
mod content;
mod digest;
mod download;
mod filesystem;
mod inputs;
mod maintain;
mod reference;
mod s3;
mod settings;
mod store;

use std::sync::Arc;

pub(crate) use collect::{Collected, Collection, discard, order, spawn};
pub(crate) use download::Downloads;
pub use filesystem::{FilesystemStore, SettingsError};
pub(crate) use inputs::{Inputs, stage};
pub use maintain::{MaintainError, Maintainer, maintain};
pub use s3::S3Store;
pub use settings::ArtifactSettings;
pub use store::{About, Content, Item, Store, StoreError, Stored};

/// Entries of a Run's staging directory (N-136).
pub(crate) const COUNT_MAX: usize = 32;
/// Default limit of one artifact.
pub const ARTIFACT_MAX_BYTES: u64 = 1 << 30;
/// Default limit of all artifacts of a Run.
pub const ARTIFACTS_MAX_BYTES: u64 = 10 << 30;

/// Where artifacts go and how large they may be.
#[derive(Clone)]
pub struct Artifacts {
    /// The store of the Runtime.
    pub store: Arc<dyn Store>,
    /// Stored bytes of one artifact (N-140).
    pub one_max_bytes: u64,
    /// Stored bytes of all artifacts of a Run, and bytes one input may extract to (N-59, N-140).
    pub all_max_bytes: u64,
}

impl Artifacts {
    /// Uses a store with the usual limits.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            one_max_bytes: ARTIFACT_MAX_BYTES,
            all_max_bytes: ARTIFACTS_MAX_BYTES,
        }
    }
}

impl std::fmt::Debug for Artifacts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Artifacts")
            .field("store", &self.store.settings())
            .field("one_max_bytes", &self.one_max_bytes)
            .field("all_max_bytes", &self.all_max_bytes)
            .finish()
    }
}
