//! What a store of artifacts has to do, whatever it is made of.

use std::io::{self, Read, Seek};

use kruntimes_core::api::{ArtifactLocation, ArtifactRef, ArtifactStore};

/// Which artifact of which Run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item<'a> {
    /// Namespace of the Run.
    pub namespace: &'a str,
    /// UID of the Run.
    pub run_uid: &'a str,
    /// Name of the artifact.
    pub name: &'a str,
    /// What is told beside the bytes, where the store can tell it.
    pub about: About<'a>,
}

/// What people and lifecycle rules may want to know of an artifact (N-160).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct About<'a> {
    /// Name of the Run.
    pub run_name: &'a str,
    /// Runtime of the Run.
    pub runtime: &'a str,
    /// `file` or `directory`.
    pub kind: &'a str,
    /// Media type of the bytes.
    pub content_type: &'a str,
    /// How long the Run is kept after its end.
    pub retention_seconds: Option<i64>,
}

/// Bytes to be stored, which may be read more than once.
pub trait Content: Read + Seek {}

impl<T: Read + Seek> Content for T {}

/// What was stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Where it is, as references tell it.
    pub location: ArtifactLocation,
    /// How many bytes it has.
    pub size_bytes: u64,
    /// `sha256:` and 64 hex digits of the bytes.
    pub digest: String,
}

/// Why a store did not do what it was asked to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The artifact breaks a rule; trying again cannot help.
    #[error("{0}")]
    Invalid(String),
    /// The store or the network failed; trying again may help.
    #[error("artifact store: {what}")]
    Failed {
        /// What was being done.
        what: &'static str,
        /// Why it could not be.
        source: io::Error,
    },
    /// Nobody wants the result any more.
    #[error("abandoned")]
    Abandoned,
}

/// Keeps artifacts. All calls block and are made from threads that may.
pub trait Store: Send + Sync {
    /// Returns the settings in force, without any secret (N-141).
    fn settings(&self) -> ArtifactStore;

    /// Stores what `content` yields, at most `limit` bytes; an older artifact of the name is replaced in one
    /// step, and until then nobody sees anything of the new one.
    ///
    /// # Errors
    ///
    /// [`StoreError::Invalid`] when there is more than `limit`, or when reading fails so; else as the store says.
    fn put(
        &self,
        item: Item<'_>,
        content: &mut dyn Content,
        limit: u64,
    ) -> Result<Stored, StoreError>;

    /// Opens the bytes of a reference for reading.
    ///
    /// # Errors
    ///
    /// [`StoreError::Invalid`] for a reference that is not of this store, before anything is touched.
    fn open(&self, reference: &ArtifactRef) -> Result<Box<dyn Read + Send>, StoreError>;

    /// Removes one artifact; one that is missing is removed already.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    fn delete(&self, reference: &ArtifactRef) -> Result<(), StoreError>;

    /// Removes everything of one Run, what an upload left halfway included.
    ///
    /// # Errors
    ///
    /// When the store cannot be reached or refuses.
    fn delete_run(&self, namespace: &str, run_uid: &str) -> Result<(), StoreError>;
}
